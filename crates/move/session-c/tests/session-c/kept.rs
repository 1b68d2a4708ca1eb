// SPDX-License-Identifier: GPL-2.0-or-later
//! Sessions that outlive the process of either end.

use super::examples::{Program, bytes};
use std::{
    fs,
    net::TcpListener,
    thread::sleep,
    time::{Duration, Instant},
};

/// Waits until something is so.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn file_arrives_though_both_ends_are_killed() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (from, to) = (path("from"), path("to"));
    let all = bytes(8_000_000, 11);
    fs::write(&from, &all).unwrap();
    // No other process of this host asks for a port that was free just now.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let (sender, receiver) = (path("sender"), path("receiver"));
    // Slow enough that each end is killed on the way.
    let send = || Program::start("keep", &["send", &from, &sender, &address, "20000000"]);
    let receive = || Program::start("keep", &["receive", &to, &receiver, &address]);
    let arrived = || fs::metadata(&to).map_or(0, |file| file.len());
    let is_kept = |state: &str| fs::metadata(state).is_ok();

    let receiving = receive();
    let sending = send();
    until("it begins", || is_kept(&sender) && is_kept(&receiver) && arrived() > 500_000);
    drop(receiving);
    let here = arrived();
    assert!((1..all.len() as u64).contains(&here), "{here}");
    let receiving = receive();
    until("it goes on", || arrived() > here + 500_000);
    drop(sending);
    let there = arrived();
    assert!(there < all.len() as u64, "{there}");
    let sending = send();
    sending.succeed();
    receiving.succeed();
    assert!(fs::read(&to).unwrap() == all);
    assert!(!is_kept(&sender) && !is_kept(&receiver));
}

#[test]
fn another_file_does_not_continue_the_session() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (from, to) = (path("from"), path("to"));
    fs::write(&from, bytes(8_000_000, 12)).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let (sender, receiver) = (path("sender"), path("receiver"));
    let receiving = Program::start("keep", &["receive", &to, &receiver, &address]);
    let sending = Program::start("keep", &["send", &from, &sender, &address, "20000000"]);
    until("it begins", || {
        fs::metadata(&receiver).is_ok() && fs::metadata(&to).is_ok_and(|to| to.len() > 500_000)
    });
    drop(receiving);
    // One byte of what is here has changed meanwhile.
    let mut here = fs::read(&to).unwrap();
    here[7] ^= 1;
    fs::write(&to, here).unwrap();
    let receiving = Program::start("keep", &["receive", &to, &receiver, &address]);
    let said = sending.fails();
    assert!(said.contains("not all has arrived"), "{said}");
    // The other end goes on waiting for a sender that has what it has.
    drop(receiving);
}
