// SPDX-License-Identifier: GPL-2.0-or-later
//! What operators do to transfers under way: list and end them, and shut clients and tickets out.

mod attacked;
mod limited;
mod takeover;
mod withdrawn;

use crate::common::{
    client::{connect_from, status},
    process::Daemon,
    scripted::{Gate, Scripted, halting, read_head},
};
use ipnet::IpNet;
use longhaul_depot::control::{Answer, Command, Shunned, Which, ask};
use std::{
    io::{self, Read, Write},
    net::{IpAddr, TcpStream},
    path::{Path, PathBuf},
};
use tempfile::TempDir;

const BODY: usize = 100_000;

/// A depot that takes commands.
struct Controlled {
    depot: Daemon,
    dir: TempDir,
}

impl Controlled {
    fn with(more: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let depot = Daemon::depot(&format!("{}{more}", settings(dir.path())));
        Self { depot, dir }
    }

    fn new() -> Self {
        Self::with("")
    }

    fn socket(&self) -> PathBuf {
        socket(self.dir.path())
    }

    fn tell(&self, command: &Command) -> Answer {
        ask(&self.socket(), command).unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    fn end(&self, which: Which) -> Answer {
        self.tell(&Command::End(which))
    }

    fn deny(&self, who: Shunned, seconds: u64) -> Answer {
        self.tell(&Command::Deny { who, seconds, why: "a test".to_owned() })
    }

    /// The numbers of the transfers of which this holds.
    fn numbers(&self, which: Which) -> Vec<u64> {
        match self.tell(&Command::Transfers(which)) {
            Answer::Transfers { transfers, more: 0 } => {
                transfers.iter().map(|transfer| transfer.number).collect()
            }
            other => panic!("{other:?}"),
        }
    }
}

fn socket(dir: &Path) -> PathBuf {
    dir.join("control.sock")
}

/// Lines for a depot whose files are in this directory.
fn settings(dir: &Path) -> String {
    let path = |name: &str| dir.join(name).display().to_string();
    format!(
        "id = \"d1\"\nadmin.listen = \"127.0.0.1:0\"\n[control]\nsocket = {:?}\nstate = {:?}\n",
        path("control.sock"),
        path("decisions")
    )
}

fn client(address: &str) -> Shunned {
    Shunned::Client(format!("{address}/32").parse().unwrap())
}

/// Transfers of a client, or of a network's clients.
fn of_client(text: &str) -> Which {
    let net = text.parse::<IpAddr>().map_or_else(|_| text.parse().unwrap(), IpNet::from);
    Which { client: Some(net), ..Which::default() }
}

/// A download that has begun, and halts in its middle until its gate is opened.
struct Download {
    gate: Gate,
    client: TcpStream,
    _origin: Scripted,
}

impl Download {
    /// Of a file, from an address.
    fn begin(from: &str, depot: &Daemon, file: &str) -> Self {
        let gate = Gate::default();
        let origin = halting(&vec![7; BODY], &gate);
        Self::by_route(from, depot, &origin.route("-", file), gate, origin)
    }

    fn by_route(from: &str, depot: &Daemon, route: &str, gate: Gate, origin: Scripted) -> Self {
        let client = ask_for(from, depot, route);
        let head = read_head(&client).unwrap();
        assert_eq!(status(&head), 200, "{head}");
        Self { gate, client, _origin: origin }
    }

    /// The depot has broken it off.
    fn breaks_off(mut self) {
        let mut rest = Vec::new();
        let read = self.client.read_to_end(&mut rest);
        assert!(rest.len() < BODY, "all of it has come");
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }

    /// Its other half comes.
    fn goes_on(mut self) {
        self.gate.open();
        let mut all = Vec::new();
        self.client.read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), BODY);
    }
}

/// Asks for a route, from an address.
fn ask_for(from: &str, depot: &Daemon, route: &str) -> TcpStream {
    let mut client = connect_from(from, depot.address);
    let get = format!("GET {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n");
    client.write_all(get.as_bytes()).unwrap();
    client
}

/// The status that a request from an address gets.
fn status_from(from: &str, depot: &Daemon, route: &str) -> u16 {
    status(&read_head(&ask_for(from, depot, route)).unwrap())
}

#[test]
fn transfers_end_by_number_client_and_file() {
    let controlled = Controlled::new();
    let depot = &controlled.depot;
    let begin = |from, file| Download::begin(from, depot, file);
    let (a, b) = (begin("127.0.0.9", "/a/x.tar"), begin("127.0.0.9", "/b/y.tar"));
    let (c, d) = (begin("127.0.1.7", "/a/z.tar"), begin("127.0.0.8", "/c"));
    let by_file = |text: &str| Which { file: Some(text.to_owned()), ..Which::default() };
    let all = controlled.numbers(Which::default());
    assert_eq!(all.len(), 4);
    assert_eq!(controlled.numbers(of_client("127.0.0.0/24")).len(), 3);
    assert_eq!(controlled.numbers(by_file("/a/")), [all[0], all[2]]);
    let both = Which { file: Some("/a/".to_owned()), ..of_client("127.0.0.9") };
    assert_eq!(controlled.numbers(both.clone()), all[..1]);

    assert_eq!(controlled.end(both), Answer::Ended(1));
    a.breaks_off();
    let line = depot.await_log(&["ended by the operator", "client=\"127.0.0.9:"]);
    assert!(line.contains("/a/x.tar"), "{line}");
    let number = Which { transfer: Some(all[2]), ..Which::default() };
    assert_eq!(controlled.end(number.clone()), Answer::Ended(1));
    c.breaks_off();
    assert_eq!(controlled.end(number), Answer::Ended(0));
    assert_eq!(controlled.end(of_client("10.0.0.0/8")), Answer::Ended(0));
    // What names nothing would end all.
    let refused = ask(&controlled.socket(), &Command::End(Which::default()));
    assert!(refused.unwrap_err().to_string().contains("which transfers"));
    b.goes_on();
    d.goes_on();
    assert_eq!(depot.status().totals.requests["withdrawn"], 2);
}

#[test]
fn transfer_ended_before_its_answer_gets_one() {
    let controlled = Controlled::new();
    let gate = Gate::default();
    let waits = gate.clone();
    let origin = Scripted::new(move |_, _| waits.wait());
    let route = origin.route("-", "/slow");
    let client = ask_for("127.0.0.9", &controlled.depot, &route);
    origin.next_head();
    assert_eq!(controlled.end(of_client("127.0.0.9")), Answer::Ended(1));
    let head = read_head(&client).unwrap();
    assert_eq!(status(&head), 403, "{head}");
    gate.open();
}

#[test]
fn denied_client_is_refused_and_its_transfers_end() {
    let controlled = Controlled::new();
    let (depot, origin) = (&controlled.depot, Scripted::answering(SHORT));
    let route = origin.route("-", "/f");
    let (his, other) =
        (Download::begin("127.0.0.9", depot, "/f"), Download::begin("127.0.0.8", depot, "/f"));
    // One that is kept for another request.
    let mut kept = connect_from("127.0.0.9", depot.address);
    assert_eq!(controlled.deny(client("127.0.0.9"), 3600), Answer::Ended(1));
    his.breaks_off();
    let get = format!("GET {route} HTTP/1.1\r\nHost: d\r\n\r\n");
    kept.write_all(get.as_bytes()).unwrap();
    assert_eq!(status(&read_head(&kept).unwrap()), 403);
    assert_eq!(status_from("127.0.0.9", depot, &route), 403);
    assert_eq!(status_from("127.0.0.8", depot, &route), 200);
    other.goes_on();
    let Answer::Denied(list) = controlled.tell(&Command::Denied) else { panic!("no list") };
    assert_eq!(
        (list.len(), &list[0].who, list[0].why.as_str()),
        (1, &client("127.0.0.9"), "a test")
    );

    let allow = Command::Allow { who: client("127.0.0.9") };
    assert_eq!(controlled.tell(&allow), Answer::Allowed { was_denied: true });
    assert_eq!(controlled.tell(&allow), Answer::Allowed { was_denied: false });
    assert_eq!(status_from("127.0.0.9", depot, &route), 200);
}

const SHORT: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nserved";

#[test]
fn denial_survives_a_restart() {
    let mut controlled = Controlled::new();
    controlled.deny(client("127.0.0.9"), 3600);
    let origin = Scripted::answering(SHORT);
    let route = origin.route("-", "/f");
    controlled.depot.signal(rustix::process::Signal::TERM);
    assert!(controlled.depot.wait().success());
    assert!(!controlled.socket().exists(), "a depot that ends takes its socket away");
    let again = Daemon::depot(&settings(controlled.dir.path()));
    assert_eq!(status_from("127.0.0.9", &again, &route), 403);
    assert_eq!(status_from("127.0.0.8", &again, &route), 200);
}

#[test]
fn denied_client_behind_a_depot_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let trust = "[trust]\ndepots = [\"127.0.0.1/32\"]\n";
    let far = Controlled { depot: Daemon::depot(&format!("{}{trust}", settings(dir.path()))), dir };
    let near = Daemon::depot(&format!("id = \"near\"\n{trust}"));
    let origin = Scripted::answering(SHORT);
    let route = origin.route(&far.depot.authority(), "/f");
    assert_eq!(status_from("127.0.0.9", &near, &route), 200);
    let gate = Gate::default();
    let slow = halting(&vec![7; BODY], &gate);
    let through = slow.route(&far.depot.authority(), "/slow");
    let his = Download::by_route("127.0.0.9", &near, &through, gate, slow);
    assert_eq!(far.numbers(of_client("127.0.0.9")).len(), 1);
    assert_eq!(far.deny(client("127.0.0.9"), 60), Answer::Ended(1));
    let mut rest = Vec::new();
    let mut stream = his.client;
    assert!(stream.read_to_end(&mut rest).is_err() || rest.len() < BODY);
    assert_eq!(status_from("127.0.0.9", &near, &route), 403);
    assert_eq!(status_from("127.0.0.8", &near, &route), 200);
}
