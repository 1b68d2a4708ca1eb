// SPDX-License-Identifier: GPL-2.0-or-later
//! Files and ranges that are read into memory: the right bytes of one version, or an error.

use crate::common::{bytes, quick, repr_digest, runtime};
use longhaul_transfer::{Client, Error, Found, Options, Version};
use std::{ops::Range, time::Duration};
use testkit::http_server::{Conn, Request, Server};
use units::Bytes;

const LENGTH: usize = 300_000;
const TAG: (&str, &str) = ("ETag", "\"a\"");

/// Answers as servers do: the range that is asked for, or the whole.
fn serve(request: &Request, conn: &mut Conn, data: &[u8], fields: &[(&str, &str)]) {
    let Some((start, end)) = request.range() else {
        return conn.answer("200 OK", fields, data);
    };
    let end = end.unwrap_or(data.len()).min(data.len());
    let range = format!("bytes {start}-{}/{}", end - 1, data.len());
    let fields = [fields, &[("Content-Range", range.as_str())]].concat();
    conn.answer("206 Partial Content", &fields, &data[start..end]);
}

fn url(server: &Server) -> String {
    format!("http://{}/file.bin", server.address)
}

fn client() -> Client {
    Client::new(quick()).unwrap()
}

fn find(url: &str) -> Result<Found, Error> {
    runtime().block_on(client().find(url))
}

fn version(url: &str) -> Version {
    find(url).unwrap().version.expect("ranges with a strong validator")
}

fn range(url: &str, version: &Version, range: Range<u64>) -> Result<Vec<u8>, Error> {
    let client = client();
    let read = client.read_range(url, version, range);
    runtime().block_on(async { tokio::time::timeout(Duration::from_secs(30), read).await }).unwrap()
}

fn whole(url: &str, most: u64) -> Result<Vec<u8>, Error> {
    runtime().block_on(client().read(url, Bytes::new(most)))
}

#[test]
fn any_range_of_a_file_and_the_whole() {
    let data = bytes(1, LENGTH);
    let copy = data.clone();
    let server = Server::start(move |_, request, conn| serve(request, conn, &copy, &[TAG]));
    let url = url(&server);
    let found = find(&url).unwrap();
    assert_eq!((found.bytes, found.etag.as_deref()), (Some(LENGTH as u64), Some("\"a\"")));
    let version = found.version.unwrap();
    let last = LENGTH as u64;
    for asked in [0..1, 0..last, 7..8, last - 1..last, 1000..200_000, 5..5] {
        let place = asked.start as usize..asked.end as usize;
        assert!(range(&url, &version, asked.clone()).unwrap() == data[place], "{asked:?}");
    }
    assert!(whole(&url, last).unwrap() == data);
    // Each asks for that version alone.
    let asked = server.requests.lock().unwrap();
    let ranges = || asked.iter().filter(|request| request.field("range") != "bytes=0-0");
    assert!(ranges().filter(|it| it.range().is_some()).all(|it| it.field("if-range") == "\"a\""));
}

#[test]
fn broken_range_goes_on_where_it_broke() {
    let data = bytes(2, LENGTH);
    let copy = data.clone();
    let server = Server::start(move |number, request, conn| {
        let (start, end) = request.range().unwrap();
        let end = end.unwrap_or(LENGTH);
        if number == 0 || number > 2 {
            return serve(request, conn, &copy, &[TAG]);
        }
        let of = format!("bytes {start}-{}/{LENGTH}", end - 1);
        let length = (end - start).to_string();
        conn.head("206 Part", &[TAG, ("Content-Range", &of), ("Content-Length", &length)]);
        conn.send(&copy[start..start + 70_000]);
        if number == 2 {
            conn.reset();
        }
    });
    let url = url(&server);
    let version = version(&url);
    assert!(range(&url, &version, 1000..290_000).unwrap() == data[1000..290_000]);
    let asked = server.requests.lock().unwrap();
    let starts: Vec<usize> = asked.iter().map(|request| request.range().unwrap().0).collect();
    // What is held is compared: the last 64 KiB of it.
    assert_eq!(starts[..3], [0, 1000, 71_000 - 65_536]);
    assert!(starts[3] > starts[2], "{starts:?}");
}

#[test]
fn another_version_never_gets_among_the_bytes() {
    let (old, new) = (bytes(3, LENGTH), bytes(4, LENGTH));
    // By tag, by length, by tag in the middle, and by other bytes under the same tag.
    for way in 0..4 {
        let (old, new) = (old.clone(), new.clone());
        let server = Server::start(move |number, request, conn| match (number, way) {
            (0, _) => serve(request, conn, &old, &[TAG]),
            (_, 0) => serve(request, conn, &new, &[("ETag", "\"b\"")]),
            (_, 1) => serve(request, conn, &new[..LENGTH - 1], &[TAG]),
            (1, _) => {
                let length = (LENGTH - 1000).to_string();
                let of = format!("bytes 1000-{}/{LENGTH}", LENGTH - 1);
                conn.head("206 Part", &[TAG, ("Content-Range", &of), ("Content-Length", &length)]);
                conn.send(&old[1000..90_000]);
            }
            (_, 2) => serve(request, conn, &new, &[("ETag", "\"b\"")]),
            _ => serve(request, conn, &new, &[TAG]),
        });
        let url = url(&server);
        let version = version(&url);
        let error = range(&url, &version, 1000..LENGTH as u64).unwrap_err();
        assert!(matches!(error, Error::Range(_)), "way {way}: {error}");
        assert!(error.to_string().contains("open it again"), "{error}");
    }
}

#[test]
fn server_that_answers_a_range_with_anything_else_is_found_out() {
    let data = bytes(5, LENGTH);
    for way in 0..4 {
        let copy = data.clone();
        let server = Server::start(move |number, request, conn| match (number, way) {
            (0, _) => serve(request, conn, &copy, &[TAG]),
            (_, 0) => conn.answer("200 OK", &[TAG], &copy),
            (_, 1) => conn.answer("200 OK", &[TAG], &copy[1000..2000]),
            (_, 2) => {
                let fields = [TAG, ("Content-Range", "bytes 2000-2999/300000")];
                conn.answer("206 Part", &fields, &copy[2000..3000]);
            }
            _ => conn.answer("416 Range", &[("Content-Range", "bytes */10")], b""),
        });
        let url = url(&server);
        let version = version(&url);
        let error = range(&url, &version, 1000..2000).unwrap_err();
        assert!(matches!(error, Error::Range(_)), "way {way}: {error}");
    }
}

#[test]
fn ranges_take_a_strong_validator() {
    let data = bytes(6, 1000);
    let weak: [&[(&str, &str)]; 3] =
        [&[("ETag", "W/\"a\"")], &[], &[("Last-Modified", "yesterday")]];
    for fields in weak {
        let copy = data.clone();
        let server = Server::start(move |_, request, conn| serve(request, conn, &copy, fields));
        let found = find(&url(&server)).unwrap();
        assert_eq!(found.bytes, Some(1000));
        assert!(found.version.is_none(), "{fields:?}");
        assert!(whole(&url(&server), 1000).unwrap() == data);
    }
    let copy = data.clone();
    let without = Server::start(move |_, _, conn| conn.answer("200 OK", &[TAG], &copy));
    let found = find(&url(&without)).unwrap();
    assert!(found.bytes == Some(1000) && found.version.is_none());
}

#[test]
fn empty_files_and_missing_ones() {
    let empty = Server::start(|_, request, conn| match request.range() {
        Some(_) => conn.answer("416 Range", &[TAG, ("Content-Range", "bytes */0")], b""),
        None => conn.answer("200 OK", &[TAG], b""),
    });
    assert_eq!(find(&url(&empty)).unwrap().bytes, Some(0));
    assert_eq!(whole(&url(&empty), 10).unwrap(), b"");
    let missing = Server::start(|_, _, conn| conn.answer("404 Not Found", &[], b"no such file"));
    for error in [find(&url(&missing)).unwrap_err(), whole(&url(&missing), 10).unwrap_err()] {
        assert!(matches!(error, Error::Status { status, .. } if status == 404), "{error}");
    }
    assert!(matches!(find("ftp://127.0.0.1/x"), Err(Error::Usage(_))));
}

#[test]
fn wrong_digest_is_never_returned() {
    let (data, other) = (bytes(7, LENGTH), bytes(8, LENGTH));
    let digest = repr_digest(&data);
    let server = Server::start(move |_, request, conn| {
        serve(request, conn, &other, &[TAG, ("Repr-Digest", &digest)]);
    });
    let error = whole(&url(&server), LENGTH as u64).unwrap_err();
    assert!(matches!(error, Error::Digest { .. }), "{error}");
    let digest = repr_digest(&data);
    let copy = data.clone();
    let server = Server::start(move |number, request, conn| match number {
        // The first breaks, so that the digest takes what is held.
        0 => {
            let length = LENGTH.to_string();
            conn.head("200 OK", &[TAG, ("Repr-Digest", &digest), ("Content-Length", &length)]);
            conn.send(&copy[..100_000]);
        }
        _ => serve(request, conn, &copy, &[TAG, ("Repr-Digest", &digest)]),
    });
    assert!(whole(&url(&server), LENGTH as u64).unwrap() == data);
}

#[test]
fn memory_is_bounded_whatever_the_server_sends() {
    // It says how much is too much, or says nothing and sends for ever.
    for says in [true, false] {
        let server = Server::start(move |_, _, conn| {
            let length = (1_u64 << 40).to_string();
            let framing = if says { ("Content-Length", &*length) } else { ("X", "y") };
            conn.head("200 OK", &[TAG, framing]);
            while conn.send([0; 10_000]) {}
        });
        let error = whole(&url(&server), 1_000_000).unwrap_err();
        assert!(matches!(error, Error::TooLargeForMemory(_)), "{error}");
    }
    // More than the range that was asked for.
    let server = Server::start(|number, request, conn| {
        if number == 0 {
            return serve(request, conn, &vec![0; LENGTH], &[TAG]);
        }
        conn.head("206 Part", &[TAG, ("Content-Range", "bytes 0-9/300000")]);
        while conn.send([0; 10_000]) {}
    });
    let version = version(&url(&server));
    assert!(range(&url(&server), &version, 0..10).is_err());
}

#[test]
fn version_of_another_file_is_refused() {
    let server = Server::start(|_, request, conn| serve(request, conn, &[1; 1000], &[TAG]));
    let version = version(&url(&server));
    let other = format!("http://{}/other.bin", server.address);
    assert!(matches!(range(&other, &version, 0..10), Err(Error::Range(_))));
}

#[test]
fn silent_server_ends_with_an_error() {
    let server = Server::start(|_, _, conn| conn.hang(Duration::from_secs(20)));
    let options = Options { retries: 1, connect_timeout: Duration::from_millis(300), ..quick() };
    let client = Client::new(options).unwrap();
    let error = runtime().block_on(client.find(&url(&server))).unwrap_err();
    assert!(matches!(error, Error::Stalled(_)), "{error}");
}
