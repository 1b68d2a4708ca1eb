// SPDX-License-Identifier: GPL-2.0-or-later
//! What a sender that means harm can do to a receiver.

use crate::{
    common::{bytes, names, runtime},
    disk::small_disk,
};
use longhaul_transfer::{
    Error, Progress,
    parcel::{Origin, Output, ParcelReport, ReceiveRequest},
};
use session::{ListenOptions, Listener, Options, Outgoing, Route, Session, Stored, Window};
use std::{fs, io, os::unix::fs::PermissionsExt, path::Path, sync::Arc, time::Duration};
use tar::{Builder, EntryType, Header};
use units::Bytes;

/// Bytes that are sent.
#[derive(Debug)]
struct Content(Vec<u8>);

impl Stored for Content {
    fn length(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let from = offset as usize;
        buffer.copy_from_slice(&self.0[from..from + buffer.len()]);
        Ok(())
    }
}

/// Sends these bytes with this note to a receiver in a directory; with the receiver's report.
async fn sent(note: &str, content: Vec<u8>, directory: &Path) -> ParcelReport {
    let listener = Listener::bind("127.0.0.1:0", ListenOptions::default()).await.unwrap();
    let route = Route::to(&[], &listener.local_addr().to_string()).unwrap();
    let session = send(note, content, route);
    let progress = Arc::new(Progress::default());
    let request = receive(listener, directory);
    let run = request.run(&progress, || (), std::future::pending());
    let hear = async { while let Ok(Some(_)) = session.chunk().await {} };
    tokio::join!(run, hear).0
}

fn send(note: &str, content: Vec<u8>, route: Route) -> Session {
    let options = Options { note: note.into(), ..Options::default() };
    Session::send(vec![route], Outgoing::Stored(Arc::new(Content(content))), options)
}

pub fn receive(listener: Listener, directory: &Path) -> ReceiveRequest {
    ReceiveRequest {
        origin: Origin::Listener(listener),
        output: Output::Directory(directory.to_owned()),
        overwrite: false,
        max_size: Some(Bytes::new(1 << 20)),
        options: Options { patience: Duration::from_secs(5), ..Options::default() },
    }
}

fn archive(fill: impl FnOnce(&mut Builder<Vec<u8>>)) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    fill(&mut builder);
    builder.into_inner().unwrap()
}

/// A header whose names are not checked.
fn header(name: &str, kind: EntryType, link: &str) -> Header {
    let mut header = Header::new_gnu();
    let old = header.as_old_mut();
    old.name[..name.len()].copy_from_slice(name.as_bytes());
    old.linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o4755);
    header.set_mtime(0);
    header.set_size(if kind == EntryType::Regular { 4 } else { 0 });
    header.set_cksum();
    header
}

/// Name, type, and where it leads.
type BadEntry<'a> = (&'a str, EntryType, &'a str);

const DIRECTORY: &str = r#"{"kind":"directory","name":"tree"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn names_that_lead_outside_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let inside = root.path().join("a/b");
    fs::create_dir_all(&inside).unwrap();
    for name in ["../x", "/tmp/x", "..", ".", "", "x/y", "x\\u0000y", "x\\n"] {
        let note = format!(r#"{{"kind":"file","name":"{name}"}}"#);
        let report = sent(&note, b"evil".to_vec(), &inside).await;
        assert!(matches!(report.result, Err(Error::Answer(_))), "{name}: {:?}", report.result);
    }
    assert_eq!(fs::read_dir(&inside).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn archive_entries_stay_in_their_directory() {
    let regular = EntryType::Regular;
    let evil: [(&str, &[BadEntry<'_>]); 10] = [
        ("parent", &[("../x", regular, "")]),
        ("absolute", &[("/tmp/longhaul-x", regular, "")]),
        ("hidden parent", &[("a/../../x", regular, "")]),
        ("link out", &[("l", EntryType::Symlink, "../../..")]),
        ("absolute link", &[("l", EntryType::Symlink, "/etc")]),
        ("link by a link", &[("d", EntryType::Symlink, "."), ("l", EntryType::Symlink, "d/../..")]),
        ("through a link", &[("d", EntryType::Symlink, "."), ("d/x", regular, "")]),
        ("hard link out", &[("h", EntryType::Link, "../../outside")]),
        ("device", &[("dev", EntryType::Char, "")]),
        (
            "hard link to a link",
            &[("a/b/l", EntryType::Symlink, "../../x"), ("out", EntryType::Link, "a/b/l")],
        ),
    ];
    for (what, entries) in evil {
        let root = tempfile::tempdir().unwrap();
        let inside = root.path().join("a/b");
        fs::create_dir_all(&inside).unwrap();
        fs::write(root.path().join("outside"), "untouched").unwrap();
        let content = archive(|builder| {
            for (name, kind, link) in entries {
                let content = if *kind == regular { &b"evil"[..] } else { b"" };
                builder.append(&header(name, *kind, link), content).unwrap();
            }
        });
        let report = sent(DIRECTORY, content, &inside).await;
        assert!(report.result.is_err(), "{what}");
        assert_eq!(fs::read_dir(&inside).unwrap().count(), 0, "{what}: nothing is left");
        assert!(!root.path().join("a/x").exists() && !root.path().join("x").exists(), "{what}");
        assert_eq!(fs::metadata(root.path().join("outside")).unwrap().len(), 9, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn harmless_entries_arrive_without_special_modes() {
    let root = tempfile::tempdir().unwrap();
    let content = archive(|builder| {
        builder.append(&header("sub/x", EntryType::Regular, ""), &b"good"[..]).unwrap();
        builder.append(&header("l", EntryType::Symlink, "sub/x"), io::empty()).unwrap();
    });
    let report = sent(DIRECTORY, content, root.path()).await;
    report.result.unwrap();
    assert_eq!(fs::read(root.path().join("tree/l")).unwrap(), b"good");
    let mode = fs::metadata(root.path().join("tree/sub/x")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755, "no setuid");
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_beyond_announced_or_allowed_size_are_refused() {
    let root = tempfile::tempdir().unwrap();
    for (note, length, told) in [
        (r#"{"kind":"file","name":"x","bytes":2000000}"#, 4, "max-size"),
        (r#"{"kind":"file","name":"x","bytes":4}"#, 2_000_000, "max-size"),
        (r#"{"kind":"file"}"#, 4, "no name"),
        (r#"{"kind":"door","name":"x"}"#, 4, "not a note"),
        ("", 4, "not a note"),
    ] {
        let report = sent(note, vec![7; length], root.path()).await;
        let error = report.result.unwrap_err().to_string();
        assert!(error.contains(told), "{note}: {error}");
        assert!(!root.path().join("x").exists());
    }
}

/// An archive of two files of 300 000 bytes each.
fn two_files() -> Vec<u8> {
    archive(|builder| {
        for name in ["one", "two"] {
            let mut header = header(name, EntryType::Regular, "");
            header.set_size(300_000);
            header.set_cksum();
            builder.append(&header, &bytes(1, 300_000)[..]).unwrap();
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn directory_on_a_full_disk_can_be_continued() {
    let Some((_disk, root)) = small_disk() else { return };
    fs::write(root.join("other"), vec![1; 600_000]).unwrap();
    let error = sent(DIRECTORY, two_files(), &root).await.result.unwrap_err().to_string();
    assert!(error.contains("No space left"), "{error}");
    assert_eq!(names(&root), ["other", "tree.part", "tree.part.index"]);
    fs::remove_file(root.join("other")).unwrap();
    let report = sent(DIRECTORY, two_files(), &root).await;
    report.result.unwrap();
    assert!(report.resumed_bytes > 300_000, "{}", report.resumed_bytes);
    assert_eq!(names(&root), ["tree"]);
    assert_eq!(fs::read(root.join("tree/two")).unwrap(), bytes(1, 300_000));
}

#[test]
fn sender_is_known_again_by_what_its_note_says() {
    let living = runtime();
    let root = tempfile::tempdir().unwrap();
    let listener = Listener::bind("127.0.0.1:0", ListenOptions::default());
    let listener = living.block_on(listener).unwrap();
    let route = Route::to(&[], &listener.local_addr().to_string()).unwrap();
    let progress = Arc::new(Progress::default());
    let receiving = {
        let (progress, request) = (Arc::clone(&progress), receive(listener, root.path()));
        living.spawn(async move { request.run(&progress, || (), std::future::pending()).await })
    };
    // A runtime that ends takes its connections along, as a process does that is killed.
    let killed = runtime();
    let length = two_files().len();
    let note = format!(r#"{{"kind":"directory","name":"tree","bytes":{length},"modified_ns":1}}"#);
    killed.block_on(async {
        let options = Options { note: note.into_bytes(), ..Options::default() };
        let window = Outgoing::Window(Window::default());
        let session = Session::send(vec![route.clone()], window, options);
        session.write(&two_files()[..400_000]).await.unwrap();
        while progress.held() < 300_000 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        std::mem::forget(session);
    });
    killed.shutdown_background();
    let note = format!(
        r#"{{ "modified_ns": 1, "bytes": {length}, "name": "tree", "kind": "directory" }}"#
    );
    let report = living.block_on(async {
        // It is refused while the receiver has not noticed yet that the first one is gone.
        for _ in 0..50 {
            let session = send(&note, two_files(), route.clone());
            while let Ok(Some(_)) = session.chunk().await {}
            if receiving.is_finished() || session.sent().await.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::timeout(Duration::from_secs(10), receiving).await.unwrap().unwrap()
    });
    report.result.unwrap();
    assert!(report.resumed_bytes >= 300_000, "{}", report.resumed_bytes);
    assert_eq!(names(root.path()), ["tree"]);
}
