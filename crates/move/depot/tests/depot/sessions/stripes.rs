// SPDX-License-Identifier: GPL-2.0-or-later
//! One hop of a session over several connections: the same bytes in both directions whatever becomes of the
//! connections, or a failure that shows.

use super::peers::{
    Acceptor, answer, asked, await_reset, echo, hop, id, open, opened, refused, sending, to_end,
};
use crate::common::{
    PATIENCE,
    client::connect,
    noise,
    pki::Pki,
    process::Daemon,
    sha256,
    wire::{Wire, wires},
};
use http::StatusCode;
use protocol::session::{Answer, Hop, JoinToken, Open, Role, Target};
use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    sync::{Mutex, mpsc},
};
use testkit::until;

/// A depot near the client, which requests `streams` connections to the next one.
fn near(streams: u8) -> Daemon {
    near_with(streams, "")
}

fn near_with(streams: u8, more: &str) -> Daemon {
    Daemon::depot(&format!(
        "id = \"near\"\n{more}\n[timeouts]\nconnect = \"2s\"\n[[hop]]\npeer = \"127.0.0.0/8\"\nstreams = {streams}\n\
         [admin]\nlisten = \"127.0.0.1:0\""
    ))
}

fn far() -> Daemon {
    Daemon::depot("id = \"far\"")
}

/// How many connections go to the next hop, of both directions.
fn connections(depot: &Daemon) -> u64 {
    let transfers = depot.status().transfers;
    let tcp = transfers.first().and_then(|transfer| transfer.upstream_tcp.as_ref());
    tcp.map_or(0, |tcp| tcp.streams.into())
}

/// Sends bytes, waits for `go`, and sends them again and the end.
fn twice(stream: &TcpStream, bytes: &[u8], go: mpsc::Receiver<()>) -> std::thread::JoinHandle<()> {
    let (mut stream, bytes) = (stream.try_clone().unwrap(), bytes.to_vec());
    std::thread::spawn(move || {
        stream.write_all(&bytes).unwrap();
        go.recv_timeout(PATIENCE).unwrap();
        stream.write_all(&bytes).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
    })
}

/// Moves bytes both ways at once through two depots, by way of `next` to the second one. In the middle there are
/// `wanted` connections between them.
fn both_ways(near: &Daemon, next: Hop, wanted: u64) -> Answer {
    let (forth, back) = (noise(201, 3_000_003), noise(202, 2_500_001));
    let (go, ready) = mpsc::channel();
    let (sender, got) = mpsc::channel();
    let (sent, ready) = (back.clone(), std::sync::Arc::new(Mutex::new(Some(ready))));
    let acceptor = Acceptor::new(move |stream, _| {
        let sends = twice(&stream, &sent, ready.lock().unwrap().take().unwrap());
        sender.send(to_end(&stream)).unwrap();
        sends.join().unwrap();
    });
    let route = Open { hops: vec![next, hop(acceptor.address)], ..open(&[]) };
    let (client, answer) = opened(near, &route);
    let (go_on, ready) = mpsc::channel();
    let sends = twice(&client, &forth, ready);
    let reads = client.try_clone().unwrap();
    let came = std::thread::spawn(move || to_end(&reads));
    until("connections join", || connections(near) == wanted);
    go.send(()).unwrap();
    go_on.send(()).unwrap();
    assert_eq!(sha256(&came.join().unwrap()), sha256(&[&back[..], &back].concat()));
    assert_eq!(
        sha256(&got.recv_timeout(PATIENCE).unwrap()),
        sha256(&[&forth[..], &forth].concat())
    );
    sends.join().unwrap();
    answer
}

#[test]
fn session_bytes_survive_any_number_of_connections() {
    for streams in [1, 2, 4, 16] {
        let (near, far) = (near(streams), far());
        // Each direction has its own.
        let answer = both_ways(&near, hop(far.address), 1 + 2 * (u64::from(streams) - 1));
        let reported: Vec<_> = answer.hops.iter().map(|hop| hop.streams).collect();
        assert_eq!(reported, [streams, 1]);
        assert_eq!(answer.striped, None, "nothing of it reaches the client");
        near.await_log(&["ended", "bytes=5000002 sent_bytes=6000006"]);
        far.await_log(&["ended", "bytes=5000002 sent_bytes=6000006"]);
    }
}

#[test]
fn slow_and_mute_stripes_change_no_byte() {
    let (near, far) = (near(3), far());
    let slow = wires(far.address, |n| if n == 1 { Wire::Slow } else { Wire::Good });
    both_ways(&near, hop(slow), 5);
    let mute = wires(far.address, |n| if n > 2 { Wire::Mute } else { Wire::Good });
    both_ways(&near, hop(mute), 3);
}

#[test]
fn divided_hops_speak_tls() {
    let pki = Pki::new();
    let (near, far) =
        (near_with(3, &format!("tls.roots = {:?}", pki.roots())), pki.depot("id = \"far\""));
    let next = format!("https:{}", far.address).parse::<protocol::DepotAddress>().unwrap();
    both_ways(&near, next.into(), 5);
}

#[test]
fn early_session_data_arrives_before_the_answer() {
    let (near, far) = (near(4), far());
    let (sender, got) = mpsc::channel();
    // The acceptor opens the session when it has all that was sent ahead.
    let acceptor = Acceptor::raw(move |mut stream| {
        super::peers::header(&mut stream).unwrap();
        let mut early = vec![0; 60_000];
        stream.read_exact(&mut early).unwrap();
        sender.send(early).unwrap();
        let open = Answer::of(StatusCode::OK, "end".parse().unwrap());
        stream.write_all(&open.to_bytes().unwrap()).unwrap();
        echo(stream);
    });
    let early = noise(203, 60_000);
    let mut client = asked(&near, &open(&[far.address, acceptor.address]));
    client.write_all(&early).unwrap();
    assert!(got.recv_timeout(PATIENCE).unwrap() == early);
    assert_eq!(answer(&mut client).status, StatusCode::OK);
    client.write_all(b"and the rest").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(to_end(&client), b"and the rest");
}

#[test]
fn one_direction_ends_and_the_other_goes_on() {
    let (near, far) = (near(3), far());
    let back = noise(204, 4_000_000);
    let sent = back.clone();
    let acceptor = Acceptor::new(move |mut stream, _| {
        assert_eq!(to_end(&stream), b"all");
        stream.write_all(&sent).unwrap();
    });
    let (mut client, _) = opened(&near, &open(&[far.address, acceptor.address]));
    client.write_all(b"all").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(sha256(&to_end(&client)), sha256(&back));
}

#[test]
fn broken_stripe_breaks_the_session() {
    let cuts: [fn(usize) -> Wire; 2] = [
        |n| if n == 0 { Wire::Cut(1_500_000) } else { Wire::Good },
        |n| if n > 0 { Wire::Cut(300_000) } else { Wire::Good },
    ];
    for cut in cuts {
        let (near, far) = (near(4), far());
        let acceptor = Acceptor::new(|mut stream, _| {
            // It writes until the other end stops reading.
            while stream.write_all(&[7; 16_000]).is_ok() {}
        });
        let (client, _) = opened(&near, &open(&[wires(far.address, cut), acceptor.address]));
        await_reset(&client);
        near.await_log(&["method=\"SESSION\"", "failed"]);
    }
}

#[test]
fn granted_streams_match_configuration() {
    let acceptor = Acceptor::echo();
    for (configured, wished, granted) in [(4, 2, 2), (4, 1, 1), (2, 16, 2), (1, 16, 1), (4, 0, 4)] {
        let (near, far) = (near(configured), far());
        let next = Hop { streams: wished, ..hop(far.address) };
        let open = Open { hops: vec![next, hop(acceptor.address)], ..open(&[]) };
        let (client, answer) = opened(&near, &open);
        assert_eq!(answer.hops[0].streams, granted, "{wished} of {configured}");
        let sends = sending(&client, b"hello".to_vec());
        assert_eq!(to_end(&client), b"hello");
        sends.join().unwrap();
    }
}

#[test]
fn two_ends_meet_over_divided_hops() {
    let (near, far) = (near(3), far());
    let meet = |role| Open {
        hops: vec![hop(far.address)],
        ..Open::new(id(9), vec![], Target::Meeting(role))
    };
    let mut one = asked(&near, &meet(Role::Initiator));
    assert_eq!(answer(&mut one).status, StatusCode::CONTINUE);
    let mut other = asked(&near, &meet(Role::Acceptor));
    for stream in [&mut other, &mut one] {
        let answer = answer(stream);
        assert_eq!((answer.status, answer.hops[0].streams), (StatusCode::OK, 3));
    }
    let (forth, back) = (noise(205, 3 << 20), noise(206, 3 << 20));
    let sends = [sending(&one, forth.clone()), sending(&other, back.clone())];
    let came = std::thread::spawn(move || to_end(&other));
    assert_eq!(sha256(&to_end(&one)), sha256(&back));
    assert_eq!(sha256(&came.join().unwrap()), sha256(&forth));
    for sends in sends {
        sends.join().unwrap();
    }
}

#[test]
fn stranger_cannot_join_a_session() {
    let far = far();
    let answer_to = refused(&far, &JoinToken([0; 16]).to_join());
    assert_eq!(answer_to.status, StatusCode::FORBIDDEN, "{answer_to:?}");
    far.await_log(&["refused", "target=\"join\"", "no session waits"]);
}

#[test]
fn next_hop_without_stripes_is_refused() {
    let (near, other) = (near(4), Acceptor::echo());
    // It passes for a depot, because a hop follows.
    let bytes = open(&[other.address, "127.0.0.1:9".parse().unwrap()]).to_bytes().unwrap();
    let answer = refused(&near, &bytes);
    assert_eq!((answer.status, answer.by.as_str()), (StatusCode::BAD_GATEWAY, "near"));
    assert!(answer.text.contains("does not say over how many"), "{}", answer.text);
}

#[test]
fn malformed_blocks_end_the_session() {
    let (far, acceptor) = (far(), Acceptor::echo());
    let mut gap = Vec::new();
    relay::stripes::blocks::put_head(4, 5, &mut gap);
    let mut long = Vec::new();
    relay::stripes::blocks::put_head(0, 1 << 21, &mut long);
    for senseless in [&b"sixteen and more bytes"[..], &long] {
        let (mut client, answer) = opened(&far, &Open { streams: 2, ..open(&[acceptor.address]) });
        assert_eq!(answer.striped.map(|striped| striped.streams), Some(2));
        client.write_all(senseless).unwrap();
        await_reset(&client);
    }
    // Missing blocks are awaited no longer than the session may be idle, and delay no other session.
    let (mut client, _) = opened(&far, &Open { streams: 2, ..open(&[acceptor.address]) });
    client.write_all(&gap).unwrap();
    let mut other = connect(far.address);
    other.write_all(&open(&[acceptor.address]).to_bytes().unwrap()).unwrap();
    assert_eq!(answer(&mut other).status, StatusCode::OK);
}
