// SPDX-License-Identifier: GPL-2.0-or-later
//! What a file or directory keeps on its way: contents that `stat` does not announce, permissions, dates and holes.

use crate::{common::runtime, parcels::receive};
use longhaul_transfer::{
    Error, Progress,
    parcel::{Goal, Parcel, ParcelReport, SendRequest},
};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps};
use session::{ListenOptions, Listener, Options, Outgoing, Route, Session, Window};
use std::{
    fs::{self, File, Metadata, Permissions},
    io::Write,
    os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink},
    path::Path,
    sync::Arc,
    time::Duration,
};
use tar::{Builder, EntryType, Header};
use units::Bytes;

/// Sends a file or directory to a receiver in a directory; with the reports of both.
fn transfer(from: &Path, to: &Path) -> [ParcelReport; 2] {
    runtime().block_on(async {
        let listener = Listener::bind("127.0.0.1:0", ListenOptions::default()).await.unwrap();
        let route = Route::to(&[], &listener.local_addr().to_string()).unwrap();
        let mut receiving = receive(listener, to);
        receiving.max_size = Some(Bytes::new(1 << 30));
        let sending = SendRequest {
            receipts: false,
            parcel: Parcel::Path(from.to_owned()),
            name: None,
            folder: None,
            goal: Goal::Listener(vec![route], None),
            options: Options { patience: Duration::from_secs(5), ..Options::default() },
        };
        let (here, there) = (Arc::new(Progress::default()), Arc::new(Progress::default()));
        // A sender that fails leaves the receiver alone, which would wait for another one.
        let sent = sending.run(&here, std::future::pending());
        let received = receiving.run(&there, || (), tokio::time::sleep(Duration::from_secs(60)));
        tokio::join!(sent, received).into()
    })
}

/// A transfer that must arrive.
fn arrive(from: &Path, to: &Path) {
    for report in transfer(from, to) {
        report.result.unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    }
}

fn set_date(path: &Path, tv_sec: i64, tv_nsec: i64) {
    let date = Timespec { tv_sec, tv_nsec };
    let times = Timestamps { last_access: date, last_modification: date };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

fn look(path: &Path) -> Metadata {
    fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn contents_that_stat_does_not_announce_arrive() {
    // Their length by stat is 0 and 4096.
    for path in ["/proc/version", "/sys/kernel/mm/transparent_hugepage/enabled"] {
        let (from, to) = (Path::new(path), tempfile::tempdir().unwrap());
        if from.exists() {
            arrive(from, to.path());
            let name = from.file_name().unwrap();
            assert_eq!(fs::read(to.path().join(name)).unwrap(), fs::read(from).unwrap());
        }
    }
    let (from, to) = (Path::new("/proc/sys/fs/inotify"), tempfile::tempdir().unwrap());
    arrive(from, to.path());
    let files: Vec<_> = fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!files.is_empty());
    for file in files {
        let there = to.path().join("inotify").join(file.file_name().unwrap());
        let content = fs::read(&file).unwrap();
        assert!(!content.is_empty() && fs::read(&there).unwrap() == content, "{}", there.display());
    }
}

#[test]
fn file_that_grows_while_it_is_sent_is_noticed() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = from.path().join("log");
    for content in [&b""[..], b"some"] {
        fs::write(&path, content).unwrap();
        let (stop, growing) = (Arc::new(()), path.clone());
        let goes_on = Arc::downgrade(&stop);
        let writer = std::thread::spawn(move || {
            let mut file = File::options().append(true).open(growing).unwrap();
            while goes_on.strong_count() > 0 {
                file.write_all(b"more").unwrap();
            }
        });
        // A busy machine may let the writer wait for a whole transfer, which then is right.
        let is_noticed = (0..100).any(|_| {
            let [sent, _] = transfer(&path, to.path());
            let _ = fs::remove_file(to.path().join("log"));
            match sent.result {
                Err(Error::SourceChanged { .. }) => true,
                Ok(()) => false,
                Err(error) => panic!("{error}"),
            }
        });
        drop(stop);
        writer.join().unwrap();
        assert!(is_noticed);
    }
}

#[test]
fn directory_keeps_its_own_mode_and_all_dates() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = from.path().join("tree");
    fs::create_dir_all(root.join("sub")).unwrap();
    let long = "n".repeat(150);
    let dates = [
        ("old", -86_401, 500_000_000),
        ("just-before", -1, 999_999_999),
        ("epoch", 0, 0),
        ("fraction", 1_600_000_000, 123_456_789),
        ("far", 9_000_000_000, 1),
        (long.as_str(), 1_700_000_000, 1),
        ("sub", -2_000_000_000, 3),
    ];
    for (name, ..) in dates {
        if name != "sub" {
            fs::write(root.join(name), name).unwrap();
        }
    }
    symlink("old", root.join("link")).unwrap();
    for (name, seconds, nanoseconds) in dates.into_iter().chain([("link", -5, 7)]) {
        set_date(&root.join(name), seconds, nanoseconds);
    }
    for (mode, seconds, nanoseconds) in [(0o700, -1_000_000, 250), (0o2751, 1_500_000_000, 42)] {
        fs::set_permissions(&root, Permissions::from_mode(mode)).unwrap();
        set_date(&root, seconds, nanoseconds);
        arrive(&root, to.path());
        let there = to.path().join("tree");
        for name in dates.map(|(name, ..)| name).into_iter().chain(["", "link"]) {
            let (here, there) = (look(&root.join(name)), look(&there.join(name)));
            let date = |data: &Metadata| (data.mtime(), data.mtime_nsec());
            assert_eq!(date(&there), date(&here), "{name:?}");
            let mode = here.mode() & if here.is_symlink() { !0 } else { !0o7000 };
            assert_eq!(there.mode(), mode, "{name:?}");
        }
        fs::remove_dir_all(there).unwrap();
    }
    // Of single files.
    for (name, seconds, nanoseconds) in dates.into_iter().filter(|(name, ..)| *name != "sub") {
        arrive(&root.join(name), to.path());
        let there = look(&to.path().join(name));
        assert_eq!((there.mtime(), there.mtime_nsec()), (seconds, nanoseconds), "{name}");
    }
}

/// Sends the first bytes of a stream, looks at what the receiver has, and sends the others.
fn look_meanwhile((note, part): (&str, &str), stream: &[u8], to: &Path, look: impl Fn()) {
    runtime().block_on(async {
        let listener = Listener::bind("127.0.0.1:0", ListenOptions::default()).await.unwrap();
        let route = Route::to(&[], &listener.local_addr().to_string()).unwrap();
        let options = Options { note: note.into(), ..Options::default() };
        let session = Session::send(vec![route], Outgoing::Window(Window::default()), options);
        let progress = Arc::new(Progress::default());
        let receiving = {
            let (progress, request) = (Arc::clone(&progress), receive(listener, to));
            tokio::spawn(async move { request.run(&progress, || (), std::future::pending()).await })
        };
        let (first, rest) = stream.split_at(stream.len() / 2);
        session.write(first).await.unwrap();
        // What has come is written by another thread.
        let is_written = || fs::metadata(to.join(part)).is_ok_and(|part| part.len() > 0);
        while progress.held() < first.len() as u64 || !is_written() {
            assert!(!receiving.is_finished());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        look();
        session.write(rest).await.unwrap();
        session.end();
        while let Ok(Some(_)) = session.chunk().await {}
        receiving.await.unwrap().result.unwrap();
    });
}

#[test]
fn what_arrives_is_private_until_it_is_complete() {
    let root = tempfile::tempdir().unwrap();
    let mode = |name: &str| look(&root.path().join(name)).mode() & 0o7777;
    let mut builder = Builder::new(Vec::new());
    for name in ["one", "sub/two"] {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_mtime(1);
        header.set_size(100_000);
        builder.append_data(&mut header, name, &*vec![7; 100_000]).unwrap();
    }
    let archive = builder.into_inner().unwrap();
    for (part, last) in [("0700", 0o700), ("0755", 0o755)] {
        let bits = u32::from_str_radix(part, 8).unwrap();
        let note = format!(r#"{{"kind":"directory","name":"tree","mode":{bits}}}"#);
        // Also what an earlier version has left.
        fs::write(root.path().join("tree.part.index"), "").unwrap();
        look_meanwhile((&note, "tree.part/one"), &archive, root.path(), || {
            assert_eq!((mode("tree.part"), mode("tree.part.index")), (0o700, 0o600));
        });
        assert_eq!(mode("tree"), last);
        fs::remove_dir_all(root.path().join("tree")).unwrap();
        let note = format!(r#"{{"kind":"file","name":"file","mode":{bits}}}"#);
        fs::write(root.path().join("file.part"), "").unwrap();
        look_meanwhile((&note, "file.part"), &archive, root.path(), || {
            assert_eq!(mode("file.part"), 0o600);
        });
        assert_eq!(mode("file"), last);
        fs::remove_file(root.path().join("file")).unwrap();
    }
}

#[test]
fn sparse_files_arrive_sparse() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = from.path().join("tree");
    fs::create_dir(&root).unwrap();
    let path = root.join("sparse");
    let file = File::create(&path).unwrap();
    for (offset, bytes) in [(10_000_000, &b"first"[..]), (30_000_001, b"second")] {
        file.write_all_at(bytes, offset).unwrap();
    }
    file.set_len(50_000_000).unwrap();
    // Another entry before it, so that its blocks are not those of the stream.
    fs::write(root.join("a"), "a").unwrap();
    arrive(&path, to.path());
    arrive(&root, to.path());
    for there in ["sparse", "tree/sparse"] {
        let there = to.path().join(there);
        let data = look(&there);
        assert_eq!(data.len(), 50_000_000);
        assert!(data.blocks() * 512 <= 65_536, "{} blocks", data.blocks());
        assert!(fs::read(&there).unwrap() == fs::read(&path).unwrap());
    }
}
