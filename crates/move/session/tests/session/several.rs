// SPDX-License-Identifier: GPL-2.0-or-later
//! Several connections at once: routes die, fall silent, damage and slow down, and what arrives is what was sent.

use super::{
    bytes, options, read_all, route,
    wire::{Mishap, Wire, number},
};
use longhaul_session::{
    Error, ListenOptions, Listener, Options, Outgoing, RouteStatistics, Session, StoredFile,
};
use protocol::session::GROUP;
use std::{
    fs,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio::time::{sleep, timeout};
use units::Bytes;

const LIMIT: Duration = Duration::from_secs(120);

fn several(connections: u8) -> Options {
    Options { connections, longest_wait: Duration::from_millis(100), ..options() }
}

/// The wires, each with what it does to its n-th connection.
async fn wires(
    listener: &Listener,
    mishaps: Vec<Box<dyn Fn(u64) -> Mishap + Send + 'static>>,
) -> Vec<Wire> {
    let mut wires = Vec::new();
    for mishap in mishaps {
        wires.push(Wire::to(listener.local_addr(), mishap).await);
    }
    wires
}

/// Sends over all wires at once, and an answer back; what the initiator knows of its routes.
async fn exchange(
    listener: &Listener,
    wires: &[Wire],
    (content, answer): (&[u8], &[u8]),
    options: Options,
) -> Vec<RouteStatistics> {
    let accept = async {
        let accepted = listener.accept().await.accept(super::options()).await.unwrap();
        let write = async {
            accepted.write(answer).await.unwrap();
            accepted.end();
        };
        let (received, ()) = tokio::join!(read_all(&accepted), write);
        assert!(received.unwrap() == content, "other bytes have arrived");
        accepted.sent().await.unwrap();
    };
    let routes = wires.iter().map(|wire| route(wire.address)).collect();
    let session = Session::connect(routes, options);
    let send = async {
        let write = async {
            session.write(content).await.unwrap();
            session.end();
        };
        let (received, ()) = tokio::join!(read_all(&session), write);
        assert!(received.unwrap() == answer, "other bytes have come back");
        session.sent().await.unwrap();
    };
    timeout(LIMIT, async { tokio::join!(accept, send) }).await.expect("it comes to an end");
    session.statistics().routes
}

async fn listener(secret: &[u8]) -> Listener {
    let options = ListenOptions { secret: secret.to_vec(), ..ListenOptions::default() };
    Listener::bind("127.0.0.1:0", options).await.unwrap()
}

fn nothing() -> Box<dyn Fn(u64) -> Mishap + Send> {
    Box::new(|_| Mishap::None)
}

#[tokio::test(flavor = "multi_thread")]
async fn all_routes_carry_both_streams() {
    for (secret, encrypt) in [(&b""[..], false), (b"a code", false), (b"a code", true)] {
        let listener = listener(secret).await;
        let slow = || Box::new(|_| Mishap::Slow(20_000)) as Box<dyn Fn(u64) -> Mishap + Send>;
        let wires = wires(&listener, vec![slow(), slow(), slow()]).await;
        let (content, answer) = (bytes(24_000_001, 1), bytes(3_000_003, 2));
        let options = Options { secret: secret.into(), encrypt, ..several(3) };
        let routes = exchange(&listener, &wires, (&content, &answer), options).await;
        assert_eq!(routes.len(), 3);
        for (route, wire) in routes.iter().zip(&wires) {
            assert!(route.sent_bytes >= GROUP, "{routes:?}");
            assert!(wire.carried.load(Relaxed) >= route.sent_bytes, "{routes:?}");
        }
        let sent: u64 = routes.iter().map(|route| route.sent_bytes).sum();
        // What has arrived last need not be confirmed.
        assert!(sent >= content.len() as u64 / 2, "{routes:?}");
        for wire in &wires {
            let seen = wire.seen.lock().unwrap();
            let shows = |part: &[u8]| {
                let mut parts = seen.iter().flatten();
                parts.any(|all| all.windows(part.len()).any(|window| window == part))
            };
            assert!(!encrypt || !shows(&content[..64]), "a depot could read it");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_deaths_and_silences_lose_nothing() {
    let seed = std::env::var("LONGHAUL_SEED").map_or(1, |text| text.parse().expect("a number"));
    println!("LONGHAUL_SEED={seed}");
    for round in 0..30_u64 {
        let seed = seed << 32 | round;
        let listener = listener(b"").await;
        let count = 2 + number(seed, 3);
        let mishap = |wire: u64| -> Box<dyn Fn(u64) -> Mishap + Send> {
            let cuts = number(seed ^ wire << 4, 4);
            Box::new(move |n| {
                let seed = seed ^ wire << 8 ^ n << 16;
                let at = number(seed, if number(seed ^ 1, 4) == 0 { 600 } else { 1_500_000 });
                match number(seed ^ 2, 8) {
                    _ if n >= cuts => Mishap::None,
                    0 => Mishap::Flip(at),
                    1 if wire > 0 => Mishap::Silent(at.max(1000)),
                    2 => Mishap::Slow(100 + at / 100),
                    _ => Mishap::Cut(at),
                }
            })
        };
        let wires = wires(&listener, (0..count).map(mishap).collect()).await;
        let content = bytes(number(seed ^ 5, 6_000_000) as usize, seed);
        let answer = bytes(number(seed ^ 6, 1_000_000) as usize, seed ^ 7);
        let connections = 2 + number(seed ^ 8, 4) as u8;
        exchange(&listener, &wires, (&content, &answer), several(connections)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_route_is_given_up_while_the_other_goes_on() {
    let listener = listener(b"").await;
    // The first route is the one by which the session begins.
    let silent = Box::new(|n| if n == 0 { Mishap::Silent(2_000_000) } else { Mishap::Hole });
    let wires = wires(&listener, vec![silent, nothing()]).await;
    let content = bytes(30_000_000, 3);
    let routes = exchange(&listener, &wires, (&content, b"back"), several(2)).await;
    assert!(routes[0].sent_bytes <= 2_000_000, "{routes:?}");
    assert!(wires[1].carried.load(Relaxed) >= 28_000_000, "{routes:?}");
    // What has arrived last need not be confirmed.
    assert!(routes[1].sent_bytes >= 20_000_000, "{routes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn file_is_sent_by_parallel_connections_of_one_route() {
    let content = bytes(9_000_000, 4);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, &content).unwrap();
    let stored = StoredFile::new(fs::File::open(&path).unwrap()).unwrap();
    let listener = listener(b"").await;
    let wire = Wire::to(listener.local_addr(), |_| Mishap::Slow(20_000)).await;
    let outgoing = Outgoing::Stored(Arc::new(stored));
    let session = Session::send(vec![route(wire.address)], outgoing, several(4));
    let accepted = listener.accept().await.accept(options()).await.unwrap();
    accepted.end();
    assert!(read_all(&accepted).await.unwrap() == content);
    session.sent().await.unwrap();
    assert_eq!(wire.connections.load(Relaxed), 4);
    assert_eq!(session.statistics().routes[0].connections, 4);
    assert_eq!(accepted.sent_hash(), blake3_of_nothing());
}

fn blake3_of_nothing() -> protocol::session::Value {
    protocol::session::Prefix::default().root()
}

#[tokio::test(flavor = "multi_thread")]
async fn short_messages_pass_while_a_route_is_lost() {
    let listener = listener(b"").await;
    let cut = Box::new(|n| if n < 3 { Mishap::Cut(3000) } else { Mishap::None });
    let wires = wires(&listener, vec![cut, nothing()]).await;
    let routes = wires.iter().map(|wire| route(wire.address)).collect();
    let session = Session::connect(routes, several(2));
    let accepted = listener.accept().await.accept(options()).await.unwrap();
    let talk = async {
        for n in 0..200_u32 {
            session.write(&n.to_be_bytes()).await.unwrap();
            let mut heard = Vec::new();
            while heard.len() < 4 {
                heard.extend(accepted.chunk().await.unwrap().expect("more is to come"));
            }
            assert_eq!(heard, n.to_be_bytes());
            accepted.write(b"!").await.unwrap();
            assert_eq!(session.chunk().await.unwrap().expect("an answer")[..], b"!"[..]);
        }
    };
    timeout(LIMIT, talk).await.expect("it comes to an end");
    assert!(session.statistics().connections > 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_stays_one() {
    let listener = listener(b"").await;
    let wires = wires(&listener, vec![nothing(), nothing()]).await;
    let routes = exchange(&listener, &wires, (b"content", b"answer"), several(1)).await;
    assert!(routes.is_empty(), "{routes:?}");
    assert_eq!(wires[1].connections.load(Relaxed), 0);
    // HELLO asks for nothing.
    let seen = wires[0].seen.lock().unwrap();
    assert!(!seen[0][0].windows(4).any(|window| window == [128, 0, 1, 1]));
}

#[tokio::test(flavor = "multi_thread")]
async fn reader_that_does_not_read_holds_several_connections_too() {
    let listener = listener(b"").await;
    let wires = wires(&listener, vec![nothing(), nothing()]).await;
    let routes = wires.iter().map(|wire| route(wire.address)).collect();
    let options = Options { send_window: Bytes::new(1 << 20), ..several(2) };
    let session = Session::connect(routes, options);
    let accepted = listener.accept().await.accept(super::options()).await.unwrap();
    let content = bytes(40 << 20, 5);
    let write = async {
        session.write(&content).await.unwrap();
        session.end();
        session.sent().await.unwrap();
    };
    let read = async {
        sleep(Duration::from_millis(500)).await;
        let held = accepted.statistics();
        assert!(held.received_bytes <= 17 << 20, "{held:?}");
        read_all(&accepted).await.unwrap()
    };
    let (received, ()) = timeout(LIMIT, async { tokio::join!(read, write) }).await.unwrap();
    assert!(received == content);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_application_ends_all_connections() {
    let listener = listener(b"").await;
    let wires = wires(&listener, vec![nothing(), nothing()]).await;
    let routes = wires.iter().map(|wire| route(wire.address)).collect();
    let session = Session::connect(routes, several(2));
    let accepted = listener.accept().await.accept(options()).await.unwrap();
    session.write(&bytes(1_000_000, 6)).await.unwrap();
    while session.statistics().routes.iter().map(|route| route.connections).sum::<u32>() < 2 {
        sleep(Duration::from_millis(5)).await;
    }
    session.fail(std::io::Error::other("the disk is on fire"));
    let error = timeout(LIMIT, read_all(&accepted)).await.expect("it is told").unwrap_err();
    assert!(matches!(&error, Error::Ended { text, .. } if text.contains("on fire")), "{error}");
}
