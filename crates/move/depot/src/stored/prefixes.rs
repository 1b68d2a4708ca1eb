// SPDX-License-Identifier: GPL-2.0-or-later
//! The beginning of a stored session, hashed: what WELCOME proves to an initiator that continues (rule 6.7).
//!
//! The file is read for that, which may take longer than an initiator waits. So the hash is kept when it is done, and the
//! initiator finds it when it comes again. Few are made at a time, since anybody who has recorded a HELLO can ask for one.

use ::session::{Beginning, WholeDigest};
use protocol::session::SessionId;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Instant, SystemTime},
};
use store::{AccessKey, Read, Store, StoreError};
use tokio::{sync::Semaphore, task::spawn_blocking};

/// How many are made at a time.
const AT_ONCE: usize = 2;
/// How many are kept.
const MOST: usize = 64;

/// Hashes that were made.
#[derive(Debug)]
pub(super) struct Prefixes {
    known: Mutex<HashMap<SessionId, Known>>,
    at_once: Arc<Semaphore>,
    /// None is made any more.
    is_over: AtomicBool,
}

#[derive(Debug)]
struct Known {
    digest: Option<WholeDigest>,
    beginning: Beginning,
    made: Instant,
}

impl Default for Prefixes {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
            at_once: Arc::new(Semaphore::new(AT_ONCE)),
            is_over: AtomicBool::new(false),
        }
    }
}

impl Prefixes {
    /// The first `length` bytes of a session, which are promised. If the caller stops waiting, they are hashed all the same.
    pub(super) async fn of(
        self: &Arc<Self>,
        store: &Arc<Store>,
        (id, key): (SessionId, AccessKey),
        length: u64,
        digest: Option<WholeDigest>,
    ) -> Result<Beginning, StoreError> {
        if length == 0 {
            return Ok(Beginning::new(digest));
        }
        if let Some(known) = self.find(id, length, digest)
            && known.length() == length
        {
            return Ok(known);
        }
        let place = Arc::clone(&self.at_once).acquire_owned().await;
        let (prefixes, store) = (Arc::clone(self), Arc::clone(store));
        let made = spawn_blocking(move || {
            let _place = place;
            // Another connection may have waited for the same.
            let beginning = prefixes.find(id, length, digest);
            let mut beginning = beginning.unwrap_or_else(|| Beginning::new(digest));
            let read = prefixes.extend(&mut beginning, &store, (id, key), length);
            prefixes.keep(id, digest, &beginning);
            read.map(|()| beginning)
        });
        made.await.unwrap_or(Err(StoreError::Closed))
    }

    fn extend(
        &self,
        beginning: &mut Beginning,
        store: &Store,
        (id, key): (SessionId, AccessKey),
        length: u64,
    ) -> Result<(), StoreError> {
        let mut reader = store.reader(id, &key, SystemTime::now())?;
        while beginning.length() < length {
            if self.is_over.load(Relaxed) {
                return Err(StoreError::Closed);
            }
            let at = beginning.length();
            match reader.read(at)? {
                Read::Bytes(bytes) => {
                    let wanted = usize::try_from(length - at).unwrap_or(usize::MAX);
                    beginning.extend(&bytes[..bytes.len().min(wanted)]);
                }
                Read::NotYet | Read::End => return Err(StoreError::Ended),
            }
        }
        Ok(())
    }

    /// What is known of the first `length` bytes.
    fn find(&self, id: SessionId, length: u64, digest: Option<WholeDigest>) -> Option<Beginning> {
        let known = self.known();
        let found = known.get(&id).filter(|known| known.digest == digest)?;
        (found.beginning.length() <= length).then(|| found.beginning.clone())
    }

    fn keep(&self, id: SessionId, digest: Option<WholeDigest>, beginning: &Beginning) {
        let mut known = self.known();
        if known.len() >= MOST
            && !known.contains_key(&id)
            && let Some(oldest) =
                known.iter().min_by_key(|(_, known)| known.made).map(|(id, _)| *id)
        {
            known.remove(&oldest);
        }
        let made = Instant::now();
        known.insert(id, Known { digest, beginning: beginning.clone(), made });
    }

    /// The session is gone, and another may have its name.
    pub(super) fn forget(&self, id: SessionId) {
        self.known().remove(&id);
    }

    /// No more are made: the store is closed.
    pub(super) fn close(&self) {
        self.is_over.store(true, Relaxed);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<SessionId, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
