// SPDX-License-Identifier: GPL-2.0-or-later
//! What holds for two processes together while one drains and the other serves: limits, decisions of the operator,
//! and counters.

mod handshakes;
mod kept;
mod versions;

use crate::{
    common::{
        client::{connect_from, status},
        process::Daemon,
        scripted::{Gate, Scripted, halting, read_head},
    },
    tickets::{Keys, ticket},
};
use longhaul_depot::{
    control::{Answer, Command, Limit, Limited, Shunned, Which, ask},
    status::Status,
};
use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
};
use testkit::until;

const BODY: usize = 100_000;
const MBIT: u64 = 1_000_000;
const CONNECTIONS: usize = 140;
const PER_CLIENT: usize = 30;

/// A depot in this directory, at an address, with these lines besides.
fn start(dir: &Path, id: &str, listen: &str, more: &str) -> Daemon {
    let path = |name: &str| dir.join(name).display().to_string();
    Daemon::depot_with(&format!(
        "id = \"{id}\"\nlisten = [\"{listen}\"]\nadmin.listen = \"127.0.0.1:0\"\nhandover = {:?}\n\
         control.socket = {:?}\ntimeouts.drain = \"1h\"\n{more}",
        path("handover"),
        path("control.sock"),
    ))
}

fn tell(dir: &Path, command: &Command) -> Answer {
    ask(&dir.join("control.sock"), command).unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// A request from an address, and the head of its answer.
fn request(from: &str, depot: &Daemon, route: &str) -> (TcpStream, String) {
    let mut client = connect_from(from, depot.address);
    let get = format!("GET {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n");
    client.write_all(get.as_bytes()).unwrap();
    let head = read_head(&client).unwrap_or_default();
    (client, head)
}

/// Downloads that halt in their middle.
struct Downloads {
    gate: Gate,
    origin: Scripted,
    clients: Vec<TcpStream>,
}

impl Downloads {
    fn new() -> Self {
        let gate = Gate::default();
        let origin = halting(&vec![7; BODY], &gate);
        Self { gate, origin, clients: Vec::new() }
    }

    /// Begins one; returns the status of the depot's answer.
    fn begin(&mut self, from: &str, depot: &Daemon) -> u16 {
        let (client, head) = request(from, depot, &self.origin.route("-", "/f"));
        let status = status(&head);
        if status == 200 {
            self.clients.push(client);
        }
        status
    }

    /// Begins as many as the depot lets this client have, and returns how many those are.
    fn begin_all(&mut self, from: &str, depot: &Daemon) -> usize {
        (0..=CONNECTIONS).find(|_| self.begin(from, depot) != 200).unwrap()
    }

    /// The other half of each comes; returns what all clients have received.
    fn finish(&mut self) -> u64 {
        self.gate.open();
        let read = |mut client: TcpStream| {
            let mut all = Vec::new();
            client.read_to_end(&mut all).unwrap();
            assert_eq!(all.len(), BODY);
            all.len() as u64
        };
        self.clients.drain(..).map(read).sum()
    }
}

/// To how many bit/s all transfers of a client are held together, in all processes.
fn paced(depot: &Daemon, client: &str) -> u64 {
    let status = depot.status();
    let drained = status.draining.into_iter().flat_map(|draining| draining.transfers);
    let all = status.transfers.into_iter().chain(drained);
    let his = all.filter(|transfer| transfer.client.starts_with(&format!("{client}:")));
    his.map(|transfer| transfer.client_tcp.unwrap().pacing_bps.expect("it is paced")).sum()
}

/// Looks again and again at the counters of the depot that serves, none of which may fall.
struct Watch {
    stop: Arc<AtomicBool>,
    looks: Arc<AtomicU64>,
    watcher: thread::JoinHandle<()>,
}

impl Watch {
    fn of(admin: std::net::SocketAddr) -> Self {
        let (stop, looks) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&looks));
        let watcher = thread::spawn(move || {
            let mut last = [0; 4];
            while !stopped.load(Relaxed) {
                let status = longhaul_depot::fetch_status(&admin.to_string()).unwrap().0;
                let now = counters(&status);
                assert!(now.iter().zip(last).all(|(now, last)| *now >= last), "{last:?} {now:?}");
                last = now;
                counted.fetch_add(1, Relaxed);
            }
        });
        Self { stop, looks, watcher }
    }

    fn stop(self) {
        self.stop.store(true, Relaxed);
        self.watcher.join().expect("no counter falls");
        assert!(self.looks.load(Relaxed) > 3);
    }
}

/// Bytes, complete requests, bytes of hops, and durations.
fn counters(status: &Status) -> [u64; 4] {
    let of_hops = status.hops.iter().filter(|hop| hop.side.as_str() == "client");
    [
        status.totals.down_bytes,
        status.totals.requests["complete"],
        of_hops.map(|hop| hop.down_bytes).sum(),
        status.times.duration.counts.iter().sum(),
    ]
}

fn metric(depot: &Daemon, name: &str) -> u64 {
    let text = crate::common::client::body(&format!("http://{}/metrics", depot.admin()));
    let text = String::from_utf8(text).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} is missing in\n{text}")).parse().unwrap()
}

/// The settings of these tests: limits, and a ticket that is revoked.
fn limits(dir: &Path, keys: &Keys) -> String {
    fs::write(dir.join("revoked"), "t1\n").unwrap();
    format!(
        "[limits]\nconnections = {CONNECTIONS}\nper_client = {PER_CLIENT}\n[trust]\nkeys = {:?}\nrevoked = {:?}\n\
         [allow]\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]\nlocal = true\n",
        keys.file().display().to_string(),
        dir.join("revoked").display().to_string(),
    )
}

/// Decisions that are to outlast each takeover.
fn decide(dir: &Path) {
    let who = Shunned::Client("127.0.0.66/32".parse().unwrap());
    let why = "too many at once".to_owned();
    assert_eq!(tell(dir, &Command::Deny { who, seconds: 600, why }), Answer::Ended(0));
    let whose = Limited::Client("127.0.0.8".parse().unwrap());
    let limit = Command::Limit { whose, rate_bps: Some(80 * MBIT) };
    assert_eq!(tell(dir, &limit), Answer::Limited { is_there: true });
}

fn are_in_force(dir: &Path, depot: &Daemon, keys: &Keys) {
    let whose = Limited::Client("127.0.0.8".parse().unwrap());
    let set = vec![Limit { whose, rate_bps: 80 * MBIT }];
    assert_eq!(tell(dir, &Command::Limits), Answer::Limits(set));
    let Answer::Denied(denied) = tell(dir, &Command::Denied) else { panic!("no list") };
    assert_eq!(denied.len(), 1);
    let mut origin = Downloads::new();
    let (mut client, head) = request("127.0.0.66", depot, &origin.origin.route("-", "/f"));
    let mut told = String::new();
    client.read_to_string(&mut told).unwrap();
    assert!(status(&head) == 403 && told.contains("too many at once"), "{head}{told}");
    let revoked = ticket(origin.origin.address, "/f", &[depot]);
    let (_, head) = request("127.0.0.7", depot, &keys.route(&revoked, "f"));
    assert_eq!(status(&head), 403, "a revoked ticket: {head}");
    origin.finish();
}

/// 100 transfers under way, and then takeovers: each process has the transfers that began while it served.
fn limits_hold_across(takeovers: usize) {
    let (dir, keys) = (tempfile::tempdir().unwrap(), Keys::new());
    let (dir, more) = (dir.path(), limits(dir.path(), &keys));
    let mut downloads = Downloads::new();
    let first = start(dir, "d0", "127.0.0.1:0", &more);
    let (address, admin) = (first.authority(), first.admin().to_string());
    let more =
        format!("{more}\n").replace("[limits]", &format!("admin.listen = {admin:?}\n[limits]"));
    let start_next = |n: usize| {
        let more = more.clone();
        let path = |name: &str| dir.join(name).display().to_string();
        Daemon::depot_with(&format!(
            "id = \"d{n}\"\nlisten = [\"{address}\"]\nhandover = {:?}\ncontrol.socket = {:?}\n\
             timeouts.drain = \"1h\"\n{more}",
            path("handover"),
            path("control.sock"),
        ))
    };
    decide(dir);
    for client in ["127.0.0.8", "127.0.0.9", "127.0.0.10", "127.0.0.11"] {
        (0..25).for_each(|_| assert_eq!(downloads.begin(client, &first), 200));
    }
    let watch = Watch::of(first.admin());
    let mut depots = vec![first];
    // One client takes what it may have a little at a time: the rest of it from the last process.
    for n in 1..=takeovers {
        depots.push(start_next(n));
        let (serving, draining) = depots.split_last().unwrap();
        draining.last().unwrap().await_log(&["another depot has taken over"]);
        are_in_force(dir, serving, &keys);
        assert_eq!(serving.status().draining.len(), n);
        if n < takeovers {
            assert_eq!(downloads.begin("127.0.0.8", serving), 200);
        }
    }
    let (serving, drained) = depots.split_last_mut().unwrap();
    assert_eq!(downloads.begin_all("127.0.0.8", serving), PER_CLIENT - 25 - (takeovers - 1));
    let others = (20..60).map(|n| downloads.begin_all(&format!("127.0.0.{n}"), serving));
    assert_eq!(
        others.sum::<usize>(),
        CONNECTIONS - 100 - (PER_CLIENT - 25),
        "all places are taken"
    );
    let status = serving.status();
    assert_eq!((status.connections.open, status.draining.len()), (CONNECTIONS, takeovers));
    let Answer::Transfers { transfers, more: 0 } = tell(dir, &Command::Transfers(Which::default()))
    else {
        panic!("no list");
    };
    let mut numbers: Vec<_> = transfers.iter().map(|transfer| transfer.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), CONNECTIONS, "each has a number of its own");
    assert_eq!(
        transfers.iter().filter(|it| it.process.is_none()).count(),
        CONNECTIONS - 100 - (takeovers - 1)
    );
    until("the rate is shared by all processes", || {
        (80 * MBIT * 3 / 4..=80 * MBIT).contains(&paced(serving, "127.0.0.8"))
    });
    // Bytes of processes that drain are seen, and then those of processes that are gone.
    let received = downloads.finish();
    assert_eq!(received, (CONNECTIONS * BODY) as u64);
    for depot in drained.iter_mut() {
        assert_eq!(depot.wait().code(), Some(0));
    }
    until("no process drains", || serving.status().draining.is_empty());
    watch.stop();
    let status = serving.status();
    let all = CONNECTIONS as u64;
    assert_eq!(counters(&status), [received, all, received, all]);
    assert_eq!(metric(serving, "longhaul_depot_relayed_bytes_total{direction=\"down\"}"), received);
    assert_eq!(status.totals.requests["refused"], 2 * takeovers as u64 + refused_of(&status));
    // All of it is free again.
    let mut again = Downloads::new();
    assert_eq!(again.begin_all("127.0.0.8", serving), PER_CLIENT);
    again.finish();
    let left = fs::read_dir(dir).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("draining")), "{left:?}");
}

/// Requests that were refused because a limit was reached.
fn refused_of(status: &Status) -> u64 {
    status.refusals.iter().filter(|it| it.status == 503).map(|it| it.requests).sum()
}

#[test]
fn limits_and_counters_hold_across_a_takeover() {
    limits_hold_across(1);
}

#[test]
fn limits_and_counters_hold_across_three_takeovers() {
    limits_hold_across(3);
}

#[test]
fn killed_draining_depot_frees_its_share() {
    let dir = tempfile::tempdir().unwrap();
    let limits = "[limits]\nper_client = 3\n";
    let mut first = start(dir.path(), "first", "127.0.0.1:0", limits);
    let mut downloads = Downloads::new();
    assert_eq!(downloads.begin_all("127.0.0.8", &first), 3);
    let second = start(dir.path(), "second", &first.authority(), limits);
    first.await_log(&["another depot has taken over"]);
    assert_eq!(downloads.begin("127.0.0.8", &second), 503);
    let before = counters(&second.status());
    assert!(before[0] > 0, "what it has moved so far is seen");
    first.signal(rustix::process::Signal::KILL);
    let _ = first.wait();
    downloads.clients.clear();
    until("its connections count no more", || second.status().draining.is_empty());
    assert!(counters(&second.status())[0] >= before[0], "its bytes stay");
    assert_eq!(downloads.begin_all("127.0.0.8", &second), 3);
    downloads.finish();
}

#[test]
fn used_ticket_stays_used_after_a_takeover() {
    let (dir, keys) = (tempfile::tempdir().unwrap(), Keys::new());
    let more =
        format!("[trust]\nkeys = {:?}\n[allow]\nlocal = true\n", keys.file().display().to_string());
    let first = start(dir.path(), "first", "127.0.0.1:0", &more);
    let origin = Scripted::answering("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nserved");
    let mut once = ticket(origin.address, "/f", &[&first]);
    once.uses = std::num::NonZeroU32::new(1);
    let route = keys.route(&once, "f");
    assert_eq!(status(&request("127.0.0.7", &first, &route).1), 200);
    let second = start(dir.path(), "second", &first.authority(), &more);
    first.await_log(&["another depot has taken over"]);
    let (_, head) = request("127.0.0.7", &second, &route);
    assert_eq!(status(&head), 403, "{head}");
}
