// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul depot`: as a daemon, and what is asked about one.

use crate::common::{call, done, json, longhaul, refused, text};
use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Stdio},
};

/// A depot that runs; killed when dropped.
struct Depot {
    child: Child,
    admin: String,
}

impl Depot {
    fn start(arguments: &[&str]) -> Self {
        let mut child = longhaul()
            .args(["depot", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--id", "d1"])
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let ready = log.lines().map_while(Result::ok).find(|line| line.contains("ready"));
        let ready = ready.expect("a depot that starts says so");
        let admin = ready.split("admin=\"").nth(1).and_then(|rest| rest.split('"').next());
        let admin = admin.unwrap_or_else(|| panic!("{ready}")).to_owned();
        Self { child, admin }
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
    // Its congestion control is not in every kernel.
    let example = std::fs::read_to_string(example).unwrap().replace("\"bbr\"", "\"reno\"");
    let file = folder.path().join("depot.toml");
    std::fs::write(&file, example).unwrap();
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
    assert!(done(&["depot", "check", "--relay", "copy"]).contains("relay = \"copy\""));
    assert_eq!(refused(&["depot", "check", path, "--config", path]).0, 2);
    std::fs::write(&file, "colour = 1").unwrap();
    let (code, said) = refused(&["depot", "check", file.to_str().unwrap()]);
    assert!(code == 2 && said.contains("unknown field `colour`"), "{code}: {said}");
}

#[test]
fn a_running_depot_says_what_it_does() {
    let depot = Depot::start(&["--allow-upstream", "depot2.example.org:3880"]);
    let table = depot.status(&["--once"]);
    for part in ["d1: serving", "upstream depot2.example.org:3880", "no transfer under way"] {
        assert!(table.contains(part), "{part} is missing: {table}");
    }
    assert!(!table.contains('\x1b'), "{table:?}");
    let status: serde_json::Value = serde_json::from_str(&depot.status(&["--json"])).unwrap();
    assert_eq!((&status["id"], &status["schema"]), (&"d1".into(), &1.into()));
    // The address as it stands in the configuration is enough.
    assert_eq!(json(&["depot", "status", &depot.admin, "--json"])["state"], "serving");
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
fn what_is_no_depot_is_named() {
    for url in ["3881", "https://127.0.0.1:3881", "http://127.0.0.1"] {
        let (code, said) = refused(&["depot", "status", url]);
        assert!(code == 2 && said.contains("http://127.0.0.1:3881"), "{code}: {said}");
    }
    // A port on which nobody listens any more.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (code, said) = refused(&["depot", "status", &free.to_string(), "--once"]);
    assert!(code == 1 && said.contains("admin.listen"), "{code}: {said}");
    let both = call(&["depot", "status", &free.to_string(), "--once", "--json"]);
    assert_eq!(both.status.code(), Some(2), "{}", text(&both.stderr));
}
