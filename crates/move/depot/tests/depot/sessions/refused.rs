// SPDX-License-Identifier: GPL-2.0-or-later
//! Sessions that do not come about.

use super::peers::{Acceptor, answer, asked, echoes, hop, open, open_tcp, opened, refused};
use crate::common::{
    client::{connect, connect_from},
    process::Daemon,
    refusing_address,
    scripted::Scripted,
};
use http::StatusCode;
use protocol::{
    http::{Fault, ProxyError},
    session::{Answer, Open, TicketText},
};
use std::io::{Read, Write};
use testkit::until;

#[test]
fn session_from_a_client_not_listed_is_refused() {
    let depot = Daemon::depot("");
    let acceptor = Acceptor::echo();
    let request = open(&[acceptor.address]).to_bytes().unwrap();
    let only = Daemon::depot(
        "[allow]\nclients = [\"127.0.0.2/32\"]\nupstreams = [\"127.0.0.0/8:*\"]\nlocal = true",
    );
    let answer = refused(&only, &request);
    assert_eq!(
        (answer.status.as_u16(), answer.error.as_deref()),
        (403, Some("http_request_denied"))
    );
    assert!(answer.text.contains("127.0.0.1"), "{answer:?}");
    let mut listed = connect_from("127.0.0.2", only.address);
    listed.write_all(&request).unwrap();
    assert_eq!(super::peers::answer(&mut listed).status, StatusCode::OK);
    opened(&depot, &open(&[acceptor.address]));
}

#[test]
fn session_to_an_upstream_not_listed_is_refused() {
    let acceptor = Acceptor::echo();
    let depot = Daemon::depot(
        "[allow]\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.1:9\"]\nlocal = true",
    );
    for request in [open(&[acceptor.address]), open_tcp(acceptor.address)] {
        let answer = refused(&depot, &request.to_bytes().unwrap());
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
        assert!(answer.text.contains(&acceptor.address.to_string()), "{answer:?}");
        depot.await_log(&["refused", "method=\"SESSION\"", "status=403", "session=\"0"]);
    }
}

#[test]
fn session_without_required_ticket_is_refused() {
    let acceptor = Acceptor::echo();
    let depot = Daemon::depot("trust.required = true");
    assert_eq!(refused(&depot, &open(&[acceptor.address]).to_bytes().unwrap()).status, 403);
    let ticket = Some(TicketText::new(0, "a.b.c".to_owned()).unwrap());
    let request = Open { ticket, ..open(&[acceptor.address]) };
    let answer = refused(&depot, &request.to_bytes().unwrap());
    assert_eq!(answer.status, StatusCode::FORBIDDEN, "no key is trusted: {answer:?}");
}

#[test]
fn looping_session_is_refused() {
    let depots = ["d1", "d2"].map(|id| Daemon::depot(&format!("id = \"{id}\"")));
    let circle = open(&[depots[1].address, depots[0].address, depots[1].address]);
    let answer = refused(&depots[0], &circle.to_bytes().unwrap());
    assert_eq!((answer.status.as_u16(), answer.by.as_str()), (508, "d1"));
    assert_eq!(answer.error.as_deref(), Some("proxy_loop_detected"));
    let far = Open { passed: vec!["x".parse().unwrap(); 16], ..circle };
    assert_eq!(refused(&depots[0], &far.to_bytes().unwrap()).status, 508);
    // A route that ends at a depot.
    let answer = refused(&depots[0], &open(&[depots[1].address]).to_bytes().unwrap());
    assert_eq!((answer.status.as_u16(), answer.by.as_str()), (400, "d2"));
}

#[test]
fn malformed_open_ends_its_own_connection_alone() {
    let depot = Daemon::depot("");
    let acceptor = Acceptor::echo();
    let (other, _) = opened(&depot, &open(&[acceptor.address]));
    let good = open(&[acceptor.address]).to_bytes().unwrap();
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    for bad in [
        b"\xb1LSM".to_vec(),
        changed(4, 2),
        changed(5, 3),
        // An ANSWER.
        Answer::of(StatusCode::OK, "d".parse().unwrap()).to_bytes().unwrap(),
        // Too long, of which nothing has to come.
        b"\xb1LSL\x01\x01\xff\xff".to_vec(),
        // An unknown field that must not be ignored, and none.
        b"\xb1LSL\x01\x01\0\x03\x7f\0\0".to_vec(),
        b"\xb1LSL\x01\x01\0\0".to_vec(),
    ] {
        let answer = refused(&depot, &bad);
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{}: {answer:?}", bad.escape_ascii());
    }
    // Cut off.
    for length in [1, 7, good.len() - 1] {
        let mut client = connect(depot.address);
        client.write_all(&good[..length]).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
    }
    echoes(&other);
}

#[test]
fn open_slower_than_the_head_timeout_is_refused() {
    let depot = Daemon::depot("timeouts.request_head = \"300ms\"");
    let acceptor = Acceptor::echo();
    let good = open(&[acceptor.address]).to_bytes().unwrap();
    let answer = refused(&depot, &good[..good.len() - 1]);
    assert_eq!(answer.status, StatusCode::REQUEST_TIMEOUT, "{answer:?}");
}

#[test]
fn refused_next_hop_is_named() {
    let depots = ["d1", "d2"].map(|id| Daemon::depot(&format!("id = \"{id}\"")));
    let gone = refusing_address();
    for (request, by) in [
        (open(&[gone]), "d1"),
        (open_tcp(gone), "d1"),
        (open(&[depots[1].address, gone]), "d2"),
        (Open { hops: vec![hop(depots[1].address)], ..open_tcp(gone) }, "d2"),
    ] {
        let answer = refused(&depots[0], &request.to_bytes().unwrap());
        assert_eq!((answer.status.as_u16(), answer.by.as_str()), (502, by), "{answer:?}");
        assert_eq!(answer.error.as_deref(), Some("connection_refused"));
        // Those that have passed the answer on say so.
        let passed: Vec<&str> = answer.hops.iter().map(|hop| hop.depot.as_str()).collect();
        assert_eq!(passed, if by == "d1" { vec![] } else { vec!["d1"] });
        assert!(answer.text.contains(&gone.to_string()), "{answer:?}");
    }
}

#[test]
fn next_hop_that_speaks_no_lsl_is_named() {
    let depot = Daemon::depot("");
    let web = Acceptor::raw(|mut stream| {
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let closing = Acceptor::raw(|mut stream| drop(stream.read(&mut [0; 1024])));
    for (peer, error) in [(web, "http_protocol_error"), (closing, "connection_terminated")] {
        let answer = refused(&depot, &open(&[peer.address]).to_bytes().unwrap());
        assert_eq!((answer.status.as_u16(), answer.error.as_deref()), (502, Some(error)));
        assert!(answer.text.contains(&peer.address.to_string()), "{answer:?}");
    }
}

#[test]
fn refusal_of_the_far_end_is_passed_back_unchanged() {
    let depots = ["d1", "d2"].map(|id| Daemon::depot(&format!("id = \"{id}\"")));
    let fault = Fault::new(StatusCode::GONE, ProxyError::HttpRequestDenied, "no such file");
    let said = Answer::of_fault(&fault, "end".parse().unwrap());
    let bytes = said.to_bytes().unwrap();
    let acceptor = Acceptor::raw(move |mut stream| {
        let _ = super::peers::header(&mut stream);
        let _ = stream.write_all(&bytes);
    });
    let request = open(&[depots[1].address, acceptor.address]);
    assert_eq!(refused(&depots[0], &request.to_bytes().unwrap()), said);
}

#[test]
fn silent_next_hop_is_named_in_time() {
    let depot = Daemon::depot("timeouts.response_head = \"100ms\"\ntimeouts.connect = \"100ms\"");
    let silent = Acceptor::raw(|mut stream| while let Ok(1..) = stream.read(&mut [0; 1024]) {});
    let answer = refused(&depot, &open(&[silent.address]).to_bytes().unwrap());
    assert_eq!(
        (answer.status.as_u16(), answer.error.as_deref()),
        (504, Some("http_response_timeout"))
    );
}

#[test]
fn session_over_the_limit_of_connections_gets_an_answer() {
    let depot = Daemon::depot("limits.connections = 1");
    let acceptor = Acceptor::echo();
    let request = open(&[acceptor.address]);
    let (first, _) = opened(&depot, &request);
    let answer = refused(&depot, &request.to_bytes().unwrap());
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{answer:?}");
    assert_eq!(answer.error.as_deref(), Some("connection_limit_reached"));
    // Requests are answered as such.
    let origin = Scripted::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let (head, ..) = crate::common::client::get(depot.address, &origin.route("-", "/"));
    assert!(head.starts_with("HTTP/1.1 503"), "{head}");
    echoes(&first);
}

#[test]
fn client_that_leaves_before_the_answer_frees_the_next_hop() {
    let depot = Daemon::depot("");
    let (sender, gone) = std::sync::mpsc::channel();
    let silent = Acceptor::raw(move |mut stream| {
        let mut buffer = [0; 1024];
        let end = loop {
            match stream.read(&mut buffer) {
                Ok(1..) => {}
                end => break end.map_err(|error| error.kind()),
            }
        };
        sender.send(end).unwrap();
    });
    let client = asked(&depot, &open(&[silent.address]));
    depot.await_log(&["ready"]);
    std::thread::sleep(std::time::Duration::from_millis(50));
    super::peers::reset(client);
    let end = gone.recv_timeout(crate::common::PATIENCE).unwrap();
    assert_eq!(end, Err(std::io::ErrorKind::ConnectionReset));
    depot.await_log(&["client gone", "method=\"SESSION\""]);
}

#[test]
fn session_without_descriptors_left_gets_an_answer() {
    let depot = Daemon::depot_by("ulimit -n 40; exec \"$0\" \"$@\"", "id = \"d1\"");
    let acceptor = Acceptor::echo();
    let request = open(&[acceptor.address]);
    let held: Vec<_> = (0..64).map(|_| connect(depot.address)).collect();
    depot.await_log(&["WARN", "cannot accept a connection"]);
    // It was accepted, and there is no socket for its next hop.
    let mut first = &held[0];
    first.write_all(&request.to_bytes().unwrap()).unwrap();
    let told = answer(&mut first);
    assert_eq!(told.status, StatusCode::SERVICE_UNAVAILABLE, "{told:?}");
    assert_eq!(first.read(&mut [0]).unwrap(), 0, "the connection is closed");
    drop(held);
    until("it recovers", || answer(&mut asked(&depot, &request)).status == StatusCode::OK);
}
