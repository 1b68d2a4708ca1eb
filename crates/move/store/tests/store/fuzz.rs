// SPDX-License-Identifier: GPL-2.0-or-later
//! The parsers of the store's files on malformed input: a bounded number of mutations of the files in `corpus/`, the same
//! for the same seed. `LONGHAUL_SEED` replays a run, `LONGHAUL_FUZZ_INPUTS` makes it longer.

use longhaul_store::{AccessKey, formats};
use protocol::session::SessionId;
use std::fs;

#[test]
fn headers_of_any_bytes_are_refused_or_read_back() {
    testkit::fuzz::run("header", 100_000, header);
}

#[test]
fn journals_of_any_bytes_are_read_as_far_as_they_are_good() {
    testkit::fuzz::run("journal", 50_000, journal);
}

/// A header with the checksum of its bytes, so that what is behind the check is tried too.
fn header(input: &[u8]) -> bool {
    let mut bytes = input.to_vec();
    if bytes.len() >= 16 {
        let rest = [&bytes[..12], &bytes[16..]].concat();
        let sum = crc32fast::hash(&rest);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
    }
    let Ok(header) = formats::Header::parse(&bytes) else { return false };
    assert_eq!(header.to_bytes(), bytes);
    true
}

fn journal(input: &[u8]) -> bool {
    let parsed = formats::parse_journal(input);
    assert!(parsed.states.len() * 48 <= input.len());
    assert!(parsed.torn <= input.len() as u64);
    parsed.fault.is_none() && parsed.states.len() > 1
}

/// The corpus is what the store writes today.
#[test]
fn corpus_is_of_this_version() {
    let note = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/header/note")).unwrap();
    let header = formats::Header::parse(&note).unwrap();
    assert_eq!((header.id, header.owner), (SessionId([1; 16]), AccessKey([2; 32])));
    assert_eq!(header.account, AccessKey([4; 32]));
    assert_eq!(header.note, b"note");
    assert_eq!(header.to_bytes(), note);
    let rounds = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/journal/rounds");
    let parsed = formats::parse_journal(&fs::read(rounds).unwrap());
    assert_eq!((parsed.fault, parsed.torn, parsed.states.len()), (None, 0, 3));
}
