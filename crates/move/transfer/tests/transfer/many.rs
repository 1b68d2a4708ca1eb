// SPDX-License-Identifier: GPL-2.0-or-later
//! What senders that mean harm can do to a receiver of many transfers.

use crate::common::runtime;
use longhaul_transfer::parcel::{ParcelReport, ReceiveMany};
use session::{Error, ListenOptions, Listener, Options, Outgoing, Route, Session, Window};
use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// How many transfers go on at once.
const AT_ONCE: usize = 16;

/// Does something to a receiver of many transfers; with what that reports.
fn receiving(directory: &Path, work: impl AsyncFnOnce(Route)) -> Vec<ParcelReport> {
    let reports = Arc::new(Mutex::new(Vec::new()));
    runtime().block_on(async {
        let listener = Listener::bind("127.0.0.1:0", ListenOptions::default()).await.unwrap();
        let route = Route::to(&[], &listener.local_addr().to_string()).unwrap();
        let (directory, overwrite, max_size) = (directory.to_owned(), false, None);
        let options = Options { patience: Duration::from_secs(5), ..Options::default() };
        let request = ReceiveMany { listener, directory, overwrite, max_size, options };
        let ended = |report| reports.lock().unwrap().push(report);
        request.run(ended, work(route)).await;
    });
    Arc::into_inner(reports).unwrap().into_inner().unwrap()
}

fn begin(route: &Route, note: &str) -> Session {
    let options =
        Options { note: note.into(), patience: Duration::from_secs(5), ..Options::default() };
    Session::send(vec![route.clone()], Outgoing::Window(Window::default()), options)
}

/// What a sender hears that is refused.
async fn refusal(session: &Session) -> String {
    match session.chunk().await {
        Err(Error::Ended { text, .. }) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn transfers_at_once_are_bounded_and_of_one_name_there_is_one() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().to_owned();
    let reports = receiving(directory.path(), async |route| {
        let pipe = |n: usize| format!(r#"{{"kind":"pipe","name":"pipe-{n}"}}"#);
        let mut open = Vec::new();
        for n in 0..AT_ONCE {
            let session = begin(&route, &pipe(n));
            session.write(b"some").await.unwrap();
            let begun = Instant::now();
            while fs::metadata(at.join(format!("pipe-{n}.part"))).map_or(0, |data| data.len()) < 4 {
                assert!(begun.elapsed() < Duration::from_secs(20), "nothing comes");
                sleep(Duration::from_millis(5)).await;
            }
            open.push(session);
        }
        assert!(refusal(&begin(&route, &pipe(3))).await.contains("of this name"));
        assert!(refusal(&begin(&route, &pipe(AT_ONCE))).await.contains("as go on at once"));
        // One ends, and there is room again.
        let first = open.remove(0);
        first.end();
        first.sent().await.unwrap();
        let begun = Instant::now();
        loop {
            let next = begin(&route, &pipe(AT_ONCE));
            next.end();
            if next.sent().await.is_ok() {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "there is no room");
            sleep(Duration::from_millis(20)).await;
        }
    });
    let complete = reports.iter().filter(|report| report.result.is_ok()).count();
    assert_eq!((complete, reports.len()), (2, AT_ONCE + 1), "{reports:?}");
    assert_eq!(fs::read(directory.path().join("pipe-0")).unwrap(), b"some");
}

#[test]
fn folders_lead_nowhere_else() {
    let root = tempfile::tempdir().unwrap();
    let [directory, outside] = ["in", "out"].map(|name| root.path().join(name));
    fs::create_dir(&directory).unwrap();
    fs::create_dir(&outside).unwrap();
    symlink(&outside, directory.join("link")).unwrap();
    fs::write(directory.join("file"), "x").unwrap();
    let long = "a/".repeat(600) + "b";
    let folders = ["..", "/tmp", "a/../..", "a/", "", "a\\\\b", "link", "link/a", "file", &long];
    let reports = receiving(&directory, async |route| {
        for folder in folders {
            let note = format!(r#"{{"kind":"pipe","name":"x","folder":"{folder}"}}"#);
            let said = refusal(&begin(&route, &note)).await;
            assert!(!said.is_empty(), "{folder}");
        }
        let session = begin(&route, r#"{"kind":"pipe","name":"x","folder":"a/b"}"#);
        session.end();
        session.sent().await.unwrap();
    });
    assert_eq!(reports.len(), folders.len() + 1);
    assert!(directory.join("a/b/x").is_file());
    assert_eq!(fs::read_dir(outside).unwrap().count(), 0);
    let mut there: Vec<_> =
        fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    there.sort();
    assert_eq!(there, ["a", "file", "link"]);
}
