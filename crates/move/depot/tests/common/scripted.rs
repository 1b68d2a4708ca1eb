// SPDX-License-Identifier: GPL-2.0-or-later
//! Origins that do exactly what a test says, right or wrong.

use super::PATIENCE;
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, mpsc},
};

/// An origin whose connections are each handed, with the request's head, to a script.
pub struct Scripted {
    pub address: SocketAddr,
    heads: mpsc::Receiver<String>,
}

impl Scripted {
    pub fn new(script: impl Fn(TcpStream, &str) + Send + Sync + Clone + 'static) -> Self {
        Self::on("127.0.0.1:0", script)
    }

    /// The same on an address of choice.
    pub fn on(
        address: &str,
        script: impl Fn(TcpStream, &str) + Send + Sync + Clone + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, heads) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (script, sender) = (script.clone(), sender.clone());
                std::thread::spawn(move || {
                    stream.set_read_timeout(Some(PATIENCE)).unwrap();
                    stream.set_write_timeout(Some(PATIENCE)).unwrap();
                    if let Some(head) = read_head(&stream) {
                        let _ = sender.send(head.clone());
                        script(stream, &head);
                    }
                });
            }
        });
        Self { address, heads }
    }

    /// Answers every request with these bytes and closes.
    pub fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::new(move |mut stream, _| {
            let _ = stream.write_all(&answer);
        })
    }

    /// The head of the next request that has come.
    pub fn next_head(&self) -> String {
        self.heads.recv_timeout(PATIENCE).expect("a request")
    }

    /// The head of a request that has come already, if any has.
    pub fn try_next_head(&self) -> Option<String> {
        self.heads.try_recv().ok()
    }

    /// The path at a depot that fetches `path` from here through `chain` (`-` for none).
    pub fn route(&self, chain: &str, path: &str) -> String {
        format!("/lh1/fetch/{chain}/http:{}{path}", self.address)
    }
}

/// Something that an origin's script waits for.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    pub fn wait(&self) {
        let open = self.0.0.lock().unwrap();
        drop(self.0.1.wait_timeout_while(open, PATIENCE, |open| !*open).unwrap());
    }
}

/// An origin that sends a head and half of a body, and the rest when told.
pub fn halting(body: &[u8], gate: &Gate) -> Scripted {
    let (body, gate) = (body.to_vec(), gate.clone());
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    Scripted::new(move |mut stream, _| {
        let (first, rest) = body.split_at(body.len() / 2);
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(first).unwrap();
        gate.wait();
        let _ = stream.write_all(rest);
    })
}

/// Reads up to the empty line.
pub fn read_head(mut stream: &TcpStream) -> Option<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    Some(String::from_utf8_lossy(&head).into_owned())
}
