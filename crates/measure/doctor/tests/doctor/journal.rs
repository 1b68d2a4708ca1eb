// SPDX-License-Identifier: GPL-2.0-or-later
//! The journal: what was changed can be taken back after any end.

use crate::site::{facts, set, tuned};
use host::{RunDirectory, sysctl};
use longhaul_doctor::{
    change::Change,
    journal::{Entry, Journal, JournalError, Undone},
};
use std::{fs, path::Path};

const KEY: &str = "net.ipv4.tcp_sack";

fn directory(path: &Path) -> RunDirectory {
    RunDirectory::at(&path.join("run")).unwrap()
}

fn entry() -> Entry {
    let made = Change::setting(KEY, 0);
    Entry { undo: made.inverse(&facts()).unwrap(), made }
}

#[test]
fn change_of_a_dropped_journal_is_taken_back_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    tuned(|| {
        let mut journal = Journal::at(directory(dir.path())).unwrap();
        let entry = entry();
        journal.add(entry.clone()).unwrap();
        entry.made.make().unwrap();
        drop(journal);
        assert_eq!(sysctl::read(KEY).unwrap(), "0");
        let mut journal = Journal::at(directory(dir.path())).unwrap();
        assert_eq!(journal.entries(), std::slice::from_ref(&entry));
        assert_eq!(journal.undo_last().unwrap(), Some((entry, Undone::Restored)));
        assert_eq!(sysctl::read(KEY).unwrap(), "1");
        assert_eq!(journal.undo_last().unwrap(), None);
    });
    let left = fs::read_dir(dir.path().join("run")).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name().into_string().unwrap()).collect();
    assert_eq!(left, [""; 0], "nothing is left");
}

#[test]
fn change_that_was_not_made_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    tuned(|| {
        let mut journal = Journal::at(directory(dir.path())).unwrap();
        journal.add(entry()).unwrap();
        assert_eq!(journal.undo_last().unwrap().unwrap().1, Undone::AsBefore);
    });
}

#[test]
fn value_that_was_changed_again_stays() {
    let dir = tempfile::tempdir().unwrap();
    tuned(|| {
        let mut journal = Journal::at(directory(dir.path())).unwrap();
        let made = Change::setting("net.ipv4.tcp_rmem", "4096 131072 1048576");
        let entry = Entry { undo: made.inverse(&facts()).unwrap(), made };
        journal.add(entry.clone()).unwrap();
        entry.made.make().unwrap();
        set("net.ipv4.tcp_rmem", "4096 131072 2097152");
        assert_eq!(journal.undo_last().unwrap().unwrap().1, Undone::ChangedSince);
        assert_eq!(sysctl::read("net.ipv4.tcp_rmem").unwrap(), "4096 131072 2097152");
    });
}

#[test]
fn second_journal_finds_the_first_one_busy() {
    let dir = tempfile::tempdir().unwrap();
    tuned(|| {
        let _first = Journal::at(directory(dir.path())).unwrap();
        let second = Journal::at(directory(dir.path()));
        assert!(matches!(second, Err(JournalError::Busy)), "{second:?}");
        // Another namespace has one of its own.
        tuned(|| {
            Journal::at(directory(dir.path())).unwrap();
        });
    });
}

#[test]
fn damaged_journal_is_refused_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    tuned(|| {
        let journal = Journal::at(directory(dir.path()));
        let mut journal = journal.unwrap();
        journal.add(entry()).unwrap();
        drop(journal);
        let files = fs::read_dir(dir.path().join("run")).unwrap().flatten();
        let file = files
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|kind| kind == "json"));
        let file = file.unwrap();
        fs::write(&file, "[{\"made\":").unwrap();
        let refused = Journal::at(directory(dir.path())).unwrap_err().to_string();
        assert!(refused.contains("cannot be read") && file.exists(), "{refused}");
    });
}
