// SPDX-License-Identifier: GPL-2.0-or-later
//! Files that were changed behind the store's back: recovery does not panic, names the file, and shows nothing as whole
//! that is not what was stored.

use crate::{
    harness::{DAY, at, content, id, key, open, read_all, session, store_whole},
    sim_disk::SimDisk,
};
use longhaul_store::{
    Job, JournalEnd, OpenError, Report, Status, Store, StoreError, disk::Place, file_bytes, formats,
};
use protocol::session::SessionId;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use std::sync::Arc;

/// The three sessions of [`store`]: complete, arriving, empty.
const LENGTHS: [(u64, u64, bool); 3] = [(1, 150_000, true), (2, 70_000, false), (3, 0, true)];

fn store() -> SimDisk {
    let disk = SimDisk::new(1);
    let (store, _) = open(&disk);
    for (number, length, is_complete) in LENGTHS {
        let mut writer = store.create(&session(id(number), 200_000), at(0)).unwrap();
        writer.append(&content(id(number), 0, length / 2)).unwrap();
        writer.promise().wait().unwrap();
        writer.append(&content(id(number), length / 2, length - length / 2)).unwrap();
        if is_complete {
            writer.complete().wait().unwrap();
        } else {
            writer.promise().wait().unwrap();
        }
    }
    store.extend(id(1), &key(1), at(3 * DAY.as_secs()), at(0)).wait().unwrap();
    disk
}

fn try_open(disk: &SimDisk) -> Result<(Store, Report), OpenError> {
    let disk = Arc::new(disk.clone());
    Store::open(disk, crate::harness::PLENTY, |job: Job| job(), at(0))
}

/// One to three bytes flipped, cut out or put in.
fn damaged(random: &mut Pcg64, bytes: &[u8]) -> Vec<u8> {
    let mut below = |bound: usize| (random.next_u64() % bound.max(1) as u64) as usize;
    let mut bytes = bytes.to_vec();
    for _ in 0..=below(3) {
        let at = below(bytes.len() + 1);
        match below(4) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..(at + 1 + below(40)).min(bytes.len()))),
            2 => drop(bytes.splice(at..at, (0..=below(40)).map(|n| n as u8))),
            _ if at < bytes.len() => bytes[at] ^= 1 << below(8),
            _ => {}
        }
    }
    bytes
}

/// Compares what a damaged store shows with what was stored. Returns whether something is missing.
fn check(store: &Store, what: &str) -> bool {
    let mut lacks = false;
    for (number, length, is_complete) in LENGTHS {
        let Ok(info) = store.info(id(number), &key(1)) else {
            lacks = true;
            continue;
        };
        assert!(is_complete || info.status != Status::Complete, "{what}: {info:?}");
        let Ok(mut reader) = store.reader(id(number), &key(2), at(0)) else {
            lacks = true;
            continue;
        };
        let (mut read, mut end) = (Vec::new(), None);
        while end.is_none() {
            match reader.read(read.len() as u64) {
                Ok(longhaul_store::Read::Bytes(bytes)) => read.extend_from_slice(bytes),
                other => end = Some(other.is_ok()),
            }
        }
        assert!(read.len() as u64 <= length, "{what}");
        assert_eq!(read, content(id(number), 0, read.len() as u64), "{what}");
        if info.status == Status::Complete && end == Some(true) {
            assert_eq!(read.len() as u64, length, "{what}: it appears as whole");
        }
        lacks |= (read.len() as u64) < length || end == Some(false);
        lacks |= is_complete && info.status != Status::Complete;
        lacks |= number == 1 && info.expires < at(3 * DAY.as_secs());
    }
    lacks
}

#[test]
fn damaged_files_are_named_and_never_shown_as_whole() {
    let seed = testkit::fuzz::seed();
    let mut random = Pcg64::seed_from_u64(seed);
    let disk = store();
    let places = disk.places();
    assert_eq!(places.len(), 2 + 2 * LENGTHS.len());
    let (mut noticed, mut refused) = (0, 0);
    for case in 0..800 {
        let place = places[(random.next_u64() % places.len() as u64) as usize];
        let before = disk.bytes(place).unwrap();
        let bytes = damaged(&mut random, &before);
        // A journal that ends with an earlier round is what a crash before the later ones leaves.
        let parsed = formats::parse_journal(&bytes);
        let is_earlier = parsed.fault.is_none() && parsed.torn == 0;
        if bytes == before || (place == Place::Journal && is_earlier) {
            continue;
        }
        let copy = disk.copy();
        copy.replace(place, Some(bytes));
        let what = format!("LONGHAUL_SEED={seed}, case {case}, {place}");
        let (store, report) = match try_open(&copy) {
            Ok(opened) => opened,
            Err(error) => {
                assert!(error.to_string().contains(&place.to_string()), "{what}: {error}");
                assert!(matches!(place, Place::Format | Place::Journal), "{what}: {error}");
                refused += 1;
                continue;
            }
        };
        let lacks = check(&store, &what);
        // What is read later is named then; what recovery reads, at once.
        let is_named = report.damage.iter().any(|damage| damage.file == place.to_string());
        let is_read_later = matches!(place, Place::Data(_));
        assert!(is_named || is_read_later || !lacks, "{what}: {report:?}");
        noticed += u64::from(is_named);
        // A store that was repaired once opens again, with the same content.
        let (store, _) = try_open(&copy).unwrap();
        assert!(check(&store, &what) || !lacks, "{what}");
    }
    println!("{noticed} named at the start, {refused} refused");
    assert!(noticed > 150 && refused > 25);
}

#[test]
fn a_changed_block_is_named_and_the_others_can_be_read() {
    let disk = store();
    let mut bytes = disk.bytes(Place::Data(id(1))).unwrap();
    bytes[70_000] ^= 1;
    disk.replace(Place::Data(id(1)), Some(bytes));
    let (store, report) = open(&disk);
    assert_eq!(report.damage, [], "data files are not read at the start");
    let mut reader = store.reader(id(1), &key(1), at(0)).unwrap();
    assert!(reader.read(65_535).is_ok());
    let error = reader.read(65_536).unwrap_err();
    let expected = format!(
        "data/{} is damaged at byte 65536 of the session: a block is not the one that was stored",
        id(1)
    );
    assert_eq!(error.to_string(), expected);
    assert!(reader.read(131_072).is_ok());
    assert!(store.info(id(1), &key(1)).unwrap().damage.is_some());
    store.remove(id(1), &key(1)).wait().unwrap();
    store_whole(&store, &session(id(1), 10), 10);
}

#[test]
fn files_that_changed_places_are_noticed() {
    let disk = SimDisk::new(1);
    let (store, _) = open(&disk);
    store_whole(&store, &session(id(1), 70_000), 70_000);
    store_whole(&store, &session(id(2), 70_000), 70_000);
    let headers = [1, 2].map(|n| disk.bytes(Place::Header(id(n))).unwrap());
    let swapped = disk.copy();
    for (n, other) in [(1, 1), (2, 0)] {
        swapped.replace(Place::Header(id(n)), Some(headers[other].clone()));
    }
    let (_, report) = open(&swapped);
    assert_eq!((report.sessions, report.damage.len()), (0, 2));
    let other = disk.bytes(Place::Data(id(2))).unwrap();
    disk.replace(Place::Data(id(1)), Some(other));
    let (store, _) = open(&disk);
    let mut reader = store.reader(id(1), &key(1), at(0)).unwrap();
    assert!(matches!(reader.read(0), Err(StoreError::Damaged { .. })));
    assert!(matches!(reader.read(69_999), Err(StoreError::Damaged { .. })));
}

#[test]
fn a_lost_journal_loses_nothing_that_was_promised() {
    for damage in [None, Some(b"LHjourna".to_vec()), Some(vec![0; 500])] {
        let disk = store();
        disk.replace(Place::Journal, damage.clone());
        let (store, report) = open(&disk);
        assert_eq!((report.journal, report.sessions), (JournalEnd::Damaged, 3), "{report:?}");
        assert_eq!(report.damage[0].file, "journal");
        assert!(!check(&store, "without a journal"));
        let kept = disk.places().into_iter().filter(|p| matches!(p, Place::DamagedJournal(_)));
        assert_eq!(kept.count(), usize::from(damage.is_some()));
        let mut writer = store.writer(id(2), &key(1)).unwrap();
        assert_eq!(writer.length(), 70_000);
        writer.append(&content(id(2), 70_000, 1000)).unwrap();
        writer.complete().wait().unwrap();
        let (store, report) = open(&disk.after_crash());
        assert_eq!((report.journal, report.damage), (JournalEnd::Whole, vec![]));
        let mut reader = store.reader(id(2), &key(1), at(0)).unwrap();
        assert_eq!(read_all(&mut reader).unwrap(), (content(id(2), 0, 71_000), true));
    }
}

#[test]
fn a_lost_journal_and_mark_leave_the_good_blocks() {
    let disk = store();
    disk.replace(Place::Journal, None);
    let mut bytes = disk.bytes(Place::Data(id(2))).unwrap();
    bytes.truncate(bytes.len() - 1);
    disk.replace(Place::Data(id(2)), Some(bytes));
    let (store, _) = open(&disk);
    let info = store.info(id(2), &key(1)).unwrap();
    assert_eq!((info.length, info.status), (65_536, Status::Arriving));
    let mut reader = store.reader(id(2), &key(1), at(0)).unwrap();
    assert_eq!(read_all(&mut reader).unwrap(), (content(id(2), 0, 65_536), false));
}

#[test]
fn lost_files_are_reported_and_the_rest_stays() {
    let disk = store();
    disk.replace(Place::Header(id(1)), None);
    disk.replace(Place::Data(id(2)), None);
    let (store, report) = open(&disk);
    let files: Vec<_> = report.damage.iter().map(|damage| damage.file.clone()).collect();
    let expected = [Place::Data(id(2)).to_string(), Place::Header(id(1)).to_string()];
    assert_eq!(files, expected);
    assert_eq!(report.sessions, 1);
    assert!(disk.bytes(Place::Data(id(1))).is_some(), "data without an owner stay");
    assert!(store.usage().bytes >= file_bytes(150_000));
    assert!(matches!(store.create(&session(id(1), 10), at(0)), Err(StoreError::Exists)));
    let damage = store.info(id(2), &key(1)).unwrap().damage;
    assert_eq!(damage, Some("the file is missing"));
    assert!(store.reader(id(2), &key(1), at(0)).is_err() && store.writer(id(2), &key(1)).is_err());
    let (count, expired) = store.expire(at(4 * DAY.as_secs()));
    expired.wait().unwrap();
    assert_eq!((count, store.usage().sessions), (3, 0));
    assert!(disk.bytes(Place::Data(id(1))).is_none(), "until they expire");
}

/// Headers and rounds with good checksums whose numbers no store has written.
#[test]
fn made_up_numbers_do_no_harm() {
    let mut random = Pcg64::seed_from_u64(testkit::fuzz::seed());
    let (disk, now) = (store(), at(0));
    for case in 0..400 {
        let copy = disk.copy();
        let place = [Place::Journal, Place::Header(id(1)), Place::Header(id(2))][case % 3];
        let mut bytes = copy.bytes(place).unwrap();
        let (begin, step) = if place == Place::Journal { (40 + 24 + 16, 48) } else { (96, 1000) };
        // Length, reservation, time: all bits, the highest bit, or anything.
        let first = begin + 8 * (random.next_u64() % 3) as usize;
        for place in (first..bytes.len().min(first + 2 * step)).step_by(step) {
            let number = [u64::MAX, 1 << 63, random.next_u64(), 0][random.next_u64() as usize % 4];
            if let Some(field) = bytes.get_mut(place..place + 8) {
                field.copy_from_slice(&number.to_le_bytes());
            }
        }
        if place == Place::Journal {
            let count = u32::from_le_bytes(bytes[56..60].try_into().unwrap()) as usize;
            let sum = crc32fast::hash(&bytes[48..64 + 48 * count]);
            bytes[44..48].copy_from_slice(&sum.to_le_bytes());
        } else {
            let sum = crc32fast::hash(&[&bytes[..12], &bytes[16..]].concat());
            bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        }
        copy.replace(place, Some(bytes));
        let Ok((store, _)) = try_open(&copy) else { continue };
        for (number, ..) in LENGTHS {
            if let Ok(mut reader) = store.reader(id(number), &key(1), now) {
                for offset in [0, 1 << 40, u64::MAX] {
                    let _ = reader.read(offset);
                }
            }
            if let Ok(mut writer) = store.writer(id(number), &key(1)) {
                let _ = writer.append(b"abc");
                let _ = writer.promise().wait();
            }
        }
        let _ = store.create(&session(id(7), 100), now).map(longhaul_store::Writer::complete);
        let (_, expired) = store.expire(at(10 * DAY.as_secs()));
        let _ = expired.wait();
        drop(store);
        let _ = try_open(&copy);
    }
}

#[test]
fn files_of_a_later_version_are_refused_and_stay() {
    let disk = store();
    disk.replace(Place::Format, Some(b"longhaul-store 2\n".to_vec()));
    let before: Vec<_> = disk.places().into_iter().map(|place| disk.bytes(place)).collect();
    let error = try_open(&disk).unwrap_err();
    assert_eq!(
        error.to_string(),
        "format has version 2 of the store's layout, this program knows up to 1. Install the version of longhaul that wrote \
         it; nothing was changed"
    );
    let after: Vec<_> = disk.places().into_iter().map(|place| disk.bytes(place)).collect();
    assert_eq!(before, after);
    disk.replace(Place::Format, Some(b"longhaul-store 1\n".to_vec()));
    assert!(!check(&open(&disk).0, "after the right version"));
}

#[test]
fn a_journal_or_header_of_a_later_version_stays_too() {
    let disk = store();
    let journal = disk.bytes(Place::Journal);
    disk.replace(Place::Journal, Some(include_bytes!("../corpus/journal/later").to_vec()));
    let before: Vec<_> = disk.places().into_iter().map(|place| disk.bytes(place)).collect();
    let error = try_open(&disk).unwrap_err();
    assert!(error.to_string().starts_with("journal has version 2 of"), "{error}");
    let after: Vec<_> = disk.places().into_iter().map(|place| disk.bytes(place)).collect();
    assert_eq!(before, after);
    disk.replace(Place::Journal, journal);
    let (header, later) =
        (Place::Header(SessionId([1; 16])), include_bytes!("../corpus/header/later"));
    disk.replace(header, Some(later.to_vec()));
    let (store, report) = open(&disk);
    let what = "a later version of longhaul has written it: the session is not shown";
    assert_eq!(
        (report.damage[0].file.as_str(), report.damage[0].what.as_str()),
        (&*header.to_string(), what)
    );
    assert!(!check(&store, "the others"));
    assert_eq!(disk.bytes(header).unwrap(), later);
}

#[test]
fn a_directory_with_something_else_is_no_store() {
    let disk = store();
    for format in [None, Some(b"".to_vec()), Some(b"longhaul-store 01\n".to_vec())] {
        disk.replace(Place::Format, format);
        let error = try_open(&disk).unwrap_err().to_string();
        assert!(error.starts_with("format: it "), "{error}");
    }
}
