// SPDX-License-Identifier: GPL-2.0-or-later
//! A download: attempts until the file is whole, and what decides whether there is another one.
//!
//! Attempts that end without real progress (1 MB, or 5 % of the file) are counted, as are beginnings from zero; both are
//! bounded, so that no server keeps a transfer going for ever.

use crate::{
    Client, Destination, Error, GetRequest, Progress, Report, ReportedDigest, Status,
    accept::Lengths,
    error::Trouble,
    find::Goal,
    hash::RunningDigest,
    http::Target,
    name::file_name,
    network_watch::NetworkWatch,
    own_limits::{OwnLimits, Spent},
    part::{Identity, PartFile},
    retry_timing::chance,
    sink::{MemorySink, Sink, StreamSink},
    way::Next,
};
use limits::Flow;
use protocol::digest::{Algorithm, Digest};
use reqwest::Url;
use route::AttemptEnd;
use std::{
    fs,
    future::Future,
    path::PathBuf,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};
use units::BackOff;

/// Real progress, in bytes.
const PROGRESS_BYTES: u64 = 1_000_000;
/// Real progress, as a part of the file.
const PROGRESS_PART: u64 = 20;
/// How often a transfer may begin again because the server has another version.
const MAX_RESTARTS: u32 = 5;

/// One download.
#[derive(Debug)]
pub(crate) struct Transfer<'c> {
    pub client: &'c Client,
    pub target: Target,
    /// The file's final name; nothing for a stream.
    pub file: Option<PathBuf>,
    /// The name that tells which coding is the file's own.
    pub name: String,
    pub sink: Sink,
    pub identity: Identity,
    /// What the server has said of this and other versions.
    pub lengths: Lengths,
    pub progress: Arc<Progress>,
    pub started: Instant,
    /// The digest of `--digest`.
    pub asked_digest: Option<Digest>,
    /// The server's digest.
    pub server_digest: Option<Digest>,
    pub running: Vec<RunningDigest>,
    pub modified: Option<SystemTime>,
    /// The server answers ranges wrongly: ask for none.
    pub without_ranges: bool,
    /// The next attempt begins from zero.
    pub from_zero: bool,
    /// A file has the name, and it is not known yet whether it is the same.
    pub exists: bool,
    /// Fewer than are allowed where some have failed.
    pub most_connections: usize,
    /// After which byte the last body ended early, and how often.
    pub ended_at: Option<(u64, u32)>,
    /// Where the last answer came from.
    pub sender: Option<Url>,
    pub first_byte: Option<Duration>,
    pub attempts: u32,
    pub connections: u32,
    pub hops: u32,
    /// Where its time has gone.
    pub spent: OwnLimits,
    /// The connection of the last answer.
    pub network: Option<NetworkWatch>,
    /// Where the depots' receipts of the last answer can be asked for.
    pub receipts: Option<Url>,
    pub goal: Goal,
    resumed: u64,
    verified: Option<ReportedDigest>,
}

impl<'c> Transfer<'c> {
    pub(crate) fn open(
        client: &'c Client,
        target: Target,
        request: GetRequest,
        progress: &Arc<Progress>,
        started: Instant,
    ) -> Result<Self, Error> {
        let name = request.name();
        let exists = |file: &PathBuf| fs::symlink_metadata(file).is_ok();
        let (sink, file, known) = match request.destination {
            Destination::Stream(out) => (Sink::Stream(StreamSink::new(out)), None, None),
            Destination::File(file) => {
                let (part, known) = PartFile::open(&file, client.options.resume)?;
                (Sink::File(Box::new(part)), Some(file), known)
            }
        };
        let exists = file.as_ref().is_some_and(exists) && !client.options.overwrite;
        let asked_digest = request.digest;
        let transfer = Self::new(client, target, sink, known, progress, started);
        Ok(Self { file, name, asked_digest, exists, ..transfer })
    }

    /// Into memory: the whole, or a range of a version.
    pub(crate) fn into_memory(
        client: &'c Client,
        target: Target,
        sink: MemorySink,
        version: Option<Identity>,
    ) -> Self {
        let progress = Arc::default();
        Self::new(client, target, Sink::Memory(sink), version, &progress, Instant::now())
    }

    fn new(
        client: &'c Client,
        target: Target,
        sink: Sink,
        known: Option<Identity>,
        progress: &Arc<Progress>,
        started: Instant,
    ) -> Self {
        let fresh = Identity { url: target.shown.clone(), ..Identity::default() };
        let from_zero = known.as_ref().is_none_or(|known| known.url != target.shown);
        // That of another URL stays until this one has been answered.
        let identity = known.unwrap_or(fresh);
        let mut lengths = Lengths::default();
        if let Some(total) = identity.total.filter(|_| !from_zero)
            && identity.validators.strong().is_some()
        {
            lengths.learn(&identity.validators, total);
        }
        let resumed = if from_zero { 0 } else { sink.held() };
        let server_digest =
            identity.digest.as_deref().and_then(|text| text.parse::<crate::DigestArg>().ok());
        progress.set(resumed, identity.total);
        Self {
            client,
            name: file_name(&target.shown).unwrap_or_default(),
            target,
            file: None,
            sink,
            identity,
            lengths,
            progress: Arc::clone(progress),
            started,
            asked_digest: None,
            server_digest: server_digest.map(|arg| arg.0),
            running: Vec::new(),
            modified: None,
            without_ranges: false,
            from_zero,
            exists: false,
            most_connections: client.options.connections,
            ended_at: None,
            sender: None,
            first_byte: None,
            attempts: 0,
            connections: 0,
            hops: 0,
            spent: OwnLimits::new(started),
            network: None,
            receipts: None,
            goal: Goal::Bytes,
            resumed,
            verified: None,
        }
    }

    /// Runs the transfer to its end, or until `stop` ends.
    pub(crate) async fn run(&mut self, stop: impl Future<Output = ()>) -> Result<Status, Error> {
        let result = {
            let stop = pin!(stop);
            let transfer = pin!(self.drive());
            tokio::select! {
                biased;
                () = stop => Err(Error::Stopped),
                result = transfer => result,
            }
        };
        match &result {
            Ok(Status::Complete) => result,
            Ok(_) => {
                // An existing file is as it should be: its empty part goes.
                self.sink.leave(&self.identity).await.and(result)
            }
            Err(_) => {
                // The first error says more than one about the part.
                let _ = self.sink.leave(&self.identity).await;
                result
            }
        }
    }

    async fn drive(&mut self) -> Result<Status, Error> {
        if self.exists && self.client.options.skip_existing {
            return Ok(Status::Skipped);
        }
        let (mut failures, mut restarts, mut mismatches) = (0, 0, 0);
        let mut mark = self.sink.held();
        loop {
            self.attempts += 1;
            self.target.ways.begin(self.progress.held());
            let attempted = self.attempt().await;
            if matches!(attempted, Ok(_) | Err(Trouble::Continue | Trouble::Restart(_))) {
                self.tell_chooser(self.client.options.done());
            }
            let trouble = match attempted {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => match self.completed().await {
                    Ok(()) => return Ok(Status::Complete),
                    Err(error @ Error::Digest { .. }) if mismatches == 0 && !self.is_stream() => {
                        mismatches += 1;
                        self.begin_again(&error.to_string())?;
                        continue;
                    }
                    Err(error) => return self.end(error).await,
                },
                Err(trouble) => trouble,
            };
            let (error, asked, next) = match trouble {
                Trouble::Final(error) => return self.end(error).await,
                // Each time a gap less, or fewer connections that can leave gaps.
                Trouble::Continue => continue,
                Trouble::Restart(why) if self.sink.is_for_range() => return Err(Error::Range(why)),
                Trouble::Restart(why) => {
                    restarts += 1;
                    if restarts > MAX_RESTARTS {
                        return Err(Error::Changing(why, restarts));
                    }
                    self.begin_again(&why)?;
                    continue;
                }
                Trouble::Slow(error) => {
                    let next = self.next_way(&error, true);
                    (error, None, next)
                }
                Trouble::OtherWay(error) => {
                    let next = self.next_way(&error, false);
                    (error, None, next)
                }
                Trouble::Retry(error, asked) => {
                    let is_silent = matches!(error, Error::Stalled(_) | Error::Connection(_));
                    if let Some(sender) = self.sender.take().filter(|_| is_silent) {
                        self.client.http.blame(&sender);
                    }
                    let held = self.sink.held();
                    let next =
                        if self.can_resume() && held.saturating_sub(mark) >= self.real_progress() {
                            // The route has done its part, and is used again.
                            self.tell_chooser(AttemptEnd::Doubtful);
                            (failures, mark) = (0, held);
                            Next::Again
                        } else {
                            self.next_way(&error, true)
                        };
                    (error, asked, next)
                }
            };
            match next {
                Next::Another => continue,
                Next::Nothing => return self.end(error).await,
                Next::Again => failures += 1,
            }
            if failures > self.client.options.retries {
                return Err(error);
            }
            self.wait(&error, asked, failures).await;
        }
    }

    fn tell_chooser(&self, end: AttemptEnd) {
        self.target.ways.ended(&*self.client.chooser, &self.progress, end);
    }

    /// The way in use has failed without real progress.
    fn next_way(&mut self, error: &Error, may_help: bool) -> Next {
        self.target.ways.failed(&*self.client.chooser, &self.progress, error, may_help)
    }

    /// A permanent failure. A part with the wrong digest is removed.
    async fn end(&mut self, error: Error) -> Result<Status, Error> {
        if let (Error::Digest { .. }, Sink::File(part)) = (&error, &mut self.sink) {
            part.remove().await?;
        }
        Err(error)
    }

    fn begin_again(&mut self, why: &str) -> Result<(), Error> {
        if self.is_stream() && self.sink.held() > 0 {
            return Err(Error::Written(why.to_owned()));
        }
        self.progress.note(format!("begins again: {why}"));
        self.from_zero = true;
        Ok(())
    }

    async fn wait(&self, error: &Error, asked: Option<Duration>, failures: u32) {
        let options = &self.client.options;
        let own =
            BackOff::new(options.first_wait, options.longest_wait).jittered(failures, chance());
        let wait = asked.unwrap_or(own);
        self.progress.note(format!("{error}; tries again in {:.1} s", wait.as_secs_f64()));
        tokio::time::sleep(wait).await;
    }

    fn is_stream(&self) -> bool {
        matches!(self.sink, Sink::Stream(_))
    }

    /// Whether a later attempt can go on where this one ended.
    pub(crate) fn can_resume(&self) -> bool {
        !self.without_ranges && !self.from_zero && self.identity.validators.strong().is_some()
    }

    fn real_progress(&self) -> u64 {
        let part = self.identity.total.map(|total| total.div_ceil(PROGRESS_PART));
        part.unwrap_or(PROGRESS_BYTES).clamp(1, PROGRESS_BYTES)
    }

    /// The digests that the whole file must have, each with its source. None applies to a range.
    pub(crate) fn expected(&self) -> Vec<(&'static str, Digest)> {
        if self.sink.is_for_range() {
            return Vec::new();
        }
        let asked = self.asked_digest.iter().map(|digest| ("--digest", digest.clone()));
        let server = self.server_digest.iter();
        asked.chain(server.map(|digest| ("the server's digest", digest.clone()))).collect()
    }

    /// Begins the digests that will be needed, of the whole file.
    pub(crate) fn start_digests(&mut self) {
        if self.sink.is_for_range() {
            return;
        }
        let wanted: Vec<_> = self.expected().iter().map(|(_, digest)| digest.algorithm()).collect();
        let always = self.client.options.report_digest || self.is_stream();
        let always = (always && wanted.is_empty()).then_some(Algorithm::Sha256);
        for algorithm in wanted.into_iter().chain(always) {
            if !self.running.iter().any(|running| running.algorithm() == algorithm) {
                self.running.push(RunningDigest::new(algorithm));
            }
        }
    }

    /// Has the digests take what is in the file already, up to `end`.
    pub(crate) async fn catch_up(&mut self, end: u64) -> Result<(), Error> {
        let Sink::File(part) = &self.sink else {
            self.running.iter_mut().for_each(|digest| self.sink.digest_memory(digest, end));
            return Ok(());
        };
        let (file, path) = part.reader();
        let mut running = std::mem::take(&mut self.running);
        let read = tokio::task::spawn_blocking(move || {
            let read = running.iter_mut().try_for_each(|digest| digest.read_to(&file, &path, end));
            read.map(|()| running)
        });
        let lost = |error| Error::Usage(format!("the digest could not be made: {error}"));
        self.running = read.await.map_err(lost)??;
        Ok(())
    }

    /// The same, whose time is the disk's.
    async fn completed(&mut self) -> Result<(), Error> {
        let result = self.complete().await;
        self.spent.mark(Spent::Here, self.sink.cause());
        result
    }

    /// Checks the whole file and gives it its name.
    async fn complete(&mut self) -> Result<(), Error> {
        let total = self.sink.held();
        self.start_digests();
        self.catch_up(total).await?;
        let whole = |running: &&RunningDigest| running.at == total;
        let made: Vec<_> = self.running.iter().filter(whole).map(RunningDigest::digest).collect();
        self.verified =
            made.first().map(|digest| ReportedDigest { digest: digest.clone(), verified: false });
        for (whose, expected) in self.expected() {
            let same = |made: &&Digest| made.algorithm() == expected.algorithm();
            // A stream's digest of another algorithm could not be begun in time.
            let Some(found) = made.iter().find(same) else { continue };
            if *found != expected {
                return Err(Error::Digest { whose, expected, found: found.clone() });
            }
            self.verified = Some(ReportedDigest { digest: expected, verified: true });
        }
        if let Sink::File(part) = &mut self.sink {
            part.finish(total, self.modified, self.client.options.overwrite).await?;
        }
        self.progress.set(total, Some(total));
        Ok(())
    }

    /// Adds what limited it to a report.
    pub(crate) async fn tell_limits(&mut self, report: &mut Report) {
        if !matches!(report.result, Ok(Status::Complete)) {
            return;
        }
        let receipts = match &self.receipts {
            Some(url) => self.client.http.receipts(url).await,
            None => Vec::new(),
        };
        report.limits = self.spent.end(receipts, Flow::Down);
    }

    /// Adds what was done to a report.
    pub(crate) fn tell(&mut self, report: &mut Report) {
        report.bytes = self.progress.held();
        report.resumed_bytes = self.resumed.min(report.bytes);
        report.first_byte_seconds = self.first_byte.map(|time| time.as_secs_f64());
        report.attempts = self.attempts;
        report.connections = self.connections;
        report.hops = self.hops;
        report.via = self.target.ways.via();
        report.digest = self.verified.take();
    }

    /// Records that the bytes of an earlier process were discarded.
    pub(crate) fn forget_resumed(&mut self) {
        self.resumed = 0;
    }
}
