// SPDX-License-Identifier: GPL-2.0-or-later
//! What owners and collectors ask for, and get.

use super::*;
use crate::common::noise;

#[tokio::test(flavor = "multi_thread")]
async fn left_session_is_collected_with_either_key_and_from_any_byte() {
    let place = Place::new();
    let depot = place.depot("");
    let content = noise(1, 3_000_001);
    leave(&depot, id(1), &content).await.unwrap();
    for signer in [1, 2] {
        let (kept, got) = collect(&depot, id(1), signer, 0).await.unwrap();
        assert!(got == content);
        assert_eq!(kept.bytes, Some(3_000_001));
        assert!((now_s() + DAY_S - 60..=now_s() + DAY_S).contains(&kept.expires_s));
    }
    for from in [1, 65_536, 3_000_000, 3_000_001] {
        assert!(collect(&depot, id(1), 2, from).await.unwrap().1 == content[from as usize..]);
    }
    let (code, text) = ended(collect(&depot, id(1), 2, 3_000_002).await);
    assert!(code == EndCode::Application && text.contains("3000001 bytes"), "{text}");
    depot.await_log(&["ended", "SESSION", &format!("store leave {}", id(1))]);
    depot.await_log(&["ended", &format!("store collect {}", id(1)), "bytes=3000001"]);
    let store = depot.status().store.unwrap();
    assert_eq!((store.open, store.sessions, store.refused), (true, 1, 1));
    assert!(store.used_bytes > 3_000_001 && store.size_bytes == 1 << 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_session_is_kept_and_collected() {
    let place = Place::new();
    let depot = place.depot("");
    leave(&depot, id(1), b"").await.unwrap();
    let (kept, got) = collect(&depot, id(1), 2, 0).await.unwrap();
    assert_eq!((kept.bytes, got.len()), (Some(0), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn length_need_not_be_known_and_digests_are_compared() {
    let place = Place::new();
    let depot = place.depot("");
    let content = noise(2, 500_000);
    let digest = Some(::session::WholeDigest::Sha256);
    let own = Options { digest, ..options(to_leave(None), 1) };
    let stored = Outgoing::Stored(Arc::new(Content(content.clone())));
    Session::begin(id(1), route(depot.address), stored, own).sent().await.unwrap();
    assert!(collect(&depot, id(1), 2, 0).await.unwrap().1 == content);
    assert_eq!(list(&depot, 1).await[0].bytes, 500_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn owner_lists_extends_and_drops() {
    let place = Place::new();
    let depot = place.depot("longest_life = \"2d\"\n");
    for n in 1..=3 {
        leave(&depot, id(n), &[n]).await.unwrap();
    }
    let all = list(&depot, 1).await;
    let names: Vec<_> = all.iter().map(|line| line.session).collect();
    assert_eq!(names, [id(1), id(2), id(3)]);
    assert!(all.iter().all(|line| line.complete && line.bytes == 1 && line.damage.is_none()));
    let rest = ask(&depot, 1, Request::List { after: Some(id(2)) }).await.unwrap();
    assert_eq!(rest, all[2..]);
    assert!(list(&depot, 2).await.is_empty(), "a collector owns nothing");

    let longer = Request::Extend { session: id(1), life_s: DAY_S + 1000 };
    let extended = ask(&depot, 1, longer).await.unwrap();
    assert!(extended[0].expires_s >= all[0].expires_s + 999, "{extended:?}");
    assert_eq!(list(&depot, 1).await[0], extended[0]);
    // Earlier changes nothing, later than the cap is refused.
    let shorter = ask(&depot, 1, Request::Extend { session: id(1), life_s: 1 }).await.unwrap();
    assert_eq!(shorter, extended);
    for life_s in [2 * DAY_S + 60, u64::MAX] {
        let (code, text) = ended(ask(&depot, 1, Request::Extend { session: id(1), life_s }).await);
        assert!(code == EndCode::Application && text.contains("172800 s after"), "{text}");
    }
    let long = Request::Leave { collector: public(2), bytes: None, life_s: 2 * DAY_S + 60 };
    let (_, text) = ended(leave_as(depot.address, id(9), long, b"x").await);
    assert!(text.contains("172800 s after"), "{text}");

    let gone = ask(&depot, 1, Request::Drop { session: id(2) }).await.unwrap();
    assert_eq!((gone[0].session, gone[0].bytes, gone[0].complete), (id(2), 0, false));
    assert_eq!(list(&depot, 1).await.len(), 2);
    assert!(ended(collect(&depot, id(2), 1, 0).await).1.contains("no such session"));
    // The name is free again.
    leave(&depot, id(2), b"other").await.unwrap();
    assert_eq!(collect(&depot, id(2), 1, 0).await.unwrap().1, b"other");
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_expire_but_not_while_they_are_read() {
    let place = Place::new();
    let depot = place.depot("");
    let content = noise(3, 60 << 20);
    let short = Request::Leave { collector: public(2), bytes: None, life_s: 4 };
    let left = now_s();
    leave_as(depot.address, id(1), short, &content).await.unwrap();
    let collecting = begin(depot.address, fresh(), 2, Request::Collect { session: id(1), from: 0 });
    collecting.end();
    collecting.greeted().await.unwrap();
    while now_s() < left + 5 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let (_, text) = ended(collect(&depot, id(1), 2, 0).await);
    assert!(text.contains("it has expired"), "{text}");
    let (_, text) = ended(leave(&depot, id(1), &content).await);
    assert!(text.contains("it has expired"), "{text}");
    assert!(read_all(&collecting).await.unwrap() == content);
}

#[tokio::test(flavor = "multi_thread")]
async fn depot_without_a_store_answers_501() {
    let depot = Daemon::depot("");
    let open = protocol::session::Open::new(id(1), Vec::new(), protocol::session::Target::Store);
    let answer = crate::sessions::peers::refused(&depot, &open.to_bytes().unwrap());
    assert_eq!(answer.status, 501);
    assert!(answer.text.contains("[store]"), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn session_reaches_the_store_through_another_depot() {
    let place = Place::new();
    let (far, near) = (place.depot(""), Daemon::depot("id = \"near\""));
    let via = [near.address, far.address].map(|at| DepotAddress::from(Authority::from(at)));
    let content = noise(4, 2_000_000);
    let stored = Outgoing::Stored(Arc::new(Content(content.clone())));
    let routes = vec![Route::store(&via).unwrap()];
    Session::begin(id(1), routes, stored, options(to_leave(None), 1)).sent().await.unwrap();
    near.await_log(&["ended", "target=\"store\""]);
    assert!(collect(&far, id(1), 2, 0).await.unwrap().1 == content);
}
