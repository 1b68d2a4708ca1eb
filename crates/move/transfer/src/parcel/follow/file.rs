// SPDX-License-Identifier: GPL-2.0-or-later
//! A file that grows while it is sent, as the session reads it.
//!
//! The stream is the file; or what follows its header, and then the header, if programs complete that at the end. The length that the session sees is that of the latest look. A look reads what the rules need in such an order that a
//! rule that holds covers all that was written before it held: marker, closing and name first, the length last.

use super::rules::{Follow, Name, Rules, Seen, Until};
use crate::Error;
use rustix::{
    fd::OwnedFd,
    fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags},
    io::Errno,
};
use session::Stored;
use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    mem::MaybeUninit,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Instant,
};
use units::Bytes;

/// Events that are read at one look. A program that writes all the time makes no more of them than are read.
const MAX_EVENTS: usize = 1000;
/// What is read at a time to compare.
const PIECE: usize = 1 << 20;

/// A file that is followed.
#[derive(Debug)]
pub(in crate::parcel) struct Followed {
    file: File,
    path: PathBuf,
    /// Where the kernel says that it was written to or closed, if a rule needs that.
    events: Option<OwnedFd>,
    begun: Instant,
    /// Whether it is read again at its end.
    compares: bool,
    /// Bytes of the file's beginning that come last.
    header: u64,
    /// Where they come in the stream, once that is known.
    header_at: AtomicU64,
    /// Bytes of the stream so far.
    length: AtomicU64,
    rules: Mutex<Rules>,
}

impl Followed {
    /// Follows an open file by its name, and looks at it once.
    pub(in crate::parcel) fn new(file: File, path: &Path, follow: Follow) -> Result<Self, Error> {
        let Follow { until, compares, header_last } = follow;
        let needs_events = until.iter().any(|rule| matches!(rule, Until::Closed(_)));
        let watching = |error: Errno| Error::file("watch", path, error);
        let events = needs_events.then(|| events_of(path)).transpose().map_err(watching)?;
        let (path, rules) = (path.to_owned(), Mutex::new(Rules::new(until)));
        let begun = Instant::now();
        let header = header_last.map_or(0, Bytes::get);
        let [header_at, length] = [u64::MAX, 0].map(AtomicU64::new);
        let followed =
            Self { file, path, events, begun, compares, header, header_at, length, rules };
        followed.look()?;
        Ok(followed)
    }

    /// Looks at it again; whether it is over. It may block.
    ///
    /// # Errors
    /// It cannot be read, or something else has happened to it than growing.
    pub(in crate::parcel) fn look(&self) -> Result<bool, Error> {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        if rules.is_over() {
            return Ok(true);
        }
        let failed = |error| Error::file("read", &self.path, error);
        let seen = self.seen(rules.until()).map_err(failed)?;
        let is_over = rules.step(&seen).map_err(|why| self.changed(why))?;
        let body = seen.length.saturating_sub(self.header);
        if is_over {
            self.header_at.store(body, SeqCst);
        }
        self.length.store(if is_over { seen.length } else { body }, SeqCst);
        Ok(is_over)
    }

    fn seen(&self, until: &[Until]) -> io::Result<Seen> {
        let is_there = |rule: &Until| match rule {
            Until::Marker(path) => fs::symlink_metadata(path).is_ok(),
            _ => false,
        };
        let has_marker = until.iter().any(is_there);
        let closed = self.closed()?;
        let named = match fs::metadata(&self.path) {
            Ok(named) => Some((named.dev(), named.ino())),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let data = self.file.metadata()?;
        let name = if named == Some((data.dev(), data.ino())) {
            Name::Here
        } else if data.nlink() == 0 {
            Name::Deleted
        } else {
            Name::Elsewhere
        };
        let (at, modified) = (self.begun.elapsed(), (data.mtime(), data.mtime_nsec()));
        Ok(Seen { at, length: data.len(), modified, name, has_marker, closed })
    }

    /// What the kernel has said last since it was asked: that the file was closed, or written to.
    fn closed(&self) -> io::Result<Option<bool>> {
        let Some(events) = &self.events else { return Ok(None) };
        let (mut buffer, mut closed) = ([MaybeUninit::uninit(); 4096], None);
        let mut reader = inotify::Reader::new(events, &mut buffer);
        for _ in 0..MAX_EVENTS {
            match reader.next() {
                Ok(event) if event.events().contains(ReadFlags::CLOSE_WRITE) => closed = Some(true),
                Ok(event) if event.events().contains(ReadFlags::MODIFY) => closed = Some(false),
                Ok(_) => {}
                Err(Errno::AGAIN) => return Ok(closed),
                Err(error) => return Err(error.into()),
            }
        }
        // More are to be read: something writes.
        Ok(Some(false))
    }

    fn read_file(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => io::Error::new(
                ErrorKind::UnexpectedEof,
                "the file became shorter while it was read",
            ),
            _ => error,
        })
    }

    /// Whether it is to be [hashed](Self::hash) at its end.
    pub(super) fn compares(&self) -> bool {
        self.compares
    }

    /// The BLAKE3 hash of the stream of what it has now, once it is over. It may block.
    ///
    /// # Errors
    /// It cannot be read, or has another length than at its end.
    pub(super) fn hash(&self) -> Result<[u8; 32], Error> {
        let failed = |error| Error::file("read", &self.path, error);
        let (length, mut hasher) = (self.length(), blake3::Hasher::new());
        let (mut at, mut piece) = (0, vec![0; PIECE]);
        while at < length {
            let now = (length - at).min(PIECE as u64) as usize;
            self.read_at(at, &mut piece[..now]).map_err(failed)?;
            hasher.update(&piece[..now]);
            at += now as u64;
        }
        let now = self.file.metadata().map_err(failed)?.len();
        if now != length {
            let why = format!("it had {length} bytes when it was over, and has {now} now");
            return Err(self.changed(why));
        }
        Ok(*hasher.finalize().as_bytes())
    }

    /// The error for what has happened to it.
    pub(super) fn changed(&self, why: String) -> Error {
        Error::SourceChanged { file: self.path.clone(), why }
    }
}

impl Stored for Followed {
    fn length(&self) -> u64 {
        self.length.load(SeqCst)
    }

    fn grows(&self) -> bool {
        true
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let header_at = self.header_at.load(SeqCst);
        let of_body = header_at.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let (body, header) = buffer.split_at_mut(of_body);
        if !body.is_empty() {
            self.read_file(offset + self.header, body)?;
        }
        if !header.is_empty() {
            self.read_file(offset.saturating_sub(header_at), header)?;
        }
        Ok(())
    }
}

/// What the kernel says of writing to a file and closing it.
fn events_of(path: &Path) -> Result<OwnedFd, Errno> {
    let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
    inotify::add_watch(&events, path, WatchFlags::CLOSE_WRITE | WatchFlags::MODIFY)?;
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Write, time::Duration};

    fn followed(path: &Path, until: &[&str]) -> Followed {
        let until = until.iter().map(|text| text.parse().unwrap()).collect();
        let follow = Follow { until, compares: true, header_last: None };
        Followed::new(File::open(path).unwrap(), path, follow).unwrap()
    }

    #[test]
    fn length_follows_the_file_until_it_is_renamed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let mut writer = File::create(&path).unwrap();
        let followed = followed(&path, &["renamed"]);
        let mut expected = Vec::new();
        for round in 1..4_u8 {
            writer.write_all(&[round; 1000]).unwrap();
            expected.extend([round; 1000]);
            assert!(!followed.look().unwrap());
            assert_eq!(followed.length(), expected.len() as u64);
        }
        fs::rename(&path, directory.path().join("done")).unwrap();
        assert!(followed.look().unwrap());
        // What comes later does not belong to it.
        assert_eq!(followed.hash().unwrap(), *blake3::hash(&expected).as_bytes());
        writer.write_all(b"more").unwrap();
        assert!(followed.look().unwrap() && followed.length() == 3000);
        assert!(followed.hash().unwrap_err().to_string().contains("3004 now"));
    }

    #[test]
    fn header_comes_last_as_it_is_at_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        for length in [0, 3, 4, 5, 20] {
            let mut writer = File::create(&path).unwrap();
            let until = vec![format!("size:{length}").parse().unwrap()];
            let follow = Follow { until, compares: true, header_last: Some(Bytes::new(4)) };
            let opened = File::open(&path).unwrap();
            let followed = Followed::new(opened, &path, follow).unwrap();
            let whole: Vec<u8> = (0..length).collect();
            for (at, byte) in whole.iter().enumerate() {
                assert!(!followed.look().unwrap());
                let body = (at as u64).saturating_sub(4);
                assert_eq!(followed.length(), body);
                let mut stream = vec![0; body as usize];
                followed.read_at(0, &mut stream).unwrap();
                assert_eq!(stream, whole[at.min(4)..at]);
                // The header is not there before the end.
                writer.write_all(&[if at < 4 { 77 } else { *byte }]).unwrap();
                if at + 1 == whole.len() {
                    writer.write_all_at(&whole[..whole.len().min(4)], 0).unwrap();
                }
            }
            assert!(followed.look().unwrap());
            let (header, body) = whole.split_at(whole.len().min(4));
            let expected = [body, header].concat();
            assert_eq!(followed.length(), expected.len() as u64);
            for from in 0..expected.len() {
                let mut stream = vec![0; expected.len() - from];
                followed.read_at(from as u64, &mut stream).unwrap();
                assert_eq!(stream, expected[from..]);
            }
            assert_eq!(followed.hash().unwrap(), *blake3::hash(&expected).as_bytes());
        }
    }

    #[test]
    fn close_of_a_writer_ends_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let mut writer = File::create(&path).unwrap();
        let followed = followed(&path, &["closed"]);
        writer.write_all(b"some").unwrap();
        for _ in 0..3 {
            assert!(!followed.look().unwrap(), "it is open");
        }
        drop(writer);
        assert!(followed.look().unwrap());
        assert_eq!(followed.length(), 4);
    }

    #[test]
    fn marker_ends_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let [path, marker] = ["file", "done"].map(|name| directory.path().join(name));
        fs::write(&path, "some").unwrap();
        let rule = format!("marker:{}", marker.display());
        let followed = followed(&path, &[&rule]);
        assert!(!followed.look().unwrap());
        fs::write(&marker, "").unwrap();
        assert!(followed.look().unwrap());
    }

    #[test]
    fn other_fates_of_a_file_are_errors() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let other = directory.path().join("other");
        let fates: [(&str, &dyn Fn()); 5] = [
            ("deleted", &|| fs::remove_file(&path).unwrap()),
            ("renamed", &|| fs::rename(&path, &other).unwrap()),
            ("shorter", &|| fs::write(&path, "").unwrap()),
            ("deleted", &|| fs::rename(&other, &path).unwrap()),
            ("renamed", &|| {
                fs::rename(&path, directory.path().join("third")).unwrap();
                fs::write(&path, "another file of that name").unwrap();
            }),
        ];
        for (why, happen) in fates {
            fs::write(&path, "some").unwrap();
            let followed = followed(&path, &["idle:1h"]);
            assert!(!followed.look().unwrap());
            happen();
            let error = followed.look().unwrap_err().to_string();
            assert!(error.contains(why), "{why}: {error}");
        }
        fs::write(&path, "some").unwrap();
        let followed = followed(&path, &["idle:1h"]);
        fs::write(&path, "").unwrap();
        let error = followed.read_at(0, &mut [0; 4]).unwrap_err();
        assert!(error.to_string().contains("shorter"), "{error}");
    }

    #[test]
    fn size_and_time_end_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "some").unwrap();
        assert!(followed(&path, &["size:4"]).look().unwrap());
        let idle = followed(&path, &["idle:10ms"]);
        std::thread::sleep(Duration::from_millis(15));
        assert!(idle.look().unwrap());
    }
}
