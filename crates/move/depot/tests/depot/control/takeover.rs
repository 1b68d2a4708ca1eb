// SPDX-License-Identifier: GPL-2.0-or-later
//! A depot that has taken over shows, and commands, the one before it while that finishes what it has accepted.

use super::{Download, of_client, socket};
use crate::common::{client::body, process::Daemon};
use longhaul_depot::control::{Answer, Command, Shunned, Which, ask};
use std::{fs, path::Path};
use testkit::until;

fn settings(dir: &Path, id: &str, listen: &str, control: bool) -> String {
    let path = |name: &str| dir.join(name).display().to_string();
    let control = if control {
        format!("control.socket = {:?}\n", path("control.sock"))
    } else {
        String::new()
    };
    format!(
        "id = \"{id}\"\nlisten = [\"{listen}\"]\nadmin.listen = \"127.0.0.1:0\"\nhandover = {:?}\n{control}\
         timeouts.drain = \"1h\"\n",
        path("handover")
    )
}

/// A depot with two downloads, and the one that has taken over from it.
fn taken_over(dir: &Path, control: bool) -> (Daemon, Daemon, [Download; 2]) {
    let first = Daemon::depot_with(&settings(dir, "first", "127.0.0.1:0", control));
    let downloads = ["127.0.0.8", "127.0.0.9"].map(|from| Download::begin(from, &first, "/old"));
    let second = Daemon::depot_with(&settings(dir, "second", &first.authority(), control));
    first.await_log(&["another depot has taken over"]);
    until("the second one sees the first", || !second.status().draining.is_empty());
    (first, second, downloads)
}

#[test]
fn status_and_commands_reach_draining_depot() {
    let dir = tempfile::tempdir().unwrap();
    let (mut first, second, [one, two]) = taken_over(dir.path(), true);
    let new = Download::begin("127.0.0.9", &second, "/new");
    let status = second.status();
    let draining = &status.draining[0];
    assert_eq!((draining.process, draining.live_transfers), (first.pid(), 2));
    assert!(draining.seconds_left > 3500.0 && draining.transfers[0].target.ends_with("/old"));
    assert_eq!(status.live_transfers, 1);
    let metrics = String::from_utf8(body(&format!("http://{}/metrics", second.admin()))).unwrap();
    for line in ["longhaul_depot_draining_processes 1", "longhaul_depot_draining_transfers 2"] {
        assert!(metrics.lines().any(|has| has == line), "{line} is missing in\n{metrics}");
    }
    let tell = |command: &Command| ask(&socket(dir.path()), command).unwrap();
    let Answer::Transfers { transfers, more: 0 } = tell(&Command::Transfers(Which::default()))
    else {
        panic!("no list");
    };
    assert_eq!(transfers.len(), 3);
    assert_eq!(tell(&Command::End(of_client("127.0.0.8"))), Answer::Ended(1));
    one.breaks_off();
    let who = Shunned::Client("127.0.0.9/32".parse().unwrap());
    let denied = tell(&Command::Deny { who, seconds: 60, why: String::new() });
    assert_eq!(denied, Answer::Ended(2), "of both depots");
    two.breaks_off();
    new.breaks_off();
    assert!(first.wait().success());
    until("nothing is left of the first", || second.status().draining.is_empty());
    let left = fs::read_dir(dir.path()).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name().into_string().unwrap()).collect();
    assert!(left.iter().all(|name| !name.contains("draining")), "{left:?}");
}

#[test]
fn draining_depot_is_listed_until_killed() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second, _downloads) = taken_over(dir.path(), false);
    assert_eq!(second.status().draining[0].live_transfers, 2);
    // Killed: it leaves its socket behind.
    first.signal(rustix::process::Signal::KILL);
    let is_left = || {
        let mut left = fs::read_dir(dir.path()).unwrap().flatten();
        left.any(|entry| entry.file_name().to_string_lossy().contains("draining"))
    };
    until("the second one forgets the first", || second.status().draining.is_empty() && !is_left());
}
