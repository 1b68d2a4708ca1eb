// SPDX-License-Identifier: GPL-2.0-or-later
//! Where the lines about requests go: to standard error, or to a file.
//!
//! A thread of its own writes them, so that no transfer ever waits for a disk. Lines wait for it in
//! a queue of bounded length. What cannot be written (the queue or the disk is full, the directory
//! is gone) is dropped and counted, and said once on standard error, however many lines it is.
//!
//! Lines of text on standard error are those of `tracing`, as before and after them.

use super::line::Line;
use crate::config::{AccessTo, Log, LogFormat};
use std::{
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// How many lines wait at most; a line takes less than 1 KB unless its target is long.
const QUEUE: usize = 4096;
/// What is written at a time, in bytes.
const BATCH: usize = 64 << 10;
/// How often to look whether the file is still there.
const LOOK: Duration = Duration::from_secs(1);
/// How long the last lines may take when the depot ends.
const LAST: Duration = Duration::from_secs(1);

/// The access log's file cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the access log {path}: {error}")]
pub struct AccessLogError {
    /// The file.
    pub path: PathBuf,
    /// What the system said.
    pub error: io::Error,
}

/// The access log.
#[derive(Debug)]
pub(crate) struct AccessLog {
    to: AccessTo,
    format: LogFormat,
    /// None where `tracing` takes the lines.
    writer: Option<Handle>,
    told: Arc<Told>,
}

/// What the writing thread is told, and tells.
#[derive(Debug, Default)]
struct Told {
    /// Open the file anew.
    reopen: AtomicBool,
    /// Lines lost so far.
    dropped: AtomicU64,
}

#[derive(Debug)]
struct Handle {
    lines: SyncSender<Message>,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
enum Message {
    Line(String),
    /// Nothing to write, but something was told.
    Wake,
    End,
}

impl AccessLog {
    /// Opens the file, if it is to be one.
    pub(crate) fn open(log: &Log) -> Result<Self, AccessLogError> {
        let (to, format) = (log.access.clone(), log.format);
        let told = Arc::<Told>::default();
        let output = match (&to, format) {
            (AccessTo::Stderr, LogFormat::Text) => None,
            (AccessTo::Stderr, LogFormat::Json) => Some(Output::Stderr),
            (AccessTo::File(path), _) => {
                let error = |error| AccessLogError { path: path.clone(), error };
                let file = Some(open(path).map_err(error)?);
                Some(Output::File { file, path: path.clone(), looked: Instant::now() })
            }
        };
        let writer = output.map(|output| {
            let (lines, queue) = sync_channel(QUEUE);
            let writer = Writer { output, torn: false, lost: 0, told: Arc::clone(&told) };
            Handle { lines, thread: std::thread::spawn(move || writer.run(&queue)) }
        });
        Ok(Self { to, format, writer, told })
    }

    /// Writes a line, or drops it; never waits.
    pub(crate) fn write(&self, line: &Line<'_>) {
        let Some(writer) = &self.writer else { return line.trace() };
        if self.to == AccessTo::Stderr && !line.is_wanted() {
            return;
        }
        let text = match self.format {
            LogFormat::Text => line.text(),
            LogFormat::Json => line.json(),
        };
        if writer.lines.try_send(Message::Line(text + "\n")).is_err() {
            // The thread will say so when it comes to writing again.
            self.told.dropped.fetch_add(1, Relaxed);
        }
    }

    /// Opens the file anew, for whoever has renamed it.
    pub(crate) fn reopen(&self) {
        self.told.reopen.store(true, Relaxed);
        if let Some(writer) = &self.writer {
            // A full queue wakes the thread as well.
            let _ = writer.lines.try_send(Message::Wake);
        }
    }

    /// Where it goes.
    pub(crate) fn to(&self) -> String {
        self.to.to_string()
    }

    /// Lines lost so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.told.dropped.load(Relaxed)
    }

    /// Waits until what was written so far is, or for a second. Nothing is written after that.
    pub(crate) fn finish(&self) {
        let Some(writer) = &self.writer else { return };
        let deadline = Instant::now() + LAST;
        let _ = writer.lines.try_send(Message::End);
        while !writer.thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// What the thread writes to.
#[derive(Debug)]
enum Output {
    Stderr,
    /// The file is none while it was deleted and cannot be made anew.
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
    /// Lines lost since it last worked, as far as this thread has said so.
    lost: u64,
    told: Arc<Told>,
}

impl Writer {
    fn run(mut self, queue: &Receiver<Message>) {
        loop {
            let mut batch = String::new();
            let mut message = match queue.recv_timeout(LOOK) {
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
                match queue.try_recv() {
                    Ok(next) => message = next,
                    Err(_) => break false,
                }
            };
            self.stay_open();
            self.write(&batch);
            if ends {
                return;
            }
        }
    }

    /// Opens the file anew if that was asked for, or if it was deleted: what is written to a deleted
    /// file is lost without an error.
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
            // Whoever writes next will say so.
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
        if self.lost > 0 {
            let lost = std::mem::take(&mut self.lost);
            tracing::warn!("the access log is written again; {lost} lines of it were lost");
        }
    }

    /// What is left of a batch was not written.
    fn dropped(&mut self, left: &[u8], error: &io::Error) {
        let lines = left.split_inclusive(|byte| *byte == b'\n').count() as u64;
        self.told.dropped.fetch_add(lines, Relaxed);
        let said_before = self.lost > 0;
        self.lost += lines;
        if said_before {
            return;
        }
        let to = match &self.output {
            Output::Stderr => "standard error".to_owned(),
            Output::File { path, .. } => path.display().to_string(),
        };
        tracing::warn!(
            "cannot write the access log to {to}: {error}; lines are dropped and counted until \
             that works again"
        );
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

fn open(path: &Path) -> io::Result<File> {
    // A FIFO without a reader is an error then, not an endless wait.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    OpenOptions::new().append(true).create(true).mode(0o640).custom_flags(flags).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn log(path: &Path) -> AccessLog {
        let access = AccessTo::File(path.to_owned());
        AccessLog::open(&Log { access, format: LogFormat::Json }).unwrap()
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
    fn a_full_disk_loses_lines_and_nothing_else() {
        let log = log(Path::new("/dev/full"));
        for _ in 0..10 {
            log.write(&Line::example());
        }
        eventually("ten lines are dropped", || log.dropped() == 10);
        log.finish();
    }

    #[test]
    fn a_writer_that_hangs_loses_lines_and_keeps_nobody_waiting() {
        // A pipe that nobody reads from; the file is opened by its name, so it has to have one.
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
        let missing =
            AccessLog::open(&Log { access: AccessTo::File(fifo.clone()), format: LogFormat::Json });
        assert!(missing.unwrap_err().to_string().contains("fifo"), "nobody reads yet");
        let _reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&fifo);
        let log = log(&fifo);
        eventually("the pipe is full", || {
            log.write(&Line::example());
            log.dropped() > 0
        });
        log.finish();
    }

    #[test]
    fn a_renamed_file_is_left_and_a_new_one_opened() {
        let dir = tempfile::tempdir().unwrap();
        let (path, old) = (dir.path().join("log"), dir.path().join("log.1"));
        let log = log(&path);
        log.write(&Line::example());
        eventually("a line", || lines(&path) == 1);
        fs::rename(&path, &old).unwrap();
        log.reopen();
        eventually("a new file without a line", || path.exists());
        log.write(&Line::example());
        log.finish();
        assert_eq!((lines(&old), lines(&path), log.dropped()), (1, 1, 0));
    }

    #[test]
    fn a_deleted_directory_costs_lines_until_it_is_there_again() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let path = inner.join("log");
        let log = log(&path);
        fs::remove_dir_all(&inner).unwrap();
        log.reopen();
        fs::create_dir(&inner).unwrap();
        eventually("lines in a new file", || {
            log.write(&Line::example());
            lines(&path) > 0
        });
        log.finish();
    }

    #[test]
    fn half_a_line_spoils_none_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let told = Arc::<Told>::default();
        let file = Some(open(&path).unwrap());
        let output = Output::File { file, path: path.clone(), looked: Instant::now() };
        let mut writer = Writer { output, torn: true, lost: 0, told };
        fs::write(&path, "half").unwrap();
        writer.write("whole\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "half\nwhole\n");
    }
}
