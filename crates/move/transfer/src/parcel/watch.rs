// SPDX-License-Identifier: GPL-2.0-or-later
//! A folder whose files are sent as programs write them: `longhaul send --watch`.
//!
//! ```text
//! look: names, lengths, dates ──▶ a rule holds: complete ──▶ a session for each ──▶ noted as sent     every second
//! ```
//! Each file is a transfer of its own, with the folder it is in, so the receiver has it when it is complete (`ReceiveMany`). What
//! was sent is noted with its length and date (`sent`), and not sent again after a restart, unless it has changed. Without the
//! notes the receiver compares. Nothing is ever deleted, here or there.

mod folder;
mod sent;

pub use sent::default_watch_state;

use super::{Goal, Parcel, ParcelReport, SendRequest, follow::Until, threads::on_a_thread};
use crate::{Error, Progress};
use folder::{Complete, Folder};
use protocol::session::record::EndCode;
use sent::Sent;
use session::Options;
use std::{
    collections::HashMap,
    future::Future,
    io,
    path::PathBuf,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::watch, task::JoinSet, time::sleep};
use units::BackOff;

/// How often the folder is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Files that are sent at the same time: over a long path the handshakes of short ones take most of their time.
const AT_ONCE: usize = 8;
/// How long a file that could not be sent waits at first, and at most.
const FIRST_WAIT: Duration = Duration::from_secs(5);
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// A folder to watch.
#[derive(Debug)]
pub struct WatchRequest {
    /// The folder.
    pub folder: PathBuf,
    /// Where its files go: to a receiver that listens, and takes many.
    pub goal: Goal,
    /// How. With [`Options::limit_rate`] one file goes at a time.
    pub options: Options,
    /// When a file is complete: [`Until::Idle`] or [`Until::Closed`]; and [`Until::Marker`], which ends the watch when all is sent.
    pub until: Vec<Until>,
    /// Where to note what was sent.
    pub state: PathBuf,
}

/// Files that could not be sent yet, and when to try again.
#[derive(Debug, Default)]
struct Failures(HashMap<String, (u32, Instant)>);

impl Failures {
    fn is_due(&self, name: &str, now: Instant) -> bool {
        self.0.get(name).is_none_or(|(_, again)| *again <= now)
    }

    fn add(&mut self, name: String, now: Instant) {
        let (count, again) = self.0.entry(name).or_insert((0, now));
        *count += 1;
        *again = now + BackOff::new(FIRST_WAIT, LONGEST_WAIT).after(*count);
    }
}

impl WatchRequest {
    /// Sends what is there and what comes, until `stop` or a marker ends it. `ended` gets the report of each file, also of those that
    /// are tried again.
    ///
    /// # Errors
    /// The folder cannot be watched, the receiver wants another code, it was stopped, or a marker has ended it and some files
    /// were not sent.
    pub async fn run(
        self,
        mut ended: impl FnMut(ParcelReport),
        stop: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        if !matches!(self.goal, Goal::Listener(..)) {
            let text = "a folder is watched for a receiver that listens: name its address";
            return Err(Error::Usage(text.to_owned()));
        }
        let mut stop = pin!(stop);
        let (root, until, state) = (self.folder.clone(), self.until.clone(), self.state.clone());
        let opened = move || Ok((Folder::open(&root, until)?, Sent::open(&state)?));
        let (mut folder, mut sent) = on_a_thread(opened).await?;
        let (stopping, stopped) = watch::channel(false);
        let mut transfers = JoinSet::new();
        let mut failures = Failures::default();
        let result = loop {
            let looked = on_a_thread(move || {
                let found = folder.look(&sent);
                Ok((folder, sent, found))
            });
            let (has_marker, complete);
            (folder, sent, (has_marker, complete)) = match looked.await? {
                (folder, sent, Ok(found)) => (folder, sent, found),
                (.., Err(error)) => break Err(error),
            };
            for path in folder.newly_left_out() {
                let text = "no receiver can have this name: it is not UTF-8, too long, or has control characters or backslashes";
                let error = Error::file("send", &path, io::Error::other(text));
                ended(ParcelReport::refused(error));
            }
            let is_rest_failed = complete.iter().all(|file| failures.0.contains_key(&file.name));
            self.begin(complete, (&mut folder, &failures), &mut transfers, &stopped);
            if has_marker && is_rest_failed && transfers.is_empty() {
                break failures.result(&folder);
            }
            let pause = pin!(sleep(LOOK));
            tokio::select! {
                () = pause => {}
                Some(done) = transfers.join_next() => {
                    let (file, report) = done.map_err(|error| Error::Usage(error.to_string()))?;
                    if let Err(error) = take(file, &report, (&mut folder, &mut sent, &mut failures)) {
                        break Err(error);
                    }
                    ended(report);
                }
                () = &mut stop => break Err(Error::Stopped),
            }
        };
        let _ = stopping.send(true);
        while let Some(done) = transfers.join_next().await {
            if let Ok((_, report)) = done {
                ended(report);
            }
        }
        result
    }

    /// Begins to send as many of these as go at once.
    fn begin(
        &self,
        complete: Vec<Complete>,
        (folder, failures): (&mut Folder, &Failures),
        transfers: &mut JoinSet<(Complete, ParcelReport)>,
        stopped: &watch::Receiver<bool>,
    ) {
        let most = if self.options.limit_rate.is_some() { 1 } else { AT_ONCE };
        let now = Instant::now();
        let due = complete.into_iter().filter(|file| failures.is_due(&file.name, now));
        for file in due.take(most.saturating_sub(transfers.len())) {
            folder.begins(&file.name);
            let request = SendRequest {
                parcel: Parcel::Path(file.path.clone()),
                name: None,
                folder: file.folder().map(str::to_owned),
                goal: self.goal.clone(),
                options: self.options.clone(),
                receipts: false,
            };
            let mut stopped = stopped.clone();
            transfers.spawn(async move {
                let stop = async {
                    let _ = stopped.wait_for(|stopped| *stopped).await;
                };
                let report = request.run(&Arc::new(Progress::default()), stop).await;
                (file, report)
            });
        }
    }
}

impl Failures {
    /// Of a watch that a marker has ended.
    fn result(&self, folder: &Folder) -> Result<(), Error> {
        if self.0.is_empty() && folder.left_out() == 0 {
            return Ok(());
        }
        let mut names: Vec<&str> = self.0.keys().map(String::as_str).collect();
        names.sort_unstable();
        let first = names.first().map(|name| format!(", first {name}")).unwrap_or_default();
        Err(Error::NotSent { files: names.len() + folder.left_out(), first })
    }
}

/// What a file's transfer came to.
fn take(
    file: Complete,
    report: &ParcelReport,
    (folder, sent, failures): (&mut Folder, &mut Sent, &mut Failures),
) -> Result<(), Error> {
    match &report.result {
        Ok(()) => {
            folder.ends(&file.name);
            failures.0.remove(&file.name);
            sent.add(&file.name, file.version)
        }
        // It was not complete after all, and is looked at again.
        Err(Error::SourceChanged { .. }) => {
            folder.ends(&file.name);
            Ok(())
        }
        Err(Error::Session(error)) if is_other_code(error) => {
            Err(Error::Connection(error.to_string()))
        }
        Err(_) => {
            folder.ends(&file.name);
            failures.add(file.name, Instant::now());
            Ok(())
        }
    }
}

/// No file will arrive.
fn is_other_code(error: &session::Error) -> bool {
    matches!(error, session::Error::Ended { code, .. } if *code == EndCode::WrongProof as u16)
        || matches!(error, session::Error::Handshake(_))
}
