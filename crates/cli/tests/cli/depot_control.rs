// SPDX-License-Identifier: GPL-2.0-or-later
//! Commands to a depot that runs, as operators type them.

use crate::{
    common::{done, refused},
    depot::Depot,
};
use serde_json::Value;
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    thread,
};

/// Answers every request with half of a body, and waits until it is hung up on.
fn halting_origin() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf.");
                while matches!(stream.read(&mut [0; 4096]), Ok(1..)) {}
            });
        }
    });
    address
}

fn depot(dir: &Path) -> (Depot, String) {
    let (config, socket) = (dir.join("depot.toml"), dir.join("control.sock"));
    let socket = socket.to_str().unwrap().to_owned();
    std::fs::write(&config, format!("[control]\nsocket = {socket:?}\n")).unwrap();
    let open =
        ["--allow-client", "127.0.0.0/8", "--allow-upstream", "127.0.0.1:*", "--allow-local"];
    let arguments = [&["--config", config.to_str().unwrap()], &open[..]].concat();
    (Depot::start(&arguments), socket)
}

/// A transfer that has begun.
fn download(depot: &Depot, origin: &str, file: &str) -> TcpStream {
    let mut client = TcpStream::connect(&depot.listen).unwrap();
    let get = format!("GET /lh1/fetch/-/http:{origin}{file} HTTP/1.1\r\nHost: d\r\n\r\n");
    client.write_all(get.as_bytes()).unwrap();
    let mut first = [0; 12];
    client.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    client
}

#[test]
fn operator_lists_slows_ends_and_denies() {
    let dir = tempfile::tempdir().unwrap();
    let (depot, socket) = depot(dir.path());
    let origin = halting_origin();
    let say = |words: &[&str]| done(&[&["depot"], words, &["--socket", &socket]].concat());
    let document = |words: &[&str]| -> Value {
        serde_json::from_str(&say(&[words, &["--json"]].concat())).unwrap()
    };
    assert_eq!(say(&["transfers"]), "no open transfers\n");
    let (_one, _two) =
        (download(&depot, &origin, "/set-1.tar"), download(&depot, &origin, "/set-2.tar"));
    let table = say(&["transfers"]);
    assert!(table.contains("/set-1.tar") && table.lines().count() == 3, "{table}");
    let list = document(&["transfers", "--file", "set-2"]);
    let listed = list["transfers"].as_array().unwrap();
    assert_eq!((listed.len(), &listed[0]["method"]), (1, &"GET".into()));
    let number = listed[0]["number"].to_string();

    assert_eq!(say(&["limit", "80mbit", "--transfer", &number]), "80.0 Mb/s\n");
    let list = document(&["transfers", "--file", "set-2"]);
    assert_eq!(list["transfers"][0]["client_tcp"]["pacing_bps"], 80_000_000);
    assert_eq!(say(&["limit", "1gbit", "--client", "127.0.0.1"]), "1.00 Gb/s\n");
    assert!(say(&["limits"]).starts_with("client 127.0.0.1 "));
    assert_eq!(say(&["limit", "none", "--client", "127.0.0.1"]), "limit removed\n");
    assert_eq!(say(&["limits"]), "no rate limit is set\n");

    assert_eq!(say(&["end", "--file", "set-2"]), "1 transfer ended\n");
    let denied = say(&["deny", "--client", "127.0.0.1", "--for", "10min", "--why", "too much"]);
    assert_eq!(denied, "1 transfer ended\n");
    let listed = say(&["denied"]);
    assert!(listed.contains("client 127.0.0.1/32") && listed.contains("too much"), "{listed}");
    let mut refused = TcpStream::connect(&depot.listen).unwrap();
    let mut answer = String::new();
    let _ = refused.write_all(b"GET /lh1/fetch/-/http:h/f HTTP/1.1\r\nHost: d\r\n\r\n");
    let _ = refused.read_to_string(&mut answer);
    assert!(
        answer.contains("403") && answer.contains("shut this client or this ticket out: too much"),
        "{answer}"
    );
    assert_eq!(say(&["allow", "--client", "127.0.0.1"]), "allowed again\n");
    assert_eq!(say(&["allow", "--client", "127.0.0.1"]), "it was not denied\n");
    assert_eq!(document(&["denied"])["denied"], serde_json::json!([]));
}

#[test]
fn incomplete_or_unreachable_commands_are_refused() {
    let socket = ["--socket", "/nonexistent/control.sock"];
    for (words, code, expected) in [
        (&["end"][..], 2, "--client, --ticket, --file or --transfer"),
        (&["deny"], 2, "required"),
        (&["deny", "--client", "x"], 2, "an address or a network"),
        (&["deny", "--client", "10.0.0.1", "--ticket", "t"], 2, "cannot be used with"),
        (&["limit", "fast", "--client", "10.0.0.1"], 2, "expected a rate"),
        (&["limit", "1gbit"], 2, "required"),
        (&["transfers"], 1, "does the depot run"),
        (&["end", "--ticket", "t1"], 1, "does the depot run"),
    ] {
        let (was, said) = refused(&[&["depot"], words, &socket].concat());
        assert!(was == code && said.contains(expected), "{words:?}: {was} {said}");
    }
}
