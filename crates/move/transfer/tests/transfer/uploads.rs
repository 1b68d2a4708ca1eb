// SPDX-License-Identifier: GPL-2.0-or-later
//! What an upload does with one kind of server each.

use crate::common::{bytes, failure, quick, repr_digest, runtime};
use longhaul_transfer::{Client, Error, Options, Progress, PutRequest, Report, Source, Status};
use std::{
    fs,
    io::{Cursor, Read, Write},
    path::Path,
    sync::Arc,
    thread,
    time::Duration,
};
use testkit::http_server::{Conn, Request, Server};
use units::Rate;

fn put(options: Options, request: PutRequest) -> Report {
    let client = Client::new(options).unwrap();
    let progress = Arc::new(Progress::default());
    let never = std::future::pending();
    let ended = runtime().block_on(async {
        tokio::time::timeout(Duration::from_secs(20), client.put(request, &progress, never)).await
    });
    ended.expect("the upload hangs")
}

fn of_file(url: &str, file: &Path) -> PutRequest {
    let source = Source::File(file.to_owned());
    PutRequest { url: url.to_owned(), source, no_overwrite: false }
}

/// Reads the body by its length, or in chunks.
fn body(request: &Request, conn: &mut Conn) -> Vec<u8> {
    let mut rest = Cursor::new(request.rest.clone()).chain(conn.stream.try_clone().unwrap());
    let mut body = Vec::new();
    if let Ok(length) = request.field("content-length").parse() {
        rest.take(length).read_to_end(&mut body).unwrap();
        return body;
    }
    loop {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            rest.read_exact(&mut byte).unwrap();
            line.extend(byte);
        }
        let length = usize::from_str_radix(std::str::from_utf8(&line).unwrap().trim(), 16).unwrap();
        let mut chunk = vec![0; length + 2];
        rest.read_exact(&mut chunk).unwrap();
        if length == 0 {
            return body;
        }
        body.extend(&chunk[..length]);
    }
}

/// A file of random bytes.
fn file(directory: &Path, length: usize) -> (std::path::PathBuf, Vec<u8>) {
    let (file, data) = (directory.join("f"), bytes(3, length));
    fs::write(&file, &data).unwrap();
    (file, data)
}

#[test]
fn file_whose_length_is_a_hint_is_sent_to_its_end() {
    // Their length by stat is 0 and 4096.
    for path in ["/proc/version", "/sys/kernel/mm/transparent_hugepage/enabled"] {
        let Ok(expected) = fs::read(path) else { continue };
        let server = Server::start(move |number, request, conn| {
            assert_eq!(body(request, conn), expected);
            // A copy can be sent again.
            conn.answer(if number == 0 { "503 Busy" } else { "201 Created" }, &[], b"");
        });
        let report = put(quick(), of_file(&server.url("/f"), Path::new(path)));
        assert_eq!(report.result.unwrap(), Status::Complete, "{path}");
        assert_eq!(report.bytes, fs::read(path).unwrap().len() as u64, "{path}");
        assert_ne!(server.asked()[1].field("content-length"), "0");
    }
}

#[test]
fn file_is_sent_with_length_and_digest() {
    let directory = tempfile::tempdir().unwrap();
    for length in [0, 1, 300_000] {
        let (file, data) = file(directory.path(), length);
        let expected = data.clone();
        let server = Server::start(move |_, request, conn| {
            assert_eq!(body(request, conn), expected);
            conn.answer("201 Created", &[("Via", "1.1 d (longhaul)")], b"");
        });
        let report = put(quick(), of_file(&server.url("/f"), &file));
        assert_eq!(report.result.unwrap(), Status::Complete);
        assert_eq!((report.bytes, report.hops), (length as u64, 1));
        let asked = &server.asked()[0];
        assert_eq!(asked.method, "PUT");
        assert_eq!(asked.field("content-length"), length.to_string());
        assert_eq!(asked.field("repr-digest"), repr_digest(&data));
        assert_eq!(asked.field("if-none-match"), "");
    }
}

#[test]
fn stream_is_sent_in_chunks_and_only_once() {
    for status in ["200 OK", "503 Busy"] {
        let data = bytes(4, 200_000);
        let expected = data.clone();
        let server = Server::start(move |_, request, conn| {
            assert_eq!(body(request, conn), expected);
            conn.answer(status, &[], b"");
        });
        let source = Source::Stream(Box::new(Cursor::new(data)));
        let report = put(quick(), PutRequest { url: server.url("/f"), source, no_overwrite: true });
        assert_eq!(report.result.is_ok(), status == "200 OK", "{report:?}");
        let asked = server.asked();
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0].field("transfer-encoding"), "chunked");
        assert_eq!(asked[0].field("if-none-match"), "*");
    }
}

#[test]
fn broken_upload_is_sent_again() {
    let directory = tempfile::tempdir().unwrap();
    let (file, data) = file(directory.path(), 300_000);
    let server = Server::start(move |number, request, conn| match number {
        0 => conn.reset(),
        1 => conn.hang(Duration::from_millis(50)),
        2 => conn.answer("503 Busy", &[("Retry-After", "0")], b""),
        _ => {
            assert_eq!(body(request, conn), data);
            conn.answer("204 Done", &[], b"");
        }
    });
    let report = put(quick(), of_file(&server.url("/f"), &file));
    assert!(report.result.is_ok(), "{report:?}");
    assert_eq!(report.attempts, 4);
}

#[test]
fn early_refusal_is_reported_though_the_server_closes() {
    let directory = tempfile::tempdir().unwrap();
    let (file, _) = file(directory.path(), 30_000_000);
    for reset in [false, true] {
        let server = Server::start(move |_, _, conn| {
            conn.answer("413 Too Large", &[], b"at most \x1b[1m1 MB\n");
            thread::sleep(Duration::from_millis(100));
            if reset {
                conn.reset();
            }
        });
        let report = put(quick(), of_file(&server.url("/f"), &file));
        let error = failure(&report);
        assert!(error.contains("413") && error.contains(": at most ?[1m1 MB"), "{error}");
        assert_eq!(report.attempts, 1);
    }
}

#[test]
fn only_307_and_308_are_followed() {
    let directory = tempfile::tempdir().unwrap();
    let (file, data) = file(directory.path(), 100_000);
    for (status, followed) in [
        ("307 Go", true),
        ("308 Go", true),
        ("301 Go", false),
        ("302 Go", false),
        ("303 Go", false),
    ] {
        let expected = data.clone();
        let server = Server::start(move |_, request, conn| {
            let body = body(request, conn);
            if request.target == "/f" {
                return conn.answer(status, &[("Location", "/g")], b"");
            }
            assert_eq!(body, expected);
            conn.answer("200 OK", &[], b"");
        });
        let report = put(quick(), of_file(&server.url("/f"), &file));
        assert_eq!(report.result.is_ok(), followed, "{status}: {report:?}");
        assert_eq!(server.asked().len(), if followed { 2 } else { 1 }, "{status}");
    }
}

#[test]
fn file_that_changes_while_it_is_sent_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    for change in ["shorter", "longer", "other"] {
        let (file, data) = file(directory.path(), 20_000_000);
        let victim = file.clone();
        let server = Server::start(move |_, request, conn| {
            let mut file = fs::File::options().write(true).open(&victim).unwrap();
            match change {
                "shorter" => file.set_len(15_000_000).unwrap(),
                "longer" => file.set_len(20_000_001).unwrap(),
                _ => file.write_all(&[data[0] ^ 1]).unwrap(),
            }
            let length: u64 = request.field("content-length").parse().unwrap();
            let mut body = Vec::new();
            // Shorter, the body breaks off.
            let _ =
                (&mut conn.stream).take(length - request.rest.len() as u64).read_to_end(&mut body);
            conn.answer("200 OK", &[], b"");
        });
        let report = put(quick(), of_file(&server.url("/f"), &file));
        let changed = matches!(report.result, Err(Error::SourceChanged { .. }));
        assert!(changed && report.attempts == 1, "{change}: {report:?}");
    }
}

#[test]
fn stalled_upload_is_aborted_but_slow_source_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let (file, _) = file(directory.path(), 30_000_000);
    let server = Server::start(|_, _, _| thread::sleep(Duration::from_secs(4)));
    let options = Options {
        retries: 0,
        stall_time: Duration::from_millis(300),
        connect_timeout: Duration::from_millis(300),
        ..quick()
    };
    let report = put(options.clone(), of_file(&server.url("/f"), &file));
    assert!(failure(&report).contains("stalled") && report.seconds < 3.0, "{report:?}");
    let server = Server::start(|_, request, conn| {
        body(request, conn);
        conn.answer("200 OK", &[], b"");
    });
    let source = Source::Stream(Box::new(Slow(3)));
    let report = put(options, PutRequest { url: server.url("/f"), source, no_overwrite: false });
    assert!(report.result.is_ok() && report.seconds > 1.0, "{report:?}");
}

/// A pipe whose writer takes its time.
struct Slow(u8);

impl Read for Slow {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        thread::sleep(Duration::from_millis(500));
        if self.0 == 0 {
            return Ok(0);
        }
        self.0 -= 1;
        buffer[0] = b'x';
        Ok(1)
    }
}

#[test]
fn upload_rate_is_limited() {
    let directory = tempfile::tempdir().unwrap();
    let (file, data) = file(directory.path(), 200_000);
    let server = Server::start(move |_, request, conn| {
        assert_eq!(body(request, conn), data);
        conn.answer("200 OK", &[], b"");
    });
    let limit_rate = Some(Rate::bits_per_second(1_600_000));
    let report = put(Options { limit_rate, ..quick() }, of_file(&server.url("/f"), &file));
    assert!(report.result.is_ok(), "{report:?}");
    assert!((0.9..2.0).contains(&report.seconds), "{} s", report.seconds);
}
