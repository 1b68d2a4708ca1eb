// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul send --connections`: several routes at once, of which one dies.

use crate::{
    common::text,
    depot::Depot,
    send::{CODE, Receiver, content, report, send},
};
use serde_json::Value;
use std::{
    fs,
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};

const OPEN: [&str; 5] =
    ["--allow-client", "127.0.0.0/8", "--allow-upstream", "127.0.0.1:*", "--allow-local"];

/// Waits until so much of a file has arrived.
fn wait_for(part: &Path, bytes: u64) {
    let begun = Instant::now();
    while fs::metadata(part).map_or(0, |data| data.len()) < bytes {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing arrives");
        sleep(Duration::from_millis(10));
    }
}

fn carried(sent: &Value) -> Vec<u64> {
    let routes = sent["routes"].as_array().expect("there are several");
    routes.iter().map(|route| route["bytes"].as_u64().expect("a number")).collect()
}

#[test]
fn depot_of_one_of_two_routes_is_killed_and_the_file_arrives() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    let length = 40_000_000;
    fs::write(&file, content(length)).unwrap();
    let there = directory.path().join("there");
    fs::create_dir(&there).unwrap();
    let receiver = Receiver::start(&there, &["--listen", "127.0.0.1:0", "--code", CODE]);
    let mut first = Depot::named("first", &OPEN);
    let second = Depot::named("second", &OPEN);
    let file = file.to_str().unwrap();
    let via = [first.listen.clone(), second.listen.clone()];
    let mut arguments = vec![file, &receiver.address, "--code", CODE, "--connections", "2"];
    arguments.extend(via.iter().flat_map(|via| ["--via", via]));
    arguments.extend(["--limit-rate", "160mbit"]);
    let sender = send(&arguments).spawn().unwrap();
    wait_for(&there.join("file.part"), 8_000_000);
    first.kill();
    let sent = report(&sender.wait_with_output().unwrap());
    let received = report(&receiver.end());
    assert_eq!(sent["blake3"], received["blake3"]);
    assert!(fs::read(there.join("file")).unwrap() == content(length));
    let carried = carried(&sent);
    assert!(carried[0] > 0 && carried[1] > carried[0], "{sent}");
    assert!(carried.iter().sum::<u64>() >= length as u64 / 2, "{sent}");
    assert_eq!(sent["routes"][1]["via"][0], via[1].as_str());
    assert_eq!(sent["encrypted"], true);
}

#[test]
fn parallel_connections_of_one_route_carry_a_pipe() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, content(12_000_000)).unwrap();
    let file = file.to_str().unwrap();
    let receiver =
        Receiver::start(directory.path(), &["--listen", "127.0.0.1:0", "--open", "-o", "there"]);
    let depot = Depot::named("one", &OPEN);
    let pipe = ["-", &receiver.address, "--via", &depot.listen, "--connections", "3"];
    let slowly = [&pipe[..], &["--limit-rate", "100mbit"]].concat();
    let sent = send(&slowly).stdin(fs::File::open(file).unwrap()).output().unwrap();
    let sent = report(&sent);
    assert_eq!(sent["routes"][0]["connections"], 3, "{sent}");
    report(&receiver.end());
    assert!(fs::read(directory.path().join("there")).unwrap() == content(12_000_000));
}

#[test]
fn meeting_refuses_several_connections() {
    let refused =
        send(&["Cargo.toml", "--via", "127.0.0.1:1", "--connections", "2"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("--connections"), "{}", text(&refused.stderr));
}
