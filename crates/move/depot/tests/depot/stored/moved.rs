// SPDX-License-Identifier: GPL-2.0-or-later
//! Stores that are moved, damaged, or of another version.

use super::*;
use crate::common::noise;
use rustix::process::Signal;
use std::{fs, os::unix::fs::PermissionsExt};

/// Ends a depot as a loss of power does.
fn kill(mut depot: Daemon) {
    depot.signal(Signal::KILL);
    let _ = depot.wait();
}

/// The log of a depot that does not start with a store at this path.
fn refused(path: &Path) -> String {
    let open = "[allow]\nclients = [\"127.0.0.0/8\"]\n";
    let settings = format!("listen = [\"127.0.0.1:0\"]\n{}{open}", settings(path, ""));
    Daemon::launch("depot", &settings).err().expect("it must not start")
}

#[tokio::test(flavor = "multi_thread")]
async fn store_is_found_at_another_path_after_it_was_moved() {
    let place = Place::new();
    let depot = place.depot("");
    let content = noise(1, 500_000);
    leave(&depot, id(1), &content).await.unwrap();
    // Also while it is open.
    let elsewhere = place.0.path().join("elsewhere");
    fs::rename(place.path(), &elsewhere).unwrap();
    assert!(collect(&depot, id(1), 2, 0).await.unwrap().1 == content);
    leave(&depot, id(2), &content).await.unwrap();
    kill(depot);
    assert!(!place.path().exists());
    let depot = Daemon::depot(&settings(&elsewhere, ""));
    for n in [1, 2] {
        assert!(collect(&depot, id(n), 2, 0).await.unwrap().1 == content);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_journal_loses_no_session() {
    let place = Place::new();
    let depot = place.depot("");
    let content = noise(1, 500_000);
    leave(&depot, id(1), &content).await.unwrap();
    let half = begin(depot.address, id(2), 1, to_leave(None));
    half.write(&content).await.unwrap();
    while list(&depot, 1).await.iter().any(|session| session.bytes < 500_000) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    kill(depot);
    fs::remove_file(place.path().join("journal")).unwrap();
    let depot = place.depot("");
    depot.await_log(&["damage in the store", "journal", "it is missing"]);
    let sessions = list(&depot, 1).await;
    let found: Vec<_> = sessions.iter().map(|it| (it.session, it.bytes, it.complete)).collect();
    assert_eq!(found, [(id(1), 500_000, true), (id(2), 500_000, false)]);
    assert!(collect(&depot, id(1), 2, 0).await.unwrap().1 == content);
    let whole = [&content[..], b"more"].concat();
    leave_as(depot.address, id(2), to_leave(None), &whole).await.unwrap();
    assert!(collect(&depot, id(2), 2, 0).await.unwrap().1 == whole);
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_bytes_never_reach_a_receiver() {
    let place = Place::new();
    let depot = place.depot("");
    let content = noise(1, 500_000);
    leave(&depot, id(1), &content).await.unwrap();
    let data = place.path().join("data").join(id(1).to_string());
    let mut bytes = fs::read(&data).unwrap();
    bytes[200_000] ^= 1;
    fs::write(&data, bytes).unwrap();
    let collecting =
        begin(depot.address, fresh(), 2, Request::Collect { session: id(1), from: 0 });
    collecting.end();
    let mut got = Vec::new();
    let error = loop {
        match collecting.chunk().await {
            Ok(Some(bytes)) => got.extend_from_slice(&bytes),
            Ok(None) => panic!("it has an end"),
            Err(error) => break error,
        }
    };
    assert!(content.starts_with(&got), "{} bytes", got.len());
    let (code, text) = ended::<()>(Err(error));
    assert!(code == EndCode::Application && text.contains("is damaged at byte 196608"), "{text}");
    depot.await_log(&["refused", "status=500", "is damaged"]);
    let damage = list(&depot, 1).await[0].damage.clone();
    assert!(damage.is_some_and(|damage| damage.contains("a block is not the one")));
    let tail = collect(&depot, id(1), 2, 300_000).await;
    assert!(tail.unwrap().1 == content[300_000..], "other blocks are there");
}

#[tokio::test(flavor = "multi_thread")]
async fn version_from_the_future_and_other_directories_are_left_alone() {
    let place = Place::new();
    kill(place.depot(""));
    let format = place.path().join("format");
    fs::write(&format, "longhaul-store 2\n").unwrap();
    let log = refused(&place.path());
    for part in ["`store.path`", "version 2", "nothing was changed"] {
        assert!(log.contains(part), "{part}: {log}");
    }
    assert_eq!(fs::read(&format).unwrap(), b"longhaul-store 2\n");
    fs::write(&format, "something else").unwrap();
    assert!(refused(&place.path()).contains("This is not a store"));
    let missing = place.0.path().join("missing/store");
    assert!(refused(&missing).contains("Make the directory, owned by the depot's user"));
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(refused(&place.path()).contains("chmod 0700"));
}

/// The same errors, before a depot is started, and nothing is made.
#[test]
fn check_finds_what_is_wrong_with_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let check = |path: &Path| {
        let config = longhaul_depot::Config::from_toml(&settings(path, ""), "x").unwrap();
        let pacers: longhaul_depot::Pacers = Arc::new(|_, _| Ok(()));
        longhaul_depot::check(config, &pacers).map_err(|error| error.to_string())
    };
    check(&path).unwrap();
    assert!(!path.exists(), "the check has made it");
    assert!(check(&dir.path().join("missing/store")).unwrap_err().contains("`store.path`"));
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o770)).unwrap();
    assert!(check(&path).unwrap_err().contains("chmod 0700"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    check(&path).unwrap();
    fs::write(path.join("format"), "longhaul-store 7\n").unwrap();
    assert!(check(&path).unwrap_err().contains("version 7"));
    assert_eq!(fs::read_dir(&path).unwrap().count(), 1, "nothing was made");
}
