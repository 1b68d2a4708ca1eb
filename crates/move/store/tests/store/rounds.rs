// SPDX-License-Identifier: GPL-2.0-or-later
//! Rounds: many promises share their syncs, and nothing is answered before all of it is on disk.

use crate::{
    harness::{Held, PLENTY, at, content, id, key, open, poll, read_all, session, store_whole},
    sim_disk::SimDisk,
};
use longhaul_store::{Job, Read, Status, Store, StoreError, disk::Place};
use std::{sync::Arc, thread, time::Duration};

fn open_held(disk: &SimDisk, held: &Held) -> Store {
    let runner = held.runner();
    let disk = Arc::new(disk.clone());
    Store::open(disk, PLENTY, move |job: Job| runner(job), at(0)).unwrap().0
}

#[test]
fn promises_of_one_round_share_journal_and_directory_syncs() {
    let (disk, held) = (SimDisk::new(1), Held::default());
    let store = open_held(&disk, &held);
    let mut writers: Vec<_> =
        (0..50).map(|n| store.create(&session(id(n), 1000), at(0)).unwrap()).collect();
    let mut promises = Vec::new();
    for writer in &mut writers {
        writer.append(&content(writer.id(), 0, 700)).unwrap();
        promises.push(writer.promise());
        writer.append(&content(writer.id(), 700, 300)).unwrap();
        promises.push(writer.promise());
    }
    let before = (disk.syncs(Place::Journal), disk.folder_syncs());
    assert!(promises.iter_mut().all(|promise| poll(promise).is_none()));
    assert_eq!(held.run(), 1, "one leader");
    let after = (disk.syncs(Place::Journal), disk.folder_syncs());
    assert_eq!((after.0 - before.0, after.1 - before.1), (1, 2));
    for (n, promise) in promises.iter_mut().enumerate() {
        assert_eq!(poll(promise).unwrap().unwrap(), 1000, "{n}: the later one has it all");
    }
    for n in 0..50 {
        assert_eq!(disk.syncs(Place::Data(id(n))), 1);
    }
}

#[test]
fn fifty_threads_are_led_by_one_of_them() {
    let disk = SimDisk::new(1);
    let (store, _) = open(&disk);
    let before = disk.syncs(Place::Journal);
    thread::scope(|scope| {
        for n in 0..50 {
            let store = &store;
            scope.spawn(move || {
                let mut writer = store.create(&session(id(n), 200_000), at(0)).unwrap();
                for part in 0..10 {
                    writer.append(&content(id(n), part * 20_000, 20_000)).unwrap();
                    assert_eq!(writer.promise().wait().unwrap(), (part + 1) * 20_000);
                }
                assert_eq!(writer.complete().wait().unwrap(), 200_000);
            });
        }
    });
    let rounds = disk.syncs(Place::Journal) - before;
    println!("550 promises in {rounds} rounds");
    assert!((11..=550).contains(&rounds));
    let (store, report) = open(&disk.after_crash());
    assert_eq!((report.sessions, report.damage.len()), (50, 0));
    for n in 0..50 {
        let mut reader = store.reader(id(n), &key(2), at(0)).unwrap();
        assert_eq!(read_all(&mut reader).unwrap(), (content(id(n), 0, 200_000), true));
    }
}

#[test]
fn readers_see_bytes_when_they_are_promised_and_wait_for_more() {
    let (disk, held) = (SimDisk::new(1), Held::default());
    let store = open_held(&disk, &held);
    let mut writer = store.create(&session(id(1), 300_000), at(0)).unwrap();
    assert!(matches!(store.reader(id(1), &key(2), at(0)), Err(StoreError::Unknown)), "not yet");
    writer.append(&content(id(1), 0, 70_000)).unwrap();
    let first = writer.promise();
    held.run();
    assert_eq!(first.wait().unwrap(), 70_000);
    let mut reader = store.reader(id(1), &key(2), at(0)).unwrap();
    writer.append(&content(id(1), 70_000, 100_000)).unwrap();
    assert_eq!(read_all(&mut reader).unwrap(), (content(id(1), 0, 70_000), false));
    assert!(!reader.wait_past(70_000, Duration::from_millis(1)));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            assert!(reader.wait_past(70_000, Duration::from_secs(60)));
            reader.read(70_000).map(|read| matches!(read, Read::Bytes(_))).unwrap()
        });
        let second = writer.promise();
        held.run();
        assert_eq!(second.wait().unwrap(), 170_000);
        assert!(waiting.join().unwrap());
    });
    assert!(
        matches!(reader.read(65_536 + 5_000), Ok(Read::Bytes(bytes)) if bytes[0] == content(id(1), 70_536, 1)[0])
    );
    let complete = writer.complete();
    held.run();
    complete.wait().unwrap();
    assert_eq!(read_all(&mut reader).unwrap(), (content(id(1), 0, 170_000), true));
    assert_eq!(reader.read(170_000).unwrap(), Read::End);
    assert_eq!(store.info(id(1), &key(1)).unwrap().status, Status::Complete);
}

#[test]
fn a_leader_that_never_runs_breaks_promises_and_another_one_leads() {
    let disk = SimDisk::new(1);
    let (store, _) =
        Store::open(Arc::new(disk.clone()), PLENTY, |job: Job| drop(job), at(0)).unwrap();
    let mut writer = store.create(&session(id(1), 10), at(0)).unwrap();
    writer.append(b"abc").unwrap();
    for _ in 0..3 {
        assert!(matches!(writer.promise().wait(), Err(StoreError::Closed)));
    }
}

#[test]
fn an_empty_session_and_sizes_around_a_block_are_stored() {
    let disk = SimDisk::new(1);
    let (store, _) = open(&disk);
    let lengths = [0, 1, 65_535, 65_536, 65_537, 131_072, 1 << 20, (1 << 20) + 1, 1_200_000];
    for (n, length) in lengths.into_iter().enumerate() {
        store_whole(&store, &session(id(n as u64), length), length);
    }
    let (store, report) = open(&disk.after_crash());
    assert_eq!((report.sessions, report.damage), (lengths.len(), vec![]));
    for (n, length) in lengths.into_iter().enumerate() {
        let id = id(n as u64);
        let mut reader = store.reader(id, &key(1), at(0)).unwrap();
        assert_eq!(read_all(&mut reader).unwrap(), (content(id, 0, length), true));
        for offset in [0, length / 2, length.saturating_sub(1)] {
            if let Read::Bytes(bytes) = reader.read(offset).unwrap() {
                assert_eq!(bytes, content(id, offset, bytes.len() as u64));
            }
        }
    }
}

#[test]
fn the_journal_is_written_again_when_it_has_grown() {
    let disk = SimDisk::new(1);
    let (store, _) = open(&disk);
    let mut writer = store.create(&session(id(1), 100_000), at(0)).unwrap();
    // 72 bytes each: twice the length at which it is due.
    let mut longest = 0;
    for n in 0..30_000 {
        writer.append(&content(id(1), n, 1)).unwrap();
        writer.promise().wait().unwrap();
        if n % 100 == 0 {
            longest = longest.max(disk.bytes(Place::Journal).unwrap().len());
        }
    }
    assert!(longest > 1_000_000 && longest < 1_100_000, "{longest}");
    store.compact().wait().unwrap();
    assert!(disk.bytes(Place::Journal).unwrap().len() < 200);
    let (store, _) = open(&disk.after_crash());
    assert_eq!(store.info(id(1), &key(1)).unwrap().length, 30_000);
}

#[test]
fn a_second_writer_waits_until_the_first_is_gone() {
    let (disk, held) = (SimDisk::new(1), Held::default());
    let store = open_held(&disk, &held);
    let mut writer = store.create(&session(id(1), 10), at(0)).unwrap();
    assert!(matches!(store.create(&session(id(1), 10), at(0)), Err(StoreError::Exists)));
    writer.append(b"abcdef").unwrap();
    let promise = writer.promise();
    writer.append(b"gh").unwrap();
    drop(writer);
    held.run();
    assert_eq!(promise.wait().unwrap(), 6);
    // What was not promised is given again, perhaps another way.
    let mut writer = store.writer(id(1), &key(1)).unwrap();
    assert!(matches!(store.writer(id(1), &key(1)), Err(StoreError::Busy)));
    assert_eq!((writer.length(), writer.promised()), (6, 6));
    writer.append(b"GHI").unwrap();
    let complete = writer.complete();
    held.run();
    assert_eq!(complete.wait().unwrap(), 9);
    assert!(matches!(store.writer(id(1), &key(1)), Err(StoreError::Ended)));
    let mut reader = store.reader(id(1), &key(1), at(0)).unwrap();
    assert_eq!(read_all(&mut reader).unwrap(), (b"abcdefGHI".to_vec(), true));
}

#[test]
fn a_new_session_whose_writer_leaves_without_a_promise_is_gone() {
    let disk = SimDisk::new(1);
    let (store, _) = open(&disk);
    let before = disk.places();
    let mut writer = store.create(&session(id(1), 10), at(0)).unwrap();
    writer.append(b"abc").unwrap();
    assert!(store.usage().bytes > 0);
    drop(writer);
    assert_eq!((disk.places(), store.usage().bytes, store.usage().sessions), (before, 0, 0));
    store_whole(&store, &session(id(1), 10), 10);
}
