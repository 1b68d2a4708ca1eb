// SPDX-License-Identifier: GPL-2.0-or-later
//! The processes: `longhaul run`, whose exit status is the program's; its child, the supervisor; and the supervisor's
//! child, the program.
//!
//! The supervisor is a process of its own since it has to outlive the program where that leaves others behind, and it
//! is their parent since a kernel may let nobody else look into a process (Yama). It closes its input and output.

use super::{
    calls::Calls,
    filter,
    supervisor::{Answering, Rules},
    tally::Tally,
};
use crate::sys;
use host::Lack;
use rustix::{
    io::{Errno, FdFlags, fcntl_setfd},
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
    },
    process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, wait},
    stdio::{dup2_stderr, dup2_stdin, dup2_stdout},
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2},
    iterator::Signals,
};
use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, BufRead, BufReader, ErrorKind, IoSlice, IoSliceMut, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
        unix::{
            net::UnixStream,
            process::{CommandExt, ExitStatusExt},
        },
    },
    process::{Command, ExitStatus, Stdio},
    rc::Rc,
    sync::{Arc, atomic::AtomicBool},
    thread,
};
use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
    task::LocalSet,
};

/// Signals of the terminal, and of those who end everybody: the supervisor outlives them, as its program may.
const OUTLIVED: [i32; 5] = [SIGINT, SIGQUIT, SIGHUP, SIGTERM, SIGTSTP];
/// Signals to `longhaul run` that are meant for the program. The terminal sends its own to both.
const PASSED_ON: [i32; 4] = [SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];

/// Why a program does not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It could not be executed.
    #[error("cannot run {program}: {error}")]
    Program {
        /// Which one.
        program: String,
        /// Why.
        error: io::Error,
    },
    /// The kernel does not do what this takes.
    #[error("{0}")]
    Lacks(Lack),
    /// Something else went wrong.
    #[error("cannot supervise: {0}")]
    Failed(#[from] io::Error),
}

impl From<Errno> for RunError {
    fn from(error: Errno) -> Self {
        Self::Failed(error.into())
    }
}

impl RunError {
    /// The exit code, as env(1) has it for programs.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Program { error, .. } if error.kind() == ErrorKind::NotFound => 127,
            Self::Program { .. } => 126,
            Self::Lacks(_) => 3,
            Self::Failed(_) => 1,
        }
    }
}

/// A program and its arguments.
#[derive(Debug, Clone)]
pub struct Launch {
    /// A path, or a name that is looked for in `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// The supervisor's process, as `longhaul run` has started it.
#[derive(Debug)]
pub struct Supervisor {
    reports: UnixStream,
}

impl Supervisor {
    /// In the supervisor's process: `descriptor` is what [`wait_for_program`] has passed on.
    ///
    /// # Errors
    /// It is not open.
    pub fn inherited(descriptor: RawFd) -> io::Result<Self> {
        let reports = sys::inherited(descriptor)?;
        fcntl_setfd(&reports, FdFlags::CLOEXEC)?;
        Ok(Self { reports: reports.into() })
    }

    /// Starts a program and makes its connections, until it and all that it has started are gone. When the program
    /// itself has ended, `ended` is called and whoever waits for it is told.
    ///
    /// # Errors
    /// The program does not run.
    pub fn run(
        mut self,
        launch: &Launch,
        rules: Rules,
        ended: impl FnOnce(&Tally),
    ) -> Result<(), RunError> {
        set_child_subreaper(Some(getpid()))?;
        let outlived = Arc::new(AtomicBool::new(false));
        for signal in caught(&OUTLIVED) {
            signal_hook::flag::register(signal, Arc::clone(&outlived))?;
        }
        let (program, calls) = start(launch, rules.strict)?;
        dup2_stdin(&File::open("/dev/null")?)?;
        dup2_stdout(&File::create("/dev/null")?)?;
        writeln!(self.reports, "started {}", program.as_raw_nonzero())?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        LocalSet::new().block_on(&runtime, self.supervise(program, calls, rules, ended))
    }

    async fn supervise(
        mut self,
        program: Pid,
        calls: OwnedFd,
        rules: Rules,
        ended: impl FnOnce(&Tally),
    ) -> Result<(), RunError> {
        let mut children = signal(SignalKind::child())?;
        let answering = Answering::new(Calls::new(calls)?, rules);
        let answers = tokio::task::spawn_local(Rc::clone(&answering).run());
        let mut ended = Some(ended);
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == program => {
                    if let Some(ended) = ended.take() {
                        ended(&answering.tally().await);
                        // Whoever has waited may be gone.
                        let _ = writeln!(self.reports, "ended {}", status.as_raw());
                        let _ = self.reports.shutdown(std::net::Shutdown::Both);
                        dup2_stderr(&File::create("/dev/null")?)?;
                    }
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => {
                    children.recv().await;
                }
                // Nobody is left.
                Err(_) => break,
            }
        }
        answers.abort();
        Ok(())
    }
}

/// Starts the program under the filter; with where the kernel asks.
fn start(launch: &Launch, strict: bool) -> Result<(Pid, OwnedFd), RunError> {
    let (here, there) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let filter = filter::program(strict);
    let mut command = Command::new(&launch.program);
    command.args(&launch.arguments);
    sys::before_exec(&mut command, move || pass(&there, sys::install_filter(&filter)?.as_fd()));
    let child = command.spawn();
    // Its copy of `there`.
    drop(command);
    match (child, receive(&here)) {
        (Ok(child), Ok(calls)) => {
            let pid = Pid::from_raw(child.id().cast_signed()).expect("a child has a number");
            Ok((pid, calls))
        }
        (Ok(_), Err(error)) => Err(error.into()),
        // The filter was there, so it is the program's fault.
        (Err(error), Ok(_)) => {
            let program = launch.program.to_string_lossy().into_owned();
            Err(RunError::Program { program, error })
        }
        (Err(error), Err(_)) => Err(refused(&error)),
    }
}

/// Why there is no filter.
fn refused(error: &io::Error) -> RunError {
    match Errno::from_io_error(error) {
        Some(Errno::BUSY) => RunError::Lacks(Lack::new(
            "this process is under a supervisor already",
            "run one longhaul run inside another's program without the inner one",
        )),
        Some(Errno::INVAL | Errno::NOSYS) => RunError::Lacks(Lack::new(
            "this kernel has no seccomp user notification",
            "use Linux 5.9 or newer, or a container that allows seccomp(2)",
        )),
        _ => RunError::Failed(io::Error::new(error.kind(), error.to_string())),
    }
}

/// Sends a descriptor. Async-signal-safe.
fn pass(to: &OwnedFd, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(to, &[IoSlice::new(b"c")], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn receive(from: &OwnedFd) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    recvmsg(from, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags)?;
    let received = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    received.ok_or_else(|| ErrorKind::UnexpectedEof.into())
}

/// How a program has ended, for whoever waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramEnd {
    /// With this status.
    Ended(ExitStatus),
    /// The supervisor has said why there is none, and ended with this status.
    NotStarted(ExitStatus),
    /// The supervisor was killed. The program goes on, but cannot connect any more.
    Unsupervised {
        /// The program's process.
        pid: i32,
    },
}

/// Starts the supervisor, which is this program again with the arguments that `arguments` makes of a descriptor's
/// number, and waits for the program. Signals go on to it.
///
/// # Errors
/// The supervisor does not start.
pub fn wait_for_program(arguments: impl FnOnce(RawFd) -> Vec<OsString>) -> io::Result<ProgramEnd> {
    let (reports, theirs) = UnixStream::pair()?;
    fcntl_setfd(&theirs, FdFlags::empty())?;
    let signals = Signals::new(caught(&PASSED_ON))?;
    // The terminal asks everybody. The program decides, and its status tells what.
    let outlived = Arc::new(AtomicBool::new(false));
    for signal in caught(&[SIGINT, SIGQUIT]) {
        signal_hook::flag::register(signal, Arc::clone(&outlived))?;
    }
    let (stdin, stdout) = (Stdio::inherit(), Stdio::inherit());
    let supervisor = Command::new("/proc/self/exe")
        .arg0("longhaul")
        .args(arguments(theirs.as_raw_fd()))
        .stdin(stdin)
        .stdout(stdout)
        .spawn();
    drop(theirs);
    let mut supervisor = supervisor?;
    let mut lines = BufReader::new(reports).lines().map_while(Result::ok);
    let number = |line: String, word: &str| line.strip_prefix(word)?.trim().parse::<i32>().ok();
    let Some(pid) = lines.next().and_then(|line| number(line, "started ")) else {
        return Ok(ProgramEnd::NotStarted(supervisor.wait()?));
    };
    thread::spawn(move || pass_on(signals, pid));
    let ended = lines.next().and_then(|line| number(line, "ended "));
    Ok(ended.map_or(ProgramEnd::Unsupervised { pid }, |status| {
        ProgramEnd::Ended(ExitStatus::from_raw(status))
    }))
}

/// Those of `signals` that this process was not started to ignore, as by `nohup` or as a shell's background job. The program
/// is to inherit that, and a caught signal is not ignored in a program that is started.
fn caught(signals: &[i32]) -> Vec<i32> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    signals.iter().copied().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect()
}

fn pass_on(mut signals: Signals, pid: i32) {
    for signal in signals.forever() {
        if let (Some(pid), Some(signal)) = (Pid::from_raw(pid), Signal::from_named_raw(signal)) {
            let _ = kill_process(pid, signal);
        }
    }
}
