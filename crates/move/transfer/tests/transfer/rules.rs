// SPDX-License-Identifier: GPL-2.0-or-later
//! What a download does with one kind of answer each.

use crate::common::{bytes, failure, get, get_until, names, quick, repr_digest, request};
use longhaul_transfer::{Destination, DigestArg, Error, GetRequest, Options, Status};
use route::{Match, RouteTable};
use std::{
    fs,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};
use testkit::http_server::Server;
use units::{Bytes, ClassifyFailure, FailureClass, Rate};

const OLD: &str = "Tue, 01 Jan 2019 00:00:00 GMT";

#[test]
fn file_gets_bytes_date_and_name_only_when_whole() {
    let data = bytes(1, 300_000);
    let (directory, sent) = (tempfile::tempdir().unwrap(), data.clone());
    let server = Server::start(move |_, _, conn| {
        conn.answer("200 OK", &[("Last-Modified", OLD), ("Via", "1.1 d (longhaul)")], &sent);
    });
    let file = directory.path().join("f");
    let report = get(quick(), request(&server.url("/f"), &file));
    assert_eq!(report.result.unwrap(), Status::Complete);
    assert_eq!((report.bytes, report.attempts, report.hops), (300_000, 1, 1));
    assert!(report.first_byte_seconds.unwrap() <= report.seconds);
    assert_eq!(fs::read(&file).unwrap(), data);
    let modified = fs::metadata(&file).unwrap().modified().unwrap();
    let date = SystemTime::UNIX_EPOCH + Duration::from_secs(1_546_300_800);
    assert_eq!(modified, date);
    assert_eq!(names(directory.path()), ["f"]);
    let asked = &server.asked()[0];
    assert_eq!(asked.field("accept-encoding"), "identity");
    assert_eq!(asked.field("want-repr-digest"), "sha-256=10");
}

#[test]
fn existing_file_is_compared_and_never_replaced_unasked() {
    let data = bytes(2, 1000);
    let (directory, sent) = (tempfile::tempdir().unwrap(), data.clone());
    let server = Server::start(move |_, request, conn| match request.method.as_str() {
        "HEAD" => conn.head("200 OK", &[("Content-Length", "1000"), ("Last-Modified", OLD)]),
        _ => conn.answer("200 OK", &[("Last-Modified", OLD)], &sent),
    });
    let file = directory.path().join("f");
    let run = |options: Options| get(options, request(&server.url("/f"), &file));
    assert_eq!(run(quick()).result.unwrap(), Status::Complete);
    assert_eq!(run(quick()).result.unwrap(), Status::Unchanged);
    assert_eq!(server.asked().len(), 2);
    fs::write(&file, &data).unwrap();
    let refused = run(quick());
    assert!(failure(&refused).contains("--overwrite"), "{}", failure(&refused));
    fs::write(&file, b"other").unwrap();
    assert!(failure(&run(quick())).contains("with 5 bytes, and has 1000 at the server"));
    assert_eq!(fs::read(&file).unwrap(), b"other");
    let skipped = run(Options { skip_existing: true, ..quick() });
    assert_eq!(skipped.result.unwrap(), Status::Skipped);
    let replaced = run(Options { overwrite: true, ..quick() });
    assert_eq!(replaced.result.unwrap(), Status::Complete);
    assert_eq!(fs::read(&file).unwrap(), data);
    assert_eq!(names(directory.path()), ["f"]);
}

#[test]
fn existing_file_with_the_asked_digest_needs_no_server() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("f");
    fs::write(&file, b"").unwrap();
    let digest = "sha-256=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let digest = Some(digest.parse::<DigestArg>().unwrap().0);
    let request = GetRequest { digest, ..request("http://127.0.0.1:1/f", &file) };
    assert_eq!(get(quick(), request).result.unwrap(), Status::Unchanged);
}

#[test]
fn file_that_appears_meanwhile_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("f");
    let other = file.clone();
    let server = Server::start(move |_, _, conn| {
        fs::write(&other, b"mine").unwrap();
        conn.answer("200 OK", &[], b"theirs");
    });
    let report = get(quick(), request(&server.url("/f"), &file));
    assert!(failure(&report).contains("appeared"));
    assert_eq!(fs::read(&file).unwrap(), b"mine");
}

#[test]
fn end_by_connection_needs_a_proof() {
    let data = bytes(3, 5000);
    let digest = repr_digest(&data);
    for (proof, ok) in [
        ("none", false),
        ("digest", true),
        ("416", true),
        ("head", true),
        ("more", true),
        ("allow", true),
    ] {
        let (directory, sent, digest) =
            (tempfile::tempdir().unwrap(), data.clone(), digest.clone());
        let server = Server::start(move |number, request, conn| {
            let tag = ("ETag", "\"a\"");
            match (request.method.as_str(), request.range()) {
                ("HEAD", _) => conn.head("200 OK", &[tag, ("Content-Length", "5000")]),
                (_, Some((5000, None))) if proof == "head" => conn.answer("400 No", &[], b""),
                (_, Some((5000, None))) => {
                    conn.answer("416 No", &[("Content-Range", "bytes */5000")], b"");
                }
                (_, Some((from, _))) => {
                    let range = format!("bytes {from}-4999/5000");
                    conn.answer("206 Part", &[tag, ("Content-Range", &range)], &sent[from..]);
                }
                _ if proof == "digest" => {
                    conn.head("200 OK", &[("Repr-Digest", &digest)]);
                    conn.send(&sent);
                }
                _ => {
                    let weak = matches!(proof, "none" | "allow");
                    conn.head("200 OK", if weak { &[] } else { &[("ETag", "\"a\"")] });
                    let cut = proof == "more" && number == 0;
                    conn.send(if cut { &sent[..3000] } else { &sent[..] });
                }
            }
        });
        let file = directory.path().join("f");
        let options = Options { allow_unknown_length: proof == "allow", ..quick() };
        let report = get(options, request(&server.url("/f"), &file));
        if ok {
            assert!(report.result.is_ok(), "{proof}: {:?}", report.result);
            assert_eq!(fs::read(&file).unwrap(), data, "{proof}");
        } else {
            assert!(failure(&report).contains("--allow-unknown-length"), "{proof}");
            assert!(!file.exists());
        }
    }
}

#[test]
fn wrong_digest_is_retried_once_and_leaves_no_file() {
    let data = bytes(4, 5000);
    let digest = repr_digest(&data);
    for bad in [1, 2] {
        let (directory, sent, digest) =
            (tempfile::tempdir().unwrap(), data.clone(), digest.clone());
        let server = Server::start(move |number, _, conn| {
            let mut sent = sent.clone();
            sent[77] ^= u8::from(number < bad);
            conn.answer("200 OK", &[("Repr-Digest", &digest)], &sent);
        });
        let file = directory.path().join("f");
        let report = get(quick(), request(&server.url("/f"), &file));
        if bad == 1 {
            assert_eq!(report.digest.as_ref().map(|digest| digest.verified), Some(true));
            assert_eq!(fs::read(&file).unwrap(), data);
        } else {
            let error = report.result.unwrap_err();
            assert_eq!(error.failure_class(), FailureClass::Unverified);
            assert_eq!(names(directory.path()), [""; 0]);
        }
        assert_eq!(server.asked().len(), 2);
    }
}

#[test]
fn digest_in_a_trailer_is_checked() {
    let (directory, data) = (tempfile::tempdir().unwrap(), bytes(5, 3000));
    for (name, good) in [("good", true), ("bad", false)] {
        let digest = repr_digest(if good { &data } else { b"x" });
        let sent = data.clone();
        let server = Server::start(move |_, _, conn| {
            conn.head("200 OK", &[("Transfer-Encoding", "chunked"), ("Trailer", "Repr-Digest")]);
            conn.send(format!("{:x}\r\n", sent.len()));
            conn.send(&sent);
            conn.send(format!("\r\n0\r\nRepr-Digest: {digest}\r\n\r\n"));
        });
        let file = directory.path().join(name);
        let report = get(quick(), request(&server.url("/f"), &file));
        assert_eq!(report.result.is_ok(), good, "{:?}", report.result);
        assert_eq!(file.exists(), good);
        assert_eq!(report.digest.is_some_and(|digest| digest.verified), good);
    }
}

#[test]
fn server_with_another_digest_need_not_send() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(|_, _, conn| {
        conn.answer("200 OK", &[("Repr-Digest", &repr_digest(b"abc"))], b"abc");
    });
    let digest = Some(format!("sha-256={}", "00".repeat(32)).parse::<DigestArg>().unwrap().0);
    let file = directory.path().join("f");
    let report = get(quick(), GetRequest { digest, ..request(&server.url("/f"), &file) });
    assert!(matches!(report.result, Err(Error::OtherDigest { .. })), "{:?}", report.result);
    assert_eq!(names(directory.path()), [""; 0]);
}

#[test]
fn encoded_body_is_saved_only_where_the_name_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(|_, _, conn| {
        conn.answer("200 OK", &[("Content-Encoding", "gzip")], b"\x1f\x8bnot really");
    });
    let run = |name: &str, options: Options| {
        get(options, request(&server.url("/f"), &directory.path().join(name)))
    };
    assert!(failure(&run("f", quick())).contains("--save-encoded"));
    assert!(run("f.tar.gz", quick()).result.is_ok());
    assert!(run("g", Options { save_encoded: true, ..quick() }).result.is_ok());
    assert_eq!(names(directory.path()), ["f.tar.gz", "g"]);
}

#[test]
fn ambiguous_framing_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    for (at, fields) in [
        "Content-Length: 3\r\nContent-Length: 3",
        "Content-Length: 3\r\nContent-Length: 4",
        "Content-Length: 3\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: gzip, chunked",
    ]
    .into_iter()
    .enumerate()
    {
        let server = Server::start(move |_, _, conn| {
            conn.send(format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\nabc"));
        });
        let options = Options { retries: 1, allow_unknown_length: true, ..quick() };
        let report =
            get(options, request(&server.url("/f"), &directory.path().join(at.to_string())));
        assert!(report.result.is_err(), "{fields}");
    }
    assert_eq!(names(directory.path()), [""; 0]);
}

#[test]
fn statuses_are_retried_or_final() {
    let directory = tempfile::tempdir().unwrap();
    for (status, attempts) in [
        ("404 Not Found", 1),
        ("403 No", 1),
        ("204 Nothing", 1),
        ("304 Same", 1),
        ("408 Slow", 3),
        ("425 Early", 3),
        ("429 Many", 3),
        ("500 Broken", 3),
        ("503 Busy", 3),
    ] {
        let server = Server::start(move |_, _, conn| {
            conn.answer(status, &[("Retry-After", "0")], b"because \x1b[31mof this\n");
        });
        let options = Options { retries: 2, ..quick() };
        let report = get(options, request(&server.url("/f"), &directory.path().join("f")));
        assert_eq!(report.attempts, attempts, "{status}");
        let error = failure(&report);
        assert!(error.contains(&status[..3]) && !error.contains('\x1b'), "{error}");
    }
    assert_eq!(names(directory.path()), [""; 0]);
}

#[test]
fn retry_after_is_honoured() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(|number, _, conn| match number {
        0 => conn.answer("503 Busy", &[("Retry-After", "1")], b""),
        _ => conn.answer("200 OK", &[], b"x"),
    });
    let report = get(quick(), request(&server.url("/f"), &directory.path().join("f")));
    assert!(report.result.is_ok() && report.seconds >= 1.0, "{report:?}");
}

#[test]
fn stalls_and_slow_drips_end() {
    let directory = tempfile::tempdir().unwrap();
    for kind in ["head", "silent", "drip", "drip in head"] {
        let server = Server::start(move |_, _, conn| {
            if kind == "silent" || kind == "drip" {
                conn.head("200 OK", &[("Content-Length", "1000000")]);
            }
            for byte in b"HTTP/1.1 200 OK\r\nX: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx".iter().cycle() {
                if !kind.starts_with("drip") || !conn.send([*byte]) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            conn.hang(Duration::from_secs(5));
        });
        let options = Options {
            retries: 1,
            stall_time: Duration::from_millis(300),
            connect_timeout: Duration::from_millis(300),
            ..quick()
        };
        let report = get(options, request(&server.url("/f"), &directory.path().join("f")));
        assert!(report.seconds < 6.0, "{kind}: {report:?}");
        assert!(failure(&report).contains("stalled"), "{kind}: {report:?}");
    }
}

#[test]
fn redirects_are_followed_afresh_for_each_attempt() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(|number, request, conn| match request.target.as_str() {
        "/f" => {
            let place = format!("/ticket-{number}");
            conn.answer("302 Found", &[("Location", &place)], b"");
        }
        "/ticket-0" => conn.answer("503 Busy", &[], b""),
        _ => conn.answer("200 OK", &[], b"x"),
    });
    let report = get(quick(), request(&server.url("/f"), &directory.path().join("f")));
    assert!(report.result.is_ok());
    let asked: Vec<_> = server.asked().into_iter().map(|request| request.target).collect();
    assert_eq!(asked, ["/f", "/ticket-0", "/f", "/ticket-2"]);
}

#[test]
fn ipv6_literals_work() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start_at("[::1]:0", |_, _, conn| conn.answer("200 OK", &[], b"x"));
    assert!(server.url("/f").starts_with("http://[::1]:"));
    let report = get(quick(), request(&server.url("/f"), &directory.path().join("f")));
    assert!(report.result.is_ok(), "{report:?}");
}

#[test]
fn redirects_are_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(|_, _, conn| conn.answer("302 Found", &[("Location", "/f")], b""));
    let report = get(quick(), request(&server.url("/f"), &directory.path().join("f")));
    assert!(failure(&report).contains("more than 10 redirects"));
    assert_eq!(server.asked().len(), 11);
}

#[test]
fn credentials_are_not_sent_to_another_origin() {
    let directory = tempfile::tempdir().unwrap();
    let other = Server::start(|_, _, conn| conn.answer("200 OK", &[], b"x"));
    let place = other.url("/g");
    let server =
        Server::start(move |_, _, conn| conn.answer("302 Found", &[("Location", &place)], b""));
    let url = format!("http://user:word@{}/f", server.address);
    let report = get(quick(), request(&url, &directory.path().join("f")));
    assert!(report.result.is_ok(), "{report:?}");
    assert_eq!(server.asked()[0].field("authorization"), "Basic dXNlcjp3b3Jk");
    assert_eq!(other.asked()[0].field("authorization"), "");
    assert!(!report.url.contains("word"));
}

#[test]
fn routes_lead_through_depots() {
    let directory = tempfile::tempdir().unwrap();
    let depot = Server::start(|_, _, conn| conn.answer("200 OK", &[], b"x"));
    let via = format!("127.0.0.1:{}", depot.address.port()).parse().unwrap();
    let routes = RouteTable::through(vec![vec![via, "d2".parse().unwrap()]], &[Match::ALL]);
    let file = directory.path().join("f");
    let report = get(Options { routes, ..quick() }, request("http://o.example/f?x", &file));
    assert!(report.result.is_ok());
    assert_eq!(depot.asked()[0].target, "/lh1/fetch/d2:3880/http:o.example/f?x");
}

#[test]
fn rate_is_limited_by_not_reading() {
    let (directory, data) = (tempfile::tempdir().unwrap(), bytes(6, 200_000));
    let server = Server::start(move |_, _, conn| conn.answer("200 OK", &[], &data));
    let limit_rate = Some(Rate::bits_per_second(1_600_000));
    let stall_time = Duration::from_millis(200);
    let options = Options { limit_rate, stall_time, ..quick() };
    let report = get(options, request(&server.url("/f"), &directory.path().join("f")));
    assert!(report.result.is_ok(), "{report:?}");
    assert!((0.9..2.0).contains(&report.seconds), "{} s", report.seconds);
}

#[test]
fn too_large_is_refused_before_and_while_it_comes() {
    let directory = tempfile::tempdir().unwrap();
    for length in [true, false] {
        let server = Server::start(move |_, _, conn| {
            if length {
                conn.answer("200 OK", &[], &[0; 5000]);
            } else {
                conn.head("200 OK", &[]);
                conn.send([0; 5000]);
            }
        });
        let options = Options { max_size: Some(Bytes::new(4999)), ..quick() };
        let report = get(options, request(&server.url("/f"), &directory.path().join("f")));
        assert!(failure(&report).contains("--max-size"), "{report:?}");
    }
}

#[test]
fn stream_resumes_within_and_takes_nothing_back() {
    let data = bytes(7, 300_000);
    for (fault, ok) in [("none", true), ("break", true), ("change", false), ("digest", false)] {
        let sent = data.clone();
        let server = Server::start(move |number, request, conn| {
            let tag = if fault == "change" && number > 0 { "\"b\"" } else { "\"a\"" };
            let digest = repr_digest(if fault == "digest" { b"" } else { &sent });
            let from = request.range().map_or(0, |range| range.0);
            let length = sent.len();
            let range = format!("bytes {from}-{}/{length}", length - 1);
            let fields = [("ETag", tag), ("Repr-Digest", &digest), ("Content-Range", &range)];
            let left = (length - from).to_string();
            let all = [&fields[..], &[("Content-Length", left.as_str())]].concat();
            conn.head(if from > 0 { "206 Part" } else { "200 OK" }, &all);
            let cut = number == 0 && matches!(fault, "break" | "change");
            conn.send(if cut { &sent[..150_000] } else { &sent[from..] });
        });
        let out = Arc::new(Mutex::new(Vec::new()));
        let destination = Destination::Stream(Box::new(Shared(Arc::clone(&out))));
        let request = GetRequest { url: server.url("/f"), destination, digest: None };
        let report = get(quick(), request);
        assert_eq!(report.result.is_ok(), ok, "{fault}: {report:?}");
        let out = out.lock().unwrap();
        assert!(data.starts_with(&out), "{fault}");
        assert_eq!(out.len() == data.len(), fault != "change", "{fault}");
        if fault == "digest" {
            assert_eq!(report.result.unwrap_err().failure_class(), FailureClass::Unverified);
        }
    }
}

struct Shared(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn stop_leaves_a_part_that_the_next_process_continues() {
    let (directory, data) = (tempfile::tempdir().unwrap(), bytes(8, 400_000));
    let sent = data.clone();
    let server = Server::start(move |number, request, conn| {
        let length = sent.len();
        match request.range() {
            None => {
                let whole = length.to_string();
                conn.head("200 OK", &[("Content-Length", &whole), ("ETag", "\"a\"")]);
                conn.send(&sent[..if number == 0 { 200_000 } else { length }]);
                conn.hang(Duration::from_secs(5));
            }
            Some((from, _)) => {
                let range = format!("bytes {from}-{}/{length}", length - 1);
                let fields = [("ETag", "\"a\""), ("Content-Range", range.as_str())];
                conn.answer("206 Part", &fields, &sent[from..]);
            }
        }
    });
    let file = directory.path().join("f");
    let stop = async { tokio::time::sleep(Duration::from_millis(300)).await };
    let options = Options { stall_time: Duration::from_secs(5), ..quick() };
    let stopped = get_until(options, request(&server.url("/f"), &file), stop);
    assert!(matches!(stopped.result, Err(Error::Stopped)));
    assert_eq!(names(directory.path()), ["f.part", "f.part.json"]);
    let report = get(quick(), request(&server.url("/f"), &file));
    assert_eq!((report.resumed_bytes, report.bytes), (200_000, 400_000), "{report:?}");
    assert_eq!(fs::read(&file).unwrap(), data);
    let asked = server.asked();
    assert_eq!(asked[1].field("range"), format!("bytes={}-", 200_000 - 65_536));
    assert_eq!(asked[1].field("if-range"), "\"a\"");
    assert_eq!(names(directory.path()), ["f"]);
}
