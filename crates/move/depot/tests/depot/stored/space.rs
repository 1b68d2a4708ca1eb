// SPDX-License-Identifier: GPL-2.0-or-later
//! Space: quotas, a disk that is full, senders that lie about bytes, and senders that do not go on.

use super::*;
use crate::common::noise;
use tokio::task::JoinSet;

const MB: u64 = 1 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn fifty_at_once_get_the_quota_and_no_more() {
    let place = Place::new();
    let depot = Arc::new(place.depot("key_size = \"11MB\"\n"));
    let mut all = JoinSet::new();
    for n in 0..50 {
        let address = depot.address;
        // A new owner each time: what counts is where they come from.
        all.spawn(async move {
            let request = Request::Leave { collector: public(2), bytes: Some(MB), life_s: DAY_S };
            let content = Outgoing::Stored(Arc::new(Content(noise(n, MB as usize))));
            let owner = options(request, 100 + n as u8);
            let session = Session::begin(id(n as u8), route(address), content, owner);
            session.sent().await
        });
    }
    let (mut stored, mut refused) = (0, 0);
    while let Some(outcome) = all.join_next().await {
        match outcome.unwrap() {
            Ok(()) => stored += 1,
            refusal => {
                let (code, text) = ended(refusal);
                assert_eq!(code, EndCode::NoSpace, "{text}");
                assert!(text.contains("this client may store 11534336 bytes"), "{text}");
                refused += 1;
            }
        }
    }
    assert_eq!((stored, refused), (10, 40));
    let store = state(&depot);
    assert_eq!((store.sessions, store.refused), (10, 40));
    assert!(store.used_bytes <= 11 * MB);
}

#[tokio::test(flavor = "multi_thread")]
async fn full_store_refuses_with_no_space_and_still_gives_what_it_has() {
    let place = Place::new();
    let depot = place.depot("size = \"4MB\"\n");
    let content = noise(1, 3 << 20);
    leave(&depot, id(1), &content).await.unwrap();
    for bytes in [Some(2 * MB), None] {
        let outcome = leave_as(depot.address, id(2), to_leave(bytes), &content[..2 << 20]).await;
        assert!(outcome.as_ref().is_err_and(Error::is_no_space), "{outcome:?}");
        assert!(ended(outcome).1.contains("may store 4194304 bytes"));
    }
    assert!(collect(&depot, id(1), 2, 0).await.unwrap().1 == content);
    ask(&depot, 1, Request::Drop { session: id(1) }).await.unwrap();
    leave(&depot, id(3), &content).await.unwrap();
    depot.await_log(&["refused", "status=507", "may store 4194304 bytes"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn space_that_is_to_stay_free_stays_free() {
    let place = Place::new();
    let depot = place.depot("kept_free = \"1000000GB\"\n");
    let (code, text) = ended(leave(&depot, id(1), b"x").await);
    assert!(code == EndCode::NoSpace && text.contains("the depot's disk has"), "{text}");
}

/// On a file system of its own, which only the depot sees.
#[tokio::test(flavor = "multi_thread")]
async fn full_disk_ends_a_session_and_loses_nothing_that_was_promised() {
    let dir = tempfile::tempdir().unwrap();
    let (path, line) = (
        dir.path().join("store"),
        format!(
            "exec unshare -m sh -c 'mount -t tmpfs -o size=8m,mode=0700 none {} && exec \"$0\" \"$@\"' \"$0\" \"$@\"",
            dir.path().display()
        ),
    );
    let depot = Daemon::depot_by(&line, &settings(&path, "kept_free = \"64KB\"\n"));
    let content = noise(1, 4 << 20);
    leave(&depot, id(1), &content).await.unwrap();
    for bytes in [None, Some(20 * MB)] {
        let outcome = leave_as(depot.address, id(2), to_leave(bytes), &noise(2, 20 << 20)).await;
        assert!(outcome.as_ref().is_err_and(Error::is_no_space), "{outcome:?}");
    }
    assert!(collect(&depot, id(1), 2, 0).await.unwrap().1 == content);
    ask(&depot, 1, Request::Drop { session: id(1) }).await.unwrap();
    leave(&depot, id(3), &content).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn more_bytes_than_were_announced_are_not_stored() {
    let place = Place::new();
    let depot = place.depot("");
    let outcome = leave_as(depot.address, id(1), to_leave(Some(1000)), &noise(1, 500_000)).await;
    let (code, text) = ended(outcome);
    assert!(code == EndCode::NoSpace && text.contains("announced with 1000 bytes"), "{text}");
    // Nothing was there before, so nothing is left.
    assert!(list(&depot, 1).await.is_empty());
    // Fewer are all there are.
    leave_as(depot.address, id(2), to_leave(Some(100 * MB)), b"few").await.unwrap();
    assert_eq!(list(&depot, 1).await[0].bytes, 3);
    assert!(state(&depot).used_bytes < MB);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_sender_is_ended_and_its_reservation_given_back() {
    let place = Place::new();
    let least = "limits.least_rate = \"8mbit\"\nlimits.least_time = \"1s\"\n";
    let depot = Daemon::depot(&format!("{least}{}", settings(&place.path(), "")));
    let sending = begin(depot.address, id(1), 1, to_leave(Some(500 * MB)));
    sending.write(&noise(1, 5000)).await.unwrap();
    let (code, text) = ended(sending.sent().await);
    assert!(code == EndCode::Application && text.contains("limits.least_rate"), "{text}");
    let left = until_stored(&depot, |left| left.reserved == 5000).await;
    assert_eq!((left.bytes, left.complete), (5000, false));
    assert!(state(&depot).used_bytes < MB);
    // It goes on where it was.
    let content = [noise(1, 5000), noise(2, 5000)].concat();
    leave(&depot, id(1), &content).await.unwrap();
    assert!(collect(&depot, id(1), 2, 0).await.unwrap().1 == content);
}

#[tokio::test(flavor = "multi_thread")]
async fn limited_client_is_slowed_and_not_blamed_for_it() {
    let place = Place::new();
    let limits = "limits.client_rate = \"4mbit\"\nlimits.least_rate = \"20mbit\"\nlimits.least_time = \"1s\"\n";
    let depot = Daemon::depot(&format!("{limits}{}", settings(&place.path(), "")));
    let (content, begun) = (noise(1, 1_500_000), Instant::now());
    leave(&depot, id(1), &content).await.unwrap();
    // 3 s at that rate. No machine is so slow that it would take that long without a limit.
    let taken = begun.elapsed();
    assert!(taken > Duration::from_millis(2900), "1.5 MB at 4 Mb/s took {taken:?}");
    assert!(collect(&depot, id(1), 2, 0).await.unwrap().1 == content);
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_changes_limits_and_not_the_place() {
    let place = Place::new();
    let file = place.0.path().join("depot.toml");
    let text = |path: &Path, more: &str| {
        format!(
            "listen = [\"127.0.0.1:0\"]\n{}[allow]\nclients = [\"127.0.0.0/8\"]\nlocal = true\n",
            settings(path, more)
        )
    };
    let depot = Daemon::of_file(&file, &text(&place.path(), "size = \"1MB\"\n"));
    assert_eq!(ended(leave(&depot, id(1), &noise(1, 2 << 20)).await).0, EndCode::NoSpace);
    depot.read_again(&file, &text(&place.path(), "size = \"8MB\"\n"));
    leave(&depot, id(1), &noise(1, 2 << 20)).await.unwrap();
    let elsewhere = place.0.path().join("elsewhere");
    depot.read_again(&file, &text(&elsewhere, "size = \"8MB\"\n"));
    depot.await_log(&["configuration read again", "waiting=\"store.path\""]);
    assert!(!elsewhere.exists());
    assert_eq!(list(&depot, 1).await.len(), 1);
}
