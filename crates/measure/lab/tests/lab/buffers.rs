// SPDX-License-Identifier: GPL-2.0-or-later
//! The buffers of two depots over a long path: where the kernel's limit is too low for them, they are raised
//! with the bandwidth-delay product; and the send buffer does not overshoot, as a fixed one of several
//! products does (figure 12 of Augusto et al.). Takes root.
//!
//! ```text
//! origin ── 1 ms ── far ── 200 Mb/s, 100 ms ── near ── 1 ms ── client
//! ```
//! Only sizes read back from the sockets and drops counted by the emulator are judged.

use crate::common::{Measured, credible, one_of_two};
use scenario::Scenario;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, ChildStderr, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};
use testkit::draft::Draft;
use wan::Wan;

const SETTINGS: &str = "LONGHAUL_TEST_DEPOT";
/// How long anything may take before the test fails, however slow the machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// 200 Mb/s over 200 ms, there and back.
const PRODUCT: u64 = 5_000_000;
const BODY: u64 = 160_000_000;
/// The queue before the long path: with what is on the path, it holds two BDPs and the megabyte that
/// a depot keeps unsent, and no more.
const QUEUE: &str = "6000000B";

/// Becomes a depot when asked to by the environment.
#[test]
fn role() {
    let Ok(settings) = std::env::var(SETTINGS) else { return };
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let config = depot::Config::from_toml(&settings, "settings").unwrap();
    let reread = Box::new(|| Err("no file".to_owned()));
    let nothing_to_say = Arc::new(|_, _| Ok(()));
    let error = depot::run(config, reread, nothing_to_say, &depot::StderrLog::new());
    std::process::exit(i32::from(error.is_err()));
}

/// A depot on a node; killed when dropped.
struct Depot {
    child: Child,
    log: BufReader<ChildStderr>,
}

impl Depot {
    fn start(wan: &Wan, node: &str, hops: &str) -> Self {
        let address = wan.address(node).unwrap();
        let settings = format!(
            "id = \"{node}\"\nlisten = [\"{address}:3880\"]\n[allow]\nclients = [\"0.0.0.0/0\"]\n\
             upstreams = [\"0.0.0.0/0:*\"]\nprivate = true\n{hops}"
        );
        let program = std::env::current_exe().unwrap();
        let mut command = wan.command(node, program.to_str().unwrap()).unwrap();
        command.args(["--exact", "buffers::role", "--nocapture"]).env(SETTINGS, settings);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let mut depot = Self { child, log };
        depot.await_line("ready");
        depot
    }

    /// The next line of the log that has this word.
    fn await_line(&mut self, word: &str) -> String {
        let mut line = String::new();
        while !line.contains(word) {
            line.clear();
            assert!(self.log.read_line(&mut line).unwrap() > 0, "the depot ended before {word:?}");
        }
        line
    }
}

impl Drop for Depot {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a transfer left.
#[derive(Debug)]
struct Outcome {
    /// The sending depot's buffer towards the long path.
    sndbuf: u64,
    /// The receiving depot's.
    rcvbuf: u64,
    /// Packets dropped at the queue before the long path.
    drops: u64,
    /// Why the emulator's run does not count, if it does not.
    faults: Vec<String>,
}

/// Up to where the kernels of the two depots tune buffers on the long path.
#[derive(Debug, Clone, Copy)]
struct Tuned {
    /// The sending depot's.
    sndbuf: &'static str,
    /// The receiving depot's.
    rcvbuf: &'static str,
}

/// Moves the body over the chain, with these settings of hops.
fn transfer(tuned: Tuned, hops: &str) -> Outcome {
    let Tuned { sndbuf, rcvbuf } = tuned;
    let text = Draft::new("buffers", "family=ipv4")
        .nodes(&["origin", "client"])
        .node("far", &format!("cc=reno tcp_wmem_max={sndbuf}"))
        .node("near", &format!("tcp_rmem_max={rcvbuf}"))
        .link("origin", "far", "rate=1gbit delay=1ms")
        .link("far", "near", &format!("rate=200mbit delay=100ms queue=\"{QUEUE}\""))
        .link("near", "client", "rate=1gbit delay=1ms")
        .to_string();
    let scenario = Scenario::parse(&text, "test", &[] as &[&str]).unwrap_or_else(|e| panic!("{e}"));
    let wan = Wan::up(&scenario.runs[0]).unwrap_or_else(|error| panic!("{error}"));
    let mut far = Depot::start(&wan, "far", hops);
    let mut near = Depot::start(&wan, "near", hops);
    let (sndbuf, rcvbuf) = thread::scope(|scope| {
        let origin = origin(&wan);
        let address = origin.local_addr().unwrap();
        scope.spawn(move || serve(&origin));
        fetch(&wan, address);
        let sndbuf = number(&far.await_line("complete"), "client_sndbuf_bytes=");
        (sndbuf, number(&near.await_line("complete"), "upstream_rcvbuf_bytes="))
    });
    let down = wan.down().unwrap();
    // The lanes of the second link: there and back.
    let drops = down.directed_links[2].counters.queue_drops;
    let outcome = Outcome { sndbuf, rcvbuf, drops, faults: down.health.faults() };
    println!("{tuned:?} {hops:?}: {outcome:?}");
    outcome
}

fn origin(wan: &Wan) -> TcpListener {
    let address = wan.address("origin").unwrap();
    wan.node("origin").unwrap().namespace.run(|| TcpListener::bind((address, 8000))).unwrap()
}

/// Answers one request.
fn serve(origin: &TcpListener) {
    let (mut stream, _) = origin.accept().unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let mut request = [0; 4096];
    assert!(stream.read(&mut request).unwrap() > 0);
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {BODY}\r\n\r\n").unwrap();
    std::io::copy(&mut std::io::repeat(7).take(BODY), &mut stream).unwrap();
}

/// Fetches the body through both depots.
fn fetch(wan: &Wan, origin: SocketAddr) {
    let at = |node: &str| SocketAddr::new(wan.address(node).unwrap(), 3880);
    let near = at("near");
    let connect = || TcpStream::connect(near);
    let mut client = wan.node("client").unwrap().namespace.run(connect).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let route = format!("/lh1/fetch/{}/http:{origin}/file", at("far"));
    write!(client, "GET {route} HTTP/1.1\r\nHost: near\r\nConnection: close\r\n\r\n").unwrap();
    let (mut reader, mut line) = (BufReader::with_capacity(1 << 20, client), String::new());
    reader.read_line(&mut line).unwrap();
    assert!(line.contains(" 200 "), "{line}");
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).unwrap();
    }
    let bytes = std::io::copy(&mut reader, &mut std::io::sink()).unwrap();
    assert_eq!(bytes, BODY);
}

fn number(line: &str, key: &str) -> u64 {
    let value = line.split(key).nth(1).and_then(|rest| rest.split_whitespace().next());
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {key}: {line}"))
}

/// A transfer that comes out right.
fn right(tuned: Tuned, hops: &str, is_right: impl Fn(&Outcome) -> bool) {
    credible(|| {
        let outcome = transfer(tuned, hops);
        let wrong = (!is_right(&outcome)).then(|| format!("{tuned:?} {hops:?}: {outcome:?}"));
        Measured { wrong: wrong.into_iter().collect(), faults: outcome.faults }
    });
}

/// Leaves the buffers of all hops to the kernel.
const KERNEL: &str = "[[hop]]\npeer = \"0.0.0.0/0\"\nbuffers = \"kernel\"";

#[test]
fn the_send_buffer_follows_the_path_and_does_not_overshoot() {
    let _turn = one_of_two();
    let low = Tuned { sndbuf: "1MB", rcvbuf: "64MB" };
    // Left to the kernel it stays where its limit is: far less than a BDP.
    right(low, KERNEL, |kernel| kernel.sndbuf == 1 << 20);
    // The depot's own doing: enough for a full path, and not much more than two BDPs. No more is
    // in flight than path and queue hold.
    right(low, "", |auto| (PRODUCT..=3 * PRODUCT).contains(&auto.sndbuf) && auto.drops == 0);
    // Fixed ones of many products: what the paper saw with 8192 KB.
    let fixed = "[[hop]]\npeer = \"0.0.0.0/0\"\nsndbuf = \"64MB\"\nrcvbuf = \"64MB\"";
    right(Tuned { sndbuf: "64MB", ..low }, fixed, |fixed| fixed.drops > 0);
}

#[test]
fn the_receive_buffer_is_raised_beyond_the_kernels_limit() {
    let _turn = one_of_two();
    let low = Tuned { sndbuf: "64MB", rcvbuf: "4MB" };
    right(low, KERNEL, |kernel| kernel.rcvbuf <= 4 << 20);
    // The depot's own doing: beyond that limit, and not without end, though here the window cannot follow
    // (packets that come one by one widen it only up to what tcp_rmem would give).
    right(low, "", |auto| (5 << 20..=6 * PRODUCT).contains(&auto.rcvbuf));
}
