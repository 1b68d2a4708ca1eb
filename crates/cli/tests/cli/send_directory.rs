// SPDX-License-Identifier: GPL-2.0-or-later
//! Directories whose `longhaul send` or `longhaul recv` is killed on the way, and started again.

use crate::send::{CODE, Receiver, await_part, content, report, send};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs::{self, File, FileTimes},
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Child,
    time::{Duration, SystemTime},
};

/// The length of the large file.
const LARGE: usize = 6 << 20;

/// A directory with many small files, and a large one in their midst.
fn make_tree(root: &Path) {
    let long = "n".repeat(150);
    for number in 0..10 {
        let directory = root.join(format!("{}{number}", if number < 7 { "a" } else { "z" }));
        fs::create_dir_all(directory.join(&long)).unwrap();
        for file in 0..30 {
            let path = directory.join(format!("{file}"));
            fs::write(&path, content(file * 97)).unwrap();
            let mode = if file % 3 == 0 { 0o444 } else { 0o640 };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::write(directory.join(&long).join(&long), "long").unwrap();
        symlink("../large", directory.join("link")).unwrap();
        fs::hard_link(directory.join("3"), directory.join("hard")).unwrap();
    }
    fs::write(root.join("large"), content(LARGE)).unwrap();
    fs::hard_link(root.join("large"), root.join("z9/large")).unwrap();
    for (number, path) in found(root).into_keys().enumerate() {
        let path = root.join(path);
        if !fs::symlink_metadata(&path).unwrap().is_symlink() {
            set_date(&path, 1_000_000_000 + number as u64);
        }
    }
    fs::set_permissions(root.join("a3"), fs::Permissions::from_mode(0o555)).unwrap();
}

fn set_date(path: &Path, seconds: u64) {
    let date = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    File::open(path).unwrap().set_times(FileTimes::new().set_modified(date)).unwrap();
}

/// Type and permissions, date, content or target, and the first name of a file with several.
type Found = (u32, i64, Vec<u8>, PathBuf);

/// What is in a directory.
fn found(root: &Path) -> BTreeMap<PathBuf, Found> {
    let (mut found, mut first, mut left) = (BTreeMap::new(), BTreeMap::new(), vec![PathBuf::new()]);
    while let Some(directory) = left.pop() {
        let entries = fs::read_dir(root.join(&directory)).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        for path in names.into_iter().map(|name| directory.join(name)) {
            let whole = root.join(&path);
            let data = fs::symlink_metadata(&whole).unwrap();
            let content = if data.is_dir() {
                left.push(path.clone());
                Vec::new()
            } else if data.is_symlink() {
                fs::read_link(&whole).unwrap().into_os_string().into_encoded_bytes()
            } else {
                fs::read(&whole).unwrap()
            };
            let first = first.entry(data.ino()).or_insert_with(|| path.clone());
            found.insert(path, (data.mode(), data.mtime(), content, first.clone()));
        }
    }
    found
}

/// A directory, and one where it is received.
struct Transfer {
    root: tempfile::TempDir,
    options: &'static [&'static str],
}

impl Transfer {
    fn new(options: &'static [&'static str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        make_tree(&root.path().join("tree"));
        fs::create_dir(root.path().join("there")).unwrap();
        Self { root, options }
    }

    fn receiver(&self, address: &str) -> Receiver {
        let there = self.root.path().join("there");
        Receiver::start(&there, &["--listen", address, "--code", CODE])
    }

    fn sender(&self, address: &str) -> Child {
        let tree = self.root.path().join("tree");
        let arguments = [tree.to_str().unwrap(), address, "--code", CODE];
        let slow = ["--limit-rate", "20mbit"];
        send(&arguments).args(slow).args(self.options).spawn().unwrap()
    }

    /// Waits until this many bytes of the large file have arrived.
    fn await_large(&self, length: u64) {
        await_part(&self.root.path().join("there/tree.part/large"), length);
    }

    /// Both ends come to their end, and the directory is the same; with what they report.
    fn end(self, sender: Child, receiver: Receiver) -> [Value; 2] {
        let sent = report(&sender.wait_with_output().unwrap());
        let received = report(&receiver.end());
        let (here, there) = (self.root.path().join("tree"), self.root.path().join("there"));
        let names: Vec<_> =
            fs::read_dir(&there).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["tree"], "nothing else is left");
        let (here, there) = (found(&here), found(&there.join("tree")));
        for (path, expected) in &here {
            assert!(there.get(path) == Some(expected), "{}", path.display());
        }
        assert_eq!(here.len(), there.len());
        for key in ["bytes", "blake3", "resumed_bytes", "sha256"] {
            assert_eq!(sent[key], received[key], "{key}");
        }
        [sent, received]
    }
}

fn kill(mut sender: Child) {
    sender.kill().unwrap();
    sender.wait().unwrap();
}

fn resumed(reports: &[Value; 2]) -> u64 {
    reports[0]["resumed_bytes"].as_u64().unwrap()
}

#[test]
fn directory_continues_after_its_receiver_was_killed() {
    let transfer = Transfer::new(&[]);
    let mut receiver = transfer.receiver("127.0.0.1:0");
    let address = receiver.address.clone();
    let sender = transfer.sender(&address);
    transfer.await_large(2 << 20);
    receiver.kill();
    let receiver = transfer.receiver(&address);
    let reports = transfer.end(sender, receiver);
    assert!(resumed(&reports) >= 2 << 20, "{reports:?}");
}

#[test]
fn directory_continues_after_its_sender_was_killed() {
    let transfer = Transfer::new(&[]);
    let receiver = transfer.receiver("127.0.0.1:0");
    let address = receiver.address.clone();
    let sender = transfer.sender(&address);
    transfer.await_large(2 << 20);
    kill(sender);
    let sender = transfer.sender(&address);
    let reports = transfer.end(sender, receiver);
    assert!(resumed(&reports) >= 2 << 20, "{reports:?}");
}

#[test]
fn directory_continues_after_both_ends_were_killed() {
    let transfer = Transfer::new(&["--digest", "sha256"]);
    let mut receiver = transfer.receiver("127.0.0.1:0");
    let sender = transfer.sender(&receiver.address);
    transfer.await_large(1 << 20);
    receiver.kill();
    kill(sender);
    let receiver = transfer.receiver("127.0.0.1:0");
    let sender = transfer.sender(&receiver.address);
    transfer.await_large(3 << 20);
    let mut receiver = receiver;
    receiver.kill();
    kill(sender);
    let receiver = transfer.receiver("127.0.0.1:0");
    let sender = transfer.sender(&receiver.address);
    let reports = transfer.end(sender, receiver);
    assert!(resumed(&reports) >= 3 << 20, "{reports:?}");
    assert!(reports[0]["sha256"].is_string(), "{reports:?}");
}

#[test]
fn directory_that_has_changed_is_sent_from_the_beginning() {
    let transfer = Transfer::new(&[]);
    let mut receiver = transfer.receiver("127.0.0.1:0");
    let sender = transfer.sender(&receiver.address);
    transfer.await_large(1 << 20);
    receiver.kill();
    kill(sender);
    // Neither its length nor its date tells that it is another file now.
    let changed = transfer.root.path().join("tree/a0/7");
    let date = fs::metadata(&changed).unwrap().mtime();
    fs::write(&changed, vec![1; 7 * 97]).unwrap();
    set_date(&changed, date as u64);
    let receiver = transfer.receiver("127.0.0.1:0");
    let sender = transfer.sender(&receiver.address);
    let reports = transfer.end(sender, receiver);
    assert_eq!(resumed(&reports), 0, "{reports:?}");
}
