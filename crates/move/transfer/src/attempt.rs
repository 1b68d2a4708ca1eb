// SPDX-License-Identifier: GPL-2.0-or-later
//! One attempt: a request, and the bytes of its answer.
//!
//! ```text
//! held, strong validator   Range: bytes=(held - overlap)-, If-Range ──▶ 206: compare, go on
//!                                                                  └──▶ else: from zero
//! else                     the whole                               ───▶ 200
//! ```
//! [`accept`] decides what of an answer is used.

use crate::{
    DigestArg, Error, Status,
    accept::{Asked, End, Use, accept},
    answer::{Answer, Framing, promised},
    ending::{is_end, reported_failure},
    error::Trouble,
    find::Goal,
    get::Transfer,
    http::{Wanted, refusal},
    network_watch::NetworkWatch,
    own_limits::Spent,
    part::Identity,
    retry_timing::{RateLimit, StallWatch},
    sink::Sink,
    team::{Shared, Team},
};
use bytes::Bytes;
use http::HeaderMap;
use http_body_util::BodyExt;
use limits::Cause;
use protocol::digest::Digest;
use reqwest::Body;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::timeout;

/// How often a body may end at the same byte.
const SAME_END: u32 = 3;

/// A range that is asked for.
#[derive(Debug, Clone, Copy)]
struct Resume {
    start: u64,
    end: Option<u64>,
    /// So many bytes from `start` are held already.
    overlap: u64,
}

/// The part of the file that a body fills.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fill {
    pub from: u64,
    pub end: Option<u64>,
    pub overlap: u64,
}

impl Transfer<'_> {
    /// Asks once. Nothing in the result: all bytes are held.
    pub(crate) async fn attempt(&mut self) -> Result<Option<Status>, Trouble> {
        if self.exists {
            return self.compare_existing().await.map(Some);
        }
        if matches!(self.goal, Goal::Properties(_)) {
            return self.find().await.map(Some);
        }
        self.connections = self.connections.max(1);
        self.progress.set_connections(1);
        let resume = self.resume();
        if resume.is_some() {
            self.start_digests();
            let held = self.sink.first_gap(self.identity.total);
            let prefix = held.map_or(self.sink.held(), |gap| gap.start);
            self.catch_up(prefix).await?;
        }
        let validator = self.identity.validators.strong();
        let wanted = match resume {
            Some(Resume { start, end, .. }) => {
                // To the end without naming it, which is what servers know best.
                let end = end.filter(|_| end != self.identity.total);
                Wanted { range: Some((start, end)), validator, ..Wanted::default() }
            }
            None => Wanted::default(),
        };
        let answered = self.client.http.get(&self.target, wanted).await;
        self.spent.mark(Spent::Network, Cause::Connecting);
        let (answer, body) = answered?;
        self.receipts.clone_from(&answer.receipts);
        let watched = answer.sockets.filter(|_| self.client.options.receipts);
        self.network = watched.and_then(NetworkWatch::new);
        self.hops = answer.hops;
        self.sender.clone_from(&answer.sender);
        self.progress.set_hops(answer.hops);
        let range = resume.map(|resume| (resume.start, resume.end));
        match (accept(&self.asked(range), &answer), resume) {
            (Use::Whole(_), _) if self.sink.is_for_range() => {
                Err(Trouble::Restart("the server sends the whole file instead".to_owned()))
            }
            (Use::Whole(end), _) => self.whole(answer, body, end).await,
            (Use::Part { end, total }, Some(resume)) => {
                self.part(answer, body, resume, (end, total)).await
            }
            (Use::Beyond(_), _) => Err(Trouble::Restart("the server has no such range".to_owned())),
            (Use::OtherVersion(why), _) => Err(Trouble::Restart(why.to_owned())),
            (Use::NoRanges(why), _) => {
                self.without_ranges = true;
                Err(Trouble::Restart(why.to_owned()))
            }
            (Use::Contradiction(why), _) => Err(Trouble::retry(Error::Answer(why))),
            (Use::NoFile | Use::Part { .. }, _) => Err(refusal(&answer, body).await),
        }?;
        if !self.sink.is_full(self.identity.total) {
            return Err(Trouble::Restart("the server has fewer bytes than it sent".to_owned()));
        }
        Ok(None)
    }

    /// A request, and what is known so far.
    pub(crate) fn asked(&self, range: Option<(u64, Option<u64>)>) -> Asked<'_> {
        let (known, digest) = (&self.identity, self.server_digest.as_ref());
        Asked { range, known, digest, lengths: &self.lengths }
    }

    /// Where to go on, if that is allowed.
    fn resume(&self) -> Option<Resume> {
        let begins = self.sink.held() == 0 || !self.can_resume();
        if begins && !self.sink.is_for_range() {
            return None;
        }
        let total = self.identity.total;
        let (place, end) = match self.sink.first_gap(total) {
            Some(gap) => (gap.start, gap.end),
            // All is there, and has not been compared: an earlier process left it.
            None => (total?, total),
        };
        let overlap = self.sink.overlap_before(place);
        Some(Resume { start: place - overlap, end, overlap })
    }

    /// Takes an answer with the whole file.
    async fn whole(&mut self, answer: Answer, body: Body, end: End) -> Result<(), Trouble> {
        self.check_encoding(&answer)?;
        self.check_promise(&answer)?;
        let total = if let End::At(total) = end { Some(total) } else { None };
        self.check_size(total.unwrap_or(0))?;
        self.sink.reset().await?;
        self.forget_resumed();
        self.sink.check_space(total.unwrap_or(0))?;
        self.begin_version(&answer, total);
        let fill = Fill { from: 0, end: total, overlap: 0 };
        let team = self.team(answer.may_be_split, 0, total);
        let (length, trailers) = self.receive(body, fill, answer.framing, team.as_ref()).await?;
        if let Some(team) = team {
            self.finish_team(team, length).await?;
            return if self.sink.first_gap(total).is_some() {
                Err(Trouble::Continue)
            } else {
                Ok(())
            };
        }
        if total.is_some_and(|total| total != length) {
            return Err(self.ended_early(length, total));
        }
        self.take_trailers(trailers.as_ref(), true);
        if end == End::Unproven {
            self.prove_end(length).await?;
        }
        self.lengths.learn(&self.identity.validators, length);
        self.identity.total = Some(length);
        Ok(())
    }

    /// Notes the properties of a version of which the first byte is awaited.
    fn begin_version(&mut self, answer: &Answer, total: Option<u64>) {
        // The same version keeps its digest, also where the server does not repeat it.
        let known = std::mem::take(&mut self.identity);
        let same =
            known.url == self.target.shown && known.validators.same_version(&answer.validators);
        let kept = known.digest.filter(|_| same).and_then(|text| text.parse::<DigestArg>().ok());
        self.from_zero = false;
        self.modified = answer.modified;
        self.server_digest = answer.digest.clone().or(kept.map(|kept| kept.0));
        self.running.clear();
        self.identity = Identity {
            url: self.target.shown.clone(),
            validators: answer.validators.clone(),
            total,
            digest: self.server_digest.as_ref().map(digest_text),
            encoding: answer.encoding.clone(),
        };
        if let Some(total) = total {
            self.lengths.learn(&answer.validators, total);
        }
        self.start_digests();
    }

    /// Takes an answer with a range of the file: its end, and the file's length.
    async fn part(
        &mut self,
        answer: Answer,
        body: Body,
        asked: Resume,
        (end, total): (u64, u64),
    ) -> Result<(), Trouble> {
        self.check_size(total)?;
        self.sink.check_space(total)?;
        self.modified = answer.modified.or(self.modified);
        self.identity.total = Some(total);
        self.lengths.learn(&self.identity.validators, total);
        if self.server_digest.is_none() {
            self.server_digest = answer.digest;
        }
        let fill = Fill { from: asked.start, end: Some(end), overlap: asked.overlap };
        let team = self.team(answer.may_be_split, asked.start + asked.overlap, Some(end));
        let (place, trailers) = self.receive(body, fill, answer.framing, team.as_ref()).await?;
        match team {
            Some(team) => self.finish_team(team, place).await?,
            None if place != end => return Err(self.ended_early(place, Some(end))),
            None => self.take_trailers(trailers.as_ref(), false),
        }
        let filled = asked.end.unwrap_or(total) == end;
        if self.sink.first_gap(Some(total)).is_some() {
            if filled {
                return Err(Trouble::Continue);
            }
            // The server may send less than was asked for, and later more.
            let error = Error::Answer("the server sends only parts of what it is asked for".into());
            return Err(Trouble::Retry(error, Some(Duration::ZERO)));
        }
        Ok(())
    }

    /// Receives a body: the place after its last byte, and its trailers.
    async fn receive(
        &mut self,
        mut body: Body,
        fill: Fill,
        framing: Framing,
        team: Option<&Team>,
    ) -> Result<(u64, Option<HeaderMap>), Trouble> {
        let options = &self.client.options;
        let mut watch = StallWatch::new(options.stall_time, options.min_rate);
        if options.limit_rate.is_none() {
            let (held, total) = (self.progress.held(), self.identity.total);
            self.target.ways.watch(&*self.client.chooser, held, total);
        }
        let (mut place, mut trailers) = (fill.from, None);
        // Since when nothing has come.
        let mut silent_since = None;
        loop {
            if self.target.ways.is_too_slow(self.progress.held()) {
                return Err(too_slow());
            }
            let waiting = *silent_since.get_or_insert_with(Instant::now);
            let left = watch.patience().saturating_sub(waiting.elapsed());
            let patience = self.target.ways.patience(left);
            let frame = timeout(patience, body.frame()).await;
            let cause = self.network.as_mut().map_or(Cause::OtherHop, NetworkWatch::cause);
            self.spent.mark(Spent::Network, cause);
            let frame = match frame {
                Ok(Some(Ok(frame))) => frame,
                // TLS without a goodbye ends like a connection without TLS, which proves nothing.
                Ok(Some(Err(error))) if framing == Framing::UntilClose && is_end(&error) => {
                    return Ok((place, trailers));
                }
                Ok(Some(Err(error))) if is_end(&error) => {
                    return Err(self.ended_early(place, fill.end));
                }
                Ok(Some(Err(error))) => return Err(broken(&error)),
                Ok(None) => return Ok((place, trailers)),
                Err(_) if waiting.elapsed() < watch.patience() => continue,
                Err(_) => return Err(stalled(0, watch.patience())),
            };
            silent_since = None;
            let data = match frame.into_data() {
                Ok(data) => data,
                Err(frame) => {
                    trailers = frame.into_trailers().ok();
                    if let Some(why) = trailers.as_ref().and_then(reported_failure) {
                        return Err(self.failed_at_server(&why, fill.end == Some(place)).await);
                    }
                    continue;
                }
            };
            if data.is_empty() {
                continue;
            }
            let watched = watch.came(data.len(), waiting.elapsed());
            self.first_byte.get_or_insert_with(|| self.started.elapsed());
            let Some(team) = team else {
                place = self.take(place, data, fill).await?;
                watched.map_err(|came| stalled(came, watch.patience()))?;
                continue;
            };
            // What follows is another connection's.
            let (data, full) = team.own().clip(place, data);
            place = self.take(place, data, fill).await?;
            team.own().reached(place);
            // At the file's own end the connection may serve the next file.
            if full && fill.end != Some(place) {
                return Ok((place, None));
            }
            watched.map_err(|came| stalled(came, watch.patience()))?;
        }
    }

    /// Takes bytes that came for `place`.
    async fn take(&mut self, mut place: u64, data: Bytes, fill: Fill) -> Result<u64, Trouble> {
        if fill.end.is_some_and(|end| place + data.len() as u64 > end) {
            return Err(Trouble::Restart("the server sent more than it said".to_owned()));
        }
        self.check_size(place + data.len() as u64)?;
        let client = self.client;
        let piece = client.limit.as_deref().map_or(usize::MAX, RateLimit::piece);
        for piece in data.chunks(piece) {
            if let Some(limit) = &client.limit {
                tokio::time::sleep(limit.take(piece.len())).await;
                self.spent.mark(Spent::Here, Cause::RateLimit);
            }
            let known = (fill.from + fill.overlap).saturating_sub(place);
            let known = usize::try_from(known).unwrap_or(usize::MAX).min(piece.len());
            let (again, new) = piece.split_at(known);
            if !again.is_empty() && !self.sink.matches(place, again)? {
                return Err(Trouble::Restart(
                    "the server sends other bytes than before".to_owned(),
                ));
            }
            place += again.len() as u64;
            if new.is_empty() {
                continue;
            }
            let written = self.sink.write(place, new).await;
            self.spent.moved(new.len() as u64);
            self.spent.mark(Spent::Here, self.sink.cause());
            written?;
            for running in self.running.iter_mut().filter(|running| running.at == place) {
                running.update(new);
            }
            place += new.len() as u64;
            self.progress.set(self.sink.held(), self.identity.total);
        }
        // Digests, which this machine's processor makes.
        self.spent.mark(Spent::Here, Cause::Receiver);
        self.sink.checkpoint_if_due(&self.identity);
        Ok(place)
    }

    /// More connections for what comes from `place` to `end`, where that is allowed.
    fn team(&self, may_be_split: bool, place: u64, end: Option<u64>) -> Option<Team> {
        let Sink::File(part) = &self.sink else { return None };
        let most = self.most_connections;
        if !may_be_split || most < 2 || self.client.limit.is_some() || !self.can_resume() {
            return None;
        }
        let shared = Shared {
            http: Arc::clone(&self.client.http),
            target: self.target.clone(),
            identity: self.identity.clone(),
            digest: self.server_digest.clone(),
            lengths: self.lengths.clone(),
            writer: part.writer().clone(),
            progress: Arc::clone(&self.progress),
            stall_time: self.client.options.stall_time,
            min_rate: self.client.options.min_rate,
        };
        let end = end.filter(|end| end.saturating_sub(place) >= Team::SMALLEST)?;
        Some(Team::start(shared, place, end, most))
    }

    /// Waits for the other connections.
    async fn finish_team(&mut self, mut team: Team, place: u64) -> Result<(), Trouble> {
        let short = !team.own().is_full(place);
        let alone = team.most() < 2;
        while !short && !alone && !team.has_ended_within(Duration::from_millis(100)).await {
            self.sink.checkpoint_if_due(&self.identity);
        }
        self.connections = self.connections.max(team.most());
        if team.has_failures() {
            self.most_connections = (team.most() / 2).max(1) as usize;
        }
        self.progress.set_connections(1);
        if let Some(why) = team.server_failure() {
            return Err(self.failed_at_server(&why, true).await);
        }
        if short { Err(self.ended_early(place, None)) } else { Ok(()) }
    }

    /// A body ended before its end. If that happens at the same byte again and again, another attempt will not help.
    fn ended_early(&mut self, place: u64, end: Option<u64>) -> Trouble {
        let again = matches!(self.ended_at, Some((before, _)) if before == place);
        let times = self.ended_at.filter(|_| again).map_or(1, |(_, times)| times + 1);
        self.ended_at = Some((place, times));
        let announced =
            end.map_or(String::new(), |end| format!(" of the {end} that the server announces"));
        let text = format!("the body ended after {place} bytes{announced}");
        if times < SAME_END {
            return Trouble::retry(Error::Connection(text));
        }
        let text =
            format!("{text}, {times} times. The file at the server may be shorter than it says");
        Trouble::Final(Error::Connection(text))
    }

    /// The trailers say that the server failed. A body that seems to be whole is discarded, as nothing shows which of
    /// its bytes are wrong.
    async fn failed_at_server(&mut self, why: &str, seems_whole: bool) -> Trouble {
        let error = Error::Answer(format!("it ends with a report of failure: {why}"));
        if !seems_whole && self.identity.total.is_some() {
            return Trouble::retry(error);
        }
        self.from_zero = true;
        self.forget_resumed();
        match self.sink.reset().await {
            Ok(()) => Trouble::retry(error),
            Err(_) => Trouble::Final(Error::Written(error.to_string())),
        }
    }

    fn take_trailers(&mut self, trailers: Option<&HeaderMap>, whole: bool) {
        if let Some(digest) = trailers.and_then(|trailers| promised(trailers, whole)) {
            self.server_digest.get_or_insert(digest);
        }
    }

    fn check_size(&self, length: u64) -> Result<(), Error> {
        match self.client.options.max_size {
            Some(most) if length > most.get() => Err(Error::TooLarge(most)),
            _ => Ok(()),
        }
    }

    /// An encoded body is the file only where its name says so.
    pub(crate) fn check_encoding(&self, answer: &Answer) -> Result<(), Error> {
        let Some(encoding) = &answer.encoding else { return Ok(()) };
        if self.client.options.save_encoded || is_named_for(&self.name, encoding) {
            return Ok(());
        }
        Err(Error::Encoded(crate::printable(encoding, 40)))
    }

    /// A server that promises something else than is wanted need not send it.
    fn check_promise(&self, answer: &Answer) -> Result<(), Error> {
        match (&self.asked_digest, &answer.digest) {
            (Some(expected), Some(found))
                if expected.algorithm() == found.algorithm() && expected != found =>
            {
                Err(Error::OtherDigest { expected: expected.clone(), found: found.clone() })
            }
            _ => Ok(()),
        }
    }
}

/// A digest as [`crate::DigestArg`] reads it.
fn digest_text(digest: &Digest) -> String {
    digest.to_string().replacen(':', "=", 1)
}

/// Whether a file of this name is stored in this coding.
fn is_named_for(name: &str, encoding: &str) -> bool {
    let suffixes: &[&str] = match encoding {
        "gzip" | "x-gzip" => &[".gz", ".tgz", ".svgz"],
        "br" => &[".br"],
        "zstd" => &[".zst", ".tzst"],
        "compress" | "x-compress" => &[".z"],
        "bzip2" | "x-bzip2" => &[".bz2", ".tbz2"],
        "xz" | "x-xz" => &[".xz", ".txz"],
        _ => &[],
    };
    let name = name.to_ascii_lowercase();
    suffixes.iter().any(|suffix| name.ends_with(suffix))
}

fn broken(error: &reqwest::Error) -> Trouble {
    Trouble::retry(Error::connection("the connection broke", error))
}

/// The pace of late is far below what another route is expected to have.
fn too_slow() -> Trouble {
    Trouble::Slow(Error::Stalled("far slower than expected".to_owned()))
}

fn stalled(came: u64, time: Duration) -> Trouble {
    Trouble::retry(Error::Stalled(format!("{came} bytes in {:.1} s", time.as_secs_f64())))
}

#[cfg(test)]
mod tests {
    use super::is_named_for;

    #[test]
    fn coding_is_the_files_own_only_by_its_name() {
        assert!(is_named_for("a.tar.GZ", "gzip"));
        assert!(is_named_for("a.tgz", "x-gzip"));
        assert!(!is_named_for("a.tar", "gzip"));
        assert!(!is_named_for("a.gz", "br"));
        assert!(!is_named_for("a.gz", "gzip, gzip"));
    }
}
