// SPDX-License-Identifier: GPL-2.0-or-later
//! What an origin answers, drawn by a seed: well framed or not, whole or not.

use super::{
    content::{Content, link},
    dice::{Dice, mix},
    ledger::{Answer, Conversation},
    reader::shown,
};
use std::time::Duration;

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It serves the next request.
    Kept,
    /// It is closed in good order.
    Closed,
    Reset,
    /// Nothing more is sent, for longer than a depot waits.
    Stalled,
}

/// When the origin reads a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    First,
    AfterAnswer,
    Never,
}

/// What an origin does with one request.
pub struct Plan {
    pub answer: Answer,
    /// The bytes sent, interim answers and all.
    pub bytes: Vec<u8>,
    /// Where they are divided, with pauses between.
    pub pieces: Vec<(usize, Duration)>,
    pub end: End,
    /// Sent unasked, after a pause.
    pub surplus: Option<(Vec<u8>, Option<Duration>)>,
    pub reads: Reads,
}

impl Plan {
    /// Draws what becomes of a request.
    pub fn new(conversation: &Conversation, request: usize, id: u64, http10: bool) -> Self {
        let attempt = conversation.attempts(request) as u64;
        let mut dice = Dice::new(mix(&[conversation.seed, request as u64, attempt, 11]));
        let asked = &conversation.requests[request];
        let token = conversation.token(request);
        let key = mix(&[conversation.number, id]);
        let content = if dice.often(250) { Content::Answers(key) } else { Content::Noise(key) };
        let status = status(&mut dice);
        let length = dice.length();
        let mut answer =
            Answer { id, request, status, content, length, readable: true, whole: true };
        let mut bytes = Vec::new();
        if !http10 || dice.often(100) {
            interims(&mut dice, &token, &mut bytes);
        }
        let head_at = bytes.len();
        let bodiless = asked.method == "HEAD" || [204, 304].contains(&status);
        let version = if dice.often(60) { "HTTP/1.0" } else { "HTTP/1.1" };
        bytes.extend(format!("{version} {status} Some\r\nETag: \"a{id}\"\r\n").bytes());
        if dice.often(20) && !bodiless {
            bytes.extend(
                b"Content-Digest: sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:\r\n",
            );
            answer.whole = false;
        }
        let mut kept = version == "HTTP/1.1";
        match dice.below(100) {
            0..5 => {
                bytes.extend(b"Connection: close\r\n");
                kept = false;
            }
            5..12 => {
                bytes.extend(b"Connection: keep-alive\r\n");
                kept = true;
            }
            _ => {}
        }
        let until_close = frame(&mut dice, &mut answer, &mut bytes, version, bodiless);
        kept &= !until_close;
        let mut end = match dice.below(1000) {
            0..30 => End::Closed,
            30..50 => End::Reset,
            // An origin that announces a close does not always close.
            50..60 => End::Kept,
            _ if kept => End::Kept,
            _ => End::Closed,
        };
        if until_close && end == End::Kept {
            end = End::Closed;
        }
        let head_end = head_at + find(&bytes[head_at..], b"\r\n\r\n") + 4;
        if dice.often(80) {
            end = cut(&mut dice, &mut answer, &mut bytes, head_end, until_close);
        }
        if until_close && end == End::Reset {
            answer.whole = false;
        }
        let reads = match dice.below(20) {
            0 => Reads::AfterAnswer,
            1 if asked.upload.is_some() => Reads::Never,
            _ => Reads::First,
        };
        // An origin that leaves a body unread does not see the next request, which the surplus may meet.
        let surplus = (end == End::Kept && reads != Reads::Never && dice.often(30))
            .then(|| surplus(&mut dice, &token));
        let pieces = pieces(&mut dice, bytes.len());
        let head = bytes.get(head_at..head_end).unwrap_or_default();
        conversation.note(format!("origin draws {}", shown(head)));
        Self { answer, bytes, pieces, end, surplus, reads }
    }
}

fn status(dice: &mut Dice) -> u16 {
    match dice.below(100) {
        0..6 => 204,
        6..12 => 304,
        12..18 => 206,
        18..22 => 404,
        22..24 => 500,
        _ => 200,
    }
}

/// Truncates the answer anywhere. Returns how it then ends.
fn cut(
    dice: &mut Dice,
    answer: &mut Answer,
    bytes: &mut Vec<u8>,
    head_end: usize,
    until_close: bool,
) -> End {
    let at = match dice.below(4) {
        0 => dice.below(head_end),
        1 => head_end.min(bytes.len() - 1),
        2 => bytes.len() - 1 - dice.below(bytes.len().min(8)),
        _ => dice.below(bytes.len()),
    };
    let end = match dice.below(20) {
        0 => End::Stalled,
        1..11 => End::Reset,
        _ => End::Closed,
    };
    bytes.truncate(at);
    answer.readable &= at >= head_end;
    if until_close && end == End::Closed {
        // Where it is closed in good order, that is the end.
        answer.length = answer.length.min(at.saturating_sub(head_end));
    } else {
        answer.whole = false;
    }
    end
}

fn find(bytes: &[u8], what: &[u8]) -> usize {
    bytes.windows(what.len()).position(|window| window == what).expect("a head ends")
}

fn interims(dice: &mut Dice, token: &str, bytes: &mut Vec<u8>) {
    let number = match dice.below(100) {
        0..75 => 0,
        75..95 => 1 + dice.below(3),
        _ => 1 + dice.below(40),
    };
    let large = dice.often(300);
    for _ in 0..number {
        let size = if large { dice.below(50_000) } else { dice.below(300) };
        match dice.below(4) {
            0 => bytes.extend(b"HTTP/1.1 100 Continue\r\n\r\n"),
            1 => bytes.extend(b"HTTP/1.1 102 Processing\r\n\r\n"),
            _ => bytes.extend(
                format!("HTTP/1.1 103 Early Hints\r\nLink: {}\r\n\r\n", link(token, size)).bytes(),
            ),
        }
    }
}

/// Ends the head and appends the body. Returns whether the body ends with the connection. Ambiguous framing is
/// marked as not readable.
fn frame(
    dice: &mut Dice,
    answer: &mut Answer,
    bytes: &mut Vec<u8>,
    version: &str,
    bodiless: bool,
) -> bool {
    let length = answer.length;
    let body = answer.content.bytes(0, length);
    if bodiless {
        match dice.below(5) {
            0 => {}
            1 => bytes.extend(b"Transfer-Encoding: chunked\r\n"),
            _ => bytes.extend(format!("Content-Length: {length}\r\n").bytes()),
        }
        // Not every framing is one that an answer without a body, or of that version, may have.
        bytes.extend(b"\r\n");
        return false;
    }
    match dice.below(100) {
        0..50 => {
            bytes.extend(format!("Content-Length: {length}\r\n").bytes());
            if dice.often(40) {
                bytes.extend(format!("Content-Length: {length}\r\n").bytes());
            }
            bytes.extend(b"\r\n");
            bytes.extend(body);
        }
        50..80 if version == "HTTP/1.1" => {
            bytes.extend(
                dice.pick(&[
                    "Transfer-Encoding: chunked\r\n\r\n",
                    "transfer-encoding:Chunked\r\n\r\n",
                ])
                .bytes(),
            );
            chunks(dice, answer, bytes, &body);
        }
        50..90 => {
            bytes.extend(b"\r\n");
            bytes.extend(body);
            return true;
        }
        _ => {
            answer.readable = false;
            answer.whole = false;
            let two = format!("Content-Length: {length}\r\nContent-Length: {}\r\n\r\n", length + 1);
            let both = format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n");
            let folded = format!("X-Folded: a\r\n b\r\nContent-Length: {length}\r\n\r\n");
            let of_old = "Transfer-Encoding: gzip, identity\r\n\r\n".to_owned();
            let feed = format!("Content-Length: {length}\nX-Feed: 1\r\n\r\n");
            let sign = format!("Content-Length: +{length}\r\n\r\n");
            let list = format!("Content-Length: {length},\r\n\r\n");
            let space = format!("Content-Length : {length}\r\n\r\n");
            let bare = "Transfer-Encoding: chunked, chunked\r\n\r\n".to_owned();
            bytes.extend(
                dice.pick(&[two, both, folded, of_old, feed, sign, list, space, bare]).bytes(),
            );
            bytes.extend(body);
        }
    }
    false
}

fn chunks(dice: &mut Dice, answer: &mut Answer, bytes: &mut Vec<u8>, body: &[u8]) {
    let mut left = body;
    // One of the many that can be wrong, after any chunk.
    let mut wrong = dice.often(80);
    while !left.is_empty() {
        let now = if dice.often(300) { left.len() } else { 1 + dice.below(left.len()) };
        let (chunk, rest) = left.split_at(now);
        let size = match dice.below(6) {
            0 => format!("{now:016X}"),
            1 => format!("{now:X};name=value"),
            2 => format!("{now:x};\"quoted;\\\"x\""),
            _ => format!("{now:x}"),
        };
        if wrong && (dice.often(400) || rest.is_empty()) {
            wrong = false;
            answer.whole = false;
            let bad: &[(String, &[u8], &str)] = &[
                (format!("0x{now:x}\r\n"), chunk, "\r\n"),
                (format!(" {now:x}\r\n"), chunk, "\r\n"),
                (format!("{now:x}\n"), chunk, "\r\n"),
                (format!("-{now:x}\r\n"), chunk, "\r\n"),
                (format!("{now:017x}\r\n"), chunk, "\r\n"),
                (format!("{now:x}\r\n"), chunk, "\n"),
                (format!("{now:x}\r\n"), chunk, "X\r\n"),
                ("ffffffffffffffff\r\n".to_owned(), chunk, "\r\n"),
                ("8000000000000000\r\n".to_owned(), chunk, "\r\n"),
            ];
            let (head, data, end) = dice.pick(bad);
            bytes.extend(head.bytes());
            bytes.extend(*data);
            bytes.extend(end.bytes());
        } else {
            bytes.extend(format!("{size}\r\n").bytes());
            bytes.extend(chunk);
            bytes.extend(b"\r\n");
        }
        left = rest;
    }
    if wrong && dice.often(500) {
        answer.whole = false;
        return;
    }
    bytes.extend(dice.pick(&["0\r\n", "0\r\n", "000\r\n", "0;last\r\n"]).bytes());
    if dice.often(200) {
        bytes.extend(format!("X-Trailer: a{}\r\n", answer.id).bytes());
    }
    if wrong {
        answer.whole = false;
        bytes.extend(b"no trailer\r\n");
    }
    bytes.extend(b"\r\n");
}

/// Unrequested bytes, and the pause before them.
fn surplus(dice: &mut Dice, token: &str) -> (Vec<u8>, Option<Duration>) {
    let bytes = match dice.below(5) {
        0 => b"x".to_vec(),
        1 => b"\r\n".to_vec(),
        2 => format!("HTTP/1.1 103 Early Hints\r\nLink: {}\r\n\r\n", link(token, 20)).into(),
        3 => Content::Answers(1).bytes(0, 96),
        _ => b"HTTP/1.1 200 OK\r\nETag: \"unasked\"\r\nContent-Length: 4\r\n\r\nevil".to_vec(),
    };
    (bytes, dice.often(500).then(|| dice.pause(6)))
}

fn pieces(dice: &mut Dice, length: usize) -> Vec<(usize, Duration)> {
    let number = if dice.often(600) || length == 0 { 0 } else { 1 + dice.below(4) };
    let mut ends: Vec<usize> = (0..number).map(|_| dice.below(length)).collect();
    ends.sort_unstable();
    let mut pieces: Vec<_> = ends.into_iter().map(|end| (end, dice.pause(3))).collect();
    pieces.push((length, Duration::ZERO));
    pieces
}
