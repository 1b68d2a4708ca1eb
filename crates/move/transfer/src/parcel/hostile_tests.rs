// SPDX-License-Identifier: GPL-2.0-or-later
//! Archives that mean harm: random trees of entries whose names and links lead anywhere, whole or cut and continued.
//!
//! Whatever becomes of one, nothing outside the directory has changed, and no link in it leads outside: not by the rule of the
//! receiver, but by walking each link as the kernel would. `LONGHAUL_SEED` replays a run, `LONGHAUL_FUZZ_INPUTS` sets the
//! number of archives.

use super::{
    tests::{Disk, header, note},
    *,
};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use std::{
    collections::BTreeMap,
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink},
    path::Component,
};
use tar::{Builder, EntryType};

const ARCHIVES: u64 = 250;

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

/// One of these.
fn one_of<'t, T>(random: &mut Pcg64, all: &'t [T]) -> &'t T {
    &all[random.next_u32() as usize % all.len()]
}

/// What an archive has so far.
#[derive(Default)]
struct Made {
    directories: Vec<String>,
    all: Vec<String>,
}

/// Whether something that happens once in so many times does.
fn once_in(random: &mut Pcg64, times: u32) -> bool {
    random.next_u32().is_multiple_of(times)
}

/// Names that collide, so that entries replace and pass through each other.
fn bad_name(random: &mut Pcg64, made: &Made) -> String {
    let parts = ["a", "b", "l", "A", "..", ".", "", "e\u{301}", "\u{e9}", "tree.part", "outside"];
    let path: Vec<_> = (0..=random.next_u32() % 3).map(|_| *one_of(random, &parts)).collect();
    let path = path.join("/");
    match random.next_u32() % 12 {
        0 => format!("/{path}"),
        1 => "n".repeat(random.next_u32() as usize % 5000),
        2 => format!("{path}/{}", "d/".repeat(random.next_u32() as usize % 100)),
        3 => format!("{path}\u{0}x"),
        4 => format!("{path}\n"),
        // Beneath, or once more, what is there already.
        5..=7 if !made.all.is_empty() => format!("{}/{path}", one_of(random, &made.all)),
        8 | 9 if !made.all.is_empty() => one_of(random, &made.all).clone(),
        _ => path,
    }
}

/// Where a symbolic link with this name leads.
fn target(random: &mut Pcg64, name: &str, made: &Made) -> String {
    let depth = name.matches('/').count();
    let is_bad = once_in(random, 8);
    let above = random.next_u32() as usize % (depth + 1 + usize::from(is_bad));
    let up = "../".repeat(above);
    match random.next_u32() % if is_bad { 8 } else { 4 } {
        0 if !made.all.is_empty() => format!("{up}{}", one_of(random, &made.all)),
        1 => format!("{up}outside/secret"),
        2 | 3 => format!("{up}x"),
        4 => (*one_of(random, &["/etc", "/", ".", "..", "/proc/self/root", "a/../..", ""])).into(),
        5 => format!("{}/{up}outside", bad_name(random, made)),
        _ => format!("{up}{}", bad_name(random, made)),
    }
}

/// Appends an entry, with its names in the header or in a pax header.
fn append(builder: &mut Builder<Vec<u8>>, random: &mut Pcg64, made: &mut Made) {
    use EntryType as E;
    let kinds = [E::Regular, E::Directory, E::Directory, E::Symlink, E::Symlink, E::Link, E::Link];
    let odd = [E::Char, E::Block, E::Fifo, E::GNUSparse, E::Continuous, E::XGlobalHeader];
    let kind = if once_in(random, 60) { *one_of(random, &odd) } else { *one_of(random, &kinds) };
    let path = if once_in(random, 12) {
        bad_name(random, made)
    } else {
        let name = format!("{}{}", one_of(random, &["a", "b", "l"]), made.all.len());
        match made.directories.len() {
            0 => name,
            _ if once_in(random, 3) => name,
            _ => format!("{}/{name}", one_of(random, &made.directories)),
        }
    };
    let link = match kind {
        // Its name begins at the top.
        E::Link if !made.all.is_empty() && !once_in(random, 10) => {
            one_of(random, &made.all).clone()
        }
        E::Symlink | E::Link => target(random, &path, made),
        _ => String::new(),
    };
    let content: &[u8] = if kind == E::Regular { b"evil" } else { b"" };
    let mut header = header(kind, content.len());
    header.set_mode(*one_of(random, &[0o644, 0o4755, 0o6777, 0o1777, 0, 0o7777]));
    if kind == E::Char {
        // /dev/null
        let _ = header.set_device_major(1).and_then(|()| header.set_device_minor(3));
    }
    let (short_path, short_link) = (path.len() < 100, link.len() < 100);
    let by_pax = once_in(random, 5) || !short_path || !short_link;
    if by_pax {
        let date = *one_of(random, &["1.5", "-1.5", "99999999999999", "-99999999999999", "x"]);
        let mut extensions = vec![("path", path.as_bytes()), ("linkpath", link.as_bytes())];
        extensions.extend(once_in(random, 4).then_some(("mtime", date.as_bytes())));
        builder.append_pax_extensions(extensions).unwrap();
    } else {
        // Their names are not checked here.
        let old = header.as_old_mut();
        old.name[..path.len()].copy_from_slice(path.as_bytes());
        old.linkname[..link.len()].copy_from_slice(link.as_bytes());
    }
    header.set_cksum();
    builder.append(&header, content).unwrap();
    if kind == E::Directory {
        made.directories.push(path.trim_end_matches('/').to_owned());
    }
    made.all.push(path);
}

fn hostile_archive(random: &mut Pcg64) -> Vec<u8> {
    let (mut builder, mut made) = (Builder::new(Vec::new()), Made::default());
    for _ in 0..3 + random.next_u32() % 10 {
        append(&mut builder, random, &mut made);
    }
    let mut archive = builder.into_inner().unwrap();
    if once_in(random, 20) {
        let at = random.next_u32() as usize % archive.len();
        archive[at] ^= 1 << (random.next_u32() % 8);
    }
    archive
}

/// Everything about the entries around the directory.
type Surroundings = BTreeMap<PathBuf, (u64, u32, u64, [i64; 4], Vec<u8>)>;

fn surroundings(disk: &Disk) -> Surroundings {
    let (mut found, mut left) = (BTreeMap::new(), vec![disk.root.path().join("outside")]);
    while let Some(path) = left.pop() {
        let data = fs::symlink_metadata(&path).unwrap();
        let content = if data.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            Vec::new()
        } else {
            fs::read(&path).unwrap()
        };
        let times = [data.mtime(), data.mtime_nsec(), data.ctime(), data.ctime_nsec()];
        found.insert(path, (data.ino(), data.mode(), data.nlink(), times, content));
    }
    found
}

/// Walks a link as the kernel would, from the directory where it is; whether it leaves the root. What is missing is taken
/// for a directory that someone may make.
fn leaves(root: &Path, link: &Path) -> bool {
    let above = |path: &Path| path.parent().map_or_else(PathBuf::new, Path::to_owned);
    let mut at = above(link);
    let mut left: Vec<PathBuf> = vec![link.file_name().unwrap().into()];
    for _ in 0..200 {
        let Some(next) = left.pop() else { return false };
        let mut components = next.components();
        let Some(first) = components.next() else { continue };
        let rest = components.as_path().to_owned();
        if !rest.as_os_str().is_empty() {
            left.push(rest);
        }
        match first {
            Component::RootDir | Component::Prefix(_) => return true,
            Component::CurDir => {}
            Component::ParentDir if at.as_os_str().is_empty() => return true,
            Component::ParentDir => at = above(&at),
            Component::Normal(name) => match fs::read_link(root.join(&at).join(name)) {
                Ok(target) => left.push(target),
                Err(_) => at.push(name),
            },
        }
    }
    // Links in a circle lead nowhere.
    false
}

/// Checks what has become of an archive; with how many links it has.
fn check(disk: &Disk, before: &Surroundings, context: &str) -> usize {
    assert_eq!(&surroundings(disk), before, "{context}: something outside has changed");
    let mut names: Vec<_> =
        fs::read_dir(disk.root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    let allowed = ["outside", "tree.part", "tree.part.index"];
    assert!(names.iter().all(|name| allowed.iter().any(|one| name == one)), "{context}: {names:?}");
    let (mut left, mut links) = (vec![PathBuf::new()], 0);
    while let Some(path) = left.pop() {
        let whole = disk.part.join(&path);
        let Ok(data) = fs::symlink_metadata(&whole) else { continue };
        let kind = data.file_type();
        let shown = format!("{context}: {}", path.display());
        assert!(!kind.is_char_device() && !kind.is_block_device() && !kind.is_fifo(), "{shown}");
        if kind.is_symlink() {
            links += 1;
            assert!(!leaves(&disk.part, &path), "{shown} leads outside");
            assert_eq!(data.nlink(), 1, "{shown} is a hard link to a symbolic link");
            continue;
        }
        assert_eq!(data.permissions().mode() & 0o7000, 0, "{shown}");
        if data.is_dir() {
            let entries = fs::read_dir(&whole).unwrap();
            left.extend(entries.map(|entry| path.join(entry.unwrap().file_name())));
        }
    }
    let mode = fs::symlink_metadata(&disk.part).map_or(0, |data| data.mode() & 0o077);
    assert_eq!(mode, 0, "{context}: others can read it");
    links
}

#[test]
fn hostile_trees_change_and_reach_nothing_outside() {
    let (seed, count) = (setting("LONGHAUL_SEED", 1), setting("LONGHAUL_FUZZ_INPUTS", ARCHIVES));
    println!("LONGHAUL_SEED={seed} LONGHAUL_FUZZ_INPUTS={count}");
    let mut random = Pcg64::seed_from_u64(seed);
    let (mut whole, mut resumed, mut links) = (0, 0, 0);
    for round in 0..count {
        let archive = hostile_archive(&mut random);
        let disk = Disk::new();
        let outside = disk.root.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), "untouched").unwrap();
        fs::set_permissions(outside.join("secret"), fs::Permissions::from_mode(0o600)).unwrap();
        let before = surroundings(&disk);
        let context = format!("seed {seed}, archive {round}");
        let (note, mut replaced) = (note(&archive), false);
        if once_in(&mut random, 2) {
            let cut = random.next_u32() as usize % archive.len();
            let run = disk.receive_as(&note, &archive, Some(cut));
            links += check(&disk, &before, &context);
            if once_in(&mut random, 4) {
                replaced = replace(&disk, &mut random);
            }
            resumed += u64::from(run.resumed > 0);
        }
        let run = disk.receive_as(&note, &archive, None);
        resumed += u64::from(run.resumed > 0);
        whole += u64::from(!run.is_refused && run.result.is_ok());
        if replaced && run.result.is_err() {
            // It is thrown away with the link of the other process.
            clear(&disk.part).unwrap();
        }
        links += check(&disk, &before, &context);
    }
    println!("{whole} complete, {resumed} continued, {links} links checked");
    assert!(whole > count / 20 && resumed > count / 20 && links as u64 > count / 4);
}

/// Replaces an entry by a link that leads outside, as another process of this user could; whether there was one.
fn replace(disk: &Disk, random: &mut Pcg64) -> bool {
    let Ok(names) = fs::read_dir(&disk.part) else { return false };
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let Some(path) = names.get(random.next_u32() as usize % names.len().max(1)) else {
        return false;
    };
    let removed = if path.is_dir() && !path.is_symlink() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    removed.is_ok_and(|()| symlink("../outside", path).is_ok())
}
