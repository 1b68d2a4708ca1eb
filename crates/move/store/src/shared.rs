// SPDX-License-Identifier: GPL-2.0-or-later
//! What the operations, writers, readers and rounds of one store share, and the queue between them.
//!
//! Locks are taken in this order and held for no system call but statvfs(2): queue, catalogue. The journal belongs to the
//! leader, of which there is at most one.

use crate::{
    catalogue::{Catalogue, Ending},
    disk::{Disk, DiskFile},
    error::{Gone, StoreError},
    journal::Journal,
    promise::Answer,
};
use protocol::session::SessionId;
use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicBool, AtomicU64},
    },
    task::Waker,
    time::{SystemTime, UNIX_EPOCH},
};

/// A data file that is written, until it fails.
#[derive(Debug)]
pub(crate) struct DataFile(Mutex<Option<Arc<dyn DiskFile>>>);

impl DataFile {
    pub(crate) fn new(file: Box<dyn DiskFile>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(file.into()))))
    }

    /// `None` if it has failed.
    pub(crate) fn get(&self) -> Option<Arc<dyn DiskFile>> {
        locked(&self.0).clone()
    }

    /// Drops the descriptor for ever: what the kernel says of it after an error means nothing.
    pub(crate) fn give_up(&self) {
        locked(&self.0).take();
    }
}

/// Bytes of a session that are to be promised.
#[derive(Debug)]
pub(crate) struct Written {
    pub id: SessionId,
    pub ending: Ending,
    pub file: Arc<DataFile>,
    /// The header, until it has its name.
    pub header: Option<Arc<NewHeader>>,
    pub length: u64,
    pub tail: u32,
    pub reserved: u64,
    pub is_complete: bool,
}

/// The header of a new session.
#[derive(Debug)]
pub(crate) struct NewHeader {
    /// `None` once its name is durable.
    file: Mutex<Option<Arc<dyn DiskFile>>>,
    /// [`Shared::folder_faults`] before the session's files were made.
    pub folder_faults: u64,
}

impl NewHeader {
    pub(crate) fn new(file: Box<dyn DiskFile>, folder_faults: u64) -> Arc<Self> {
        Arc::new(Self { file: Mutex::new(Some(file.into())), folder_faults })
    }

    /// The file, if its name is not durable yet.
    pub(crate) fn unpublished(&self) -> Option<Arc<dyn DiskFile>> {
        locked(&self.file).clone()
    }

    pub(crate) fn set_published(&self) {
        locked(&self.file).take();
    }
}

/// What a round can do.
#[derive(Debug)]
pub(crate) enum Wish {
    Promise(Written),
    Extend {
        id: SessionId,
        until_s: u64,
    },
    /// For [`Gone::Expired`], only those that have expired by then.
    Remove {
        ids: Vec<SessionId>,
        why: Gone,
        now_s: u64,
    },
    Compact,
}

/// A wish, and who waits for it.
#[derive(Debug)]
pub(crate) struct Request {
    pub wish: Wish,
    pub answer: Answer,
}

/// What waits for the next round.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub waiting: Vec<Request>,
    /// Whether a leader works, or is about to.
    pub has_leader: bool,
    pub is_closed: bool,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub disk: Arc<dyn Disk>,
    queue: Mutex<Queue>,
    /// How often a directory could not be synced. New sessions that were there at that time cannot be published.
    pub folder_faults: AtomicU64,
    /// Whether the journal on disk may have records that were not promised. Until another one is there, no file that it may
    /// name is removed or cut.
    pub is_journal_doubtful: AtomicBool,
    /// Signalled when the leader has done all.
    pub idle: Condvar,
    catalogue: Mutex<Catalogue>,
    journal: Mutex<Journal>,
    /// Whether another process may use the store. Held while a file is changed outside of rounds, so that no write of this
    /// process comes late.
    is_handed_over: RwLock<bool>,
}

impl Shared {
    pub(crate) fn new(disk: Arc<dyn Disk>, catalogue: Catalogue, journal: Journal) -> Self {
        Self {
            disk,
            queue: Mutex::default(),
            folder_faults: AtomicU64::new(0),
            is_journal_doubtful: AtomicBool::new(false),
            idle: Condvar::new(),
            catalogue: Mutex::new(catalogue),
            journal: Mutex::new(journal),
            is_handed_over: RwLock::new(false),
        }
    }

    /// Files may be changed as long as this is held.
    ///
    /// # Errors
    /// [`StoreError::Closed`].
    pub(crate) fn changing(&self) -> Result<RwLockReadGuard<'_, bool>, StoreError> {
        let guard = self.is_handed_over.read().unwrap_or_else(PoisonError::into_inner);
        if *guard { Err(StoreError::Closed) } else { Ok(guard) }
    }

    /// No file is changed any more when this returns.
    pub(crate) fn close(&self) {
        let mut queue = self.queue();
        queue.is_closed = true;
        while queue.has_leader {
            queue = self.idle.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        drop(queue);
        *self.is_handed_over.write().unwrap_or_else(PoisonError::into_inner) = true;
        let wakers = {
            let mut catalogue = self.catalogue();
            catalogue.is_closed = true;
            catalogue.take_all_wakers()
        };
        self.disk.unlock();
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue> {
        locked(&self.queue)
    }

    pub(crate) fn catalogue(&self) -> MutexGuard<'_, Catalogue> {
        locked(&self.catalogue)
    }

    /// For the leader alone.
    pub(crate) fn journal(&self) -> MutexGuard<'_, Journal> {
        locked(&self.journal)
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a session that is held has ended; [`StoreError::Unknown`] if that is unknown.
pub(crate) fn why_ended(ending: &Ending) -> StoreError {
    ending.get().map_or(StoreError::Unknown, |why| StoreError::Gone(*why))
}

/// Whole seconds since 1970, 0 before that.
pub(crate) fn unix_s(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
