// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul put`: files, pipes, names, depots.

use crate::{
    common::{longhaul, refused, text},
    depot::Depot,
};
use serde_json::Value;
use std::{
    fs,
    io::{Read, Write},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
};
use testkit::http_server::{Conn, Request, Server};

fn put(arguments: &[&str]) -> Command {
    let mut command = longhaul();
    command.arg("put").args(arguments).env("XDG_CONFIG_HOME", "/no/such/directory");
    command
}

/// Targets and bodies.
type Kept = Vec<(String, Vec<u8>)>;

/// A server that keeps what it gets: targets, with bodies that have a length.
fn keeping() -> (Server, Arc<Mutex<Kept>>) {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&kept);
    let server = Server::start(move |_, request: &Request, conn: &mut Conn| {
        let mut body = request.rest.clone();
        if let Ok(length) = request.field("content-length").parse::<u64>() {
            let left = length - body.len() as u64;
            (&mut conn.stream).take(left).read_to_end(&mut body).unwrap();
        } else {
            let mut buffer = [0; 1024];
            while !body.ends_with(b"0\r\n\r\n") {
                let read = conn.stream.read(&mut buffer).unwrap();
                body.extend(&buffer[..read]);
            }
        }
        keep.lock().unwrap().push((request.target.clone(), body));
        conn.answer("201 Created", &[], b"");
    });
    (server, kept)
}

#[test]
fn put_appends_names_and_prints_one_json_object_per_file() {
    let directory = tempfile::tempdir().unwrap();
    let files = ["a b", "c"].map(|name| directory.path().join(name).to_str().unwrap().to_owned());
    for file in &files {
        fs::write(file, file).unwrap();
    }
    let (server, kept) = keeping();
    let output = put(&[&files[0], &files[1], &server.url("/d/"), "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let out = text(&output.stdout);
    let reports: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(reports.len(), 2);
    assert_eq!(reports[1]["status"], "complete");
    assert_eq!(reports[1]["bytes"], files[1].len());
    assert_eq!(reports[1]["digest"]["algorithm"], "sha-256");
    let expected = [("/d/a%20b", &files[0]), ("/d/c", &files[1])]
        .map(|(target, body)| (target.to_owned(), body.clone().into_bytes()));
    assert_eq!(*kept.lock().unwrap(), expected);
}

#[test]
fn put_sends_standard_input() {
    let (server, kept) = keeping();
    let mut child = put(&["-", &server.url("/f")]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"bytes").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(kept.lock().unwrap()[0].1, b"5\r\nbytes\r\n0\r\n\r\n");
}

#[test]
fn put_goes_through_depots() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("depot.toml");
    let open = "allow = { clients = [\"127.0.0.0/8\"], upstreams = [\"127.0.0.0/8:*\"], local = true, methods = [\"GET\", \"PUT\"] }";
    fs::write(&config, open).unwrap();
    let near = Depot::start(&["--config", config.to_str().unwrap()]);
    let far = Depot::named("d2", &["--config", config.to_str().unwrap()]);
    let file = directory.path().join("f");
    fs::write(&file, vec![b'x'; 300_000]).unwrap();
    let (server, kept) = keeping();
    let via = format!("{},{}", near.listen, far.listen);
    let url = server.url("/f");
    let output = put(&[file.to_str().unwrap(), &url, "--via", &via]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(kept.lock().unwrap()[0].1.len(), 300_000);
}

#[test]
fn refused_upload_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("f");
    fs::write(&file, b"x").unwrap();
    let server = Server::start(|_, _, conn| conn.answer("403 No", &[], b"not \x1b[1mhere"));
    let output = put(&[file.to_str().unwrap(), &server.url("/f")]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("403 Forbidden: not ?[1mhere"), "{said}");
}

#[test]
fn wrong_usage_of_put_is_refused() {
    for (arguments, expected) in [
        (&["put"][..], "FILE... URL"),
        (&["put", "http://h/f"], "FILE... URL"),
        (&["put", "a", "b", "http://h/f"], "ends in /"),
        (&["put", "-", "http://h/"], "no name"),
        (&["put", "a", "ftp://h/f"], "only http and https"),
    ] {
        let (code, said) = refused(arguments);
        assert!(code == 2 && said.contains(expected), "{arguments:?}: {code} {said}");
    }
    let (code, said) = refused(&["put", "/no/such/file", "http://127.0.0.1:1/f"]);
    assert!(code == 1 && said.contains("/no/such/file"), "{code} {said}");
}
