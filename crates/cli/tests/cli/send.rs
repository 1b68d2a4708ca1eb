// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul send` and `longhaul recv`: files, directories and pipes, directly and by meeting at a depot.

use crate::{
    common::{longhaul, text},
    depot::Depot,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

pub const CODE: &str = "k3v9-x2mq-7f4t-pd8w";

/// A receiver that runs in a directory.
pub struct Receiver {
    child: Option<Child>,
    /// Where it listens.
    pub address: String,
}

impl Receiver {
    pub fn start(directory: &Path, arguments: &[&str]) -> Self {
        let mut child = longhaul()
            .arg("recv")
            .args(["--patience", "60s"])
            .args((!arguments.contains(&"-")).then_some("--json"))
            .args(arguments)
            .current_dir(directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.as_mut().unwrap()).lines();
        let told = lines.map_while(Result::ok).find(|line| line.starts_with("listening on "));
        let address = told.expect("a receiver says where it listens").split_off(13);
        Self { child: Some(child), address }
    }

    pub fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Ends it as a service manager does.
    pub fn stop(mut self) -> Output {
        let child = self.child.take().unwrap();
        stop(&child);
        child.wait_with_output().unwrap()
    }

    pub fn end(mut self) -> Output {
        self.child.take().unwrap().wait_with_output().unwrap()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Asks a program to end.
pub fn stop(child: &Child) {
    let process = Pid::from_child(child);
    kill_process(process, Signal::TERM).unwrap();
}

pub fn send(arguments: &[&str]) -> Command {
    let mut command = longhaul();
    command.args(["send", "--json", "--patience", "60s"]).args(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What a transfer that succeeded has printed.
pub fn report(output: &Output) -> Value {
    let out = text(&output.stdout);
    assert!(output.status.success(), "{}\n{out}\n{}", output.status, text(&output.stderr));
    serde_json::from_str(&out).unwrap()
}

pub fn content(length: usize) -> Vec<u8> {
    (0..length as u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect()
}

#[test]
fn file_reaches_a_listener_that_wants_its_code() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("set.tar");
    fs::write(&file, content(3_000_000)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let there = directory.path().join("there");
    fs::create_dir(&there).unwrap();
    let receiver = Receiver::start(&there, &["--listen", "127.0.0.1:0", "--code", CODE]);
    let file = file.to_str().unwrap();
    let wrong = send(&[file, &receiver.address, "--code", "0000-0000-0000-0000"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong.stderr).contains("code"), "{}", text(&wrong.stderr));
    let none = send(&[file, &receiver.address]).output().unwrap();
    assert_eq!(none.status.code(), Some(1), "{}", text(&none.stderr));
    let sent = report(&send(&[file, &receiver.address, "--code", CODE]).output().unwrap());
    let received = report(&receiver.end());
    for key in ["name", "bytes", "blake3", "status"] {
        assert_eq!(sent[key], received[key], "{key}");
    }
    assert_eq!((&sent["name"], &sent["bytes"]), (&"set.tar".into(), &3_000_000.into()));
    let arrived = there.join("set.tar");
    assert!(fs::read(&arrived).unwrap() == content(3_000_000));
    let [before, after] = [Path::new(file), &arrived].map(|path| fs::metadata(path).unwrap());
    assert_eq!((before.mode(), before.mtime()), (after.mode(), after.mtime()));
    let left: Vec<_> = fs::read_dir(&there).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["set.tar"], "nothing else is left");
}

#[test]
fn both_ends_meet_at_a_depot_by_the_code_that_the_sender_prints() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a file");
    fs::write(&file, content(2_000_000)).unwrap();
    let open =
        ["--allow-client", "127.0.0.0/8", "--allow-upstream", "127.0.0.1:*", "--allow-local"];
    let far = Depot::named("far", &open);
    let near = Depot::named("near", &open);
    let via = format!("{},{}", near.listen, far.listen);
    let mut sender = send(&[file.to_str().unwrap(), "--via", &via]).spawn().unwrap();
    let mut told = String::new();
    BufReader::new(sender.stderr.as_mut().unwrap()).read_line(&mut told).unwrap();
    let arguments = told.trim().split_once("longhaul recv ").expect("what to do there").1;
    assert!(arguments.ends_with(&format!("--via {}", far.listen)), "{told}");
    let there = directory.path().join("there");
    fs::create_dir(&there).unwrap();
    let received = longhaul()
        .arg("recv")
        .args(arguments.split(' '))
        .args(["--json", "-d", there.to_str().unwrap()])
        .output()
        .unwrap();
    let (received, sent) = (report(&received), report(&sender.wait_with_output().unwrap()));
    assert_eq!(received["blake3"], sent["blake3"]);
    assert_eq!(sent["hops"][0]["depot"], "near");
    assert!(fs::read(there.join("a file")).unwrap() == content(2_000_000));
}

#[test]
fn directory_arrives_with_names_modes_times_and_links() {
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path().join("tree");
    let long = "n".repeat(200);
    fs::create_dir_all(tree.join("sub/deeper").join(&long)).unwrap();
    fs::create_dir(tree.join("empty")).unwrap();
    fs::write(tree.join("sub/file"), content(700_000)).unwrap();
    fs::write(tree.join("sub/deeper").join(&long).join(&long), "long").unwrap();
    fs::write(tree.join("nothing"), "").unwrap();
    fs::set_permissions(tree.join("sub/file"), fs::Permissions::from_mode(0o750)).unwrap();
    symlink("../sub/file", tree.join("empty/link")).unwrap();
    symlink("nowhere", tree.join("dangling")).unwrap();
    fs::hard_link(tree.join("sub/file"), tree.join("zz-hard")).unwrap();
    let past = fs::File::open(tree.join("sub")).unwrap();
    past.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
    let there = directory.path().join("there");
    fs::create_dir(&there).unwrap();
    let receiver = Receiver::start(&there, &["--listen", "127.0.0.1:0", "--open"]);
    report(&send(&[tree.to_str().unwrap(), &receiver.address]).output().unwrap());
    report(&receiver.end());
    let arrived = there.join("tree");
    let mut compare = Command::new("diff");
    let compared =
        compare.args(["-r", "--no-dereference"]).args([&tree, &arrived]).output().unwrap();
    assert!(compared.status.success(), "{}", text(&compared.stdout));
    for name in ["", "sub", "empty", "sub/file", "nothing", "dangling", "empty/link"] {
        let [before, after] = [&tree, &arrived].map(|root| {
            let data = fs::symlink_metadata(root.join(name)).unwrap();
            (data.mode(), if name.is_empty() { 0 } else { data.mtime() })
        });
        assert_eq!(before, after, "{name}");
    }
    let inode = |name: &str| fs::metadata(arrived.join(name)).unwrap().ino();
    assert_eq!(inode("sub/file"), inode("zz-hard"));
    // A second time, it is there already.
    let receiver = Receiver::start(&there, &["--listen", "127.0.0.1:0", "--open"]);
    let again = send(&[tree.to_str().unwrap(), &receiver.address]).output().unwrap();
    assert!(text(&again.stderr).contains("exists"), "{}", text(&again.stderr));
    assert_eq!(receiver.end().status.code(), Some(1));
}

#[test]
fn pipe_is_sent_as_it_comes() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--listen", "127.0.0.1:0", "--open", "-o", "-"];
    let receiver = Receiver::start(directory.path(), &arguments);
    let mut sender = send(&["-", &receiver.address]).stdin(Stdio::piped()).spawn().unwrap();
    let mut pipe = sender.stdin.take().unwrap();
    let writing = std::thread::spawn(move || {
        for piece in content(5_000_000).chunks(777_777) {
            pipe.write_all(piece).unwrap();
        }
    });
    let output = receiver.end();
    writing.join().unwrap();
    let sent = report(&sender.wait_with_output().unwrap());
    assert_eq!((&sent["name"], &sent["bytes"]), (&Value::Null, &5_000_000.into()));
    assert!(output.stdout == content(5_000_000), "{} bytes", output.stdout.len());
}

/// Waits until the receiver has this many bytes of a file.
pub fn await_part(part: &Path, length: u64) {
    let begun = Instant::now();
    while fs::metadata(part).map_or(0, |data| data.len()) < length {
        assert!(begun.elapsed() < Duration::from_secs(30), "nothing comes");
        sleep(Duration::from_millis(20));
    }
}

/// Kills both ends of a transfer one after the other, and starts each again; with what they say at the end.
fn transfer_with_killed_ends(options: &[&str]) -> [Value; 2] {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, content(12 << 20)).unwrap();
    let file = file.to_str().unwrap();
    let there = directory.path().join("there");
    fs::create_dir(&there).unwrap();
    let part = there.join("file.part");
    let mut receiver = Receiver::start(&there, &["--listen", "127.0.0.1:0", "--code", CODE]);
    let address = receiver.address.clone();
    let slow = ["--limit-rate", "40mbit", "--code", CODE];
    let mut sender = send(&[file, &address]).args(slow).args(options).spawn().unwrap();
    await_part(&part, 2 << 20);
    // The sender is killed, and another one goes on.
    sender.kill().unwrap();
    sender.wait().unwrap();
    let sender = send(&[file, &address]).args(slow).args(options).spawn().unwrap();
    await_part(&part, 5 << 20);
    // The receiver is killed, and another one goes on with the same sender.
    receiver.kill();
    let receiver = Receiver::start(&there, &["--listen", &address, "--code", CODE]);
    let sent = report(&sender.wait_with_output().unwrap());
    let received = report(&receiver.end());
    for report in [&sent, &received] {
        let resumed = report["resumed_bytes"].as_u64().unwrap();
        assert!(resumed >= 2 << 20, "{report}");
        assert_eq!(report["bytes"], 12 << 20, "{report}");
    }
    assert!(fs::read(there.join("file")).unwrap() == content(12 << 20));
    [sent, received]
}

#[test]
fn either_end_is_killed_and_started_again() {
    for report in transfer_with_killed_ends(&[]) {
        assert!(report.get("sha256").is_none() && report.get("md5").is_none(), "{report}");
    }
}

/// What `sha256sum` or `md5sum` prints of these bytes.
fn checksum(program: &str, bytes: &[u8]) -> String {
    let mut child =
        Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{program}: {}", output.status);
    text(&output.stdout).split(' ').next().unwrap().to_owned()
}

#[test]
fn sha256_of_a_file_covers_what_killed_ends_have_transferred() {
    let expected = checksum("sha256sum", &content(12 << 20));
    for report in transfer_with_killed_ends(&["--digest", "sha256"]) {
        assert_eq!(report["sha256"], *expected, "{report}");
        assert!(report.get("md5").is_none(), "{report}");
    }
}

#[test]
fn md5_of_a_pipe_is_what_md5sum_prints() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--listen", "127.0.0.1:0", "--code", CODE, "-o", "arrived"];
    let receiver = Receiver::start(directory.path(), &arguments);
    let piped = content(3_000_000);
    let options = ["-", &receiver.address, "--code", CODE, "--digest", "md5"];
    let mut sender = send(&options).stdin(Stdio::piped()).spawn().unwrap();
    sender.stdin.take().unwrap().write_all(&piped).unwrap();
    let sent = report(&sender.wait_with_output().unwrap());
    let received = report(&receiver.end());
    assert!(fs::read(directory.path().join("arrived")).unwrap() == piped);
    let expected = checksum("md5sum", &piped);
    for report in [&sent, &received] {
        assert_eq!(report["md5"], *expected, "{report}");
        assert!(report.get("sha256").is_none(), "{report}");
    }
}

#[test]
fn wrong_usage_says_what_to_do() {
    for (arguments, told) in [
        (&["send", "/etc/hostname"][..], "--via DEPOT"),
        (&["send", "/no/such/file", "127.0.0.1:1"], "cannot read"),
        (&["send", "/etc/hostname", "127.0.0.1"], "port"),
        (&["send", "/etc/hostname", "tcp:127.0.0.1:22", "--via", "d1"], "plain TCP"),
        (&["send", "/etc/hostname", "127.0.0.1:1", "--code", "short"], "not a code"),
        (&["send", "/etc/hostname", "127.0.0.1:1", "--digest", "crc32"], "sha256 or md5"),
        (&["recv", CODE], "--via DEPOT"),
        (&["recv", "--via", "d 1"], "--via"),
        (&["recv", "--open", "-o", "-", "--json"], "standard output"),
    ] {
        let output = longhaul().args(arguments).output().unwrap();
        let err = text(&output.stderr);
        assert!(!output.status.success() && err.contains(told), "{arguments:?}: {err}");
    }
}
