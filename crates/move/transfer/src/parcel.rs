// SPDX-License-Identifier: GPL-2.0-or-later
//! Files, directories and pipes from one machine to another, by a session (`docs/send.md`).
//!
//! ```text
//! send     path or pipe ──▶ note: name, size ──▶ HELLO      the stream: a file's bytes, a tar archive, or a pipe's
//! receive  note ──▶ NAME.part, as far as it is there ──▶ WELCOME ──▶ the rest ──▶ fsync, rename ──▶ DONE
//! leave    the same, sealed chunk by chunk ──▶ a depot's store, until it expires (`store`)
//! collect  the depot's store ──▶ chunks opened ──▶ NAME.part ──▶ hash compared ──▶ fsync, rename
//! ```
//! A file may still grow while it is sent (`follow`), and each file of a folder be sent once it is complete (`watch`). A directory is unpacked as it comes, into a directory NAME.part (`unpack`).
//! A sender whose session the receiver does not know any more begins another one, so that either end may be started again.
//! Threats: names and links of a sender lead nowhere but into the directory, sizes are bounded by the disk and `--max-size`, and
//! without the code a sender cannot even send a name.

mod archive_stream;
mod beneath;
mod code;
mod content;
mod date;
mod extract;
mod follow;
mod journal;
mod note;
mod pieces;
mod placing;
mod private;
mod receive;
mod send;
mod source_clock;
mod sparse;
mod store;
mod threads;
mod tree;
mod unpack;
mod watch;

pub use code::{AnyCode, Code, CodeError, StoredCode};
pub use content::Parcel;
pub use follow::{Follow, Until, UntilError};
pub use note::{Kind, Note};
pub use placing::Output;
pub use receive::{Origin, ReceiveMany, ReceiveRequest};
pub use send::{Goal, SendRequest};
pub use store::{CollectRequest, Collector, Leaving, OwnerKey, StoreClient, default_owner_key};
pub use watch::{WatchRequest, default_watch_state};

use crate::{Error, TransferLimits};
use protocol::session::{HopReport, SessionId};
use route::SendOptions;
use session::{RouteStatistics, WholeDigest};
use std::path::PathBuf;
use units::text::hexadecimal;

/// The results of a transfer by session.
#[derive(Debug)]
pub struct ParcelReport {
    /// The sender's name for it.
    pub name: Option<String>,
    /// Where it is now, at the receiver.
    pub file: Option<PathBuf>,
    /// Bytes of the stream.
    pub bytes: u64,
    /// Of those, bytes that were there from an earlier session.
    pub resumed_bytes: u64,
    /// From the start to the end; for the receiver, since the sender's first bytes.
    pub seconds: f64,
    /// Connections of the last session.
    pub connections: u32,
    /// Whether it was encrypted from end to end.
    pub is_encrypted: bool,
    /// The depots' reports about their connections.
    pub hops: Vec<HopReport>,
    /// How this host has sent on the first hop, if this is the sender and a chooser of routes wanted it.
    pub send_options: SendOptions,
    /// What each route carried, if this is the sender and uses several connections at once. Otherwise empty.
    pub routes: Vec<RouteStatistics>,
    /// The BLAKE3 hash of the stream, which both ends have compared.
    pub blake3: Option<String>,
    /// A further digest of it, if the sender asked for one and both ends have compared it.
    pub digest: Option<(WholeDigest, String)>,
    /// What limited it, if this is the sender and it has ended well.
    pub limits: Option<TransferLimits>,
    /// Which stored session it is, if this is the sender and a depot keeps it now.
    pub kept: Option<Kept>,
    /// How it ended.
    pub result: Result<(), Error>,
}

/// A session that a depot keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Its name.
    pub session: SessionId,
    /// When it ends, in seconds since 1970.
    pub expires_s: u64,
}

impl ParcelReport {
    fn begun() -> Self {
        Self {
            name: None,
            file: None,
            bytes: 0,
            resumed_bytes: 0,
            seconds: 0.0,
            connections: 0,
            is_encrypted: false,
            hops: Vec::new(),
            send_options: SendOptions::default(),
            routes: Vec::new(),
            blake3: None,
            digest: None,
            limits: None,
            kept: None,
            result: Err(Error::Stopped),
        }
    }

    /// Of a transfer that did not begin.
    pub fn refused(error: Error) -> Self {
        Self { result: Err(error), ..Self::begun() }
    }

    /// Bits a second of what was transferred now.
    pub fn goodput_bps(&self) -> f64 {
        if self.seconds <= 0.0 {
            return 0.0;
        }
        self.bytes.saturating_sub(self.resumed_bytes) as f64 * 8.0 / self.seconds
    }
}

/// The digest of a whole stream in words: what was agreed on, and its bytes.
fn shown_digest(
    kind: Option<WholeDigest>,
    bytes: Option<Vec<u8>>,
) -> Option<(WholeDigest, String)> {
    Some((kind?, hexadecimal(&bytes?)))
}
