// SPDX-License-Identifier: GPL-2.0-or-later
//! Lines on their way to standard error or to a file, which may be slow, full or stuck.
//!
//! A thread of its own writes them, so that no transfer ever waits for a disk or for the reader of a pipe.
//! Lines wait in a bounded queue, for a few milliseconds under load. Lines that cannot be written (the queue
//! or the disk is full, the directory is gone) are dropped, counted, and reported once on standard error.

use std::{
    fs::{File, OpenOptions},
    io::{self, ErrorKind, IsTerminal, Write},
    mem,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};
use units::text::{coloured_lines, lines};

/// How many lines wait at most; a line takes less than 1 KB unless its target is long.
const QUEUE: usize = 4096;
/// What is written at a time, in bytes.
const BATCH: usize = 64 << 10;
/// How long lines are collected after a write. A depot that serves thousands of requests per second would
/// otherwise wake the thread for each, which costs more than the line. A reader of the log does not notice the
/// delay.
const GATHER: Duration = Duration::from_millis(5);
/// How often to look whether the file is still there, and whether lines were lost.
const LOOK: Duration = Duration::from_secs(1);
/// How long the last lines may take when the depot ends.
const LAST: Duration = Duration::from_secs(1);

/// The log on standard error, to which `tracing` writes a line at a time. Writers never wait for its reader.
#[derive(Debug, Clone)]
pub struct StderrLog(Arc<Lines>);

/// A queue of lines, and who writes them.
#[derive(Debug)]
pub(super) struct Lines {
    queue: SyncSender<Message>,
    told: Arc<Told>,
    thread: Mutex<Thread>,
}

/// What the writing thread is told, and tells.
#[derive(Debug, Default)]
struct Told {
    /// Reopen the file.
    reopen: AtomicBool,
    /// Lines lost so far.
    dropped: AtomicU64,
}

#[derive(Debug)]
enum Thread {
    /// Not started yet: lines wait.
    Waits(Box<(Writer, Receiver<Message>)>),
    Runs(JoinHandle<()>),
    /// It was waited for.
    Over,
}

#[derive(Debug)]
enum Message {
    Line(String),
    /// Nothing to write, but something was told.
    Wake,
    End,
}

impl StderrLog {
    /// One that keeps lines until it is [started](Self::start). It starts no thread yet: what reads
    /// its environment as systemd means it has to do so before there is a second one.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Lines::waiting(Output::Stderr)))
    }

    /// Begins to write.
    pub fn start(&self) {
        self.0.start();
    }

    /// Waits until what was written so far is, or for a second. Nothing is written after that.
    pub fn finish(&self) {
        self.0.finish();
    }

    /// Takes a line, or drops it; never waits.
    pub(super) fn line(&self, line: String) {
        self.0.write(line);
    }

    /// Lines lost so far.
    pub(super) fn dropped(&self) -> u64 {
        self.0.dropped()
    }
}

impl Default for StderrLog {
    fn default() -> Self {
        Self::new()
    }
}

impl Write for StderrLog {
    /// What the log's own formatter writes: on a terminal with colours.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let text = if io::stderr().is_terminal() { coloured_lines(&text) } else { lines(&text) };
        self.line(text.into_owned());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// Lines for a file, which is opened, and made if need be.
    pub(super) fn to_file(path: &Path) -> io::Result<Self> {
        let (file, path) = (Some(open(path)?), path.to_owned());
        let lines = Self::waiting(Output::File { file, path, looked: Instant::now() });
        lines.start();
        Ok(lines)
    }

    fn waiting(output: Output) -> Self {
        let (queue, lines) = sync_channel(QUEUE);
        let told = Arc::<Told>::default();
        let writer = Writer::new(output, Arc::clone(&told));
        Self { queue, told, thread: Mutex::new(Thread::Waits(Box::new((writer, lines)))) }
    }

    fn start(&self) {
        let mut thread = self.thread();
        *thread = match mem::replace(&mut *thread, Thread::Over) {
            Thread::Waits(waiting) => {
                let (writer, lines) = *waiting;
                Thread::Runs(std::thread::spawn(move || writer.run(&lines)))
            }
            other => other,
        };
    }

    /// Takes a line with its end, or drops it; never waits.
    pub(super) fn write(&self, line: String) {
        if self.queue.try_send(Message::Line(line)).is_err() {
            // The thread will say so when it comes to writing again.
            self.told.dropped.fetch_add(1, Relaxed);
        }
    }

    /// Reopens the file, after a log rotation has renamed it.
    pub(super) fn reopen(&self) {
        self.told.reopen.store(true, Relaxed);
        // A full queue wakes the thread as well.
        let _ = self.queue.try_send(Message::Wake);
    }

    /// Lines lost so far.
    pub(super) fn dropped(&self) -> u64 {
        self.told.dropped.load(Relaxed)
    }

    /// Waits until what was written so far is, or for a second. Nothing is written after that.
    pub(super) fn finish(&self) {
        self.start();
        let Thread::Runs(thread) = mem::replace(&mut *self.thread(), Thread::Over) else { return };
        let deadline = Instant::now() + LAST;
        let mut told = false;
        while !thread.is_finished() && Instant::now() < deadline {
            told = told || self.queue.try_send(Message::End).is_ok();
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// No change is left half made, so a panic elsewhere does not spoil it.
    fn thread(&self) -> MutexGuard<'_, Thread> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the thread writes to.
#[derive(Debug)]
enum Output {
    Stderr,
    /// `file` is `None` while the file is deleted and cannot be created again.
    File {
        file: Option<File>,
        path: PathBuf,
        looked: Instant,
    },
}

#[derive(Debug)]
struct Writer {
    output: Output,
    /// Whether the last line there is only half a line.
    torn: bool,
    /// Whether the last try to write failed.
    failing: bool,
    /// How many lost lines this thread has reported, and when it last did.
    said: (u64, Option<Instant>),
    told: Arc<Told>,
}

impl Writer {
    fn new(output: Output, told: Arc<Told>) -> Self {
        Self { output, torn: false, failing: false, said: (0, None), told }
    }

    fn run(mut self, lines: &Receiver<Message>) {
        loop {
            let mut batch = String::new();
            let mut message = match lines.recv_timeout(LOOK) {
                Ok(message) => message,
                // Lines that found the queue full may have been the last for long.
                Err(RecvTimeoutError::Timeout) => Message::Wake,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let ends = loop {
                match message {
                    Message::Line(line) => batch += &line,
                    Message::Wake => {}
                    Message::End => break true,
                }
                if batch.len() >= BATCH {
                    break false;
                }
                match lines.try_recv() {
                    Ok(next) => message = next,
                    Err(_) => break false,
                }
            };
            self.stay_open();
            self.write(&batch);
            self.own_up();
            if ends {
                return;
            }
            if !batch.is_empty() {
                std::thread::sleep(GATHER);
            }
        }
    }

    /// Reopens the file if asked to, or if it was deleted: writes to a deleted file are lost without an error.
    fn stay_open(&mut self) {
        let Output::File { file, path, looked } = &mut self.output else { return };
        let asked = self.told.reopen.swap(false, Relaxed);
        let deleted = looked.elapsed() >= LOOK && {
            *looked = Instant::now();
            let links = file.as_ref().map(|file| file.metadata().map(|metadata| metadata.nlink()));
            matches!(links, None | Some(Ok(0)))
        };
        if !asked && !deleted {
            return;
        }
        match open(path) {
            Ok(new) => (*file, self.torn) = (Some(new), false),
            // The next write reports the error.
            Err(_) if deleted => *file = None,
            Err(error) => {
                let path = path.display();
                tracing::warn!(
                    "the access log goes on in the old file: cannot open {path}: {error}"
                );
            }
        }
    }

    fn write(&mut self, batch: &str) {
        if batch.is_empty() {
            return;
        }
        let mut bytes = batch.as_bytes();
        if self.torn {
            // Ends the half line, so that it spoils none after it.
            match self.output.write(b"\n") {
                Ok(_) => self.torn = false,
                Err(error) => return self.dropped(bytes, &error),
            }
        }
        while !bytes.is_empty() {
            match self.output.write(bytes) {
                Ok(written) => {
                    self.torn = bytes[..written].last().is_some_and(|last| *last != b'\n');
                    bytes = &bytes[written..];
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return self.dropped(bytes, &error),
            }
        }
        self.failing = false;
    }

    /// What is left of a batch was not written.
    fn dropped(&mut self, left: &[u8], error: &io::Error) {
        let lines = left.split_inclusive(|byte| *byte == b'\n').count() as u64;
        self.told.dropped.fetch_add(lines, Relaxed);
        if mem::replace(&mut self.failing, true) {
            return;
        }
        let to = &self.output;
        tracing::warn!(
            "cannot write {to}: {error}; lines are dropped and counted until that works again"
        );
    }

    /// Says how many lines were lost, once writing works again; not with every batch where there
    /// are more lines than can be written.
    fn own_up(&mut self) {
        let (spoken_of, when) = self.said;
        let dropped = self.told.dropped.load(Relaxed);
        if self.failing || dropped == spoken_of || when.is_some_and(|when| when.elapsed() < LOOK) {
            return;
        }
        self.said = (dropped, Some(Instant::now()));
        let (to, lost) = (&self.output, dropped - spoken_of);
        tracing::warn!("{to} is written again; {lost} lines of it were lost");
    }
}

impl Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match self {
            Self::Stderr => io::stderr().write(bytes)?,
            Self::File { file: Some(file), .. } => file.write(bytes)?,
            Self::File { file: None, .. } => return Err(ErrorKind::NotFound.into()),
        };
        if written == 0 { Err(ErrorKind::WriteZero.into()) } else { Ok(written) }
    }
}

impl std::fmt::Display for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stderr => f.write_str("the log on standard error"),
            Self::File { path, .. } => write!(f, "the access log {}", path.display()),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    // A FIFO without a reader is an error then, not an endless wait.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    OpenOptions::new().append(true).create(true).mode(0o640).custom_flags(flags).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn log(path: &Path) -> Lines {
        Lines::to_file(path).unwrap()
    }

    fn line() -> String {
        "a line\n".to_owned()
    }

    fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !holds() {
            assert!(Instant::now() < deadline, "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn lines(path: &Path) -> usize {
        fs::read_to_string(path).map_or(0, |text| text.lines().count())
    }

    #[test]
    fn full_disk_loses_only_log_lines() {
        let log = log(Path::new("/dev/full"));
        for _ in 0..10 {
            log.write(line());
        }
        eventually("ten lines are dropped", || log.dropped() == 10);
        log.finish();
    }

    #[test]
    fn hung_log_reader_loses_lines_without_blocking() {
        // A pipe without a reader. The file is opened by name, so the pipe has to have one.
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        assert!(Lines::to_file(&fifo).is_err(), "the pipe has no reader yet");
        let _reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&fifo);
        let log = log(&fifo);
        eventually("the pipe is full", || {
            (0..1000).for_each(|_| log.write(line()));
            log.dropped() > 0
        });
        log.finish();
    }

    #[test]
    fn renamed_log_is_reopened() {
        let dir = tempfile::tempdir().unwrap();
        let (path, old) = (dir.path().join("log"), dir.path().join("log.1"));
        let log = log(&path);
        log.write(line());
        eventually("a line", || lines(&path) == 1);
        fs::rename(&path, &old).unwrap();
        log.reopen();
        eventually("a new file without a line", || path.exists());
        log.write(line());
        log.finish();
        assert_eq!((lines(&old), lines(&path), log.dropped()), (1, 1, 0));
    }

    #[test]
    fn deleted_directory_loses_lines_until_recreated() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let path = inner.join("log");
        let log = log(&path);
        fs::remove_dir_all(&inner).unwrap();
        log.reopen();
        fs::create_dir(&inner).unwrap();
        eventually("lines in a new file", || {
            log.write(line());
            lines(&path) > 0
        });
        log.finish();
    }

    #[test]
    fn partial_line_leaves_later_lines_intact() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let file = Some(open(&path).unwrap());
        let output = Output::File { file, path: path.clone(), looked: Instant::now() };
        let mut writer = Writer { torn: true, ..Writer::new(output, Arc::default()) };
        fs::write(&path, "half").unwrap();
        writer.write("whole\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "half\nwhole\n");
    }
}
