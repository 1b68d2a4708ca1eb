// SPDX-License-Identifier: GPL-2.0-or-later
//! What strangers can do with a session whose id they know: nothing, and they do not learn that it exists.

use crate::{
    harness::{at, id, key, open, session, store_whole},
    sim_disk::SimDisk,
};
use longhaul_store::{NewSession, StoreError, disk::Place};
use protocol::session::SessionId;

#[test]
fn strangers_can_neither_read_nor_extend_nor_drop() {
    let disk = SimDisk::new(1);
    let (store, _) = open(&disk);
    store_whole(&store, &session(id(1), 10), 10);
    let mut arriving = store.create(&session(id(2), 10), at(0)).unwrap();
    arriving.promise().wait().unwrap();
    drop(arriving);
    let stranger = key(9);
    // Of sessions that exist and of one that does not, the same is said.
    for id in [id(1), id(2), id(3)] {
        let unknown = |error: StoreError| assert!(matches!(error, StoreError::Unknown), "{error}");
        unknown(store.reader(id, &stranger, at(0)).unwrap_err());
        unknown(store.note(id, &stranger, at(0)).unwrap_err());
        unknown(store.info(id, &stranger).unwrap_err());
        unknown(store.writer(id, &stranger).unwrap_err());
        unknown(store.remove(id, &stranger).wait().unwrap_err());
        unknown(store.extend(id, &stranger, at(100), at(0)).wait().unwrap_err());
    }
    assert!(store.list(&stranger, None, 10).is_empty());
    // The collector may read, and nothing else.
    let collector = key(2);
    store.reader(id(1), &collector, at(0)).unwrap();
    assert_eq!(store.note(id(1), &collector, at(0)).unwrap(), b"note");
    assert!(store.remove(id(1), &collector).wait().is_err());
    assert!(store.extend(id(1), &collector, at(100), at(0)).wait().is_err());
    assert!(store.writer(id(2), &collector).is_err());
    assert_eq!(store.list(&key(1), None, 10).len(), 2);
}

#[test]
fn owners_list_their_own_sessions_page_by_page() {
    let disk = SimDisk::new(1);
    let (store, _) = open(&disk);
    for n in 0..10 {
        let owner = key(1 + (n % 2) as u8 * 4);
        store_whole(&store, &NewSession { owner, ..session(id(n), 10) }, 10);
    }
    let first = store.list(&key(1), None, 3);
    let second = store.list(&key(1), Some(first[2].id), 3);
    let ids: Vec<_> = first.iter().chain(&second).map(|info| info.id).collect();
    assert_eq!(ids, [id(0), id(2), id(4), id(6), id(8)]);
}

/// Whatever the network sends as a name, files have names of 32 digits.
#[test]
fn hostile_ids_become_32_digits_in_the_right_directories() {
    let disk = SimDisk::new(1);
    let (store, _) = open(&disk);
    let hostile: [&[u8; 16]; 6] = [
        b"../../etc/passwd",
        b"/etc/shadow\0\0\0\0\0",
        b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        b"................",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"journal\0format\0\0",
    ];
    let before = disk.places().len();
    for (n, bytes) in hostile.into_iter().enumerate() {
        let id = SessionId(*bytes);
        store_whole(&store, &session(id, 10), 10);
        assert_eq!(disk.places().len(), before + 2 * (n + 1));
        for place in [Place::Header(id), Place::Data(id)] {
            let name = place.name();
            assert!(name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit()));
            assert!(disk.bytes(place).is_some());
        }
    }
    let (_, report) = open(&disk.after_crash());
    assert_eq!((report.sessions, report.damage), (hostile.len(), vec![]));
}
