// SPDX-License-Identifier: GPL-2.0-or-later
//! Fills, opens and times stores: for `bench/store` and a test.
//!
//! ```text
//! stored fill SESSIONS DIR    stores sessions of 1 byte, without syncing
//! stored open DIR             opens a store: sessions, damaged files, seconds, and by how many bytes the process has grown
//! stored rate BYTES DIR       the disk's own sequential rates, those of a stored session, and promises per second
//! ```
//! Prints a name and a value on each line. Files that were written are thrown out of the page cache before they are read.

use longhaul_store::{
    AccessKey, Job, Limits, NewSession, Promise, Read, Store, Writer,
    disk::{Disk, DiskFile, Extent, Folder, Place, RealDisk},
};
use protocol::session::SessionId;
use std::{
    env,
    error::Error,
    fs::{self, File},
    io::{self, IoSlice, Write},
    os::unix::fs::FileExt,
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};
use units::Bytes;

const KEY: AccessKey = AccessKey([1; 32]);
const PART: usize = 1 << 20;
/// Bytes between two promises of a session.
const PROMISE: u64 = 64 << 20;
/// Sessions that are promised together.
const TOGETHER: u64 = 100;

type Done = Result<(), Box<dyn Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().map_err(Box::<dyn Error>::from);
    let done = match words[..] {
        ["fill", sessions, path] => number(sessions).and_then(|n| fill(Path::new(path), n)),
        ["open", path] => open_again(Path::new(path)),
        ["rate", bytes, path] => number(bytes).and_then(|n| rate(Path::new(path), n)),
        _ => Err("usage: stored fill SESSIONS DIR | open DIR | rate BYTES DIR".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("stored: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A disk that syncs nothing, to make many sessions soon.
#[derive(Debug)]
struct Unsynced<T>(T);

impl Disk for Unsynced<RealDisk> {
    fn make_folders(&self) -> io::Result<()> {
        self.0.make_folders()
    }
    fn create(&self, place: Place) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(Unsynced(self.0.create(place)?)))
    }
    fn open(&self, place: Place, may_change: bool) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(Unsynced(self.0.open(place, may_change)?)))
    }
    fn extent(&self, place: Place) -> io::Result<Option<Extent>> {
        self.0.extent(place)
    }
    fn rename(&self, from: Place, to: Place) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&self, place: Place) -> io::Result<()> {
        self.0.remove(place)
    }
    fn sync_folder(&self, _: Folder) -> io::Result<()> {
        Ok(())
    }
    fn list(&self, folder: Folder) -> io::Result<Vec<String>> {
        self.0.list(folder)
    }
    fn free_bytes(&self) -> io::Result<u64> {
        self.0.free_bytes()
    }
    fn unlock(&self) {
        self.0.unlock();
    }
}

impl DiskFile for Unsynced<Box<dyn DiskFile>> {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        self.0.read_at(into, at)
    }
    fn write_at(&self, parts: &[IoSlice<'_>], at: u64) -> io::Result<()> {
        self.0.write_at(parts, at)
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }
    fn set_length(&self, length: u64) -> io::Result<()> {
        self.0.set_length(length)
    }
    fn allocate(&self, length: u64) -> io::Result<bool> {
        self.0.allocate(length)
    }
    fn begin_write_back(&self, _: u64, _: u64) {}
}

fn open(disk: impl Disk + 'static) -> Result<Store, Box<dyn Error>> {
    let limits = Limits { kept_free: Bytes::ZERO, ..Limits::of_size(Bytes::new(1 << 44)) };
    // As a depot's runtime does it: the sender goes on while a round runs.
    let run = |job: Job| drop(std::thread::spawn(job));
    Ok(Store::open(Arc::new(disk), limits, run, SystemTime::now())?.0)
}

fn create(store: &Store, number: u64, length: u64) -> Result<Writer, Box<dyn Error>> {
    let new = NewSession {
        id: SessionId((u128::from(number) + 1).to_be_bytes()),
        owner: KEY,
        collector: KEY,
        account: KEY,
        reserved: Bytes::new(length),
        life: Duration::from_secs(24 * 3600),
        note: b"{}",
        allowance: None,
    };
    Ok(store.create(&new, SystemTime::now())?)
}

fn fill(path: &Path, sessions: u64) -> Done {
    let store = open(Unsynced(RealDisk::open(path)?))?;
    for number in 0..sessions {
        let mut writer = create(&store, number, 1)?;
        writer.append(b"x")?;
        writer.complete().wait()?;
    }
    println!("sessions {sessions}");
    Ok(())
}

fn resident() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/self/statm")?;
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    Ok(pages.unwrap_or(0) * rustix::param::page_size() as u64)
}

fn open_again(path: &Path) -> Done {
    let before = resident()?;
    let begun = Instant::now();
    let limits = Limits::of_size(Bytes::new(1 << 44));
    let disk = Arc::new(RealDisk::open(path)?);
    let (store, report) = Store::open(disk, limits, |job: Job| job(), SystemTime::now())?;
    let elapsed = begun.elapsed();
    println!("sessions {}\ndamaged {}", report.sessions, report.damage.len());
    println!("open_s {:.3}", elapsed.as_secs_f64());
    println!("grown_bytes {}", resident()?.saturating_sub(before));
    drop(store);
    Ok(())
}

/// Has the kernel forget a file's pages, so that reading it takes the disk.
fn forget(file: &File) -> io::Result<()> {
    let advice = rustix::fs::Advice::DontNeed;
    Ok(rustix::fs::fadvise(file, 0, None, advice)?)
}

/// MB/s.
fn speed(bytes: u64, begun: Instant) -> f64 {
    bytes as f64 / 1e6 / begun.elapsed().as_secs_f64()
}

fn rate(path: &Path, bytes: u64) -> Done {
    // Not zeros, which some disks do not store.
    let mut part = vec![0; PART];
    let mut seed = 1_u64;
    for byte in &mut part {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *byte = (seed >> 56) as u8;
    }
    let bytes = bytes.next_multiple_of(PART as u64);
    fs::create_dir_all(path)?;
    disk_rate(&path.join("plain"), &part, bytes)?;
    let store = open(RealDisk::open(&path.join("store"))?)?;
    session_rate(&store, &path.join("store"), &part, bytes)?;
    promise_rate(&store)
}

/// One file, written in order and synced once, and read again.
fn disk_rate(path: &Path, part: &[u8], bytes: u64) -> Done {
    let begun = Instant::now();
    let mut file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
    for _ in 0..bytes / PART as u64 {
        file.write_all(part)?;
    }
    file.sync_data()?;
    println!("disk_write_mbps {:.1}", speed(bytes, begun));
    forget(&file)?;
    let (begun, mut into) = (Instant::now(), vec![0; PART]);
    for n in 0..bytes / PART as u64 {
        file.read_exact_at(&mut into, n * PART as u64)?;
    }
    println!("disk_read_mbps {:.1}", speed(bytes, begun));
    fs::remove_file(path)?;
    Ok(())
}

/// One session, promised now and then, and collected again.
fn session_rate(store: &Store, path: &Path, part: &[u8], bytes: u64) -> Done {
    let begun = Instant::now();
    let mut writer = create(store, 0, bytes)?;
    let mut promises = Vec::new();
    for n in 1..=bytes / PART as u64 {
        writer.append(part)?;
        if (n * PART as u64).is_multiple_of(PROMISE) {
            promises.push(writer.promise());
        }
    }
    for promise in promises {
        promise.wait()?;
    }
    let id = writer.id();
    writer.complete().wait()?;
    println!("store_write_mbps {:.1}", speed(bytes, begun));
    forget(&File::open(path.join(Place::Data(id).to_string()))?)?;
    let mut reader = store.reader(id, &KEY, SystemTime::now())?;
    let (begun, mut offset) = (Instant::now(), 0);
    while let Read::Bytes(more) = reader.read(offset)? {
        offset += more.len() as u64;
    }
    println!("store_read_mbps {:.1}", speed(offset, begun));
    store.remove(id, &KEY).wait()?;
    Ok(())
}

/// Short sessions, each completed alone, and many at a time.
fn promise_rate(store: &Store) -> Done {
    let begun = Instant::now();
    for number in 1..=TOGETHER {
        let mut writer = create(store, number, 4096)?;
        writer.append(&[7; 4096])?;
        writer.complete().wait()?;
    }
    println!("alone_per_s {:.1}", TOGETHER as f64 / begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..TOGETHER)
            .map(|n| {
                scope.spawn(move || -> Result<u64, String> {
                    let mut writer =
                        create(store, 1000 + n, 4096).map_err(|error| error.to_string())?;
                    writer.append(&[7; 4096]).map_err(|error| error.to_string())?;
                    let complete: Promise<u64> = writer.complete();
                    complete.wait().map_err(|error| error.to_string())
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic").map(drop))
    })?;
    println!("together_per_s {:.1}", TOGETHER as f64 / begun.elapsed().as_secs_f64());
    Ok(())
}
