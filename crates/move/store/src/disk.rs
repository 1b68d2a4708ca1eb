// SPDX-License-Identifier: GPL-2.0-or-later
//! The files and directories of a store, behind two traits, so that tests can lose what was not synced.
//!
//! A file is named by a [`Place`], never by text: what comes from the network is at most a [`SessionId`], 16 bytes that
//! become 32 digits. All names are relative to the store's directory, which may have moved.

mod real;

pub use real::RealDisk;

use protocol::session::SessionId;
use std::{
    fmt,
    io::{self, IoSlice},
};

/// A directory of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Folder {
    /// The store's own.
    Root,
    /// One small file for each session.
    Headers,
    /// One file for each session, with its bytes.
    Data,
    /// Files that are not complete yet. What is found here at the start is removed.
    Temporary,
}

impl Folder {
    /// Those below the root.
    pub const INNER: [Self; 3] = [Self::Headers, Self::Data, Self::Temporary];

    /// Its path below the store's directory; empty for that itself.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Root => "",
            Self::Headers => "headers",
            Self::Data => "data",
            Self::Temporary => "tmp",
        }
    }
}

/// A file of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// The version of the layout.
    Format,
    /// The same before it is renamed.
    NewFormat,
    /// States of all sessions.
    Journal,
    /// The same before it is renamed.
    NewJournal,
    /// A journal that was found damaged, and when (seconds since 1970).
    DamagedJournal(u64),
    /// What never changes of a session.
    Header(SessionId),
    /// The same before it is renamed.
    NewHeader(SessionId),
    /// A session's bytes.
    Data(SessionId),
}

impl Place {
    /// Its directory.
    pub const fn folder(self) -> Folder {
        match self {
            Self::Format | Self::Journal | Self::DamagedJournal(_) => Folder::Root,
            Self::NewFormat | Self::NewJournal | Self::NewHeader(_) => Folder::Temporary,
            Self::Header(_) => Folder::Headers,
            Self::Data(_) => Folder::Data,
        }
    }

    /// Its name there.
    pub fn name(self) -> String {
        match self {
            Self::Format | Self::NewFormat => "format".to_owned(),
            Self::Journal | Self::NewJournal => "journal".to_owned(),
            Self::DamagedJournal(unix_s) => format!("journal-{unix_s}.damaged"),
            Self::Header(id) | Self::NewHeader(id) | Self::Data(id) => id.to_string(),
        }
    }

    /// The place of a name that was found in a directory. `None` if the store gives no such names.
    pub fn find(folder: Folder, name: &str) -> Option<Self> {
        let id = || name.parse().ok().filter(|id: &SessionId| id.to_string() == name);
        match (folder, name) {
            (Folder::Root, "format") => Some(Self::Format),
            (Folder::Root, "journal") => Some(Self::Journal),
            (Folder::Root, _) => {
                let time = name.strip_prefix("journal-")?.strip_suffix(".damaged")?.parse().ok()?;
                Some(Self::DamagedJournal(time)).filter(|place| place.name() == name)
            }
            (Folder::Temporary, "format") => Some(Self::NewFormat),
            (Folder::Temporary, "journal") => Some(Self::NewJournal),
            (Folder::Temporary, _) => id().map(Self::NewHeader),
            (Folder::Headers, _) => id().map(Self::Header),
            (Folder::Data, _) => id().map(Self::Data),
        }
    }
}

impl fmt::Display for Place {
    /// The path below the store's directory.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.folder() {
            Folder::Root => f.write_str(&self.name()),
            folder => write!(f, "{}/{}", folder.name(), self.name()),
        }
    }
}

/// How much a file takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Bytes up to its end.
    pub length: u64,
    /// Bytes that the file system has set apart for it, perhaps beyond its end.
    pub allocated: u64,
}

/// The directories of a store. What it changes is durable after [`Disk::sync_folder`] of each directory that is concerned.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Makes the directories that do not exist.
    ///
    /// # Errors
    /// As the system says; also in all others.
    fn make_folders(&self) -> io::Result<()>;
    /// Makes a file for reading and writing.
    ///
    /// # Errors
    /// Also [`io::ErrorKind::AlreadyExists`].
    fn create(&self, place: Place) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file for reading, and for writing if it may change.
    ///
    /// # Errors
    /// Also [`io::ErrorKind::NotFound`].
    fn open(&self, place: Place, may_change: bool) -> io::Result<Box<dyn DiskFile>>;
    /// How much a file takes; `None` if there is none.
    ///
    /// # Errors
    /// As the system says.
    fn extent(&self, place: Place) -> io::Result<Option<Extent>>;
    /// Gives a file another name, in place of the file that had it.
    ///
    /// # Errors
    /// As the system says.
    fn rename(&self, from: Place, to: Place) -> io::Result<()>;
    /// Removes a name. Descriptors of the file can still be read.
    ///
    /// # Errors
    /// Also [`io::ErrorKind::NotFound`].
    fn remove(&self, place: Place) -> io::Result<()>;
    /// Makes creations, renames and removals in a directory durable. After an error nothing is known of them, and the
    /// descriptor is not used again.
    ///
    /// # Errors
    /// As the system says.
    fn sync_folder(&self, folder: Folder) -> io::Result<()>;
    /// The names in a directory.
    ///
    /// # Errors
    /// As the system says.
    fn list(&self, folder: Folder) -> io::Result<Vec<String>>;
    /// Bytes that this process may still allocate in the file system.
    ///
    /// # Errors
    /// As the system says.
    fn free_bytes(&self) -> io::Result<u64>;
    /// Lets another process use the store.
    fn unlock(&self);
}

/// An open file.
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Reads up to a buffer's length, less only at the file's end. Returns how much.
    ///
    /// # Errors
    /// As the system says; also in all others.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize>;
    /// Writes all of these, one behind the other. After an error, part of it may be written.
    ///
    /// # Errors
    /// Also [`io::ErrorKind::StorageFull`].
    fn write_at(&self, parts: &[IoSlice<'_>], at: u64) -> io::Result<()>;
    /// Makes bytes and length durable. After an error nothing is known of what was written since the last time, and a
    /// second call would say nothing of it: the caller drops the file.
    ///
    /// # Errors
    /// As the system says.
    fn sync(&self) -> io::Result<()>;
    /// Bytes up to its end.
    ///
    /// # Errors
    /// As the system says.
    fn length(&self) -> io::Result<u64>;
    /// Cuts or lengthens it, and gives back what was allocated beyond.
    ///
    /// # Errors
    /// As the system says.
    fn set_length(&self, length: u64) -> io::Result<()>;
    /// Sets blocks apart for that many bytes, without changing the length. `false` if the file system cannot.
    ///
    /// # Errors
    /// Also [`io::ErrorKind::StorageFull`].
    fn allocate(&self, length: u64) -> io::Result<bool>;
    /// Has the system begin to write a range, so that a later [`Self::sync`] waits less. Promises nothing.
    fn begin_write_back(&self, at: u64, length: u64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_by_their_own_names_only() {
        let id = SessionId([0xab; 16]);
        for place in [
            Place::Format,
            Place::NewFormat,
            Place::Journal,
            Place::NewJournal,
            Place::DamagedJournal(17),
            Place::Header(id),
            Place::NewHeader(id),
            Place::Data(id),
        ] {
            assert_eq!(Place::find(place.folder(), &place.name()), Some(place));
            assert!(!place.name().contains(['/', '\0']) && !place.name().starts_with('.'));
        }
        let upper = id.to_string().to_uppercase();
        for name in ["", ".", "..", "../journal", "journal-+17.damaged", "lost+found", &upper] {
            for folder in [Folder::Root, Folder::Headers, Folder::Data, Folder::Temporary] {
                assert_eq!(Place::find(folder, name), None, "{folder:?} {name}");
            }
        }
    }
}
