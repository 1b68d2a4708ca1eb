// SPDX-License-Identifier: GPL-2.0-or-later
//! What a reload takes away is taken away, whatever was under way; what it cannot take away stays as it
//! is, and the log says so.

use crate::common::{
    client::{connect, get, status},
    pki::Pki,
    process::Daemon,
    scripted::{Gate, Scripted, read_head},
};
use rustix::process::Signal;
use socket2::{Domain, Socket, Type};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};
use testkit::until;

/// The settings of a depot that is open for these upstreams.
fn open_for(upstreams: &str) -> String {
    format!(
        "listen = [\"127.0.0.1:0\"]\n[allow]\nclients = [\"127.0.0.0/8\"]\nlocal = true\n\
         upstreams = [{upstreams}]\n"
    )
}

/// Asks on a connection that is kept; the answer's status.
fn ask(mut client: &TcpStream, route: &str) -> u16 {
    write!(client, "GET {route} HTTP/1.1\r\nHost: d\r\n\r\n").unwrap();
    status(&read_head(client).expect("an answer"))
}

#[test]
fn transfer_across_a_reload_leaks_no_connection() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("depot.toml");
    let gate = Gate::default();
    let opened = gate.clone();
    let origin = Scripted::new(move |mut stream, _| {
        loop {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf").unwrap();
            opened.wait();
            stream.write_all(b"half").unwrap();
            if read_head(&stream).is_none() {
                return;
            }
        }
    });
    let other = Scripted::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let depot = Daemon::of_file(&file, &open_for("\"127.0.0.0/8:*\""));
    let route = origin.route("-", "/");
    let clients = [(); 4].map(|()| {
        let client = connect(depot.address);
        assert_eq!(ask(&client, &route), 200);
        client
    });
    let only_other = open_for(&format!("\"{}\"", other.address));
    depot.read_again(&file, &only_other);
    assert_eq!(status(&get(depot.address, &route).0), 403);
    gate.open();
    for mut client in &clients {
        let mut body = [0; 8];
        client.read_exact(&mut body).unwrap();
        assert_eq!(&body, b"halfhalf");
    }
    for _ in 0..4 {
        depot.await_log(&["complete"]);
    }
    // Each on the connection that it had, and on new ones.
    for client in &clients {
        assert_eq!(ask(client, &route), 403);
        assert_eq!(status(&get(depot.address, &route).0), 403);
    }
    assert_eq!(status(&get(depot.address, &other.route("-", "/")).0), 200);
    // Allowed again, with a new connection.
    depot.read_again(&file, &open_for("\"127.0.0.0/8:*\""));
    assert_eq!(status(&get(depot.address, &route).0), 200);
}

#[test]
fn idle_connections_outlive_a_reload_that_still_allows_them() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("depot.toml");
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let origin = Scripted::new(move |mut stream, _| {
        count.fetch_add(1, SeqCst);
        loop {
            stream.write_all(answer.as_bytes()).unwrap();
            if read_head(&stream).is_none() {
                return;
            }
        }
    });
    let rules = |more: &str| {
        let watched = "admin.listen = \"127.0.0.1:0\"\nidle_connections.idle = \"60s\"";
        format!("{watched}\n{}{more}", open_for("\"127.0.0.0/8:*\""))
    };
    let depot = Daemon::of_file(&file, &rules(""));
    let route = origin.route("-", "/");
    let ask = || {
        let answer = status(&get(depot.address, &route).0);
        // The client has its answer a moment before the connection is kept.
        let kept = || depot.status().connections.idle_upstream == 1;
        until("the connection is kept", || answer != 200 || kept());
        answer
    };
    assert_eq!((ask(), ask()), (200, 200));
    assert_eq!(connections.load(SeqCst), 1, "the second request used the first one's connection");
    // Another key of the configuration changes.
    depot.read_again(&file, &rules("[limits]\nconnections = 99\n"));
    assert_eq!(ask(), 200);
    assert_eq!(connections.load(SeqCst), 1, "it was taken over");
    // Socket options that the connection was not opened with.
    depot.read_again(&file, &rules("[[hop]]\npeer = \"127.0.0.0/8\"\nsndbuf = \"64KB\"\n"));
    assert_eq!(ask(), 200);
    assert_eq!(connections.load(SeqCst), 2, "it was opened again with the new options");
    depot.read_again(&file, &open_for(""));
    assert_eq!(ask(), 403);
}

#[test]
fn request_waiting_for_next_hop_uses_new_rules() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("depot.toml");
    // Room for one connection that is not accepted yet; others wait until it is.
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(0).unwrap();
    let listener: TcpListener = listener.into();
    let address = listener.local_addr().unwrap();
    let first = TcpStream::connect(address).unwrap();
    let depot = Daemon::of_file(&file, &open_for("\"127.0.0.0/8:*\""));
    let mut client = connect(depot.address);
    let route = format!("/lh1/fetch/-/http:{address}/");
    write!(client, "GET {route} HTTP/1.1\r\nHost: d\r\n\r\n").unwrap();
    // It has asked, and is still there: what follows it is answered too.
    testkit::until("it connects", || connecting(address) > 0);
    depot.read_again(&file, &open_for(""));
    let asked = std::thread::spawn(move || {
        listener.incoming().map_while(Result::ok).take(2).filter_map(|it| read_head(&it)).count()
    });
    drop(first);
    assert_eq!(status(&read_head(&client).expect("an answer")), 403);
    assert_eq!(asked.join().unwrap(), 0, "it is not asked");
}

/// How many connections wait to be taken there.
fn connecting(to: SocketAddr) -> usize {
    let text = fs::read_to_string("/proc/net/tcp").unwrap();
    let SocketAddr::V4(to) = to else { panic!("{to}") };
    let ip = u32::from_ne_bytes(to.ip().octets());
    let remote = format!("{ip:08X}:{:04X}", to.port());
    text.lines()
        .filter(|line| line.split_whitespace().nth(2) == Some(&remote))
        .filter(|line| line.split_whitespace().nth(3) == Some("02"))
        .count()
}

#[test]
fn restart_only_settings_wait_for_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("depot.toml");
    let text = |id: &str, more: &str| format!("id = \"{id}\"\n{more}\n{}", open_for(""));
    let depot = Daemon::of_file(&file, &text("one", ""));
    let waiting = |text: &str| {
        depot.read_again(&file, text);
        let log = depot.log_text();
        let line = log.lines().rfind(|line| line.contains("configuration read again")).unwrap();
        line.split("waiting=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    };
    let other = text("two", "");
    assert_eq!(waiting(&other), "id");
    assert_eq!(waiting(&other), "id", "it still is not in force");
    assert_eq!(waiting(&text("three", "threads = 3")), "id, threads");
    assert_eq!(waiting(&text("one", "threads = 3")), "threads");
    assert_eq!(waiting(&text("one", "")), "");
}

#[test]
fn tls_listeners_keep_their_certificate_until_the_next_start() {
    let pki = Pki::new();
    pki.issue("new", "127.0.0.1");
    let file = pki.file("depot.toml");
    let allow = "[allow]\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]\n\
                 local = true\n";
    let settings = |own: &str| format!("{}{allow}", pki.settings(own, "id = \"d1\""));
    let depot = Daemon::of_file(&file, &settings("own"));
    let origin = Scripted::answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let url = format!("https://{}{}", depot.address, origin.route("-", "/"));
    // The answer, and whose certificate was shown.
    let fetched = || {
        let got = pki.curl(&["-f", "-w", "%{certs}", &url]);
        assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
        let got = String::from_utf8_lossy(&got.stdout).into_owned();
        assert!(got.starts_with("ok"), "{got}");
        got.lines().find(|line| line.starts_with("Serial Number:")).unwrap().to_owned()
    };
    let own = fetched();
    let none = format!("id = \"d1\"\nlisten = [\"127.0.0.1:0\"]\n{allow}");
    for _ in 0..2 {
        depot.read_again(&file, &none);
        depot.await_log(&["WARN", "TLS listeners keep the one that was read last"]);
        depot.await_log(&[
            "configuration read again",
            "waiting=\"listen, tls.listen, tls.certificate\"",
        ]);
        assert_eq!(fetched(), own);
    }
    // The files may go with it.
    fs::remove_file(pki.file("own.key")).unwrap();
    assert_eq!(fetched(), own);
    // Without the listeners and with a certificate, and with both again: that one is shown.
    let unlistened = settings("new").replace("listen = [\"127.0.0.1:0\"]\n", "");
    let unlistened = unlistened.replace("listen = []", "listen = [\"127.0.0.1:0\"]");
    depot.read_again(&file, &unlistened);
    depot.await_log(&["configuration read again", "waiting=\"listen, tls.listen\""]);
    let new = fetched();
    assert_ne!(new, own);
    depot.read_again(&file, &settings("new"));
    depot.await_log(&["configuration read again", "waiting=\"\""]);
    assert_eq!(fetched(), new);
    assert!(!depot.log_text().contains("panicked"), "{}", depot.log_text());
}

#[test]
fn tls_listeners_that_a_reload_adds_wait_for_the_next_start() {
    let pki = Pki::new();
    let file = pki.file("depot.toml");
    let plain = open_for("\"127.0.0.0/8:*\"");
    let depot = Daemon::of_file(&file, &plain);
    let origin = Scripted::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let ask = || status(&get(depot.address, &origin.route("-", "/")).0);
    let secured = pki.settings("own", "").replace("listen = []\n", "") + &plain;
    let listen = "listen = [\"127.0.0.1:0\"]\n";
    // TOML has the keys of the root first.
    let secured =
        format!("{listen}{}", secured.replacen(&format!("{listen}[allow]"), "[allow]", 1));
    depot.read_again(&file, &secured);
    depot.await_log(&["configuration read again", "waiting=\"tls.listen\""]);
    assert_eq!(ask(), 200);
    depot.read_again(&file, &plain);
    depot.await_log(&["configuration read again", "waiting=\"\""]);
    assert_eq!(ask(), 200);
    // A configuration without a certificate for its TLS listeners is invalid.
    fs::write(&file, format!("tls.listen = [\"127.0.0.1:0\"]\n{plain}")).unwrap();
    depot.signal(Signal::HUP);
    depot.await_log(&["the configuration stays as it was", "`tls.listen` needs them"]);
    assert_eq!(ask(), 200);
}
