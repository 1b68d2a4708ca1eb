// SPDX-License-Identifier: GPL-2.0-or-later
//! Conversations of clients, depots and origins that all misbehave by a seed.
//!
//! ```text
//! client ── depot ── wire ── depot ── wire ── depot ── origin
//! ```
//! One invariant is checked at every exchange: **a client never gets a byte of an answer that is not the
//! answer to its own request, and never takes a part for the whole.**
//!
//! - Each request has a token of its own in its path. Before an origin sends a byte, it records its intent
//!   (`ledger`): the answer's number, which is its `ETag`, its status, the length of its body, whether its
//!   head is well-formed, and whether all of it comes. Each byte of its body follows from that number and the
//!   byte's position (`content`), also if the body looks like answers.
//! - The client's reader (`reader`) shares no code with depots. Every interim answer, final head, byte of a
//!   body and trailer must be of an answer to the request whose turn it is, or the depot's own
//!   (`Proxy-Status`, text); it must be well-formed; and what the framing says is whole must be intended as
//!   whole and have the intended length. A body that ends with the connection is whole at an orderly end.
//! - An origin holds requests against what clients mean, in the same way: an upload that is broken off
//!   never looks whole, and what can be read in two ways never comes.
//! - Bytes that an origin sends unasked on a kept connection belong to no request. A depot must not use such a
//!   connection for a request that its client began after these bytes were in the depot's kernel. If they
//!   cross the request on its way, they cannot be told from the answer: the origin then resets the connection,
//!   and the conversation is not judged.
//!
//! Aborted, refused or late exchanges are not violations, but they are counted. `fuzz.rs` differs: it mutates
//! texts, one exchange at a time, and requires that a depot answers HTTP, keeps nothing and goes on. It does
//! not check which client gets which bytes.
//!
//! `LONGHAUL_CONVERSATIONS` is the number of them, `LONGHAUL_SEED` replays a run, and
//! `LONGHAUL_CONVERSATION` replays one conversation of it, repeatedly and alone. Each side then does the same, but at
//! other times, and without the leftovers of other conversations on shared connections. So a failure may need the
//! whole run.

mod answers;
mod chain;
mod client;
mod content;
mod dice;
mod ledger;
mod origin;
mod reader;
mod wires;

use chain::Chain;
use content::Content;
use dice::{Dice, mix};
use ledger::{Answer, Asked, Conversation, Ledger};
use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Instant,
};

/// Each day others; `make test-long` has 20 000 of them.
const CONVERSATIONS: u64 = 5_000;
/// So many are held by the same depots; then new ones begin.
const ROUND: u64 = 50_000;
/// So many at a time.
const AT_A_TIME: usize = 64;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// Days since 1970.
fn today() -> u64 {
    std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() / 86_400
}

#[test]
fn conversations() {
    let _alone = crate::alone();
    let seed = number("LONGHAUL_SEED").unwrap_or_else(today);
    let one = number("LONGHAUL_CONVERSATION");
    let all =
        number("LONGHAUL_CONVERSATIONS").unwrap_or(if one.is_some() { 500 } else { CONVERSATIONS });
    println!("LONGHAUL_SEED={seed}, {all} conversations");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let begun = Instant::now();
    let mut done = 0;
    while done < all {
        let now = ROUND.min(all - done);
        runtime.block_on(round(seed, done..done + now, one));
        done += now;
        let rate = done as f64 / begun.elapsed().as_secs_f64();
        println!("{done} conversations, {rate:.0} a second");
    }
}

/// Some conversations with depots of their own.
async fn round(seed: u64, numbers: std::ops::Range<u64>, one: Option<u64>) {
    let ledger = Arc::new(Ledger::default());
    let chain = Arc::new(Chain::start(&ledger, mix(&[seed, numbers.start])).await);
    let (next, length) = (Arc::new(AtomicU64::new(numbers.start)), numbers.end - numbers.start);
    let talkers = (0..AT_A_TIME).map(|_| {
        let (ledger, chain, next) = (Arc::clone(&ledger), Arc::clone(&chain), Arc::clone(&next));
        tokio::spawn(async move {
            while ledger.violations().is_empty() {
                let number = next.fetch_add(1, SeqCst);
                if number >= numbers.end {
                    return;
                }
                client::converse(&ledger, &chain, number, one.unwrap_or(number), seed).await;
            }
        })
    });
    let talkers: Vec<_> = talkers.collect();
    let reloading = Arc::clone(&chain);
    let reloads = tokio::spawn(async move {
        let mut dice = Dice::new(mix(&[seed, 3]));
        loop {
            tokio::time::sleep(dice.pause(400)).await;
            reloading.reload(&mut dice);
        }
    });
    for talker in talkers {
        talker.await.unwrap();
    }
    reloads.abort();
    println!("{:?}", ledger.counts);
    let violations = ledger.violations();
    if let Some(first) = violations.first() {
        for violation in &violations {
            eprintln!("{violation}");
        }
        let first = first.lines().next().unwrap_or_default();
        panic!("{} violations, LONGHAUL_SEED={seed}, above; the first: {first}", violations.len());
    }
    for depot in &chain.depots {
        assert!(!depot.log_text().contains("panicked"), "{}", depot.log_text());
    }
    sensible(&ledger, length);
}

/// What hardly ever gets through, or always does, tests little.
fn sensible(ledger: &Ledger, conversations: u64) {
    let counts = &ledger.counts;
    let (asked, whole) = (counts.requests.load(SeqCst), counts.whole.load(SeqCst));
    assert!(whole * 2 > asked, "{whole} of {asked} answers were whole");
    let late = counts.late.load(SeqCst);
    assert!(late * 100 <= conversations, "{late} answers did not come and did not break off");
    if conversations >= CONVERSATIONS {
        let seen =
            [&counts.parts, &counts.refused, &counts.interims, &counts.uploads, &counts.unasked];
        assert!(seen.iter().all(|count| count.load(SeqCst) > 50), "{counts:?}");
    }
}

/// What the reader says of bytes that answer one GET, and then end, in good order or not.
fn judged(bytes: &[u8], orderly: bool) -> Result<(), String> {
    let asked = Asked {
        method: "GET",
        http10: false,
        legal: true,
        upload: None,
        whole: true,
        started: OnceLock::default(),
        excused: AtomicBool::default(),
    };
    let conversation = Arc::new(Conversation::new(1, 1, 1, vec![asked]));
    conversation.begun.store(1, SeqCst);
    let (content, status) = (Content::Noise(5), 200);
    let intended =
        Answer { id: 3, request: 0, status, content, length: 4, readable: true, whole: true };
    conversation.intend(intended);
    let mut reader = reader::Reader::new(conversation);
    // However it is divided.
    bytes.iter().try_for_each(|byte| reader.take(&[*byte]))?;
    reader.end(orderly)
}

#[test]
fn reader_detects_partial_and_foreign_answers() {
    let body = Content::Noise(5).bytes(0, 4);
    let answer = |head: &str, body: &[u8]| [head.as_bytes(), body].concat();
    let with_length = "HTTP/1.1 200 OK\r\nETag: \"a3\"\r\nContent-Length: 4\r\n\r\n";
    let until_close = "HTTP/1.1 200 OK\r\nETag: \"a3\"\r\n\r\n";
    let chunked = "HTTP/1.1 200 OK\r\nETag: \"a3\"\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n";
    let hint = format!("HTTP/1.1 103 E\r\nLink: {}\r\n\r\n", content::link("c1-0", 9));
    let own = "HTTP/1.1 502 Bad\r\nProxy-Status: d\r\nContent-Length: 3\r\n\r\nno\n";
    for (bytes, orderly) in [
        (answer(with_length, &body), true),
        (answer(with_length, &body[..2]), true),
        (answer(until_close, &body), true),
        (answer(until_close, &body[..2]), false),
        (
            answer(
                &(hint.clone() + chunked),
                &[&body[..], b"\r\n0\r\nX-Trailer: a3\r\n\r\n"].concat(),
            ),
            true,
        ),
        (answer(own, b""), true),
        (answer("HTTP/1.1 200 O", b""), true),
    ] {
        assert_eq!(judged(&bytes, orderly), Ok(()), "{}", bytes.escape_ascii());
    }
    for bytes in [
        answer(with_length, b"else"),
        answer(with_length, &[&body[..], b"x"].concat()),
        answer(&with_length.replace("a3", "a4"), &body),
        answer(&with_length.replace("200", "404"), &body),
        answer(&with_length.replace('4', "2"), &body[..2]),
        answer(&with_length.replace("ETag: \"a3\"\r\n", ""), &body),
        answer(&with_length.replace("\r\n\r\n", "\r\nContent-Length: 4\r\n\r\n"), &body),
        answer(until_close, &body[..2]),
        answer(until_close, &[&body[..], &body].concat()),
        answer(chunked, &[&body[..], b"\r\n0\r\nX-Trailer: a4\r\n\r\n"].concat()),
        answer(chunked, &[&body[..], b"0\r\n\r\n"].concat()),
        answer(&chunked.replace("\n4", "\n2"), &[&body[..2], b"\r\n0\r\n\r\n"].concat()),
        answer(&(hint.replace("c1-0", "c1-1") + with_length), &body),
        answer(&(hint[..40].to_owned() + with_length), &body),
        answer(&own.replace("no\n", "\0o\n"), b""),
    ] {
        assert!(judged(&bytes, true).is_err(), "{}", bytes.escape_ascii());
    }
}
