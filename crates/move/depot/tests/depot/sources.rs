// SPDX-License-Identifier: GPL-2.0-or-later
//! The address that a depot's connections leave by (`source`): of every kind, changed by a reload, and refused where
//! it is not this host's.

use crate::common::{
    client::{connect_from, get, read_answer, status},
    network::{ip, own_network},
    noise,
    pki::{Pki, url},
    process::Daemon,
    scripted::{Gate, Scripted, halting},
    sha256,
};
use protocol::{
    Authority,
    http::Method,
    ticket::{Signer, Ticket, TicketRoute, UnixTime},
};
use std::{
    io::Write,
    net::{IpAddr, TcpStream},
    sync::{Arc, Mutex},
    time::SystemTime,
};
use testkit::until;

const OPEN: &str = "[allow]\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\", \"[::1]:*\"]\nlocal = true\n";

/// An origin that keeps its connections, and the addresses that they came from, one for each request.
struct Origin {
    scripted: Scripted,
    callers: Arc<Mutex<Vec<IpAddr>>>,
}

impl Origin {
    fn new() -> Self {
        let callers = Arc::<Mutex<Vec<IpAddr>>>::default();
        let kept = Arc::clone(&callers);
        let scripted = Scripted::new(move |mut stream: TcpStream, _: &str| {
            let caller = stream.peer_addr().unwrap().ip();
            loop {
                kept.lock().unwrap().push(caller);
                let served =
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nserved");
                if served.is_err() || crate::common::scripted::read_head(&stream).is_none() {
                    return;
                }
            }
        });
        Self { scripted, callers }
    }

    /// Asks a depot for this origin; the address by which the request came here.
    fn asked_by(&self, depot: &Daemon) -> String {
        let (head, body, _) = get(depot.address, &self.scripted.route("-", "/"));
        assert_eq!((status(&head), &body[..]), (200, &b"served"[..]), "{head}");
        self.callers.lock().unwrap().last().unwrap().to_string()
    }
}

#[test]
fn connections_use_source_of_most_specific_hop() {
    let origin = Origin::new();
    for (settings, expected) in [
        ("", "127.0.0.1"),
        ("source = [\"127.0.0.5\"]\n", "127.0.0.5"),
        ("source = [\"::1\", \"127.0.0.5\"]\n", "127.0.0.5"),
        ("[[hop]]\npeer = \"127.0.0.0/8\"\nsource = \"127.0.0.6\"\n", "127.0.0.6"),
        (
            "source = [\"127.0.0.5\"]\n[[hop]]\npeer = \"127.0.0.0/8\"\nsource = \"127.0.0.6\"\n\
             [[hop]]\npeer = \"127.0.0.1/32\"\nsource = \"127.0.0.7\"\n",
            "127.0.0.7",
        ),
        // A hop that names none has that of all.
        (
            "source = [\"127.0.0.5\"]\n[[hop]]\npeer = \"127.0.0.0/8\"\ncongestion = \"reno\"\n",
            "127.0.0.5",
        ),
    ] {
        assert_eq!(origin.asked_by(&Daemon::depot(settings)), expected, "{settings}");
    }
}

#[test]
fn reload_with_another_source_opens_other_connections() {
    let (origin, dir) = (Origin::new(), tempfile::tempdir().unwrap());
    let file = dir.path().join("depot.toml");
    let text = |source: &str| format!("listen = [\"127.0.0.1:0\"]\nsource = {source}\n{OPEN}");
    let depot = Daemon::of_file(&file, &text("[\"127.0.0.5\"]"));
    assert_eq!(origin.asked_by(&depot), "127.0.0.5");
    // The connection of the first request waits for the next one.
    depot.read_again(&file, &text("[\"127.0.0.6\"]"));
    assert_eq!(origin.asked_by(&depot), "127.0.0.6");
    depot.read_again(&file, &text("[]"));
    assert_eq!(origin.asked_by(&depot), "127.0.0.1");
    // An address that is not this host's changes nothing.
    std::fs::write(&file, text("[\"192.0.2.77\"]")).unwrap();
    depot.signal(rustix::process::Signal::HUP);
    depot.await_log(&["the configuration stays as it was", "`source` is 192.0.2.77"]);
    assert_eq!(origin.asked_by(&depot), "127.0.0.1");
}

/// A depot that serves, and believes, those alone who come from 127.0.0.5.
fn far_for_source(more: &str) -> Daemon {
    Daemon::depot_with(&format!(
        "id = \"far\"\nlisten = [\"127.0.0.1:0\"]\ntrust.depots = [\"127.0.0.5/32\"]\n{more}\n\
         [admin]\nlisten = \"127.0.0.1:0\"\n\
         [allow]\nclients = [\"127.0.0.5/32\"]\nupstreams = [\"127.0.0.0/8:*\"]\nlocal = true\n"
    ))
}

fn near(hop: &str) -> Daemon {
    Daemon::depot(&format!(
        "id = \"near\"\nsource = [\"127.0.0.5\"]\ntrust.depots = [\"127.0.0.0/8\"]\n\
         [admin]\nlisten = \"127.0.0.1:0\"\n[[hop]]\npeer = \"127.0.0.0/8\"\n{hop}"
    ))
}

#[test]
fn stripes_of_a_transfer_use_the_source() {
    let (near, far, gate) = (near("streams = 3"), far_for_source(""), Gate::default());
    let body = noise(77, 20_000_003);
    let origin = halting(&body, &gate);
    let route = origin.route(&far.authority(), "/");
    let got = std::thread::scope(|scope| {
        let client = scope.spawn(|| get(near.address, &route));
        until("connections join", || {
            let transfers = near.status().transfers;
            let tcp = transfers.first().and_then(|transfer| transfer.upstream_tcp.as_ref());
            tcp.is_some_and(|tcp| tcp.streams == 3)
        });
        gate.open();
        client.join().unwrap()
    });
    assert_eq!((status(&got.0), sha256(&got.1)), (200, sha256(&body)), "{}", got.0);
}

#[test]
fn warm_connections_leave_by_the_source() {
    let (near, far) = (near("warm = 3"), far_for_source(""));
    let origin = Origin::new();
    let (head, ..) = get(near.address, &origin.scripted.route(&far.authority(), "/"));
    assert_eq!(status(&head), 200, "{head}");
    // Three, and that of the request if they were opened before it was over.
    until("the next depot holds them", || far.status().connections.held >= 3);
}

#[test]
fn connections_over_tls_leave_by_the_source() {
    let (pki, body) = (Pki::new(), b"served");
    let nginx = pki.nginx("own", body);
    let near = pki.depot("source = [\"127.0.0.5\"]");
    let got = pki.curl(&["-f", &url(&[near], nginx.address, "/file")]);
    assert_eq!(got.stdout, body, "{}", String::from_utf8_lossy(&got.stderr));
    let log = std::fs::read_to_string(nginx.dir.path().join("access.log")).unwrap();
    assert!(log.contains("127.0.0.5"), "{log}");
}

#[test]
fn source_that_is_not_of_this_host_stops_the_start() {
    for (settings, setting) in [
        ("source = [\"192.0.2.77\"]", "`source` is 192.0.2.77"),
        ("source = [\"127.0.0.5\", \"2001:db8::77\"]", "`source` is 2001:db8::77"),
        (
            "[[hop]]\npeer = \"10.0.0.0/8\"\nsource = \"192.0.2.77\"",
            "[[hop]] peer = \"10.0.0.0/8\": `source` is 192.0.2.77",
        ),
    ] {
        let settings = format!("listen = [\"127.0.0.1:0\"]\n{settings}");
        let log = Daemon::launch("depot", &settings).err().expect("no depot");
        assert!(log.contains(setting) && log.contains("`ip address` lists"), "{settings}: {log}");
    }
}

#[test]
fn lost_source_address_is_named_only_in_the_log() {
    own_network();
    ip("address add 192.0.2.77/32 dev lo");
    let depot = Daemon::depot("source = [\"192.0.2.77\"]");
    let origin = Origin::new();
    assert_eq!(origin.asked_by(&depot), "192.0.2.77");
    ip("address delete 192.0.2.77/32 dev lo");
    // Another origin: the connection to the first one waits.
    let other = Origin::new();
    let (head, body, _) = get(depot.address, &other.scripted.route("-", "/"));
    let answer = head + &String::from_utf8_lossy(&body);
    assert!(answer.starts_with("HTTP/1.1 500"), "{answer}");
    assert!(answer.contains("this host does not have the source address"), "{answer}");
    assert!(!answer.contains("192.0.2.77"), "a client learns the host's addresses: {answer}");
    depot.await_log(&["refused", "this host does not have", "source 192.0.2.77"]);
}

#[test]
fn peers_of_another_family_than_source_are_refused() {
    let depot = Daemon::depot(&format!("source = [\"127.0.0.5\"]\n{OPEN}"));
    let origin = Scripted::on("[::1]:0", |mut stream: TcpStream, _: &str| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    });
    let (head, body, _) = get(depot.address, &origin.route("-", "/"));
    let answer = head + &String::from_utf8_lossy(&body);
    assert!(answer.starts_with("HTTP/1.1 500"), "{answer}");
    assert!(answer.contains("an IPv4 source address, and it has none of that family"), "{answer}");
    assert!(origin.try_next_head().is_none());
    // A name with addresses of both is reached by the one.
    let both = Origin::new();
    let route = format!("/lh1/fetch/-/http:localhost:{}/", both.scripted.address.port());
    let settings = "source = [\"127.0.0.5\"]\n[allow]\nclients = [\"127.0.0.0/8\"]\n\
                    upstreams = [\"localhost:*\"]\nlocal = true\n";
    let (head, ..) =
        get(Daemon::depot_with(&format!("listen = [\"127.0.0.1:0\"]\n{settings}")).address, &route);
    assert_eq!(status(&head), 200, "{head}");
    assert_eq!(both.callers.lock().unwrap()[..], ["127.0.0.5".parse::<IpAddr>().unwrap()]);
}

#[test]
fn ipv6_connections_leave_by_the_ipv6_source() {
    own_network();
    ip("address add 2001:db8::5/128 dev lo nodad");
    let depot = Daemon::depot(&format!("source = [\"127.0.0.5\", \"2001:db8::5\"]\n{OPEN}"));
    let callers = Arc::<Mutex<Vec<IpAddr>>>::default();
    let kept = Arc::clone(&callers);
    let origin = Scripted::on("[::1]:0", move |mut stream: TcpStream, _: &str| {
        kept.lock().unwrap().push(stream.peer_addr().unwrap().ip());
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    });
    let (head, ..) = get(depot.address, &origin.route("-", "/"));
    assert_eq!(status(&head), 200, "{head}");
    assert_eq!(callers.lock().unwrap()[..], ["2001:db8::5".parse::<IpAddr>().unwrap()]);
}

/// The next depot knows the depot before it by its address: a ticket for certain clients passes only if that is the one
/// that the ticket names.
#[test]
fn ticket_for_certain_clients_passes_a_depot_by_its_source() {
    let (dir, signer) = (tempfile::tempdir().unwrap(), Signer::from_seed([9; 32]).unwrap());
    let keys = dir.path().join("keys.json");
    std::fs::write(&keys, signer.public_set()).unwrap();
    let trust = format!("[trust]\nkeys = {keys:?}\n[allow]\nlocal = true\n");
    let origin = Origin::new();
    let far = Daemon::depot_with(&format!("id = \"far\"\nlisten = [\"127.0.0.1:0\"]\n{trust}"));
    for (source, expected) in [("", 403), ("source = [\"127.0.0.3\"]\n", 200)] {
        let near = Daemon::depot_with(&format!(
            "id = \"near\"\nlisten = [\"127.0.0.3:0\"]\n{source}{trust}"
        ));
        let ticket = Ticket {
            id: "t1".to_owned(),
            issuer: None,
            issued: None,
            not_before: None,
            expires: UnixTime::from(SystemTime::now()).plus(600),
            opens: format!("http://{}/f", origin.scripted.address).parse().unwrap(),
            via: [&near, &far].map(|depot| Authority::from(depot.address).into()).into(),
            methods: vec![Method::Get],
            bytes: None,
            rate: None,
            total_rate: None,
            clients: vec!["127.0.0.9/32".parse().unwrap()],
            uses: None,
        };
        let route = TicketRoute::new(&signer.sign(&ticket).unwrap(), "f").unwrap().to_string();
        let mut client = connect_from("127.0.0.9", near.address);
        write!(client, "GET {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n").unwrap();
        let (head, body, _) = read_answer(client);
        assert_eq!(status(&head), expected, "{source}: {head}{}", String::from_utf8_lossy(&body));
    }
}
