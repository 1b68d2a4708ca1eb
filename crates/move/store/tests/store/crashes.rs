// SPDX-License-Identifier: GPL-2.0-or-later
//! Durability: whenever the machine crashes, what was promised is there, and what was not does not appear as whole.
//!
//! One seed is a history: sessions begin, grow, are promised, completed, extended, dropped, expire, the journal is written
//! again, until the machine crashes at a change that the seed selects; then the store opens again, is compared with a log of
//! promises that no crash touches, and the history goes on. `LONGHAUL_SEED` selects the first seed, and is printed; `LONGHAUL_CRASHES` how many crashes.

use crate::{
    harness::{DAY, Held, PLENTY, at, content, id, key, poll, read_all, session},
    sim_disk::{Faults, Mutant, SimDisk},
};
use longhaul_store::{Job, Promise, Report, Status, Store, Writer, disk::Folder, disk::Place};
use protocol::session::SessionId;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use std::{collections::BTreeMap, sync::Arc, time::SystemTime};
use units::Bytes;

/// Crashes that the test goes through at least.
const CRASHES: u64 = 600;
/// Crashes of one history.
const CRASHES_EACH: u64 = 3;
/// Steps between two crashes at most.
const STEPS: u64 = 60;
const NONE: Faults = Faults { sync: 0, folder_sync: 0, write_full: 0, journal_sync: 0 };
/// Sessions at a time.
const SESSIONS: usize = 5;

/// What is known of a session outside of the disk.
#[derive(Debug, Default, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each was promised or not, for itself")]
struct Logged {
    /// Whether anything was promised of it.
    is_promised: bool,
    /// Bytes.
    promised: u64,
    /// Bytes that were given to the store at most.
    given: u64,
    /// The length at which it was asked to be complete.
    completed_at: Vec<u64>,
    is_complete: bool,
    expires: Option<SystemTime>,
    /// Its end was asked for, so it may be gone.
    may_be_gone: bool,
    is_gone: bool,
}

enum Asked {
    Bytes(SessionId, Promise<u64>),
    Whole(SessionId, Promise<u64>),
    Longer(SessionId, Promise<SystemTime>),
    Gone(Vec<SessionId>, Promise<()>),
    Compact(Promise<()>),
}

struct History {
    random: Pcg64,
    held: Held,
    disk: SimDisk,
    store: Store,
    log: BTreeMap<SessionId, Logged>,
    writers: Vec<Writer>,
    asked: Vec<Asked>,
    last_id: u64,
    now_s: u64,
}

/// What is wrong with a store.
type Wrong = String;

impl History {
    fn new(seed: u64, mutant: Option<Mutant>, faults: Faults) -> Self {
        let held = Held::default();
        let disk = SimDisk::new(seed);
        let (store, _) = open(&disk, &held, 0).unwrap();
        disk.set_mutant(mutant);
        disk.set_faults(faults);
        Self {
            random: Pcg64::seed_from_u64(seed ^ 0x5eed),
            held,
            disk,
            store,
            log: BTreeMap::new(),
            writers: Vec::new(),
            asked: Vec::new(),
            last_id: 0,
            now_s: 0,
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    /// One of the sessions that the log has, not gone.
    fn any(&mut self) -> Option<SessionId> {
        let ids: Vec<_> = self.log.iter().filter(|(_, logged)| !logged.may_be_gone).collect();
        let ids: Vec<SessionId> = ids.into_iter().map(|(id, _)| *id).collect();
        (!ids.is_empty()).then(|| ids[self.below(ids.len() as u64) as usize])
    }

    fn step(&mut self) -> Result<(), Wrong> {
        match self.below(24) {
            0..3 if self.writers.len() < SESSIONS => self.create(),
            3..10 if !self.writers.is_empty() => self.append(),
            10..13 if !self.writers.is_empty() => {
                let n = self.below(self.writers.len() as u64) as usize;
                let writer = &mut self.writers[n];
                let asked = Asked::Bytes(writer.id(), writer.promise());
                self.asked.push(asked);
            }
            13 if !self.writers.is_empty() => {
                let n = self.below(self.writers.len() as u64) as usize;
                let writer = self.writers.swap_remove(n);
                let (id, length) = (writer.id(), writer.length());
                self.log.entry(id).or_default().completed_at.push(length);
                self.asked.push(Asked::Whole(id, writer.complete()));
            }
            14 if !self.writers.is_empty() => {
                let n = self.below(self.writers.len() as u64) as usize;
                drop(self.writers.swap_remove(n));
            }
            15 | 16 => self.continue_one(),
            17 => self.extend(),
            18 => self.remove(),
            19 => self.expire(),
            20 => self.asked.push(Asked::Compact(self.store.compact())),
            21 => return self.read_one(),
            22 if !self.writers.is_empty() => {
                let n = self.below(self.writers.len() as u64) as usize;
                let writer = &mut self.writers[n];
                // Whatever comes of it, as with append.
                let _ = if writer.reserved() > writer.length() {
                    writer.give_back()
                } else {
                    writer.reserve(Bytes::new(writer.length() + 100_000))
                };
            }
            _ => drop(self.held.run()),
        }
        self.settle();
        Ok(())
    }

    fn create(&mut self) {
        self.last_id += 1;
        let id = id(self.last_id);
        let mut new = session(id, self.random.next_u64() % 400_000);
        new.life = DAY * (1 + self.below(3) as u32);
        if let Ok(writer) = self.store.create(&new, at(self.now_s)) {
            let expires = Some(at(self.now_s) + new.life);
            self.log.insert(id, Logged { expires, ..Logged::default() });
            self.writers.push(writer);
        }
    }

    fn append(&mut self) {
        let n = self.below(self.writers.len() as u64) as usize;
        let most = if self.below(3) == 0 { 100_000 } else { 2_000 };
        let length = self.below(most);
        let writer = &mut self.writers[n];
        let id = writer.id();
        let length = length.min(writer.reserved() - writer.length());
        // Whatever comes of it: errors are not promises.
        let _ = writer.append(&content(id, writer.length(), length));
        let logged = self.log.entry(id).or_default();
        logged.given = logged.given.max(writer.length());
    }

    fn continue_one(&mut self) {
        let Some(id) = self.any() else { return };
        if self.writers.len() < SESSIONS
            && let Ok(writer) = self.store.writer(id, &key(1))
        {
            self.writers.push(writer);
        }
    }

    fn extend(&mut self) {
        let Some(id) = self.any() else { return };
        let until = at(self.now_s) + DAY * (1 + self.below(4) as u32);
        let extended = self.store.extend(id, &key(1), until, at(self.now_s));
        self.asked.push(Asked::Longer(id, extended));
    }

    fn remove(&mut self) {
        let Some(id) = self.any() else { return };
        self.log.entry(id).or_default().may_be_gone = true;
        self.asked.push(Asked::Gone(vec![id], self.store.remove(id, &key(1))));
    }

    fn expire(&mut self) {
        self.now_s += self.below(DAY.as_secs());
        let now = at(self.now_s);
        // Some of them may have been extended without an answer, and stay.
        for logged in self.log.values_mut() {
            logged.may_be_gone |= logged.expires.is_some_and(|expires| expires <= now);
        }
        let (_, promise) = self.store.expire(now);
        self.asked.push(Asked::Gone(Vec::new(), promise));
    }

    /// What is promised can be read at any time.
    fn read_one(&mut self) -> Result<(), Wrong> {
        let Some(id) = self.any() else { return Ok(()) };
        let logged = self.log[&id].clone();
        if logged.is_promised && !self.disk.is_crashed() {
            self.compare(id, &logged)?;
        }
        Ok(())
    }

    /// Notes which promises are kept.
    fn settle(&mut self) {
        for mut asked in std::mem::take(&mut self.asked) {
            let is_over = match &mut asked {
                Asked::Bytes(id, promise) => poll(promise)
                    .map(|outcome| outcome.map(|length| self.promised(*id, length, false)))
                    .is_some(),
                Asked::Whole(id, promise) => poll(promise)
                    .map(|outcome| outcome.map(|length| self.promised(*id, length, true)))
                    .is_some(),
                Asked::Longer(id, promise) => poll(promise)
                    .map(|outcome| {
                        let logged = self.log.entry(*id).or_default();
                        if let Ok(until) = outcome {
                            logged.expires = logged.expires.max(Some(until));
                        }
                    })
                    .is_some(),
                Asked::Gone(ids, promise) => poll(promise)
                    .map(|outcome| {
                        for id in ids.iter().filter(|_| outcome.is_ok()) {
                            self.log.entry(*id).or_default().is_gone = true;
                        }
                    })
                    .is_some(),
                Asked::Compact(promise) => poll(promise).is_some(),
            };
            if !is_over {
                self.asked.push(asked);
            }
        }
    }

    fn promised(&mut self, id: SessionId, length: u64, is_whole: bool) {
        let logged = self.log.entry(id).or_default();
        logged.is_promised = true;
        logged.promised = logged.promised.max(length);
        logged.is_complete |= is_whole;
    }

    /// The machine crashes, if it has not, and starts again.
    fn crash(&mut self) -> Result<Report, Wrong> {
        let disk = self.disk.after_crash();
        self.asked.clear();
        self.writers.clear();
        self.held = Held::default();
        self.disk = disk;
        let (store, report) = open(&self.disk, &self.held, self.now_s)
            .map_err(|error| format!("the store does not open: {error}"))?;
        self.store = store;
        for damage in &report.damage {
            let is_torn = damage.file == "journal" && damage.what.contains("as after a crash");
            if !is_torn {
                return Err(format!("{}: {}", damage.file, damage.what));
            }
        }
        for (id, logged) in self.log.clone() {
            self.compare(id, &logged).map_err(|wrong| format!("{id}: {wrong}; {logged:?}"))?;
            // What the store shows now is on disk, so it holds from now on; what it does not show never comes back.
            let now = match self.store.info(id, &key(1)) {
                Err(_) => Logged { may_be_gone: true, is_gone: true, ..logged },
                Ok(info) => Logged {
                    is_promised: true,
                    promised: info.length,
                    given: info.length,
                    is_complete: info.status == Status::Complete,
                    completed_at: if info.status == Status::Complete {
                        vec![info.length]
                    } else {
                        vec![]
                    },
                    expires: Some(info.expires),
                    ..Logged::default()
                },
            };
            self.log.insert(id, now);
        }
        Ok(report)
    }

    /// Compares a session with what was promised of it.
    fn compare(&self, id: SessionId, logged: &Logged) -> Result<(), Wrong> {
        let info = match self.store.info(id, &key(1)) {
            Ok(info) if logged.is_gone => return Err(format!("it was dropped: {info:?}")),
            Err(_) if logged.may_be_gone || !logged.is_promised => return Ok(()),
            Err(error) => return Err(format!("it is missing: {error}")),
            Ok(info) => info,
        };
        if info.length < logged.promised || info.length > logged.given.max(logged.promised) {
            return Err(format!("it has {} bytes", info.length));
        }
        if info.expires < logged.expires.unwrap_or(info.expires) {
            return Err("it expires earlier than was promised".to_owned());
        }
        let is_whole = info.status == Status::Complete;
        if logged.is_complete && !is_whole {
            return Err(format!("it is not complete: {info:?}"));
        }
        if is_whole && !logged.completed_at.contains(&info.length) {
            return Err(format!("it appears as whole: {info:?}"));
        }
        let mut reader =
            self.store.reader(id, &key(2), at(0)).map_err(|error| format!("reader: {error}"))?;
        let mut read = Vec::new();
        while (read.len() as u64) < info.length {
            match reader.read(read.len() as u64) {
                Ok(longhaul_store::Read::Bytes(bytes)) => read.extend_from_slice(bytes),
                other => return Err(format!("at {}: {other:?}", read.len())),
            }
        }
        if read != content(id, 0, info.length) {
            return Err("its bytes are not those that were stored".to_owned());
        }
        Ok(())
    }
}

fn open(
    disk: &SimDisk,
    held: &Held,
    now_s: u64,
) -> Result<(Store, Report), longhaul_store::OpenError> {
    let runner = held.runner();
    Store::open(Arc::new(disk.clone()), PLENTY, move |job: Job| runner(job), at(now_s))
}

/// What happened in a history.
#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    crashes: u64,
    promised: u64,
    complete: u64,
    unrecorded: usize,
    torn: u64,
}

fn run(seed: u64, mutant: Option<Mutant>, faults: Faults) -> Result<Counts, Wrong> {
    let mut history = History::new(seed, mutant, faults);
    let mut counts = Counts::default();
    for _ in 0..CRASHES_EACH {
        if history.below(3) == 0 {
            let syncs = 1 + history.below(8);
            history.disk.crash_at_journal_sync(syncs);
        } else {
            let changes = 1 + history.below(120);
            history.disk.crash_after(changes);
        }
        history.disk.set_faults(faults);
        for _ in 0..STEPS {
            history.step()?;
            if history.disk.is_crashed() {
                break;
            }
        }
        history.settle();
        counts.promised += history.log.values().filter(|logged| logged.is_promised).count() as u64;
        counts.complete += history.log.values().filter(|logged| logged.is_complete).count() as u64;
        let report = history.crash()?;
        counts.crashes += 1;
        counts.unrecorded += report.unrecorded;
        counts.torn += u64::from(!report.damage.is_empty());
    }
    Ok(counts)
}

fn first_seed() -> u64 {
    testkit::fuzz::seed()
}

#[test]
fn promises_hold_after_600_crashes() {
    let first = first_seed();
    let crashes = testkit::fuzz::number("LONGHAUL_CRASHES").unwrap_or(CRASHES);
    let mut sum = Counts::default();
    for seed in first..first + crashes / CRASHES_EACH {
        let counts = run(seed, None, Faults::default());
        let counts = counts.unwrap_or_else(|wrong| panic!("LONGHAUL_SEED={seed}: {wrong}"));
        sum.crashes += counts.crashes;
        sum.promised += counts.promised;
        sum.complete += counts.complete;
        sum.unrecorded += counts.unrecorded;
        sum.torn += counts.torn;
    }
    println!("{sum:?}");
    assert!(sum.crashes >= crashes);
    // A history in which nothing is promised, or nothing is torn, shows little.
    assert!(sum.promised > crashes && sum.complete > crashes / 10, "{sum:?}");
    assert!(sum.unrecorded > 10 && sum.torn > crashes / 200, "{sum:?}");
}

#[test]
fn promises_hold_after_crashes_on_a_failing_disk() {
    let first = first_seed();
    let faults = Faults { sync: 12, folder_sync: 12, write_full: 20, journal_sync: 8 };
    let mut promised = 0;
    for seed in first..first + 100 {
        let counts = run(seed, None, faults);
        let counts = counts.unwrap_or_else(|wrong| panic!("LONGHAUL_SEED={seed}: {wrong}"));
        promised += counts.promised;
    }
    assert!(promised > 100, "{promised}");
}

/// Threads share rounds, and the machine crashes in the midst of one.
#[test]
fn promises_of_many_threads_hold_after_a_crash() {
    let first = first_seed();
    let mut kept = 0;
    for seed in first..first + 60 {
        let disk = SimDisk::new(seed);
        let (store, _) = crate::harness::open(&disk);
        disk.crash_after(20 + seed * 37 % 600);
        let promised: Vec<Option<(u64, bool)>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|number| {
                    let store = &store;
                    scope.spawn(move || keep_promising(store, id(number)))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(disk.is_crashed());
        let (store, report) = crate::harness::open(&disk.after_crash());
        let is_torn = report.damage.iter().all(|damage| damage.file == "journal");
        assert!(is_torn, "LONGHAUL_SEED={seed}: {report:?}");
        for (number, promised) in (0..).zip(promised) {
            let Some((length, is_complete)) = promised else { continue };
            let mut reader = store.reader(id(number), &key(2), at(0)).unwrap();
            let (read, is_whole) = read_all(&mut reader).unwrap();
            assert!(read.len() as u64 >= length, "LONGHAUL_SEED={seed}: {number}");
            assert_eq!(read, content(id(number), 0, read.len() as u64), "LONGHAUL_SEED={seed}");
            assert!(is_whole || !is_complete, "LONGHAUL_SEED={seed}: {number}");
            assert!(!is_whole || read.len() == 60_000, "LONGHAUL_SEED={seed}: {number}");
            kept += 1;
        }
    }
    assert!(kept > 100, "{kept}");
}

/// Stores a session in parts until the machine crashes. Returns what was promised of it, and whether that is all.
fn keep_promising(store: &Store, id: SessionId) -> Option<(u64, bool)> {
    let mut promised = None;
    let mut writer = store.create(&session(id, 60_000), at(0)).ok()?;
    for part in 0..20 {
        if writer.append(&content(id, part * 3000, 3000)).is_err() {
            return promised;
        }
        let Ok(length) = writer.promise().wait() else { return promised };
        promised = Some((length, false));
    }
    match writer.complete().wait() {
        Ok(length) => Some((length, true)),
        Err(_) => promised,
    }
}

/// The first seed at which a mutant is noticed.
fn caught(mutant: Mutant, faults: Faults) {
    let first = first_seed();
    let found = (first..first + 200).find_map(|seed| run(seed, Some(mutant), faults).err());
    println!("{mutant:?}: {found:?}");
    assert!(found.is_some(), "{mutant:?} is not noticed");
}

#[test]
fn crash_test_notices_each_sync_that_is_left_out() {
    for mutant in [
        Mutant::FolderSyncLeftOut,
        Mutant::DataSyncLeftOut,
        Mutant::HeaderSyncLeftOut,
        Mutant::JournalSyncLeftOut,
    ] {
        caught(mutant, Faults::default());
    }
}

#[test]
fn crash_test_notices_a_sync_that_is_repeated_after_an_error() {
    caught(Mutant::FailedSyncRepeated, Faults { sync: 4, ..NONE });
}

#[test]
fn a_crash_at_every_change_of_the_first_start_leaves_a_store_that_opens() {
    for changes in 1..40 {
        let disk = SimDisk::new(changes);
        disk.crash_after(changes);
        let held = Held::default();
        let _ = open(&disk, &held, 0);
        let disk = disk.after_crash();
        let (store, report) = open(&disk, &held, 0).unwrap();
        assert_eq!(report.sessions, 0, "{report:?}");
        let mut writer = store.create(&session(id(1), 10), at(0)).unwrap();
        writer.append(&content(id(1), 0, 10)).unwrap();
        let mut complete = writer.complete();
        held.run();
        assert!(matches!(poll(&mut complete), Some(Ok(10))), "{changes}");
        let disk = disk.after_crash();
        let (store, _) = open(&disk, &held, 0).unwrap();
        let mut reader = store.reader(id(1), &key(1), at(0)).unwrap();
        assert_eq!(read_all(&mut reader).unwrap(), (content(id(1), 0, 10), true));
        assert!(disk.places().iter().all(|place| place.folder() != Folder::Temporary));
        assert!(disk.bytes(Place::Format).is_some());
    }
}
