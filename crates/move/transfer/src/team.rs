// SPDX-License-Identifier: GPL-2.0-or-later
//! More connections for one file, where they help.
//!
//! ```text
//! one connection ──▶ more than 3 s left? ──▶ another one, for half of the largest rest
//!                          ▲                      │ 20 % faster a second later
//!                          └──────────────────────┘ else: no more
//! ```
//! While the rate still rises, in slow start, nothing is decided: the remaining time seems long then, and another
//! connection would lose packets to the first.
//!
//! A connection that has brought its part gets half of the largest rest. One that fails leaves its rest to the others,
//! or to a later attempt: the team stays smaller after that. Each range is checked as a resumed one is.
//! Differs: nothing is held before a new range, so no bytes are compared.

use crate::{
    Progress,
    accept::{Asked, Lengths, Use, accept},
    answer::{Answer, Framing},
    ending,
    http::{Http, Target, Wanted},
    part::{Identity, PartWriter},
    retry_timing::StallWatch,
};
use bytes::Bytes;
use http_body_util::BodyExt;
use protocol::digest::Digest;
use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use units::Rate;

/// Minimum remaining time for which another connection is opened.
const WORTH_IT: Duration = Duration::from_secs(3);
/// How long a new connection has to show that it helps; the rate is that of the second half.
const TRIAL: Duration = Duration::from_secs(1);
/// How much faster it must get, in percent; and how much faster the second half of a trial is than the first while
/// the rate rises.
const GAIN: u64 = 120;
/// How many failures end the use of further connections.
const MAX_FAILURES: u32 = 3;

/// State shared by all connections.
#[derive(Debug)]
pub(crate) struct Shared {
    pub http: Arc<Http>,
    pub target: Target,
    pub identity: Identity,
    pub digest: Option<Digest>,
    pub lengths: Lengths,
    pub writer: PartWriter,
    pub progress: Arc<Progress>,
    pub stall_time: Duration,
    pub min_rate: Rate,
}

/// The part of the file that a connection brings. Its end moves down when it is divided.
#[derive(Debug)]
pub(crate) struct Segment {
    next: AtomicU64,
    end: AtomicU64,
}

impl Segment {
    fn new(next: u64, end: u64) -> Arc<Self> {
        Arc::new(Self { next: AtomicU64::new(next), end: AtomicU64::new(end) })
    }

    /// The bytes that belong here, and whether no more do.
    pub(crate) fn clip(&self, place: u64, mut data: Bytes) -> (Bytes, bool) {
        let room = self.end.load(Ordering::Relaxed).saturating_sub(place);
        let full = data.len() as u64 >= room;
        data.truncate(usize::try_from(room).unwrap_or(usize::MAX));
        (data, full)
    }

    /// All bytes before `place` are there.
    pub(crate) fn reached(&self, place: u64) {
        self.next.store(place, Ordering::Relaxed);
    }

    pub(crate) fn is_full(&self, place: u64) -> bool {
        place >= self.end.load(Ordering::Relaxed)
    }

    fn left(&self) -> u64 {
        let next = self.next.load(Ordering::Relaxed);
        self.end.load(Ordering::Relaxed).saturating_sub(next)
    }

    /// Takes the whole rest of a connection that failed, if it follows what is still to come here.
    fn take_back(&self, rest: &Self) -> bool {
        let follows = rest.next.load(Ordering::Relaxed) == self.end.load(Ordering::Relaxed);
        let adopts = follows && self.left() > 0;
        if adopts {
            self.end.store(rest.end.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        adopts
    }

    /// Splits off the second half of the remaining range.
    fn divide(&self) -> Arc<Self> {
        let end = self.end.load(Ordering::Relaxed);
        let middle = end - self.left() / 2;
        self.end.store(middle, Ordering::Relaxed);
        Self::new(middle, end)
    }
}

/// Statistics of the connections while they work.
#[derive(Debug, Default)]
struct Told {
    most: AtomicU32,
    failed: AtomicBool,
    /// What a server's trailers said of a range that seems to be whole.
    server_failure: OnceLock<String>,
}

/// The connections other than the first one. Dropping this ends them.
#[derive(Debug)]
pub(crate) struct Team {
    own: Arc<Segment>,
    told: Arc<Told>,
    conductor: JoinHandle<()>,
}

impl Team {
    /// No part is divided that is smaller.
    pub(crate) const SMALLEST: u64 = 2_000_000;

    /// Watches the first connection, which brings the bytes from `place` to `end`, and adds others.
    pub(crate) fn start(shared: Shared, place: u64, end: u64, most: usize) -> Self {
        let (own, told) = (Segment::new(place, end), Arc::new(Told::default()));
        let conductor = Conductor {
            shared: Arc::new(shared),
            segments: vec![Arc::clone(&own)],
            orphans: Vec::new(),
            workers: JoinSet::new(),
            allowed: 1,
            most,
            failures: 0,
            told: Arc::clone(&told),
        };
        told.most.store(1, Ordering::Relaxed);
        Self { own, told, conductor: tokio::spawn(conductor.run()) }
    }

    /// The first connection's part.
    pub(crate) fn own(&self) -> &Segment {
        &self.own
    }

    /// The largest number of connections at one time.
    pub(crate) fn most(&self) -> u32 {
        self.told.most.load(Ordering::Relaxed)
    }

    pub(crate) fn has_failures(&self) -> bool {
        self.told.failed.load(Ordering::Relaxed)
    }

    /// A failure that a server reported behind bytes that are held.
    pub(crate) fn server_failure(&self) -> Option<String> {
        self.told.server_failure.get().cloned()
    }

    /// Waits for the end of all others.
    pub(crate) async fn has_ended_within(&mut self, time: Duration) -> bool {
        timeout(time, &mut self.conductor).await.is_ok()
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.conductor.abort();
    }
}

/// Measurement of the rate for a while.
struct Trial {
    /// Bytes a second in its second half.
    rate: u64,
    /// Whether the first half was much slower.
    rises: bool,
}

/// Decides how many connections there are.
struct Conductor {
    shared: Arc<Shared>,
    /// Of the connections at work, the first one's at first.
    segments: Vec<Arc<Segment>>,
    /// Left by connections that failed.
    orphans: Vec<Arc<Segment>>,
    workers: JoinSet<(Arc<Segment>, Result<(), String>)>,
    /// How many connections there may be now.
    allowed: usize,
    most: usize,
    failures: u32,
    told: Arc<Told>,
}

impl Conductor {
    async fn run(mut self) {
        let (mut growing, mut before) = (true, None);
        while !self.is_done() {
            let Trial { rate, rises } = self.trial().await;
            if self.is_done() {
                break;
            }
            let settled = !rises;
            if settled && growing && before.is_some_and(|before| rate * 100 < before * GAIN) {
                growing = false;
            }
            let left: u64 = self.segments.iter().map(|segment| segment.left()).sum();
            let worth_it = left / rate.max(1) >= WORTH_IT.as_secs();
            if settled && growing && worth_it && self.allowed < self.most && self.failures == 0 {
                before = Some(rate);
                self.allowed += 1;
            }
            self.fill_up();
        }
    }

    /// Whether nothing is left that this task could do: the first connection has its part, the others theirs.
    fn is_done(&mut self) -> bool {
        self.segments.retain(|segment| segment.left() > 0);
        self.segments.is_empty() && self.workers.is_empty()
    }

    /// Waits for a while, and sees what comes.
    async fn trial(&mut self) -> Trial {
        let first = self.rate_for(TRIAL / 2).await;
        let rate = self.rate_for(TRIAL / 2).await;
        Trial { rate, rises: rate * 100 > first * GAIN }
    }

    /// Bytes a second in the time to come.
    async fn rate_for(&mut self, time: Duration) -> u64 {
        let before = self.shared.writer.ranges().held();
        let started = Instant::now();
        self.work_until(started + time).await;
        let came = self.shared.writer.ranges().held().saturating_sub(before);
        (came as f64 / started.elapsed().as_secs_f64().max(1e-3)) as u64
    }

    async fn work_until(&mut self, time: Instant) {
        while Instant::now() < time && !self.is_done() {
            // The first connection has no task here: its end is noticed in the next slice.
            let slice = (time - Instant::now()).min(Duration::from_millis(50));
            let Ok(Some(ended)) = timeout(slice, self.workers.join_next()).await else {
                if self.workers.is_empty() {
                    tokio::time::sleep(slice).await;
                }
                continue;
            };
            let Ok((segment, result)) = ended else { continue };
            self.segments.retain(|other| !Arc::ptr_eq(other, &segment));
            if let Err(why) = result {
                self.failures += 1;
                self.allowed = (self.allowed - 1).max(1);
                self.told.failed.store(true, Ordering::Relaxed);
                self.shared.progress.note(format!("a connection less: {why}"));
                if !self.segments.iter().any(|other| other.take_back(&segment)) {
                    self.orphans.push(segment);
                }
            }
            self.fill_up();
        }
    }

    /// Starts connections up to the number that is allowed.
    fn fill_up(&mut self) {
        self.segments.retain(|segment| segment.left() > 0);
        while self.segments.len() < self.allowed && self.failures < MAX_FAILURES {
            let Some(segment) = self.next_segment() else { break };
            self.segments.push(Arc::clone(&segment));
            let (shared, told) = (Arc::clone(&self.shared), Arc::clone(&self.told));
            self.workers.spawn(async move {
                let result = bring(&shared, &segment, &told).await;
                (segment, result)
            });
        }
        let now = u32::try_from(self.segments.len()).unwrap_or(u32::MAX);
        self.told.most.fetch_max(now, Ordering::Relaxed);
        self.shared.progress.set_connections(now);
    }

    fn next_segment(&mut self) -> Option<Arc<Segment>> {
        if let Some(orphan) = self.orphans.pop() {
            return Some(orphan);
        }
        let largest = self.segments.iter().max_by_key(|segment| segment.left())?;
        (largest.left() >= Team::SMALLEST).then(|| largest.divide())
    }
}

/// Brings a segment over a connection of its own.
async fn bring(shared: &Shared, segment: &Segment, told: &Told) -> Result<(), String> {
    let start = segment.next.load(Ordering::Relaxed);
    let end = Some(segment.end.load(Ordering::Relaxed));
    let validator = shared.identity.validators.strong();
    let wanted = Wanted { range: Some((start, end)), validator, ..Wanted::default() };
    let asked = shared.http.get(&shared.target, wanted).await;
    let (answer, mut body) = asked.map_err(|trouble| trouble.to_string())?;
    let last = last_byte(shared, &answer, start, end)?;
    let mut watch = StallWatch::new(shared.stall_time, shared.min_rate);
    let mut place = start;
    // Trailers follow the last chunk.
    while place < last || answer.framing == Framing::Chunked {
        let waiting = Instant::now();
        let frame = timeout(watch.patience(), body.frame()).await;
        let Some(frame) = frame.map_err(|_| "it stalled".to_owned())? else { break };
        let data = match frame.map_err(|error| error.to_string())?.into_data() {
            Ok(data) => data,
            Err(frame) => match frame.trailers_ref().and_then(ending::reported_failure) {
                Some(why) => {
                    if place == last {
                        let _ = told.server_failure.set(why.clone());
                    }
                    return Err(why);
                }
                None => continue,
            },
        };
        let watched = watch.came(data.len(), waiting.elapsed());
        if place + data.len() as u64 > last {
            return Err("it brought more than it said".to_owned());
        }
        let (data, full) = segment.clip(place, data);
        shared.writer.write(place, &data).map_err(|error| error.to_string())?;
        place += data.len() as u64;
        segment.reached(place);
        shared.progress.set(shared.writer.ranges().held(), shared.identity.total);
        if full && place < last {
            return Ok(());
        }
        watched.map_err(|_| "it was too slow".to_owned())?;
    }
    match (segment.is_full(place), place == last) {
        (true, _) => Ok(()),
        (false, true) => Err("it brought only a part".to_owned()),
        (false, false) => Err("it ended early".to_owned()),
    }
}

/// Whether the answer is the range that was asked for: its end.
fn last_byte(
    shared: &Shared,
    answer: &Answer,
    start: u64,
    end: Option<u64>,
) -> Result<u64, String> {
    let asked = Asked {
        range: Some((start, end)),
        known: &shared.identity,
        digest: shared.digest.as_ref(),
        lengths: &shared.lengths,
    };
    match accept(&asked, answer) {
        Use::Part { .. } if !answer.may_be_split => Err("it came through a depot".to_owned()),
        Use::Part { end, .. } => Ok(end),
        Use::OtherVersion(why) | Use::NoRanges(why) => Err(why.to_owned()),
        Use::Contradiction(why) => Err(why),
        Use::Whole(_) | Use::Beyond(_) | Use::NoFile => {
            Err(format!("the server answered {}", answer.status.as_u16()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_gives_half_of_its_rest_away() {
        let segment = Segment::new(0, 100);
        segment.reached(20);
        let other = segment.divide();
        assert_eq!((segment.left(), other.left()), (40, 40));
        let (data, full) = segment.clip(50, Bytes::from_static(&[0; 20]));
        assert_eq!((data.len(), full), (10, true));
        let (data, full) = segment.clip(20, Bytes::from_static(&[0; 20]));
        assert_eq!((data.len(), full), (20, false));
    }
}
