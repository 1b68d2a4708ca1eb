// SPDX-License-Identifier: GPL-2.0-or-later
//! A disk that fails: each error ends what it concerns and nothing else.

use crate::{
    harness::{at, content, id, key, open, read_all, session, store_whole},
    sim_disk::{Faults, SimDisk},
};
use longhaul_store::{Refusal, Status, StoreError, disk::Place};

const NONE: Faults = Faults { sync: 0, folder_sync: 0, write_full: 0, journal_sync: 0 };
const ALWAYS: Faults = Faults { sync: 1, ..NONE };

#[test]
fn a_failed_sync_ends_a_session_for_ever() {
    let disk = SimDisk::new(3);
    let (store, _) = open(&disk);
    store_whole(&store, &session(id(2), 10), 10);
    let mut writer = store.create(&session(id(1), 200_000), at(0)).unwrap();
    writer.append(&content(id(1), 0, 70_000)).unwrap();
    writer.promise().wait().unwrap();
    writer.append(&content(id(1), 70_000, 50_000)).unwrap();
    disk.set_faults(ALWAYS);
    let failed = writer.promise().wait();
    assert!(matches!(&failed, Err(StoreError::Failed { file, .. }) if file.starts_with("data/")));
    disk.set_faults(Faults::default());
    // The journal's failure was another one: it is written again.
    let syncs = disk.syncs(Place::Data(id(1)));
    for _ in 0..2 {
        assert!(matches!(writer.promise().wait(), Err(StoreError::Failed { .. })));
        assert!(matches!(writer.append(b"x"), Err(StoreError::Failed { .. })));
    }
    assert_eq!(disk.syncs(Place::Data(id(1))), syncs, "the file is never synced again");
    drop(writer);
    assert!(matches!(store.writer(id(1), &key(1)), Err(StoreError::Failed { .. })));
    store.compact().wait().unwrap();
    let mut store = Some(store);
    for start in 0..2 {
        let store = store.take().unwrap_or_else(|| open(&disk.after_crash()).0);
        println!("start {start}");
        assert_eq!(store.info(id(1), &key(1)).unwrap().status, Status::Failed);
        assert!(store.writer(id(1), &key(1)).is_err());
        let mut reader = store.reader(id(1), &key(1), at(0)).unwrap();
        assert_eq!(reader.length().unwrap(), 70_000);
        let mut read = Vec::new();
        while let Ok(longhaul_store::Read::Bytes(bytes)) = reader.read(read.len() as u64) {
            read.extend_from_slice(bytes);
        }
        assert_eq!(read, content(id(1), 0, 70_000), "what was promised stays");
        assert!(reader.read(70_000).is_err(), "and it has no end");
        let mut other = store.reader(id(2), &key(1), at(0)).unwrap();
        assert_eq!(read_all(&mut other).unwrap(), (content(id(2), 0, 10), true));
    }
}

#[test]
fn a_new_session_that_cannot_be_synced_leaves_nothing() {
    for faults in [ALWAYS, Faults { folder_sync: 1, ..NONE }] {
        let disk = SimDisk::new(4);
        let (store, _) = open(&disk);
        let before = disk.places();
        let mut writer = store.create(&session(id(1), 10), at(0)).unwrap();
        writer.append(b"abc").unwrap();
        disk.set_faults(faults);
        assert!(matches!(writer.promise().wait(), Err(StoreError::Failed { .. })));
        disk.set_faults(Faults::default());
        assert!(writer.promise().wait().is_err());
        drop(writer);
        assert_eq!((disk.places(), store.usage().sessions), (before, 0));
        store_whole(&store, &session(id(1), 10), 10);
    }
}

/// The first sync of a directory that fails may have lost the name of any new file in it.
#[test]
fn a_directory_that_fails_ends_all_new_sessions() {
    let disk = SimDisk::new(5);
    let (store, _) = open(&disk);
    let mut first = store.create(&session(id(1), 10), at(0)).unwrap();
    let mut second = store.create(&session(id(2), 10), at(0)).unwrap();
    disk.set_faults(Faults { folder_sync: 1, ..NONE });
    assert!(matches!(first.promise().wait(), Err(StoreError::Failed { .. })));
    disk.set_faults(Faults::default());
    assert!(matches!(second.promise().wait(), Err(StoreError::Failed { .. })));
    let mut third = store.create(&session(id(3), 10), at(0)).unwrap();
    assert_eq!(third.promise().wait().unwrap(), 0);
}

#[test]
fn a_full_disk_refuses_bytes_and_the_session_goes_on_later() {
    let disk = SimDisk::new(6);
    let (store, _) = open(&disk);
    let mut writer = store.create(&session(id(1), 300_000), at(0)).unwrap();
    writer.append(&content(id(1), 0, 100_000)).unwrap();
    disk.set_faults(Faults { write_full: 1, ..NONE });
    let refused = writer.append(&content(id(1), 100_000, 100_000));
    assert!(matches!(refused, Err(StoreError::Refused(Refusal::DiskFull))));
    // The journal cannot be written either, so nothing is promised, and nothing is lost.
    assert!(matches!(writer.promise().wait(), Err(StoreError::Io { .. })));
    assert!(store.create(&session(id(2), 10), at(0)).is_err());
    disk.set_faults(Faults::default());
    let stored = writer.length();
    writer.append(&content(id(1), stored, 300_000 - stored)).unwrap();
    assert_eq!(writer.complete().wait().unwrap(), 300_000);
    let (store, _) = open(&disk.after_crash());
    let mut reader = store.reader(id(1), &key(1), at(0)).unwrap();
    assert_eq!(read_all(&mut reader).unwrap(), (content(id(1), 0, 300_000), true));
}

/// A sync of the journal that fails may have written a round that nobody was promised. What it names stays as it is until
/// another journal is there.
#[test]
fn a_journal_in_doubt_keeps_what_it_may_name() {
    for seed in 0..40 {
        let disk = SimDisk::new(seed);
        let (store, _) = open(&disk);
        let mut writer = store.create(&session(id(1), 100_000), at(0)).unwrap();
        writer.promise().wait().unwrap();
        writer.append(&content(id(1), 0, 80_000)).unwrap();
        let mut new = store.create(&session(id(2), 10), at(0)).unwrap();
        new.append(b"0123456789").unwrap();
        disk.set_faults(Faults { journal_sync: 1, ..NONE });
        assert!(matches!(writer.complete().wait(), Err(StoreError::Io { .. })));
        assert!(matches!(new.complete().wait(), Err(StoreError::Io { .. })));
        assert!(matches!(store.writer(id(1), &key(1)), Err(StoreError::JournalInDoubt)));
        let again = store.create(&session(id(2), 10), at(0));
        assert!(matches!(again, Err(StoreError::JournalInDoubt)));
        if seed % 2 == 0 {
            let (store, report) = open(&disk.after_crash());
            let is_torn = report.damage.iter().all(|damage| damage.file == "journal");
            assert!(is_torn, "seed {seed}: {report:?}");
            let mut reader = store.reader(id(1), &key(1), at(0)).unwrap();
            let (read, is_whole) = read_all(&mut reader).unwrap();
            assert_eq!(read, content(id(1), 0, if is_whole { 80_000 } else { 0 }), "seed {seed}");
            continue;
        }
        disk.set_faults(NONE);
        // The first call has another journal written.
        assert!(matches!(store.writer(id(1), &key(1)), Err(StoreError::JournalInDoubt)));
        let mut writer = store.writer(id(1), &key(1)).unwrap();
        assert_eq!(writer.length(), 0);
        writer.append(b"abc").unwrap();
        assert_eq!(writer.complete().wait().unwrap(), 3);
        store_whole(&store, &session(id(2), 10), 10);
    }
}
