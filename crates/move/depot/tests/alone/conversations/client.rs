// SPDX-License-Identifier: GPL-2.0-or-later
//! The client: its script, drawn by a seed, and what it does with one connection.

use super::{
    chain::Chain,
    dice::{Dice, mix},
    ledger::{Asked, Conversation, Ledger, count},
    reader::Reader,
    wires::reset,
};
use socket2::{Domain, Socket, Type};
use std::{
    fmt::Write,
    net::SocketAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpSocket, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::watch,
    time::{sleep, timeout},
};

/// Longer than any depot takes to say something.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the chain's depots wait for a request's head (`timeouts.request_head`).
const REQUEST_HEAD: Duration = Duration::from_millis(500);

/// How long an origin may take to find out that a request met unrequested bytes, on a busy machine.
const EXCUSE: Duration = Duration::from_secs(3);

/// What is done with the sending side.
#[derive(Debug)]
enum Act {
    /// Requests up to this number begin.
    Begin(usize),
    Send(Vec<u8>),
    Pause(Duration),
    /// Waits until this many answers have come.
    Answers(usize),
    /// Waits for an interim answer, for a while.
    Continue,
    /// No more is sent.
    Shut,
    /// The client goes away.
    Leave,
}

/// How a client reads.
#[derive(Debug, Clone, Copy)]
enum Reading {
    Eager,
    /// Reads this many bytes at a time, with pauses while the other number of bytes is left.
    Slow(usize, usize),
    /// Not for a while.
    Late(Duration),
    /// So many bytes, and then it goes away.
    Until(usize),
}

struct Script {
    acts: Vec<Act>,
    reading: Reading,
    /// A receive buffer of this size, where it is not the system's.
    small: Option<usize>,
}

/// How far the answers are.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    answers: usize,
    interims: usize,
    over: bool,
}

/// One conversation from beginning to end.
pub async fn converse(ledger: &Ledger, chain: &Chain, number: u64, index: u64, seed: u64) {
    let seed = mix(&[seed, index]);
    let mut dice = Dice::new(seed);
    let (door, route) = chain.route(&mut dice);
    let (requests, script) = script(&mut dice, number, &route);
    let conversation = Arc::new(Conversation::new(number, index, seed, requests));
    ledger.open(&conversation);
    conversation.note(format!("{:?}, small {:?}, by {route}", script.reading, script.small));
    for act in &script.acts {
        let text = match act {
            Act::Send(bytes) => super::reader::shown(bytes),
            act => format!("{act:?}"),
        };
        conversation.note(format!("client will: {text}"));
    }
    let connects = Instant::now();
    if let Ok(mut stream) = connect(door, number, script.small).await {
        let mut reader = Reader::new(Arc::clone(&conversation));
        let found = run(&mut stream, &script, &conversation, &mut reader, ledger).await;
        if let Err(what) = found {
            // While the connection stands, or the origin may never get the request that it is about.
            let began = conversation.requests[0].started.get().copied();
            let held_up = began.unwrap_or_else(Instant::now) - connects;
            judge(ledger, &conversation, &what, held_up).await;
        }
        reset(&stream);
        drop(stream);
        for _ in 0..conversation.begun.load(SeqCst) {
            count(&ledger.counts.requests);
        }
        let add = |counter: &AtomicU64, more: usize| {
            counter.fetch_add(more as u64, SeqCst);
        };
        add(&ledger.counts.whole, reader.whole);
        add(&ledger.counts.refused, reader.refused);
        add(&ledger.counts.interims, reader.interims);
        add(&ledger.counts.parts, usize::from(reader.is_in_answer()));
    }
    ledger.close(&conversation);
}

/// Something was wrong: unless a request of this connection met what was sent unasked while it was under
/// way, which its origin may be about to find out; or unless the client was held up before its first request for so long
/// that its depot refused it unread.
async fn judge(ledger: &Ledger, conversation: &Conversation, what: &str, held_up: Duration) {
    conversation.note(format!("client finds {what}"));
    if held_up >= REQUEST_HEAD && [" 408 ", "head did not end"].iter().any(|it| what.contains(it)) {
        return count(&ledger.counts.excused);
    }
    let judged = Instant::now();
    while judged.elapsed() < EXCUSE {
        if conversation.is_excused() {
            return count(&ledger.counts.excused);
        }
        sleep(Duration::from_millis(10)).await;
    }
    ledger.violated(what, Some(conversation));
}

async fn connect(to: SocketAddr, number: u64, small: Option<usize>) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    if let Some(size) = small {
        socket.set_recv_buffer_size(size)?;
    }
    // Ports of one address would run out.
    let from = [127, 1, (number >> 8) as u8, (number as u8).max(1)];
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    let stream = TcpSocket::from_std_stream(socket.into()).connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn run(
    stream: &mut TcpStream,
    script: &Script,
    conversation: &Conversation,
    reader: &mut Reader,
    ledger: &Ledger,
) -> Result<(), String> {
    let (source, sink) = stream.split();
    let (told, progress) = watch::channel(Progress::default());
    let cut = AtomicBool::new(false);
    let send = send(sink, script, conversation, progress, &cut);
    let read = read(source, script.reading, reader, &told, ledger, &cut);
    tokio::pin!(send, read);
    tokio::select! {
        biased;
        found = &mut read => found,
        leaves = &mut send => if leaves { Ok(()) } else { read.await },
    }
}

/// Plays the script; says whether the client goes away at its end.
async fn send(
    mut sink: WriteHalf<'_>,
    script: &Script,
    conversation: &Conversation,
    mut progress: watch::Receiver<Progress>,
    cut: &AtomicBool,
) -> bool {
    for act in &script.acts {
        match act {
            Act::Begin(until) => {
                let from = conversation.begun.load(SeqCst);
                for asked in &conversation.requests[from..*until] {
                    let _ = asked.started.set(Instant::now());
                }
                conversation.begun.store(*until, SeqCst);
                conversation.note(format!("client begins requests up to {until}"));
            }
            Act::Send(bytes) => {
                // A depot may have said its last word; that is to be read.
                let sent = timeout(PATIENCE, sink.write_all(bytes)).await;
                if !matches!(sent, Ok(Ok(()))) {
                    conversation.note("client cannot send".to_owned());
                    // The kernel reports a reset once: the next read returns an orderly end.
                    cut.store(true, SeqCst);
                    return false;
                }
            }
            Act::Pause(time) => sleep(*time).await,
            Act::Answers(number) => {
                let seen = progress.wait_for(|now| now.answers >= *number || now.over).await;
                if seen.map_or(true, |now| now.over) {
                    return false;
                }
            }
            Act::Continue => {
                let before = progress.borrow().interims;
                let interim = progress.wait_for(|now| now.interims > before || now.over);
                let _ = timeout(Duration::from_millis(20), interim).await;
            }
            Act::Shut => {
                let _ = sink.shutdown().await;
            }
            Act::Leave => return true,
        }
    }
    false
}

async fn read(
    mut source: ReadHalf<'_>,
    reading: Reading,
    reader: &mut Reader,
    told: &watch::Sender<Progress>,
    ledger: &Ledger,
    cut: &AtomicBool,
) -> Result<(), String> {
    let mut buffer = vec![0; if let Reading::Slow(size, _) = reading { size } else { 65_536 }];
    if let Reading::Late(time) = reading {
        sleep(time).await;
    }
    let (mut pauses, mut left) = match reading {
        Reading::Slow(_, pauses) => (pauses, usize::MAX),
        Reading::Until(left) => (0, left),
        _ => (0, usize::MAX),
    };
    loop {
        let found = match timeout(PATIENCE, source.read(&mut buffer)).await {
            Err(_) => {
                count(&ledger.counts.late);
                return Ok(());
            }
            Ok(Ok(length @ 1..)) => {
                let found = reader.take(&buffer[..length]);
                left = left.saturating_sub(length);
                found.map(|()| left > 0)
            }
            Ok(end) => reader.end(end.is_ok() && !cut.load(SeqCst)).map(|()| false),
        };
        let over = !matches!(found, Ok(true));
        let (answers, interims) = (reader.answered, reader.interims);
        told.send_replace(Progress { answers, interims, over });
        if over {
            return found.map(drop);
        }
        if pauses > 0 {
            pauses -= 1;
            sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Draws what a client asks, and how.
fn script(dice: &mut Dice, number: u64, route: &str) -> (Vec<Asked>, Script) {
    let mut requests = Vec::new();
    let mut acts = Vec::new();
    let pipelines = dice.often(300);
    let most = if dice.often(700) { 3 } else { 6 };
    let wanted = 1 + dice.below(most);
    let mut last = false;
    for n in 0..wanted {
        if !pipelines && n > 0 {
            acts.push(Act::Answers(n));
            if dice.often(100) {
                acts.push(Act::Pause(dice.pause(20)));
            }
        }
        last = request(dice, number, n, route, &mut requests, &mut acts);
        if last {
            break;
        }
    }
    if pipelines {
        joined(dice, &mut acts);
    }
    let answered = requests.len();
    match dice.below(100) {
        _ if last => {}
        0..8 => acts.push(Act::Shut),
        8..14 => acts.extend([Act::Pause(dice.pause(10)), Act::Leave]),
        14..24 => {
            // What comes where nothing is to come is seen.
            let pause = Act::Pause(dice.pause(8));
            acts.extend([Act::Answers(answered), pause, Act::Leave]);
        }
        _ => acts.extend([Act::Answers(answered), Act::Leave]),
    }
    let reading = match dice.below(100) {
        0..70 => Reading::Eager,
        70..82 => Reading::Slow(1 + dice.below(4000), 20 + dice.below(60)),
        82..91 => Reading::Late(dice.pause(60)),
        91 => Reading::Late(dice.pause(700)),
        _ => Reading::Until(1 + dice.length()),
    };
    let eager = matches!(reading, Reading::Eager);
    let small = (!eager && dice.often(700)).then(|| 2048 + dice.below(8000));
    (requests, Script { acts, reading, small })
}

/// Sends several requests in one write, or divided anywhere.
fn joined(dice: &mut Dice, acts: &mut Vec<Act>) {
    let begun = acts.iter().filter(|act| matches!(act, Act::Begin(_))).count();
    let mut all = vec![Act::Begin(begun)];
    let mut bytes = Vec::new();
    for act in acts.drain(..) {
        match act {
            Act::Begin(_) => {}
            Act::Send(more) => bytes.extend(more),
            other => {
                all.push(Act::Send(std::mem::take(&mut bytes)));
                all.push(other);
            }
        }
    }
    if !bytes.is_empty() && dice.often(300) {
        let rest = bytes.split_off(dice.below(bytes.len()));
        all.extend([Act::Send(bytes), Act::Pause(dice.pause(5)), Act::Send(rest)]);
    } else {
        all.push(Act::Send(bytes));
    }
    *acts = all;
}

/// Lines that make a request one that must not reach an origin.
const BAD: [&str; 9] = [
    "Host: other\r\n",
    "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    "Transfer-Encoding: chunked, identity\r\n",
    "X: a\r\n b\r\n",
    "X : a\r\n",
    "X: a\nY: b\r\n",
    "Content-Length: 1\r\nContent-Length: 2\r\n",
    "Content-Length: -1\r\n",
    "Via: 1.1 x (\r\n",
];

/// Adds one request; says whether none can follow it.
fn request(
    dice: &mut Dice,
    number: u64,
    n: usize,
    route: &str,
    requests: &mut Vec<Asked>,
    acts: &mut Vec<Act>,
) -> bool {
    let method = *dice.pick(&["GET", "GET", "GET", "GET", "GET", "HEAD", "PUT", "POST", "OPTIONS"]);
    let http10 = dice.often(50);
    let upload = (method == "PUT" || method == "POST").then(|| dice.length().min(200_000));
    let mut asked = Asked {
        method,
        http10,
        legal: true,
        upload,
        whole: true,
        started: OnceLock::default(),
        excused: AtomicBool::default(),
    };
    let version = if http10 { "HTTP/1.0" } else { "HTTP/1.1" };
    let mut head = format!("{method} {route}/c{number}-{n}/file {version}\r\nHost: depot\r\n");
    let close = dice.often(40);
    if close {
        head.push_str("Connection: close\r\n");
    } else if dice.often(30) {
        head.push_str("Connection: keep-alive\r\n");
    }
    if dice.often(80) {
        head.push_str("Range: bytes=0-99\r\n");
    }
    if dice.often(30) {
        head.push_str("Via: 1.1 somebody, HTTP/1.1 other:80 (a comment)\r\n");
    }
    if dice.often(25) {
        asked.legal = false;
        head.push_str(dice.pick::<&str>(&BAD));
    }
    let body = upload
        .map(|length| super::content::Content::Noise(mix(&[number, n as u64, 7])).bytes(0, length));
    let chunked = body.is_some() && !http10 && dice.often(400);
    let expects = body.is_some() && !http10 && dice.often(300);
    if expects {
        head.push_str("Expect: 100-continue\r\n");
    }
    let mut last = !asked.legal || close || http10;
    let mut bytes = Vec::new();
    if let Some(body) = body {
        bytes = framed(dice, &mut head, body, chunked);
        if dice.often(100) && !bytes.is_empty() {
            // Broken off: nothing more is sent, or the client goes away.
            bytes.truncate(dice.below(bytes.len()));
            asked.whole = false;
            last = true;
        }
    }
    let broken_off = !asked.whole;
    requests.push(asked);
    acts.push(Act::Begin(n + 1));
    acts.push(Act::Send(format!("{head}\r\n").into_bytes()));
    if expects && dice.often(700) {
        acts.push(Act::Continue);
    }
    if bytes.len() > 1 && dice.often(200) {
        let rest = bytes.split_off(dice.below(bytes.len()));
        acts.extend([Act::Send(bytes), Act::Pause(dice.pause(5)), Act::Send(rest)]);
    } else if !bytes.is_empty() {
        acts.push(Act::Send(bytes));
    }
    if broken_off {
        acts.push(match dice.below(10) {
            0..4 => Act::Shut,
            4..8 => Act::Leave,
            // The depot waits for more, for as long as it waits for anybody.
            _ => Act::Pause(Duration::from_millis(1)),
        });
    } else if last && dice.often(300) {
        // Beyond the last request, where nothing is heard any more.
        acts.push(Act::Send(b"GARBAGE \r\n\r\n".to_vec()));
    }
    last
}

/// Says in a head how a body is framed, and frames it.
fn framed(dice: &mut Dice, head: &mut String, body: Vec<u8>, chunked: bool) -> Vec<u8> {
    if !chunked {
        let _ = write!(head, "Content-Length: {}\r\n", body.len());
        return body;
    }
    head.push_str("Transfer-Encoding: chunked\r\n");
    let (mut left, mut bytes) = (&body[..], Vec::new());
    while !left.is_empty() {
        let (chunk, rest) = left.split_at(1 + dice.below(left.len()));
        let extension = if dice.often(100) { ";a=b" } else { "" };
        bytes.extend(format!("{:x}{extension}\r\n", chunk.len()).bytes());
        bytes.extend(chunk);
        bytes.extend(b"\r\n");
        left = rest;
    }
    bytes.extend(b"0\r\n\r\n");
    bytes
}
