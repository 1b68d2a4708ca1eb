// SPDX-License-Identifier: GPL-2.0-or-later
//! The log: its destination, its contents, and that it delays no transfer.

mod attacked;
mod followed;

use crate::common::{
    client::{body, get, status},
    process::Daemon,
    scripted::Scripted,
};
use longhaul_depot::fetch_status;
use rustix::process::Signal;
use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, ChildStderr},
};
use testkit::until;

const ADMIN: &str = "id = \"d1\"\n[admin]\nlisten = \"127.0.0.1:0\"\n";

fn in_folder(access: &Path, format: &str) -> String {
    format!("{ADMIN}\n[log]\naccess = \"{}\"\nformat = \"{format}\"", access.display())
}

#[test]
fn access_log_goes_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    for format in ["json", "text"] {
        let file = folder.path().join(format);
        let mut depot = Daemon::depot(&in_folder(&file, format));
        let origin = Scripted::answering("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        for route in [origin.route("-", "/a?b='c"), origin.route("-", "/a"), "/no-route".into()] {
            assert!(get(depot.address, &route).2.is_ok());
        }
        // Pending lines are written at the end.
        depot.signal(Signal::TERM);
        assert!(depot.wait().success());
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(!depot.log_text().contains("complete"), "{}", depot.log_text());
        if format == "text" {
            assert_eq!(text.matches("  INFO complete client=").count(), 2, "{text}");
            continue;
        }
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        // The next request may be in before the end of the last is known.
        let ended = |how: &str| lines.iter().find(|line| line["outcome"] == how).expect(how);
        let (refused, done) = (ended("refused"), ended("complete"));
        assert_eq!(done["status"], 200);
        assert_eq!((&done["bytes"], &done["sent_bytes"]), (&5.into(), &0.into()));
        assert_eq!(done["upstream"], origin.address.to_string());
        for key in ["seconds", "rate_bps", "client_rtt_us", "upstream_retransmits", "client_cc"] {
            assert!(!done[key].is_null(), "{key}: {done}");
        }
        assert_eq!(refused["status"], 400);
        assert_eq!(refused["error"], "http_request_error");
        assert!(refused["message"].as_str().unwrap().contains("not a route"), "{refused}");
    }
}

#[test]
fn json_on_standard_error() {
    let depot = Daemon::depot("[log]\nformat = \"json\"");
    let origin = Scripted::answering("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(status(&get(depot.address, &origin.route("-", "/")).0), 200);
    let line = depot.await_log(&["\"outcome\":\"complete\""]);
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["bytes"], 5);
}

#[test]
fn full_disk_costs_log_lines_but_no_transfer() {
    let depot = Daemon::depot(&in_folder(Path::new("/dev/full"), "text"));
    let origin = Scripted::answering("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    for _ in 0..20 {
        let (head, body, end) = get(depot.address, &origin.route("-", "/"));
        assert_eq!((status(&head), body.as_slice()), (200, b"hello".as_slice()), "{head}");
        end.unwrap();
    }
    until("every line is counted", || depot.status().access_log.dropped_lines == 20);
    let metrics = String::from_utf8(body(&format!("http://{}/metrics", depot.admin()))).unwrap();
    assert!(metrics.contains("longhaul_depot_access_log_dropped_lines_total 20\n"), "{metrics}");
    depot.await_log(&["cannot write the access log /dev/full"]);
    let said = depot.log_text().matches("cannot write the access log /dev/full").count();
    assert_eq!(said, 1, "{}", depot.log_text());
}

#[test]
fn unopenable_log_stops_the_start() {
    let settings = "listen = [\"127.0.0.1:0\"]\n[log]\naccess = \"/nowhere/access.log\"";
    let log = Daemon::launch("depot", settings).err().expect("no depot");
    assert!(log.contains("cannot open the access log /nowhere/access.log"), "{log}");
}

/// A depot whose standard error is read up to its first line and no further.
struct Unread {
    child: Child,
    log: BufReader<ChildStderr>,
    ready: String,
}

impl Unread {
    fn start() -> Self {
        let settings = "id = \"d1\"\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n\
                        [allow]\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]\nlocal = true\n";
        let mut child = Daemon::command("exec \"$0\" \"$@\"", "depot", settings).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut ready = String::new();
        log.read_line(&mut ready).unwrap();
        Self { child, log, ready }
    }

    /// The address that its first line has under this name.
    fn address(&self, name: &str) -> SocketAddr {
        let address = self.ready.split(&format!("{name}=\"")).nth(1).unwrap();
        address.split('"').next().unwrap().parse().unwrap()
    }

    fn dropped(&self) -> u64 {
        let admin = self.address("admin").to_string();
        fetch_status(&admin).unwrap().0.access_log.dropped_lines
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn blocked_stderr_stops_no_transfer() {
    let mut depot = Unread::start();
    let to = depot.address("listen");
    let origin = Scripted::answering("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    until("the pipe and the queue before it are full", || {
        for _ in 0..200 {
            let (head, ..) = get(to, "/no-route");
            assert_eq!(status(&head), 400, "{head}");
        }
        depot.dropped() > 0
    });
    for _ in 0..20 {
        let (head, body, end) = get(to, &origin.route("-", "/"));
        assert_eq!((status(&head), body.as_slice()), (200, b"hello".as_slice()), "{head}");
        end.unwrap();
    }
    // Once the pipe is read, the depot reports how many lines are missing.
    let said = loop {
        let mut line = String::new();
        depot.log.read_line(&mut line).unwrap();
        if line.contains("lines of it were lost") {
            break line;
        }
        assert!(!line.is_empty(), "the log ended");
    };
    assert!(said.contains("the log on standard error is written again"), "{said}");
}
