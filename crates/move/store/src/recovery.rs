// SPDX-License-Identifier: GPL-2.0-or-later
//! A store is opened: the catalogue is made from headers and journal. Data files are measured, not read.
//!
//! ```text
//! header   journal    then
//! yes      yes        the session as the journal has it; damaged if its data file is missing or too short
//! yes      no         a crash came before the first promise: not shown, removed when it expires, replaced by a new one
//! bad, no  yes        kept in the journal, not shown: its owner is unknown
//! no       no         its data file is removed
//! ```
//! A damaged or missing journal changes this: then a session is as the mark at its data file's end says, or as far as its
//! blocks are good, and stays as long as any session may. The damaged journal is kept under another name.
//! At the end the journal is written again, so that nothing is added behind a torn round.

use crate::{
    access::AccessKey,
    blocks::{self, BLOCK, BlockSum, MARK, Mark, TRAILER},
    catalogue::{Catalogue, Condition, Entry},
    disk::{Disk, Extent, Folder, Place},
    error::OpenError,
    header::{Header, HeaderError, MAX_FILE},
    journal::Journal,
    limits::Limits,
    record::{self, Fault, Parsed, Record, State, Status},
};
use protocol::session::SessionId;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    io::{self, IoSlice},
};

/// The layout that is written, and the latest that is read.
const VERSION: u64 = 1;
const FORMAT: &str = "longhaul-store ";
/// The longest journal that is read, in bytes: more than one of a million sessions grows to.
const MAX_JOURNAL: u64 = 512 << 20;

/// A file that is not what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Its path below the store's directory.
    pub file: String,
    /// What is wrong, and what follows.
    pub what: String,
}

/// How the journal ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalEnd {
    /// A new store.
    New,
    /// With a round.
    Whole,
    /// With this many bytes of a round that was not promised, after a crash.
    Torn(u64),
    /// It was damaged, or missing. What is promised was found in data files, as far as it can be.
    Damaged,
}

/// What was found at the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Sessions that can be used.
    pub sessions: usize,
    /// Those that crashes have left before their first promise.
    pub unrecorded: usize,
    /// The journal.
    pub journal: JournalEnd,
    /// What is wrong.
    pub damage: Vec<Damage>,
}

/// Opens a store.
pub(crate) fn recover(
    disk: &dyn Disk,
    limits: Limits,
    now_s: u64,
) -> Result<(Catalogue, Journal, Report), OpenError> {
    let is_new = check_format(disk)?;
    // Before anything is changed: a journal of a later version.
    let (parsed, end) =
        if is_new { (Parsed::default(), JournalEnd::New) } else { read_journal(disk)? };
    disk.make_folders().map_err(OpenError::io("make", "directories"))?;
    disk.sync_folder(Folder::Root).map_err(OpenError::io("sync", "the directory"))?;
    let mut recovery = Recovery {
        disk,
        now_s,
        longest_s: limits.longest_life.as_secs(),
        next_round: parsed.next_round,
        states: parsed.states,
        data: BTreeSet::new(),
        catalogue: Catalogue::new(limits),
        report: Report { sessions: 0, unrecorded: 0, journal: end, damage: Vec::new() },
    };
    recovery.report_journal()?;
    recovery.remove_temporary()?;
    recovery.read_headers()?;
    recovery.take_headless();
    let journal = recovery.begin_journal()?;
    if is_new {
        write_format(disk).map_err(OpenError::io("write", Place::Format))?;
    }
    Ok((recovery.catalogue, journal, recovery.report))
}

/// Whether a store is to begin here.
pub(crate) fn check_format(disk: &dyn Disk) -> Result<bool, OpenError> {
    let not_a_store = |what| OpenError::NotAStore { file: Place::Format, what };
    let Some(bytes) =
        read(disk, Place::Format, 64).map_err(OpenError::io("read", Place::Format))?
    else {
        for folder in [Folder::Headers, Folder::Data] {
            let is_empty = match disk.list(folder) {
                Ok(names) => names.is_empty(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => true,
                Err(error) => return Err(OpenError::io("list", folder.name())(error)),
            };
            if !is_empty {
                return Err(not_a_store("it is missing, but there are sessions"));
            }
        }
        return Ok(true);
    };
    let text = str::from_utf8(&bytes).ok();
    let number = text.and_then(|text| text.strip_prefix(FORMAT)?.strip_suffix('\n'));
    let found = number.and_then(|number| number.parse::<u64>().ok());
    match found.filter(|found| number == Some(&found.to_string())) {
        Some(VERSION) => Ok(false),
        Some(found) if found > VERSION => {
            Err(OpenError::LaterVersion { file: Place::Format, found, known: VERSION })
        }
        _ => Err(not_a_store("it does not say \"longhaul-store 1\"")),
    }
}

fn write_format(disk: &dyn Disk) -> io::Result<()> {
    match disk.remove(Place::NewFormat) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = disk.create(Place::NewFormat)?;
    file.write_at(&[IoSlice::new(format!("{FORMAT}{VERSION}\n").as_bytes())], 0)?;
    file.sync()?;
    disk.rename(Place::NewFormat, Place::Format)?;
    disk.sync_folder(Folder::Root)
}

/// A file's bytes, one more than `most` at most. `None` if there is no such file.
fn read(disk: &dyn Disk, place: Place, most: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match disk.open(place, false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut bytes = vec![0; file.length()?.min(most + 1) as usize];
    let got = file.read_at(&mut bytes, 0)?;
    bytes.truncate(got);
    Ok(Some(bytes))
}

/// A header's file, too long by a byte if it is too long.
pub(crate) fn read_header(disk: &dyn Disk, id: SessionId) -> io::Result<Vec<u8>> {
    let bytes = read(disk, Place::Header(id), MAX_FILE as u64)?;
    bytes.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// A header, or what is wrong with its file. One that cannot be read does not keep the others from being read.
fn parse_header(disk: &dyn Disk, id: SessionId) -> Result<Header, String> {
    let bytes = read_header(disk, id).map_err(|error| format!("it cannot be read ({error})"))?;
    let what = match Header::parse(&bytes) {
        Ok(header) if header.id == id => return Ok(header),
        Ok(_) => "it is that of another session",
        Err(HeaderError::LaterVersion) => "a later version of longhaul has written it",
        Err(HeaderError::Damaged(what)) => what,
    };
    Err(what.to_owned())
}

fn read_journal(disk: &dyn Disk) -> Result<(Parsed, JournalEnd), OpenError> {
    let bytes = read(disk, Place::Journal, MAX_JOURNAL);
    let Some(bytes) = bytes.map_err(OpenError::io("read", Place::Journal))? else {
        return Ok((Parsed::default(), JournalEnd::Damaged));
    };
    let parsed = record::parse(&bytes);
    let end = match parsed.fault {
        Some(Fault::LaterVersion(found)) => {
            return Err(OpenError::LaterVersion {
                file: Place::Journal,
                found: found.into(),
                known: record::VERSION.into(),
            });
        }
        Some(Fault::Beginning | Fault::Midst(_)) => JournalEnd::Damaged,
        None if bytes.len() as u64 > MAX_JOURNAL => JournalEnd::Damaged,
        None if parsed.torn > 0 => JournalEnd::Torn(parsed.torn),
        None => JournalEnd::Whole,
    };
    Ok((parsed, end))
}

struct Recovery<'a> {
    disk: &'a dyn Disk,
    now_s: u64,
    longest_s: u64,
    next_round: u64,
    /// By the journal; those that are left have no header.
    states: HashMap<SessionId, State>,
    /// Sessions with a data file; those that are left have no header.
    data: BTreeSet<SessionId>,
    catalogue: Catalogue,
    report: Report,
}

impl Recovery<'_> {
    fn is_damaged(&self) -> bool {
        self.report.journal == JournalEnd::Damaged
    }

    fn damage(&mut self, file: impl fmt::Display, what: &str) {
        let (file, what) = (file.to_string(), what.to_owned());
        self.report.damage.push(Damage { file, what });
    }

    /// Keeps a damaged journal, and says so.
    fn report_journal(&mut self) -> Result<(), OpenError> {
        if let JournalEnd::Torn(bytes) = self.report.journal {
            let what =
                format!("its last {bytes} bytes are not a round, as after a crash: left out");
            self.damage(Place::Journal, &what);
        }
        if !self.is_damaged() {
            return Ok(());
        }
        let bytes = read(self.disk, Place::Journal, MAX_JOURNAL);
        let Some(bytes) = bytes.map_err(OpenError::io("read", Place::Journal))? else {
            self.damage(Place::Journal, "it is missing: sessions are as their data files say");
            return Ok(());
        };
        let mut place = Place::DamagedJournal(self.now_s);
        let copy = loop {
            match self.disk.create(place) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let Place::DamagedJournal(time) = place else { unreachable!("it is one") };
                    place = Place::DamagedJournal(time.saturating_add(1));
                }
                file => break file.map_err(OpenError::io("make", place))?,
            }
        };
        let kept = copy.write_at(&[IoSlice::new(&bytes)], 0).and_then(|()| copy.sync());
        kept.map_err(OpenError::io("write", place))?;
        let what =
            format!("it is damaged: sessions are as their data files say. It is kept as {place}");
        self.damage(Place::Journal, &what);
        Ok(())
    }

    /// The names in a directory that the store gives; others are reported and stay.
    fn list(&mut self, folder: Folder) -> Result<Vec<Place>, OpenError> {
        let names = self.disk.list(folder).map_err(OpenError::io("list", folder.name()))?;
        let mut places = Vec::new();
        for name in names {
            if let Some(place) = Place::find(folder, &name) {
                places.push(place);
                continue;
            }
            let file = format!("{}/{}", folder.name(), units::text::Escaped(&name));
            self.damage(file, "it is not one of the store's files: left as it is");
        }
        // The same order each time, whatever the file system's is.
        places.sort_unstable();
        Ok(places)
    }

    fn remove_temporary(&mut self) -> Result<(), OpenError> {
        for place in self.list(Folder::Temporary)? {
            if let Err(error) = self.disk.remove(place) {
                self.damage(place, &format!("it should be removed, but cannot: {error}"));
            }
        }
        Ok(())
    }

    fn read_headers(&mut self) -> Result<(), OpenError> {
        let data = self.list(Folder::Data)?;
        self.data.extend(data.into_iter().filter_map(|place| match place {
            Place::Data(id) => Some(id),
            _ => None,
        }));
        for place in self.list(Folder::Headers)? {
            let Place::Header(id) = place else { continue };
            match parse_header(self.disk, id) {
                Ok(header) => self.take(&header),
                Err(what) => {
                    self.damage(place, &format!("{what}: the session is not shown"));
                    if self.states.get(&id).is_some_and(|state| state.status == Status::Gone) {
                        self.states.remove(&id);
                        self.data.remove(&id);
                        self.remove(id);
                    } else {
                        self.keep_headless(id);
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes a session whose header is good.
    fn take(&mut self, header: &Header) {
        let id = header.id;
        let file = self.disk.extent(Place::Data(id)).unwrap_or_default();
        self.data.remove(&id);
        let known = self.states.remove(&id);
        let state = match known {
            Some(State { status: Status::Gone, .. }) => return self.remove(id),
            Some(state) if self.is_damaged() => Some(self.by_data(header, file, Some(state))),
            None if self.is_damaged() => Some(self.by_data(header, file, None)),
            known => known,
        };
        let Some(state) = state else {
            self.report.unrecorded += 1;
            let state = State {
                reserved: file.map_or(0, |file| file.length),
                expires_s: header.expires_s,
                ..State::default()
            };
            return self.insert(header, state, Condition::Unrecorded, file);
        };
        let condition = match file {
            None => Condition::Damaged("the file is missing"),
            Some(file) if file.length < blocks::position(state.length) => {
                Condition::Damaged("the file is too short")
            }
            Some(_) => Condition::Recorded,
        };
        match condition {
            Condition::Damaged(what) => self.damage(Place::Data(id), what),
            _ => self.report.sessions += 1,
        }
        self.insert(header, state, condition, file);
    }

    fn insert(&mut self, header: &Header, state: State, as_: Condition, file: Option<Extent>) {
        let entry = Entry {
            is_backed: file.is_some_and(|file| file.allocated >= blocks::position(state.reserved)),
            ..Entry::new(header, state, as_)
        };
        self.catalogue.insert(header.id, entry);
    }

    /// A session as its data file has it, at least as far as the journal knew.
    fn by_data(&self, header: &Header, file: Option<Extent>, known: Option<State>) -> State {
        let expires_s = header.created_s.saturating_add(self.longest_s).max(header.expires_s);
        let known = known.map(|state| State { expires_s: state.expires_s.max(expires_s), ..state });
        if let Some(state) = known
            && state.status != Status::Arriving
        {
            return state;
        }
        let (length, tail, is_complete) = file
            .map_or((0, BlockSum::new(header.id, 0).get(), false), |file| {
                self.promised(header.id, file, known.is_none())
            });
        match known {
            Some(state) if state.length > length || (state.length == length && !is_complete) => {
                state
            }
            _ => State {
                length,
                tail,
                expires_s,
                reserved: known.map_or(header.reserved, |state| state.reserved).max(length),
                status: if is_complete { Status::Complete } else { Status::Arriving },
            },
        }
    }

    /// What the mark at a file's end says; if there is none, how far the blocks are good, which reads them.
    fn promised(&self, id: SessionId, extent: Extent, reads_blocks: bool) -> (u64, u32, bool) {
        let nothing = (0, BlockSum::new(id, 0).get(), false);
        let Ok(file) = self.disk.open(Place::Data(id), false) else { return nothing };
        if let Some(at) = extent.length.checked_sub(MARK as u64) {
            let mut bytes = [0; MARK];
            let got = file.read_at(&mut bytes, at).unwrap_or(0);
            if let Some(mark) = Mark::parse(id, &bytes[..got], extent) {
                return (mark.length, mark.tail, mark.is_complete);
            }
        }
        if !reads_blocks {
            return nothing;
        }
        let mut bytes = vec![0; BLOCK as usize + TRAILER];
        let mut number = 0;
        loop {
            let got = file.read_at(&mut bytes, blocks::position(number * BLOCK));
            if got.unwrap_or(0) < bytes.len() || !blocks::is_whole(id, number, &bytes) {
                return (number * BLOCK, BlockSum::new(id, number).get(), false);
            }
            number += 1;
        }
    }

    /// Removes what is left of a session.
    fn remove(&mut self, id: SessionId) {
        for place in [Place::Header(id), Place::Data(id)] {
            match self.disk.remove(place) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    self.damage(place, &format!("it should be removed, but cannot: {error}"));
                }
                _ => {}
            }
        }
    }

    /// Sessions that the journal knows, or whose data are here, without a header.
    fn take_headless(&mut self) {
        let known: BTreeMap<SessionId, State> = self.states.drain().collect();
        for (id, state) in known {
            let has_data = self.data.contains(&id);
            if state.status == Status::Gone {
                if has_data {
                    self.data.remove(&id);
                    self.remove(id);
                }
            } else if self.catalogue.get(id).is_none() {
                self.damage(Place::Header(id), "it is missing: the session is not shown");
                self.states.insert(id, state);
                self.keep_headless(id);
            }
        }
        for id in std::mem::take(&mut self.data) {
            if self.is_damaged() {
                self.damage(Place::Data(id), "its header is missing: the session is not shown");
                self.keep_headless(id);
            } else {
                self.remove(id);
            }
        }
    }

    /// Keeps a session without an owner, so that its files stay until it expires.
    fn keep_headless(&mut self, id: SessionId) {
        let file = self.disk.extent(Place::Data(id)).unwrap_or_default();
        self.data.remove(&id);
        let no_one = AccessKey([0; 32]);
        let header = Header {
            id,
            owner: no_one,
            collector: no_one,
            account: no_one,
            created_s: self.now_s,
            expires_s: self.now_s.saturating_add(self.longest_s),
            reserved: file.map_or(0, |file| file.length),
            note: Vec::new(),
        };
        let known = self.states.remove(&id);
        let (state, condition) = match known {
            Some(state) => (state, Condition::Headless),
            None if self.is_damaged() => (self.by_data(&header, file, None), Condition::Headless),
            None => {
                let Header { reserved, expires_s, .. } = header;
                (State { reserved, expires_s, ..State::default() }, Condition::Unrecorded)
            }
        };
        self.insert(&header, state, condition, file);
    }

    fn begin_journal(&mut self) -> Result<Journal, OpenError> {
        let recorded = self.catalogue.iter().filter(|(_, entry)| entry.is_recorded());
        let mut states: Vec<Record> = recorded.map(|(id, entry)| (id, entry.state)).collect();
        states.sort_unstable_by_key(|(id, _)| *id);
        // So that the files of sessions that the new journal does not name do not come back. If this fails, they are not shown.
        for folder in [Folder::Headers, Folder::Data] {
            let _ = self.disk.sync_folder(folder);
        }
        let mut journal = Journal::absent(self.next_round);
        let begun = journal.begin(self.disk, &states);
        begun.map_err(OpenError::io("write", Place::Journal))?;
        Ok(journal)
    }
}
