// SPDX-License-Identifier: GPL-2.0-or-later
//! Space: it is reserved before a session is accepted, for each key and in all, and refusals say why.

use crate::{
    harness::{
        DAY, PLENTY, allowance, at, content, id, key, open, open_with, session, store_whole,
    },
    sim_disk::SimDisk,
};
use longhaul_store::{
    Limits, NewSession, READ_GRACE, Refusal, Status, Store, StoreError, file_bytes,
};
use std::{thread, time::Duration};
use units::Bytes;

const MB: u64 = 1 << 20;

fn refusal(created: Result<longhaul_store::Writer, StoreError>) -> Refusal {
    match created {
        Err(StoreError::Refused(refusal)) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn fifty_creators_at_once_get_what_there_is_and_no_more() {
    let need = file_bytes(MB);
    let limits = Limits { key: allowance(10 * need + 5, 1000), ..PLENTY };
    let whole = Limits { bytes: Bytes::new(10 * need + 5), ..PLENTY };
    for (limits, is_own) in [(limits, true), (whole, false)] {
        let disk = SimDisk::new(1);
        let (store, _) = open_with(&disk, limits);
        let refused = thread::scope(|scope| {
            let threads: Vec<_> = (0..50)
                .map(|n| {
                    let store = &store;
                    scope.spawn(move || {
                        let mut writer = store.create(&session(id(n), MB), at(0))?;
                        writer.promise().wait().map(drop)
                    })
                })
                .collect();
            threads
                .into_iter()
                .filter_map(|thread| thread.join().unwrap().err())
                .collect::<Vec<_>>()
        });
        assert_eq!((refused.len(), store.usage().sessions), (40, 10));
        assert_eq!(store.usage().bytes, 10 * need);
        let (limit, used, needed) = (10 * need + 5, 10 * need, need);
        for error in refused {
            let StoreError::Refused(refusal) = error else { panic!("{error}") };
            match refusal {
                Refusal::KeyBytes { .. } if is_own => {
                    assert_eq!(refusal, Refusal::KeyBytes { limit, used, needed });
                }
                _ => assert_eq!(refusal, Refusal::StoreBytes { limit, used, needed }),
            }
        }
        let (store, _) = open_with(&disk.after_crash(), limits);
        assert_eq!(store.usage().bytes, 10 * need, "the same after a crash");
    }
}

#[test]
fn numbers_of_sessions_are_limited() {
    let (disk, limits) = (SimDisk::new(1), Limits { sessions: 3, ..PLENTY });
    let (store, _) = open_with(&disk, limits);
    let few = |number, account| NewSession {
        account: key(account),
        allowance: Some(allowance(MB, 2)),
        ..session(id(number), 10)
    };
    store_whole(&store, &few(1, 1), 10);
    store_whole(&store, &few(2, 1), 10);
    assert_eq!(refusal(store.create(&few(3, 1), at(0))), Refusal::KeySessions { limit: 2 });
    store_whole(&store, &few(3, 2), 10);
    assert_eq!(refusal(store.create(&few(4, 3), at(0))), Refusal::StoreSessions { limit: 3 });
    store.remove(id(1), &key(1)).wait().unwrap();
    store_whole(&store, &few(4, 3), 10);
    assert_eq!(store.usage_of(&key(1)).sessions, 1);
    assert_eq!(store.usage_of(&key(3)).sessions, 1);
}

#[test]
fn what_the_file_system_needs_free_stays_free() {
    let disk = SimDisk::new(1);
    let limits = Limits { kept_free: Bytes::new(100 * MB), ..PLENTY };
    let (store, _) = open_with(&disk, limits);
    disk.set_free(100 * MB + file_bytes(MB) - 1);
    let refused = refusal(store.create(&session(id(1), MB), at(0)));
    assert!(matches!(refused, Refusal::LowSpace { needed, .. } if needed == file_bytes(MB)));
    assert!(refused.to_string().contains("bytes free"), "{refused}");
    disk.set_free(100 * MB + file_bytes(MB));
    store_whole(&store, &session(id(1), MB), MB);
}

#[test]
fn a_complete_session_gives_back_what_it_does_not_need() {
    let disk = SimDisk::new(1);
    let (store, _) = open(&disk);
    let mut writer = store.create(&session(id(1), 100 * MB), at(0)).unwrap();
    assert_eq!(store.usage().bytes, file_bytes(100 * MB));
    assert!(matches!(
        writer.append(&vec![0; 100 * MB as usize + 1]),
        Err(StoreError::OverReservation { reserved }) if reserved == 100 * MB
    ));
    writer.append(&content(id(1), 0, 5000)).unwrap();
    writer.complete().wait().unwrap();
    assert_eq!(store.usage().bytes, file_bytes(5000));
    let (store, _) = open(&disk.after_crash());
    assert_eq!(store.usage().bytes, file_bytes(5000));
    store.remove(id(1), &key(1)).wait().unwrap();
    assert_eq!((store.usage().bytes, store.usage_of(&key(3)).bytes), (0, 0));
}

#[test]
fn a_reservation_grows_within_the_limits() {
    let disk = SimDisk::new(1);
    let limits = Limits { key: allowance(file_bytes(2 * MB), 5), ..PLENTY };
    let (store, _) = open_with(&disk, limits);
    let mut writer = store.create(&session(id(1), 1000), at(0)).unwrap();
    writer.append(&content(id(1), 0, 1000)).unwrap();
    assert!(writer.append(b"x").is_err());
    writer.reserve(Bytes::new(2 * MB)).unwrap();
    assert_eq!(store.usage().bytes, file_bytes(2 * MB));
    assert!(matches!(
        writer.reserve(Bytes::new(3 * MB)),
        Err(StoreError::Refused(Refusal::KeyBytes { .. }))
    ));
    writer.append(&content(id(1), 1000, MB)).unwrap();
    writer.promise().wait().unwrap();
    let (store, _) = open_with(&disk.after_crash(), limits);
    assert_eq!(store.info(id(1), &key(1)).unwrap().reserved, 2 * MB);
    let mut writer = store.writer(id(1), &key(1)).unwrap();
    writer.append(&content(id(1), 1000 + MB, 100)).unwrap();
    assert_eq!(writer.complete().wait().unwrap(), MB + 1100);
}

/// Owners are made up by anybody, so what they have does not decide.
#[test]
fn space_is_charged_to_the_account_whoever_owns_it() {
    let disk = SimDisk::new(1);
    let limits = Limits { key: allowance(2 * file_bytes(10), 10), ..PLENTY };
    let (store, _) = open_with(&disk, limits);
    let owned =
        |number: u64| NewSession { owner: key(100 + number as u8), ..session(id(number), 10) };
    store_whole(&store, &owned(1), 10);
    store_whole(&store, &owned(2), 10);
    let refused = refusal(store.create(&owned(3), at(0)));
    assert!(matches!(refused, Refusal::KeyBytes { .. }), "{refused}");
    let (store, _) = open_with(&disk.after_crash(), limits);
    assert_eq!(store.usage_of(&key(3)).bytes, 2 * file_bytes(10));
    let refused = refusal(store.create(&owned(3), at(0)));
    assert!(matches!(refused, Refusal::KeyBytes { .. }), "{refused}");
    store_whole(&store, &NewSession { account: key(4), ..owned(3) }, 10);
    assert_eq!(store.list(&key(101), None, 10).len(), 1);
}

#[test]
fn given_back_space_is_free_also_after_a_crash_and_can_be_reserved_again() {
    let disk = SimDisk::new(1);
    let (store, _) = open(&disk);
    let mut writer = store.create(&session(id(1), 100 * MB), at(0)).unwrap();
    writer.append(&content(id(1), 0, 5000)).unwrap();
    writer.promise().wait().unwrap();
    writer.append(&content(id(1), 5000, 1000)).unwrap();
    writer.give_back().unwrap();
    assert_eq!(store.usage().bytes, file_bytes(6000));
    assert!(matches!(writer.append(b"x"), Err(StoreError::OverReservation { reserved: 6000 })));
    writer.promise().wait().unwrap();
    drop(writer);
    let (store, _) = open(&disk.after_crash());
    assert_eq!(store.usage().bytes, file_bytes(6000));
    let mut writer = store.writer(id(1), &key(1)).unwrap();
    writer.reserve(Bytes::new(MB)).unwrap();
    writer.append(&content(id(1), 6000, 1000)).unwrap();
    assert_eq!(writer.complete().wait().unwrap(), 7000);
}

#[test]
fn no_session_lives_longer_than_the_cap() {
    let disk = SimDisk::new(1);
    let (store, _) = open(&disk);
    let longest = Duration::from_secs(7 * 24 * 3600);
    assert_eq!(PLENTY.longest_life, longest, "7 days unless the operator says otherwise");
    let long = NewSession { life: longest + Duration::from_secs(1), ..session(id(1), 10) };
    assert!(matches!(store.create(&long, at(0)), Err(StoreError::TooLong { .. })));
    store_whole(&store, &session(id(1), 10), 10);
    let extend = |until, now| store.extend(id(1), &key(1), at(until), at(now)).wait();
    let week = longest.as_secs();
    assert_eq!(extend(3 * 86_400, 100).unwrap(), at(3 * 86_400));
    assert_eq!(extend(2 * 86_400, 100).unwrap(), at(3 * 86_400), "never earlier");
    assert!(matches!(extend(week + 1, 2 * 86_400), Err(StoreError::TooLong { .. })));
    assert_eq!(extend(week, 2 * 86_400).unwrap(), at(week));
    let (store, _) = open(&disk.after_crash());
    assert_eq!(store.info(id(1), &key(1)).unwrap().expires, at(week));
    let late = store.extend(id(1), &key(1), at(week), at(week)).wait();
    assert!(matches!(late, Err(StoreError::Gone(_))), "{late:?}");
}

fn expire(store: &Store, now: u64) -> usize {
    let (found, promise) = store.expire(at(now));
    promise.wait().unwrap();
    found
}

#[test]
fn expired_sessions_go_with_their_files() {
    let disk = SimDisk::new(1);
    let (store, _) = open(&disk);
    let before = disk.places();
    store_whole(&store, &session(id(1), 10), 10);
    let mut arriving = store.create(&session(id(2), 10), at(0)).unwrap();
    arriving.promise().wait().unwrap();
    let day = DAY.as_secs();
    assert_eq!(expire(&store, day - 1), 0);
    assert!(matches!(store.reader(id(1), &key(1), at(day)), Err(StoreError::Gone(_))));
    assert_eq!(expire(&store, day), 2);
    assert!(matches!(arriving.append(b"x"), Err(StoreError::Gone(_))));
    assert!(matches!(arriving.complete().wait(), Err(StoreError::Gone(_))));
    assert_eq!((disk.places(), store.usage().bytes), (before, 0));
    store_whole(&store, &session(id(1), 10), 10);
}

#[test]
fn a_session_that_is_read_stays_for_a_while_after_it_has_expired() {
    let disk = SimDisk::new(1);
    let (store, _) = open(&disk);
    store_whole(&store, &session(id(1), 200_000), 200_000);
    let mut reader = store.reader(id(1), &key(2), at(0)).unwrap();
    let day = DAY.as_secs();
    assert_eq!(expire(&store, day + READ_GRACE.as_secs() - 1), 0);
    assert!(matches!(store.reader(id(1), &key(2), at(day)), Err(StoreError::Gone(_))));
    assert!(reader.read(100_000).is_ok(), "who has begun may go on");
    assert_eq!(expire(&store, day + READ_GRACE.as_secs()), 1);
    let gone = reader.read(150_000).unwrap_err();
    assert_eq!(gone.to_string(), "the session is gone: it has expired");
}

#[test]
fn a_waiting_reader_learns_that_its_session_is_dropped() {
    let disk = SimDisk::new(1);
    let (store, _) = open(&disk);
    let mut writer = store.create(&session(id(1), 10), at(0)).unwrap();
    writer.promise().wait().unwrap();
    let mut reader = store.reader(id(1), &key(2), at(0)).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            assert!(reader.wait_past(0, Duration::from_secs(60)));
            reader.read(0).unwrap_err().to_string()
        });
        store.remove(id(1), &key(1)).wait().unwrap();
        assert_eq!(waiting.join().unwrap(), "the session is gone: its owner has dropped it");
    });
    // Another session of that name is not theirs.
    store_whole(&store, &session(id(1), 10), 10);
    assert!(matches!(reader.read(0), Err(StoreError::Gone(_))));
    assert!(matches!(writer.append(b"x"), Err(StoreError::Gone(_))));
    drop((reader, writer));
    assert_eq!(store.info(id(1), &key(1)).unwrap().status, Status::Complete);
}
