// SPDX-License-Identifier: GPL-2.0-or-later
//! Turns at the machine, whichever programs the tests are in: alone, one of two at a time, or the one of two that loads
//! congestion controls.

use rustix::{
    fs::{FlockOperation, Mode, OFlags, flock, open},
    io::Errno,
};
use std::{
    env,
    fs::OpenOptions,
    io::Write,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

/// How many tests that run in real time do not disturb each other on two processors.
const PLACES: usize = 2;

/// A turn at the machine, until this is dropped or the process ends.
#[derive(Debug)]
#[must_use = "it ends when this is dropped"]
pub struct Turn {
    _locks: Vec<OwnedFd>,
    kind: &'static str,
    begun: Instant,
}

impl Turn {
    fn new(kind: &'static str, locks: Vec<OwnedFd>) -> Self {
        Self { _locks: locks, kind, begun: Instant::now() }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        note(self.kind, self.begun.elapsed());
    }
}

/// Waits until no other test has a turn. For a test that measures, or keeps all processors busy.
///
/// Where `LONGHAUL_TURNS` names a file, a line is added to it for the wait and one for the turn: the test's name, `waited` or the
/// kind of the turn, and seconds.
///
/// # Panics
/// The locks in the temporary directory cannot be opened.
pub fn alone() -> Turn {
    noted(|| Locks::in_use().take_all())
}

/// Waits until at most one other test has a turn. For a test that runs a network in real time.
///
/// # Panics
/// As [`alone`].
pub fn one_of_two() -> Turn {
    noted(|| Locks::in_use().take_one())
}

/// Waits until at most one other test has a turn, and none that loads programs into the kernel. For a test that does so, by
/// names that are the machine's.
///
/// # Panics
/// As [`alone`].
pub fn with_kernel_names() -> Turn {
    noted(|| Locks::in_use().take_names_and_one())
}

/// The locks' files. Everybody takes them in this order, so that nobody waits for somebody who waits for them.
struct Locks {
    /// What the kernel has one of for all programs: names of congestion controls, and where they are kept.
    names: PathBuf,
    places: [PathBuf; PLACES],
}

impl Locks {
    /// Of each user: others could hold them.
    fn in_use() -> Self {
        let user = rustix::process::geteuid().as_raw();
        Self::in_folder(&env::temp_dir(), &format!("longhaul-tests-{user}-"))
    }

    fn in_folder(folder: &Path, prefix: &str) -> Self {
        let path = |name: &str| folder.join(format!("{prefix}{name}.lock"));
        Self { names: path("names"), places: std::array::from_fn(|place| path(&place.to_string())) }
    }

    fn take_all(&self) -> Turn {
        let all = std::iter::once(&self.names).chain(&self.places);
        Turn::new("alone", all.map(|path| awaited(path)).collect())
    }

    fn take_names_and_one(&self) -> Turn {
        let names = awaited(&self.names);
        Turn::new("names", vec![names, self.one_place()])
    }

    fn take_one(&self) -> Turn {
        Turn::new("one", vec![self.one_place()])
    }

    fn one_place(&self) -> OwnedFd {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let mut opened = self.places.iter().map(|path| opened(path));
        let free = opened.find(|place| is_taken(place, FlockOperation::NonBlockingLockExclusive));
        // The kernel keeps the order of those that wait for a lock, so nobody waits for ever; who looked for a free place
        // now and then might.
        free.unwrap_or_else(|| awaited(&self.places[NEXT.fetch_add(1, Relaxed) % PLACES]))
    }
}

fn awaited(path: &Path) -> OwnedFd {
    let place = opened(path);
    while !is_taken(&place, FlockOperation::LockExclusive) {}
    place
}

/// Locks are those of an opened file, so threads of one process wait for each other as well.
fn opened(path: &Path) -> OwnedFd {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::RUSR | Mode::WUSR);
    file.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn is_taken(place: &OwnedFd, how: FlockOperation) -> bool {
    match flock(place, how) {
        Ok(()) => true,
        Err(Errno::INTR | Errno::WOULDBLOCK) => false,
        Err(error) => panic!("a lock of the tests: {error}"),
    }
}

fn noted(take: impl FnOnce() -> Turn) -> Turn {
    let begun = Instant::now();
    let turn = take();
    note("waited", begun.elapsed());
    turn
}

fn note(what: &str, time: Duration) {
    if let Some(file) = env::var_os("LONGHAUL_TURNS") {
        add_line(Path::new(&file), what, time);
    }
}

/// One write, as several tests append.
fn add_line(file: &Path, what: &str, time: Duration) {
    let name = thread::current().name().unwrap_or("?").to_owned();
    let line = format!("{name} {what} {:.3}\n", time.as_secs_f64());
    let file = OpenOptions::new().append(true).open(file);
    // Times are for people. Without them tests are as good.
    let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[test]
    fn there_are_two_places_and_one_turn_with_names() {
        let folder = tempfile::tempdir().unwrap();
        let locks = Locks::in_folder(folder.path(), "");
        drop([locks.take_one(), locks.take_one()]);
        drop([locks.take_names_and_one(), locks.take_one()]);
        drop(locks.take_all());
    }

    /// Counts those inside, up to a limit.
    fn stay(inside: &AtomicUsize, limit: usize) {
        let now = inside.fetch_add(1, SeqCst) + 1;
        assert!(now <= limit, "{now} at a time");
        thread::sleep(Duration::from_millis(30));
        inside.fetch_sub(1, SeqCst);
    }

    #[test]
    fn turns_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let locks = Locks::in_folder(folder.path(), "");
        let (all, names) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for n in 0..16 {
                let (locks, all, names) = (&locks, &all, &names);
                scope.spawn(move || match n % 4 {
                    0 => {
                        let _turn = locks.take_all();
                        names.fetch_add(1, SeqCst);
                        stay(all, 1);
                        names.fetch_sub(1, SeqCst);
                    }
                    1 => {
                        let _turn = locks.take_names_and_one();
                        all.fetch_add(1, SeqCst);
                        stay(names, 1);
                        all.fetch_sub(1, SeqCst);
                    }
                    _ => {
                        let _turn = locks.take_one();
                        stay(all, 2);
                    }
                });
            }
        });
    }

    #[test]
    fn time_is_noted_with_the_name_of_the_test() {
        let file = tempfile::NamedTempFile::new().unwrap();
        add_line(file.path(), "waited", Duration::from_millis(1500));
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(text, "turn::tests::time_is_noted_with_the_name_of_the_test waited 1.500\n");
    }
}
