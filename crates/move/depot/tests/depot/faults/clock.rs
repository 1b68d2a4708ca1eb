// SPDX-License-Identifier: GPL-2.0-or-later
//! A wall clock that is set while a depot runs: only tickets depend on it.
//!
//! libfaketime (Debian: faketime) shifts the time of day of the depot's process alone, by what a file
//! says at that moment.

use super::ask;
use crate::common::{
    client::{connect, get, status},
    idle::Idle,
    noise,
    process::Daemon,
    scripted::{Gate, Scripted, halting, read_head},
    sha256,
};
use longhaul_depot::fetch_status;
use protocol::{
    Authority,
    http::Method,
    ticket::{Signer, Ticket, TicketRoute, UnixTime},
};
use std::{
    fs,
    io::{Read, Write},
    num::NonZeroU32,
    path::PathBuf,
    time::SystemTime,
};
use tempfile::TempDir;

const SERVED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nserved";
const HOUR: i64 = 3600;

/// A depot whose clock can be set, and a signer that it trusts.
struct Clocked {
    depot: Daemon,
    signer: Signer,
    dir: TempDir,
}

impl Clocked {
    fn new() -> Self {
        let (dir, signer) = (tempfile::tempdir().unwrap(), Signer::from_seed([9; 32]).unwrap());
        let (keys, shift) = (dir.path().join("keys.json"), dir.path().join("shift"));
        fs::write(&keys, signer.public_set()).unwrap();
        fs::write(&shift, "+0").unwrap();
        let line = format!(
            "LD_PRELOAD={} FAKETIME_TIMESTAMP_FILE={} FAKETIME_NO_CACHE=1 DONT_FAKE_MONOTONIC=1 \
             FAKETIME_DONT_FAKE_MONOTONIC=1 FAKETIME_DONT_RESET=1 exec \"$0\" \"$@\"",
            library().display(),
            shift.display()
        );
        let settings = format!(
            "id = \"d1\"\nadmin.listen = \"127.0.0.1:0\"\ntrust.keys = \"{}\"\n\
             log.format = \"json\"\n[timeouts]\nidle = \"1h\"\nkeep_alive = \"1h\"\n\
             response_head = \"1h\"",
            keys.display()
        );
        Self { depot: Daemon::depot_by(&line, &settings), signer, dir }
    }

    /// Sets the depot's clock so far ahead of everybody's, or behind.
    fn set(&self, seconds: i64) {
        let new = self.dir.path().join("new");
        fs::write(&new, format!("{seconds:+}")).unwrap();
        fs::rename(new, self.dir.path().join("shift")).unwrap();
    }

    /// The route of a ticket valid for `good` seconds, starting one minute ago.
    fn route(&self, id: &str, origin: &Scripted, good: i64, uses: Option<u32>) -> String {
        let now = UnixTime::from(SystemTime::now());
        let time = |seconds: i64| {
            UnixTime::try_from(now.seconds().checked_add_signed(seconds).unwrap()).unwrap()
        };
        let ticket = Ticket {
            id: id.to_owned(),
            issuer: None,
            issued: None,
            not_before: Some(time(-60)),
            expires: time(good),
            opens: format!("http://{}/f", origin.address).parse().unwrap(),
            via: vec![Authority::from(self.depot.address).into()],
            methods: vec![Method::Get],
            bytes: None,
            rate: None,
            total_rate: None,
            clients: Vec::new(),
            uses: uses.and_then(NonZeroU32::new),
        };
        TicketRoute::new(&self.signer.sign(&ticket).unwrap(), "f").unwrap().to_string()
    }

    /// What a route is answered.
    fn answer(&self, route: &str) -> (u16, String) {
        let (head, body, _) = get(self.depot.address, route);
        (status(&head), String::from_utf8(body).unwrap())
    }

    fn refuses(&self, route: &str, reason: &str) {
        let (code, text) = self.answer(route);
        assert!(code == 403 && text.contains(reason), "{code} {text}");
    }

    fn serves(&self, route: &str) {
        assert_eq!(self.answer(route), (200, "served".to_owned()));
    }
}

fn library() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").unwrap().map(|entry| entry.unwrap().path());
    let found = folders.map(|dir| dir.join("faketime/libfaketimeMT.so.1")).find(|it| it.exists());
    found.expect("libfaketimeMT.so.1 below /usr/lib: install the Debian package faketime")
}

#[test]
fn only_tickets_follow_the_wall_clock() {
    let clocked = Clocked::new();
    let (depot, body, gate) = (&clocked.depot, noise(131, 400_000), Gate::default());
    let (origin, slow) = (Scripted::answering(SERVED), halting(&body, &gate));
    let route = clocked.route("t1", &origin, HOUR, None);
    let idle = Idle::now([depot]);
    clocked.serves(&route);
    // A transfer under way, and a client between two requests.
    let mut under_way = ask(depot, &clocked.route("t2", &slow, HOUR, None));
    let head = read_head(&under_way).unwrap();
    assert_eq!(status(&head), 200, "{head}");
    let mut between = connect(depot.address);
    let mut ask_again = || {
        write!(between, "GET {route} HTTP/1.1\r\nHost: d\r\n\r\n").unwrap();
        let head = read_head(&between).expect("it was not closed");
        let length = head.split("Content-Length: ").nth(1).and_then(|text| text.lines().next());
        between.read_exact(&mut vec![0; length.unwrap().parse().unwrap()]).unwrap();
        status(&head)
    };
    assert_eq!(ask_again(), 200);
    for (seconds, reason) in
        [(400 * 24 * HOUR, "has expired"), (2 * HOUR, "has expired"), (-2 * HOUR, "is valid from")]
    {
        clocked.set(seconds);
        clocked.refuses(&route, reason);
    }
    clocked.set(0);
    assert_eq!(ask_again(), 200, "no ticket had expired");
    clocked.serves(&route);
    drop(between);
    gate.open();
    let mut rest = Vec::new();
    under_way.read_to_end(&mut rest).unwrap();
    assert_eq!(sha256(&rest), sha256(&body), "nor the origin's");
    let line = depot.await_log(&["\"outcome\":\"complete\"", "400000"]);
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert!(line["seconds"].as_f64().unwrap() < HOUR as f64, "{line}");
    let uptime = fetch_status(&depot.admin().to_string()).unwrap().0.uptime_s;
    assert!(uptime < HOUR as f64, "{uptime} s");
    idle.again();
}

#[test]
fn clock_changes_give_no_extra_ticket_use() {
    let clocked = Clocked::new();
    let origin = Scripted::answering(SERVED);
    let once = clocked.route("once", &origin, HOUR, Some(1));
    let long = clocked.route("long", &origin, 24 * HOUR, Some(9));
    clocked.serves(&once);
    clocked.refuses(&once, "has been used 1 times");
    clocked.set(2 * HOUR);
    clocked.refuses(&once, "has expired");
    // Counting another's use is when the depot forgets those that have expired.
    clocked.serves(&long);
    clocked.set(0);
    clocked.refuses(&once, "before the clock was set back");
    clocked.serves(&clocked.route("new", &origin, 3 * HOUR, Some(1)));
}
