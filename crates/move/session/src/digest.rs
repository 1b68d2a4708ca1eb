// SPDX-License-Identifier: GPL-2.0-or-later
//! The further digest of a whole stream that both ends compare, if HELLO asks for one (docs/lsl.md, rules 9.2 and 9.3).
//!
//! Each end hashes what passes in order, once: what it sends when it is sealed, what it receives when it was verified, and what
//! an earlier session had brought when it is read again. Bytes that come again are skipped.

use crate::error::Error;
use bytes::Bytes;
use md5::Md5;
use protocol::session::{Position, Prefix, handshake::WholeDigest};
use sha2::{Digest, Sha256};
use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// A digest that grows with its stream.
#[derive(Debug, Clone)]
struct RunningDigest {
    hasher: Hasher,
    /// How many bytes it covers.
    at: u64,
}

#[derive(Debug, Clone)]
enum Hasher {
    Sha256(Sha256),
    Md5(Md5),
}

impl RunningDigest {
    fn new(kind: WholeDigest) -> Self {
        let hasher = match kind {
            WholeDigest::Sha256 => Hasher::Sha256(Sha256::new()),
            WholeDigest::Md5 => Hasher::Md5(Md5::new()),
        };
        Self { hasher, at: 0 }
    }

    fn kind(&self) -> WholeDigest {
        match self.hasher {
            Hasher::Sha256(_) => WholeDigest::Sha256,
            Hasher::Md5(_) => WholeDigest::Md5,
        }
    }

    /// Hashes those of the bytes at `offset` that are new.
    fn feed(&mut self, offset: u64, bytes: &[u8]) {
        debug_assert!(offset <= self.at, "bytes between {} and {offset} are missing", self.at);
        let known = usize::try_from(self.at.saturating_sub(offset)).unwrap_or(usize::MAX);
        let Some(new) = bytes.get(known..).filter(|_| offset <= self.at) else { return };
        match &mut self.hasher {
            Hasher::Sha256(hasher) => hasher.update(new),
            Hasher::Md5(hasher) => hasher.update(new),
        }
        self.at += new.len() as u64;
    }

    fn bytes(&self) -> Vec<u8> {
        match &self.hasher {
            Hasher::Sha256(hasher) => hasher.clone().finalize().to_vec(),
            Hasher::Md5(hasher) => hasher.clone().finalize().to_vec(),
        }
    }
}

/// The beginning of a stream that a receiver has from an earlier session. A [`Prefix`] alone becomes one that no
/// further digest can be made from.
#[derive(Debug, Clone, Default)]
pub struct Beginning {
    prefix: Prefix,
    digest: Option<RunningDigest>,
}

impl Beginning {
    /// Nothing yet, for a session with this further digest: [`Incoming::digest`](crate::Incoming::digest), or
    /// [`State::digest`](crate::State::digest).
    pub fn new(digest: Option<WholeDigest>) -> Self {
        Self { prefix: Prefix::default(), digest: digest.map(RunningDigest::new) }
    }

    /// Takes the bytes that follow.
    pub fn extend(&mut self, bytes: &[u8]) {
        if let Some(digest) = &mut self.digest {
            digest.feed(self.prefix.length(), bytes);
        }
        self.prefix.extend(bytes);
    }

    /// How many bytes.
    pub fn length(&self) -> u64 {
        self.prefix.length()
    }

    /// The position, which proves to the sender which bytes were received.
    pub fn position(&self) -> Position {
        self.prefix.position()
    }

    /// The bytes, hashed.
    pub fn prefix(&self) -> &Prefix {
        &self.prefix
    }
}

impl From<Prefix> for Beginning {
    fn from(prefix: Prefix) -> Self {
        Self { prefix, digest: None }
    }
}

/// The further digests of both streams of a session.
#[derive(Debug)]
pub(crate) struct Digests {
    kind: WholeDigest,
    sent: Mutex<RunningDigest>,
    received: Mutex<Received>,
}

#[derive(Debug)]
struct Received {
    digest: RunningDigest,
    /// Verified bytes that follow.
    waiting: VecDeque<Bytes>,
}

impl Digests {
    /// Those of a session of whose incoming stream `received` is there; none if no further digest was agreed on.
    ///
    /// # Errors
    /// The bytes that are there were not hashed for that digest.
    pub(crate) fn begin(
        kind: Option<WholeDigest>,
        received: Beginning,
    ) -> Result<Option<Self>, Error> {
        let Some(kind) = kind else { return Ok(None) };
        let length = received.length();
        let hashed = received.digest.filter(|digest| digest.kind() == kind);
        let digest = match hashed {
            Some(digest) => digest,
            None if length == 0 => RunningDigest::new(kind),
            None => return Err(Error::NoDigest(kind)),
        };
        let received = Mutex::new(Received { digest, waiting: VecDeque::new() });
        Ok(Some(Self { kind, sent: Mutex::new(RunningDigest::new(kind)), received }))
    }

    pub(crate) fn kind(&self) -> WholeDigest {
        self.kind
    }

    fn sent_digest(&self) -> MutexGuard<'_, RunningDigest> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn received_digest(&self) -> MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These bytes from an offset on are sent, or the other end has them already.
    pub(crate) fn feed_sent(&self, offset: u64, bytes: &[u8]) {
        self.sent_digest().feed(offset, bytes);
    }

    /// These verified bytes are the next ones; [`hash_next`](Self::hash_next) takes them later.
    pub(crate) fn push_received(&self, bytes: &[Bytes]) {
        self.received_digest().waiting.extend(bytes.iter().cloned());
    }

    /// Hashes a piece of what has been received; whether there was one.
    pub(crate) fn hash_next(&self) -> bool {
        let Received { digest, waiting } = &mut *self.received_digest();
        let Some(bytes) = waiting.pop_front() else { return false };
        digest.feed(digest.at, &bytes);
        true
    }

    /// The digest of what was sent, and how many bytes it covers.
    pub(crate) fn sent(&self) -> (u64, Vec<u8>) {
        let digest = self.sent_digest();
        (digest.at, digest.bytes())
    }

    /// The digest of what was received and hashed.
    pub(crate) fn received(&self) -> Vec<u8> {
        self.received_digest().digest.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[u8] = b"The quick brown fox jumps over the lazy dog";
    /// As `sha256sum` and `md5sum` print them.
    const KNOWN: [(WholeDigest, &str); 2] = [
        (WholeDigest::Sha256, "d7a8fbb307d7809469ca9abcb0082e4f8d5651e46d3cdb762d02d0bf37c9e592"),
        (WholeDigest::Md5, "9e107d9d372bb6826bd81d3542a419d6"),
    ];

    fn text(bytes: &[u8]) -> String {
        bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    }

    #[test]
    fn bytes_that_come_again_are_hashed_once() {
        for (kind, known) in KNOWN {
            let digests = Digests::begin(Some(kind), Beginning::default()).unwrap().unwrap();
            for (from, to) in [(0, 10), (0, 10), (5, 12), (2, 9), (12, 12), (0, 43)] {
                digests.feed_sent(from, &ALL[from as usize..to]);
            }
            assert_eq!(digests.sent(), (43, digests.sent().1));
            assert_eq!(text(&digests.sent().1), known);
        }
    }

    #[test]
    fn digest_continues_from_a_beginning_that_was_hashed_for_it() {
        for (kind, known) in KNOWN {
            let mut beginning = Beginning::new(Some(kind));
            beginning.extend(&ALL[..7]);
            beginning.extend(&ALL[7..20]);
            assert_eq!(beginning.length(), 20);
            let digests = Digests::begin(Some(kind), beginning.clone()).unwrap().unwrap();
            digests.push_received(&[Bytes::from_static(&ALL[20..30]), Bytes::new()]);
            digests.push_received(&[Bytes::from_static(&ALL[30..])]);
            while digests.hash_next() {}
            assert_eq!(text(&digests.received()), known);
            let (other, _) = KNOWN[usize::from(kind == KNOWN[0].0)];
            for unhashed in [beginning.prefix.clone().into(), beginning.clone()] {
                let refused = Digests::begin(Some(other), unhashed);
                assert!(matches!(refused, Err(Error::NoDigest(_))), "{refused:?}");
            }
            assert!(Digests::begin(None, beginning).unwrap().is_none());
            let nothing = Prefix::default().into();
            assert!(Digests::begin(Some(kind), nothing).is_ok());
        }
    }
}
