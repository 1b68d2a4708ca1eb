// SPDX-License-Identifier: GPL-2.0-or-later
//! What passes through a session, and how it ends.

use super::peers::{
    Acceptor, answer, asked, await_reset, echo, echoes, id, open, opened, reset, sending, to_end,
};
use crate::common::{
    PATIENCE,
    client::connect,
    noise,
    pki::Pki,
    process::Daemon,
    scripted::{Scripted, read_head},
    sha256,
};
use http::StatusCode;
use protocol::session::{Hop, Open, Target};
use rand_core::{Rng, SeedableRng};
use socket2::SockRef;
use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{Arc, mpsc},
};
use testkit::until;
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};

const LENGTH: usize = 10 << 20;

fn seed() -> u64 {
    let seed = std::env::var("LONGHAUL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("LONGHAUL_SEED={seed}");
    seed
}

#[test]
fn session_carries_10_mb_both_ways_through_depots() {
    let seed = seed();
    let (forth, back) = (noise(seed, LENGTH), noise(seed + 1, LENGTH));
    for relay in ["splice", "copy"] {
        let depots = [1, 2].map(|n| Daemon::depot(&format!("id = \"d{n}\"\ncopy = \"{relay}\"")));
        let (sender, got) = mpsc::channel();
        let sent = back.clone();
        let acceptor = Acceptor::new(move |stream, open| {
            let sends = sending(&stream, sent.clone());
            sender.send((to_end(&stream), open)).unwrap();
            sends.join().unwrap();
        });
        for hops in [&[acceptor.address][..], &[depots[1].address, acceptor.address]] {
            let (client, answer) = opened(&depots[0], &open(hops));
            let sends = sending(&client, forth.clone());
            assert_eq!(sha256(&to_end(&client)), sha256(&back), "{relay}");
            sends.join().unwrap();
            let (came, open) = got.recv_timeout(PATIENCE).unwrap();
            assert_eq!(sha256(&came), sha256(&forth), "{relay}");
            let passed: Vec<_> = open.passed.iter().map(|id| id.as_str().to_owned()).collect();
            assert_eq!((open.hops.len(), open.session), (0, id(7)));
            assert_eq!(passed, ["d1", "d2"][..hops.len()]);
            let reports: Vec<_> = answer.hops.iter().map(|hop| hop.depot.to_string()).collect();
            assert_eq!((reports, answer.by.as_str()), (passed, "end"));
            assert!(answer.hops.iter().all(|hop| hop.congestion.is_some() && hop.rtt_us > 0));
        }
        let line = depots[0].await_log(&["ended", "method=\"SESSION\""]);
        for part in [
            "session=\"07070707070707070707070707070707\"",
            &format!("target=\"end:{}\"", acceptor.address),
            &format!("bytes={LENGTH} sent_bytes={LENGTH}"),
            "status=200",
            &format!("copy=\"{relay}\""),
        ] {
            assert!(line.contains(part), "{part} is not in {line}");
        }
    }
}

/// An urgent byte is part of the stream, and holds up neither what follows nor the end.
#[test]
fn urgent_bytes_pass_in_order() {
    for relay in ["splice", "copy"] {
        let depots = [1, 2].map(|n| Daemon::depot(&format!("id = \"d{n}\"\ncopy = \"{relay}\"")));
        let acceptor = Acceptor::new(move |stream, _| {
            let mut begin = [0; 7];
            (&stream).read_exact(&mut begin).unwrap();
            assert_eq!(&begin, b"abc!def");
            SockRef::from(&stream).send_out_of_band(b"?").unwrap();
            assert_eq!(to_end(&stream), [b"more".repeat(50_000), b"!".to_vec()].concat());
            (&stream).write_all(b" and back").unwrap();
        });
        let (mut client, _) = opened(&depots[0], &open(&[depots[1].address, acceptor.address]));
        client.write_all(b"abc").unwrap();
        SockRef::from(&client).send_out_of_band(b"!").unwrap();
        client.write_all(b"def").unwrap();
        let mut first = [0];
        SockRef::from(&client).set_out_of_band_inline(true).unwrap();
        client.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"?", "{relay}");
        client.write_all(&b"more".repeat(50_000)).unwrap();
        SockRef::from(&client).send_out_of_band(b"!").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(to_end(&client), b" and back", "{relay}");
    }
}

#[test]
fn end_of_one_direction_leaves_the_other_open() {
    let depot = Daemon::depot("");
    // The client ends first, and then the acceptor.
    let acceptor = Acceptor::new(|mut stream, _| {
        assert_eq!(to_end(&stream), b"all");
        stream.write_all(b"behind").unwrap();
    });
    let (mut client, _) = opened(&depot, &open(&[acceptor.address]));
    client.write_all(b"all").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(to_end(&client), b"behind");
    // The other way round.
    let (sender, got) = mpsc::channel();
    let acceptor = Acceptor::new(move |mut stream, _| {
        stream.write_all(b"all").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        sender.send(to_end(&stream)).unwrap();
    });
    let (mut client, _) = opened(&depot, &open(&[acceptor.address]));
    assert_eq!(to_end(&client), b"all");
    client.write_all(b"behind").unwrap();
    drop(client);
    assert_eq!(got.recv_timeout(PATIENCE).unwrap(), b"behind");
}

#[test]
fn data_behind_open_arrives_without_waiting() {
    let depots = [1, 2].map(|n| Daemon::depot(&format!("id = \"d{n}\"")));
    let acceptor = Acceptor::echo();
    let request = open(&[depots[1].address, acceptor.address]);
    // More than a depot keeps before there is an ANSWER.
    for length in [5, 300_000] {
        let data = noise(3, length);
        let mut client = connect(depots[0].address);
        let all = [request.to_bytes().unwrap(), data.clone()].concat();
        let sends = sending(&client, all);
        assert_eq!(answer(&mut client).status, StatusCode::OK);
        assert_eq!(sha256(&to_end(&client)), sha256(&data));
        sends.join().unwrap();
        // What was sent ahead of the ANSWER counts, too.
        depots[0].await_log(&["ended", &format!("bytes={length} sent_bytes={length} ")]);
    }
}

#[test]
fn open_may_come_byte_by_byte() {
    let depot = Daemon::depot("");
    let acceptor = Acceptor::echo();
    let mut client = connect(depot.address);
    client.set_nodelay(true).unwrap();
    for byte in open(&[acceptor.address]).to_bytes().unwrap() {
        client.write_all(&[byte]).unwrap();
        std::thread::yield_now();
    }
    assert_eq!(answer(&mut client).status, StatusCode::OK);
    echoes(&client);
}

#[test]
fn idle_http_connection_may_open_a_session() {
    let depot = Daemon::depot("");
    let acceptor = Acceptor::echo();
    let origin = Scripted::answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let mut client = connect(depot.address);
    for _ in 0..2 {
        let route = origin.route("-", "/");
        write!(client, "GET {route} HTTP/1.1\r\nHost: depot\r\n\r\n").unwrap();
        assert!(read_head(&client).unwrap().starts_with("HTTP/1.1 200"));
        client.read_exact(&mut [0; 2]).unwrap();
    }
    client.write_all(&open(&[acceptor.address]).to_bytes().unwrap()).unwrap();
    assert_eq!(answer(&mut client).status, StatusCode::OK);
    echoes(&client);
}

/// A TLS client that offers these protocols.
fn tls(pki: &Pki, to: SocketAddr, alpn: &[&str]) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(pki.roots()).unwrap()).unwrap();
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(connection, connect(to))
}

#[test]
fn sessions_and_http_share_a_tls_listener() {
    let pki = Pki::new();
    let depots = [1, 2].map(|n| pki.depot(&format!("id = \"d{n}\"")));
    let acceptor = Acceptor::echo();
    let next: Hop =
        format!("https:{}", depots[1].address).parse::<protocol::DepotAddress>().unwrap().into();
    let hops = vec![next, super::peers::hop(acceptor.address)];
    let request = Open::new(id(1), hops, Target::End).to_bytes().unwrap();
    for alpn in [&["lsl/1"][..], &["http/1.1"], &[], &["http/1.1", "lsl/1"]] {
        let mut client = tls(&pki, depots[0].address, alpn);
        client.write_all(&request).unwrap();
        assert_eq!(answer(&mut client).status, StatusCode::OK, "{alpn:?}");
        client.write_all(b"hello").unwrap();
        let mut word = [0; 5];
        client.read_exact(&mut word).unwrap();
        assert_eq!(&word, b"hello");
        // The end of one direction, over both stretches of TLS.
        client.conn.send_close_notify();
        client.flush().unwrap();
        client.sock.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.read(&mut word).unwrap(), 0, "{alpn:?}");
    }
    for (alpn, expected) in [(&[][..], &b"HTTP/1.1 400"[..]), (&["lsl/1"], b"\xb1LSL\x01\x02")] {
        let mut client = tls(&pki, depots[0].address, alpn);
        client.write_all(b"GET / HTTP/1.1\r\nHost: depot\r\n\r\n").unwrap();
        let mut first = vec![0; expected.len()];
        client.read_exact(&mut first).unwrap();
        assert_eq!(first, expected, "{alpn:?}");
    }
    // Clients of HTTP are served as before.
    let origin = Scripted::answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let url = format!("https://{}{}", depots[0].address, origin.route("-", "/"));
    assert_eq!(pki.curl(&[&url]).stdout, b"ok");
}

#[test]
fn reset_of_one_side_resets_the_other() {
    for relay in ["splice", "copy"] {
        let depots = [1, 2].map(|n| Daemon::depot(&format!("id = \"d{n}\"\ncopy = \"{relay}\"")));
        let (sender, got) = mpsc::channel();
        let acceptor = Acceptor::new(move |stream, _| sender.send(stream).unwrap());
        let request = open(&[depots[1].address, acceptor.address]);
        let pair = || {
            let (client, _) = opened(&depots[0], &request);
            (client, got.recv_timeout(PATIENCE).unwrap())
        };
        let (client, mut far) = pair();
        far.write_all(&noise(5, 100_000)).unwrap();
        reset(far);
        await_reset(&client);
        let (mut client, far) = pair();
        client.write_all(&noise(5, 100_000)).unwrap();
        reset(client);
        await_reset(&far);
        // After one direction has ended in good order.
        let (client, mut far) = pair();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(to_end(&far), b"");
        reset(client);
        // Its reading side is at its end already, so that only a write shows it.
        until("a write fails", || far.write_all(b"x").is_err());
    }
}

#[test]
fn random_pieces_arrive_in_order() {
    let seed = seed();
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
    let depots = [1, 2].map(|n| Daemon::depot(&format!("id = \"d{n}\"")));
    let acceptor = Acceptor::echo();
    let (mut client, _) = opened(&depots[0], &open(&[depots[1].address, acceptor.address]));
    let reader = client.try_clone().unwrap();
    let reads = std::thread::spawn(move || to_end(&reader));
    let mut sent = Vec::new();
    for _ in 0..300 {
        let length =
            random.next_u32() as usize % [10, 1000, 100_000][random.next_u32() as usize % 3];
        let piece = noise(random.next_u64(), length);
        client.write_all(&piece).unwrap();
        sent.extend(piece);
    }
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(sha256(&reads.join().unwrap()), sha256(&sent));
}

#[test]
fn silent_session_is_reset_and_logged() {
    let depot = Daemon::depot("session.idle = \"300ms\"\ntimeouts.idle = \"10ms\"");
    let (sender, got) = mpsc::channel();
    let acceptor = Acceptor::new(move |stream, _| sender.send(stream).unwrap());
    let (client, _) = opened(&depot, &open(&[acceptor.address]));
    let far = got.recv_timeout(PATIENCE).unwrap();
    await_reset(&client);
    await_reset(&far);
    depot.await_log(&["session idle for 0.3 s, reset", "method=\"SESSION\""]);
}

#[test]
fn session_under_way_outlives_a_stop_and_new_ones_are_refused() {
    let mut depot = Daemon::depot("");
    let acceptor = Acceptor::echo();
    let (client, _) = opened(&depot, &open(&[acceptor.address]));
    // It has not sent all of its OPEN.
    let mut late = connect(depot.address);
    late.write_all(b"\xb1LSL").unwrap();
    // Until the depot has read that.
    std::thread::sleep(std::time::Duration::from_millis(100));
    depot.signal(rustix::process::Signal::TERM);
    depot.await_log(&["stopping: finishing transfers"]);
    let refused = answer(&mut late);
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE, "{refused:?}");
    echoes(&client);
    drop((client, late));
    assert!(depot.wait().success());
}

#[test]
fn wished_pacing_holds_the_connection_to_the_hop() {
    let depot = Daemon::depot("admin.listen = \"127.0.0.1:0\"\nsession.congestion = [\"reno\"]");
    let acceptor = Acceptor::new(|stream, _| echo(stream));
    let wish = |congestion: &str| {
        let mut request = open(&[acceptor.address]);
        request.hops[0].pacing = Some(units::Rate::bits_per_second(80_000_000));
        request.hops[0].congestion = Some(congestion.parse().unwrap());
        request
    };
    let (client, answer) = opened(&depot, &wish("reno"));
    assert_eq!(answer.hops[0].congestion.as_ref().unwrap().as_str(), "reno");
    let status = depot.status();
    let tcp = |upstream: bool| {
        let transfer = &status.transfers[0];
        if upstream { &transfer.upstream_tcp } else { &transfer.client_tcp }.clone().unwrap()
    };
    assert_eq!(tcp(true).pacing_bps, Some(80_000_000));
    assert_eq!(tcp(false).pacing_bps, None);
    assert_eq!((status.transfers[0].method.as_str(), status.transfers.len()), ("SESSION", 1));
    drop(client);
    // A wish that is not granted is not an error.
    let (_, answer) = opened(&depot, &wish("warp"));
    assert_ne!(answer.hops[0].congestion.as_ref().unwrap().as_str(), "warp");
    let _ = asked(&depot, &wish("warp"));
}

#[test]
fn slow_reader_of_a_session_is_reset_a_silent_one_is_not() {
    let depot = Daemon::depot("[limits]\nleast_rate = \"80kbit\"\nleast_time = \"500ms\"");
    let acceptor = Acceptor::echo();
    let (silent, _) = opened(&depot, &open(&[acceptor.address]));
    let endless = Acceptor::new(|mut stream, _| while stream.write_all(&[0; 8_192]).is_ok() {});
    let (slow, _) = opened(&depot, &open(&[endless.address]));
    let line = depot.await_log(&["WARN", "client stalled", &endless.address.to_string()]);
    assert!(line.contains("it took less than `limits.least_rate`"), "{line}");
    await_reset(&slow);
    // It has been silent for longer.
    echoes(&silent);
}
