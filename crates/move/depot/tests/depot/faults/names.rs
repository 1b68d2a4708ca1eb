// SPDX-License-Identifier: GPL-2.0-or-later
//! A name whose addresses change: a depot looks it up once for each connection and connects to an
//! address that it has judged.
//!
//! ```text
//! network namespace A                              network namespace B
//!   test, depot on 127.0.0.1                         origin on 203.0.113.2, as on the Internet
//!   name server on 127.0.0.1:53                      and on 10.9.9.2, as in a private network
//!   203.0.113.1, 10.9.9.1 ──────── veth ──────────
//! ```
//! The namespaces live as long as the threads and processes in them.

#![expect(unsafe_code, reason = "asks for the number of a thread")]

use super::ask;
use crate::common::{
    client::{connect_from, get, read_answer, status},
    idle::Idle,
    network::{ip, own_network},
    process::Daemon,
    scripted::Scripted,
};
use std::{
    fs,
    io::Write,
    net::{Ipv4Addr, UdpSocket},
    sync::{Arc, Mutex},
};

const OUTER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);
const INNER: Ipv4Addr = Ipv4Addr::new(10, 9, 9, 2);

/// Runs a test in namespace A, with the origins of namespace B: the inner and the outer one.
fn with_networks(test: impl FnOnce(&Scripted, &Scripted) + Send) {
    let in_a = || {
        own_network();
        // SAFETY: asks a number of the kernel.
        let a = format!("/proc/{}/task/{}/ns/net", std::process::id(), unsafe { libc::gettid() });
        let [inner, outer] = std::thread::spawn(move || in_b(&a)).join().expect("namespace B");
        addresses("veth-a", ["203.0.113.1", "10.9.9.1"]);
        test(&inner, &outer);
    };
    // A thread of its own: this one is to stay where it is.
    let ended = std::thread::scope(|scope| scope.spawn(in_a).join());
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// The origins, each of which says its name, at the other end of a link from namespace `a`.
fn in_b(a: &str) -> [Scripted; 2] {
    own_network();
    ip(&format!("link add name veth-b type veth peer name veth-a netns {a}"));
    addresses("veth-b", [&OUTER.to_string(), &INNER.to_string()]);
    [("inner", INNER), ("outer", OUTER)].map(|(name, ip)| {
        let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len());
        Scripted::on(&format!("{ip}:80"), move |mut stream, _| {
            let _ = stream.write_all(text.as_bytes());
        })
    })
}

fn addresses(link: &str, both: [&str; 2]) {
    for address in both {
        ip(&format!("address add {address}/24 dev {link}"));
    }
    ip(&format!("link set {link} up"));
}

/// A name server that answers each question for an IPv4 address with the next of its answers, the last
/// again and again, and counts the questions; names have no IPv6 addresses.
#[derive(Clone, Default)]
struct Names(Arc<Mutex<(Vec<Vec<Ipv4Addr>>, usize)>>);

impl Names {
    fn serve(&self) {
        let (names, socket) = (self.clone(), UdpSocket::bind("127.0.0.1:53").unwrap());
        std::thread::spawn(move || {
            let mut question = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut question) {
                // Names under this one are never answered.
                if question[..length].windows(4).any(|part| part == b"hang") {
                    continue;
                }
                let _ = socket.send_to(&names.answer(&question[..length]), from);
            }
        });
    }

    /// Sets the answers to later queries.
    fn set(&self, answers: &[&[Ipv4Addr]]) {
        *self.0.lock().unwrap() = (answers.iter().map(|one| one.to_vec()).collect(), 0);
    }

    fn questions(&self) -> usize {
        self.0.lock().unwrap().1
    }

    /// The answer to a question of RFC 1035: its header, itself, and the addresses.
    fn answer(&self, question: &[u8]) -> Vec<u8> {
        let name = question[12..].iter().position(|byte| *byte == 0).unwrap();
        let end = 12 + name + 1 + 4;
        let is_v4 = question[end - 3] == 1;
        let addresses = if is_v4 { self.next() } else { Vec::new() };
        let mut answer = question[..end].to_vec();
        // An answer, recursion available, no error; one question, the number of addresses, nothing else.
        answer[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, addresses.len() as u8, 0, 0, 0, 0]);
        for address in addresses {
            // The name of the question, an IPv4 address, for no time at all.
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
            answer.extend(address.octets());
        }
        answer
    }

    fn next(&self) -> Vec<Ipv4Addr> {
        let mut state = self.0.lock().unwrap();
        let (answers, asked) = &mut *state;
        *asked += 1;
        if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() }
    }
}

/// A depot that asks this name server, with an `/etc` of its own.
fn depot(names: &Names, allow: &str) -> (Daemon, tempfile::TempDir) {
    names.serve();
    let etc = tempfile::tempdir().unwrap();
    for (file, text) in [
        ("resolv.conf", "nameserver 127.0.0.1\noptions timeout:5 attempts:2\n"),
        ("nsswitch.conf", "hosts: files dns\n"),
        ("hosts", "127.0.0.1 localhost\n"),
    ] {
        fs::write(etc.path().join(file), text).unwrap();
    }
    let line = format!(
        "exec unshare --mount --propagation private sh -c \
         'mount --bind {} /etc && exec \"$0\" \"$@\"' \"$0\" \"$@\"",
        etc.path().display()
    );
    let settings = format!("id = \"d1\"\n[allow]\nclients = [\"127.0.0.0/8\"]\n{allow}");
    (Daemon::depot_by(&line, &settings), etc)
}

const ROUTE: &str = "/lh1/fetch/-/http:o.example/f";

fn served(depot: &Daemon, by: &str) {
    let (head, body, end) = get(depot.address, ROUTE);
    let text = String::from_utf8_lossy(&body).into_owned();
    assert!(status(&head) == 200 && end.is_ok(), "{head}{text}");
    assert_eq!(text, by);
}

fn refused(depot: &Daemon, reason: &str) {
    let (head, body, _) = read_answer(ask(depot, ROUTE));
    let text = String::from_utf8_lossy(&body).into_owned();
    assert_eq!(status(&head), 403, "{head}{text}");
    assert!(head.contains("d1; error=destination_ip_prohibited"), "{head}");
    assert!(text.contains(reason), "{text}");
    assert!(
        ![INNER, OUTER].iter().any(|ip| (head.clone() + &text).contains(&ip.to_string())),
        "{text}"
    );
    depot.await_log(&["WARN", "refused", "status=403", reason]);
}

#[test]
fn name_rebound_to_private_address_is_refused() {
    with_networks(|inner, outer| {
        let names = Names::default();
        names.set(&[&[OUTER]]);
        let (depot, _etc) = depot(&names, "upstreams = [\"o.example:80\"]");
        let idle = Idle::now([&depot]);
        served(&depot, "outer");
        outer.next_head();
        for (address, reason) in [
            (INNER, "is a private address: set allow.private, or list the network"),
            (Ipv4Addr::LOCALHOST, "its address is a loopback address"),
            (Ipv4Addr::new(169, 254, 169, 254), "is a link-local address"),
            (Ipv4Addr::new(203, 0, 113, 1), "is this host's own address"),
        ] {
            names.set(&[&[address]]);
            refused(&depot, reason);
            // The operator is told which one it is, the client is not.
            depot.await_log(&["WARN", reason, &format!("({address})")]);
        }
        // Of several addresses only those that may be.
        names.set(&[&[INNER, OUTER]]);
        for _ in 0..4 {
            served(&depot, "outer");
        }
        assert!(inner.try_next_head().is_none(), "something reached the inner network");
        idle.again();
    });
}

#[test]
fn checked_address_is_the_one_connected_to() {
    with_networks(|inner, outer| {
        let names = Names::default();
        names.set(&[&[OUTER]]);
        let (depot, _etc) = depot(&names, "upstreams = [\"o.example:80\"]");
        for _ in 0..5 {
            // A second lookup, to connect, would return the other address.
            names.set(&[&[OUTER], &[INNER]]);
            served(&depot, "outer");
            assert_eq!(names.questions(), 1, "one look-up decides");
            names.set(&[&[INNER], &[OUTER]]);
            refused(&depot, "private address");
            assert_eq!(names.questions(), 1);
        }
        assert!(inner.try_next_head().is_none(), "something reached the inner network");
        outer.next_head();
    });
}

#[test]
fn hanging_lookups_delay_only_their_client() {
    with_networks(|_inner, outer| {
        let names = Names::default();
        names.set(&[&[OUTER]]);
        let (depot, _etc) = depot(
            &names,
            "upstreams = [\"203.0.113.0/24:80\"]\n\
                                           [timeouts]\nconnect = \"300ms\"",
        );
        let threads = || fs::read_dir(format!("/proc/{}/task", depot.pid())).unwrap().count();
        let before = threads();
        let get_from = |client: &str, name: &str| {
            let mut stream = connect_from(client, depot.address);
            let route = format!("/lh1/fetch/-/http:{name}/f");
            write!(stream, "GET {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n").unwrap();
            stream
        };
        // Each is answered within its time, although the lookup cannot be cancelled.
        let hanging: Vec<_> =
            (0..100).map(|n| get_from("127.0.0.9", &format!("n{n}.hang.example"))).collect();
        let mut codes: Vec<_> = hanging.into_iter().map(|s| status(&read_answer(s).0)).collect();
        codes.sort_unstable();
        assert_eq!((codes[0], codes[7], codes[8], codes[99]), (502, 502, 503, 503), "{codes:?}");
        assert!(threads() - before < 20, "{} threads more", threads() - before);
        let (head, ..) = read_answer(get_from("127.0.0.9", "o.example"));
        assert_eq!(status(&head), 503, "its look-ups still hang: {head}");
        let (head, body, _) = read_answer(get_from("127.0.0.10", "o.example"));
        assert_eq!((status(&head), &body[..]), (200, &b"outer"[..]), "another client: {head}");
        outer.next_head();
    });
}

#[test]
fn listed_private_network_is_reached() {
    with_networks(|inner, _outer| {
        let names = Names::default();
        names.set(&[&[INNER]]);
        let (depot, _etc) = depot(&names, "upstreams = [\"o.example:80\", \"10.9.9.0/24:80\"]");
        served(&depot, "inner");
        inner.next_head();
    });
}
