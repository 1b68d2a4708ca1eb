// SPDX-License-Identifier: GPL-2.0-or-later
//! What is known of all sessions, in memory: rebuilt from headers and journal at each start. Space is accounted here.
//!
//! One entry takes some 300 bytes; descriptors, buffers and wakers exist only while a session is written or read. All
//! changes of an entry go through [`Catalogue::change`], so that sums stay those of the entries. What is on disk
//! ([`Entry::state`]) is changed by the leader of a round alone.

use crate::{
    access::AccessKey,
    blocks,
    disk::Place,
    error::{Gone, StoreError},
    header::Header,
    limits::{Allowance, Limits, Refusal, Usage},
    record::{State, Status},
};
use protocol::session::SessionId;
use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, OnceLock},
    task::Waker,
};

/// Why a session has ended, known to all that still hold it. Another session may have its id by then.
pub(crate) type Ending = Arc<OnceLock<Gone>>;

/// How much a session takes in addition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Need {
    pub bytes: u64,
    /// 1, or 0 if it exists.
    pub sessions: usize,
}

/// How a session was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// It has no header yet, and nothing is promised.
    New,
    /// Header and journal know it.
    Recorded,
    /// A crash came before its first promise: only its header was found.
    Unrecorded,
    /// Its data file is not what it was.
    Damaged(&'static str),
    /// The journal knows it, but it has no header that can be read, and so no owner.
    Headless,
}

/// What is needed only while a session is written or read.
#[derive(Debug, Default)]
pub(crate) struct InUse {
    pub has_writer: bool,
    /// Requests of the writer that no round has done.
    pub requests: u32,
    /// Readers, and those of them that wait.
    pub readers: HashMap<u64, Option<Waker>>,
    pub ending: Ending,
}

impl InUse {
    fn is_over(&self) -> bool {
        !self.has_writer && self.requests == 0 && self.readers.is_empty()
    }
}

/// A session.
#[derive(Debug)]
pub(crate) struct Entry {
    pub owner: AccessKey,
    pub collector: AccessKey,
    pub account: AccessKey,
    pub created_s: u64,
    /// What is on disk, as the journal has it.
    pub state: State,
    pub condition: Condition,
    /// What it may grow to, which the next promise makes durable.
    pub reserved: u64,
    /// Whether the file system has set that much apart.
    pub is_backed: bool,
    /// Why it takes no more bytes, if that was this process.
    pub failed_by: Option<StoreError>,
    pub in_use: Option<Box<InUse>>,
}

impl Entry {
    /// Of a header; it has no reader and no writer.
    pub(crate) fn new(header: &Header, state: State, condition: Condition) -> Self {
        Self {
            owner: header.owner,
            collector: header.collector,
            account: header.account,
            created_s: header.created_s,
            state,
            condition,
            reserved: state.reserved,
            is_backed: false,
            failed_by: None,
            in_use: None,
        }
    }

    /// Space that it has or may come to have.
    fn charge(&self) -> u64 {
        let is_complete = self.state.status == Status::Complete;
        blocks::file_bytes(if is_complete { self.state.length } else { self.reserved })
    }

    /// Space that it may still ask the file system for.
    fn outstanding(&self) -> u64 {
        let grows = !self.is_backed && self.state.status == Status::Arriving;
        if grows { self.charge().saturating_sub(blocks::position(self.state.length)) } else { 0 }
    }

    /// Whether it is shown, and may be used.
    pub(crate) fn is_usable(&self) -> bool {
        matches!(self.condition, Condition::New | Condition::Recorded)
    }

    /// Whether clients learn of it.
    pub(crate) fn is_shown(&self) -> bool {
        matches!(self.condition, Condition::Recorded | Condition::Damaged(_))
    }

    /// Whether the journal has its state.
    pub(crate) fn is_recorded(&self) -> bool {
        self.is_shown() || self.condition == Condition::Headless
    }

    /// Why it takes no more bytes, if its files are the reason.
    pub(crate) fn failure(&self, id: SessionId) -> Option<StoreError> {
        match self.condition {
            Condition::Damaged(what) => {
                Some(StoreError::Damaged { file: Place::Data(id), at: None, what })
            }
            _ => self.failed_by.clone(),
        }
    }

    /// Whether it has neither a promise nor a writer.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.condition == Condition::New && self.in_use.is_none()
    }

    /// A round has ended: its state is on disk, or it has failed for ever.
    pub(crate) fn settle(&mut self, next: Option<State>, error: Option<&StoreError>) {
        if let Some(next) = next {
            self.state = next;
            if self.condition == Condition::New {
                self.condition = Condition::Recorded;
            }
        }
        if let Some(error) = error {
            self.state.status = Status::Failed;
            self.failed_by = Some(error.clone());
        }
    }

    /// Takes the wakers of all that wait for it.
    pub(crate) fn take_wakers(&mut self) -> Vec<Waker> {
        let readers = self.in_use.iter_mut().flat_map(|in_use| in_use.readers.values_mut());
        readers.filter_map(Option::take).collect()
    }
}

/// All sessions.
#[derive(Debug)]
pub(crate) struct Catalogue {
    sessions: HashMap<SessionId, Entry>,
    /// The sessions of each owner.
    owners: HashMap<AccessKey, BTreeSet<SessionId>>,
    /// What is charged to each account.
    accounts: HashMap<AccessKey, Usage>,
    total: Usage,
    outstanding: u64,
    pub limits: Limits,
    pub is_closed: bool,
    last_reader: u64,
}

impl Catalogue {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            sessions: HashMap::new(),
            owners: HashMap::new(),
            accounts: HashMap::new(),
            total: Usage::default(),
            outstanding: 0,
            limits,
            is_closed: false,
            last_reader: 0,
        }
    }

    /// Whether there is space for a session, or for a session to grow by `needed` bytes.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn check_space(
        &self,
        account: &AccessKey,
        allowance: Allowance,
        need: Need,
        free: u64,
    ) -> Result<(), Refusal> {
        let needed = need.bytes;
        let own = self.usage_of(account);
        let (limits, total) = (&self.limits, self.total);
        let is_over = |used: u64, limit: u64| used.saturating_add(needed) > limit;
        if own.sessions + need.sessions > allowance.sessions {
            return Err(Refusal::KeySessions { limit: allowance.sessions });
        }
        if is_over(own.bytes, allowance.bytes.get()) {
            let (limit, used) = (allowance.bytes.get(), own.bytes);
            return Err(Refusal::KeyBytes { limit, used, needed });
        }
        if total.sessions + need.sessions > limits.sessions {
            return Err(Refusal::StoreSessions { limit: limits.sessions });
        }
        if is_over(total.bytes, limits.bytes.get()) {
            let (limit, used) = (limits.bytes.get(), total.bytes);
            return Err(Refusal::StoreBytes { limit, used, needed });
        }
        let kept = limits.kept_free.get().saturating_add(self.outstanding);
        if is_over(kept, free) {
            return Err(Refusal::LowSpace { free, kept, needed });
        }
        Ok(())
    }

    /// Adds a session, whose id no other has.
    pub(crate) fn insert(&mut self, id: SessionId, entry: Entry) {
        self.add(id, &entry);
        let before = self.sessions.insert(id, entry);
        debug_assert!(before.is_none(), "the caller has looked");
    }

    fn add(&mut self, id: SessionId, entry: &Entry) {
        let own = self.accounts.entry(entry.account).or_default();
        for usage in [own, &mut self.total] {
            usage.bytes = usage.bytes.saturating_add(entry.charge());
            usage.sessions += 1;
        }
        self.owners.entry(entry.owner).or_default().insert(id);
        self.outstanding = self.outstanding.saturating_add(entry.outstanding());
    }

    fn subtract(&mut self, id: SessionId, entry: &Entry) {
        self.outstanding = self.outstanding.saturating_sub(entry.outstanding());
        let own = self.accounts.get_mut(&entry.account);
        for usage in own.into_iter().chain([&mut self.total]) {
            usage.bytes = usage.bytes.saturating_sub(entry.charge());
            usage.sessions = usage.sessions.saturating_sub(1);
        }
        if self.accounts.get(&entry.account).is_some_and(|own| own.sessions == 0) {
            self.accounts.remove(&entry.account);
        }
        let owned = self.owners.get_mut(&entry.owner);
        let is_last = owned.is_some_and(|owned| {
            owned.remove(&id);
            owned.is_empty()
        });
        if is_last {
            self.owners.remove(&entry.owner);
        }
    }

    /// Changes a session. `None` if there is none.
    pub(crate) fn change<T>(
        &mut self,
        id: SessionId,
        change: impl FnOnce(&mut Entry) -> T,
    ) -> Option<T> {
        let mut entry = self.sessions.remove(&id)?;
        self.subtract(id, &entry);
        let changed = change(&mut entry);
        self.add(id, &entry);
        self.sessions.insert(id, entry);
        Some(changed)
    }

    /// Changes by whom a session is used, which changes no sums. `None` if there is none.
    pub(crate) fn attach<T>(
        &mut self,
        id: SessionId,
        change: impl FnOnce(&mut InUse) -> T,
    ) -> Option<T> {
        let entry = self.sessions.get_mut(&id)?;
        let changed = change(entry.in_use.get_or_insert_default());
        if entry.in_use.as_ref().is_some_and(|in_use| in_use.is_over()) {
            entry.in_use = None;
        }
        Some(changed)
    }

    /// Removes a session, and returns the wakers of all that wait for it.
    pub(crate) fn remove(&mut self, id: SessionId, why: Gone) -> Vec<Waker> {
        let Some(mut entry) = self.sessions.remove(&id) else { return Vec::new() };
        self.subtract(id, &entry);
        if let Some(in_use) = &entry.in_use {
            // Set once: this entry was the only one with this cell.
            let _ = in_use.ending.set(why);
        }
        entry.take_wakers()
    }

    pub(crate) fn get(&self, id: SessionId) -> Option<&Entry> {
        self.sessions.get(&id)
    }

    /// Whether nothing is promised of a session.
    pub(crate) fn is_new(&self, id: SessionId) -> bool {
        self.get(id).is_some_and(|entry| entry.condition == Condition::New)
    }

    /// A session that a key may use.
    ///
    /// # Errors
    /// There is none, or it is another key's.
    pub(crate) fn of_owner(&self, id: SessionId, key: &AccessKey) -> Result<&Entry, StoreError> {
        let own = self.get(id).filter(|entry| entry.owner == *key && entry.is_shown());
        own.ok_or(StoreError::Unknown)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SessionId, &Entry)> {
        self.sessions.iter().map(|(id, entry)| (*id, entry))
    }

    /// An owner's sessions behind this one, in order.
    pub(crate) fn of_key(
        &self,
        key: &AccessKey,
        after: Option<SessionId>,
    ) -> impl Iterator<Item = (SessionId, &Entry)> {
        let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let owned = self.owners.get(key);
        let ids = owned
            .into_iter()
            .flat_map(move |owned| owned.range((from, std::ops::Bound::Unbounded)).copied());
        ids.filter_map(|id| Some((id, self.sessions.get(&id)?)))
    }

    /// What an account uses.
    pub(crate) fn usage_of(&self, key: &AccessKey) -> Usage {
        self.accounts.get(key).copied().unwrap_or_default()
    }

    /// What all use.
    pub(crate) fn usage(&self) -> Usage {
        self.total
    }

    /// A name for a reader, which no other has.
    pub(crate) fn next_reader(&mut self) -> u64 {
        self.last_reader += 1;
        self.last_reader
    }

    /// All that waits for anything.
    pub(crate) fn take_all_wakers(&mut self) -> Vec<Waker> {
        self.sessions.values_mut().flat_map(Entry::take_wakers).collect()
    }
}
