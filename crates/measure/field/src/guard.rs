// SPDX-License-Identifier: GPL-2.0-or-later
//! The guard of a host: `longhaul guard`, which the engine starts by ssh.
//!
//! ```text
//! worker     answers the engine, and changes the host
//! settings   what was changed, noted before
//! lock       one experiment at a time
//! parts      parts of runs, and their records on the way to the engine
//! path       what the path to another host gives
//! facts      what kind of host it is
//! ```
//! The process that ssh starts is the keeper. It starts the worker and waits for its end, however that comes. Then it ends
//! what the worker has left running, and puts settings back.

mod facts;
mod lock;
mod parts;
mod path;
mod settings;
mod worker;

use host::{RUN_DIRECTORY, RunDirectory};
use rustix::process::{
    Pid, Signal, getpid, getppid, kill_process, set_child_subreaper,
    set_parent_process_death_signal,
};
use settings::Settings;
use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The argument by which the keeper starts the worker; then comes the keeper's process.
const WORKER: &str = "--worker";
/// How long processes that were left may take to end.
const ENDING: Duration = Duration::from_secs(5);

/// Where a guard notes what it changed, and keeps its lock.
#[derive(Debug, Clone)]
pub(crate) struct State(PathBuf);

impl State {
    /// Root's is the host's own, gone with a restart as settings are; another user's is in the directory of experiments.
    fn open(directory: &Path) -> io::Result<Self> {
        if rustix::process::geteuid().is_root() {
            RunDirectory::open()?;
            let path = Path::new(RUN_DIRECTORY).join("field");
            return RunDirectory::at(&path).map(|_| Self(path));
        }
        let path = directory.join("state");
        fs::create_dir_all(directory)?;
        RunDirectory::at(&path).map(|_| Self(path))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

/// Guards this host until standard input ends; as the worker of `keeper`, if that is its process.
///
/// # Errors
/// Its state cannot be opened, or a setting is not put back.
pub fn run(directory: &Path, keeper: Option<i32>) -> io::Result<()> {
    let state = State::open(directory)?;
    match keeper.and_then(Pid::from_raw) {
        Some(keeper) => work(&state, directory, keeper),
        None => keep(&state, directory),
    }
}

fn keep(state: &State, directory: &Path) -> io::Result<()> {
    // What its worker leaves becomes its own child.
    set_child_subreaper(Some(getpid()))?;
    let stop = host::background_stop_socket()?;
    let mut worker = Command::new(env::current_exe()?)
        .arg("guard")
        .arg("--directory")
        .arg(directory)
        .arg(WORKER)
        .arg(getpid().as_raw_nonzero().get().to_string())
        .env("PATH", facts::search_path())
        .stdin(Stdio::inherit())
        .stdout(Stdio::inherit())
        .spawn()?;
    let status = loop {
        if let Some(status) = worker.try_wait()? {
            break status;
        }
        let mut sources = [rustix::event::PollFd::new(&stop, rustix::event::PollFlags::IN)];
        let step = rustix::event::Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        if rustix::event::poll(&mut sources, Some(&step)).is_ok_and(|ready| ready > 0) {
            worker.kill()?;
        }
    };
    end_children();
    // Gone, unless the worker was killed.
    let own = getpid().as_raw_nonzero().get();
    let _ = fs::remove_dir_all(parts::work_folder(directory, own));
    let left = Settings::open(state)?.put_back();
    if let Some(why) = left.failures.first() {
        return Err(io::Error::other(why.clone()));
    }
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("it ended: {status}"))) }
}

fn work(state: &State, directory: &Path, keeper: Pid) -> io::Result<()> {
    // Without its keeper nothing would be put back after it.
    set_parent_process_death_signal(Some(Signal::TERM))?;
    if getppid() != Some(keeper) {
        return Err(io::Error::other("the keeper is gone"));
    }
    worker::run(state, directory, keeper.as_raw_nonzero().get())
}

/// Ends all processes below this one, also those that have detached themselves.
fn end_children() {
    let begun = Instant::now();
    while begun.elapsed() < 2 * ENDING {
        let children = children();
        if children.is_empty() {
            return;
        }
        let signal = if begun.elapsed() < ENDING { Signal::TERM } else { Signal::KILL };
        for child in children {
            // It may have ended by itself.
            let _ = kill_process(child, signal);
        }
        while let Ok(Some(_)) = rustix::process::wait(rustix::process::WaitOptions::NOHANG) {}
        thread::sleep(Duration::from_millis(20));
    }
}

fn children() -> Vec<Pid> {
    let of_task = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).ok();
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    let texts: Vec<String> = tasks.flatten().filter_map(of_task).collect();
    let numbers = texts.iter().flat_map(|text| text.split_whitespace());
    numbers.filter_map(|number| Pid::from_raw(number.parse().ok()?)).collect()
}
