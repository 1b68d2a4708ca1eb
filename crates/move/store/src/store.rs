// SPDX-License-Identifier: GPL-2.0-or-later
//! The operations of a store.

use crate::{
    access::AccessKey,
    blocks::{self, BLOCK, BlockSum, MARK},
    catalogue::{Condition, Ending, Entry, InUse, Need},
    commit::{Runner, remove_files, submit},
    disk::{Disk, DiskFile, Place},
    error::{Gone, OpenError, StoreError},
    header::{Header, MAX_NOTE},
    limits::{Allowance, Limits, Refusal, Usage},
    promise::{Promise, promise, refused},
    reader::{Reader, tail_sum},
    record::{State, Status},
    recovery::{self, Report},
    shared::{NewHeader, Request, Shared, Wish, unix_s},
    writer::{self, Writer, is_full},
};
use protocol::session::SessionId;
use std::{
    fmt,
    io::{self, IoSlice},
    sync::{Arc, atomic::Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use units::Bytes;

/// How long an expired session stays for readers that have begun.
pub const READ_GRACE: Duration = Duration::from_secs(3600);

/// A session that is to be stored.
#[derive(Debug, Clone, Copy)]
pub struct NewSession<'a> {
    /// Its name, which no other session of the store has.
    pub id: SessionId,
    /// The key that may write, read, extend and drop it.
    pub owner: AccessKey,
    /// The key that may read it: a code's, or the owner's again.
    pub collector: AccessKey,
    /// To which its space is charged: anybody can make up owners.
    pub account: AccessKey,
    /// Bytes that it may have; [`Writer::reserve`] asks for more.
    pub reserved: Bytes,
    /// How long it stays.
    pub life: Duration,
    /// What the depot wants to know of it later, at most [`MAX_NOTE`] bytes. Never read by the store.
    pub note: &'a [u8],
    /// What its account may have in all. `None`: [`Limits::key`].
    pub allowance: Option<Allowance>,
}

/// What is known of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its name.
    pub id: SessionId,
    /// How far it is.
    pub status: Status,
    /// Promised bytes.
    pub length: u64,
    /// Bytes that it may have.
    pub reserved: u64,
    /// When it began.
    pub created: SystemTime,
    /// When it ends.
    pub expires: SystemTime,
    /// What is wrong with its files.
    pub damage: Option<&'static str>,
}

/// Sessions in a directory.
pub struct Store {
    shared: Arc<Shared>,
    runner: Arc<dyn Runner>,
}

impl Store {
    /// Opens what is in a directory, or begins there. Reads the journal and all headers.
    ///
    /// # Errors
    /// It is not a store of this version, or cannot be read or written. Then nothing in it was changed, or nothing that was
    /// promised.
    pub fn open(
        disk: Arc<dyn Disk>,
        limits: Limits,
        runner: impl Runner + 'static,
        now: SystemTime,
    ) -> Result<(Self, Report), OpenError> {
        let (catalogue, journal, report) = recovery::recover(&*disk, limits, unix_s(now))?;
        let shared = Arc::new(Shared::new(disk, catalogue, journal));
        Ok((Self { shared, runner: Arc::new(runner) }, report))
    }

    /// Checks whether what is in a directory is a store of this version, or none yet. Changes nothing.
    ///
    /// # Errors
    /// It is something else.
    pub fn check(disk: &dyn Disk) -> Result<(), OpenError> {
        recovery::check_format(disk).map(drop)
    }

    /// Begins a session. It exists for others, and after a crash, once its writer has promised something.
    ///
    /// # Errors
    /// [`StoreError::Refused`] says why there is no space.
    pub fn create(&self, new: &NewSession<'_>, now: SystemTime) -> Result<Writer, StoreError> {
        let now_s = unix_s(now);
        if new.note.len() > MAX_NOTE {
            return Err(StoreError::Invalid("the session's note is too long"));
        }
        if new.reserved.get() > blocks::MAX_LENGTH {
            return Err(StoreError::Invalid("a session of that size is too long"));
        }
        let _changing = self.shared.changing()?;
        let header = Header {
            id: new.id,
            owner: new.owner,
            collector: new.collector,
            account: new.account,
            created_s: now_s,
            expires_s: now_s.saturating_add(new.life.as_secs()),
            reserved: new.reserved.get(),
            note: new.note.to_vec(),
        };
        let (ending, is_replaced) = self.admit(&header, new)?;
        if is_replaced {
            remove_files(&self.shared, new.id);
        }
        match self.make_files(&header) {
            Ok((file, new_header)) => {
                let begin = writer::Beginning {
                    id: new.id,
                    ending,
                    file,
                    header: Some(new_header),
                    allowance: new.allowance,
                    sum: BlockSum::new(new.id, 0),
                    length: 0,
                    reserved: header.reserved,
                };
                Ok(self.new_writer(begin))
            }
            Err(error) => {
                remove_files(&self.shared, new.id);
                self.shared.catalogue().remove(new.id, Gone::Dropped);
                Err(error)
            }
        }
    }

    /// Enters a session if there is space. Also returns whether files of one that was never promised are to be removed.
    fn admit(&self, header: &Header, new: &NewSession<'_>) -> Result<(Ending, bool), StoreError> {
        let mut catalogue = self.shared.catalogue();
        let longest = catalogue.limits.longest_life;
        if new.life > longest {
            return Err(StoreError::TooLong { longest });
        }
        let known = catalogue.get(new.id).map(|entry| entry.condition);
        // As long as the journal is in doubt, it may name files of a session that was never promised.
        let is_replaced = known == Some(Condition::Unrecorded)
            && !self.shared.is_journal_doubtful.load(Ordering::Acquire);
        if known.is_some() && !is_replaced {
            let is_shown = known != Some(Condition::Unrecorded);
            return Err(if is_shown { StoreError::Exists } else { StoreError::JournalInDoubt });
        }
        if is_replaced {
            catalogue.remove(new.id, Gone::Dropped);
        }
        let free = self.shared.disk.free_bytes();
        let free = free.map_err(StoreError::io("measure", "the disk"))?;
        let need = Need { bytes: blocks::file_bytes(header.reserved), sessions: 1 };
        let allowance = new.allowance.unwrap_or(catalogue.limits.key);
        catalogue.check_space(&new.account, allowance, need, free)?;
        let in_use = Box::new(InUse { has_writer: true, ..InUse::default() });
        let ending = Arc::clone(&in_use.ending);
        let state = State {
            reserved: header.reserved,
            expires_s: header.expires_s,
            tail: BlockSum::new(new.id, 0).get(),
            ..State::default()
        };
        let entry = Entry { in_use: Some(in_use), ..Entry::new(header, state, Condition::New) };
        catalogue.insert(new.id, entry);
        Ok((ending, is_replaced))
    }

    fn make_files(
        &self,
        header: &Header,
    ) -> Result<(Box<dyn DiskFile>, Arc<NewHeader>), StoreError> {
        let disk = &self.shared.disk;
        // Before any of its files is made: a directory that fails from now on concerns it.
        let folder_faults = self.shared.folder_faults.load(Ordering::Acquire);
        let failed = |place: Place| {
            move |error: io::Error| {
                let full = is_full(&error).then_some(StoreError::Refused(Refusal::DiskFull));
                full.unwrap_or_else(|| StoreError::io("write", place)(error))
            }
        };
        let place = Place::NewHeader(header.id);
        let file = disk.create(place).map_err(failed(place))?;
        file.write_at(&[IoSlice::new(&header.to_bytes())], 0).map_err(failed(place))?;
        let new_header = NewHeader::new(file, folder_faults);
        let place = Place::Data(header.id);
        let data = disk.create(place).map_err(failed(place))?;
        let all = blocks::position(header.reserved) + MARK as u64;
        let is_backed = data.allocate(all).map_err(failed(place))?;
        self.shared.catalogue().change(header.id, |entry| entry.is_backed = is_backed);
        Ok((data, new_header))
    }

    fn new_writer(&self, begin: writer::Beginning) -> Writer {
        Writer::new(Arc::clone(&self.shared), Arc::clone(&self.runner), begin)
    }

    /// Continues a session behind what was promised of it. Bytes behind that are discarded.
    ///
    /// # Errors
    /// It is not this owner's, has another writer, or takes no more bytes.
    pub fn writer(&self, id: SessionId, owner: &AccessKey) -> Result<Writer, StoreError> {
        let continued = self.continue_writing(id, owner);
        if matches!(continued, Err(StoreError::JournalInDoubt)) {
            drop(self.compact());
        }
        continued
    }

    fn continue_writing(&self, id: SessionId, owner: &AccessKey) -> Result<Writer, StoreError> {
        let _changing = self.shared.changing()?;
        let (state, ending) = {
            let mut catalogue = self.shared.catalogue();
            let entry = catalogue.of_owner(id, owner)?;
            if entry.state.status != Status::Arriving || !entry.is_usable() {
                return Err(entry.failure(id).unwrap_or(StoreError::Ended));
            }
            let in_use = entry.in_use.as_deref();
            if in_use.is_some_and(|in_use| in_use.has_writer || in_use.requests > 0) {
                return Err(StoreError::Busy);
            }
            // The journal on disk may promise bytes that would be cut off here.
            if self.shared.is_journal_doubtful.load(Ordering::Acquire) {
                return Err(StoreError::JournalInDoubt);
            }
            let (state, reserved) = (entry.state, entry.reserved);
            let ending = catalogue.attach(id, |in_use| {
                in_use.has_writer = true;
                Arc::clone(&in_use.ending)
            });
            (State { reserved, ..state }, ending.unwrap_or_default())
        };
        match self.reopen(id, &state) {
            Ok((file, sum, is_backed)) => {
                self.shared.catalogue().change(id, |entry| entry.is_backed = is_backed);
                let begin = writer::Beginning {
                    id,
                    ending,
                    file,
                    header: None,
                    allowance: None,
                    sum,
                    length: state.length,
                    reserved: state.reserved,
                };
                Ok(self.new_writer(begin))
            }
            Err(error) => {
                let mut catalogue = self.shared.catalogue();
                if ending.get().is_none() {
                    catalogue.attach(id, |in_use| in_use.has_writer = false);
                    if let StoreError::Damaged { what, .. } = error {
                        catalogue.change(id, |entry| entry.condition = Condition::Damaged(what));
                    }
                }
                Err(error)
            }
        }
    }

    /// Opens a data file behind its last promised byte.
    fn reopen(
        &self,
        id: SessionId,
        state: &State,
    ) -> Result<(Box<dyn DiskFile>, BlockSum, bool), StoreError> {
        let place = Place::Data(id);
        let damaged = |what| StoreError::Damaged { file: place, at: Some(state.length), what };
        let file = self.shared.disk.open(place, true).map_err(StoreError::io("open", place))?;
        let (block, here) = (blocks::block_of(state.length), state.length % BLOCK);
        let mut tail = vec![0; here as usize];
        let begin = blocks::position(block * BLOCK);
        let got = file.read_at(&mut tail, begin).map_err(StoreError::io("read", place))?;
        let length = file.length().map_err(StoreError::io("read", place))?;
        let end = blocks::position(state.length);
        if got < tail.len() || length < end {
            return Err(damaged("the file is too short"));
        }
        if tail_sum(id, block, &tail) != state.tail {
            return Err(damaged("the last block is not the one that was stored"));
        }
        let mut sum = BlockSum::new(id, block);
        sum.add(&tail);
        file.set_length(end).map_err(StoreError::io("cut", place))?;
        let all = blocks::position(state.reserved).saturating_add(MARK as u64);
        let is_backed = file.allocate(all).unwrap_or(false);
        Ok((file, sum, is_backed))
    }

    /// Reads a session: promised bytes, also while it arrives.
    ///
    /// # Errors
    /// This key is neither its owner's nor its collector's, it has expired, or its file cannot be opened.
    pub fn reader(
        &self,
        id: SessionId,
        key: &AccessKey,
        now: SystemTime,
    ) -> Result<Reader, StoreError> {
        self.readable(id, key, unix_s(now))?;
        let place = Place::Data(id);
        let file = self.shared.disk.open(place, false).map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                let what = "the file is missing";
                self.shared
                    .catalogue()
                    .change(id, |entry| entry.condition = Condition::Damaged(what));
                StoreError::Damaged { file: place, at: None, what }
            } else {
                StoreError::io("open", place)(error)
            }
        })?;
        let mut catalogue = self.shared.catalogue();
        let number = catalogue.next_reader();
        let ending = catalogue.attach(id, |in_use| {
            in_use.readers.insert(number, None);
            Arc::clone(&in_use.ending)
        });
        let ending = ending.ok_or(StoreError::Gone(Gone::Dropped))?;
        drop(catalogue);
        Ok(Reader::new(Arc::clone(&self.shared), (id, number), ending, file))
    }

    /// Checks that a key may read a session.
    fn readable(&self, id: SessionId, key: &AccessKey, now_s: u64) -> Result<(), StoreError> {
        let catalogue = self.shared.catalogue();
        let entry = catalogue
            .get(id)
            .filter(|entry| entry.is_shown() && (entry.owner == *key || entry.collector == *key));
        let entry = entry.ok_or(StoreError::Unknown)?;
        if entry.state.expires_s <= now_s {
            return Err(StoreError::Gone(Gone::Expired));
        }
        Ok(())
    }

    /// What the depot has noted of a session.
    ///
    /// # Errors
    /// This key may not read it, or its header cannot be read.
    pub fn note(
        &self,
        id: SessionId,
        key: &AccessKey,
        now: SystemTime,
    ) -> Result<Vec<u8>, StoreError> {
        self.readable(id, key, unix_s(now))?;
        let place = Place::Header(id);
        let bytes = recovery::read_header(&*self.shared.disk, id);
        let bytes = bytes.map_err(StoreError::io("read", place))?;
        let what = "it has changed since the start";
        let header = Header::parse(&bytes).ok().filter(|header| header.id == id);
        Ok(header.ok_or(StoreError::Damaged { file: place, at: None, what })?.note)
    }

    /// Has a session end later; an earlier time changes nothing. Resolves to when it ends, which then outlasts a crash.
    ///
    /// The promise fails if it is not this owner's, has expired, or would end more than [`Limits::longest_life`] after it
    /// began.
    pub fn extend(
        &self,
        id: SessionId,
        owner: &AccessKey,
        until: SystemTime,
        now: SystemTime,
    ) -> Promise<SystemTime> {
        let read = |state: State| time(state.expires_s);
        let (until_s, now_s) = (unix_s(until), unix_s(now));
        let checked = || {
            let catalogue = self.shared.catalogue();
            let (entry, longest) = (catalogue.of_owner(id, owner)?, catalogue.limits.longest_life);
            if entry.state.expires_s <= now_s {
                return Err(StoreError::Gone(Gone::Expired));
            }
            if until_s > entry.created_s.saturating_add(longest.as_secs()) {
                return Err(StoreError::TooLong { longest });
            }
            Ok(())
        };
        match checked() {
            Ok(()) => self.submit(Wish::Extend { id, until_s }, read),
            Err(error) => refused(error, read),
        }
    }

    /// Removes a session. Its files go when this is ready; readers that have begun learn that it is gone.
    ///
    /// If the promise fails for the journal, the session may be gone after a crash all the same.
    pub fn remove(&self, id: SessionId, owner: &AccessKey) -> Promise<()> {
        let known = self.shared.catalogue().of_owner(id, owner).map(drop);
        match known {
            Ok(()) => {
                let wish = Wish::Remove { ids: vec![id], why: Gone::Dropped, now_s: 0 };
                self.submit(wish, drop)
            }
            Err(error) => refused(error, drop),
        }
    }

    /// Removes sessions that have expired, except those that are being read for at most [`READ_GRACE`]. Returns how many it
    /// finds. The depot calls it now and then.
    pub fn expire(&self, now: SystemTime) -> (usize, Promise<()>) {
        let now_s = unix_s(now);
        let mut ids: Vec<SessionId> = {
            let catalogue = self.shared.catalogue();
            let is_over = |entry: &Entry| {
                let is_read =
                    entry.in_use.as_ref().is_some_and(|in_use| !in_use.readers.is_empty());
                let grace = if is_read { READ_GRACE.as_secs() } else { 0 };
                entry.condition != Condition::New
                    && entry.state.expires_s.saturating_add(grace) <= now_s
            };
            catalogue.iter().filter(|(_, entry)| is_over(entry)).map(|(id, _)| id).collect()
        };
        ids.sort_unstable();
        (ids.len(), self.submit(Wish::Remove { ids, why: Gone::Expired, now_s }, drop))
    }

    /// Writes the journal again, as short as it can be. It happens by itself when it has grown.
    pub fn compact(&self) -> Promise<()> {
        self.submit(Wish::Compact, drop)
    }

    fn submit<T>(&self, wish: Wish, read: fn(State) -> T) -> Promise<T> {
        let (promise, answer) = promise(read);
        submit(&self.shared, &*self.runner, Request { wish, answer });
        promise
    }

    /// An owner's sessions in the order of their ids, at most `most` of them behind `after`.
    pub fn list(
        &self,
        owner: &AccessKey,
        after: Option<SessionId>,
        most: usize,
    ) -> Vec<SessionInfo> {
        let catalogue = self.shared.catalogue();
        let shown = catalogue.of_key(owner, after).filter(|(_, entry)| entry.is_shown());
        shown.map(|(id, entry)| info(id, entry)).take(most).collect()
    }

    /// What is known of a session.
    ///
    /// # Errors
    /// There is none, or this key is neither its owner's nor its collector's.
    pub fn info(&self, id: SessionId, key: &AccessKey) -> Result<SessionInfo, StoreError> {
        self.readable(id, key, 0)?;
        let catalogue = self.shared.catalogue();
        catalogue.get(id).map(|entry| info(id, entry)).ok_or(StoreError::Unknown)
    }

    /// What is known of a session of this owner.
    ///
    /// # Errors
    /// There is none.
    pub fn own(&self, id: SessionId, owner: &AccessKey) -> Result<SessionInfo, StoreError> {
        let catalogue = self.shared.catalogue();
        catalogue.of_owner(id, owner).map(|entry| info(id, entry))
    }

    /// What is charged to an account.
    pub fn usage_of(&self, account: &AccessKey) -> Usage {
        self.shared.catalogue().usage_of(account)
    }

    /// What all sessions use.
    pub fn usage(&self) -> Usage {
        self.shared.catalogue().usage()
    }

    /// Other limits from now on. Sessions that exceed them stay.
    pub fn set_limits(&self, limits: Limits) {
        self.shared.catalogue().limits = limits;
    }

    /// Ends all changes, so that another process can open the store: waits for rounds, refuses what comes later, and
    /// unlocks the directory. Readers may go on with what was promised. Blocks until the leader has done its last round, so
    /// never call it where the leader waits for this thread.
    pub fn close(&self) {
        self.shared.close();
    }
}

fn info(id: SessionId, entry: &Entry) -> SessionInfo {
    let damage = match entry.condition {
        Condition::Damaged(what) => Some(what),
        _ => None,
    };
    SessionInfo {
        id,
        status: entry.state.status,
        length: entry.state.length,
        reserved: entry.reserved,
        created: time(entry.created_s),
        expires: time(entry.state.expires_s),
        damage,
    }
}

/// The time of a number of seconds; for a damaged one that no clock can show, the year 9999.
fn time(unix_s: u64) -> SystemTime {
    const YEAR_9999_S: u64 = 253_370_764_800;
    UNIX_EPOCH + Duration::from_secs(unix_s.min(YEAR_9999_S))
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("disk", &self.shared.disk).finish_non_exhaustive()
    }
}
