// SPDX-License-Identifier: GPL-2.0-or-later
//! TLS clients that come while depots take over from each other, are reloaded, and are restarted with systemd's
//! sockets: none sees a connection cut in its handshake, or a refusal.

use crate::common::{PATIENCE, client::connect, pki::Pki, process::Daemon, scripted::Scripted};
use rustix::process::Signal;
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};
use testkit::until;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, Stream, pki_types::ServerName};

const SERVED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nserved";
const OPEN: &str =
    "[allow]\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]\nlocal = true\n";
/// Clients at a time.
const CLIENTS: usize = 6;

/// One request with a handshake of its own, with pauses where a depot could cut it.
fn ask(config: &Arc<ClientConfig>, depot: SocketAddr, route: &str, pause: Duration) -> String {
    let name = ServerName::from(depot.ip());
    let mut tls = ClientConnection::new(Arc::clone(config), name).unwrap();
    let mut socket = connect(depot);
    thread::sleep(pause);
    while tls.is_handshaking() {
        tls.complete_io(&mut socket)
            .unwrap_or_else(|error| panic!("cut in its handshake: {error}"));
    }
    thread::sleep(pause);
    let mut stream = Stream::new(&mut tls, &mut socket);
    write!(stream, "GET {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap_or_else(|error| panic!("{answer:?}: {error}"));
    answer
}

/// Clients that come one after the other until they are to stop.
struct Crowd {
    stop: Arc<AtomicBool>,
    served: Arc<AtomicUsize>,
    clients: Vec<thread::JoinHandle<()>>,
}

impl Crowd {
    fn new(pki: &Pki, depot: SocketAddr, route: &str) -> Self {
        let (stop, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let config = pki.client_config();
        let client = |n: usize| {
            let (stop, served, route) = (Arc::clone(&stop), Arc::clone(&served), route.to_owned());
            let config = Arc::clone(&config);
            thread::spawn(move || {
                while !stop.load(Relaxed) {
                    let answer = ask(&config, depot, &route, Duration::from_millis(5 * n as u64));
                    assert!(
                        answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("served"),
                        "{answer}"
                    );
                    served.fetch_add(1, Relaxed);
                }
            })
        };
        let clients = (0..CLIENTS).map(client).collect();
        Self { stop, served, clients }
    }

    /// Waits until as many more were served.
    fn await_served(&self, more: usize) {
        let from = self.served.load(Relaxed);
        let ended = || self.clients.iter().any(thread::JoinHandle::is_finished);
        until("clients are served", || ended() || self.served.load(Relaxed) >= from + more);
    }

    fn stop(self) {
        self.stop.store(true, Relaxed);
        for client in self.clients {
            client.join().expect("each client is served");
        }
    }
}

#[test]
fn no_handshake_is_cut_by_takeovers_and_reloads() {
    let (pki, dir) = (Pki::new(), tempfile::tempdir().unwrap());
    let origin = Scripted::answering(SERVED);
    let settings = |address: &str| {
        let handover = dir.path().join("handover").display().to_string();
        let settings = pki.settings("own", &format!("handover = {handover:?}"));
        format!("{}{OPEN}", settings.replace("127.0.0.1:0", address))
    };
    let start = |n: usize, address: &str| {
        Daemon::of_file(&dir.path().join(format!("{n}.toml")), &settings(address))
    };
    let mut depot = start(0, "127.0.0.1:0");
    let crowd = Crowd::new(&pki, depot.address, &origin.route("-", "/"));
    for n in 1..=8 {
        crowd.await_served(CLIENTS);
        depot.signal(Signal::HUP);
        let next = start(n, &depot.authority());
        next.signal(Signal::HUP);
        crowd.await_served(CLIENTS);
        assert_eq!(depot.wait().code(), Some(0));
        depot = next;
    }
    crowd.stop();
}

#[test]
fn no_handshake_is_cut_by_restarts_with_systemd_sockets() {
    let pki = Pki::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let origin = Scripted::answering(SERVED);
    let settings = pki.settings("own", "").replace("127.0.0.1:0", &address.to_string());
    let settings = format!("{settings}{OPEN}");
    let mut depot = Daemon::activated(&listener, &settings);
    let crowd = Crowd::new(&pki, address, &origin.route("-", "/"));
    for _ in 0..8 {
        crowd.await_served(CLIENTS);
        depot.signal(Signal::HUP);
        depot.signal(Signal::TERM);
        assert_eq!(depot.wait().code(), Some(0));
        assert!(depot.log_text().contains("all transfers are finished"), "{}", depot.log_text());
        depot = Daemon::activated(&listener, &settings);
    }
    crowd.stop();
}

#[test]
fn tls_client_is_told_that_the_depot_stops() {
    let pki = Pki::new();
    let mut depot = pki.depot("");
    let (silent, mut begun) = (connect(depot.address), connect(depot.address));
    depot.signal(Signal::TERM);
    depot.await_log(&["stopping"]);
    // One that has connected before makes its handshake, and is told in it.
    begun.set_read_timeout(Some(PATIENCE)).unwrap();
    let name = ServerName::from(depot.address.ip());
    let mut tls = ClientConnection::new(pki.client_config(), name).unwrap();
    let mut stream = Stream::new(&mut tls, &mut begun);
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap_or_else(|error| panic!("{answer:?}: {error}"));
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    // One that says nothing delays the end for seconds only.
    assert_eq!(depot.wait().code(), Some(0));
    assert!(depot.log_text().contains("all transfers are finished"), "{}", depot.log_text());
    drop(silent);
}
