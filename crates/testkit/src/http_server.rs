// SPDX-License-Identifier: GPL-2.0-or-later
//! An HTTP/1.1 server of threads, which answers by a script and shares no code with the client.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// A request, names of fields in small letters.
#[derive(Debug, Clone)]
pub struct Request {
    /// As on the request line.
    pub method: String,
    /// As on the request line.
    pub target: String,
    /// The header section, by names in lower case.
    pub fields: BTreeMap<String, String>,
    /// What came behind the header section at once.
    pub rest: Vec<u8>,
}

impl Request {
    /// The value of a field; empty if it is not there.
    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    /// `bytes=A-` or `bytes=A-B`: the first byte, and the one after the last.
    pub fn range(&self) -> Option<(usize, Option<usize>)> {
        let (first, last) = self.field("range").strip_prefix("bytes=")?.split_once('-')?;
        let last = if last.is_empty() { None } else { Some(last.parse::<usize>().unwrap() + 1) };
        Some((first.parse().unwrap(), last))
    }
}

/// A connection to answer on.
pub struct Conn {
    /// The connection.
    pub stream: TcpStream,
    abrupt: bool,
}

impl Conn {
    /// Sends text or bytes; a client that has gone is not an error of the test.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    /// Sends a header section.
    pub fn head(&mut self, status: &str, fields: &[(&str, &str)]) {
        let mut text = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
        for (name, value) in fields {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        self.send(text + "\r\n");
    }

    /// Answers with a body of known length.
    pub fn answer(&mut self, status: &str, fields: &[(&str, &str)], body: &[u8]) {
        let length = body.len().to_string();
        let mut all = vec![("Content-Length", length.as_str())];
        all.extend(fields);
        self.head(status, &all);
        self.send(body);
    }

    /// Reads a request's body to its end, so that an answer does not come before it.
    pub fn take_body(&mut self, request: &Request) {
        let length: u64 = request.field("content-length").parse().unwrap_or(0);
        let left = length.saturating_sub(request.rest.len() as u64);
        let _ = std::io::copy(&mut (&self.stream).take(left), &mut std::io::sink());
    }

    /// Ends with a reset instead of an end.
    pub fn reset(&mut self) {
        // What has been sent should arrive first: a reset discards it.
        thread::sleep(Duration::from_millis(30));
        let linger = rustix::net::sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO));
        linger.unwrap();
        self.abrupt = true;
    }

    /// Waits until the client has gone, for a while at most.
    pub fn hang(&mut self, most: Duration) {
        let _ = self.stream.set_read_timeout(Some(most));
        let mut buffer = [0; 1024];
        while matches!(self.stream.read(&mut buffer), Ok(1..)) {}
    }
}

/// A server, until it is dropped.
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    /// What it was asked so far.
    pub requests: Arc<Mutex<Vec<Request>>>,
    stopped: Arc<AtomicBool>,
}

impl Server {
    /// Answers each request by `script`, which gets the number of those before it.
    pub fn start(script: impl Fn(usize, &Request, &mut Conn) + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0", script)
    }

    /// The same at this address.
    pub fn start_at(
        address: &str,
        script: impl Fn(usize, &Request, &mut Conn) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let stopped = Arc::new(AtomicBool::new(false));
        let (known, ended, script) =
            (Arc::clone(&requests), Arc::clone(&stopped), Arc::new(script));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if ended.load(Ordering::Relaxed) {
                    break;
                }
                let (known, script) = (Arc::clone(&known), Arc::clone(&script));
                thread::spawn(move || {
                    let mut conn = Conn { stream, abrupt: false };
                    let _ = conn.stream.set_write_timeout(Some(Duration::from_secs(10)));
                    let Some(request) = read_request(&mut conn.stream) else { return };
                    let number = {
                        let mut known = known.lock().unwrap();
                        known.push(request.clone());
                        known.len() - 1
                    };
                    script(number, &request, &mut conn);
                    if conn.abrupt {
                        return;
                    }
                    let _ = conn.stream.shutdown(Shutdown::Write);
                    // Closing with bytes unread would be a reset, and a busy client may take its time.
                    conn.hang(Duration::from_secs(10));
                });
            }
        });
        Self { address, requests, stopped }
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What it was asked so far.
    pub fn asked(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

fn read_request(stream: &mut TcpStream) -> Option<Request> {
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    let end = loop {
        if let Some(end) = text.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        match stream.read(&mut buffer) {
            Ok(read @ 1..) => text.extend(&buffer[..read]),
            _ => return None,
        }
    };
    let rest = text.split_off(end);
    let text = String::from_utf8(text).unwrap();
    let mut lines = text.lines();
    let mut words = lines.next()?.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let fields = lines.filter_map(|line| line.split_once(": "));
    let fields = fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
    Some(Request { method, target, fields: fields.collect(), rest })
}
