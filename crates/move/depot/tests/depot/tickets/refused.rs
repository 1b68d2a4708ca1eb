// SPDX-License-Identifier: GPL-2.0-or-later
//! Tickets that open nothing: expired, altered, forged, used up, or for another client.
//!
//! Where a guard is missing, the origin's "served" comes instead of the depot's refusal; and what
//! came to the origin in between is seen there before the last, good request.

use super::{Keys, SERVED, from_now, next_to_arrive, opens, refused, route, signer, ticket};
use crate::common::{
    client::{get, read_answer, status},
    process::Daemon,
    scripted::Scripted,
};
use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD as BASE64},
};
use protocol::ticket::{LEEWAY_S, Ticket};
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};
use std::{
    io::Write,
    net::{IpAddr, SocketAddr, TcpStream},
    num::NonZeroU32,
};

/// Far beyond the tolerance for clocks.
const LONG: i64 = 20 * LEEWAY_S as i64;

#[test]
fn ticket_outside_its_validity_is_refused() {
    let (keys, origin) = (Keys::new(), Scripted::answering(SERVED));
    let depot = keys.open();
    let good = ticket(origin.address, "/f", &[&depot]);
    let expired = Ticket { expires: from_now(-LONG), ..good.clone() };
    refused(&depot, &keys.route(&expired, "f"), 403, "has expired at");
    let early = Ticket { not_before: Some(from_now(LONG)), ..good.clone() };
    refused(&depot, &keys.route(&early, "f"), 403, "is valid from");
    let begun = Ticket { not_before: Some(from_now(-LONG)), ..good };
    next_to_arrive(&origin, &depot, &keys.route(&begun, "f"), "/f");
}

#[test]
fn altered_ticket_is_refused() {
    let (keys, origin) = (Keys::new(), Scripted::answering(SERVED));
    let depot = keys.open();
    let ticket = ticket(origin.address, "/dir/", &[&depot]);
    let token = keys.signer.sign(&ticket).unwrap();
    // Each character for another one.
    for (at, old) in token.bytes().enumerate().filter(|(_, byte)| *byte != b'.') {
        let mut altered = token.clone().into_bytes();
        altered[at] = if old == b'A' { b'B' } else { b'A' };
        let altered = String::from_utf8(altered).unwrap();
        let (head, ..) = get(depot.address, &format!("/lh2/0/{altered}/f"));
        assert!([400, 403].contains(&status(&head)), "character {at}: {head}");
    }
    let parts: Vec<&str> = token.split('.').collect();
    // Claims that say more under the same signature.
    let mut claims: Value = serde_json::from_slice(&BASE64.decode(parts[1]).unwrap()).unwrap();
    claims["lh"]["url"] = format!("http://{}/", origin.address).into();
    let more = BASE64.encode(claims.to_string());
    let forged = format!("/lh2/0/{}.{more}.{}/f", parts[0], parts[2]);
    refused(&depot, &forged, 403, "altered, or forged");
    // The signature of another ticket of the same key.
    let other = Ticket { id: "t2".to_owned(), ..ticket.clone() };
    let other = keys.signer.sign(&other).unwrap();
    let swapped = format!("{}.{}.{}", parts[0], parts[1], other.rsplit('.').next().unwrap());
    refused(&depot, &format!("/lh2/0/{swapped}/f"), 403, "altered, or forged");
    for cut in [&token[..token.len() - 1], &format!("{token}A"), &format!("{token}=")] {
        let (head, ..) = get(depot.address, &format!("/lh2/0/{cut}/f"));
        assert!([400, 403].contains(&status(&head)), "{cut}: {head}");
    }
    next_to_arrive(&origin, &depot, &format!("/lh2/0/{token}/last"), "/dir/last");
}

#[test]
fn ticket_cannot_choose_key_or_algorithm() {
    let (keys, origin) = (Keys::new(), Scripted::answering(SERVED));
    let depot = keys.open();
    let ticket = ticket(origin.address, "/f", &[&depot]);
    let token = keys.signer.sign(&ticket).unwrap();
    let claims = token.split('.').nth(1).unwrap();
    let (kid, stranger) = (keys.signer.kid(), signer(2));
    refused(&depot, &route(&stranger, &ticket, "f"), 403, "does not trust");

    // A stranger's signature under the trusted name: over the very text that is checked.
    let with_header = |header: &Value| format!("{}.{claims}", BASE64.encode(header.to_string()));
    let signed = |header: &Value, secret: Option<&[u8]>| {
        let text = with_header(header);
        let (key, algorithm) = if let Some(secret) = secret {
            (jsonwebtoken::EncodingKey::from_secret(secret), jsonwebtoken::Algorithm::HS256)
        } else {
            let pem = stranger.to_pem();
            let der = STANDARD.decode(pem.lines().nth(1).unwrap()).unwrap();
            (jsonwebtoken::EncodingKey::from_ed_der(&der), jsonwebtoken::Algorithm::EdDSA)
        };
        let signature = jsonwebtoken::crypto::sign(text.as_bytes(), &key, algorithm).unwrap();
        format!("/lh2/0/{text}.{signature}/f")
    };
    let posing = signed(&json!({ "alg": "EdDSA", "kid": kid }), None);
    refused(&depot, &posing, 403, "altered, or forged");
    let set: Value = serde_json::from_str(&stranger.public_set()).unwrap();
    let own_key = json!({ "alg": "EdDSA", "kid": kid, "jwk": set["keys"][0] });
    refused(&depot, &signed(&own_key, None), 400, "its header has \"jwk\"");

    // What is public as the secret: the key as its bytes, in base64url, in PEM, and as its set.
    let set: Value = serde_json::from_str(&keys.signer.public_set()).unwrap();
    let x = set["keys"][0]["x"].as_str().unwrap();
    let hs256 = json!({ "alg": "HS256", "kid": kid });
    for secret in [
        BASE64.decode(x).unwrap(),
        x.as_bytes().to_vec(),
        keys.signer.public_pem().into_bytes(),
        keys.signer.public_set().into_bytes(),
        Vec::new(),
    ] {
        refused(&depot, &signed(&hs256, Some(&secret)), 403, "algorithm is \"HS256\"");
    }

    for alg in ["none", "None", "NONE", ""] {
        let text = with_header(&json!({ "alg": alg, "kid": kid }));
        let signature = token.rsplit('.').next().unwrap();
        // A ticket with an empty part is malformed; with a signature the algorithm itself is the reason.
        refused(&depot, &format!("/lh2/0/{text}./f"), 400, "not three parts");
        refused(&depot, &format!("/lh2/0/{text}.{signature}/f"), 403, "algorithm is");
    }
    next_to_arrive(&origin, &depot, &keys.route(&ticket, "f"), "/f");
}

#[test]
fn ticket_use_count_is_enforced() {
    let (keys, origin) = (Keys::new(), Scripted::answering(SERVED));
    let depot = keys.open();
    let uses = NonZeroU32::new(3);
    let three = Ticket { uses, ..ticket(origin.address, "/dir/", &[&depot]) };
    // At the same time, for different files: all count.
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let ask = |n: usize| {
            let (address, route) = (depot.address, keys.route(&three, &format!("f{n}")));
            scope.spawn(move || status(&get(address, &route).0))
        };
        let asked: Vec<_> = (0..8).map(ask).collect();
        asked.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 3, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 403).count(), 5, "{statuses:?}");
    refused(&depot, &keys.route(&three, "f"), 403, "has been used 3 times");
    // Signed once more it is the same one; another name makes another.
    let longer = Ticket { expires: from_now(7200), ..three.clone() };
    refused(&depot, &keys.route(&longer, "f"), 403, "has been used 3 times");
    opens(&depot, &keys.route(&Ticket { id: "t2".to_owned(), ..three }, "f"));
}

#[test]
fn full_ticket_counter_forgets_no_ticket() {
    let (keys, origin) = (Keys::new(), Scripted::answering(SERVED));
    let depot = keys.depot("replays = 1", "local = true");
    let once = |id: &str| {
        let uses = NonZeroU32::new(1);
        let ticket = Ticket { uses, ..ticket(origin.address, "/f", &[&depot]) };
        keys.route(&Ticket { id: id.to_owned(), ..ticket }, "f")
    };
    opens(&depot, &once("a"));
    refused(&depot, &once("b"), 503, "can take no more");
    refused(&depot, &once("a"), 403, "has been used 1 times");
    // One without a number of uses is not counted.
    opens(&depot, &keys.route(&ticket(origin.address, "/f", &[&depot]), "f"));
}

/// What a depot answers to a client that has this address.
fn from(client: &str, depot: &Daemon, route: &str) -> u16 {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let address: IpAddr = client.parse().unwrap();
    socket.bind(&SocketAddr::new(address, 0).into()).unwrap();
    socket.connect(&depot.address.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(crate::common::PATIENCE)).unwrap();
    write!(stream, "GET {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n").unwrap();
    status(&read_answer(stream).0)
}

#[test]
fn ticket_binds_its_clients_at_every_hop() {
    let (keys, origin) = (Keys::new(), Scripted::answering(SERVED));
    let (near, far) = (keys.open(), keys.depot_named("d2", "", "local = true"));
    let clients = vec!["127.0.0.8/29".parse().unwrap()];
    let ticket = Ticket { clients, ..ticket(origin.address, "/f", &[&near, &far]) };
    let first = keys.route(&ticket, "f");
    let second = first.replace("/lh2/0/", "/lh2/1/");
    assert_eq!(from("127.0.0.9", &near, &first), 200);
    assert_eq!(from("127.0.0.16", &near, &first), 403);
    // A client outside the ticket cannot pass for a depot; one inside may skip one.
    assert_eq!(from("127.0.0.16", &far, &second), 403);
    far.await_log(&["127.0.0.16 is not one of its addresses"]);
    assert_eq!(from("127.0.0.9", &far, &second), 200);
    // Connections of the nearer depot come from its own address, and so did the first request.
    far.await_log(&["complete", "client=\"127.0.0.1:", "/lh2/1/"]);
    // There is no third depot, and the first does not do the second's work for others.
    let third = first.replace("/lh2/0/", "/lh2/2/");
    assert_eq!(from("127.0.0.9", &far, &third), 403);
    far.await_log(&["there is no hop 2"]);
}

#[test]
fn no_path_leaves_the_ticket_prefix() {
    let (keys, origin) = (Keys::new(), Scripted::answering(SERVED));
    let depot = keys.open();
    let ticket = ticket(origin.address, "/data/public/", &[&depot]);
    let route = keys.route(&ticket, "");
    for tail in [
        "..",
        "../secret",
        "a/../../secret",
        "./x",
        "a/.",
        "%2e%2e/secret",
        "%2E%2e/secret",
        ".%2e/secret",
        "a/%2e%2e/%2e%2e/secret",
        "..;x/secret",
        "%2e%2e%3bx/secret",
        "..%2fsecret",
        "..%5csecret",
        "..\\secret",
        "a%00",
        "a%0d%0aHost:%20x",
        "a%",
        "a%zz",
        "a#b",
        "%c0%ae%c0%ae/secret",
        "%e0%80%ae%e0%80%ae/secret",
        "..%c0%afsecret",
        "..%20/secret",
        "%20../secret",
        "..%09/secret",
        "..%00/secret",
        "%252e%252e/secret",
        "..%252fsecret",
        "%u002e%u002e/secret",
        "%ef%bc%8e%ef%bc%8e/secret",
        "%e2%80%a5/secret",
        "..%ef%bc%8fsecret",
        "..%e2%80%8b/secret",
        "..%3fx/secret",
        "..%3a%3a$DATA/secret",
        "..%c2%a5secret",
        "caf%e9",
    ] {
        refused(&depot, &format!("{route}{tail}"), 400, "not a ticket's route");
    }
    // An exact URL has no below.
    let exact = super::ticket(origin.address, "/f", &[&depot]);
    let exact = keys.route(&exact, "");
    for tail in ["a/b", "?q", "f?q"] {
        refused(&depot, &format!("{exact}{tail}"), 403, "it is for one URL");
    }
    for fine in [
        "caf%C3%A9",
        "a%20b",
        "100%25",
        "a:b",
        "...",
        "a..b",
        "..a/x",
        "%2e%2e%2e",
        "?../..",
        "//x",
    ] {
        next_to_arrive(&origin, &depot, &format!("{route}{fine}"), &format!("/data/public/{fine}"));
    }
}

#[test]
fn ticket_needs_allow_local_for_private_addresses() {
    let (keys, origin) = (Keys::new(), Scripted::answering(SERVED));
    let depot = keys.depot("", "");
    let at = |depot: &Daemon, url: &str| {
        let ticket = ticket(origin.address, "/f", &[depot]);
        keys.route(&Ticket { opens: url.parse().unwrap(), ..ticket }, "f")
    };
    let port = origin.address.port();
    for (host, what) in [
        ("127.0.0.1", "a loopback address"),
        ("localhost", "a loopback address"),
        ("[::1]", "a loopback address"),
        ("[::ffff:127.0.0.1]", "a loopback address"),
        ("[64:ff9b::7f00:1]", "a loopback address"),
        ("0.0.0.0", "an unspecified address"),
        ("169.254.169.254", "a link-local address"),
        ("10.255.255.1", "a private address"),
        ("[::ffff:192.168.255.1]", "a private address"),
        ("[fd00::1]", "a private address"),
    ] {
        refused(&depot, &at(&depot, &format!("http://{host}:{port}/f")), 403, what);
    }
    // The next depot's address counts as an origin's does.
    let onward = ticket(origin.address, "/f", &[&depot, &keys.open()]);
    refused(&depot, &keys.route(&onward, "f"), 403, "a loopback address");

    let settings = "private = true\n[timeouts]\nconnect = \"200ms\"";
    let private = keys.depot("", settings);
    let (head, ..) = get(private.address, &at(&private, "http://10.255.255.1:9/f"));
    // It was tried: whatever is there, or not.
    assert_ne!(status(&head), 403, "{head}");
    let loopback = at(&private, &format!("http://127.0.0.1:{port}/f"));
    refused(&private, &loopback, 403, "a loopback address");
    let local = keys.open();
    let last = at(&local, &format!("http://localhost:{port}/last"));
    next_to_arrive(&origin, &local, &last, "/last");
}
