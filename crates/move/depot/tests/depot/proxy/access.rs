// SPDX-License-Identifier: GPL-2.0-or-later
//! Authentication: by a password or a ticket, and never without.

use super::{Proxy, SECRET, ann, answered, connect_head, get, passwords, shown, tunnel};
use crate::{
    common::{
        client::{connect, connect_from, status},
        process::Daemon,
        scripted::{Scripted, read_head},
    },
    sessions::peers::{Acceptor, echo, echoes},
    tickets::{Keys, ticket},
};
use protocol::ticket::{Signer, Ticket};
use std::{io::Write, net::TcpListener};

const SERVED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nserved";

/// A server to which no depot may connect: the test looks whether one has.
fn untouched() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

fn both(server: &str, fields: &str) -> [String; 2] {
    let url = format!("GET http://{server}/ HTTP/1.1\r\nHost: {server}\r\n{fields}\r\n");
    [connect_head(server, fields), url]
}

#[test]
fn proxy_requires_the_right_password() {
    let (proxy, server) = (Proxy::new(), untouched());
    let target = server.local_addr().unwrap().to_string();
    for fields in [
        String::new(),
        shown("ann", "Secret"),
        shown("ann", ""),
        shown("eve", "secret"),
        ann().replace("Basic", "Bearer"),
        ann().replace("Proxy-", ""),
        ann().repeat(2),
        format!("Proxy-Authorization: Basic {}\r\n", "x".repeat(60_000)),
    ] {
        for request in both(&target, &fields) {
            let (status, head, _) = answered(connect(proxy.address()), &request);
            assert_eq!(status, 407, "{request}: {head}");
            let challenge = "Proxy-Authenticate: Basic realm=\"longhaul depot\", charset=\"UTF-8\"";
            assert_eq!(head.matches(challenge).count(), 1, "{head}");
        }
    }
    assert!(server.accept().is_err(), "the server was connected to");
}

#[test]
fn depot_without_the_setting_is_not_a_proxy() {
    let (depot, server) = (Daemon::depot(""), untouched());
    let [tunnel, url] = both(&server.local_addr().unwrap().to_string(), &ann());
    let (status, _, body) = answered(connect(depot.address), &tunnel);
    assert_eq!(status, 405, "{body}");
    let (status, _, body) = answered(connect(depot.address), &url);
    assert_eq!(status, 400, "{body}");
    assert!(body.contains("no forward proxy"), "{body}");
    assert!(server.accept().is_err());
}

#[test]
fn client_that_is_not_listed_needs_more_than_a_password() {
    let keys = Keys::new();
    let tables = format!(
        "[trust]\nkeys = {:?}\n[allow]\nclients = [\"127.0.0.1/32\"]\nservers = [\"127.0.0.0/8:*\"]\nlocal = true",
        keys.file().display().to_string()
    );
    let (proxy, server) = (Proxy::with("", "", &tables), untouched());
    for request in both(&server.local_addr().unwrap().to_string(), &ann()) {
        let stream = connect_from("127.0.0.2", proxy.address());
        let (status, _, body) = answered(stream, &request);
        assert_eq!(status, 403, "{body}");
        assert!(body.contains("not open for clients from 127.0.0.2"), "{body}");
    }
    assert!(server.accept().is_err());
}

/// A password is leave of its own, where the lists alone are not enough.
#[test]
fn password_is_enough_where_tickets_are_required() {
    let keys = Keys::new();
    let trust = format!("[trust]\nrequired = true\nkeys = {:?}", keys.file().display().to_string());
    let (proxy, server) = (Proxy::with("", "", &trust), Acceptor::raw(echo));
    echoes(&tunnel(proxy.address(), &server.address.to_string()));
}

/// A proxy that takes tickets alone, and one that is on the way.
struct Ticketed {
    keys: Keys,
    signer: Signer,
    depots: [Daemon; 2],
}

impl Ticketed {
    fn new() -> Self {
        let (keys, signer) = (Keys::new(), Signer::from_seed([1; 32]).unwrap());
        let file = keys.file().display().to_string();
        let depots = ["d1", "d2"].map(|id| {
            Daemon::depot(&format!(
                "id = \"{id}\"\n[proxy]\n[trust]\nkeys = {file:?}\n[allow]\nlocal = true"
            ))
        });
        Self { keys, signer, depots }
    }

    /// The fields of a client with a ticket for this server.
    fn shown(&self, server: &str, more: impl FnOnce(Ticket) -> Ticket) -> String {
        let via = [&self.depots[0], &self.depots[1]];
        let ticket = ticket("127.0.0.1:1".parse().unwrap(), "/", &via);
        let opens = format!("tcp:{server}").parse().unwrap();
        let ticket = more(Ticket { opens, methods: Vec::new(), ..ticket });
        shown("ticket", &self.signer.sign(&ticket).unwrap())
    }
}

#[test]
fn ticket_opens_its_server_by_its_depots() {
    let (all, server) = (Ticketed::new(), Acceptor::raw(echo));
    let target = server.address.to_string();
    let fields = all.shown(&target, |ticket| ticket);
    let mut stream = connect(all.depots[0].address);
    stream.write_all(connect_head(&target, &fields).as_bytes()).unwrap();
    assert_eq!(status(&read_head(&stream).unwrap()), 200);
    echoes(&stream);
    drop(stream);
    all.depots[0].await_log(&["ended", "CONNECT", "ticket=\"t1\""]);
    all.depots[1].await_log(&["ended", "SESSION", "ticket=\"t1\""]);

    let origin = Scripted::answering(SERVED);
    let at = origin.address.to_string();
    let [_, request] = both(&at, &all.shown(&at, |ticket| ticket));
    let mut stream = connect(all.depots[0].address);
    stream.write_all(request.as_bytes()).unwrap();
    assert_eq!(status(&read_head(&stream).unwrap()), 200);
    let head = origin.next_head();
    assert!(!head.to_lowercase().contains("proxy-authorization"), "{head}");
}

#[test]
fn ticket_opens_nothing_else() {
    let (all, server) = (Ticketed::new(), untouched());
    let target = server.local_addr().unwrap().to_string();
    let short = |ticket: Ticket| Ticket { via: ticket.via[1..].to_vec(), ..ticket };
    let others = |ticket| Ticket { clients: vec!["192.0.2.0/24".parse().unwrap()], ..ticket };
    let url = format!("http://{target}/");
    let of_url = |ticket| Ticket {
        opens: url.parse().unwrap(),
        methods: vec![protocol::http::Method::Get],
        ..ticket
    };
    let forged = |fields: String| fields.replace("Basic ", "Basic x");
    for (fields, expected) in [
        (all.shown("127.0.0.1:9", |ticket| ticket), 403),
        (all.shown(&target, short), 403),
        (all.shown(&target, others), 403),
        (all.shown(&target, of_url), 403),
        (forged(all.shown(&target, |ticket| ticket)), 407),
        (shown("ticket", "a.b.c"), 400),
        (shown("ticket", "secret"), 407),
        (ann(), 403),
        (String::new(), 407),
    ] {
        for request in both(&target, &fields) {
            let (status, head, body) = answered(connect(all.depots[0].address), &request);
            assert_eq!(status, expected, "{request}: {head}{body}");
        }
    }
    let fields = all.shown(&target, |ticket| ticket);
    all.keys.write(r#"{"keys":[]}"#);
    all.depots[0].await_log(&["keys read again"]);
    let (status, ..) = answered(connect(all.depots[0].address), &connect_head(&target, &fields));
    assert_eq!(status, 403, "its key is not trusted any more");
    assert!(server.accept().is_err(), "the server was connected to");
}

#[test]
fn configuration_of_an_open_proxy_is_refused_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let toml = dir.path().join("depot.toml");
    let start = |text: &str| {
        std::fs::write(&toml, text).unwrap();
        match Daemon::launch("depot", &format!("file:{}", toml.display())) {
            Err(log) => log,
            Ok(_) => panic!("it has started: {text}"),
        }
    };
    let listen = "listen = [\"127.0.0.1:0\"]\n";
    for (text, line, part) in [
        (format!("{listen}[proxy]\n"), 2, "would be an open proxy"),
        (format!("{listen}\n[proxy]\nvia = [\"d2\"]\n"), 3, "would be an open proxy"),
        (
            "names = [\"d1.example\"]\n[proxy]\npasswords = \"/x\"\nvia = [\"d1.example\"]\n"
                .to_owned(),
            4,
            "this depot itself",
        ),
    ] {
        let (log, at) = (start(&text), format!("settings: line {line}: "));
        assert!(log.contains(part) && log.contains(&at), "{text}: {log}");
    }
    let log = start(&format!("{listen}[proxy]\npassword = \"/x\"\n"));
    assert!(log.contains("unknown field `password`") && log.contains("line 3"), "{log}");
    let file = passwords(dir.path(), &format!("ann:{SECRET}\nbob:secret\n"));
    let log = start(&format!("{listen}[proxy]\npasswords = {:?}\n", file.display().to_string()));
    for part in ["`proxy.passwords`", "line 2", "openssl passwd -6", &file.display().to_string()] {
        assert!(log.contains(part), "{part}: {log}");
    }
    assert!(!log.contains("bob:secret"), "{log}");
}

#[test]
fn reload_that_cannot_be_used_keeps_the_proxy() {
    let dir = tempfile::tempdir().unwrap();
    let (toml, file) =
        (dir.path().join("depot.toml"), passwords(dir.path(), &format!("ann:{SECRET}\n")));
    let text = |proxy: &str| {
        format!(
            "listen = [\"127.0.0.1:0\"]\n{proxy}\n[allow]\nclients = [\"127.0.0.0/8\"]\n\
             servers = [\"127.0.0.0/8:*\"]\nlocal = true\n"
        )
    };
    let good = text(&format!("[proxy]\npasswords = {:?}", file.display().to_string()));
    let (depot, server) = (Daemon::of_file(&toml, &good), Acceptor::raw(echo));
    let target = server.address.to_string();
    std::fs::write(&toml, text("[proxy]")).unwrap();
    depot.signal(rustix::process::Signal::HUP);
    depot.await_log(&["would be an open proxy"]);
    echoes(&tunnel(depot.address, &target));
    passwords(dir.path(), "ann\n");
    depot.await_log(&["line 1: expected NAME:HASH"]);
    echoes(&tunnel(depot.address, &target));
    depot.read_again(&toml, &text(""));
    let (status, ..) = answered(connect(depot.address), &connect_head(&target, &ann()));
    assert_eq!(status, 405, "the setting is gone");
}

#[test]
fn proxy_clients_have_the_usual_limits() {
    let top = "timeouts.request_head = \"1s\"\nlimits.per_client = 2";
    let (proxy, server) = (Proxy::with(top, "", ""), Acceptor::raw(echo));
    let target = server.address.to_string();
    let slow = connect_head(&target, &ann()).replace("\r\n\r\n", "\r\n");
    let (status, head, _) = answered(connect(proxy.address()), &slow);
    assert_eq!(status, 408, "{head}");
    let first = tunnel(proxy.address(), &target);
    let second = tunnel(proxy.address(), &target);
    let (status, head, body) = answered(connect(proxy.address()), &connect_head(&target, &ann()));
    assert_eq!(status, 503, "{head}");
    assert!(body.contains("limits.per_client"), "{body}");
    let (status, ..) = answered(connect(proxy.address()), &get(&format!("http://{target}/"), ""));
    assert_eq!(status, 503);
    echoes(&first);
    echoes(&second);
}
