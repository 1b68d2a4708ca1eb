// SPDX-License-Identifier: GPL-2.0-or-later
//! Servers that send a slice and call it the whole: on every way of a download, no part gets the final name.

use crate::common::{Out, bytes, get, names, quick, repr_digest, request, runtime};
use longhaul_transfer::{Client, Destination, GetRequest, Options, Progress, Report};
use route::{Match, RouteTable};
use std::{
    fs,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use testkit::http_server::{Conn, Request, Server};

const LENGTH: usize = 300_000;
const CUT: usize = 200_000;
const TAG: (&str, &str) = ("ETag", "\"a\"");

/// How a slice is sent.
#[derive(Debug, Clone, Copy)]
struct Lie {
    status: &'static str,
    content_range: bool,
    /// By `Content-Length`, in chunks, or until the connection ends.
    framing: usize,
    etag: Option<&'static str>,
}

fn lies() -> Vec<Lie> {
    let mut lies = Vec::new();
    for content_range in [true, false] {
        for framing in 0..3 {
            for etag in [Some("\"a\""), Some("\"b\""), Some("W/\"a\""), None] {
                lies.push(Lie { status: "200 OK", content_range, framing, etag });
            }
        }
    }
    let part = Lie { status: "206 Part", content_range: false, framing: 0, etag: Some("\"a\"") };
    lies.extend([part, Lie { framing: 1, ..part }, Lie { framing: 2, ..part }]);
    lies
}

impl Lie {
    fn send(self, conn: &mut Conn, data: &[u8], from: usize, end: usize) {
        let (slice, range) = (&data[from..end], format!("bytes {from}-{}/{}", end - 1, data.len()));
        let length = slice.len().to_string();
        let mut fields = Vec::new();
        fields.extend(self.etag.map(|etag| ("ETag", etag)));
        fields.extend(self.content_range.then_some(("Content-Range", range.as_str())));
        match self.framing {
            0 => fields.push(("Content-Length", &length)),
            1 => fields.push(("Transfer-Encoding", "chunked")),
            _ => {}
        }
        conn.head(self.status, &fields);
        if self.framing == 1 {
            conn.send(format!("{:x}\r\n", slice.len()));
            conn.send(slice);
            conn.send("\r\n0\r\n\r\n");
        } else {
            conn.send(slice);
        }
    }
}

/// Sends the first bytes, then answers ranges by a lie. Questions for the whole are answered as they should be, or not.
fn breaking(lie: Lie, honest: bool) -> Server {
    Server::start(move |number, request, conn| {
        let data = bytes(21, LENGTH);
        match (number, request.range()) {
            (0, _) => {
                conn.head("200 OK", &[TAG, ("Content-Length", &LENGTH.to_string())]);
                conn.send(&data[..CUT]);
            }
            (_, Some((from, end))) => lie.send(conn, &data, from, end.unwrap_or(LENGTH)),
            (_, None) if honest => conn.answer("200 OK", &[TAG], &data),
            (_, None) => lie.send(conn, &data, LENGTH - CUT, LENGTH),
        }
    })
}

fn check(report: &Report, file: &Path, honest: bool, case: &str) {
    match (&report.result, honest) {
        (Ok(_), true) => {
            assert!(fs::read(file).unwrap() == bytes(21, LENGTH), "{case}: wrong file");
        }
        (Err(_), false) => assert!(!file.exists(), "{case}"),
        (result, _) => panic!("{case}: {result:?}"),
    }
}

/// Whether a lie about the whole can be seen: by its own words, or as the same version had another length.
fn is_visible(lie: Lie) -> bool {
    lie.content_range || lie.status.starts_with("206") || lie.etag == Some("\"a\"")
}

#[test]
fn slice_after_a_break_is_no_file() {
    for lie in lies() {
        for honest in [true, false] {
            if !honest && !is_visible(lie) {
                continue;
            }
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("f");
            let server = breaking(lie, honest);
            let options = Options { retries: 3, stall_time: Duration::from_secs(5), ..quick() };
            let report = get(options, request(&server.url("/f"), &file));
            check(&report, &file, honest, &format!("{lie:?}, {honest}"));
        }
    }
}

#[test]
fn slice_for_a_later_command_is_no_file() {
    for lie in lies() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("f");
        let honest = !is_visible(lie);
        let server = breaking(lie, honest);
        let once = Options { retries: 0, ..quick() };
        assert!(get(once, request(&server.url("/f"), &file)).result.is_err());
        assert_eq!(names(directory.path()), ["f.part", "f.part.json"]);
        let options = Options { retries: 1, ..quick() };
        let report = get(options, request(&server.url("/f"), &file));
        check(&report, &file, honest, &format!("{lie:?}"));
    }
}

#[test]
fn slice_through_depots_is_no_file() {
    for lie in lies() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("f");
        let server = breaking(lie, true);
        let via = format!("127.0.0.1:{}", server.address.port()).parse().unwrap();
        let options =
            Options { routes: RouteTable::through(vec![vec![via]], &[Match::ALL]), ..quick() };
        let report = get(options, request("http://o.example/f", &file));
        check(&report, &file, true, &format!("{lie:?}"));
    }
}

#[test]
fn slice_as_the_first_answer_is_no_file() {
    for lie in lies().into_iter().filter(|lie| lie.content_range || lie.status != "200 OK") {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("f");
        let server = Server::start(move |_, _, conn| {
            lie.send(conn, &bytes(21, LENGTH), 0, CUT);
        });
        let options = Options { retries: 1, allow_unknown_length: true, ..quick() };
        let report = get(options, request(&server.url("/f"), &file));
        check(&report, &file, false, &format!("{lie:?}"));
        assert_eq!(names(directory.path()), [""; 0], "{lie:?}");
    }
}

#[test]
fn slice_to_standard_output_is_an_error() {
    for lie in lies() {
        let (server, out) = (breaking(lie, true), Out::default());
        let destination = Destination::Stream(Box::new(out.clone()));
        let request = GetRequest { url: server.url("/f"), destination, digest: None };
        let report = get(quick(), request);
        assert!(report.result.is_err(), "{lie:?}");
        assert!(bytes(21, LENGTH).starts_with(&out.0.lock().unwrap()), "{lie:?}");
    }
}

#[test]
fn explicit_whole_with_status_200_is_used() {
    let server = Server::start(|_, _, conn| {
        let fields = [TAG, ("Content-Range", "bytes 0-299999/300000")];
        conn.answer("200 OK", &fields, &bytes(21, LENGTH));
    });
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("f");
    let report = get(quick(), request(&server.url("/f"), &file));
    check(&report, &file, true, "explicit");
    assert_eq!(report.attempts, 1);
}

#[test]
fn length_said_in_a_proof_is_remembered() {
    // The end of the first body is unknown and asked about; then a slice comes as the whole of the same version.
    let data = bytes(21, LENGTH);
    let server = Server::start(move |number, request, conn| match (number, request.range()) {
        (0, _) => {
            conn.head("200 OK", &[TAG]);
            conn.send(&data[..CUT]);
        }
        (1, Some((from, _))) => {
            let range = format!("bytes {from}-{}/{LENGTH}", LENGTH - 1);
            conn.answer("206 Part", &[TAG, ("Content-Range", &range)], &data[from..]);
        }
        (_, Some(_)) => conn.answer("416 No", &[], b""),
        _ => conn.answer("200 OK", &[TAG], &data[..CUT]),
    });
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("f");
    let report = get(quick(), request(&server.url("/f"), &file));
    check(&report, &file, false, "proof");
}

#[test]
fn known_digest_of_the_same_version_is_kept() {
    // The second answer comes without the digest, and with other bytes of the same length.
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("f");
    let server = Server::start(|number, _, conn| {
        let (data, digest) = (bytes(21, LENGTH), repr_digest(&bytes(21, LENGTH)));
        match number {
            0 => {
                let fields = [TAG, ("Repr-Digest", &digest), ("Content-Length", "300000")];
                conn.head("200 OK", &fields);
                conn.send(&data[..CUT]);
            }
            _ => conn.answer("200 OK", &[TAG], &bytes(22, LENGTH)),
        }
    });
    let report = get(quick(), request(&server.url("/f"), &file));
    assert!(report.result.is_err() && !file.exists(), "{report:?}");
}

/// Sends at 3 MB/s, so that more connections help.
fn drip(conn: &mut Conn, data: &[u8]) {
    let begun = Instant::now();
    for (at, block) in data.chunks(30_000).enumerate() {
        let due = begun + Duration::from_millis(10 * at as u64);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if !conn.send(block) {
            return;
        }
    }
}

#[test]
fn slice_on_a_second_connection_is_no_file() {
    const LONG: usize = 18_000_000;
    let data = Arc::new(bytes(23, LONG));
    let modes: [(bool, Option<&str>); 4] =
        [(true, Some("\"a\"")), (false, Some("\"a\"")), (true, None), (false, Some("\"b\""))];
    let threads = modes.map(|(content_range, etag)| {
        let data = Arc::clone(&data);
        thread::spawn(move || {
            let sent = Arc::clone(&data);
            let server = Server::start(move |_, request: &Request, conn| {
                if let Some((from, end)) = request.range() {
                    let lie = Lie { status: "200 OK", content_range, framing: 0, etag };
                    lie.send(conn, &sent, from, end.unwrap_or(LONG));
                } else {
                    conn.head("200 OK", &[TAG, ("Content-Length", &LONG.to_string())]);
                    drip(conn, &sent);
                }
            });
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("f");
            let report = get(quick(), request(&server.url("/f"), &file));
            assert!(report.result.is_ok(), "{report:?}");
            assert!(fs::read(&file).unwrap() == *data, "the file is wrong");
            // The first connection takes its rest back.
            let wholes = server.asked().iter().filter(|asked| asked.range().is_none()).count();
            assert!(server.asked().len() > wholes, "no second connection");
            assert_eq!(wholes, 1, "{:?}", report.attempts);
        })
    });
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn reported_failure_in_a_trailer_is_believed() {
    for (trailer, times, ok) in [
        ("X-Transfer-Status: 500: Unable to read f; input/output error", 9, false),
        ("X-Transfer-Status: 500: Unable to read f", 1, true),
        ("X-Transfer-Status: 200: OK", 9, true),
        ("X-Stream-Error: cannot fetch", 9, false),
        ("Proxy-Status: d1; error=connection_terminated", 9, false),
    ] {
        for stream in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("f");
            let server = Server::start(move |number, _, conn| {
                let name = trailer.split(':').next().unwrap();
                let fields = [TAG, ("Transfer-Encoding", "chunked"), ("Trailer", name)];
                conn.head("200 OK", &fields);
                conn.send("3\r\nabc\r\n0\r\n");
                let end = if number < times { trailer } else { "X-Transfer-Status: 200: OK" };
                conn.send(format!("{end}\r\n\r\n"));
            });
            let out = Out::default();
            let destination = if stream {
                Destination::Stream(Box::new(out.clone()))
            } else {
                Destination::File(file.clone())
            };
            let options = Options { retries: 2, ..quick() };
            let client = Client::new(options).unwrap();
            let request = GetRequest { url: server.url("/f"), destination, digest: None };
            let progress = Arc::new(Progress::default());
            let report = runtime().block_on(client.get(request, &progress, std::future::pending()));
            let good = ok && !(stream && times == 1);
            assert_eq!(report.result.is_ok(), good, "{trailer}: {report:?}");
            assert_eq!(file.exists(), good && !stream, "{trailer}");
            assert_eq!(server.asked()[0].field("te"), "trailers");
            if !good && !stream {
                assert_eq!(names(directory.path()), [""; 0], "nothing is kept of it");
            }
        }
    }
}
