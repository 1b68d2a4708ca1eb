// SPDX-License-Identifier: GPL-2.0-or-later
//! Depots whose clients, origins and siblings talk nonsense.
//!
//! Whatever comes, a depot answers with what is HTTP, passes nothing on that is none, keeps nothing, and
//! serves the next who talks sense. A task of it that panics says so in its log.

use crate::common::{
    PATIENCE,
    client::{connect, get, read_answer, status},
    held::resident,
    idle::Idle,
    process::Daemon,
    scripted::Scripted,
};
use protocol::http::{Framing, RequestHead, ResponseHead};
use std::{
    io::{ErrorKind, Read, Write},
    net::Shutdown,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
};
use testkit::fuzz::{Mutator, corpus, number, seed};
use testkit::until;

const INPUTS: u64 = 1500;
/// Maximum memory growth in bytes: less than the inputs would take, were they kept.
const MOST: usize = 4 << 20;

/// Impatient, so that half a message is soon given up.
const SETTINGS: &str = "id = \"d1\"\n\
    timeouts.request_head = \"200ms\"\ntimeouts.idle = \"200ms\"\n\
    timeouts.response_head = \"200ms\"\ntimeouts.keep_alive = \"200ms\"\n\
    timeouts.half_closed = \"200ms\"\ntrust.depots = [\"127.0.0.0/8\"]\n\
    hop = [{ peer = \"127.0.0.0/8\", idle = \"1s\" }]\n\
    [allow]\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]\nlocal = true\n\
    methods = [\"GET\", \"HEAD\", \"PUT\", \"POST\", \"DELETE\", \"OPTIONS\"]";
const SERVED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nserved";

/// Replaces a placeholder by a value that is known only at run time.
fn filled(input: Vec<u8>, name: &[u8], value: &str) -> Vec<u8> {
    let mut input = input;
    while let Some(at) = input.windows(name.len()).position(|part| part == name) {
        input.splice(at..at + name.len(), value.bytes());
    }
    input
}

/// Tries each kept input, and then mutations.
fn each(name: &str, mut attempt: impl FnMut(&[u8])) {
    let (inputs, seed) = (number("LONGHAUL_FUZZ_INPUTS").unwrap_or(INPUTS), seed());
    let corpus = corpus(name);
    let mut mutator = Mutator::new(seed, &corpus);
    for input in &corpus {
        attempt(input);
    }
    for _ in 0..inputs {
        attempt(&mutator.input());
    }
}

/// What a depot is found to be after all that.
struct Watch<'d> {
    depot: &'d Daemon,
    idle: Idle<'d>,
    before: usize,
}

impl<'d> Watch<'d> {
    fn new(depot: &'d Daemon) -> Self {
        Self { depot, idle: Idle::now([depot]), before: resident(depot.pid()) }
    }

    fn is_well(&self) {
        self.idle.again();
        let log = self.depot.log_text();
        assert!(!log.contains("panicked"), "{log}");
        let grown = resident(self.depot.pid()).saturating_sub(self.before);
        println!("{grown} bytes more memory");
        assert!(grown < MOST, "{grown} bytes");
        let origin = Scripted::answering(SERVED);
        until("it serves", || {
            let (head, body, _) = get(self.depot.address, &origin.route("-", "/"));
            status(&head) == 200 && body == b"served"
        });
    }
}

/// The statuses of the answers, which must be HTTP. An incomplete answer is not the depot's fault.
fn answers(mut bytes: &[u8]) -> Vec<u16> {
    let mut statuses = Vec::new();
    while !bytes.is_empty() {
        let (head, length) = ResponseHead::parse(bytes)
            .unwrap_or_else(|fault| panic!("{fault}: {}", bytes.escape_ascii()))
            .unwrap_or_else(|| panic!("half a head: {}", bytes.escape_ascii()));
        statuses.push(head.status.as_u16());
        if !head.is_interim() {
            return statuses;
        }
        bytes = &bytes[length..];
    }
    statuses
}

#[test]
fn clients() {
    let depot = Daemon::depot(SETTINGS);
    let (fault, faults) = mpsc::channel();
    let reached = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reached);
    let origin = Scripted::new(move |mut stream, head| {
        counted.fetch_add(1, SeqCst);
        match RequestHead::parse(head.as_bytes()) {
            Ok(Some((request, _))) if request.headers.contains(&http::header::VIA) => {}
            other => fault.send(format!("{other:?}: {head}")).unwrap(),
        }
        let _ = stream.write_all(SERVED.as_bytes());
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let route = origin.route("-", "/f");
    let watch = Watch::new(&depot);
    let mut refused = 0;
    each("client", |input| {
        let input = filled(input.to_vec(), b"ROUTE", &route);
        let mut client = connect(depot.address);
        // It may be answered, and closed, before it has sent all.
        let _ = client.write_all(&input);
        let _ = client.shutdown(Shutdown::Write);
        let (head, body, end) = read_answer(client);
        if let Err(error) = end {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{}", input.escape_ascii());
            return;
        }
        let statuses = answers(&[head.as_bytes(), &body].concat());
        refused += usize::from(statuses.last().is_some_and(|code| *code >= 400));
    });
    let reached = reached.load(SeqCst);
    println!("{reached} requests reached the origin, {refused} inputs were refused");
    assert!(reached > 50 && refused > 50, "{reached} {refused}");
    if let Ok(fault) = faults.try_recv() {
        panic!("the origin was asked {fault}");
    }
    watch.is_well();
}

/// What peers say, and what of it they have said.
#[derive(Clone)]
struct Script {
    text: Arc<Mutex<Vec<u8>>>,
    said: mpsc::Sender<Vec<u8>>,
}

impl Script {
    fn new() -> (Self, mpsc::Receiver<Vec<u8>>) {
        let (said, heard) = mpsc::channel();
        (Self { text: Arc::default(), said }, heard)
    }

    fn set(&self, text: &[u8]) {
        *self.text.lock().unwrap() = text.to_vec();
    }

    /// A peer that answers with the input, and then sends no more.
    fn peer(&self) -> Scripted {
        let (text, said) = (Arc::clone(&self.text), self.said.clone());
        Scripted::new(move |mut stream, _| {
            let answer = text.lock().unwrap().clone();
            let _ = stream.write_all(&answer);
            let _ = stream.shutdown(Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
            // The receiver may be gone.
            let _ = said.send(answer);
        })
    }
}

#[test]
fn origins() {
    let depots =
        ["near", "far"].map(|id| Daemon::depot(&SETTINGS.replace("\"d1\"", &format!("{id:?}"))));
    let (script, _heard) = Script::new();
    let origin = script.peer();
    let route = origin.route(&depots[1].authority(), "/f");
    let watches = depots.each_ref().map(Watch::new);
    let (mut passed, mut refused) = (0, 0);
    each("origin", |input| {
        script.set(input);
        let (head, body, _) = get(depots[0].address, &route);
        let bytes = [head.as_bytes(), &body].concat();
        let code = *answers(&bytes).last().expect("an answer");
        // What has a length has it, or is seen to be cut off.
        let get = RequestHead::parse(b"GET / HTTP/1.1\r\nHost: o\r\n\r\n").unwrap().unwrap().0;
        let own = ResponseHead::parse(head.as_bytes()).unwrap().map(|(head, _)| head);
        if let Some(Ok(Framing::Length(length))) = own.map(|head| head.framing(&get)) {
            assert!(body.len() as u64 <= length, "{}: {head}", input.escape_ascii());
        }
        if head.contains("Proxy-Status: far; error=") || code >= 500 {
            refused += 1;
        } else {
            passed += 1;
        }
    });
    println!("{passed} answers were passed on, {refused} were not");
    assert!(passed > 50 && refused > 50, "{passed} {refused}");
    for watch in watches {
        watch.is_well();
    }
}

#[test]
fn siblings() {
    let (script, heard) = Script::new();
    let members: Vec<_> = (0..8).map(|_| script.peer()).collect();
    let listed: Vec<_> = members.iter().map(|it| it.address.to_string()).collect();
    // It would redirect every client to a sibling that reports no load.
    let pool = format!("[siblings]\nmembers = {listed:?}\nabove = 0.0\nevery = \"20ms\"");
    let depot = Daemon::depot(&format!("limits.connections = 4\n{SETTINGS}\n{pool}"));
    let watch = Watch::new(&depot);
    each("sibling", |input| {
        script.set(input);
        while heard.recv_timeout(PATIENCE).expect("it asks on") != input {}
    });
    let log = depot.log_text();
    assert!(!log.contains("panicked"), "{log}");
    // A well-formed load is believed.
    let low = "{\"connections\":0,\"connections_limit\":9,\"leaving\":false}";
    let low = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{low}", low.len());
    script.set(low.as_bytes());
    let origin = Scripted::answering(SERVED);
    until("it leads a client on", || {
        let _held = [connect(depot.address), connect(depot.address)];
        status(&get(depot.address, &origin.route("-", "/")).0) == 302
    });
    let grown = resident(depot.pid()).saturating_sub(watch.before);
    assert!(grown < MOST, "{grown} bytes");
}
