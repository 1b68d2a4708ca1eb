// SPDX-License-Identifier: GPL-2.0-or-later
//! Sessions that still arrive: read at the same time, continued after a connection, a process or a depot has gone.

use super::*;
use crate::common::noise;
use rustix::process::Signal;

/// Larger than what is on its way at any time.
const LENGTH: usize = 100 << 20;

/// The settings of a depot at an address, which others may take over.
fn at(place: &Place, listen: &str, more: &str) -> String {
    format!(
        "listen = [\"{listen}\"]\n{more}{}[allow]\nclients = [\"127.0.0.0/8\"]\nlocal = true\n",
        settings(&place.path(), "")
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn receivers_follow_a_session_while_it_arrives() {
    let place = Place::new();
    let depot = place.depot("");
    let content = noise(1, 1_000_000);
    let sending = begin(depot.address, id(1), 1, to_leave(None));
    sending.write(&content[..300_000]).await.unwrap();
    until_stored(&depot, |stored| stored.bytes > 0).await;
    let mut receivers = tokio::task::JoinSet::new();
    for (signer, from) in [(1, 0), (2, 0), (2, 250_000), (2, 600_000)] {
        let request = Request::Collect { session: id(1), from };
        let collecting = begin(depot.address, fresh(), signer, request);
        collecting.end();
        let kept = Kept::parse(&collecting.greeted().await.unwrap()).unwrap();
        assert_eq!(kept.bytes, None, "it is not known yet");
        receivers.spawn(async move { (from, read_all(&collecting).await) });
    }
    sending.write(&content[300_000..]).await.unwrap();
    sending.end();
    sending.sent().await.unwrap();
    while let Some(received) = receivers.join_next().await {
        let (from, got) = received.unwrap();
        assert!(got.unwrap() == content[from as usize..], "from {from}");
    }
}

/// The initiator has lost its process, and knows only the session's name and its keys.
#[tokio::test(flavor = "multi_thread")]
async fn sender_that_begins_again_continues_behind_what_is_on_disk() {
    let place = Place::new();
    let depot = place.depot("");
    let content = noise(2, 2_000_000);
    let short = Options {
        patience: Duration::from_secs(1),
        ..options(to_leave(Some(2_000_000)), 1)
    };
    let nothing = Outgoing::Window(Window::default());
    let first = Session::begin(id(1), route(depot.address), nothing, short);
    first.write(&content[..700_000]).await.unwrap();
    let stored = until_stored(&depot, |stored| stored.bytes == 700_000).await;
    assert!(!stored.complete && stored.reserved >= 2_000_000);
    // The first one still has a connection. Another of the same key takes its place, one of another key does not.
    let stranger = begin(depot.address, id(1), 3, to_leave(None));
    assert_eq!(ended(stranger.sent().await).0, EndCode::Application);
    first.write(&content[700_000..800_000]).await.unwrap();
    until_stored(&depot, |stored| stored.bytes == 800_000).await;
    let again = Session::send_as(
        depot.address,
        id(1),
        to_leave(Some(2_000_000)),
        Outgoing::Stored(Arc::new(Content(content.clone()))),
    );
    again.sent().await.unwrap();
    assert_eq!(again.statistics().resumed_bytes, 800_000);
    assert!(first.sent().await.is_err());
    assert!(collect(&depot, id(1), 2, 0).await.unwrap().1 == content);
    // Of one that is complete, the sender learns that, if it did not hear it.
    let told = Session::send_as(
        depot.address,
        id(1),
        to_leave(Some(2_000_000)),
        Outgoing::Stored(Arc::new(Content(content.clone()))),
    );
    told.sent().await.unwrap();
    assert_eq!(told.statistics().resumed_bytes, 2_000_000);
    // Other bytes under the same name are not taken for these.
    let other = leave_as(depot.address, id(1), to_leave(None), &noise(3, 2_000_000)).await;
    assert!(other.unwrap_err().is_other_prefix());
}

#[tokio::test(flavor = "multi_thread")]
async fn session_continues_after_its_depot_was_killed() {
    let place = Place::new();
    let mut depot = Daemon::depot_with(&at(&place, "127.0.0.1:0", ""));
    let address = depot.address;
    let content = Arc::new(Content(noise(4, LENGTH)));
    let slow = Options {
        limit_rate: Some("400mbit".parse().unwrap()),
        ..options(to_leave(Some(LENGTH as u64)), 1)
    };
    let stored = Outgoing::Stored(content.clone());
    let first = Session::begin(id(1), route(address), stored, slow);
    // It takes two seconds, and what is on disk is behind what was acknowledged.
    let before = until_stored(&depot, |stored| stored.bytes > 0).await;
    depot.signal(Signal::KILL);
    let _ = depot.wait();
    let depot = Daemon::depot_with(&at(&place, &address.to_string(), ""));
    let (code, _) = ended(first.sent().await);
    assert_eq!(code, EndCode::UnknownSession);
    let kept = &list(&depot, 1).await[0];
    assert!(kept.bytes >= before.bytes && kept.bytes < LENGTH as u64 && !kept.complete, "{kept:?}");
    let request = to_leave(Some(LENGTH as u64));
    let second =
        Session::send_as(address, id(1), request, Outgoing::Stored(content.clone()));
    second.sent().await.unwrap();
    assert_eq!(second.statistics().resumed_bytes, kept.bytes);
    assert!(collect(&depot, id(1), 2, 0).await.unwrap().1 == content.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn session_continues_at_the_depot_that_takes_over() {
    let place = Place::new();
    let socket = format!("handover = \"{}\"\n", place.0.path().join("handover").display());
    let mut first = Daemon::depot_with(&at(&place, "127.0.0.1:0", &socket));
    let address = first.address;
    let whole = noise(5, 300_000);
    leave(&first, id(9), &whole).await.unwrap();
    ask(&first, 1, Request::Extend { session: id(9), life_s: DAY_S }).await.unwrap();
    let sending = begin(address, id(1), 1, to_leave(None));
    let content = noise(6, 800_000);
    sending.write(&content[..500_000]).await.unwrap();
    while sending.statistics().acknowledged_bytes < 500_000 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let second = Daemon::depot_with(&at(&place, &address.to_string(), &socket));
    second.await_log(&["store opened"]);
    let (code, _) = ended(sending.sent().await);
    assert_eq!(code, EndCode::UnknownSession);
    assert!(first.wait().success(), "nothing holds it");
    leave_as(address, id(1), to_leave(None), &content).await.unwrap();
    assert!(collect(&second, id(1), 2, 0).await.unwrap().1 == content);
    assert!(collect(&second, id(9), 2, 0).await.unwrap().1 == whole);
}

#[tokio::test(flavor = "multi_thread")]
async fn store_of_another_process_is_not_used() {
    let place = Place::new();
    let first = place.depot("");
    leave(&first, id(1), b"kept").await.unwrap();
    let second = place.depot("");
    let open = protocol::session::Open::new(id(1), Vec::new(), protocol::session::Target::Store);
    let answer = crate::sessions::peers::refused(&second, &open.to_bytes().unwrap());
    assert_eq!(answer.status, 503, "{answer:?}");
    second.await_log(&["refused", "status=503", &format!("process {} uses it", first.pid())]);
    assert!(!second.status().store.unwrap().open);
    // It opens the store once the first has gone.
    drop(first);
    second.await_log(&["store opened", "sessions=1"]);
    assert_eq!(collect(&second, id(1), 2, 0).await.unwrap().1, b"kept");
}
