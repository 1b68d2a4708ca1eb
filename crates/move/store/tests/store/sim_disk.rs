// SPDX-License-Identifier: GPL-2.0-or-later
//! A disk in memory that knows of each file and directory what is synced and what is not.
//!
//! At a crash, every sector of a write that was not synced is kept, lost, torn or replaced by rubbish, changes of length and of
//! names are kept or lost, each for itself but for those of the same name, whose order holds. A sync that fails has written
//! some of it, and a second one succeeds without writing the rest, as Linux does it.

use longhaul_store::disk::{Disk, DiskFile, Extent, Folder, Place};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use std::{
    collections::{BTreeMap, HashMap},
    io::{self, IoSlice},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What a disk keeps or loses at once.
const SECTOR: usize = 512;

/// A disk that does not do what it should, to show that the tests notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// It syncs no directory, and says that it does.
    FolderSyncLeftOut,
    /// It syncs no data file.
    DataSyncLeftOut,
    /// It syncs no header.
    HeaderSyncLeftOut,
    /// It does not sync the journal.
    JournalSyncLeftOut,
    /// It tries a failed sync once more.
    FailedSyncRepeated,
}

/// How often things fail: one of this many times. 0: never.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    pub sync: u64,
    pub folder_sync: u64,
    pub write_full: u64,
    /// Of the journal alone.
    pub journal_sync: u64,
}

#[derive(Debug)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Length(usize),
}

#[derive(Debug, Default)]
struct File {
    durable: Vec<u8>,
    current: Vec<u8>,
    pending: Vec<Change>,
    syncs: u64,
}

#[derive(Debug, Default)]
struct Directory {
    durable: BTreeMap<String, u64>,
    current: BTreeMap<String, u64>,
    /// A name and what it means from then on.
    pending: Vec<(String, Option<u64>)>,
    is_made: bool,
    is_durable: bool,
}

#[derive(Debug)]
struct Inner {
    files: HashMap<u64, File>,
    last_file: u64,
    folders: BTreeMap<Folder, Directory>,
    random: Pcg64,
    faults: Faults,
    mutant: Option<Mutant>,
    /// Changes until the crash.
    left: Option<u64>,
    /// Syncs of the journal until the crash.
    journal_syncs_left: Option<u64>,
    is_crashed: bool,
    free: u64,
    folder_syncs: u64,
    data_reads: u64,
}

/// The disk.
#[derive(Debug, Clone)]
pub struct SimDisk(Arc<Mutex<Inner>>);

fn apply(change: &Change, bytes: &mut Vec<u8>) {
    match change {
        Change::Write { at, bytes: written } => {
            let end = at + written.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[*at..end].copy_from_slice(written);
        }
        Change::Length(length) => bytes.resize(*length, 0),
    }
}

fn crashed() -> io::Error {
    io::Error::other("the machine has crashed")
}

impl Inner {
    fn chance(&mut self, of: u64) -> bool {
        of > 0 && self.random.next_u64().is_multiple_of(of)
    }

    /// A change is about to be made. An error: the machine crashes now, and the change is made or not.
    fn step(&mut self) -> io::Result<bool> {
        if self.is_crashed {
            return Err(crashed());
        }
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.is_crashed = true;
                return Ok(self.chance(2));
            }
        }
        Ok(true)
    }

    fn alive(&self) -> io::Result<()> {
        if self.is_crashed { Err(crashed()) } else { Ok(()) }
    }

    fn folder(&mut self, folder: Folder) -> io::Result<&mut Directory> {
        self.folders
            .get_mut(&folder)
            .filter(|folder| folder.is_made)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn name(&mut self, place: Place, means: Option<u64>) -> io::Result<()> {
        let folder = self.folder(place.folder())?;
        match means {
            Some(file) => folder.current.insert(place.name(), file),
            None => folder.current.remove(&place.name()),
        };
        folder.pending.push((place.name(), means));
        Ok(())
    }

    fn find(&mut self, place: Place) -> io::Result<u64> {
        let found = self.folder(place.folder())?.current.get(&place.name()).copied();
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Part of what was not synced, as a crash or a failed sync leaves it.
    fn keep_some(&mut self, file: &mut File) {
        let mode = self.random.next_u64() % 8;
        for change in std::mem::take(&mut file.pending) {
            match (mode, change) {
                (0, _) => {}
                (1, change) => apply(&change, &mut file.durable),
                (_, Change::Length(length)) => {
                    if self.chance(2) {
                        apply(&Change::Length(length), &mut file.durable);
                    }
                }
                (_, Change::Write { at, bytes }) => {
                    let mut at = at;
                    let mut rest = &bytes[..];
                    while !rest.is_empty() {
                        let here = (SECTOR - at % SECTOR).min(rest.len());
                        let (sector, others) = rest.split_at(here);
                        let mut sector = sector.to_vec();
                        // In a place that was never written, rubbish can appear: what was there before.
                        if at >= file.durable.len() && self.chance(8) {
                            self.random.fill_bytes(&mut sector);
                        }
                        // Some disks tear a sector, too.
                        if self.chance(2) {
                            sector.truncate(self.random.next_u64() as usize % sector.len());
                        }
                        if self.chance(2) && !sector.is_empty() {
                            apply(&Change::Write { at, bytes: sector }, &mut file.durable);
                        }
                        (at, rest) = (at + here, others);
                    }
                }
            }
        }
    }

    fn keep_some_names(&mut self, folder: &mut Directory) {
        let mut by_name: BTreeMap<String, Vec<Option<u64>>> = BTreeMap::new();
        for (name, means) in std::mem::take(&mut folder.pending) {
            by_name.entry(name).or_default().push(means);
        }
        for (name, meanings) in by_name {
            let kept = (self.random.next_u64() % (meanings.len() as u64 + 1)) as usize;
            match meanings[..kept].last() {
                Some(Some(file)) => drop(folder.durable.insert(name, *file)),
                Some(None) => drop(folder.durable.remove(&name)),
                None => {}
            }
        }
    }
}

impl SimDisk {
    /// An empty disk.
    pub fn new(seed: u64) -> Self {
        let mut folders = BTreeMap::new();
        folders.insert(
            Folder::Root,
            Directory { is_made: true, is_durable: true, ..Directory::default() },
        );
        for folder in Folder::INNER {
            folders.insert(folder, Directory::default());
        }
        Self(Arc::new(Mutex::new(Inner {
            files: HashMap::new(),
            last_file: 0,
            folders,
            random: Pcg64::seed_from_u64(seed),
            faults: Faults::default(),
            mutant: None,
            left: None,
            journal_syncs_left: None,
            is_crashed: false,
            free: 1 << 40,
            folder_syncs: 0,
            data_reads: 0,
        })))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has it do less than it says.
    pub fn set_mutant(&self, mutant: Option<Mutant>) {
        self.inner().mutant = mutant;
    }

    /// Has operations fail from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.inner().faults = faults;
    }

    /// What the file system says is free.
    pub fn set_free(&self, free: u64) {
        self.inner().free = free;
    }

    /// Has the machine crash at this change from now.
    pub fn crash_after(&self, changes: u64) {
        self.inner().left = Some(changes);
    }

    /// Has the machine crash at this sync of the journal from now.
    pub fn crash_at_journal_sync(&self, syncs: u64) {
        self.inner().journal_syncs_left = Some(syncs);
    }

    /// Whether it has.
    pub fn is_crashed(&self) -> bool {
        self.inner().is_crashed
    }

    /// What a new start of the machine finds. The disk before is not to be used any more.
    pub fn after_crash(&self) -> Self {
        let mut inner = self.inner();
        inner.is_crashed = true;
        let mut folders = std::mem::take(&mut inner.folders);
        for (name, folder) in &mut folders {
            inner.keep_some_names(folder);
            folder.is_made = folder.is_durable || inner.chance(2);
            folder.is_durable = folder.is_made;
            if !folder.is_made {
                *folder = Directory::default();
            }
            folder.current = folder.durable.clone();
            assert!(*name != Folder::Root || folder.is_made);
        }
        let named: Vec<u64> = folders.values().flat_map(|f| f.durable.values().copied()).collect();
        let mut files = HashMap::new();
        for number in named {
            if let Some(mut file) = inner.files.remove(&number) {
                inner.keep_some(&mut file);
                file.current.clone_from(&file.durable);
                files.insert(number, file);
            }
        }
        let random = Pcg64::seed_from_u64(inner.random.next_u64());
        Self(Arc::new(Mutex::new(Inner {
            files,
            folders,
            random,
            is_crashed: false,
            left: None,
            journal_syncs_left: None,
            faults: Faults::default(),
            ..*inner
        })))
    }

    /// A file's bytes, as programs see them. `None`: there is no such file.
    pub fn bytes(&self, place: Place) -> Option<Vec<u8>> {
        let mut inner = self.inner();
        let number = inner.find(place).ok()?;
        Some(inner.files[&number].current.clone())
    }

    /// Puts bytes where a file was, durably: damage.
    pub fn replace(&self, place: Place, bytes: Option<Vec<u8>>) {
        let mut inner = self.inner();
        let name = place.name();
        if let Some(bytes) = bytes {
            inner.last_file += 1;
            let number = inner.last_file;
            let file = File { durable: bytes.clone(), current: bytes, ..File::default() };
            inner.files.insert(number, file);
            let folder = inner.folder(place.folder()).unwrap();
            folder.durable.insert(name.clone(), number);
            folder.current.insert(name, number);
        } else {
            let folder = inner.folder(place.folder()).unwrap();
            folder.durable.remove(&name);
            folder.current.remove(&name);
        }
    }

    /// All files, in order.
    pub fn places(&self) -> Vec<Place> {
        let inner = self.inner();
        let named = inner.folders.iter().flat_map(|(folder, directory)| {
            directory.current.keys().filter_map(|name| Place::find(*folder, name))
        });
        named.collect()
    }

    /// How often a file was synced.
    pub fn syncs(&self, place: Place) -> u64 {
        let mut inner = self.inner();
        inner.find(place).map_or(0, |number| inner.files[&number].syncs)
    }

    /// How often directories were.
    pub fn folder_syncs(&self) -> u64 {
        self.inner().folder_syncs
    }

    /// How often data files were read.
    pub fn data_reads(&self) -> u64 {
        self.inner().data_reads
    }

    /// The same disk with the same content, on its own from now on.
    pub fn copy(&self) -> Self {
        let copy = Self::new(1);
        for folder in Folder::INNER {
            let mut inner = copy.inner();
            let made = inner.folders.get_mut(&folder).unwrap();
            (made.is_made, made.is_durable) = (true, true);
        }
        for place in self.places() {
            copy.replace(place, self.bytes(place));
        }
        copy
    }
}

impl Disk for SimDisk {
    fn make_folders(&self) -> io::Result<()> {
        let mut inner = self.inner();
        for folder in Folder::INNER {
            let is_made = inner.step()?;
            inner.folders.get_mut(&folder).expect("all are there").is_made |= is_made;
            inner.alive()?;
        }
        Ok(())
    }

    fn create(&self, place: Place) -> io::Result<Box<dyn DiskFile>> {
        let mut inner = self.inner();
        let is_made = inner.step()?;
        if inner.find(place).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        inner.last_file += 1;
        let number = inner.last_file;
        if is_made {
            inner.name(place, Some(number))?;
            inner.files.insert(number, File::default());
        }
        inner.alive()?;
        Ok(Box::new(SimFile { disk: self.clone(), number, place }))
    }

    fn open(&self, place: Place, _: bool) -> io::Result<Box<dyn DiskFile>> {
        let mut inner = self.inner();
        inner.alive()?;
        let number = inner.find(place)?;
        Ok(Box::new(SimFile { disk: self.clone(), number, place }))
    }

    fn extent(&self, place: Place) -> io::Result<Option<Extent>> {
        let mut inner = self.inner();
        inner.alive()?;
        let Ok(number) = inner.find(place) else { return Ok(None) };
        let length = inner.files[&number].current.len() as u64;
        Ok(Some(Extent { length, allocated: length }))
    }

    fn rename(&self, from: Place, to: Place) -> io::Result<()> {
        let mut inner = self.inner();
        let is_made = inner.step()?;
        let number = inner.find(from)?;
        if is_made {
            inner.name(from, None)?;
            inner.name(to, Some(number))?;
        }
        inner.alive()
    }

    fn remove(&self, place: Place) -> io::Result<()> {
        let mut inner = self.inner();
        inner.find(place)?;
        if inner.step()? {
            inner.name(place, None)?;
        }
        inner.alive()
    }

    fn sync_folder(&self, folder: Folder) -> io::Result<()> {
        let mut inner = self.inner();
        let is_done = inner.step()?;
        inner.folder_syncs += 1;
        inner.folder(folder)?;
        if inner.mutant == Some(Mutant::FolderSyncLeftOut) {
            return inner.alive();
        }
        let faults = inner.faults.folder_sync;
        if inner.chance(faults) && !inner.is_crashed {
            let mut directory = inner.folders.remove(&folder).expect("it is there");
            inner.keep_some_names(&mut directory);
            inner.folders.insert(folder, directory);
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        if is_done {
            let directory = inner.folder(folder)?;
            directory.durable = directory.current.clone();
            directory.pending.clear();
            if folder == Folder::Root {
                // Names of directories are entries of the root.
                for directory in inner.folders.values_mut() {
                    directory.is_durable = directory.is_made;
                }
            }
        }
        inner.alive()
    }

    fn list(&self, folder: Folder) -> io::Result<Vec<String>> {
        let mut inner = self.inner();
        inner.alive()?;
        Ok(inner.folder(folder)?.current.keys().cloned().collect())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let inner = self.inner();
        inner.alive()?;
        Ok(inner.free)
    }

    fn unlock(&self) {}
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    number: u64,
    place: Place,
}

impl SimFile {
    fn change(&self, change: Change) -> io::Result<()> {
        let mut inner = self.disk.inner();
        if inner.step()? {
            let file = inner.files.entry(self.number).or_default();
            apply(&change, &mut file.current);
            file.pending.push(change);
        }
        inner.alive()
    }

    fn is_skipped(&self, mutant: Option<Mutant>) -> bool {
        match mutant {
            Some(Mutant::DataSyncLeftOut) => matches!(self.place, Place::Data(_)),
            Some(Mutant::HeaderSyncLeftOut) => matches!(self.place, Place::NewHeader(_)),
            // Not while it is written as a whole, which its name waits for.
            Some(Mutant::JournalSyncLeftOut) => {
                self.place == Place::NewJournal && self.disk.bytes(Place::NewJournal).is_none()
            }
            _ => false,
        }
    }

    fn sync_once(&self) -> io::Result<()> {
        let mutant = self.disk.inner().mutant;
        let is_skipped = self.is_skipped(mutant);
        let mut inner = self.disk.inner();
        if self.place == Place::NewJournal
            && let Some(left) = &mut inner.journal_syncs_left
        {
            *left = left.saturating_sub(1);
            if *left == 0 {
                inner.left = Some(1);
            }
        }
        let is_done = inner.step()?;
        let Faults { sync, journal_sync, .. } = inner.faults;
        let is_journal = self.place == Place::NewJournal;
        let fails = inner.chance(sync) || (is_journal && inner.chance(journal_sync));
        if fails && !inner.is_crashed {
            let mut file = inner.files.remove(&self.number).unwrap_or_default();
            inner.keep_some(&mut file);
            inner.files.insert(self.number, file);
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        if is_done && !is_skipped {
            let file = inner.files.entry(self.number).or_default();
            for change in std::mem::take(&mut file.pending) {
                apply(&change, &mut file.durable);
            }
            file.syncs += 1;
        }
        inner.alive()
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let mut inner = self.disk.inner();
        inner.alive()?;
        inner.data_reads += u64::from(matches!(self.place, Place::Data(_)));
        let bytes = &inner.files[&self.number].current;
        let from = bytes.get(at as usize..).unwrap_or_default();
        let length = from.len().min(into.len());
        into[..length].copy_from_slice(&from[..length]);
        Ok(length)
    }

    fn write_at(&self, parts: &[IoSlice<'_>], at: u64) -> io::Result<()> {
        let bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let is_full = {
            let mut inner = self.disk.inner();
            let faults = inner.faults.write_full;
            inner.chance(faults) && !inner.is_crashed
        };
        if is_full {
            // Part of it is there.
            let bytes = bytes[..bytes.len() / 2].to_vec();
            self.change(Change::Write { at: at as usize, bytes })?;
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        self.change(Change::Write { at: at as usize, bytes })
    }

    fn sync(&self) -> io::Result<()> {
        let synced = self.sync_once();
        let repeats = self.disk.inner().mutant == Some(Mutant::FailedSyncRepeated);
        if synced.is_err() && repeats { self.sync_once() } else { synced }
    }

    fn length(&self) -> io::Result<u64> {
        let inner = self.disk.inner();
        inner.alive()?;
        Ok(inner.files[&self.number].current.len() as u64)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.change(Change::Length(length as usize))
    }

    fn allocate(&self, _: u64) -> io::Result<bool> {
        self.disk.inner().alive()?;
        Ok(true)
    }

    /// At a crash, any part of what was written may be on the disk anyway.
    fn begin_write_back(&self, _: u64, _: u64) {}
}
