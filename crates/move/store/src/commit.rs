// SPDX-License-Identifier: GPL-2.0-or-later
//! Rounds: all that waits is made durable together, and answered together (group commit with a leader).
//!
//! ```text
//! 1. data files       write-back begins for all, then each is synced: on ext4 they share one commit of the file system
//! 2. new headers      synced, renamed into place, then directories are synced once
//! 3. journal          one round with the states of all sessions that changed, synced
//! 4. answers          the catalogue changes, promises are kept, readers wake
//!    removed sessions the journal says that they are gone, so their files go before that
//! 5. compaction       if the journal has grown
//! ```
//! A request that comes during a round waits for the next one. The request that finds no leader makes one, which works until
//! nothing waits. Source: `DeWitt` et al. 1984, section 3; the leader as in `LevelDB`'s and `RocksDB`'s write groups.
//!
//! An error in step 1 or 2 fails those sessions for ever and drops their descriptors: after a failed fsync(2), Linux marks
//! pages clean that were never written, and the next call reports success (Rebello et al., USENIX ATC 2020). An error in step 3 breaks the promises
//! of the round and ends the journal; the sessions go on with another one, written from what was promised before.

use crate::{
    blocks,
    catalogue::{Condition, Entry, InUse},
    disk::{DiskFile, Folder, Place},
    error::{Gone, StoreError},
    promise::Answer,
    record::{Record, State, Status},
    shared::{NewHeader, Request, Shared, Wish, Written},
};
use protocol::session::SessionId;
use rustix::io::Errno;
use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    task::Waker,
};

/// Work that blocks.
pub type Job = Box<dyn FnOnce() + Send>;

/// Where rounds run. At most one job of a store is waiting or running.
///
/// A depot gives `|job| drop(tokio::task::spawn_blocking(job))`; a program that may block gives `|job| job()`, and so
/// leads in the thread that asks. A job that is dropped breaks the promises that wait for it.
pub trait Runner: Send + Sync {
    /// Has a job run soon, perhaps at once.
    fn run(&self, job: Job);
}

impl<F: Fn(Job) + Send + Sync> Runner for F {
    fn run(&self, job: Job) {
        self(job);
    }
}

/// Requests of a round at most, so that none takes too long.
const MOST_REQUESTS: usize = 4096;

/// Puts a request into the queue, and makes a leader if there is none.
pub(crate) fn submit(shared: &Arc<Shared>, runner: &dyn Runner, request: Request) {
    {
        let mut queue = shared.queue();
        if queue.is_closed {
            drop(queue);
            forget_written(shared, &request.wish);
            request.answer.give(Err(StoreError::Closed));
            return;
        }
        queue.waiting.push(request);
        if std::mem::replace(&mut queue.has_leader, true) {
            return;
        }
    }
    let leader = Leader { shared: Arc::clone(shared), is_done: false };
    runner.run(Box::new(move || leader.lead()));
}

/// The one that works. Dropped before its end, it breaks the promises that wait.
struct Leader {
    shared: Arc<Shared>,
    is_done: bool,
}

impl Leader {
    fn lead(mut self) {
        loop {
            let requests: Vec<Request> = {
                let mut queue = self.shared.queue();
                if queue.waiting.is_empty() {
                    queue.has_leader = false;
                    self.is_done = true;
                    self.shared.idle.notify_all();
                    return;
                }
                let most = queue.waiting.len().min(MOST_REQUESTS);
                queue.waiting.drain(..most).collect()
            };
            Round::new(&self.shared).run(requests);
        }
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let left = {
            let mut queue = self.shared.queue();
            queue.has_leader = false;
            self.shared.idle.notify_all();
            std::mem::take(&mut queue.waiting)
        };
        for request in &left {
            forget_written(&self.shared, &request.wish);
        }
    }
}

/// A request of a writer is over.
fn forget_written(shared: &Shared, wish: &Wish) {
    let Wish::Promise(written) = wish else { return };
    let mut catalogue = shared.catalogue();
    if written.ending.get().is_none() {
        let forget = |in_use: &mut InUse| in_use.requests = in_use.requests.saturating_sub(1);
        catalogue.attach(written.id, forget);
        drop(catalogue);
        remove_abandoned(shared, written.id);
    }
}

/// Removes a session that has neither a writer nor a promise.
pub(crate) fn remove_abandoned(shared: &Shared, id: SessionId) {
    let Ok(_changing) = shared.changing() else { return };
    let mut catalogue = shared.catalogue();
    if catalogue.get(id).is_some_and(Entry::is_abandoned) {
        if shared.is_journal_doubtful.load(Ordering::Acquire) {
            catalogue.change(id, |entry| entry.condition = Condition::Unrecorded);
            return;
        }
        drop(catalogue);
        // The files first: as long as the entry is there, no other session gets the id.
        remove_files(shared, id);
        shared.catalogue().remove(id, Gone::Dropped);
    }
}

/// Removes a session's files. What stays is removed, or not shown, at the next start.
pub(crate) fn remove_files(shared: &Shared, id: SessionId) {
    for place in [Place::NewHeader(id), Place::Header(id), Place::Data(id)] {
        let _ = shared.disk.remove(place);
    }
}

/// A session in a round, with all that was asked for it.
#[derive(Default)]
struct Work {
    written: Option<Written>,
    answers: Vec<Answer>,
    /// What it will be, if the journal takes it.
    next: Option<State>,
    /// It has failed, for ever.
    error: Option<StoreError>,
    is_removed: Option<Gone>,
    /// Requests of its writer.
    requests: u32,
}

impl Work {
    fn file(&self) -> Option<Arc<dyn DiskFile>> {
        self.written.as_ref().and_then(|written| written.file.get())
    }

    /// Whether its bytes are to be synced.
    fn is_wanted(&self) -> bool {
        self.written.is_some() && self.error.is_none() && self.is_removed.is_none()
    }

    /// The header that has no name yet.
    fn new_header(&self) -> Option<(Arc<NewHeader>, Arc<dyn DiskFile>)> {
        let header = self.written.as_ref().filter(|_| self.is_wanted())?.header.clone()?;
        let file = header.unpublished()?;
        Some((header, file))
    }

    fn fail(&mut self, error: StoreError) {
        if let Some(written) = &self.written {
            written.file.give_up();
        }
        self.next = None;
        self.error = Some(error);
    }
}

struct Round<'a> {
    shared: &'a Shared,
    work: HashMap<SessionId, Work>,
    /// In the order of the requests, so that a round is the same each time.
    order: Vec<SessionId>,
    removals: Vec<Answer>,
    compactions: Vec<Answer>,
    /// Why the round has no effect.
    error: Option<StoreError>,
}

impl<'a> Round<'a> {
    fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            work: HashMap::new(),
            order: Vec::new(),
            removals: Vec::new(),
            compactions: Vec::new(),
            error: None,
        }
    }

    fn run(mut self, requests: Vec<Request>) {
        for request in requests {
            self.take(request);
        }
        let is_usable = self.shared.journal().is_usable();
        if is_usable || self.begin_journal() {
            self.sync_data();
            self.publish_headers();
            self.write_journal();
        }
        self.remove_gone();
        self.settle();
        let is_due = !self.compactions.is_empty() || self.shared.journal().is_due();
        if is_due && self.error.is_none() {
            self.begin_journal();
        }
        let outcome = self.outcome();
        for answer in self.compactions {
            answer.give(outcome.clone());
        }
    }

    /// Of requests that are not about one session.
    fn outcome(&self) -> Result<State, StoreError> {
        self.error.clone().map_or(Ok(State::default()), Err)
    }

    fn work_on(&mut self, id: SessionId) -> &mut Work {
        self.work.entry(id).or_insert_with(|| {
            self.order.push(id);
            Work::default()
        })
    }

    /// Decides what a request does, in the order in which they came.
    fn take(&mut self, request: Request) {
        match request.wish {
            Wish::Promise(written) => self.take_written(written, request.answer),
            Wish::Extend { id, until_s } => {
                let Some(state) = self.state_of(id) else {
                    return request.answer.give(Err(StoreError::Unknown));
                };
                let work = self.work_on(id);
                work.next = Some(State { expires_s: state.expires_s.max(until_s), ..state });
                work.answers.push(request.answer);
            }
            Wish::Remove { ids, why, now_s } => {
                for id in ids {
                    let Some(state) = self.state_of(id) else { continue };
                    if why == Gone::Dropped || state.expires_s <= now_s {
                        let work = self.work_on(id);
                        work.next = Some(State { status: Status::Gone, ..state });
                        work.is_removed = Some(why);
                    }
                }
                self.removals.push(request.answer);
            }
            Wish::Compact => self.compactions.push(request.answer),
        }
    }

    fn take_written(&mut self, written: Written, answer: Answer) {
        let id = written.id;
        let state = self.state_of(id).filter(|_| written.ending.get().is_none());
        match state {
            Some(state) if state.status == Status::Arriving && !self.is_damaged(id) => {
                let work = self.work_on(id);
                work.requests += 1;
                work.answers.push(answer);
                let status = if written.is_complete { Status::Complete } else { Status::Arriving };
                let Written { length, reserved, tail, .. } = written;
                work.next = Some(State { length, reserved, tail, status, ..state });
                // A later request of the same writer has all that the earlier ones have.
                work.written = Some(written);
            }
            _ => {
                let removed = self.work.get(&id).and_then(|work| work.is_removed);
                let failure = self.shared.catalogue().get(id).and_then(|entry| entry.failure(id));
                let error = removed.map(StoreError::Gone).or(failure);
                let error = match written.ending.get() {
                    Some(why) => StoreError::Gone(*why),
                    None => error.unwrap_or(StoreError::Ended),
                };
                forget_written(self.shared, &Wish::Promise(written));
                answer.give(Err(error));
            }
        }
    }

    fn is_damaged(&self, id: SessionId) -> bool {
        let catalogue = self.shared.catalogue();
        catalogue.get(id).is_none_or(|entry| !entry.is_usable())
    }

    /// A session's state as this round has it so far. `None` if there is none, or it is gone.
    fn state_of(&self, id: SessionId) -> Option<State> {
        let known = self.shared.catalogue().get(id).map(|entry| entry.state)?;
        let next = self.work.get(&id).and_then(|work| work.next);
        Some(next.unwrap_or(known)).filter(|state| state.status != Status::Gone)
    }

    fn sync_data(&mut self) {
        let wanted = || self.order.iter().filter(|id| self.work[id].is_wanted());
        if wanted().nth(1).is_some() {
            for work in wanted().map(|id| &self.work[id]) {
                if let (Some(file), Some(written)) = (work.file(), &work.written) {
                    file.begin_write_back(0, blocks::position(written.length));
                }
            }
        }
        for id in &self.order {
            let work = self.work.get_mut(id).expect("each in the order has work");
            if !work.is_wanted() {
                continue;
            }
            match work.file().map(|file| file.sync()) {
                Some(Ok(())) => {}
                Some(Err(error)) => work.fail(StoreError::failed(Place::Data(*id), error)),
                None => work.fail(StoreError::Ended),
            }
        }
    }

    /// Gives new headers their names.
    fn publish_headers(&mut self) {
        let disk = &self.shared.disk;
        let mut named = Vec::new();
        for id in &self.order {
            let work = self.work.get_mut(id).expect("each in the order has work");
            let Some((header, file)) = work.new_header() else { continue };
            let rename = |()| disk.rename(Place::NewHeader(*id), Place::Header(*id));
            match file.sync().and_then(rename) {
                Ok(()) => named.push((*id, header)),
                Err(error) => work.fail(StoreError::failed(Place::NewHeader(*id), error)),
            }
        }
        if named.is_empty() {
            return;
        }
        let mut error = None;
        for folder in [Folder::Data, Folder::Headers] {
            if let Err(failed) = disk.sync_folder(folder) {
                // Also for new sessions that are in no round yet: the next call would say nothing of their files.
                self.shared.folder_faults.fetch_add(1, Ordering::AcqRel);
                error.get_or_insert(StoreError::failed(folder.name(), failed));
            }
        }
        let faults = self.shared.folder_faults.load(Ordering::Acquire);
        for (id, header) in named {
            if header.folder_faults == faults {
                header.set_published();
            } else {
                let work = self.work.get_mut(&id).expect("it was named in this round");
                let before = || StoreError::failed(Folder::Data.name(), Errno::IO.into());
                work.fail(error.clone().unwrap_or_else(before));
            }
        }
    }

    fn write_journal(&mut self) {
        let records: Vec<Record> = {
            let catalogue = self.shared.catalogue();
            let record = |id: &SessionId| {
                let (work, entry) = (&self.work[id], catalogue.get(*id)?);
                let next = match (&work.error, work.next) {
                    // Nothing was promised of it, so nothing is recorded.
                    (Some(_), _) if entry.condition == Condition::New => None,
                    (Some(_), _) => Some(State { status: Status::Failed, ..entry.state }),
                    (None, next) => next,
                };
                next.map(|next| (*id, next))
            };
            self.order.iter().filter_map(record).collect()
        };
        if records.is_empty() {
            return;
        }
        let added = self.shared.journal().add(&records);
        if let Err(error) = added {
            self.shared.is_journal_doubtful.store(true, Ordering::Release);
            self.break_promises(&StoreError::io("write", Place::Journal)(error));
            // Soon, so that a crash does not bring back what was just refused.
            self.begin_journal();
        }
    }

    /// The round has no effect, but for sessions that have failed.
    fn break_promises(&mut self, error: &StoreError) {
        for work in self.work.values_mut().filter(|work| work.error.is_none()) {
            (work.next, work.is_removed) = (None, None);
            for answer in work.answers.drain(..) {
                answer.give(Err(error.clone()));
            }
        }
        self.error.get_or_insert(error.clone());
    }

    /// Replaces the journal by one of what was promised. If that fails, the round has no effect.
    fn begin_journal(&mut self) -> bool {
        let states: Vec<Record> = {
            let catalogue = self.shared.catalogue();
            let recorded = catalogue.iter().filter(|(_, entry)| entry.is_recorded());
            recorded.map(|(id, entry)| (id, entry.state)).collect()
        };
        // So that the files of sessions that the new journal does not name do not come back.
        for folder in [Folder::Headers, Folder::Data] {
            if self.shared.disk.sync_folder(folder).is_err() {
                self.shared.folder_faults.fetch_add(1, Ordering::AcqRel);
            }
        }
        let begun = self.shared.journal().begin(&*self.shared.disk, &states);
        let Err(error) = begun else {
            self.shared.is_journal_doubtful.store(false, Ordering::Release);
            return true;
        };
        self.break_promises(&StoreError::io("write", Place::Journal)(error));
        false
    }

    /// Removes the files of sessions that are gone by the journal, or whose first promise failed.
    fn remove_gone(&mut self) {
        let is_doubtful = self.shared.is_journal_doubtful.load(Ordering::Acquire);
        for id in &self.order {
            let work = self.work.get_mut(id).expect("each in the order has work");
            if work.error.is_some() && !is_doubtful && self.shared.catalogue().is_new(*id) {
                work.is_removed = Some(Gone::Dropped);
            }
            if work.is_removed.is_some() {
                remove_files(self.shared, *id);
            }
        }
    }

    /// Changes the catalogue, answers, and wakes readers.
    fn settle(&mut self) {
        let (mut wakers, mut answers) = (Vec::new(), Vec::new());
        let mut unchanged = Vec::new();
        let mut catalogue = self.shared.catalogue();
        for id in std::mem::take(&mut self.order) {
            let work = self.work.remove(&id).expect("each in the order has work");
            let requests = work.requests;
            catalogue
                .attach(id, |in_use| in_use.requests = in_use.requests.saturating_sub(requests));
            if let Some(why) = work.is_removed {
                wakers.extend(catalogue.remove(id, why));
            } else if work.error.is_some() || work.next.is_some() {
                catalogue.change(id, |entry| {
                    entry.settle(work.next, work.error.as_ref());
                    wakers.extend(entry.take_wakers());
                });
            } else {
                unchanged.push(id);
            }
            let outcome = match (work.error, work.is_removed, work.next) {
                (Some(error), _, _) => Err(error),
                (None, Some(why), _) => Err(StoreError::Gone(why)),
                (None, None, next) => next.ok_or(StoreError::Closed),
            };
            answers.extend(work.answers.into_iter().map(|answer| (answer, outcome.clone())));
        }
        drop(catalogue);
        for id in unchanged {
            remove_abandoned(self.shared, id);
        }
        let outcome = self.outcome();
        answers.extend(self.removals.drain(..).map(|answer| (answer, outcome.clone())));
        for (answer, outcome) in answers {
            answer.give(outcome);
        }
        wakers.into_iter().for_each(Waker::wake);
    }
}
