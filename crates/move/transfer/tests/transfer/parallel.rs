// SPDX-License-Identifier: GPL-2.0-or-later
//! More than one connection: where they help, where they do not, where they fail.

use crate::common::{bytes, get, get_until, names, quick, request};
use longhaul_transfer::{Error, Options, Report};
use std::{
    fs,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use testkit::http_server::{Conn, Request, Server};

/// Bytes a second of one connection.
const RATE: usize = 3_000_000;
const BLOCK: usize = 30_000;
const TAG: (&str, &str) = ("ETag", "\"a\"");

/// When the next block may leave: of one connection, or of all.
type Clock = Mutex<Instant>;

/// Sends at [`RATE`]; says how much was sent.
fn drip(conn: &mut Conn, data: &[u8], clock: &Clock) -> usize {
    for (at, block) in data.chunks(BLOCK).enumerate() {
        let due = {
            let mut due = clock.lock().unwrap();
            *due = (*due).max(Instant::now()) + Duration::from_secs_f64(BLOCK as f64 / RATE as f64);
            *due
        };
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if !conn.send(block) {
            return at * BLOCK;
        }
    }
    data.len()
}

/// Answers with the file or a range of it.
fn serve(data: &[u8], request: &Request, conn: &mut Conn, fields: &[(&str, &str)], clock: &Clock) {
    let (from, end) = request.range().map_or((0, None), |range| range);
    let end = end.unwrap_or(data.len());
    let length = (end - from).to_string();
    let range = format!("bytes {from}-{}/{}", end - 1, data.len());
    let mut all = [fields, &[("Content-Length", length.as_str())]].concat();
    if request.range().is_some() {
        all.push(("Content-Range", &range));
    }
    conn.head(if request.range().is_some() { "206 Part" } else { "200 OK" }, &all);
    drip(conn, &data[from..end], clock);
}

fn fresh() -> Clock {
    Mutex::new(Instant::now())
}

fn run(server: &Server, data: &[u8], options: Options) -> Report {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("f");
    let report = get(options, request(&server.url("/f"), &file));
    assert!(report.result.is_ok(), "{report:?}");
    assert!(fs::read(&file).unwrap() == data, "the file is wrong");
    assert_eq!(names(directory.path()), ["f"]);
    report
}

#[test]
fn connections_are_added_where_each_has_its_own_rate() {
    let data = Arc::new(bytes(1, 45_000_000));
    let sent = Arc::clone(&data);
    let server =
        Server::start(move |_, request, conn| serve(&sent, request, conn, &[TAG], &fresh()));
    let report = run(&server, &data, quick());
    // One alone takes 15 s.
    assert!(report.connections >= 3 && report.seconds < 11.0, "{report:?}");
    println!("{} connections, {:.1} s", report.connections, report.seconds);
    assert!(report.digest.is_some());
}

#[test]
fn connections_are_not_added_where_they_share_a_rate() {
    let data = Arc::new(bytes(2, 18_000_000));
    // A busy machine may make one of three trials look like a gain.
    let few = (0..3).any(|_| {
        let (sent, clock) = (Arc::clone(&data), Arc::new(fresh()));
        let server =
            Server::start(move |_, request, conn| serve(&sent, request, conn, &[TAG], &clock));
        let report = run(&server, &data, quick());
        println!("{} connections, {:.1} s", report.connections, report.seconds);
        report.connections <= 2
    });
    assert!(few, "connections were added again and again");
}

#[test]
fn single_connection_is_used_if_more_are_not_allowed() {
    let data = Arc::new(bytes(3, 13_000_000));
    let via = ("Via", "1.1 d1 (longhaul)");
    let none = ("Accept-Ranges", "none");
    let weak = ("ETag", "W/\"a\"");
    let cases: [(&'static [(&str, &str)], usize); 4] = [
        (Vec::leak(vec![TAG, via]), 8),
        (Vec::leak(vec![TAG, none]), 8),
        (Vec::leak(vec![weak]), 8),
        (Vec::leak(vec![TAG]), 1),
    ];
    let threads = cases.map(|(fields, connections)| {
        let data = Arc::clone(&data);
        thread::spawn(move || {
            let sent = Arc::clone(&data);
            let server = Server::start(move |_, request, conn| {
                serve(&sent, request, conn, fields, &fresh());
            });
            let report = run(&server, &data, Options { connections, ..quick() });
            assert_eq!((report.connections, server.asked().len()), (1, 1), "{fields:?}");
        })
    });
    for thread in threads {
        thread.join().unwrap();
    }
}

/// Answers a request for a range of the data in a wrong way.
type Wrong = fn(&[u8], usize, usize, &mut Conn);

#[test]
fn failing_ranges_mean_fewer_connections_and_no_error() {
    let wrong: [Wrong; 6] = [
        |data, _, _, conn| conn.answer("200 OK", &[("ETag", "\"b\"")], &data[..1000]),
        |_, _, _, conn| conn.answer("503 Busy", &[], b""),
        |data, from, end, conn| {
            // Another range, with other bytes than were asked for.
            let range = format!("bytes {}-{}/{}", from + 1, end, data.len() + 1);
            conn.answer("206 Part", &[TAG, ("Content-Range", &range)], &data[from..end]);
        },
        |data, from, end, conn| {
            let range = format!("bytes {from}-{}/{}", end - 1, data.len());
            let other = vec![0; end - from];
            conn.answer("206 Part", &[("ETag", "\"b\""), ("Content-Range", &range)], &other);
        },
        |data, from, end, conn| {
            let (range, length) =
                (format!("bytes {from}-{}/{}", end - 1, data.len()), (end - from).to_string());
            conn.head("206 Part", &[TAG, ("Content-Range", &range), ("Content-Length", &length)]);
            conn.send(&data[from..from + 100_000]);
            conn.reset();
        },
        |data, from, end, conn| {
            let (range, length) =
                (format!("bytes {from}-{}/{}", end - 1, data.len()), (end - from).to_string());
            conn.head("206 Part", &[TAG, ("Content-Range", &range), ("Content-Length", &length)]);
            conn.send(&data[from..from + 100_000]);
            conn.hang(Duration::from_secs(3));
        },
    ];
    let data = Arc::new(bytes(4, 13_500_000));
    let threads = wrong.map(|wrong| {
        let data = Arc::clone(&data);
        thread::spawn(move || {
            let (sent, failed) = (Arc::clone(&data), AtomicUsize::new(0));
            let server = Server::start(move |_, request, conn| match request.range() {
                Some((from, Some(end))) if failed.fetch_add(1, Ordering::Relaxed) < 2 => {
                    wrong(&sent, from, end, conn);
                }
                _ => serve(&sent, request, conn, &[TAG], &fresh()),
            });
            // On a busy machine the file may be there before another connection seems worth it.
            let is_split = (0..5).any(|_| {
                run(&server, &data, quick());
                server.asked().iter().any(|request| request.range().is_some())
            });
            assert!(is_split);
        })
    });
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn stopped_parallel_get_resumes_all_its_gaps() {
    let data = Arc::new(bytes(5, 45_000_000));
    let sent = Arc::clone(&data);
    let server =
        Server::start(move |_, request, conn| serve(&sent, request, conn, &[TAG], &fresh()));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("f");
    let stop = async { tokio::time::sleep(Duration::from_millis(2600)).await };
    let stopped = get_until(quick(), request(&server.url("/f"), &file), stop);
    assert!(matches!(stopped.result, Err(Error::Stopped)));
    assert!(server.asked().len() >= 3, "{}", server.asked().len());
    let report = get(quick(), request(&server.url("/f"), &file));
    assert!(report.result.is_ok() && report.resumed_bytes > 7_000_000, "{report:?}");
    assert!(fs::read(&file).unwrap() == *data, "the file is wrong");
}
