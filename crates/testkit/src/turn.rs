// SPDX-License-Identifier: GPL-2.0-or-later
//! Turns at the machine, whichever programs the tests are in: alone, or one of two at a time.

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
    _places: Vec<OwnedFd>,
}

/// Waits until no other test has a turn. For a test that measures, loads kernel programs by names that are the machine's, or
/// keeps all processors busy.
///
/// Where `LONGHAUL_WAITS` names a file, the seconds that were waited are added to it, after the test's name.
///
/// # Panics
/// The locks in the temporary directory cannot be opened.
pub fn alone() -> Turn {
    noted(|| take_all(&places()))
}

/// Waits until at most one other test has a turn. For a test that runs a network in real time.
///
/// # Panics
/// As [`alone`].
pub fn one_of_two() -> Turn {
    noted(|| take_one(&places()))
}

/// A file for each place, and of each user: others could hold them.
fn places() -> [PathBuf; PLACES] {
    let user = rustix::process::geteuid().as_raw();
    std::array::from_fn(|place| env::temp_dir().join(format!("longhaul-tests-{user}-{place}.lock")))
}

/// In order, so that of two that want all one gets them.
fn take_all(places: &[PathBuf]) -> Turn {
    Turn { _places: places.iter().map(|path| awaited(path)).collect() }
}

fn take_one(places: &[PathBuf]) -> Turn {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let mut opened = places.iter().map(|path| opened(path));
    let free = opened.find(|place| is_taken(place, FlockOperation::NonBlockingLockExclusive));
    // The kernel keeps the order of those that wait for a lock, so nobody waits for ever; who looked for a free place now
    // and then might.
    let place = free.unwrap_or_else(|| awaited(&places[NEXT.fetch_add(1, Relaxed) % places.len()]));
    Turn { _places: vec![place] }
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
    if let Some(file) = env::var_os("LONGHAUL_WAITS") {
        note(Path::new(&file), begun.elapsed());
    }
    turn
}

/// One write, as several tests append.
fn note(file: &Path, waited: Duration) {
    let name = thread::current().name().unwrap_or("?").to_owned();
    let line = format!("{name} {:.3}\n", waited.as_secs_f64());
    let file = OpenOptions::new().append(true).open(file);
    // Times are for people. Without them tests are as good.
    let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[test]
    fn turns_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let places = ["0", "1"].map(|place| folder.path().join(place));
        let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for n in 0..12 {
                let (places, inside, most) = (&places, &inside, &most);
                scope.spawn(move || {
                    let is_alone = n % 3 == 0;
                    let turn = if is_alone { take_all(places) } else { take_one(places) };
                    let now = inside.fetch_add(1, SeqCst) + 1;
                    assert!(now <= if is_alone { 1 } else { 2 }, "{now} at a time");
                    most.fetch_max(now, SeqCst);
                    thread::sleep(Duration::from_millis(30));
                    inside.fetch_sub(1, SeqCst);
                    drop(turn);
                });
            }
        });
        assert_eq!(most.into_inner(), 2, "two places are for two tests");
    }

    #[test]
    fn wait_is_noted_with_the_name_of_the_test() {
        let file = tempfile::NamedTempFile::new().unwrap();
        note(file.path(), Duration::from_millis(1500));
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(text, "turn::tests::wait_is_noted_with_the_name_of_the_test 1.500\n");
    }
}
