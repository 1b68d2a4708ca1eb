// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs the web server's reload command in a task of its own, so that a command that hangs delays no probe.

use rustix::process::{Pid, Signal, kill_process_group};
use std::{io, process::Stdio, time::Duration};
use tokio::{
    io::AsyncReadExt,
    process::Command,
    task::JoinHandle,
    time::{sleep, timeout},
};

/// How long the command may take.
const TIME: Duration = Duration::from_secs(10);
/// How long what it has said may take to be read once it has ended. What it leaves running may never end.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// How much of that is passed on, in characters.
const LONGEST: usize = 500;

/// The command, and how it goes.
pub(super) struct Reload {
    command: Vec<String>,
    is_due: bool,
    running: Option<JoinHandle<Result<(), String>>>,
}

impl Reload {
    /// With a command, or none at all.
    pub(super) fn new(command: &[String], is_due: bool) -> Self {
        Self { command: command.to_vec(), is_due, running: None }
    }

    /// The include has changed.
    pub(super) fn is_due(&mut self) {
        self.is_due = true;
    }

    /// Starts the command if it is due and not running, and returns the result of one that has ended. Call it
    /// periodically: a failed command is due again.
    pub(super) async fn tend(&mut self) -> Option<Result<(), String>> {
        let Some(task) = self.running.take_if(|task| task.is_finished()) else {
            if self.is_due && self.running.is_none() {
                self.is_due = false;
                self.running = Some(tokio::spawn(run(self.command.clone())));
            }
            return None;
        };
        let went = task.await.unwrap_or_else(|error| Err(error.to_string()));
        self.is_due |= went.is_err();
        Some(went)
    }

    /// Runs the command now, if it is due.
    pub(super) async fn now(&mut self) -> Result<(), String> {
        if std::mem::take(&mut self.is_due) { run(self.command.clone()).await } else { Ok(()) }
    }
}

async fn run(command: Vec<String>) -> Result<(), String> {
    let Some((program, arguments)) = command.split_first() else { return Ok(()) };
    let failed = |why: &dyn std::fmt::Display| format!("{program}: {why}");
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.process_group(0).spawn().map_err(|error| failed(&error))?;
    let mut group = Group(child.id().and_then(|id| Pid::from_raw(id.cast_signed())));
    let mut stderr = child.stderr.take().ok_or_else(|| failed(&"it has no standard error"))?;
    let mut said = Vec::new();
    let ended = timeout(TIME, async {
        let mut reading = Box::pin(stderr.read_to_end(&mut said));
        let status = tokio::select! {
            status = child.wait() => status?,
            _ = &mut reading => return child.wait().await,
        };
        tokio::select! { _ = &mut reading => {} () = sleep(LAST_WORDS) => {} }
        Ok::<_, io::Error>(status)
    });
    let ended = ended.await;
    let ended =
        ended.map_err(|_| failed(&format!("it does not end within {} s", TIME.as_secs())))?;
    // What it has started, such as the web server, may live on.
    group.0 = None;
    let status = ended.map_err(|error| failed(&error))?;
    if status.success() {
        return Ok(());
    }
    let said: String = String::from_utf8_lossy(&said).trim().chars().take(LONGEST).collect();
    Err(failed(&format!("{status}: {said}")))
}

/// The processes of a command; killed when dropped.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(line: &str) -> Vec<String> {
        ["sh", "-c", line].map(str::to_owned).into()
    }

    #[tokio::test]
    async fn command_result_ignores_background_children() {
        let begun = tokio::time::Instant::now();
        assert_eq!(run(shell("sleep 8 & echo well >&2")).await, Ok(()));
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        let why = run(shell("echo it broke >&2; exit 3")).await.unwrap_err();
        assert_eq!(why, "sh: exit status: 3: it broke");
        assert!(
            run(vec!["no such program".to_owned()]).await.unwrap_err().contains("No such file")
        );
        assert_eq!(run(Vec::new()).await, Ok(()));
    }

    #[tokio::test]
    async fn failed_command_is_retried_one_at_a_time() {
        let mut reload = Reload::new(&shell("exit 1"), true);
        assert_eq!(reload.tend().await, None);
        for _ in 0..2 {
            while reload.tend().await.is_none() {
                sleep(Duration::from_millis(10)).await;
            }
            assert!(reload.is_due);
        }
        let mut reload = Reload::new(&shell("sleep 60"), true);
        assert_eq!(reload.tend().await, None);
        reload.is_due();
        assert_eq!(reload.tend().await, None);
        assert!(reload.is_due && reload.running.is_some(), "one at a time");
    }
}
