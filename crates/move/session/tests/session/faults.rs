// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections break, bytes change, processes restart: what arrives is what was sent.

use super::{
    bytes, listener, options, read_all, refusing_address, route,
    wire::{Mishap, Wire, number},
};
use longhaul_session::{
    ListenOptions, Listener, Options, Outgoing, Session, State, Stored, StoredFile,
};
use protocol::session::{GROUP, Prefix, group_start};
use std::{
    fs::File,
    io::{self, Write},
    sync::{
        Arc,
        atomic::{
            AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::Duration,
};
use tokio::time::timeout;

/// How many connections CI breaks; `LONGHAUL_INTERRUPTIONS` overrides it.
const INTERRUPTIONS: u64 = 300;

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Sends over a wire, and says how many bytes it carried and over how many connections.
async fn send(
    content: Vec<u8>,
    mishap: impl Fn(u64) -> Mishap + Send + 'static,
) -> (Vec<u8>, u64, u64) {
    let listener = listener().await;
    let wire = Wire::to(listener.local_addr(), mishap).await;
    let accept = async {
        let accepted = listener.accept().await.accept(options()).await.unwrap();
        accepted.end();
        let received = read_all(&accepted).await.unwrap();
        accepted.sent().await.unwrap();
        received
    };
    let hasty = Options { longest_wait: Duration::from_millis(30), ..options() };
    let session = Session::connect(vec![route(wire.address)], hasty);
    let send = async {
        session.write(&content).await.unwrap();
        session.end();
        session.sent().await.unwrap();
        assert_eq!(read_all(&session).await.unwrap(), b"");
    };
    let (received, ()) = timeout(Duration::from_secs(120), async { tokio::join!(accept, send) })
        .await
        .expect("it comes to an end");
    (received, wire.carried.load(Relaxed), wire.connections.load(Relaxed))
}

#[tokio::test(flavor = "multi_thread")]
async fn interruptions_lose_nothing_and_resend_at_most_one_group() {
    let seed = from_environment("LONGHAUL_SEED", 1);
    println!("LONGHAUL_SEED={seed}");
    let wanted = from_environment("LONGHAUL_INTERRUPTIONS", INTERRUPTIONS);
    let mut interruptions = 0;
    let mut round = 0;
    while interruptions < wanted {
        let seed = seed << 32 | round;
        round += 1;
        let content = bytes(2_000_000 + number(seed, 1_000_000) as usize, seed);
        let cuts = 1 + number(seed ^ 1, 12);
        let mishap = move |n| {
            // Handshakes alone take some hundred bytes, so that some break there.
            let most = if number(seed ^ n << 8, 4) == 0 { 600 } else { 400_000 };
            if n < cuts { Mishap::Cut(number(seed ^ n << 16, most)) } else { Mishap::None }
        };
        let length = content.len() as u64;
        let (received, carried, connections) = send(content.clone(), mishap).await;
        assert!(received == content, "LONGHAUL_SEED={seed}: other bytes have arrived");
        // Each connection may carry one group in vain, and its handshake.
        let most = length + length / 1000 + connections * (GROUP + 4000);
        assert!(carried <= most, "{carried} bytes for {length} over {connections} connections");
        interruptions += connections - 1;
    }
    println!("{interruptions} interruptions in {round} sessions");
}

#[tokio::test(flavor = "multi_thread")]
async fn flipped_bits_are_found_and_sent_again() {
    let seed = from_environment("LONGHAUL_SEED", 1);
    println!("LONGHAUL_SEED={seed}");
    for round in 0..40 {
        let seed = seed << 32 | round;
        let content = bytes(1_500_000, seed);
        let flip =
            move |n| if n == 0 { Mishap::Flip(number(seed, 1_500_000)) } else { Mishap::None };
        let (received, carried, _) = send(content.clone(), flip).await;
        assert!(received == content, "LONGHAUL_SEED={seed}: other bytes have arrived");
        assert!(carried < 1_500_000 + 3 * GROUP + 20_000, "{carried} bytes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn session_continues_by_the_next_route() {
    let listener = listener().await;
    let first =
        Wire::to(
            listener.local_addr(),
            |n| {
                if n == 0 { Mishap::Cut(300_000) } else { Mishap::Hole }
            },
        );
    let first = first.await;
    let second = Wire::to(listener.local_addr(), |_| Mishap::None).await;
    let content = bytes(2_000_000, 5);
    let hurried = Options { connect_timeout: Duration::from_secs(1), ..options() };
    // The first route is gone for good: its address has no listener.
    let address = first.address;
    let session = Session::connect(vec![route(address), route(second.address)], hurried);
    let accepted = listener.accept().await.accept(options()).await.unwrap();
    drop(first);
    let send = async {
        session.write(&content).await.unwrap();
        session.end();
        session.sent().await.unwrap();
    };
    let (received, ()) = tokio::join!(read_all(&accepted), send);
    assert!(received.unwrap() == content);
    assert_eq!(second.connections.load(Relaxed), 1);
    assert!(session.statistics().connections > 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn both_ends_restart_and_continue_from_their_states() {
    let directory = tempfile::tempdir().unwrap();
    let content = bytes(80 << 20, 6);
    let path = directory.path().join("source");
    std::fs::write(&path, &content).unwrap();
    let stored = || StoredFile::new(File::open(&path).unwrap()).unwrap();
    let outgoing = || Outgoing::Stored(Arc::new(stored()));
    let first = listener().await;
    let address = first.local_addr();
    let wire = Wire::to(address, |_| Mishap::Cut(70 << 20)).await;
    let session = Session::send(vec![route(wire.address)], outgoing(), options());
    let accepted = first.accept().await.accept(options()).await.unwrap();
    let (mut file, mut state) = (Vec::new(), None);
    session.greeted().await.unwrap();
    // What the receiver has written and kept when it is killed.
    while state.is_none() {
        let chunk = accepted.chunk().await.unwrap().expect("more is to come");
        file.write_all(&chunk).unwrap();
        let position = accepted.position(file.len() as u64);
        state = position.map(|received| State { received, ..accepted.state().unwrap() });
    }
    let state = state.unwrap().to_bytes();
    assert!(state.len() < 1024);
    let sender = session.state().expect("the ends have greeted each other").to_bytes();
    assert!(sender.len() < 1024);
    drop(wire);
    // Killed: neither says goodbye to the other.
    std::mem::forget((session, accepted));
    drop(first);

    let state = State::from_bytes(&state).unwrap();
    file.truncate(state.received.offset as usize);
    let last = group_start(state.received.offset - 1) as usize;
    let prefix = Prefix::reopen(&state.received, &file[last..]).expect("the same bytes");
    let second = Listener::bind("127.0.0.1:0", ListenOptions::default()).await.unwrap();
    let empty = Outgoing::Window(longhaul_session::Window::default());
    let accepted = second.restore(&state, prefix, empty, options()).unwrap().unwrap();
    accepted.end();
    let sender = State::from_bytes(&sender).unwrap();
    let wire = Wire::to(second.local_addr(), |_| Mishap::None).await;
    let routes = vec![route(wire.address)];
    let session = Session::resume(&sender, routes, outgoing(), Prefix::default(), options());
    let session = session.unwrap();
    let rest = read_all(&accepted).await.unwrap();
    file.extend(rest);
    assert!(file == content);
    session.sent().await.unwrap();
    let twice = wire.carried.load(Relaxed) + state.received.offset - content.len() as u64;
    assert!(twice < GROUP, "{twice} bytes more than the rest");
}

/// Content that grows.
#[derive(Debug)]
struct Growing {
    bytes: Vec<u8>,
    length: AtomicU64,
}

impl Stored for Growing {
    fn length(&self) -> u64 {
        self.length.load(SeqCst)
    }

    fn grows(&self) -> bool {
        true
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let from = offset as usize;
        assert!(offset + buffer.len() as u64 <= self.length(), "it is not there yet");
        buffer.copy_from_slice(&self.bytes[from..from + buffer.len()]);
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_content_grows_over_lost_connections_until_its_end() {
    let listener = listener().await;
    let growing = Arc::new(Growing { bytes: bytes(1_500_000, 9), length: AtomicU64::new(0) });
    let outgoing = Outgoing::Stored(Arc::clone(&growing) as Arc<dyn Stored>);
    let mishap = |n| if n < 3 { Mishap::Cut(300_000) } else { Mishap::None };
    let wire = Wire::to(listener.local_addr(), mishap).await;
    let hasty = Options { longest_wait: Duration::from_millis(30), ..options() };
    let session = Session::send(vec![route(wire.address)], outgoing, hasty);
    let accepted = listener.accept().await.accept(options()).await.unwrap();
    accepted.end();
    let mut received = Vec::new();
    for length in [1, GROUP, GROUP + 1, 700_000, 1_500_000] {
        growing.length.store(length, SeqCst);
        session.grown();
        while (received.len() as u64) < length {
            received.extend(accepted.chunk().await.unwrap().expect("it is not over"));
        }
    }
    assert!(timeout(Duration::from_millis(50), session.sent()).await.is_err());
    session.end();
    assert_eq!(accepted.chunk().await.unwrap(), None);
    assert!(received == growing.bytes);
    session.sent().await.unwrap();
    assert!(wire.connections.load(Relaxed) > 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_file_is_not_taken_for_the_rest() {
    let content = bytes(3 << 20, 7);
    let mut prefix = Prefix::default();
    prefix.extend(&content[..1_000_000]);
    let other = [&bytes(500_000, 8), &content[500_000..]].concat();
    for (content, same) in [(&content, true), (&other, false)] {
        let listener = listener().await;
        let session = Session::connect(vec![route(listener.local_addr())], options());
        session.write(content).await.unwrap();
        session.end();
        let incoming = listener.accept().await;
        let empty = Outgoing::Window(longhaul_session::Window::default());
        let accepted = incoming.accept_from(prefix.clone(), empty, options()).await.unwrap();
        accepted.end();
        let rest = read_all(&accepted).await;
        if same {
            assert!(rest.unwrap() == content[1_000_000..]);
            session.sent().await.unwrap();
        } else {
            assert!(rest.unwrap_err().is_other_prefix());
            assert!(session.sent().await.unwrap_err().is_other_prefix());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_other_end_is_reported_in_time() {
    let dead = refusing_address();
    let impatient = Options { patience: Duration::from_secs(1), ..options() };
    let session = Session::connect(vec![route(dead)], impatient);
    let error = timeout(Duration::from_secs(30), session.greeted()).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("refused the connection"), "{error}");
}
