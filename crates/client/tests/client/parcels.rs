// SPDX-License-Identifier: GPL-2.0-or-later
//! What a sender that means harm can do to a receiver.

use longhaul_client::{
    Error, Progress,
    parcel::{Origin, Output, ParcelReport, ReceiveRequest},
};
use lsl::{ListenOptions, Listener, Options, Outgoing, Route, Session, Stored};
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
    let options = Options { note: note.into(), ..Options::default() };
    let outgoing = Outgoing::Stored(Arc::new(Content(content)));
    let session = Session::send(vec![route], outgoing, options);
    let request = ReceiveRequest {
        origin: Origin::Listener(listener, None),
        output: Output::Directory(directory.to_owned()),
        overwrite: false,
        max_size: Some(Bytes::new(1 << 20)),
        options: Options { patience: Duration::from_secs(5), ..Options::default() },
    };
    let progress = Arc::new(Progress::default());
    let run = request.run(&progress, || (), std::future::pending());
    let hear = async { while let Ok(Some(_)) = session.chunk().await {} };
    tokio::join!(run, hear).0
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
    let evil: [(&str, &[BadEntry<'_>]); 9] = [
        ("parent", &[("../x", regular, "")]),
        ("absolute", &[("/tmp/longhaul-x", regular, "")]),
        ("hidden parent", &[("a/../../x", regular, "")]),
        ("link out", &[("l", EntryType::Symlink, "../../..")]),
        ("absolute link", &[("l", EntryType::Symlink, "/etc")]),
        ("link by a link", &[("d", EntryType::Symlink, "."), ("l", EntryType::Symlink, "d/../..")]),
        ("through a link", &[("d", EntryType::Symlink, "."), ("d/x", regular, "")]),
        ("hard link out", &[("h", EntryType::Link, "../../outside")]),
        ("device", &[("dev", EntryType::Char, "")]),
    ];
    for (what, entries) in evil {
        let root = tempfile::tempdir().unwrap();
        let inside = root.path().join("a/b");
        fs::create_dir_all(&inside).unwrap();
        fs::write(root.path().join("outside"), "untouched").unwrap();
        let content = archive(|builder| {
            for (name, kind, link) in entries {
                builder.append(&header(name, *kind, link), &b"evil"[..]).unwrap();
            }
        });
        let report = sent(DIRECTORY, content, &inside).await;
        assert!(report.result.is_err(), "{what}");
        assert!(!inside.join("tree").exists(), "{what}");
        assert!(!root.path().join("a/x").exists() && !root.path().join("x").exists(), "{what}");
        assert_eq!(fs::metadata(root.path().join("outside")).unwrap().len(), 9, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_harmless_arrives_without_special_modes() {
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
async fn more_than_was_said_or_is_allowed_is_not_taken() {
    let root = tempfile::tempdir().unwrap();
    for (note, length, told) in [
        (r#"{"kind":"file","name":"x","bytes":2000000}"#, 4, "max-size"),
        (r#"{"kind":"file","name":"x","bytes":4}"#, 2_000_000, "max-size"),
        (r#"{"kind":"file"}"#, 4, "no name"),
        (r#"{"kind":"door","name":"x"}"#, 4, "no note"),
        ("", 4, "no note"),
    ] {
        let report = sent(note, vec![7; length], root.path()).await;
        let error = report.result.unwrap_err().to_string();
        assert!(error.contains(told), "{note}: {error}");
        assert!(!root.path().join("x").exists());
    }
}
