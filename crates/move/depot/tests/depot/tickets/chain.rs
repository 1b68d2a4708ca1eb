// SPDX-License-Identifier: GPL-2.0-or-later
//! Tickets at depots that they do not name, and brought by depots for clients whom they are not for.

use super::{Keys, SERVED, next_to_arrive, opens, refused, ticket};
use crate::common::{
    client::{connect_from, exchange, read_answer, status},
    process::Daemon,
    refusing_address,
    scripted::Scripted,
};
use protocol::ticket::Ticket;
use std::{io::Write, num::NonZeroU32};

/// What a depot answers to a request with these fields, from an address.
fn from(client: &str, depot: &Daemon, route: &str, fields: &str) -> (u16, String) {
    let mut stream = connect_from(client, depot.address);
    write!(stream, "GET {route} HTTP/1.1\r\nHost: d\r\n{fields}Connection: close\r\n\r\n").unwrap();
    let (head, body, _) = read_answer(stream);
    (status(&head), head + &String::from_utf8_lossy(&body))
}

#[test]
fn ticket_opens_only_named_depots() {
    let (keys, origin) = (Keys::new(), Scripted::answering(SERVED));
    let (named, other) = (keys.open(), keys.open());
    let uses = NonZeroU32::new(1);
    let once = Ticket { uses, ..ticket(origin.address, "/f", &[&named]) };
    let route = keys.route(&once, "f");
    refused(&other, &route, 403, "that is no name of this depot");
    // A refused request does not count as a use of it.
    next_to_arrive(&origin, &named, &route, "/f");
    for depot in [&other, &named] {
        let (head, ..) = exchange(
            depot.address,
            format!("GET {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n").as_bytes(),
        );
        assert_eq!(status(&head), 403, "{head}");
    }
    // Of a chain each takes its own place alone.
    let both = ticket(origin.address, "/f", &[&other, &named]);
    let first = keys.route(&both, "f");
    let second = first.replace("/lh2/0/", "/lh2/1/");
    refused(&named, &first, 403, "that is no name of this depot");
    refused(&other, &second, 403, "that is no name of this depot");
    opens(&named, &second);
    // The same address over TLS is another depot's.
    let mut over_tls = ticket(origin.address, "/f", &[&named]);
    over_tls.via = vec![format!("https:{}", named.address).parse().unwrap()];
    refused(&named, &keys.route(&over_tls, "f"), 403, "that is no name of this depot");
}

#[test]
fn ticket_detour_goes_straight_or_fails() {
    let (keys, origin) = (Keys::new(), Scripted::answering(SERVED));
    let (far, other) = (keys.depot_named("far", "", "local = true"), keys.open());
    let dead = refusing_address();
    let file = keys.file();
    let near = Daemon::depot(&format!(
        "id = \"d1\"\n[trust]\nkeys = {file:?}\n[allow]\nlocal = true\n\
         upstreams = [\"{}\", \"{dead}\", \"{}\"]\n\
         [[detour]]\naround = \"{dead}\"\ncheck = \"off\"\nthrough = [\"{}\"]\nstraight = true",
        other.address, far.address, other.address
    ));
    let mut through = ticket(origin.address, "/f", &[&near, &far, &far]);
    through.via[1] = dead.to_string().parse().unwrap();
    // The second time it is known which one fails. The other depot, which the ticket does not name, is not asked.
    for _ in 0..2 {
        opens(&near, &keys.route(&through, "f"));
    }
    assert!(!other.log_text().contains("refused"), "{}", other.log_text());
    // No other depot could name the client to the far one.
    through.clients = vec!["127.0.0.0/8".parse().unwrap()];
    for _ in 0..2 {
        refused(&near, &keys.route(&through, "f"), 502, "refused the connection");
    }
}

#[test]
fn depot_accepts_resolved_and_configured_names() {
    let (keys, origin) = (Keys::new(), Scripted::answering(SERVED));
    let file = keys.file();
    let depot = Daemon::depot(&format!(
        "id = \"d1\"\nnames = [\"https:depot1.example.net\", \"192.0.2.1:443\"]\n\
         [trust]\nkeys = {file:?}\n[allow]\nlocal = true"
    ));
    let by = |name: &str| {
        let mut ticket = ticket(origin.address, "/f", &[&depot]);
        ticket.via = vec![name.parse().unwrap()];
        keys.route(&ticket, "f")
    };
    let port = depot.address.port();
    for name in [
        format!("localhost:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        "https:Depot1.example.net:443".to_owned(),
        "192.0.2.1:443".to_owned(),
    ] {
        opens(&depot, &by(&name));
    }
    for name in ["192.0.2.1".to_owned(), "https:192.0.2.1".to_owned(), format!("127.0.0.2:{port}")]
    {
        refused(&depot, &by(&name), 403, "that is no name of this depot");
    }
    // A name that cannot be looked up is none that the depot knows; so is one that does not resolve.
    refused(&depot, &by(&format!("nowhere.invalid:{port}")), 503, "cannot tell whether");
}

#[test]
fn listed_client_cannot_use_a_foreign_ticket() {
    let (keys, origin) = (Keys::new(), Scripted::answering(SERVED));
    let lists = "local = true\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]";
    let (near, far) = (keys.depot("", lists), keys.depot_named("d2", "", lists));
    // For one client; the depots' own addresses are listed, too, or are not.
    for net in ["127.0.0.9/32", "127.0.0.0/28"] {
        let clients = vec![net.parse().unwrap()];
        let chain = Ticket { clients, ..ticket(origin.address, "/f", &[&near, &far]) };
        let first = keys.route(&chain, "f");
        let second = first.replace("/lh2/0/", "/lh2/1/");
        let at_far = Ticket { via: vec![chain.via[1].clone()], ..chain.clone() };
        let at_far = keys.route(&at_far, "f");
        let stranger = "127.0.0.77";
        for nested in [
            format!("/lh1/fetch/-/http:{}{second}", far.address),
            format!("/lh1/fetch/-/http:{}{at_far}", far.address),
            format!("/lh1/fetch/{}/http:{}{second}", near.address, far.address),
            format!("/lh1/fetch/-/http:{}/lh1/fetch/-/http:{}{second}", near.address, far.address),
            format!("/lh1/fetch/-/http:{}{first}", near.address),
        ] {
            // Whatever the client says of itself, no peer beyond the depot learns it.
            for fields in [
                "",
                "Forwarded: for=127.0.0.9\r\n",
                "forwarded: for=127.0.0.9\r\nForwarded: for=127.0.0.9\r\n",
                "Longhaul-Client: 127.0.0.9\r\nX-Forwarded-For: 127.0.0.9\r\n",
                "Connection: via\r\nForwarded: for=127.0.0.9\r\n",
                "Via: 1.1 d2 (longhaul)\r\nForwarded: for=127.0.0.9\r\n",
            ] {
                let (code, text) = from(stranger, &near, &nested, fields);
                assert!([403, 508].contains(&code), "{net} {nested} {fields}: {text}");
            }
        }
        // Nor is it believed if it says so itself.
        for fields in [
            "Forwarded: for=127.0.0.9\r\n",
            "Via: 1.1 d1 (longhaul)\r\nForwarded: for=127.0.0.9\r\n",
        ] {
            let (code, text) = from(stranger, &far, &second, fields);
            assert_eq!(code, 403, "{fields}: {text}");
        }
        assert!(origin.try_next_head().is_none(), "something reached the origin");
        // Its client is led through both, and may leave the first out.
        for (depot, route) in [(&near, &first), (&far, &second)] {
            let (code, text) = from("127.0.0.9", depot, route, "");
            assert_eq!(code, 200, "{text}");
            let seen = origin.next_head();
            assert!(!seen.contains("127.0.0.9"), "the origin learns the client's address: {seen}");
        }
    }
}

#[test]
fn chain_of_three_vouches_hop_by_hop() {
    let (keys, origin) = (Keys::new(), Scripted::answering(SERVED));
    let depots = [
        keys.open(),
        keys.depot_named("d2", "", "local = true"),
        keys.depot_named("d3", "", "local = true"),
    ];
    let clients = vec!["127.0.0.9/32".parse().unwrap()];
    let [a, b, c] = &depots;
    let chain = Ticket { clients, ..ticket(origin.address, "/f", &[a, b, c]) };
    let route = keys.route(&chain, "f");
    assert_eq!(from("127.0.0.9", a, &route, "").0, 200);
    assert_eq!(from("127.0.0.10", a, &route, "Forwarded: for=127.0.0.9\r\n").0, 403);
}
