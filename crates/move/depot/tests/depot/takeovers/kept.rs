// SPDX-License-Identifier: GPL-2.0-or-later
//! Decisions of operators after a crash.

use super::{Downloads, metric, request, tell};
use crate::common::{client::status, process::Daemon};
use longhaul_depot::control::{Answer, Command, Limited, Shunned};
use rustix::process::Signal;
use std::{fs, io::Read, os::unix::fs::PermissionsExt, path::Path};

/// A depot whose state directory systemd has made.
fn start(dir: &Path) -> Daemon {
    let line = format!("STATE_DIRECTORY='{}' exec \"$0\" \"$@\"", dir.display());
    let socket = dir.join("control.sock").display().to_string();
    Daemon::depot_by(
        &line,
        &format!("admin.listen = \"127.0.0.1:0\"\ncontrol.socket = {socket:?}\n"),
    )
}

fn deny(dir: &Path, client: &str, why: &str) -> Answer {
    let who = Shunned::Client(client.parse().unwrap());
    tell(dir, &Command::Deny { who, seconds: 600, why: why.to_owned() })
}

#[test]
fn decisions_survive_a_kill_by_default() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut depot = start(dir);
    assert_eq!(deny(dir, "127.0.0.66/32", "write to ops@example.org"), Answer::Ended(0));
    depot.await_log(&["denied by the operator", "write to ops@example.org"]);
    let whose = Limited::Ticket("t1".to_owned());
    tell(dir, &Command::Limit { whose, rate_bps: Some(1_000_000) });
    let limits = tell(dir, &Command::Limits);
    depot.signal(Signal::KILL);
    let _ = depot.wait();
    let file = dir.join("decisions.jsonl");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    let again = start(dir);
    let mut origin = Downloads::new();
    let (mut client, head) = request("127.0.0.66", &again, &origin.origin.route("-", "/f"));
    let mut told = String::new();
    client.read_to_string(&mut told).unwrap();
    assert!(status(&head) == 403 && told.contains("write to ops@example.org"), "{head}{told}");
    again.await_log(&["refused", "write to ops@example.org"]);
    assert_eq!(tell(dir, &Command::Limits), limits);
    assert_eq!(origin.begin("127.0.0.8", &again), 200);
    origin.finish();
}

#[test]
fn damaged_decisions_are_reported_and_do_not_stop_the_start() {
    const GOOD: &str = "longhaul_depot_last_reload_successful{of=\"operator decisions\"}";
    let dir = tempfile::tempdir().unwrap();
    let (dir, file) = (dir.path(), dir.path().join("decisions.jsonl"));
    let mut depot = start(dir);
    deny(dir, "127.0.0.66/32", "a");
    deny(dir, "127.0.0.67/32", "b");
    assert_eq!(metric(&depot, GOOD), 1);
    depot.signal(Signal::KILL);
    let _ = depot.wait();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replacen("client", "cli\u{0}nt", 1)).unwrap();

    let mut again = start(dir);
    again.await_log(&["ERROR", "is damaged", "decisions.jsonl.damaged"]);
    assert_eq!(metric(&again, GOOD), 0);
    assert!(fs::read_to_string(dir.join("decisions.jsonl.damaged")).unwrap().contains('\u{0}'));
    let route = Downloads::new().origin.route("-", "/f");
    assert_eq!(status(&request("127.0.0.67", &again, &route).1), 403, "what can be read applies");
    // It is kept again at once.
    again.signal(Signal::KILL);
    let _ = again.wait();
    let third = start(dir);
    assert_eq!(status(&request("127.0.0.67", &third, &route).1), 403);
    assert_eq!(metric(&third, GOOD), 1);
}

#[test]
fn decision_that_cannot_be_kept_applies_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let socket = dir.join("control.sock").display().to_string();
    let state = dir.join("missing/state").display().to_string();
    let depot = Daemon::depot(&format!("control.socket = {socket:?}\ncontrol.state = {state:?}\n"));
    let who = Shunned::Client("127.0.0.66/32".parse().unwrap());
    let deny = Command::Deny { who, seconds: 600, why: String::new() };
    let error = longhaul_depot::control::ask(&dir.join("control.sock"), &deny).unwrap_err();
    assert!(error.to_string().contains("cannot be kept"), "{error}");
    let route = Downloads::new().origin.route("-", "/f");
    assert_eq!(status(&request("127.0.0.66", &depot, &route).1), 403);
    // Once it can be written, it is.
    fs::create_dir(dir.join("missing")).unwrap();
    testkit::until("it is kept", || dir.join("missing/state").exists());
}
