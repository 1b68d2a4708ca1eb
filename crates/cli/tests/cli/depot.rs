// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul depot`: the daemon, and the commands that show its state.

use crate::common::{done, json, longhaul, refused, refusing_address};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

/// A depot that runs; killed when dropped.
pub struct Depot {
    child: Child,
    pub listen: String,
    pub admin: String,
}

impl Depot {
    pub fn start(arguments: &[&str]) -> Self {
        Self::named("d1", arguments)
    }

    pub fn named(id: &str, arguments: &[&str]) -> Self {
        let mut child = longhaul()
            .args(["depot", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--id", id])
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let ready = log.lines().map_while(Result::ok).find(|line| line.contains("ready"));
        let ready = ready.expect("a depot that starts says so");
        let [listen, admin] = ["listen=\"", "admin=\""].map(|key| {
            let address = ready.split(key).nth(1).and_then(|rest| rest.split('"').next());
            address.unwrap_or_else(|| panic!("{ready}")).to_owned()
        });
        Self { child, listen, admin }
    }

    /// Ends it as `kill -9` does.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn status(&self, more: &[&str]) -> String {
        let url = format!("http://{}", self.admin);
        done(&[&["depot", "status", &url][..], more].concat())
    }
}

impl Drop for Depot {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_configuration_is_checked_and_printed_in_full() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/depot.toml");
    let folder = tempfile::tempdir().unwrap();
    let example = std::fs::read_to_string(example).unwrap();
    let file = folder.path().join("depot.toml");
    std::fs::write(&file, &example).unwrap();
    // As it is installed it is closed.
    let printed = done(&["depot", "check", file.to_str().unwrap()]);
    for line in ["clients = []", "upstreams = []", "local = false"] {
        assert!(printed.lines().any(|printed| printed == line), "{line}: {printed}");
    }
    // With its examples taken in. Their congestion control is not in every kernel.
    let is_setting = |line: &str| line.starts_with("[[") || line.contains(" = ");
    let opened = example.lines().map(|line| match line.strip_prefix("# ") {
        Some(setting) if is_setting(setting) => setting,
        _ => line,
    });
    let opened = opened.collect::<Vec<_>>().join("\n").replace("\"bbr\"", "\"reno\"");
    std::fs::write(&file, opened).unwrap();
    let printed = done(&["depot", "check", file.to_str().unwrap()]);
    for line in ["id = \"depot1\"", "listen = \"127.0.0.1:3881\"", "client_idle = \"600s\""] {
        assert!(printed.lines().any(|printed| printed == line), "{line}: {printed}");
    }
    // With arguments it is what they make of it together, and without a file what they say alone.
    let path = file.to_str().unwrap();
    for file in [&[path][..], &["--config", path]] {
        let more = ["--id", "other", "--allow-upstream", "third.example.org:3880"];
        let printed = done(&[&["depot", "check"], file, &more].concat());
        for part in ["id = \"other\"", "\"depot2.example.org:3880\"", "\"third.example.org:3880\""]
        {
            assert!(printed.contains(part), "{part}: {printed}");
        }
    }
    assert!(done(&["depot", "check", "--copy", "copy"]).contains("copy = \"copy\""));
    // For units, which want to know alone whether it is good.
    assert_eq!(done(&["depot", "check", "--quiet", path]), "");
    assert_eq!(refused(&["depot", "check", path, "--config", path]).0, 2);
    std::fs::write(&file, "colour = 1").unwrap();
    let (code, said) = refused(&["depot", "check", file.to_str().unwrap()]);
    assert!(code == 2 && said.contains("unknown field `colour`"), "{code}: {said}");
}

#[test]
fn status_shows_a_running_depot() {
    let depot = Depot::start(&["--allow-upstream", "depot2.example.org:3880"]);
    let table = depot.status(&["--once"]);
    for part in ["d1: serving", "upstream depot2.example.org:3880", "no open transfers"] {
        assert!(table.contains(part), "{part} is missing: {table}");
    }
    assert!(!table.contains('\x1b'), "{table:?}");
    let status: serde_json::Value = serde_json::from_str(&depot.status(&["--json"])).unwrap();
    assert_eq!((&status["id"], &status["schema"]), (&"d1".into(), &1.into()));
    // The address in the form of the configuration is enough.
    assert_eq!(json(&["depot", "status", &depot.admin, "--json"])["state"], "serving");
    assert_eq!(json(&["depot", "status", &depot.admin, "--json", "--once"])["state"], "serving");
}

#[test]
fn status_names_depots_of_detours_that_are_down() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("depot.toml");
    let text = "allow.local = true\n[[detour]]\naround = \"127.0.0.1:1\"\nstraight = true\n";
    std::fs::write(&file, text).unwrap();
    let depot = Depot::start(&["--config", file.to_str().unwrap()]);
    let begun = Instant::now();
    while !depot.status(&["--once"]).contains("depot 127.0.0.1:1 of a detour is down") {
        assert!(begun.elapsed() < Duration::from_secs(20), "{}", depot.status(&["--once"]));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// An origin of one body, which keeps the second half of it to itself.
fn halting_origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let body = vec![7; 10_000_000];
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let length = 2 * body.len();
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").unwrap();
        stream.write_all(&body).unwrap();
        // Until the depot gives up.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    address
}

#[test]
fn a_transfer_over_several_connections_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("depot.toml");
    let text = "allow = { clients = [\"127.0.0.0/8\"], upstreams = [\"127.0.0.0/8:*\"], local = true }\n\
                [[hop]]\npeer = \"127.0.0.0/8\"\ncongestion = \"reno\"\nstreams = 3";
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let near = Depot::start(&["--config", file]);
    let far = Depot::named("d2", &["--config", file]);
    let route = format!("/lh1/fetch/{}/http:{}/", far.listen, halting_origin());
    let mut client = TcpStream::connect(&near.listen).unwrap();
    write!(client, "GET {route} HTTP/1.1\r\nHost: d\r\n\r\n").unwrap();
    let reader = client.try_clone().unwrap();
    std::thread::spawn(move || std::io::copy(&mut &reader, &mut std::io::sink()));
    let deadline = Instant::now() + Duration::from_secs(20);
    let both = |near: &str, far: &str| {
        let has = |table: &str, side: &str| {
            let transfer = table.lines().any(|line| line.ends_with(&format!(" {side} 3")));
            transfer && table.contains(" 1 reno, 3 streams\n")
        };
        has(near, "next") && has(far, "client")
    };
    loop {
        let tables = [&near, &far].map(|depot| depot.status(&["--once"]));
        if both(&tables[0], &tables[1]) {
            break;
        }
        assert!(Instant::now() < deadline, "{}", tables.join("\n"));
        std::thread::sleep(Duration::from_millis(10));
    }
    client.shutdown(Shutdown::Both).unwrap();
}

#[test]
fn without_once_the_table_comes_again() {
    let depot = Depot::start(&[]);
    let mut command = longhaul();
    command.args(["depot", "status", &depot.admin]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let tables = lines.filter(|line| line.starts_with("d1: serving")).take(2).count();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(tables, 2);
}

#[test]
fn status_of_a_wrong_address_is_refused() {
    for url in ["3881", "https://127.0.0.1:3881", "http://127.0.0.1"] {
        let (code, said) = refused(&["depot", "status", url]);
        assert!(code == 2 && said.contains("http://127.0.0.1:3881"), "{code}: {said}");
    }
    // A port without a listener since the depot ended.
    let free = refusing_address();
    let (code, said) = refused(&["depot", "status", &free.to_string(), "--once"]);
    assert!(code == 1 && said.contains("admin.listen"), "{code}: {said}");
}
