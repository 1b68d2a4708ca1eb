// SPDX-License-Identifier: GPL-2.0-or-later
//! Directories of this machine's file system.

use crate::harness::{PLENTY, at, content, id, key, read_all, session, store_whole};
use longhaul_store::{
    Job, OpenError, Report, Store, StoreError,
    disk::{Disk, Folder, Place, RealDisk},
};
use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::Path,
    sync::Arc,
    time::Duration,
};
use units::{ClassifyFailure, FailureClass};

fn try_open(path: &Path) -> Result<(Store, Report), OpenError> {
    Store::open(Arc::new(RealDisk::open(path)?), PLENTY, |job: Job| job(), at(0))
}

fn open(path: &Path) -> Store {
    let (store, report) = try_open(path).unwrap();
    assert_eq!(report.damage, []);
    store
}

#[test]
fn sessions_outlast_the_process_and_can_be_moved() {
    let root = tempfile::tempdir().unwrap();
    let (first, second) = (root.path().join("first"), root.path().join("second"));
    let store = open(&first);
    store_whole(&store, &session(id(1), 1_000_000), 1_000_000);
    // While it is open, too: names are looked up below the directory itself.
    fs::rename(&first, &second).unwrap();
    store_whole(&store, &session(id(2), 10), 10);
    store.compact().wait().unwrap();
    drop(store);
    fs::rename(&second, &first).unwrap();
    let store = open(&first);
    for (number, length) in [(1, 1_000_000), (2, 10)] {
        let mut reader = store.reader(id(number), &key(1), at(0)).unwrap();
        assert_eq!(read_all(&mut reader).unwrap(), (content(id(number), 0, length), true));
    }
    let mode = |path: &str| fs::metadata(first.join(path)).unwrap().mode() & 0o777;
    assert_eq!((mode(""), mode("data"), mode("journal")), (0o700, 0o700, 0o600));
    assert_eq!(mode(&Place::Data(id(1)).to_string()), 0o600);
}

#[test]
fn one_process_uses_a_store_until_it_is_closed() {
    let root = tempfile::tempdir().unwrap();
    let before = open(root.path());
    let error = try_open(root.path()).unwrap_err();
    let process = format!("process {} uses it", std::process::id());
    assert!(error.to_string().contains(&process), "{error}");
    let mut writer = before.create(&session(id(1), 200_000), at(0)).unwrap();
    writer.append(&content(id(1), 0, 100_000)).unwrap();
    writer.promise().wait().unwrap();
    let mut reader = before.reader(id(1), &key(2), at(0)).unwrap();
    let unpromised = before.create(&session(id(2), 10), at(0)).unwrap();

    before.close();
    let after = open(root.path());
    // The predecessor's writers are refused, before they change a file of the successor.
    assert!(matches!(writer.append(b"x"), Err(StoreError::Closed)));
    assert!(matches!(writer.promise().wait(), Err(StoreError::Closed)));
    assert!(matches!(before.create(&session(id(3), 10), at(0)), Err(StoreError::Closed)));
    assert!(matches!(before.remove(id(1), &key(1)).wait(), Err(StoreError::Closed)));
    drop(unpromised);
    // Its readers go on with what was promised.
    assert!(reader.read(90_000).is_ok());
    assert!(matches!(reader.read(100_000), Err(StoreError::Closed)));
    assert!(reader.wait_past(100_000, Duration::from_secs(60)));

    let mut writer = after.writer(id(1), &key(1)).unwrap();
    assert_eq!(writer.length(), 100_000);
    writer.append(&content(id(1), 100_000, 100_000)).unwrap();
    writer.complete().wait().unwrap();
    let mut reader = after.reader(id(1), &key(2), at(0)).unwrap();
    assert_eq!(read_all(&mut reader).unwrap(), (content(id(1), 0, 200_000), true));
}

#[test]
fn space_is_set_apart_and_given_back() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let blocks = |id| {
        let file = root.path().join(Place::Data(id).to_string());
        fs::metadata(file).unwrap().blocks() * 512
    };
    let mut writer = store.create(&session(id(1), 8 << 20), at(0)).unwrap();
    assert!(blocks(id(1)) >= 8 << 20, "{}: no fallocate(2) here?", blocks(id(1)));
    writer.append(&content(id(1), 0, 100_000)).unwrap();
    writer.promise().wait().unwrap();
    drop(writer);
    let writer = store.writer(id(1), &key(1)).unwrap();
    assert!(blocks(id(1)) >= 8 << 20);
    writer.complete().wait().unwrap();
    assert!(blocks(id(1)) < 200_000, "{}", blocks(id(1)));
}

#[test]
fn directories_that_others_can_write_are_refused() {
    let root = tempfile::tempdir().unwrap();
    fs::set_permissions(root.path(), Permissions::from_mode(0o770)).unwrap();
    let error = try_open(root.path()).unwrap_err();
    assert_eq!(error.failure_class(), FailureClass::Usage);
    assert!(error.to_string().contains("mode 770"), "{error}");
    fs::set_permissions(root.path(), Permissions::from_mode(0o700)).unwrap();
    open(root.path());
    let missing = root.path().join("a/b");
    let error = try_open(&missing).unwrap_err();
    assert!(matches!(error, OpenError::Directory { .. }), "{error}");
}

#[test]
fn links_in_a_store_are_not_followed() {
    let (root, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(root.path());
    store_whole(&store, &session(id(1), 10), 10);
    drop(store);
    let file = root.path().join(Place::Data(id(1)).to_string());
    let target = other.path().join("target");
    fs::rename(&file, &target).unwrap();
    symlink(&target, &file).unwrap();
    let (store, _) = try_open(root.path()).unwrap();
    assert!(store.reader(id(1), &key(1), at(0)).is_err());
    drop(store);
    fs::rename(root.path().join("headers"), other.path().join("headers")).unwrap();
    symlink(other.path().join("headers"), root.path().join("headers")).unwrap();
    assert!(try_open(root.path()).is_err());
    assert_eq!(fs::read_dir(other.path().join("headers")).unwrap().count(), 1);
}

#[test]
fn a_real_disk_does_what_the_trait_says() {
    let root = tempfile::tempdir().unwrap();
    let disk = RealDisk::open(root.path()).unwrap();
    disk.make_folders().unwrap();
    let place = Place::Data(id(1));
    let file = disk.create(place).unwrap();
    assert_eq!(disk.create(place).unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
    let (a, b) = (vec![1; 5000], vec![2; 3000]);
    file.write_at(&[std::io::IoSlice::new(&a), std::io::IoSlice::new(&b)], 10).unwrap();
    file.begin_write_back(0, 8010);
    file.sync().unwrap();
    disk.sync_folder(Folder::Data).unwrap();
    let mut bytes = vec![9; 9000];
    assert_eq!(file.read_at(&mut bytes, 5).unwrap(), 8005);
    assert_eq!(bytes[..8005], [&[0; 5][..], &a, &b].concat());
    assert_eq!(disk.extent(place).unwrap().unwrap().length, 8010);
    assert_eq!(disk.extent(Place::Data(id(2))).unwrap(), None);
    disk.rename(place, Place::Data(id(2))).unwrap();
    assert_eq!(disk.list(Folder::Data).unwrap(), [id(2).to_string()]);
    assert_eq!(disk.open(place, false).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    disk.remove(Place::Data(id(2))).unwrap();
    let of_df = std::process::Command::new("stat")
        .args(["-f", "-c", "%a %S"])
        .arg(root.path())
        .output()
        .unwrap();
    let of_df = String::from_utf8(of_df.stdout).unwrap();
    let (blocks, size) = of_df.trim().split_once(' ').unwrap();
    let expected = blocks.parse::<u64>().unwrap() * size.parse::<u64>().unwrap();
    let found = disk.free_bytes().unwrap();
    // Others use this file system too.
    assert!(found.abs_diff(expected) < expected / 2, "{found} {expected}");
}
