// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul send --follow`: files that grow while they are sent.

use crate::{
    common::{longhaul, text},
    send::{CODE, Receiver, await_part, content, report, send},
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::{self, File, OpenOptions},
    io::{Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    process::Child,
};

/// A growing file, and the directory of its receiver.
struct Growing {
    directory: tempfile::TempDir,
    file: PathBuf,
    writer: File,
    written: usize,
    whole: Vec<u8>,
}

impl Growing {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("there")).unwrap();
        let file = directory.path().join("camera.mov");
        let writer = File::create(&file).unwrap();
        Self { directory, file, writer, written: 0, whole: content(3_000_000) }
    }

    fn there(&self) -> PathBuf {
        self.directory.path().join("there")
    }

    fn marker(&self) -> String {
        self.directory.path().join("done").to_str().unwrap().to_owned()
    }

    fn part(&self) -> PathBuf {
        self.there().join("camera.mov.part")
    }

    /// Writes up to here.
    fn grow_to(&mut self, length: usize) {
        self.writer.write_all(&self.whole[self.written..length]).unwrap();
        self.written = length;
    }

    /// Writes up to here, and waits until the receiver has it.
    fn arrive(&mut self, length: usize) {
        self.grow_to(length);
        await_part(&self.part(), length as u64);
    }

    fn receiver(&self, listen: &str) -> Receiver {
        Receiver::start(&self.there(), &["--listen", listen, "--code", CODE])
    }

    fn sender(&self, address: &str, rules: &[&str]) -> Child {
        let file = self.file.to_str().unwrap();
        send(&[file, address, "--code", CODE, "--follow"]).args(rules).spawn().unwrap()
    }
}

#[test]
fn file_is_sent_while_it_grows_until_it_is_renamed() {
    let mut growing = Growing::new();
    let receiver = growing.receiver("127.0.0.1:0");
    let sender = growing.sender(&receiver.address, &["--until", "renamed"]);
    for length in [10, 262_144, 1_000_000, 2_999_999] {
        growing.arrive(length);
    }
    // What is written just before the end belongs to it.
    growing.grow_to(3_000_000);
    fs::rename(&growing.file, growing.file.with_extension("done")).unwrap();
    let (sent, received) = (report(&sender.wait_with_output().unwrap()), report(&receiver.end()));
    for key in ["name", "bytes", "blake3", "status"] {
        assert_eq!(sent[key], received[key], "{key}");
    }
    assert_eq!((&sent["name"], &sent["bytes"]), (&"camera.mov".into(), &3_000_000.into()));
    let left: Vec<_> =
        fs::read_dir(growing.there()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["camera.mov"]);
    assert!(fs::read(growing.there().join("camera.mov")).unwrap() == growing.whole);
}

#[test]
fn killed_ends_of_a_growing_file_continue() {
    let mut growing = Growing::new();
    let marker = format!("marker:{}", growing.marker());
    let rules = ["--until", marker.as_str()];
    let mut receiver = growing.receiver("127.0.0.1:0");
    let address = receiver.address.clone();
    let mut sender = growing.sender(&address, &rules);
    growing.arrive(700_000);
    sender.kill().unwrap();
    sender.wait().unwrap();
    growing.grow_to(900_000);
    let sender = growing.sender(&address, &rules);
    growing.arrive(1_500_000);
    receiver.kill();
    growing.grow_to(2_000_000);
    let receiver = growing.receiver(&address);
    growing.arrive(3_000_000);
    fs::write(growing.marker(), "").unwrap();
    for report in [report(&sender.wait_with_output().unwrap()), report(&receiver.end())] {
        assert!(report["resumed_bytes"].as_u64().unwrap() >= 1_000_000, "{report}");
        assert_eq!(report["bytes"], 3_000_000, "{report}");
    }
    assert!(fs::read(growing.there().join("camera.mov")).unwrap() == growing.whole);
}

/// What becomes of a followed file, and how.
type Fate<'f> = (&'f str, &'f dyn Fn(&Path));

#[test]
fn file_that_does_more_than_grow_is_never_taken_for_whole() {
    let overwrite = |path: &Path| {
        let mut file = OpenOptions::new().write(true).open(path).unwrap();
        file.seek(SeekFrom::Start(1000)).unwrap();
        file.write_all(b"another header").unwrap();
    };
    let fates: [Fate<'_>; 5] = [
        ("overwritten", &overwrite),
        ("deleted", &|path: &Path| fs::remove_file(path).unwrap()),
        ("shorter", &|path: &Path| {
            File::options().write(true).open(path).unwrap().set_len(9).unwrap();
        }),
        ("--until renamed", &|path: &Path| fs::rename(path, path.with_extension("other")).unwrap()),
        ("longer", &|path: &Path| {
            File::options().append(true).open(path).unwrap().write_all(&[0; 9]).unwrap();
        }),
    ];
    for (why, happen) in fates {
        let mut growing = Growing::new();
        let receiver = growing.receiver("127.0.0.1:0");
        let marker = format!("marker:{}", growing.marker());
        let rules = ["--until", marker.as_str(), "--until", "size:1000008"];
        let sender = growing.sender(&receiver.address, &rules);
        growing.arrive(1_000_000);
        happen(&growing.file);
        if why == "overwritten" {
            fs::write(growing.marker(), "").unwrap();
        }
        let (sent, received) = (sender.wait_with_output().unwrap(), receiver.end());
        for output in [&sent, &received] {
            let told = text(&output.stderr);
            assert!(output.status.code() == Some(1) && told.contains(why), "{why}: {told}");
        }
        assert!(growing.part().exists(), "{why}: what has come is kept");
        assert!(!growing.there().join("camera.mov").exists(), "{why}");
    }
}

#[test]
fn interrupted_sender_leaves_a_part_that_is_continued() {
    let mut growing = Growing::new();
    let receiver = growing.receiver("127.0.0.1:0");
    let sender = growing.sender(&receiver.address, &["--until", "closed"]);
    growing.arrive(1_000_000);
    kill_process(Pid::from_child(&sender), Signal::INT).unwrap();
    let output = sender.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert_eq!(receiver.end().status.code(), Some(1));
    assert_eq!(fs::metadata(growing.part()).unwrap().len(), 1_000_000);
    let receiver = growing.receiver("127.0.0.1:0");
    let sender = growing.sender(&receiver.address, &["--until", "closed"]);
    growing.arrive(3_000_000);
    growing.writer = File::open(&growing.file).unwrap();
    let sent = report(&sender.wait_with_output().unwrap());
    assert_eq!((&sent["resumed_bytes"], &sent["bytes"]), (&1_000_000.into(), &3_000_000.into()));
    report(&receiver.end());
    assert!(fs::read(growing.there().join("camera.mov")).unwrap() == growing.whole);
}

#[test]
fn without_comparison_the_receiver_has_what_was_sent() {
    let mut growing = Growing::new();
    let receiver = growing.receiver("127.0.0.1:0");
    let rules = ["--until", "idle:700ms", "--no-compare"];
    let sender = growing.sender(&receiver.address, &rules);
    growing.arrive(1_000_000);
    let mut file = OpenOptions::new().write(true).open(&growing.file).unwrap();
    file.write_all(&[b'x'; 500]).unwrap();
    report(&sender.wait_with_output().unwrap());
    report(&receiver.end());
    assert!(fs::read(growing.there().join("camera.mov")).unwrap() == growing.whole[..1_000_000]);
}

#[test]
fn header_that_is_completed_at_the_end_arrives() {
    // Longer and shorter than the header.
    for (steps, header) in [(&[300_000, 1_000_000, 2_000_000][..], "64KB"), (&[1000], "1MB")] {
        let mut growing = Growing::new();
        let marker = format!("marker:{}", growing.marker());
        let rules = ["--until", marker.as_str(), "--header-last", header];
        let mut receiver = growing.receiver("127.0.0.1:0");
        let address = receiver.address.clone();
        let sender = growing.sender(&address, &rules);
        for length in steps {
            growing.arrive(*length);
        }
        receiver.kill();
        let receiver = growing.receiver(&address);
        let mut whole = growing.whole[..growing.written].to_vec();
        whole[..500].fill(b'h');
        growing.writer.seek(SeekFrom::Start(0)).unwrap();
        growing.writer.write_all(&whole[..500]).unwrap();
        fs::write(growing.marker(), "").unwrap();
        let sent = report(&sender.wait_with_output().unwrap());
        let received = report(&receiver.end());
        assert_eq!(sent["bytes"], whole.len() as u64);
        assert_eq!(sent["blake3"], received["blake3"]);
        assert_eq!(received["resumed_bytes"].as_u64().unwrap() > 0, header == "64KB");
        assert!(fs::read(growing.there().join("camera.mov")).unwrap() == whole, "{header}");
    }
}

#[test]
fn wrong_usage_of_follow_says_what_to_do() {
    let to = ["/etc/hostname", "127.0.0.1:1"];
    for (what, arguments, told) in [
        (to[0], &["--follow"][..], "--until"),
        (to[0], &["--until", "renamed"], "--follow"),
        (to[0], &["--no-compare"], "--follow"),
        (to[0], &["--follow", "--until", "later"], "idle:60s"),
        (to[0], &["--follow", "--until", "idle:60"], "idle:60s"),
        (to[0], &["--follow", "--until", "size:1Mb"], "size:BYTES"),
        (to[0], &["--follow", "--until", "closed", "--header-last", "17MB"], "16MiB"),
        ("-", &["--follow", "--until", "renamed"], "standard input"),
        ("/etc", &["--follow", "--until", "renamed"], "only a file"),
        ("/no/such/file", &["--follow", "--until", "renamed"], "cannot read"),
    ] {
        let output = longhaul().args(["send", what, to[1]]).args(arguments).output().unwrap();
        let err = text(&output.stderr);
        assert!(!output.status.success() && err.contains(told), "{what} {arguments:?}: {err}");
    }
    let detached = ["send", to[0], "--via", "d1", "--detach", "--follow", "--until", "renamed"];
    let output = longhaul().args(detached).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}
