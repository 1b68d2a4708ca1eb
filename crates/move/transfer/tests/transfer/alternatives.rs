// SPDX-License-Identifier: GPL-2.0-or-later
//! Several routes to a file: which one is tried when, and what a failure says of the others.

use crate::common::{bytes, get, quick, request, runtime};
use longhaul_transfer::{Client, Error, Options, Progress, PutRequest, Source};
use protocol::DepotAddress;
use route::{
    AsWritten, Attempt, AttemptEnd, Chooser, Destination, Floor, Match, Plan, RouteTable,
    SendOptions, read_chain,
};
use std::{
    fs,
    net::TcpListener,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use testkit::http_server::{Conn, Request, Server};
use units::{Bytes, Rate};

/// The refusal of a depot, which says in `Proxy-Status` that it is its own.
const REFUSAL: [(&str, &str); 1] = [("Proxy-Status", "d1; error=http_request_denied")];

fn at(server: &Server) -> String {
    format!("127.0.0.1:{}", server.address.port())
}

/// A port at which nothing listens.
fn nobody() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// Options with one route for each of these depots, where a wait before another attempt would last.
fn through(depots: &[String]) -> Options {
    let chains = depots.iter().map(|depot| read_chain(depot).unwrap()).collect();
    let routes = RouteTable::through(chains, &[Match::ALL]);
    let long = Duration::from_secs(600);
    Options { routes, first_wait: long, longest_wait: long, ..quick() }
}

fn serving(data: Vec<u8>) -> Server {
    Server::start(move |_, asked, conn| answer(&data, asked, conn))
}

fn answer(data: &[u8], asked: &Request, conn: &mut Conn) {
    match asked.range() {
        Some((from, _)) => {
            let range = format!("bytes {from}-{}/{}", data.len() - 1, data.len());
            let fields = [("ETag", "\"a\""), ("Content-Range", &range)];
            conn.answer("206 Partial Content", &fields, &data[from..]);
        }
        None => conn.answer("200 OK", &[("ETag", "\"a\"")], data),
    }
}

#[test]
fn route_that_cannot_be_used_is_left_at_once() {
    let (directory, data) = (tempfile::tempdir().unwrap(), bytes(1, 10_000));
    let refusing = Server::start(|_, _, conn| conn.answer("403 Forbidden", &REFUSAL, b"not you"));
    let failing = Server::start(|_, _, conn| conn.answer("502 Bad Gateway", &[], b""));
    let silent = Server::start(|_, _, conn| conn.reset());
    let good = serving(data.clone());
    for (name, first) in [
        ("nobody", nobody()),
        ("refuses", at(&refusing)),
        ("fails", at(&failing)),
        ("resets", at(&silent)),
    ] {
        let file = directory.path().join(name);
        let options = Options { retries: 0, ..through(&[first, at(&good)]) };
        let report = get(options, request("http://o.example/f", &file));
        assert!(report.result.is_ok(), "{name}: {report:?}");
        assert_eq!((fs::read(&file).unwrap(), report.attempts), (data.clone(), 2), "{name}");
    }
}

#[test]
fn refusal_of_the_server_itself_is_final() {
    let directory = tempfile::tempdir().unwrap();
    let first = Server::start(|_, _, conn| conn.answer("403 Forbidden", &[], b"not you"));
    let second = serving(bytes(1, 10));
    let options = through(&[at(&first), at(&second)]);
    let report = get(options, request("http://o.example/f", &directory.path().join("f")));
    assert!(matches!(report.result, Err(Error::Status { .. })), "{report:?}");
    assert!(second.asked().is_empty());
}

#[test]
fn transfer_goes_on_by_another_route_where_the_first_has_ended() {
    let (directory, data) = (tempfile::tempdir().unwrap(), bytes(2, 400_000));
    let (half, begun) = (data.clone(), Arc::new(AtomicUsize::new(0)));
    let first = Server::start(move |_, _, conn| {
        if begun.fetch_add(1, Ordering::Relaxed) == 0 {
            let length = half.len().to_string();
            conn.head("200 OK", &[("ETag", "\"a\""), ("Content-Length", &length)]);
            conn.send(&half[..200_000]);
        }
        conn.reset();
    });
    let second = serving(data.clone());
    let file = directory.path().join("f");
    let wait = Duration::from_millis(10);
    let options =
        Options { first_wait: wait, longest_wait: wait, ..through(&[at(&first), at(&second)]) };
    let report = get(options, request("http://o.example/f", &file));
    assert!(report.result.is_ok(), "{report:?}");
    assert_eq!(fs::read(&file).unwrap(), data);
    // What had moved half of the file got a second chance.
    assert_eq!((first.asked().len(), second.asked().len()), (2, 1));
    let (from, _) = second.asked()[0].range().expect("it asks for the rest");
    assert!((1..=200_000).contains(&from), "{from}");
}

/// As written, but that nothing may be slower than 80 Mb/s for 300 ms.
#[derive(Debug)]
struct Impatient(AsWritten, Mutex<Vec<AttemptEnd>>);

impl Chooser for Impatient {
    fn plan(&self, to: &Destination, bytes: Option<Bytes>, chains: &[&[DepotAddress]]) -> Plan {
        self.0.plan(to, bytes, chains)
    }

    fn floor(
        &self,
        _: &Destination,
        _: &[DepotAddress],
        _: &SendOptions,
        bytes: Option<Bytes>,
    ) -> Option<Floor> {
        assert_eq!(bytes, Some(Bytes::new(400_000)));
        let rate = Rate::bits_per_second(80_000_000);
        Some(Floor { rate, over: Duration::from_millis(300) })
    }

    fn ended(&self, to: &Destination, chain: &[DepotAddress], attempt: &Attempt) {
        self.1.lock().unwrap().push(attempt.end);
        self.0.ended(to, chain, attempt);
    }
}

/// The first route drips or falls silent in the middle of the file; the second one is as slow, and is the last.
#[test]
fn transfer_that_becomes_slow_goes_on_by_another_route_and_loses_nothing() {
    for drips in [false, true] {
        let (directory, data) = (tempfile::tempdir().unwrap(), bytes(3, 400_000));
        let sent = data.clone();
        let first = Server::start(move |_, _, conn| {
            let length = sent.len().to_string();
            conn.head("200 OK", &[("ETag", "\"a\""), ("Content-Length", &length)]);
            conn.send(&sent[..200_000]);
            for byte in sent[200_000..].chunks(1).take(if drips { 500 } else { 0 }) {
                conn.send(byte);
                std::thread::sleep(Duration::from_millis(10));
            }
            std::thread::sleep(Duration::from_secs(5));
        });
        let slow = data.clone();
        let second = Server::start(move |_, asked, conn| {
            std::thread::sleep(Duration::from_millis(700));
            answer(&slow, asked, conn);
        });
        let file = directory.path().join("f");
        let chooser = Arc::new(Impatient(
            AsWritten::new(Arc::default(), Duration::from_secs(60)),
            Mutex::default(),
        ));
        let options = Options {
            chooser: Some(Arc::<Impatient>::clone(&chooser)),
            ..through(&[at(&first), at(&second)])
        };
        let report = get(options, request("http://o.example/f", &file));
        assert!(report.result.is_ok(), "{report:?}");
        assert_eq!(fs::read(&file).unwrap(), data);
        assert_eq!((first.asked().len(), second.asked().len(), report.attempts), (1, 1, 2));
        let (from, _) = second.asked()[0].range().expect("it asks for the rest");
        // The last 64 KiB are compared.
        assert!((200_000..201_000).contains(&(from + (64 << 10))), "{from}");
        assert_eq!(*chooser.1.lock().unwrap(), [AttemptEnd::Stalled, AttemptEnd::Done]);
    }
}

#[test]
fn rounds_are_counted_and_end_where_all_refuse() {
    let directory = tempfile::tempdir().unwrap();
    let refusing = Server::start(|_, _, conn| conn.answer("403 Forbidden", &REFUSAL, b"no"));
    let failing = Server::start(|_, _, conn| conn.answer("502 Bad Gateway", &[], b""));
    let wait = Duration::from_millis(1);
    let tried = |depots: &[String]| {
        let options =
            Options { retries: 2, first_wait: wait, longest_wait: wait, ..through(depots) };
        let report = get(options, request("http://o.example/f", &directory.path().join("f")));
        assert!(matches!(report.result, Err(Error::Status { .. })), "{report:?}");
        report.attempts
    };
    assert_eq!(tried(&[at(&refusing), at(&failing)]), 6);
    assert_eq!(tried(&[at(&refusing), at(&refusing)]), 2);
}

#[test]
fn next_file_begins_with_what_works() {
    let directory = tempfile::tempdir().unwrap();
    let good = serving(bytes(3, 100));
    let client = Client::new(through(&[nobody(), at(&good)])).unwrap();
    let attempts = ["f", "g"].map(|name| {
        let wanted = request(&format!("http://o.example/{name}"), &directory.path().join(name));
        let progress = Arc::new(Progress::default());
        let report = runtime().block_on(client.get(wanted, &progress, std::future::pending()));
        assert!(report.result.is_ok(), "{report:?}");
        report.attempts
    });
    assert_eq!(attempts, [2, 1]);
}

#[test]
fn upload_takes_another_route() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("f");
    fs::write(&file, bytes(4, 5000)).unwrap();
    let refusing = Server::start(|_, _, conn| conn.answer("403 Forbidden", &REFUSAL, b"no"));
    let good = Server::start(|_, request, conn| {
        conn.take_body(request);
        conn.answer("201 Created", &[], b"");
    });
    let options = Options { retries: 0, ..through(&[nobody(), at(&refusing), at(&good)]) };
    let client = Client::new(options).unwrap();
    let url = "http://o.example/f".to_owned();
    let request = PutRequest { url, source: Source::File(file), no_overwrite: false };
    let progress = Arc::new(Progress::default());
    let report = runtime().block_on(client.put(request, &progress, std::future::pending()));
    assert!(report.result.is_ok(), "{report:?}");
    assert_eq!(
        (report.attempts, good.asked()[0].target.as_str()),
        (3, "/lh1/fetch/-/http:o.example/f")
    );
}
