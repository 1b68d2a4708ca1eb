// SPDX-License-Identifier: GPL-2.0-or-later
//! The disk: full, shared with others, or with something else in the part's place.

use crate::common::{bytes, failure, get, names, quick, request};
use longhaul_transfer::{Error, Options};
use rustix::{
    fd::{AsRawFd, OwnedFd},
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount,
        fsopen,
    },
};
use std::{fs, os::unix::fs::symlink, path::PathBuf, process::Command, thread, time::Duration};
use testkit::http_server::Server;

/// A file system of 1 MB that no other process sees. Takes root.
pub fn small_disk() -> Option<(OwnedFd, PathBuf)> {
    let mount = || -> rustix::io::Result<OwnedFd> {
        let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_string(&context, "size", "1m")?;
        fsconfig_create(&context)?;
        fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
    };
    match mount() {
        Ok(disk) => {
            let path = format!("/proc/self/fd/{}", disk.as_raw_fd()).into();
            Some((disk, path))
        }
        Err(error) => {
            println!("SKIPPED: a small tmpfs cannot be mounted, which requires root: {error}");
            None
        }
    }
}

#[test]
fn full_disk_is_reported_early_for_known_lengths() {
    let Some((_disk, directory)) = small_disk() else { return };
    let server = Server::start(|_, _, conn| conn.answer("200 OK", &[], &bytes(1, 2_000_000)));
    let report = get(quick(), request(&server.url("/f"), &directory.join("f")));
    assert!(matches!(report.result, Err(Error::NoSpace { .. })), "{report:?}");
    assert!(failure(&report).contains("2000000 bytes needed"), "{}", failure(&report));
    assert_eq!(names(&directory), [""; 0]);
}

#[test]
fn full_disk_keeps_a_resumable_part() {
    let Some((_disk, directory)) = small_disk() else { return };
    let data = bytes(2, 900_000);
    let sent = data.clone();
    let server = Server::start(move |_, request, conn| match request.range() {
        None => {
            conn.head("200 OK", &[("Transfer-Encoding", "chunked"), ("ETag", "\"a\"")]);
            conn.send(format!("{:x}\r\n", sent.len()));
            conn.send(&sent);
            conn.send("\r\n0\r\n\r\n");
        }
        Some((from, _)) => {
            let range = format!("bytes {from}-{}/{}", sent.len() - 1, sent.len());
            let fields = [("ETag", "\"a\""), ("Content-Range", range.as_str())];
            conn.answer("206 Part", &fields, &sent[from..]);
        }
    });
    let other = directory.join("other");
    fs::write(&other, vec![1; 600_000]).unwrap();
    let file = directory.join("f");
    let report = get(quick(), request(&server.url("/f"), &file));
    let error = failure(&report);
    assert!(error.contains("f.part") && error.contains("No space left"), "{error}");
    assert_eq!(report.attempts, 1);
    assert_eq!(names(&directory), ["f.part", "f.part.json", "other"]);
    fs::remove_file(other).unwrap();
    let report = get(quick(), request(&server.url("/f"), &file));
    assert!(report.result.is_ok() && report.resumed_bytes > 200_000, "{report:?}");
    assert_eq!(fs::read(&file).unwrap(), data);
}

#[test]
fn second_transfer_of_a_file_is_refused_during_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(|_, _, conn| {
        conn.head("200 OK", &[("Content-Length", "10")]);
        conn.send("01234");
        thread::sleep(Duration::from_millis(400));
        conn.send("56789");
    });
    let (url, file) = (server.url("/f"), directory.path().join("f"));
    let patient = Options { stall_time: Duration::from_secs(5), ..quick() };
    let first = thread::spawn({
        let request = request(&url, &file);
        move || get(patient, request)
    });
    while !directory.path().join("f.part").exists() {
        thread::sleep(Duration::from_millis(5));
    }
    thread::sleep(Duration::from_millis(100));
    let second = get(quick(), request(&url, &file));
    assert!(matches!(second.result, Err(Error::Locked(_))), "{second:?}");
    assert!(first.join().unwrap().result.is_ok());
    assert_eq!(fs::read(&file).unwrap(), b"0123456789");
    assert_eq!(names(directory.path()), ["f"]);
}

#[test]
fn links_and_devices_in_the_parts_place_are_refused() {
    let server = Server::start(|_, _, conn| conn.answer("200 OK", &[], b"bytes"));
    for kind in ["symlink", "hard link", "fifo", "directory"] {
        let directory = tempfile::tempdir().unwrap();
        let victim = directory.path().join("victim");
        fs::write(&victim, b"mine").unwrap();
        let part = directory.path().join("f.part");
        match kind {
            "symlink" => symlink(&victim, &part).unwrap(),
            "hard link" => fs::hard_link(&victim, &part).unwrap(),
            "fifo" => assert!(Command::new("mkfifo").arg(&part).status().unwrap().success()),
            _ => fs::create_dir(&part).unwrap(),
        }
        let file = directory.path().join("f");
        let report = get(quick(), request(&server.url("/f"), &file));
        assert!(failure(&report).contains("f.part"), "{kind}: {report:?}");
        assert_eq!(fs::read(&victim).unwrap(), b"mine", "{kind}");
        assert!(!file.exists());
    }
}

#[test]
fn symlink_in_the_sidecars_place_is_not_followed() {
    let server = Server::start(|_, _, conn| conn.answer("200 OK", &[], b"bytes"));
    let directory = tempfile::tempdir().unwrap();
    let victim = directory.path().join("victim");
    fs::write(&victim, b"mine").unwrap();
    symlink(&victim, directory.path().join("f.part.json")).unwrap();
    symlink(&victim, directory.path().join("f.part.json~")).unwrap();
    let file = directory.path().join("f");
    assert!(get(quick(), request(&server.url("/f"), &file)).result.is_ok());
    assert_eq!(fs::read(&victim).unwrap(), b"mine");
    assert_eq!(fs::read(&file).unwrap(), b"bytes");
}

#[test]
fn missing_directory_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("no/f");
    let report = get(quick(), request("http://127.0.0.1:1/f", &file));
    assert!(failure(&report).contains("no/f.part"), "{}", failure(&report));
}

#[test]
fn nonsense_in_the_sidecar_is_a_fresh_start() {
    let whole = r#"{"version":1,"url":"URL","etag":"\"a\"","last_modified":null,"settled":false,
        "total":10,"digest":null,"encoding":null,"done":DONE}"#;
    let done = ["[[0,9000]]", "[[5,2]]", "[[0,18446744073709551615]]", "7"];
    let cases = done.map(|done| whole.replace("DONE", done)).into_iter();
    let cases =
        cases.chain([String::new(), "{}".into(), whole.replace("DONE", "[]").replace('1', "2")]);
    for text in cases {
        let server = Server::start(|_, request, conn| {
            assert_eq!(request.field("range"), "");
            conn.answer("200 OK", &[("ETag", "\"a\"")], b"0123456789");
        });
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("f");
        fs::write(directory.path().join("f.part"), b"01234").unwrap();
        let text = text.replace("URL", &server.url("/f"));
        fs::write(directory.path().join("f.part.json"), &text).unwrap();
        let report = get(quick(), request(&server.url("/f"), &file));
        assert!(report.result.is_ok(), "{text}: {report:?}");
        assert_eq!(fs::read(&file).unwrap(), b"0123456789");
    }
}
