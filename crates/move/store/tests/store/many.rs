// SPDX-License-Identifier: GPL-2.0-or-later
//! Ten thousand sessions: little memory, and a start that opens no data file.

use crate::{
    harness::{at, content, id, key, open, session, store_whole},
    sim_disk::SimDisk,
};
use std::{path::Path, process::Command};

const SESSIONS: u64 = 10_000;

#[test]
fn a_start_reads_headers_and_journal_only() {
    let disk = SimDisk::new(1);
    let (store, _) = open(&disk);
    for n in 0..500 {
        store_whole(&store, &session(id(n), 100), 100);
    }
    let mut writer = store.create(&session(id(1000), 100_000), at(0)).unwrap();
    writer.append(&content(id(1000), 0, 70_000)).unwrap();
    writer.promise().wait().unwrap();
    let disk = disk.after_crash();
    let before = disk.data_reads();
    let (store, report) = open(&disk);
    assert_eq!((report.sessions, disk.data_reads() - before), (501, 0));
    assert_eq!(store.list(&key(1), None, 1000).len(), 501);
}

/// `examples/stored.rs` in processes of its own, on this machine's disk.
#[test]
fn ten_thousand_sessions_take_less_than_16_mb() {
    let tests = std::env::current_exe().unwrap();
    let program = tests.ancestors().nth(2).unwrap().join("examples/stored");
    assert!(
        program.exists(),
        "{} is missing: cargo test without --test builds it",
        program.display()
    );
    // In memory where there is space: some file systems take minutes to remove 20 000 files.
    let memory = Path::new("/dev/shm");
    let has_space =
        rustix::fs::statvfs(memory).is_ok_and(|stat| stat.f_bavail * stat.f_frsize > 200 << 20);
    let root = if has_space { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
    let store = root.path().join("store");
    let run = |arguments: &[&str]| {
        let done = Command::new(&program).args(arguments).arg(&store).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    let field = |text: &str, name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    };
    run(&["fill", &SESSIONS.to_string()]);
    let opened = run(&["open"]);
    println!("{opened}");
    assert_eq!(field(&opened, "sessions"), SESSIONS);
    assert_eq!(field(&opened, "damaged"), 0);
    let grown = field(&opened, "grown_bytes");
    assert!(grown < 16 << 20, "{grown}");
}
