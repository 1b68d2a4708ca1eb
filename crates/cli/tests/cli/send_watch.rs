// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul send --watch` and `longhaul recv --many`: the files of a folder, as programs complete them.

use crate::{
    common::{longhaul, text},
    send::{CODE, Receiver, await_part, content, send, stop},
};
use serde_json::Value;
use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Output},
    thread::sleep,
    time::{Duration, Instant, SystemTime},
};

/// A watched folder, and the one of its receiver.
struct Folders {
    directory: tempfile::TempDir,
}

impl Folders {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("here/of/the")).unwrap();
        fs::create_dir(directory.path().join("there")).unwrap();
        Self { directory }
    }

    fn here(&self, name: &str) -> PathBuf {
        self.directory.path().join("here").join(name)
    }

    fn there(&self, name: &str) -> PathBuf {
        self.directory.path().join("there").join(name)
    }

    fn marker(&self) -> PathBuf {
        self.directory.path().join("done")
    }

    /// A file of long ago.
    fn write_old(&self, name: &str, content: &[u8]) {
        fs::write(self.here(name), content).unwrap();
        let file = File::options().write(true).open(self.here(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
    }

    fn receiver(&self, listen: &str, options: &[&str]) -> Receiver {
        let arguments = [&["--many", "--listen", listen, "--code", CODE], options].concat();
        Receiver::start(&self.there(""), &arguments)
    }

    fn sender(&self, address: &str, state: &str, options: &[&str]) -> Child {
        let state = self.directory.path().join(state);
        let marker = format!("marker:{}", self.marker().display());
        let here = self.here("");
        let fixed =
            [here.to_str().unwrap(), address, "--code", CODE, "--watch", "--until", "closed"];
        let mut command = send(&fixed);
        command.args(["--until", &marker, "--state"]).arg(state).args(options);
        command.spawn().unwrap()
    }

    /// Sends what is there, and ends.
    fn send_all(&self, address: &str, state: &str) -> Output {
        fs::write(self.marker(), "").unwrap();
        let output = self.sender(address, state, &[]).wait_with_output().unwrap();
        fs::remove_file(self.marker()).unwrap();
        output
    }

    fn await_whole(&self, name: &str) {
        let begun = Instant::now();
        while !self.there(name).exists() {
            assert!(begun.elapsed() < Duration::from_secs(30), "{name} does not come");
            sleep(Duration::from_millis(20));
        }
    }
}

/// Each transfer that was told, by name.
fn told(output: &Output) -> Vec<(String, Value)> {
    let lines = text(&output.stdout);
    let parse = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let mut told: Vec<_> = lines
        .lines()
        .map(parse)
        .map(|report| (report["name"].as_str().unwrap_or("-").to_owned(), report))
        .collect();
    told.sort_by(|a, b| a.0.cmp(&b.0));
    told
}

fn names(told: &[(String, Value)]) -> Vec<&str> {
    told.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn files_arrive_as_programs_complete_them_and_are_not_sent_again() {
    let folders = Folders::new();
    folders.write_old("old", &content(300_000));
    let receiver = folders.receiver("127.0.0.1:0", &[]);
    let sender = folders.sender(&receiver.address, "state", &[]);
    folders.await_whole("old");
    let mut writer = File::create(folders.here("of/the/camera")).unwrap();
    writer.write_all(&content(500_000)).unwrap();
    fs::write(folders.here(".partial"), "renamed").unwrap();
    fs::rename(folders.here(".partial"), folders.here("of/renamed")).unwrap();
    fs::write(folders.here("empty"), "").unwrap();
    for name in ["of/renamed", "empty"] {
        folders.await_whole(name);
    }
    assert!(!folders.there("of/the/camera").exists(), "it is still written");
    writer.write_all(b"the end").unwrap();
    drop(writer);
    folders.await_whole("of/the/camera");
    fs::write(folders.marker(), "").unwrap();
    let output = sender.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let all = ["empty", "of/renamed", "of/the/camera", "old"];
    let sent = told(&output);
    assert_eq!(names(&sent), all);
    assert!(sent.iter().all(|(_, report)| report["status"] == "complete"), "{sent:?}");
    fs::remove_file(folders.marker()).unwrap();
    for name in all {
        let (here, there) = (folders.here(name), folders.there(name));
        assert!(fs::read(&here).unwrap() == fs::read(&there).unwrap(), "{name}");
        let date = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
        assert_eq!(date(&here), date(&there), "{name}");
    }

    // What it has noted it does not send again; without notes the receiver compares.
    let again = folders.send_all(&receiver.address, "state");
    assert!(again.status.success() && told(&again).is_empty(), "{}", text(&again.stderr));
    let compared = folders.send_all(&receiver.address, "other-state");
    let compared = told(&compared);
    assert_eq!(names(&compared), all);
    assert!(compared.iter().all(|(_, it)| it["resumed_bytes"] == it["bytes"]), "{compared:?}");

    // Another file of that name is refused, and the others arrive.
    folders.write_old("old", &content(300_001)[1..]);
    folders.write_old("new", b"new");
    let refused = folders.send_all(&receiver.address, "state");
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("exists"), "{}", text(&refused.stderr));
    assert_eq!(fs::read(folders.there("new")).unwrap(), b"new");
    assert!(fs::read(folders.there("old")).unwrap() == content(300_000));
    let output = receiver.stop();
    assert_eq!(output.status.code(), Some(143));
    let received = told(&output);
    let whole = received.iter().filter(|(_, report)| report["status"] == "complete").count();
    assert_eq!(whole, 9, "{received:?}");

    let receiver = folders.receiver("127.0.0.1:0", &["--overwrite"]);
    let replaced = folders.send_all(&receiver.address, "state");
    assert!(replaced.status.success(), "{}", text(&replaced.stderr));
    assert!(fs::read(folders.there("old")).unwrap() == content(300_001)[1..]);
}

#[test]
fn killed_ends_of_a_watch_continue() {
    let folders = Folders::new();
    let whole = content(12_000_000);
    folders.write_old("large", &whole);
    let mut receiver = folders.receiver("127.0.0.1:0", &[]);
    let address = receiver.address.clone();
    let slowly = ["--limit-rate", "40mbit"];
    let mut sender = folders.sender(&address, "state", &slowly);
    let part = folders.there("large.part");
    await_part(&part, 3_000_000);
    sender.kill().unwrap();
    sender.wait().unwrap();
    let sender = folders.sender(&address, "state", &slowly);
    await_part(&part, 6_000_000);
    receiver.kill();
    let receiver = folders.receiver(&address, &[]);
    folders.await_whole("large");
    stop(&sender);
    let output = sender.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{}", text(&output.stderr));
    assert!(fs::read(folders.there("large")).unwrap() == whole);
    let received = told(&receiver.stop());
    let complete: Vec<_> = received.iter().filter(|(_, it)| it["status"] == "complete").collect();
    assert_eq!(complete.len(), 1, "{received:?}");
    assert!(complete[0].1["resumed_bytes"].as_u64().unwrap() >= 3_000_000, "{received:?}");
}

#[test]
fn wrong_code_ends_a_watch_and_not_its_receiver() {
    let folders = Folders::new();
    folders.write_old("of/file", b"some");
    let receiver = folders.receiver("127.0.0.1:0", &[]);
    let other: String = CODE.chars().rev().collect();
    let here = folders.here("");
    for plain in [&[][..], &["--no-encryption"]] {
        let state = folders.directory.path().join("state");
        let mut stranger = longhaul();
        stranger.args(["send", here.to_str().unwrap(), &receiver.address, "--code", &other]);
        stranger.args(["--watch", "--until", "closed", "--state"]).arg(state).args(plain);
        let output = stranger.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    }
    let sent = folders.send_all(&receiver.address, "state");
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    let received = told(&receiver.stop());
    assert_eq!(names(&received), ["of/file"]);
}

#[test]
fn watches_that_cannot_be_are_refused() {
    let folders = Folders::new();
    folders.write_old("file", b"some");
    let (here, file) = (folders.here(""), folders.here("file"));
    let (here, file) = (here.to_str().unwrap(), file.to_str().unwrap());
    let state = folders.directory.path().join("state");
    let watch = ["--watch", "--state", state.to_str().unwrap()];
    for (arguments, why) in [
        (&[here, "127.0.0.1:1"][..], "--until"),
        (&[here, "127.0.0.1:1", "--until", "renamed"], "for one file"),
        (&[here, "127.0.0.1:1", "--until", "marker:x"], "complete"),
        (&[here, "--via", "127.0.0.1:1", "--until", "closed"], "--many"),
        (&[file, "127.0.0.1:1", "--until", "closed"], "only a folder"),
        (&["-", "127.0.0.1:1", "--until", "closed"], "standard input"),
        (&[here, "127.0.0.1:1", "--until", "closed", "--follow"], "--follow"),
    ] {
        let output = longhaul().arg("send").args(arguments).args(watch).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(why), "{arguments:?}: {said}");
    }
    for arguments in [&["--many", "-o", "x"][..], &["--many", "--via", "127.0.0.1:1"]] {
        let output = longhaul().arg("recv").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    }
}
