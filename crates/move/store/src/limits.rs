// SPDX-License-Identifier: GPL-2.0-or-later
//! How much a store takes, and from whom.
//!
//! Sizes are what files take: the session's bytes, their checksums, header and rounding (`blocks::needs`). They are
//! reserved before a session is accepted, so that it does not fail for space later.

use std::time::Duration;
use units::Bytes;

/// How much one account may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Space of all its sessions.
    pub bytes: Bytes,
    /// How many sessions.
    pub sessions: usize,
}

/// How much the store takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Space of all sessions.
    pub bytes: Bytes,
    /// How many sessions.
    pub sessions: usize,
    /// What each account may have, unless its request says otherwise.
    pub key: Allowance,
    /// What stays free in the file system: for the journal, and for whatever else is there.
    pub kept_free: Bytes,
    /// How long after its beginning a session ends at the latest.
    pub longest_life: Duration,
}

impl Limits {
    /// Of this size: 100 000 sessions, all of it for any account, 1 GB kept free, at most 7 days.
    pub const fn of_size(bytes: Bytes) -> Self {
        Self {
            bytes,
            sessions: 100_000,
            key: Allowance { bytes, sessions: 100_000 },
            kept_free: Bytes::new(1 << 30),
            longest_life: Duration::from_secs(7 * 24 * 3600),
        }
    }
}

/// How much is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Space that sessions have, or have reserved.
    pub bytes: u64,
    /// How many there are.
    pub sessions: usize,
}

/// Why there is no space for a session. A depot answers 507 with this text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The account has too much.
    #[error(
        "this client may store {limit} bytes in all; {used} are used and {needed} are needed. Drop a session, or reserve less"
    )]
    KeyBytes {
        /// What it may have.
        limit: u64,
        /// What it has.
        used: u64,
        /// What this session takes.
        needed: u64,
    },
    /// The account has too many.
    #[error("this client may store {limit} sessions, and has them. Drop one")]
    KeySessions {
        /// What it may have.
        limit: usize,
    },
    /// The store is full.
    #[error(
        "the store has {limit} bytes, of which {used} are used; {needed} are needed. Try again later"
    )]
    StoreBytes {
        /// Its size.
        limit: u64,
        /// What is used.
        used: u64,
        /// What this session takes.
        needed: u64,
    },
    /// The store has too many.
    #[error("the store takes {limit} sessions, and has them. Try again later")]
    StoreSessions {
        /// Its limit.
        limit: usize,
    },
    /// The file system is nearly full.
    #[error(
        "the depot's disk has {free} bytes free, of which {kept} are kept or reserved; {needed} are needed. Try again later"
    )]
    LowSpace {
        /// What is free.
        free: u64,
        /// What stays free, and what others have reserved.
        kept: u64,
        /// What this session takes.
        needed: u64,
    },
    /// The file system had less than it said.
    #[error("the depot's disk is full. Try again later")]
    DiskFull,
}
