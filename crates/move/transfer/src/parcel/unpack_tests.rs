// SPDX-License-Identifier: GPL-2.0-or-later
//! Archives that are cut anywhere, with what was damaged, removed or replaced meanwhile, become the same tree.

use super::*;
use crate::parcel::{Kind, tree::StoredTree};
use bytes::Bytes;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use session::Stored;
use std::{
    collections::BTreeMap,
    fs::File,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    thread,
    time::{Duration, SystemTime},
};
use tar::{Builder, EntryType, Header};

/// What `longhaul recv` has on its disk.
pub(super) struct Disk {
    pub root: tempfile::TempDir,
    pub part: PathBuf,
}

/// What one run of a receiver came to.
#[derive(Debug)]
pub(super) struct Run {
    /// How many bytes it had.
    pub resumed: usize,
    /// The sender has another beginning.
    pub is_refused: bool,
    pub result: Result<(), Error>,
}

impl Disk {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let part = root.path().join("tree.part");
        Self { root, part }
    }

    /// Receives an archive, and aborts after `cut` bytes of it; `None`: receives all.
    fn receive(&self, archive: &[u8], cut: Option<usize>) -> Run {
        self.receive_as(&note(archive), archive, cut)
    }

    pub fn receive_as(&self, note: &Note, archive: &[u8], cut: Option<usize>) -> Run {
        let journal = Journal::open(&self.part).unwrap();
        let (pieces, coming) = mpsc::channel(QUEUE);
        let (begin, begun) = oneshot::channel();
        let (note, part) = (note.clone(), self.part.clone());
        let live = Live::new(begin, coming);
        let thread = thread::spawn(move || unpack(journal, &note, &part, None, live));
        let beginning = begun.blocking_recv().unwrap();
        let resumed = beginning.length() as usize;
        let is_refused = archive.get(..resumed).is_none_or(|same| {
            let mut expected = Beginning::default();
            expected.extend(same);
            expected.position() != beginning.position()
        });
        if !is_refused {
            let to = cut.unwrap_or(archive.len()).max(resumed);
            for piece in archive[resumed..to].chunks(1000) {
                let _ = pieces.blocking_send(Some(Bytes::copy_from_slice(piece)));
            }
            if cut.is_none() {
                let _ = pieces.blocking_send(None);
            }
        }
        drop(pieces);
        let Unpacked { journal, result } = thread.join().unwrap();
        if is_refused {
            discard(&self.part, &journal).unwrap();
            assert!(!self.part.exists() && !self.journal().exists());
        }
        Run { resumed, is_refused, result }
    }

    fn journal(&self) -> PathBuf {
        appended(&self.part, ".index")
    }
}

pub(super) fn note(archive: &[u8]) -> Note {
    let (name, bytes) = (Some("tree".to_owned()), Some(archive.len() as u64));
    Note { name, bytes, modified_ns: Some(1), ..Note::of(Kind::Directory) }
}

pub(super) fn header(kind: EntryType, size: usize) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(if kind == EntryType::Directory { 0o755 } else { 0o444 });
    header.set_mtime(1_000_000_000);
    header.set_size(size as u64);
    header
}

/// An archive with an entry of each kind.
fn archive_of_each_kind() -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    let long = "n".repeat(200);
    let mut file = |name: &str, content: &[u8]| {
        let mut header = header(EntryType::Regular, content.len());
        builder.append_data(&mut header, name, content).unwrap();
    };
    file("first", b"0123456789");
    file(&long, &[7; 1000]);
    builder.append_data(&mut header(EntryType::Directory, 0), "sub/", io::empty()).unwrap();
    builder.append_link(&mut header(EntryType::Symlink, 0), "sub/link", "../first").unwrap();
    builder.append_link(&mut header(EntryType::Link, 0), "sub/hard", "first").unwrap();
    let mut empty = header(EntryType::Regular, 0);
    builder.append_data(&mut empty, "sub/empty", io::empty()).unwrap();
    builder.into_inner().unwrap()
}

/// Type and permissions, date, content or target, and the first name of a file with several.
type Found = (u32, i64, Vec<u8>, PathBuf);

/// What is in a directory.
fn tree_of(root: &Path) -> BTreeMap<PathBuf, Found> {
    let (mut found, mut first, mut left) = (BTreeMap::new(), BTreeMap::new(), vec![PathBuf::new()]);
    while let Some(directory) = left.pop() {
        let mut names: Vec<_> = fs::read_dir(root.join(&directory))
            .unwrap()
            .map(|entry| directory.join(entry.unwrap().file_name()))
            .collect();
        names.sort();
        for path in names {
            let whole = root.join(&path);
            let data = fs::symlink_metadata(&whole).unwrap();
            let content = if data.is_dir() {
                left.push(path.clone());
                Vec::new()
            } else if data.is_symlink() {
                fs::read_link(&whole).unwrap().into_os_string().into_encoded_bytes()
            } else {
                fs::read(&whole).unwrap()
            };
            let first = first.entry(data.ino()).or_insert_with(|| path.clone());
            found.insert(path, (data.mode(), data.mtime(), content, first.clone()));
        }
    }
    found
}

/// The tree of an archive that is received in one go.
fn uninterrupted(archive: &[u8]) -> BTreeMap<PathBuf, Found> {
    let disk = Disk::new();
    disk.receive(archive, None).result.unwrap();
    tree_of(&disk.part)
}

#[test]
fn archive_continues_behind_what_is_here_of_it() {
    let archive = archive_of_each_kind();
    let expected = uninterrupted(&archive);
    for (place, cut, resumed) in [
        ("nothing", 0, 0),
        ("first header", 100, 0),
        ("end of a header", 512, 512),
        ("content", 516, 516),
        ("end of a content", 522, 522),
        ("padding", 700, 522),
        ("end of the padding", 1024, 522),
        ("header of a long name", 1200, 522),
        ("long name", 1600, 522),
        ("header behind a long name", 2300, 522),
        ("end of that header", 2560, 2560),
        ("second content", 3000, 3000),
        ("end of the second content", 3560, 3560),
        ("header of a directory", 3700, 3560),
        ("end of that header", 4096, 4096),
        ("header of a link", 4500, 4096),
        ("header of a hard link", 4700, 4608),
        ("header of an empty file", 5200, 5120),
        ("end of the last header", 5632, 5632),
        ("end of the archive", 6000, 5632),
        ("all but the last byte", archive.len() - 1, 5632),
    ] {
        let disk = Disk::new();
        let cut = disk.receive(&archive, Some(cut));
        assert!(cut.result.is_err_and(|error| error.to_string().contains("broke off")), "{place}");
        let rest = disk.receive(&archive, None);
        assert_eq!((rest.resumed, rest.is_refused), (resumed, false), "{place}");
        rest.result.unwrap();
        assert_eq!(tree_of(&disk.part), expected, "{place}");
    }
}

#[test]
fn any_two_cuts_give_the_same_tree() {
    let archive = archive_of_each_kind();
    let expected = uninterrupted(&archive);
    for cut in (0..archive.len()).step_by(89) {
        let disk = Disk::new();
        for cut in [cut, cut + 700] {
            let run = disk.receive(&archive, Some(cut.min(archive.len())));
            assert!(!run.is_refused && run.resumed <= cut);
        }
        let rest = disk.receive(&archive, None);
        rest.result.unwrap();
        assert_eq!(tree_of(&disk.part), expected, "cut at {cut}");
    }
}

#[test]
fn entry_whose_header_alone_was_recorded_is_made() {
    let archive = archive_of_each_kind();
    let expected = uninterrupted(&archive);
    for (name, resumed) in
        [("sub/empty", 5632), ("sub/hard", 5632), ("sub/link", 5632), ("first", 512)]
    {
        let disk = Disk::new();
        disk.receive(&archive, Some(5632)).result.unwrap_err();
        fs::remove_file(disk.part.join(name)).unwrap();
        let rest = disk.receive(&archive, None);
        assert_eq!((rest.resumed, rest.is_refused), (resumed, false), "{name}");
        rest.result.unwrap();
        assert_eq!(tree_of(&disk.part), expected, "{name}");
    }
}

/// Replaces an entry, perhaps by a link to this file outside.
type ReplaceBy = fn(&Path, &Path);

#[test]
fn replaced_entries_are_neither_followed_nor_written_to() {
    let archive = archive_of_each_kind();
    let expected = uninterrupted(&archive);
    let long = "n".repeat(200);
    let replacements: [(&str, ReplaceBy); 7] = [
        ("symbolic link to the same", |path, outside| symlink(outside, path).unwrap()),
        ("symbolic link inside", |path, _| symlink("first", path).unwrap()),
        ("hard link", |path, outside| fs::hard_link(outside, path).unwrap()),
        ("directory", |path, _| fs::create_dir(path).unwrap()),
        ("longer file", |path, _| fs::write(path, [7; 1001]).unwrap()),
        ("pipe", |path, _| {
            let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
            rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
        }),
        ("other bytes", |path, _| fs::write(path, [8; 300]).unwrap()),
    ];
    for (what, replace) in replacements {
        let disk = Disk::new();
        let other = tempfile::tempdir().unwrap();
        let outside = other.path().join("outside");
        fs::write(&outside, [7; 300]).unwrap();
        disk.receive(&archive, Some(2860)).result.unwrap_err();
        let path = disk.part.join(&long);
        fs::remove_file(&path).unwrap();
        replace(&path, &outside);
        let rest = disk.receive(&archive, None);
        assert_eq!(rest.is_refused, what == "other bytes");
        let rest = if rest.is_refused { disk.receive(&archive, None) } else { rest };
        assert_eq!(rest.resumed, 0, "{what}");
        rest.result.unwrap();
        assert_eq!(tree_of(&disk.part), expected, "{what}");
        assert_eq!(fs::read(&outside).unwrap(), [7; 300], "{what}");
    }
}

#[test]
fn replaced_links_and_directories_are_noticed() {
    let archive = archive_of_each_kind();
    let expected = uninterrupted(&archive);
    let replacements: [(&str, ReplaceBy); 4] = [
        ("sub/link", |path, _| symlink("../second", path).unwrap()),
        ("sub/link", |path, _| fs::write(path, "../first").unwrap()),
        ("sub/hard", |path, _| fs::write(path, b"0123456789").unwrap()),
        ("sub", |path, _| {
            let moved = path.with_file_name("moved");
            fs::rename(path, &moved).unwrap();
            symlink("moved", path).unwrap();
        }),
    ];
    for (name, replace) in replacements {
        let disk = Disk::new();
        disk.receive(&archive, Some(6000)).result.unwrap_err();
        let path = disk.part.join(name);
        if !path.is_dir() {
            fs::remove_file(&path).unwrap();
        }
        replace(&path, Path::new("nothing outside"));
        let rest = disk.receive(&archive, None);
        assert_eq!((rest.resumed, rest.is_refused), (0, false), "{name}");
        rest.result.unwrap();
        assert_eq!(tree_of(&disk.part), expected, "{name}");
    }
}

#[test]
fn journal_ends_where_its_replay_did() {
    let archive = archive_of_each_kind();
    let expected = uninterrupted(&archive);
    let disk = Disk::new();
    disk.receive(&archive, Some(6000)).result.unwrap_err();
    let second = disk.part.join("n".repeat(200));
    resize(&second, 300);
    assert_eq!(disk.receive(&archive, Some(3600)).resumed, 2860);
    assert_eq!(disk.receive(&archive, Some(6000)).resumed, 3560);
    // The end of an archive is never in its journal.
    let journal = fs::read(disk.journal()).unwrap();
    fs::write(disk.journal(), [&journal, &[0; 1024][..]].concat()).unwrap();
    let rest = disk.receive(&archive, None);
    assert_eq!((rest.resumed, rest.is_refused), (0, false));
    rest.result.unwrap();
    assert_eq!(tree_of(&disk.part), expected);
}

#[test]
fn another_transfer_removes_nothing_before_its_bytes_come() {
    let archive = archive_of_each_kind();
    let expected = uninterrupted(&archive);
    let disk = Disk::new();
    disk.receive(&archive, Some(3000)).result.unwrap_err();
    let other = Note { modified_ns: Some(2), ..note(&archive) };
    let stranger = disk.receive_as(&other, &archive, Some(0));
    assert_eq!((stranger.resumed, stranger.result.is_err()), (0, true));
    assert_eq!(disk.receive(&archive, Some(3000)).resumed, 3000, "it is still there");
    let changed = disk.receive_as(&other, &archive, Some(600));
    assert_eq!(changed.resumed, 0);
    assert_eq!(disk.receive(&archive, Some(0)).resumed, 0, "the other one has its place");
    let rest = disk.receive_as(&other, &archive, None);
    assert_eq!(rest.resumed, 522);
    rest.result.unwrap();
    assert_eq!(tree_of(&disk.part), expected);
    // Nothing is left of a transfer that did not begin.
    let disk = Disk::new();
    disk.receive(&archive, Some(0)).result.unwrap_err();
    assert_eq!(fs::read_dir(disk.root.path()).unwrap().count(), 0);
}

#[test]
fn malformed_archive_is_refused_when_resumed() {
    let mut builder = Builder::new(Vec::new());
    for _ in 0..2 {
        let mut header = header(EntryType::Regular, 10);
        builder.append_data(&mut header, "twice", &b"0123456789"[..]).unwrap();
    }
    let twice = builder.into_inner().unwrap();
    let mut endless = header(EntryType::GNULongName, 10 << 20);
    endless.set_cksum();
    let endless = [endless.as_bytes(), &vec![b'n'; 10 << 20][..]].concat();
    for (archive, cuts, told) in
        [(twice, &[600, 1030, 1500, 1536, 1600][..], "File exists"), (endless, &[5000], "too long")]
    {
        for cut in cuts {
            let disk = Disk::new();
            disk.receive(&archive, Some(*cut)).result.unwrap_err();
            let error = disk.receive(&archive, None).result.unwrap_err();
            assert!(!may_be_continued(&error) && error.to_string().contains(told), "{error}");
        }
    }
}

#[test]
fn directory_with_final_permissions_is_removed() {
    let root = tempfile::tempdir().unwrap();
    let part = root.path().join("part");
    fs::create_dir_all(part.join("a/b")).unwrap();
    fs::write(part.join("a/b/c"), "").unwrap();
    symlink("/", part.join("a/b/link")).unwrap();
    make_writable(&part).unwrap();
    for path in ["a/b", "a", ""] {
        fs::set_permissions(part.join(path), fs::Permissions::from_mode(0o555)).unwrap();
    }
    clear(&part).unwrap();
    clear(&part).unwrap();
    assert!(!part.exists());
}

#[test]
fn names_that_lead_outside_are_refused_when_continued() {
    let (regular, symlink) = (EntryType::Regular, EntryType::Symlink);
    let evil: [&[(&str, EntryType, &str)]; 5] = [
        &[("good", regular, ""), ("../outside", regular, "")],
        &[("d", symlink, "."), ("d/../../outside", regular, "")],
        &[("d", symlink, "."), ("d/good", regular, "")],
        &[("good", regular, ""), ("h", EntryType::Link, "../outside")],
        &[("good", regular, ""), ("l", symlink, "../outside")],
    ];
    for entries in evil {
        let mut builder = Builder::new(Vec::new());
        for (name, kind, link) in entries {
            let content = if *kind == regular { &b"evil"[..] } else { &[] };
            let mut header = header(*kind, content.len());
            // Their names are not checked here.
            let old = header.as_old_mut();
            old.name[..name.len()].copy_from_slice(name.as_bytes());
            old.linkname[..link.len()].copy_from_slice(link.as_bytes());
            header.set_cksum();
            builder.append(&header, content).unwrap();
        }
        let archive = builder.into_inner().unwrap();
        for cut in (0..archive.len()).step_by(128) {
            let disk = Disk::new();
            let outside = disk.root.path().join("outside");
            fs::write(&outside, "untouched").unwrap();
            disk.receive(&archive, Some(cut)).result.unwrap_err();
            let error = disk.receive(&archive, None).result.unwrap_err();
            assert!(!may_be_continued(&error), "{entries:?}, cut at {cut}: {error}");
            assert_eq!(fs::read(&outside).unwrap(), b"untouched");
            assert_eq!(fs::metadata(&outside).unwrap().nlink(), 1);
            assert!(!disk.part.join("l").is_symlink() && !disk.part.join("h").exists());
        }
    }
}

/// A directory with everything that may be in one, as a sender lists it.
fn random_archive(random: &mut Pcg64) -> Vec<u8> {
    let source = tempfile::tempdir().unwrap();
    let root = source.path();
    let mut directories = vec![root.to_owned()];
    let mut files: Vec<PathBuf> = Vec::new();
    for number in 0..4 + random.next_u32() % 12 {
        let at = directories[random.next_u32() as usize % directories.len()].clone();
        let name = format!("{number}{}", "x".repeat((random.next_u32() % 3 * 70) as usize));
        let path = at.join(name);
        match random.next_u32() % 8 {
            0 => {
                fs::create_dir(&path).unwrap();
                directories.push(path);
            }
            1 => symlink("nowhere", &path).unwrap(),
            2 if !files.is_empty() => {
                let target = &files[random.next_u32() as usize % files.len()];
                fs::hard_link(target, &path).unwrap();
            }
            _ => {
                let length = [0, 1, 511, 512, 513, 5000][random.next_u32() as usize % 6];
                let mut content = vec![0; length];
                random.fill_bytes(&mut content);
                fs::write(&path, content).unwrap();
                let mode = [0o644, 0o444, 0o755][random.next_u32() as usize % 3];
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
                files.push(path);
            }
        }
    }
    for path in directories.iter().chain(&files) {
        let date = SystemTime::UNIX_EPOCH + Duration::from_secs(random.next_u32().into());
        File::open(path).unwrap().set_modified(date).unwrap();
    }
    let tree = StoredTree::list(root).unwrap();
    let mut archive = vec![0; tree.length() as usize];
    tree.read_at(0, &mut archive).unwrap();
    archive
}

/// Gives a file another length, also one that may not be written to, and leaves its permissions.
fn resize(path: &Path, length: u64) {
    let permissions = fs::metadata(path).unwrap().permissions();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    File::options().write(true).open(path).unwrap().set_len(length).unwrap();
    fs::set_permissions(path, permissions).unwrap();
}

/// Damages the files on the disk as a power failure or another process may do.
fn damage(disk: &Disk, random: &mut Pcg64) {
    if !disk.part.is_dir() {
        return;
    }
    let journal = disk.journal();
    let length = fs::metadata(&journal).map_or(0, |data| data.len());
    let paths: Vec<_> = tree_of(&disk.part).into_keys().collect();
    let path = paths.get(random.next_u32() as usize % paths.len().max(1));
    let path = disk.part.join(path.map_or(Path::new("none"), PathBuf::as_path));
    let is_file = fs::symlink_metadata(&path).is_ok_and(|data| data.is_file());
    match random.next_u32() % 8 {
        0 if length > 0 => {
            let file = File::options().write(true).open(journal).unwrap();
            file.set_len(random.next_u64() % length).unwrap();
        }
        1 | 2 if length > 0 => {
            let mut bytes = fs::read(&journal).unwrap();
            let at = random.next_u32() as usize % bytes.len();
            bytes[at] ^= 1 << (random.next_u32() % 8);
            fs::write(&journal, bytes).unwrap();
        }
        3 if is_file => {
            let length = fs::metadata(&path).unwrap().len();
            resize(&path, random.next_u64() % (length + 2));
        }
        4 if is_file => fs::remove_file(&path).unwrap(),
        5 if is_file => {
            fs::remove_file(&path).unwrap();
            symlink("/etc/hostname", &path).unwrap();
        }
        6 => fs::write(disk.part.join("stray"), "stray").unwrap(),
        7 => {
            fs::create_dir_all(disk.part.join("stray-directory/with")).unwrap();
            fs::write(disk.part.join("stray-directory/with/file"), "stray").unwrap();
        }
        _ => {}
    }
}

#[test]
fn seeded_cuts_and_damage_never_give_another_tree() {
    let seed = std::env::var("LONGHAUL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(1);
    println!("LONGHAUL_SEED={seed}");
    let mut random = Pcg64::seed_from_u64(seed);
    let (mut continued, mut refused) = (0, 0);
    for round in 0..100 {
        let archive = random_archive(&mut random);
        let expected = uninterrupted(&archive);
        let disk = Disk::new();
        for _ in 0..=random.next_u32() % 4 {
            let cut = random.next_u64() as usize % (archive.len() + 1);
            let run = disk.receive(&archive, Some(cut));
            continued += u32::from(run.resumed > 0 && !run.is_refused);
            refused += u32::from(run.is_refused);
            if random.next_u32().is_multiple_of(2) {
                damage(&disk, &mut random);
            }
        }
        let mut last = disk.receive(&archive, None);
        if last.is_refused {
            last = disk.receive(&archive, None);
        }
        assert!(!last.is_refused && last.result.is_ok(), "round {round}: {last:?}");
        assert_eq!(tree_of(&disk.part), expected, "round {round}");
    }
    assert!(continued > 50 && refused > 2, "{continued} continued, {refused} refused");
}
