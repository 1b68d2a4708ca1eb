// SPDX-License-Identifier: GPL-2.0-or-later
//! What a ticket opens at a real depot, and what does not pass for one.

mod chain;
mod keys;
mod limits;
mod refused;

use crate::common::{
    client::{body, exchange, get, status},
    process::Daemon,
    scripted::{Scripted, read_head},
};
use protocol::{
    Authority,
    http::Method,
    ticket::{Signer, Ticket, TicketRoute, UnixTime},
};
use std::{io::Write, net::SocketAddr, path::PathBuf, time::SystemTime};
use tempfile::TempDir;
use testkit::until;

/// What the origin here answers to all.
const SERVED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nserved";

/// Keys whose tickets are trusted, in a file for depots.
pub struct Keys {
    signer: Signer,
    dir: TempDir,
}

impl Keys {
    pub fn new() -> Self {
        let keys = Self { signer: signer(1), dir: tempfile::tempdir().unwrap() };
        keys.write(&keys.signer.public_set());
        keys
    }

    pub fn file(&self) -> PathBuf {
        self.dir.path().join("keys.json")
    }

    /// Replaces the file, as an operator does.
    pub fn write(&self, text: &str) {
        let new = self.dir.path().join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.file()).unwrap();
    }

    /// A depot that trusts them, with further lines of its sections `trust` and `allow`. Without a ticket it
    /// serves no client here.
    fn depot(&self, trust: &str, allow: &str) -> Daemon {
        self.depot_named("d1", trust, allow)
    }

    /// The same with another id, next to the first.
    fn depot_named(&self, id: &str, trust: &str, allow: &str) -> Daemon {
        let file = self.file();
        let file = file.to_str().unwrap();
        Daemon::depot(&format!(
            "id = \"{id}\"\n[trust]\nkeys = \"{file}\"\n{trust}\n[allow]\n{allow}"
        ))
    }

    /// The same, which may connect to origins on loopback, where those of the tests are.
    fn open(&self) -> Daemon {
        self.depot("", "local = true")
    }

    /// The name of the key that signs.
    pub fn kid(&self) -> String {
        self.signer.kid().to_owned()
    }

    pub fn route(&self, ticket: &Ticket, tail: &str) -> String {
        route(&self.signer, ticket, tail)
    }
}

fn signer(seed: u8) -> Signer {
    Signer::from_seed([seed; 32]).unwrap()
}

/// The path at the first depot.
fn route(signer: &Signer, ticket: &Ticket, tail: &str) -> String {
    TicketRoute::new(&signer.sign(ticket).unwrap(), tail).unwrap().to_string()
}

/// So many seconds from now; before it where the number is negative.
fn from_now(seconds: i64) -> UnixTime {
    let now = UnixTime::from(SystemTime::now()).seconds();
    now.checked_add_signed(seconds).unwrap().try_into().unwrap()
}

/// A ticket through these depots that says only what it must, good for an hour.
pub fn ticket(origin: SocketAddr, path: &str, via: &[&Daemon]) -> Ticket {
    Ticket {
        id: "t1".to_owned(),
        issuer: None,
        issued: None,
        not_before: None,
        expires: from_now(3600),
        opens: format!("http://{origin}{path}").parse().unwrap(),
        via: via.iter().map(|depot| Authority::from(depot.address).into()).collect(),
        methods: vec![Method::Get, Method::Head],
        bytes: None,
        rate: None,
        total_rate: None,
        clients: Vec::new(),
        uses: None,
    }
}

/// Asserts that a route opens the depot.
fn opens(depot: &Daemon, route: &str) {
    let (head, body, end) = get(depot.address, route);
    let text = String::from_utf8_lossy(&body).into_owned();
    assert_eq!((status(&head), text.as_str()), (200, "served"), "{route}: {head}");
    assert!(end.is_ok(), "{end:?}");
}

/// Asserts that a depot refuses a route by itself, with this status and reason.
fn refused(depot: &Daemon, route: &str, code: u16, reason: &str) {
    let (head, body, _) = get(depot.address, route);
    let text = String::from_utf8_lossy(&body).into_owned();
    assert_eq!(status(&head), code, "{route}: {head}{text}");
    // Not the origin's refusal, nor a depot's further on.
    assert!(text.starts_with("longhaul depot d1: ") && text.contains(reason), "{route}: {text}");
}

/// Asserts that the next request to reach the origin is this one: none that was refused did.
fn next_to_arrive(origin: &Scripted, depot: &Daemon, route: &str, target: &str) {
    opens(depot, route);
    let head = origin.next_head();
    assert!(head.starts_with(&format!("GET {target} HTTP/1.1\r\n")), "{head}");
}

#[test]
fn ticket_opens_depot_to_unlisted_origin() {
    let (keys, origin) = (Keys::new(), Scripted::answering(SERVED));
    let depot = keys.open();
    // Without one it is closed to this client.
    refused(&depot, &origin.route("-", "/f"), 403, "not open for clients from 127.0.0.1");
    let ticket = ticket(origin.address, "/dir/f?v=2", &[&depot]);
    next_to_arrive(&origin, &depot, &keys.route(&ticket, "f"), "/dir/f?v=2");
    // The name is the client's.
    opens(&depot, &keys.route(&ticket, "another.name"));
    opens(&depot, &keys.route(&ticket, ""));
    // The real client.
    assert_eq!(body(&depot.url(&keys.route(&ticket, "f"))), b"served");
}

#[test]
fn ticket_connection_serves_only_tickets() {
    let origin = Scripted::new(|mut stream, _| {
        while stream.write_all(SERVED.as_bytes()).is_ok() && read_head(&stream).is_some() {}
    });
    let keys = Keys::new();
    let depot = keys.depot("", "local = true\nclients = [\"127.0.0.0/8\"]");
    let route = keys.route(&ticket(origin.address, "/f", &[&depot]), "f");
    // The origin reports the first request on each connection.
    until("a connection is kept", || {
        opens(&depot, &route);
        origin.try_next_head().is_none()
    });
    refused(&depot, &origin.route("-", "/f"), 403, "it is not listed");
    assert_eq!(origin.try_next_head(), None);
}

#[test]
fn ticket_passes_two_depots_without_lists() {
    let (keys, origin) = (Keys::new(), Scripted::answering(SERVED));
    let (near, far) = (keys.open(), keys.depot_named("d2", "", "local = true"));
    let ticket = ticket(origin.address, "/data/", &[&near, &far]);
    next_to_arrive(&origin, &near, &keys.route(&ticket, "a/b?c"), "/data/a/b?c");
    far.await_log(&["complete", "/lh2/1/", "/a/b?c"]);
    near.await_log(&["complete", "/lh2/0/", "/a/b?c"]);
}

#[test]
fn upload_needs_a_ticket_for_its_method() {
    let (keys, origin) = (Keys::new(), Scripted::answering(SERVED));
    let depot = keys.open();
    let put = |ticket: &Ticket| {
        let route = keys.route(ticket, "f");
        let request = format!(
            "PUT {route} HTTP/1.1\r\nHost: d\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        exchange(depot.address, request.as_bytes())
    };
    let mut ticket = ticket(origin.address, "/f", &[&depot]);
    let (head, text, _) = put(&ticket);
    assert_eq!(status(&head), 403, "{head}");
    assert!(String::from_utf8_lossy(&text).contains("not for PUT"));
    ticket.methods = vec![Method::Put];
    assert_eq!(status(&put(&ticket).0), 200);
    assert!(origin.next_head().starts_with("PUT /f "));
    refused(&depot, &keys.route(&ticket, "f"), 403, "not for GET");
}

#[test]
fn redirect_cannot_leave_the_ticket_prefix() {
    let keys = Keys::new();
    for (location, inside) in [
        ("/data/other?x", Some("other?x")),
        ("sub/", Some("sub/")),
        ("/secret", None),
        ("/data", None),
        ("/data/../secret", None),
        ("/data/%2e%2e/secret", None),
        ("/lh1/fetch/-/http:127.0.0.1:1/", None),
        ("http://127.0.0.1:1/data/f", None),
    ] {
        let origin = Scripted::answering(format!(
            "HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
        ));
        let depot = keys.open();
        let ticket = ticket(origin.address, "/data/", &[&depot]);
        let token = keys.signer.sign(&ticket).unwrap();
        let (head, ..) = get(depot.address, &keys.route(&ticket, "f"));
        assert_eq!(status(&head), 302, "{head}");
        let there = head.lines().find_map(|line| line.strip_prefix("Location: ")).unwrap();
        // Without the ticket, an absolute URL of the origin: never a path at this depot.
        match inside {
            Some(tail) => assert!(there.ends_with(&format!("/lh2/0/{token}/{tail}")), "{there}"),
            None => assert!(there.starts_with("http://") && !there.contains("lh2"), "{there}"),
        }
        assert!(inside.is_some() || !there.contains(&depot.authority()), "{there}");
    }
}

#[test]
fn ticket_login_gives_no_link_to_the_origin() {
    // It may be one that only depots reach.
    let keys = Keys::new();
    for answer in [
        "HTTP/1.1 401 Who\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 302 Found\r\nLocation: /login\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n",
    ] {
        let (depot, origin) = (keys.open(), Scripted::answering(answer));
        let ticket = ticket(origin.address, "/data/", &[&depot]);
        let (head, ..) = get(depot.address, &keys.route(&ticket, "f.bin"));
        assert!(answer.starts_with(&format!("HTTP/1.1 {}", status(&head))), "{head}");
        assert!(!head.contains("lh-direct") && !head.contains("WWW-Authenticate"), "{head}");
    }
}

#[test]
fn log_holds_no_usable_ticket() {
    let (keys, origin) = (Keys::new(), Scripted::answering(SERVED));
    let lists = "local = true\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]";
    let (near, far) = (keys.depot("", lists), keys.depot_named("d2", "", "local = true"));
    let ticket = ticket(origin.address, "/data/", &[&near]);
    let token = keys.signer.sign(&ticket).unwrap();
    let good = keys.route(&ticket, "f");
    opens(&near, &good);
    // Behind another depot's route, and in all the wrong places.
    let behind = keys.route(&self::ticket(origin.address, "/data/", &[&far]), "f");
    let other = behind.rsplit('.').next().unwrap().trim_end_matches("/f").to_owned();
    let behind = format!("/lh1/fetch/-/http:{}{behind}", far.address);
    let (head, ..) = get(near.address, &behind);
    assert_eq!(status(&head), 200, "{head}");
    for wrong in [
        good.replace("/lh2/0/", "/lh2/1/"),
        good.replace("/lh2/0/", "/lh2/"),
        good.replace("/lh2/0/", "/lh2/00/"),
        good.replace("/lh2/0/", "//lh2/0/"),
        good.replace("/lh2/", "/lh3/"),
        good.replace('.', "%2e"),
        good.trim_end_matches("/f").to_owned(),
        format!("{good}/../x"),
        format!("http://d{good}/../x"),
        format!("/{token}"),
        format!("/lh2/{token}"),
        format!("/lh1/fetch/{token}/http:o/"),
        format!("/lh1/fetch/-/http:{token}/"),
        format!("/lh1/fetch/-/{token}"),
        format!("/lh1/fetch/-/{token}:o/"),
        format!("/lh1/lead/{token}:1/d/http:o/"),
    ] {
        let (head, ..) = get(near.address, &wrong);
        assert!([400, 403].contains(&status(&head)), "{wrong}: {head}");
    }
    near.await_log(&["/lh1/lead/"]);
    far.await_log(&["complete", "/lh2/0/"]);
    let signature = token.rsplit('.').next().unwrap().to_owned();
    for depot in [&near, &far] {
        let log = depot.log_text();
        assert!(log.contains("/lh2/"), "{log}");
        for line in log.lines() {
            assert!(!line.contains(&signature) && !line.contains(&other), "{line}");
        }
    }
}
