// SPDX-License-Identifier: GPL-2.0-or-later
//! The programs that download: stock curl and wget, as a person would call them.

use crate::{
    ended::{Ended, Ending},
    error::LabError,
    servers::{FlowPlan, missing_program},
    stage::Stage,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use scenario::{Client, Flow};
use std::{
    fs::File,
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

/// The program that downloads a flow: curl where none is named.
pub fn program(flow: &Flow) -> &'static str {
    match flow.client.unwrap_or_default() {
        Client::Curl => "curl",
        Client::Wget => "wget",
        Client::Aria2 => "aria2c",
    }
}

/// Downloads a flow's file to `file`; kills the client at the time limit, or when interrupted.
pub fn download(
    stage: &dyn Stage,
    plan: &FlowPlan,
    file: &Path,
    limit: Duration,
    interrupted: &AtomicBool,
) -> Result<Ended, LabError> {
    let name = program(&plan.flow);
    let mut command = stage.command(&plan.flow.to, name)?;
    // The person's own settings and proxies are left out: they would make another experiment.
    match plan.flow.client.unwrap_or_default() {
        Client::Curl => command
            .args(["-q", "--fail", "--silent", "--show-error", "--location"])
            .args(["--noproxy", "*", "--output"])
            .arg(file),
        Client::Wget => command
            .args(["--no-config", "--no-verbose", "--no-proxy", "--tries=1"])
            .arg("--output-document")
            .arg(file),
        Client::Aria2 => command
            .args([
                "--no-conf",
                "--quiet",
                "--max-tries=1",
                "--no-proxy=*",
                "--file-allocation=none",
            ])
            .args([
                "--max-connection-per-server=16",
                "--split=16",
                "--min-split-size=1M",
                "--dir=/",
            ])
            .arg("--out")
            .arg(file),
    };
    command.arg(&plan.url);
    let log = file.with_extension("log");
    let ended = run_to_end(command, &log, limit, interrupted);
    ended.map_err(|e| missing_program(name, e))
}

fn run_to_end(
    mut command: Command,
    log: &Path,
    limit: Duration,
    interrupted: &AtomicBool,
) -> std::io::Result<Ended> {
    let start = Instant::now();
    let mut child = command
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(log)?)
        .spawn()?;
    let pidfd = rustix::process::pidfd_open(
        rustix::process::Pid::from_child(&child),
        rustix::process::PidfdFlags::empty(),
    )?;
    let deadline = start + limit;
    let mut timed_out = false;
    loop {
        // In steps, to look whether the lab was interrupted.
        let left =
            deadline.saturating_duration_since(Instant::now()).min(Duration::from_millis(100));
        let step = Timespec::try_from(left).expect("a tenth of a second");
        let ended = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&step)).unwrap_or(0) > 0;
        if ended {
            break;
        }
        timed_out = Instant::now() >= deadline;
        if timed_out || interrupted.load(Ordering::Relaxed) {
            child.kill()?;
            break;
        }
    }
    let end = Instant::now();
    let exit_code = child.wait()?.code();
    let said = String::from_utf8_lossy(&std::fs::read(log)?).trim().to_owned();
    let how = if timed_out { Ending::Cut } else { Ending::Exited(exit_code, said) };
    Ok(Ended { start, end, how })
}
