// SPDX-License-Identifier: GPL-2.0-or-later
//! A large file and a slow reader: what each depot holds meanwhile.
//!
//! 2 GB lie ready at the origin and the reader takes 1 MB/s. Each depot's resident memory, pipes
//! and socket memory together must stay under 64 MB beyond the socket buffers configured. Watched
//! for 30 s, or for `LONGHAUL_WATCH_SECONDS`. And what a thousand warm connections between two depots
//! hold at each.

use crate::common::{client, held::Held, process::Daemon, scripted::Scripted};
use std::{
    fs::File,
    io::{Read, Write},
    net::TcpStream,
    sync::mpsc::{self, RecvTimeoutError},
    time::{Duration, Instant},
};
use testkit::until;

const FILE: u64 = 2 << 30;
const RATE: usize = 1 << 20;
const BEYOND: usize = 64 << 20;
/// `SO_SNDBUF` and `SO_RCVBUF` of each socket; the kernel keeps and allows twice that.
const BUFFER: usize = 4 << 20;

#[test]
fn slow_reader_uses_little_memory() {
    let _alone = crate::alone();
    let seconds = std::env::var("LONGHAUL_WATCH_SECONDS").map_or(30, |s| s.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    File::create(dir.path().join("large")).unwrap().set_len(FILE).unwrap();
    let hop =
        format!("[[hop]]\npeer = \"127.0.0.0/8\"\nsndbuf = \"{BUFFER}\"\nrcvbuf = \"{BUFFER}\"");
    let depots = ["far", "near"].map(|id| Daemon::depot(&format!("id = \"{id}\"\n{hop}")));
    let origin = Daemon::origin(dir.path(), "fetch", &[]);
    let route = format!("/lh1/fetch/{}/http:{}/large", depots[0].authority(), origin.authority());

    let mut reader = client::connect(depots[1].address);
    write!(reader, "GET {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n").unwrap();
    let (start, mut taken, mut part) = (Instant::now(), 0, vec![0; RATE / 16]);
    let mut most = [Held::default(); 2];
    while start.elapsed() < Duration::from_secs(seconds) {
        reader.read_exact(&mut part).unwrap();
        taken += part.len();
        for (depot, most) in depots.iter().zip(&mut most) {
            let now = Held::by(depot.pid());
            if now.total() > most.total() {
                *most = now;
            }
        }
        let due = Duration::from_secs_f64(taken as f64 / RATE as f64);
        std::thread::sleep(due.saturating_sub(start.elapsed()));
    }
    println!("taken {taken} bytes in {:?}; at most {most:?}", start.elapsed());
    for held in most {
        // Two sockets; the kernel lets each direction have twice the size set.
        assert!(held.total() < BEYOND + 2 * 2 * 2 * BUFFER, "{held:?}");
        // The watch saw what it watches: a transfer held back by its reader.
        assert!(held.sockets > BUFFER && held.pipes >= 1 << 20, "{held:?}");
    }
    assert!(taken < 64 << 20, "the reader was not slow");
}

/// What `limits.memory` is set to, and what a depot may hold beyond it.
const LIMIT: usize = 64 << 20;
const MARGIN: usize = LIMIT / 4;
const SLOW: usize = 160;
/// What another reader takes meanwhile, as fast as it can.
const QUICK: u64 = 256 << 20;

/// What an origin sends at a time, and how often, so that less than a quarter of the limit comes for all readers together from
/// one look of the depot to the next: for more the limit is not made, and over loopback several times as much would come.
const PIECE: usize = LIMIT / 4 / SLOW;
const LOOK: Duration = Duration::from_millis(250);

/// An origin of very large files that sends each as slowly as that.
fn slow_origin() -> Scripted {
    let piece = vec![7; PIECE];
    Scripted::new(move |mut stream, _| {
        let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {FILE}\r\n\r\n");
        while stream.write_all(&piece).is_ok() {
            std::thread::sleep(LOOK);
        }
    })
}

/// A reader that asks for a route, takes a little, and then nothing; none if it is refused for lack of memory.
fn stopped(depot: &Daemon, route: &str, takes: usize) -> Option<TcpStream> {
    let mut reader = client::connect(depot.address);
    write!(reader, "GET {route} HTTP/1.1\r\nHost: d\r\n\r\n").unwrap();
    let mut part = vec![0; takes];
    if reader.read_exact(&mut part).is_err() {
        reader.read_to_end(&mut part).unwrap();
    }
    let text = String::from_utf8_lossy(&part);
    if text.starts_with("HTTP/1.1 200 ") {
        return Some(reader);
    }
    assert!(text.starts_with("HTTP/1.1 503 ") && text.contains("limits.memory"), "{text}");
    assert!(text.contains("Retry-After: "), "{text}");
    None
}

/// The most that a depot's sockets and pipes hold while `during` runs.
fn most_held<T>(depot: &Daemon, during: impl FnOnce() -> T) -> (usize, T) {
    std::thread::scope(|scope| {
        // Dropped when it is over, or fails.
        let (goes_on, over) = mpsc::channel::<()>();
        let watch = scope.spawn(move || {
            let mut most = 0;
            while over.recv_timeout(Duration::from_millis(20)) == Err(RecvTimeoutError::Timeout) {
                let held = Held::by(depot.pid());
                most = most.max(held.sockets + held.piped);
            }
            most
        });
        let result = during();
        drop(goes_on);
        (watch.join().unwrap(), result)
    })
}

#[test]
fn slow_readers_stay_within_memory_limit() {
    let _alone = crate::alone();
    let dir = tempfile::tempdir().unwrap();
    let file = |name, size| File::create(dir.path().join(name)).unwrap().set_len(size).unwrap();
    file("quick", QUICK);
    let (origin, slow) = (Daemon::origin(dir.path(), "fetch", &[]), slow_origin());
    let slow_route = slow.route("-", "/large");
    let quick_route = format!("/lh1/fetch/-/http:{}/quick", origin.authority());
    // Each reads little from the beginning; or some pieces, and then all stop.
    for takes in [1_000, 4 * PIECE] {
        let depot = Daemon::depot(&format!(
            "admin.listen = \"127.0.0.1:0\"\n[limits]\nmemory = \"{LIMIT}\"\nper_client = 1024"
        ));
        let quick = || {
            let begun = Instant::now();
            let (head, body, end) = client::get(depot.address, &quick_route);
            assert!(client::status(&head) == 200 && end.is_ok(), "{head}");
            assert_eq!(body.len() as u64, QUICK);
            begun.elapsed()
        };
        let (most, (readers, quick)) = most_held(&depot, || {
            std::thread::scope(|scope| {
                let quick = scope.spawn(quick);
                let some = |_| {
                    let read = || stopped(&depot, &slow_route, takes);
                    scope.spawn(move || (0..SLOW / 40).filter_map(|_| read()).collect::<Vec<_>>())
                };
                let all: Vec<_> = (0..40).map(some).collect();
                let readers: Vec<_> =
                    all.into_iter().flat_map(|some| some.join().unwrap()).collect();
                std::thread::sleep(Duration::from_secs(4));
                (readers, quick.join().unwrap())
            })
        });
        let memory = depot.status().memory;
        println!(
            "{} of {SLOW} readers after {takes} bytes: {most} bytes, {memory:?}, {quick:?}",
            readers.len()
        );
        assert!(most < LIMIT + MARGIN, "{most} bytes are held");
        // All but the quarter that is kept for clients with few transfers.
        assert!(readers.len() > SLOW / 3, "{} readers were let in", readers.len());
        let shown = (memory.sockets_held_bytes + memory.pipes_held_bytes) as usize;
        assert!(shown > LIMIT / 4 && shown <= most + MARGIN, "{shown} bytes are shown");
        drop(readers);
        until("all is given back", || depot.status().memory.sockets_held_bytes == 0);
    }
}

/// An origin without end, as fast as it can.
fn endless_origin() -> Scripted {
    let piece = vec![7; 1 << 20];
    Scripted::new(move |mut stream, _| {
        let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {FILE}\r\n\r\n");
        while stream.write_all(&piece).is_ok() {}
    })
}

/// Readers of one address that take almost nothing, and what each was told.
fn crowd(depot: &Daemon, from: &str, route: &str, count: usize) -> (Vec<TcpStream>, Vec<String>) {
    let (mut let_in, mut refused) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let mut reader = client::connect_from(from, depot.address);
        let _ = write!(reader, "GET {route} HTTP/1.1\r\nHost: d\r\n\r\n");
        let mut part = [0; 13];
        match reader.read_exact(&mut part) {
            Ok(()) if part.starts_with(b"HTTP/1.1 200 ") => let_in.push(reader),
            Ok(()) => {
                let mut rest = String::new();
                let _ = reader.read_to_string(&mut rest);
                refused.push(rest);
            }
            Err(error) => panic!("{from}: {error}"),
        }
    }
    (let_in, refused)
}

/// 300 readers of one address that stop, from an origin as fast as loopback; then 20 clients with an address each, of which
/// all are served, at once and while the crowd comes again and again.
#[test]
fn slow_readers_of_one_address_leave_memory_to_others() {
    let _alone = crate::alone();
    let dir = tempfile::tempdir().unwrap();
    File::create(dir.path().join("f")).unwrap().set_len(4 << 20).unwrap();
    let origin = Daemon::origin(dir.path(), "fetch", &[]);
    let endless = endless_origin();
    let (fast, ordinary) =
        (endless.route("-", "/large"), format!("/lh1/fetch/-/http:{}/f", origin.authority()));
    // A client's share as it is by default, and one as large as all there is.
    for per_client in [400, 1024] {
        let depot = Daemon::depot(&format!(
            "admin.listen = \"127.0.0.1:0\"\n[limits]\nmemory = \"{LIMIT}\"\nper_client = {per_client}"
        ));
        let (readers, refused) = crowd(&depot, "127.0.0.9", &fast, 300);
        let serve_all = |when: &str| {
            std::thread::scope(|scope| {
                let clients: Vec<_> = (1..=20)
                    .map(|n| {
                        let (from, depot, route) = (format!("127.0.1.{n}"), &depot, &ordinary);
                        scope.spawn(move || {
                            let mut client = client::connect_from(&from, depot.address);
                            write!(
                                client,
                                "GET {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n"
                            )
                            .unwrap();
                            let (head, body, end) = client::read_answer(client);
                            let told =
                                String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
                            (client::status(&head), body.len(), end.is_ok(), head + &told)
                        })
                    })
                    .collect();
                for client in clients {
                    let (status, length, is_whole, head) = client.join().unwrap();
                    assert_eq!((status, length, is_whole), (200, 4 << 20, true), "{when}: {head}");
                }
            });
        };
        serve_all("at once");
        let memory = depot.status().memory;
        println!("per_client {per_client}: {} of 300 let in, {memory:?}", readers.len());
        assert!(readers.len() >= 8 && readers.len() < 70, "{}", readers.len());
        assert!(refused.iter().all(|text| text.contains("limits.memory")), "{:?}", refused[0]);
        assert!(memory.reserved_bytes as usize >= readers.len() * (768 << 10), "{memory:?}");
        assert_eq!(memory.refusals.values().sum::<u64>() as usize, refused.len());
        let largest = memory.largest_client.expect("the crowd");
        assert_eq!((largest.client.as_str(), largest.transfers), ("127.0.0.9", readers.len()));
        std::thread::scope(|scope| {
            let (over, goes_on) = mpsc::channel::<()>();
            let (depot, fast) = (&depot, &fast);
            scope.spawn(move || {
                while goes_on.try_recv() == Err(mpsc::TryRecvError::Empty) {
                    drop(crowd(depot, "127.0.0.9", fast, 50));
                }
            });
            for round in 0..3 {
                std::thread::sleep(LOOK);
                serve_all(&format!("round {round}"));
            }
            drop(over);
        });
        drop(readers);
        until("all is given back", || depot.status().memory.reserved_bytes == 0);
    }
}

/// How many are open between two depots.
const WARM: usize = 1000;
/// What they may hold at each depot.
const WARM_MOST: usize = 100 << 20;

#[test]
fn thousand_warm_connections_use_little_memory() {
    let _alone = crate::alone();
    let trust = "admin.listen = \"127.0.0.1:0\"\nidle_connections.per_hop = 1024\n\
                 trust.depots = [\"127.0.0.0/8\"]";
    let hop = format!("[[hop]]\npeer = \"127.0.0.0/8\"\nwarm = {WARM}");
    let near = Daemon::depot(&format!("id = \"near\"\n{trust}\n{hop}"));
    let far = Daemon::depot(&format!("id = \"far\"\n{trust}"));
    let origin = Scripted::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let (head, _, _) = client::get(near.address, &origin.route(&far.authority(), "/"));
    assert_eq!(client::status(&head), 200);
    until("all are open", || {
        near.status().connections.idle_upstream >= WARM && far.status().connections.held >= WARM
    });
    for depot in [&near, &far] {
        let held = Held::by(depot.pid());
        println!("{WARM} warm connections: {held:?}");
        assert!(held.total() < WARM_MOST, "{held:?}");
    }
}
