// SPDX-License-Identifier: GPL-2.0-or-later
//! What is left at a depot: the request, and the stream that is stored.

use super::{
    client::asking,
    owner_key::OwnerKey,
    source::{ParcelSource, Whole},
};
use crate::{
    Error,
    parcel::{code::StoredCode, note::Note},
};
use protocol::session::{
    Value,
    parcel::{Chunks, ParcelHead, ParcelWriter, body_beginning},
    request::{Request, SigningKey},
};
use session::{Options, Stored};
use std::{path::Path, sync::Arc, time::Duration};

/// How something is left.
#[derive(Debug, Clone)]
pub struct Leaving {
    /// Opens it.
    pub code: StoredCode,
    /// Can also list, extend and drop.
    pub owner: OwnerKey,
    /// How long it stays.
    pub keep: Duration,
}

impl Leaving {
    /// Options of a session that leaves a stream of this length, if that is known.
    pub(in crate::parcel) fn ask(&self, options: Options, bytes: Option<u64>) -> Options {
        let collector = SigningKey::from_seed(&self.code.keys().collector).public();
        let life_s = self.keep.as_secs().max(1);
        asking(Request::Leave { collector, bytes, life_s }, self.owner.signing_key(), options)
    }
}

/// What a stream is sealed with, which is the same for all sessions of a process.
#[derive(Debug)]
pub(in crate::parcel) struct Sealing {
    head: ParcelHead,
    secret: Secret,
    note: Vec<u8>,
    beginning: Vec<u8>,
    whole: Whole,
}

struct Secret([u8; 32]);

impl std::fmt::Debug for Secret {
    /// Omits the secret: debug output may reach logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Sealing {
    /// For content with this note.
    pub(in crate::parcel) fn new(
        leaving: &Leaving,
        note: &Note,
        is_encrypted: bool,
    ) -> Result<Self, Error> {
        let no_salt = |error| Error::file("read", Path::new("the system's random bytes"), error);
        let salt = host::random().map_err(no_salt)?;
        let head = ParcelHead::new(is_encrypted, salt);
        let secret = Secret(leaving.code.keys().secret);
        let note = note.to_bytes();
        let beginning = body_beginning(&note)?;
        Ok(Self { head, secret, note, beginning, whole: Whole::default() })
    }

    /// Whether the depot cannot read it.
    pub(in crate::parcel) fn is_encrypted(&self) -> bool {
        self.head.is_encrypted()
    }

    fn chunks(&self) -> Chunks {
        Chunks::new(self.head, &self.secret.0)
    }

    /// Content that can be read again, as it is stored.
    pub(in crate::parcel) fn source(&self, inner: Arc<dyn Stored>) -> ParcelSource {
        ParcelSource::new(inner, self.beginning.clone(), self.chunks(), Arc::clone(&self.whole))
    }

    /// Seals what comes from a pipe.
    pub(in crate::parcel) fn pipe(&self) -> Result<PipeSealer, Error> {
        let mut sealed = Vec::new();
        let writer = ParcelWriter::begin(self.chunks(), &self.note, &mut sealed)?;
        let (writer, whole) = (Some(writer), Arc::clone(&self.whole));
        Ok(PipeSealer { writer, sealed, is_fresh: true, bytes: 0, whole })
    }

    /// About how much of the content the first bytes of the stream have, at most 32 too many.
    pub(in crate::parcel) fn content_within(&self, stored: u64) -> u64 {
        self.chunks().body_within(stored).saturating_sub(self.beginning.len() as u64)
    }

    /// Length and hash of the content, once all of it was read.
    pub(in crate::parcel) fn whole(&self) -> Option<(u64, Value)> {
        self.whole.get().copied()
    }
}

/// Seals what comes from a pipe.
#[derive(Debug)]
pub(in crate::parcel) struct PipeSealer {
    writer: Option<ParcelWriter>,
    sealed: Vec<u8>,
    /// What is sealed was not given yet: it is the beginning.
    is_fresh: bool,
    bytes: u64,
    whole: Whole,
}

impl PipeSealer {
    /// Takes what follows; with what can be sent of it.
    pub(in crate::parcel) fn push(&mut self, content: &[u8]) -> &[u8] {
        self.forget();
        self.bytes += content.len() as u64;
        if let Some(writer) = &mut self.writer {
            writer.push(content, &mut self.sealed);
        }
        &self.sealed
    }

    /// Nothing follows; with the rest.
    pub(in crate::parcel) fn finish(&mut self) -> &[u8] {
        self.forget();
        if let Some(writer) = self.writer.take() {
            let hash = writer.finish(&mut self.sealed);
            let _ = self.whole.set((self.bytes, hash));
        }
        &self.sealed
    }

    fn forget(&mut self) {
        if !std::mem::take(&mut self.is_fresh) {
            self.sealed.clear();
        }
    }
}
