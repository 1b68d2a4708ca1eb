// SPDX-License-Identifier: GPL-2.0-or-later
//! Resuming, where the server answers the second request in one wrong way each.

use crate::common::{bytes, failure, get, names, quick, repr_digest, request};
use longhaul_transfer::Options;
use std::fs;
use testkit::http_server::{Conn, Request, Server};

const LENGTH: usize = 300_000;
const CUT: usize = 200_000;

/// Sends the first part of `first`, then answers ranges by `second`.
fn after_a_break(
    fields: &'static [(&'static str, &'static str)],
    second: impl Fn(&Request, &mut Conn, usize) + Send + Sync + 'static,
) -> Server {
    Server::start(move |number, request, conn| {
        let data = bytes(9, LENGTH);
        match (number, request.range()) {
            (0, _) => {
                let length = LENGTH.to_string();
                conn.head("200 OK", &[fields, &[("Content-Length", length.as_str())]].concat());
                conn.send(&data[..CUT]);
            }
            (_, Some((from, _))) => second(request, conn, from),
            (_, None) => conn.answer("200 OK", fields, &data),
        }
    })
}

fn part(conn: &mut Conn, from: usize, total: usize, fields: &[(&str, &str)], data: &[u8]) {
    let range = format!("bytes {from}-{}/{total}", from + data.len() - 1);
    conn.answer("206 Part", &[fields, &[("Content-Range", range.as_str())]].concat(), data);
}

/// Runs a transfer, and gives the ranges that were asked for.
fn ranges(server: &Server) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("f");
    let report = get(quick(), request(&server.url("/f"), &file));
    assert!(report.result.is_ok(), "{report:?}");
    assert_eq!(fs::read(&file).unwrap(), bytes(9, LENGTH));
    assert_eq!(names(directory.path()), ["f"]);
    server.asked().iter().map(|request| request.field("range").to_owned()).collect()
}

const RESUMED: &str = "bytes=134464-";
const TAG: (&str, &str) = ("ETag", "\"a\"");

#[test]
fn good_range_continues() {
    let server = after_a_break(&[TAG], |_, conn, from| {
        part(conn, from, LENGTH, &[TAG], &bytes(9, LENGTH)[from..]);
    });
    assert_eq!(ranges(&server), ["", RESUMED]);
}

#[test]
fn short_ranges_continue() {
    let server = after_a_break(&[TAG], |_, conn, from| {
        let end = (from + 90_000).min(LENGTH);
        part(conn, from, LENGTH, &[TAG], &bytes(9, LENGTH)[from..end]);
    });
    // 24464 bytes are new in each: the rest is compared.
    assert_eq!(ranges(&server).len(), 6);
}

#[test]
fn wrong_range_begins_again_without_ranges() {
    let wrong: [fn(&mut Conn, usize, &[u8]); 5] = [
        |conn, from, data| part(conn, from + 1, LENGTH, &[TAG], &data[from + 1..]),
        |conn, _, data| part(conn, 0, LENGTH, &[TAG], data),
        |conn, from, data| conn.answer("206 Part", &[TAG], &data[from..]),
        |conn, from, data| {
            let range = format!("bytes {from}-{}/*", LENGTH - 1);
            conn.answer("206 Part", &[TAG, ("Content-Range", &range)], &data[from..]);
        },
        |conn, from, data| {
            let range = format!("bytes {from}-{}/{LENGTH}", LENGTH - 1);
            conn.answer("206 Part", &[TAG, ("Content-Range", &range)], &data[from + 5..]);
        },
    ];
    for (at, wrong) in wrong.into_iter().enumerate() {
        let server =
            after_a_break(&[TAG], move |_, conn, from| wrong(conn, from, &bytes(9, LENGTH)));
        assert_eq!(ranges(&server), ["", RESUMED, ""], "{at}");
    }
}

#[test]
fn another_version_begins_again() {
    let other: [fn(&mut Conn, usize, &[u8]); 6] = [
        |conn, from, data| part(conn, from, LENGTH, &[("ETag", "\"b\"")], &data[from..]),
        |conn, from, data| part(conn, from, LENGTH, &[], &data[from..]),
        |conn, from, data| part(conn, from, LENGTH + 1, &[TAG], &data[from..]),
        |conn, _, _| conn.answer("416 No", &[("Content-Range", "bytes */10")], b""),
        |conn, from, data| {
            let digest = repr_digest(b"other");
            part(conn, from, LENGTH, &[TAG, ("Repr-Digest", &digest)], &data[from..]);
        },
        |conn, from, data| {
            // Other bytes under the same validator.
            let mut data = data.to_vec();
            data[CUT - 1] ^= 1;
            part(conn, from, LENGTH, &[TAG], &data[from..]);
        },
    ];
    for (at, other) in other.into_iter().enumerate() {
        static DIGEST: std::sync::LazyLock<String> =
            std::sync::LazyLock::new(|| repr_digest(&bytes(9, LENGTH)));
        static FIELDS: std::sync::LazyLock<[(&str, &str); 2]> =
            std::sync::LazyLock::new(|| [TAG, ("Repr-Digest", DIGEST.as_str())]);
        let server =
            after_a_break(&*FIELDS, move |_, conn, from| other(conn, from, &bytes(9, LENGTH)));
        assert_eq!(ranges(&server), ["", RESUMED, ""], "{at}");
    }
}

#[test]
fn whole_instead_of_a_range_is_used_if_its_length_is_known() {
    for (tag, asked) in [(TAG, vec!["", RESUMED]), (("ETag", "\"b\""), vec!["", RESUMED, ""])] {
        let server = after_a_break(&[TAG], move |_, conn, _| {
            conn.answer("200 OK", &[tag], &bytes(9, LENGTH));
        });
        // Another version might be a slice: only the question for the whole tells.
        assert_eq!(ranges(&server), asked);
    }
}

#[test]
fn only_strong_validators_are_resumed_with() {
    let old = ("Last-Modified", "Tue, 01 Jan 2019 00:00:00 GMT");
    let young = ("Date", "Tue, 01 Jan 2019 00:00:30 GMT");
    let late = ("Date", "Tue, 01 Jan 2019 01:00:00 GMT");
    let fields: [(&'static [(&str, &str)], bool); 5] = [
        (Vec::leak(vec![old, late]), true),
        (Vec::leak(vec![old, young]), false),
        (Vec::leak(vec![old]), false),
        (&[("ETag", "W/\"a\"")], false),
        (&[], false),
    ];
    for (fields, resumes) in fields {
        let server = after_a_break(fields, move |request, conn, from| {
            assert_eq!(request.field("if-range"), "Tue, 01 Jan 2019 00:00:00 GMT");
            part(conn, from, LENGTH, fields, &bytes(9, LENGTH)[from..]);
        });
        let asked = ranges(&server);
        assert_eq!(asked[1] == RESUMED, resumes, "{fields:?}");
    }
}

#[test]
fn held_damage_is_found_by_the_digest() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("f");
    let data = bytes(9, LENGTH);
    let (sent, digest) = (data.clone(), repr_digest(&data));
    let server = Server::start(move |number, request, conn| {
        let fields = [TAG, ("Repr-Digest", digest.as_str())];
        match (number, request.range()) {
            (0, _) => {
                let length = LENGTH.to_string();
                conn.head(
                    "200 OK",
                    &[&fields[..], &[("Content-Length", length.as_str())]].concat(),
                );
                conn.send(&sent[..CUT]);
            }
            (_, Some((from, _))) => part(conn, from, LENGTH, &fields, &sent[from..]),
            (_, None) => conn.answer("200 OK", &fields, &sent),
        }
    });
    let broken = get(Options { retries: 0, ..quick() }, request(&server.url("/f"), &file));
    assert!(broken.result.is_err());
    let part = directory.path().join("f.part");
    let mut held = fs::read(&part).unwrap();
    held[5] ^= 1;
    fs::write(&part, held).unwrap();
    let report = get(quick(), request(&server.url("/f"), &file));
    assert!(report.result.is_ok(), "{report:?}");
    assert_eq!(fs::read(&file).unwrap(), data);
    assert_eq!(report.resumed_bytes, 0);
    let asked: Vec<_> = server.asked().iter().map(|r| r.field("range").to_owned()).collect();
    assert_eq!(asked, ["", RESUMED, ""]);
}

#[test]
fn part_of_another_url_is_not_continued() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("f");
    let server = Server::start(|number, _, conn| match number {
        0 => {
            conn.head("200 OK", &[TAG, ("Content-Length", "300000")]);
            conn.send(&bytes(9, LENGTH)[..CUT]);
        }
        _ => conn.answer("200 OK", &[TAG], &bytes(9, LENGTH)),
    });
    let once = Options { retries: 0, ..quick() };
    assert!(get(once, request(&server.url("/f?1"), &file)).result.is_err());
    assert!(get(quick(), request(&server.url("/f?2"), &file)).result.is_ok());
    assert_eq!(server.asked()[1].field("range"), "");
}

#[test]
fn restarts_are_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(|number, _, conn| {
        let tag = format!("\"{number}\"");
        conn.head("200 OK", &[("ETag", &tag), ("Content-Length", "3000000")]);
        conn.send(vec![number as u8; 2_000_000]);
    });
    let file = directory.path().join("f");
    let report = get(quick(), request(&server.url("/f"), &file));
    assert!(report.attempts < 20, "{report:?}");
    assert!(!failure(&report).is_empty() && !file.exists());
}
