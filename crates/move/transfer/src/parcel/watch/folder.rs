// SPDX-License-Identifier: GPL-2.0-or-later
//! One look after the other at a watched folder: which of its files are complete.
//!
//! Hidden names (`.name`), links, sockets, pipes and devices are left alone: programs hide what they have not finished. The
//! kernel says which files were closed (inotify), if a rule asks for that; names, lengths and dates are read at each look, so that
//! an event that was lost only costs time.

use super::sent::{Sent, Version};
use crate::{
    Error,
    name::path_within,
    parcel::{
        follow::{Name, Rules, Seen, Until},
        note::MAX_FOLDER,
    },
};
use rustix::{
    fd::OwnedFd,
    fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags},
    io::Errno,
};
use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    fs,
    mem::MaybeUninit,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf, absolute},
    time::{Duration, Instant, SystemTime},
};

/// Files and folders that are known at a time. More are an error.
const MOST: usize = 200_000;
/// Folders within each other.
const DEEPEST: usize = 64;
/// Events that are read at a look.
const MAX_EVENTS: usize = 100_000;
/// A file of which the kernel has said nothing counts as closed when it has not been written to for this time: it was there before,
/// or was written in a new folder before that was watched.
const LONG_AGO: Duration = Duration::from_secs(10);

/// A file that is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Complete {
    pub path: PathBuf,
    /// Its path below the watched folder.
    pub name: String,
    pub version: Version,
}

impl Complete {
    /// The folder that it is in, if that is not the watched one.
    pub(super) fn folder(&self) -> Option<&str> {
        self.name.rsplit_once('/').map(|(folder, _)| folder)
    }
}

/// A watched folder.
#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
    /// Rules for each file.
    until: Vec<Until>,
    /// What ends the watch.
    markers: Vec<PathBuf>,
    /// If the kernel is to say what was closed: folders by the numbers of their watches.
    events: Option<(OwnedFd, HashMap<i32, String>)>,
    begun: Instant,
    /// Files that are not sent yet.
    files: HashMap<String, Tracked>,
    under_way: HashSet<String>,
    /// Names that no receiver can have, and those of them that are to be told.
    left_out: HashSet<PathBuf>,
    untold: Vec<PathBuf>,
}

/// A file that is not sent yet.
#[derive(Debug)]
struct Tracked {
    rules: Rules,
    /// The kernel has said that it was written to or closed.
    is_heard: bool,
}

/// What a look finds.
type Found = (bool, Vec<Complete>);

impl Folder {
    pub(super) fn open(root: &Path, until: Vec<Until>) -> Result<Self, Error> {
        let failed = |error| Error::file("watch", root, error);
        if !fs::metadata(root).map_err(failed)?.is_dir() {
            return Err(Error::Usage(format!("{}: only a folder can be watched", root.display())));
        }
        let mut markers = Vec::new();
        let mut rules = Vec::new();
        for rule in until {
            match rule {
                Until::Marker(path) => markers.push(absolute(&path).map_err(failed)?),
                Until::Idle(_) | Until::Closed(_) => rules.push(rule),
                Until::Renamed | Until::Size(_) => {
                    let text = "--until renamed and size are for one file. For a folder: idle:TIME, closed, marker:FILE";
                    return Err(Error::Usage(text.to_owned()));
                }
            }
        }
        if rules.is_empty() {
            let text = "--until: say when a file is complete, as in --until idle:10s";
            return Err(Error::Usage(text.to_owned()));
        }
        let needs_events = rules.iter().any(|rule| matches!(rule, Until::Closed(_)));
        let init = || inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC);
        let events = needs_events.then(init).transpose().map_err(|error| failed(error.into()))?;
        Ok(Self {
            root: absolute(root).map_err(failed)?,
            until: rules,
            markers,
            events: events.map(|events| (events, HashMap::new())),
            begun: Instant::now(),
            files: HashMap::new(),
            under_way: HashSet::new(),
            left_out: HashSet::new(),
            untold: Vec::new(),
        })
    }

    /// A file is being sent, and is not found until it [ends](Self::ends).
    pub(super) fn begins(&mut self, name: &str) {
        self.files.remove(name);
        self.under_way.insert(name.to_owned());
    }

    pub(super) fn ends(&mut self, name: &str) {
        self.under_way.remove(name);
    }

    /// Files whose names no receiver can have.
    pub(super) fn left_out(&self) -> usize {
        self.left_out.len()
    }

    /// Those that were found since this was asked.
    pub(super) fn newly_left_out(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.untold)
    }

    /// Looks at all files: whether a marker is there, and those that are complete and were not sent. The oldest come first.
    pub(super) fn look(&mut self, sent: &Sent) -> Result<Found, Error> {
        // A marker tells that what was written before it is complete.
        let has_marker = self.markers.iter().any(|marker| fs::symlink_metadata(marker).is_ok());
        let closed = self.closed()?;
        let (mut complete, mut found) = (Vec::new(), HashSet::new());
        for (name, data) in self.list()? {
            let version = Version::of(&data);
            let path = self.root.join(&name);
            if self.under_way.contains(&name)
                || sent.has(&name, version)
                || self.markers.contains(&path)
            {
                continue;
            }
            let is_complete = self.step(&name, &data, closed.get(&name).copied());
            if is_complete || has_marker {
                complete.push(Complete { path, name: name.clone(), version });
            }
            found.insert(name);
        }
        self.files.retain(|name, _| found.contains(name));
        complete.sort_by_key(|file| (file.version.modified, file.name.clone()));
        Ok((has_marker, complete))
    }

    /// Takes a look at a file into account; whether it is complete.
    fn step(&mut self, name: &str, data: &fs::Metadata, closed: Option<bool>) -> bool {
        // To set a file's date alone is told as writing (fsnotify_change() in Linux). A write since the last look has a new date.
        let closed = closed.filter(|is_closed| *is_closed || !is_old(data));
        let fresh = || Rules::new(self.until.clone());
        let new = || Tracked { rules: fresh(), is_heard: false };
        let file = self.files.entry(name.to_owned()).or_insert_with(new);
        file.is_heard |= closed.is_some();
        let is_taken_for_closed = !file.is_heard && is_old(data);
        let seen = Seen {
            at: self.begun.elapsed(),
            length: data.len(),
            modified: (data.mtime(), data.mtime_nsec()),
            name: Name::Here,
            has_marker: false,
            closed: closed.or(is_taken_for_closed.then_some(true)),
        };
        file.rules.step(&seen).unwrap_or_else(|_| {
            // It became shorter: it is written from its beginning.
            file.rules = fresh();
            file.rules.step(&seen).unwrap_or(false)
        })
    }

    /// Regular files by their paths below the folder.
    fn list(&mut self) -> Result<Vec<(String, fs::Metadata)>, Error> {
        let (mut files, mut folders) = (Vec::new(), vec![(String::new(), 0)]);
        let mut count = 0_usize;
        while let Some((folder, depth)) = folders.pop() {
            let path = self.root.join(&folder);
            self.watch(&path, &folder)?;
            let entries = match fs::read_dir(&path) {
                Ok(entries) => entries,
                // It was deleted meanwhile.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && depth > 0 => continue,
                Err(error) => return Err(Error::file("read", &path, error)),
            };
            for entry in entries {
                let entry = entry.map_err(|error| Error::file("read", &path, error))?;
                let own = entry.file_name();
                if own.as_bytes().starts_with(b".") {
                    continue;
                }
                count += 1;
                if count > MOST {
                    let text = format!(
                        "{}: more than {MOST} files and folders cannot be watched",
                        self.root.display()
                    );
                    return Err(Error::Usage(text));
                }
                let Ok(data) = entry.metadata() else { continue };
                let is_folder = data.is_dir() && depth < DEEPEST;
                if !is_folder && !data.is_file() {
                    continue;
                }
                match usable(&folder, &own) {
                    Some(name) if is_folder => folders.push((name, depth + 1)),
                    Some(name) => files.push((name, data)),
                    None => {
                        let path = path.join(&own);
                        if self.left_out.insert(path.clone()) {
                            self.untold.push(path);
                        }
                    }
                }
            }
        }
        Ok(files)
    }

    /// Has the kernel say what is closed in a folder.
    fn watch(&mut self, path: &Path, folder: &str) -> Result<(), Error> {
        let Some((events, folders)) = &mut self.events else { return Ok(()) };
        let which = WatchFlags::CLOSE_WRITE
            | WatchFlags::MODIFY
            | WatchFlags::MOVED_TO
            | WatchFlags::ONLYDIR;
        match inotify::add_watch(&*events, path, which) {
            // The same folder has the same number each time.
            Ok(watch) => {
                folders.insert(watch, folder.to_owned());
                Ok(())
            }
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
            Err(Errno::NOSPC) => {
                let text = "the limit of watched folders is reached: raise fs.inotify.max_user_watches, or use --until idle:TIME";
                Err(Error::file("watch", path, std::io::Error::other(text)))
            }
            Err(error) => Err(Error::file("watch", path, error)),
        }
    }

    /// What the kernel has said last of each file since it was asked: that it was closed, or written to.
    fn closed(&mut self) -> Result<HashMap<String, bool>, Error> {
        let mut closed = HashMap::new();
        let Some((events, folders)) = &self.events else { return Ok(closed) };
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut reader = inotify::Reader::new(events, &mut buffer);
        for _ in 0..MAX_EVENTS {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(Error::file("watch", &self.root, error)),
            };
            let name = event.file_name().and_then(|name| name.to_str().ok());
            let (Some(folder), Some(name)) = (folders.get(&event.wd()), name) else { continue };
            let is_closed = event.events().intersects(ReadFlags::CLOSE_WRITE | ReadFlags::MOVED_TO);
            closed.insert(joined(folder, name), is_closed);
        }
        Ok(closed)
    }
}

fn joined(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// The path of an entry, if a receiver can have it.
fn usable(folder: &str, own: &OsStr) -> Option<String> {
    let name = joined(folder, own.to_str()?);
    let is_usable = name.len() <= MAX_FOLDER && path_within(&name).is_ok();
    is_usable.then_some(name)
}

/// Whether a file was written to long ago.
fn is_old(data: &fs::Metadata) -> bool {
    let age = data.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
    age.is_some_and(|age| age > LONG_AGO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::File, io::Write, os::unix::fs::symlink};

    struct Watched {
        directory: tempfile::TempDir,
        folder: Folder,
        sent: Sent,
    }

    impl Watched {
        fn new(until: &[&str]) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path().join("root");
            fs::create_dir(&root).unwrap();
            let until = until.iter().map(|rule| rule.parse().unwrap()).collect();
            let folder = Folder::open(&root, until).unwrap();
            let sent = Sent::open(&directory.path().join("state")).unwrap();
            Self { directory, folder, sent }
        }

        fn at(&self, name: &str) -> PathBuf {
            self.directory.path().join("root").join(name)
        }

        fn look(&mut self) -> Vec<String> {
            let (_, complete) = self.folder.look(&self.sent).unwrap();
            complete.into_iter().map(|file| file.name).collect()
        }

        fn wait_for(&mut self, names: &[&str]) {
            let begun = Instant::now();
            loop {
                let mut found = self.look();
                found.sort();
                if found == names {
                    return;
                }
                assert!(begun.elapsed() < Duration::from_secs(20), "{found:?}, not {names:?}");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    #[test]
    fn closed_and_renamed_files_are_complete() {
        let mut watched = Watched::new(&["closed"]);
        let mut writer = File::create(watched.at("a")).unwrap();
        writer.write_all(b"some").unwrap();
        assert!(watched.look().is_empty() && watched.look().is_empty(), "it is open");
        drop(writer);
        watched.wait_for(&["a"]);
        fs::write(watched.at(".b.part"), "hidden").unwrap();
        fs::create_dir(watched.at("of")).unwrap();
        watched.look();
        fs::rename(watched.at(".b.part"), watched.at("of/b")).unwrap();
        watched.wait_for(&["a", "of/b"]);
        let (_, complete) = watched.folder.look(&watched.sent).unwrap();
        let folders: Vec<_> = complete.iter().map(|file| (&*file.name, file.folder())).collect();
        assert!(folders.contains(&("a", None)) && folders.contains(&("of/b", Some("of"))));
        // Opened again.
        let mut writer = File::options().append(true).open(watched.at("a")).unwrap();
        writer.write_all(b"more").unwrap();
        watched.wait_for(&["of/b"]);
    }

    #[test]
    fn files_that_were_there_before_are_complete_if_they_are_old() {
        let directory = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - Duration::from_secs(60);
        for (name, at) in [("old", old), ("new", SystemTime::now())] {
            let file = File::create(directory.path().join(name)).unwrap();
            file.set_modified(at).unwrap();
        }
        let state = tempfile::tempdir().unwrap();
        let sent = Sent::open(&state.path().join("state")).unwrap();
        let mut folder = Folder::open(directory.path(), vec!["closed".parse().unwrap()]).unwrap();
        folder.look(&sent).unwrap();
        let (_, complete) = folder.look(&sent).unwrap();
        let names: Vec<_> = complete.iter().map(|file| &*file.name).collect();
        assert_eq!(names, ["old"]);
    }

    #[test]
    fn file_in_a_folder_that_was_not_watched_yet_is_complete_in_the_end() {
        let mut watched = Watched::new(&["closed"]);
        watched.look();
        // Written and closed before the kernel is asked about the folder.
        fs::create_dir_all(watched.at("new/deep")).unwrap();
        fs::write(watched.at("new/deep/x"), "some").unwrap();
        assert!(watched.look().is_empty() && watched.look().is_empty(), "it may be open");
        let file = File::options().read(true).open(watched.at("new/deep/x")).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(11)).unwrap();
        watched.wait_for(&["new/deep/x"]);
    }

    #[test]
    fn date_that_is_set_after_closing_opens_nothing() {
        let mut watched = Watched::new(&["closed"]);
        watched.look();
        fs::write(watched.at("a"), "some").unwrap();
        let file = File::open(watched.at("a")).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
        watched.wait_for(&["a"]);
    }

    #[test]
    fn links_hidden_names_and_others_are_left_alone() {
        let mut watched = Watched::new(&["idle:1ms"]);
        fs::write(watched.directory.path().join("secret"), "x").unwrap();
        symlink("../secret", watched.at("link")).unwrap();
        symlink("..", watched.at("folder")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            watched.at("fifo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        fs::create_dir(watched.at(".hidden")).unwrap();
        fs::write(watched.at(".hidden/x"), "x").unwrap();
        fs::write(watched.at("x\u{7}y"), "x").unwrap();
        fs::write(watched.at(&"n".repeat(250)), "x").unwrap();
        fs::write(watched.at("good"), "x").unwrap();
        watched.wait_for(&["good"]);
        assert_eq!(watched.folder.left_out(), 2);
    }

    #[test]
    fn what_was_sent_is_not_found_until_it_changes() {
        let mut watched = Watched::new(&["idle:1ms"]);
        fs::write(watched.at("a"), "some").unwrap();
        watched.wait_for(&["a"]);
        watched.folder.begins("a");
        assert!(watched.look().is_empty());
        watched.folder.ends("a");
        let version = Version::of(&fs::metadata(watched.at("a")).unwrap());
        watched.sent.add("a", version).unwrap();
        assert!(watched.look().is_empty());
        fs::write(watched.at("a"), "other").unwrap();
        watched.wait_for(&["a"]);
        fs::write(watched.at("a"), "x").unwrap();
        watched.wait_for(&["a"]);
        fs::remove_file(watched.at("a")).unwrap();
        assert!(watched.look().is_empty() && watched.folder.files.is_empty());
    }

    #[test]
    fn marker_makes_all_complete_and_ends_the_watch() {
        let directory = tempfile::tempdir().unwrap();
        let marker = directory.path().join("done");
        let until = vec!["idle:1h".parse().unwrap(), Until::Marker(marker.clone())];
        let mut folder = Folder::open(directory.path(), until).unwrap();
        let sent = Sent::open(&tempfile::tempdir().unwrap().path().join("state")).unwrap();
        fs::write(directory.path().join("a"), "some").unwrap();
        assert_eq!(folder.look(&sent).unwrap(), (false, Vec::new()));
        fs::write(marker, "").unwrap();
        let (has_marker, complete) = folder.look(&sent).unwrap();
        assert!(has_marker && complete.len() == 1 && complete[0].name == "a");
        folder.begins("a");
        assert_eq!(folder.look(&sent).unwrap(), (true, Vec::new()));
    }

    #[test]
    fn rules_of_one_file_and_missing_ones_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        for (rules, why) in [
            (&["renamed"][..], "for one file"),
            (&["size:5B"], "for one file"),
            (&["marker:x"], "complete"),
            (&[], "complete"),
        ] {
            let until = rules.iter().map(|rule| rule.parse().unwrap()).collect();
            let error = Folder::open(directory.path(), until).unwrap_err().to_string();
            assert!(error.contains(why), "{rules:?}: {error}");
        }
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(Folder::open(&file, vec!["closed".parse().unwrap()]).is_err());
    }
}
