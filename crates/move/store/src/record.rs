// SPDX-License-Identifier: GPL-2.0-or-later
//! The journal as bytes: what is on disk of each session, in rounds that hold as a whole or not at all.
//!
//! ```text
//! beginning, 40 bytes: "LHjourna" | version u16 | zeros 2 | crc32 u32 of the rest | number of the first round u64
//!                      | sessions in the first rounds u64 | zeros 8
//! round:               "LHJ1" | crc32 u32 of the rest | number u64 | records u32 | zeros 4 | records
//! record, 48 bytes:    id 16 | length u64 | reserved u64 | expires u64 (seconds since 1970) | crc32 of the last block u32
//!                      | status u8 | zeros 3
//! ```
//! Numbers are little-endian. A record has all of a session's state, so the last one is true whatever came before. A journal
//! begins with the states of all sessions, in as many rounds as that takes. A round is written when the one before it is
//! synced, so only the last can be torn by a crash. If a later one is good, a bad round is damage.

use protocol::session::SessionId;
use std::collections::HashMap;

/// The version that is written, and the latest that is read.
pub(crate) const VERSION: u16 = 1;
/// Records of a round at most.
pub(crate) const MOST_RECORDS: usize = 4096;
/// Bytes of the beginning.
pub(crate) const BEGINNING: usize = 40;

const MAGIC: [u8; 8] = *b"LHjourna";
const ROUND_MAGIC: [u8; 4] = *b"LHJ1";
const ROUND: usize = 24;
const RECORD: usize = 48;

/// How far a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Status {
    /// More bytes may come.
    #[default]
    Arriving,
    /// It has its last byte.
    Complete,
    /// The disk could not store more of it.
    Failed,
    /// It was dropped or has expired; its files may still be there.
    Gone,
}

impl Status {
    const fn to_byte(self) -> u8 {
        match self {
            Self::Arriving => 1,
            Self::Complete => 2,
            Self::Failed => 3,
            Self::Gone => 4,
        }
    }

    const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Arriving),
            2 => Some(Self::Complete),
            3 => Some(Self::Failed),
            4 => Some(Self::Gone),
            _ => None,
        }
    }
}

/// What is on disk of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct State {
    /// Promised bytes.
    pub length: u64,
    /// Bytes that it may have.
    pub reserved: u64,
    /// When it ends, in seconds since 1970.
    pub expires_s: u64,
    /// The checksum of its last block, which has no trailer.
    pub tail: u32,
    /// How far it is.
    pub status: Status,
}

/// A session and its state.
pub type Record = (SessionId, State);

/// The beginning of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Beginning {
    pub first_round: u64,
    pub sessions: u64,
}

impl Beginning {
    pub(crate) fn to_bytes(self) -> [u8; BEGINNING] {
        let mut bytes = [0; BEGINNING];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first_round.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.sessions.to_le_bytes());
        let sum = beginning_sum(&bytes);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }
}

fn beginning_sum(bytes: &[u8; BEGINNING]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..12]);
    hasher.update(&bytes[16..]);
    hasher.finalize()
}

/// A round as bytes.
///
/// # Panics
/// There are more than [`MOST_RECORDS`].
pub(crate) fn round_to_bytes(number: u64, records: &[Record]) -> Vec<u8> {
    assert!(records.len() <= MOST_RECORDS, "the caller splits them");
    let mut bytes = Vec::with_capacity(ROUND + records.len() * RECORD);
    bytes.extend_from_slice(&ROUND_MAGIC);
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&(records.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    for (id, state) in records {
        bytes.extend_from_slice(&id.0);
        for number in [state.length, state.reserved, state.expires_s] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&state.tail.to_le_bytes());
        bytes.extend_from_slice(&[state.status.to_byte(), 0, 0, 0]);
    }
    let sum = crc32fast::hash(&bytes[8..]);
    bytes[4..8].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// What is wrong with a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A later version has written it.
    LaterVersion(u16),
    /// Its beginning cannot be read, or not all of the first rounds.
    Beginning,
    /// A round in its midst cannot be read: at this byte.
    Midst(u64),
}

/// What a journal says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// The last state of each session.
    pub states: HashMap<SessionId, State>,
    /// The number of the next round.
    pub next_round: u64,
    /// What is wrong with it. States that can be read are there all the same, but they may be old ones.
    pub fault: Option<Fault>,
    /// Bytes at its end that are not a round: what a crash leaves of one that was not promised yet, or damage.
    pub torn: u64,
}

/// Reads a journal.
pub fn parse(bytes: &[u8]) -> Parsed {
    let mut parsed = Parsed::default();
    let (mut at, mut announced) = (0, None);
    match parse_beginning(bytes) {
        Ok(beginning) => {
            at = BEGINNING;
            parsed.next_round = beginning.first_round;
            announced = Some(beginning.sessions);
        }
        Err(fault) => parsed.fault = Some(fault),
    }
    if matches!(parsed.fault, Some(Fault::LaterVersion(_))) {
        return parsed;
    }
    while at < bytes.len() {
        if let Some((number, records, next)) = round_at(bytes, at)
            && number >= parsed.next_round
        {
            if number > parsed.next_round && parsed.fault.is_none() {
                parsed.fault = Some(Fault::Midst(at as u64));
            }
            parsed.states.extend(records);
            (parsed.next_round, at) = (number.saturating_add(1), next);
            continue;
        }
        // A round that comes later says that this one was synced, and so that it was whole.
        let Some(later) = later_round(bytes, at + 1, parsed.next_round) else {
            parsed.torn = (bytes.len() - at) as u64;
            break;
        };
        parsed.fault.get_or_insert(Fault::Midst(at as u64));
        at = later;
    }
    // All of the first rounds were synced before the journal got its name.
    if announced.is_some_and(|sessions| (parsed.states.len() as u64) < sessions) {
        parsed.fault.get_or_insert(Fault::Beginning);
    }
    parsed
}

fn parse_beginning(bytes: &[u8]) -> Result<Beginning, Fault> {
    let bytes: [u8; BEGINNING] =
        bytes.get(..BEGINNING).and_then(|part| part.try_into().ok()).ok_or(Fault::Beginning)?;
    let sum = u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
    if bytes[..8] != MAGIC || sum != beginning_sum(&bytes) {
        return Err(Fault::Beginning);
    }
    let version = u16::from_le_bytes([bytes[8], bytes[9]]);
    if version > VERSION {
        return Err(Fault::LaterVersion(version));
    }
    let beginning = Beginning { first_round: number(&bytes, 16), sessions: number(&bytes, 24) };
    if beginning.to_bytes() == bytes { Ok(beginning) } else { Err(Fault::Beginning) }
}

/// The good round at this byte: its number, its records, and where the next one begins.
fn round_at(bytes: &[u8], at: usize) -> Option<(u64, Vec<Record>, usize)> {
    let head = bytes.get(at..at + ROUND)?;
    if head[..4] != ROUND_MAGIC || head[20..] != [0; 4] {
        return None;
    }
    let count = u32::from_le_bytes([head[16], head[17], head[18], head[19]]) as usize;
    if count > MOST_RECORDS {
        return None;
    }
    let next = at + ROUND + count * RECORD;
    let rest = bytes.get(at + 8..next)?;
    if crc32fast::hash(rest) != u32::from_le_bytes([head[4], head[5], head[6], head[7]]) {
        return None;
    }
    let records: Option<_> = bytes[at + ROUND..next].chunks_exact(RECORD).map(record).collect();
    Some((number(head, 8), records?, next))
}

/// Where the next good round begins whose number is at least this.
fn later_round(bytes: &[u8], from: usize, least: u64) -> Option<usize> {
    let last = bytes.len().checked_sub(ROUND)?;
    (from..=last).find(|at| {
        bytes[*at..].starts_with(&ROUND_MAGIC)
            && round_at(bytes, *at).is_some_and(|(number, _, _)| number >= least)
    })
}

fn record(bytes: &[u8]) -> Option<Record> {
    let mut id = [0; 16];
    id.copy_from_slice(&bytes[..16]);
    let state = State {
        length: number(bytes, 16),
        reserved: number(bytes, 24),
        expires_s: number(bytes, 32),
        tail: u32::from_le_bytes([bytes[40], bytes[41], bytes[42], bytes[43]]),
        status: Status::from_byte(bytes[44])?,
    };
    (bytes[45..48] == [0; 3]).then_some((SessionId(id), state))
}

fn number(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rfold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(length: u64) -> State {
        State { length, reserved: 10 * length, expires_s: 99, tail: 7, status: Status::Arriving }
    }

    /// A beginning with one session, and two rounds after it.
    fn journal() -> (Vec<u8>, [usize; 3]) {
        let mut bytes = Beginning { first_round: 5, sessions: 1 }.to_bytes().to_vec();
        bytes.extend(round_to_bytes(5, &[(SessionId([1; 16]), state(1))]));
        let first = bytes.len();
        bytes.extend(round_to_bytes(6, &[(SessionId([1; 16]), state(2))]));
        let second = bytes.len();
        let gone = State { status: Status::Gone, ..state(3) };
        bytes.extend(round_to_bytes(
            7,
            &[(SessionId([2; 16]), state(9)), (SessionId([3; 16]), gone)],
        ));
        let third = bytes.len();
        (bytes, [first, second, third])
    }

    #[test]
    fn rounds_are_read_back_and_the_last_state_wins() {
        let (bytes, _) = journal();
        let parsed = parse(&bytes);
        assert_eq!((parsed.fault, parsed.torn, parsed.next_round), (None, 0, 8));
        assert_eq!(parsed.states.len(), 3);
        assert_eq!(parsed.states[&SessionId([1; 16])], state(2));
        assert_eq!(parsed.states[&SessionId([3; 16])].status, Status::Gone);
    }

    #[test]
    fn a_torn_last_round_is_no_fault_and_has_no_effect() {
        let (bytes, [_, second, third]) = journal();
        for end in second + 1..third {
            let parsed = parse(&bytes[..end]);
            assert_eq!((parsed.fault, parsed.torn), (None, (end - second) as u64));
            assert_eq!((parsed.states.len(), parsed.next_round), (1, 7));
        }
    }

    #[test]
    fn damage_before_the_last_round_is_a_fault() {
        let (bytes, [first, second, _]) = journal();
        for n in 0..second {
            let mut changed = bytes.clone();
            changed[n] ^= 0x10;
            let parsed = parse(&changed);
            let fault = match n {
                0..BEGINNING => Fault::Beginning,
                _ if n < first => Fault::Midst(BEGINNING as u64),
                _ => Fault::Midst(first as u64),
            };
            assert_eq!(parsed.fault, Some(fault), "byte {n}");
            assert_eq!(parsed.states[&SessionId([2; 16])], state(9), "later rounds are read");
        }
        // A round that is missing as a whole, and a first round that is.
        let without = [&bytes[..first], &bytes[second..]].concat();
        assert_eq!(parse(&without).fault, Some(Fault::Midst(first as u64)));
        assert_eq!(parse(&bytes[..BEGINNING]).fault, Some(Fault::Beginning));
        assert_eq!(parse(b"").fault, Some(Fault::Beginning));
    }

    #[test]
    fn a_later_version_is_not_read() {
        let (mut bytes, _) = journal();
        bytes[8] = 2;
        let mut beginning: [u8; BEGINNING] = bytes[..BEGINNING].try_into().unwrap();
        let sum = beginning_sum(&beginning);
        beginning[12..16].copy_from_slice(&sum.to_le_bytes());
        bytes[..BEGINNING].copy_from_slice(&beginning);
        assert_eq!(parse(&bytes).fault, Some(Fault::LaterVersion(2)));
    }
}
