// SPDX-License-Identifier: GPL-2.0-or-later
//! Stored sessions whose sender, collector or depot is killed on the way, and started again.

use crate::{
    chain::kill,
    common::{longhaul, text},
    send::{content, report},
    send_stored::{OPEN, Post, begun, command, names, refusal, wait},
};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
};

/// A depot at an address of its own, so that it can be started again there; killed when dropped.
struct Again(Child);

impl Again {
    fn start(config: &Path, address: &str) -> Self {
        let mut child = longhaul()
            .args(["depot", "--listen", address, "--admin", "127.0.0.1:0", "--config"])
            .arg(config)
            .args(OPEN)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let mut lines = log.lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("ready")), "it did not start");
        Self(child)
    }
}

impl Drop for Again {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn collector_of_a_directory_continues() {
    let post = Post::start();
    let tree = post.here().join("tree");
    fs::create_dir_all(tree.join("a/b")).unwrap();
    for number in 0..50 {
        fs::write(tree.join(format!("a/{number}")), content(number * 97)).unwrap();
    }
    fs::write(tree.join("large"), content(9_000_000)).unwrap();
    let (sender, code) = begun(&mut post.sender(&["tree", "--limit-rate", "12mbit"]));
    // Stopped, as else a slow machine's collector begins when all is there, and is done at once. The list is too late for it: it shows
    // nothing before the depot's first promise, after 2 s.
    wait(|| post.stored_bytes() > 1_000_000);
    kill("STOP", sender.id());
    let mut collector = post.collector(&code, &[]).spawn().unwrap();
    let large = post.there().join("tree.part/large");
    wait(|| large.metadata().is_ok_and(|large| large.len() > 500_000));
    collector.kill().unwrap();
    collector.wait().unwrap();
    kill("CONT", sender.id());
    report(&sender.wait_with_output().unwrap());
    let received = post.collect(&code, &[]);
    assert!(received["resumed_bytes"].as_u64() > Some(500_000), "{received}");
    let mut compare = Command::new("diff");
    let compared = compare.arg("-r").args([&tree, &post.there().join("tree")]).output().unwrap();
    assert!(compared.status.success(), "{}", text(&compared.stdout));
    assert_eq!(names(&post.there()), ["tree"]);
}

#[test]
fn collector_that_was_killed_continues() {
    let post = Post::start();
    let all = content(6_000_000);
    let (mut sender, code) = begun(&mut post.sender(&["-", "--name", "set"]));
    let mut pipe = sender.stdin.take().unwrap();
    pipe.write_all(&all[..3_000_000]).unwrap();
    wait(|| post.list().len() == 1);
    let mut collector = post.collector(&code, &[]).spawn().unwrap();
    // A checkpoint is made when something comes a second after the last.
    let part = post.there().join("set.part.json");
    let is_kept = || fs::read_to_string(&part).is_ok_and(|text| text.contains("\"done\":[[0,"));
    let mut sent = 3_000_000;
    wait(|| {
        if sent < 4_000_000 {
            pipe.write_all(&all[sent..sent + 20_000]).unwrap();
            sent += 20_000;
        }
        is_kept()
    });
    collector.kill().unwrap();
    collector.wait().unwrap();
    pipe.write_all(&all[sent..]).unwrap();
    drop(pipe);
    report(&sender.wait_with_output().unwrap());
    let received = post.collect(&code, &[]);
    let resumed = received["resumed_bytes"].as_u64().unwrap();
    assert!(resumed > 0 && received["bytes"] == 6_000_000, "{received}");
    assert!(fs::read(post.there().join("set")).unwrap() == all);
    assert_eq!(names(&post.there()), ["set"]);
    // What is here of another one is not taken for its beginning.
    let other = post.leave(&["../there/set", "--name", "other"]);
    fs::rename(post.there().join("set"), post.there().join("other.part")).unwrap();
    let received = post.collect(&other.code, &[]);
    assert_eq!(received["resumed_bytes"], 0);
    assert!(fs::read(post.there().join("other")).unwrap() == all);
}

#[test]
fn sender_and_collector_outlive_a_restart_of_the_depot() {
    let post = Post::start();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let config = post.root.path().join("again.toml");
    let store = post.root.path().join("other").to_str().unwrap().to_owned();
    let settings = format!("[store]\npath = {store:?}\nsize = \"200MB\"\nkept_free = \"1MB\"\n");
    fs::write(&config, settings).unwrap();
    let depot = Again::start(&config, &address);
    let all = content(12_000_000);
    fs::write(post.here().join("set"), &all).unwrap();
    let mut sender = command(&["send", "set", "--detach", "--json"], &address);
    sender.arg("--owner-key").arg(post.key()).args(["--limit-rate", "12mbit"]);
    let (sender, code) = begun(sender.current_dir(post.here()));
    let mut collector = command(&["recv", &code, "--json"], &address);
    collector.current_dir(post.there());
    let mut lister = command(&["session", "list", "--json"], &address);
    lister.arg("--owner-key").arg(post.key());
    wait(|| text(&lister.output().unwrap().stdout).contains("\"bytes\": "));
    let collector = collector.spawn().unwrap();
    // Some of it was promised, and more has come.
    wait(|| post.there().join("set.part").metadata().is_ok_and(|part| part.len() > 1_000_000));
    drop(depot);
    let _again = Again::start(&config, &address);
    let sent = report(&sender.wait_with_output().unwrap());
    assert_eq!((&sent["bytes"], &sent["status"]), (&12_000_000.into(), &"complete".into()));
    let received = report(&collector.wait_with_output().unwrap());
    assert_eq!(received["blake3"], sent["blake3"]);
    assert!(fs::read(post.there().join("set")).unwrap() == all);
}

#[test]
fn part_that_differs_is_collected_again() {
    let post = Post::start();
    let all = content(2_000_000);
    fs::write(post.here().join("set"), &all).unwrap();
    let left = post.leave(&["set"]);
    // A collector whose disk is full leaves its part, with what it knows of it.
    let limited = post.collector(&left.code, &["--max-size", "1MB"]).output().unwrap();
    assert_eq!(limited.status.code(), Some(1));
    let bash = format!(
        "ulimit -f 1000; trap '' XFSZ; exec {} recv {} --via {}",
        env!("CARGO_BIN_EXE_longhaul"),
        left.code,
        post.depot.listen
    );
    let limited = Command::new("bash").args(["-c", &bash]).current_dir(post.there()).output();
    let (code, said) = refusal(&limited.unwrap());
    assert!(code == 1 && said.contains("set.part"), "{code}: {said}");
    let part = post.there().join("set.part");
    let mut bytes = fs::read(&part).unwrap();
    assert!(bytes.len() > 500_000, "{} bytes", bytes.len());
    bytes[1000] ^= 1;
    fs::write(&part, &bytes).unwrap();
    post.collect(&left.code, &[]);
    assert!(fs::read(post.there().join("set")).unwrap() == all);
}
