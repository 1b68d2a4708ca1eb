// SPDX-License-Identifier: GPL-2.0-or-later
//! One transfer followed through the logs of a chain: by its name, its client, and its ticket.

use crate::common::{
    client::{connect_from, get, read_answer, status},
    process::Daemon,
    scripted::Scripted,
};
use protocol::{
    Authority,
    http::Method,
    ticket::{Signer, Ticket, TicketRoute, UnixTime},
};
use std::{io::Write, time::SystemTime};

const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const TRUSTING: &str = "[trust]\ndepots = [\"127.0.0.1/32\"]";

/// The text of a field in a line.
fn field<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let (_, rest) = line.split_once(&format!(" {name}=\""))?;
    rest.split('"').next()
}

fn depot(id: &str, settings: &str) -> Daemon {
    Daemon::depot(&format!("id = \"{id}\"\n{settings}"))
}

/// Sends a request from an address that is not a depot's.
fn ask(depot: &Daemon, route: &str, fields: &str) {
    let mut stream = connect_from("127.0.0.9", depot.address);
    write!(stream, "GET {route} HTTP/1.1\r\nHost: d\r\n{fields}Connection: close\r\n\r\n").unwrap();
    let (head, ..) = read_answer(stream);
    assert_eq!(status(&head), 200, "{head}");
}

#[test]
fn trusting_depots_share_request_id() {
    let origin = Scripted::answering(ANSWER);
    let (near, middle, far) =
        (depot("near", TRUSTING), depot("middle", TRUSTING), depot("far", TRUSTING));
    let chain = format!("{},{}", middle.authority(), far.authority());
    // What the client says of itself counts for nothing.
    let forged = "Forwarded: for=192.0.2.66\r\nLonghaul-Request: forged\r\n";
    for path in ["/first", "/second"] {
        ask(&near, &origin.route(&chain, path), forged);
    }
    for path in ["/first", "/second"] {
        let line = near.await_log(&["complete", path]);
        let name = field(&line, "request").unwrap().to_owned();
        assert!(name.len() > 8 && name != "forged", "{line}");
        assert_eq!(field(&line, "for"), None, "its client is its own: {line}");
        for depot in [&middle, &far] {
            let line = depot.await_log(&["complete", path, &format!("request=\"{name}\"")]);
            assert_eq!(field(&line, "for"), Some("127.0.0.9"), "{line}");
        }
        // Each request has a name of its own.
        assert_eq!(near.log_text().matches(&format!("request=\"{name}\"")).count(), 1);
        let seen = origin.next_head().to_lowercase();
        assert!(!seen.contains("127.0.0.9") && !seen.contains(&name), "{seen}");
    }
}

#[test]
fn untrusted_peer_gets_no_trace_and_sets_none() {
    let origin = Scripted::answering(ANSWER);
    for (of_near, of_far) in [("", TRUSTING), (TRUSTING, ""), ("", "")] {
        let (near, far) = (depot("near", of_near), depot("far", of_far));
        ask(&near, &origin.route(&far.authority(), "/f"), "");
        let (line, beyond) = (near.await_log(&["complete"]), far.await_log(&["complete"]));
        assert_eq!(field(&beyond, "for"), None, "{beyond}");
        assert_ne!(field(&line, "request"), field(&beyond, "request"));
        origin.next_head();
    }
    // A next hop that is not a depot gets no trace fields, even if it is trusted.
    let near = depot("near", TRUSTING);
    assert_eq!(status(&get(near.address, &origin.route("-", "/f")).0), 200);
    let seen = origin.next_head().to_lowercase();
    assert!(!seen.contains("forwarded") && !seen.contains("longhaul-"), "{seen}");
}

#[test]
fn each_log_names_the_ticket() {
    let origin = Scripted::answering(ANSWER);
    let (dir, signer) = (tempfile::tempdir().unwrap(), Signer::from_seed([7; 32]).unwrap());
    let keys = dir.path().join("keys.json");
    std::fs::write(&keys, signer.public_set()).unwrap();
    let settings =
        format!("[trust]\nkeys = {keys:?}\n[allow]\nlocal = true\n[log]\nformat = \"text\"");
    let (near, far) = (depot("near", &settings), depot("far", &settings));
    let now = UnixTime::from(SystemTime::now());
    let ticket = Ticket {
        id: "order-\"66\"".to_owned(),
        issuer: None,
        issued: None,
        not_before: None,
        expires: now.plus(600),
        opens: format!("http://{}/f", origin.address).parse().unwrap(),
        via: [&near, &far].map(|depot| Authority::from(depot.address).into()).into(),
        methods: vec![Method::Get],
        bytes: None,
        rate: None,
        total_rate: None,
        clients: Vec::new(),
        uses: None,
    };
    let route = TicketRoute::new(&signer.sign(&ticket).unwrap(), "f").unwrap().to_string();
    assert_eq!(status(&get(near.address, &route).0), 200);
    for depot in [&near, &far] {
        depot.await_log(&["complete", r#" ticket="order-\"66\"""#]);
    }
}
