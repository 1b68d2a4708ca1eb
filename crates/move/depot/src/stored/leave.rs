// SPDX-License-Identifier: GPL-2.0-or-later
//! A stream is stored (docs/lsl.md, rule 13.5).
//!
//! ```text
//! session ── chunks ──▶ batch ── append (a thread that may wait) ──▶ data file
//!                          └── promise: at most once a second, after 64 MiB or 2 s ──▶ readers, and the sender after a restart
//! end of the stream ──▶ the last promise ──▶ DONE
//! ```
//! A sender that is too slow, or does not come back, leaves what is promised, and its reservation is given back.

use super::{
    job::{Job, blocking},
    leaving::Turn,
    outcome::{Refused, Stop},
    pace::Pace,
};
use ::session::{Beginning, Session, WholeDigest};
use bytes::Bytes;
use http::StatusCode;
use protocol::{
    session::{
        SessionId,
        request::{Kept, PublicKey},
    },
    ticket::UnixTime,
};
use relay::copy::minimum_rate::Meter;
use std::{
    future::{pending, ready},
    sync::Arc,
    time::{Duration, SystemTime},
};
use store::{AccessKey, Gone, NewSession, Promise, SessionInfo, Status, StoreError, Writer};
use tokio::time::{Instant, sleep_until};

/// How much is reserved at a time for a session that does not say how long it is.
const STEP: u64 = 64 << 20;
/// Bytes that one call of the disk stores.
const BATCH: usize = 4 << 20;
/// Bytes after which the next promise is due, once a second has passed.
const PROMISE_BYTES: u64 = 64 << 20;
/// The least time between two promises, and between two looks at what is due.
const SECOND: Duration = Duration::from_secs(1);
/// After this time a promise is due, whatever its bytes.
const PROMISE_TIME: Duration = Duration::from_secs(2);

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub session: SessionId,
    pub collector: PublicKey,
    pub bytes: Option<u64>,
    pub life: Duration,
}

/// A stream that is to be stored.
#[derive(Debug)]
pub(super) struct Leave {
    wanted: Wanted,
    /// What is there already, if the session continues.
    found: Option<SessionInfo>,
    received: Beginning,
    expires: SystemTime,
}

impl Leave {
    /// Finds what is there.
    pub(super) async fn prepare(
        job: &Job,
        wanted: Wanted,
        digest: Option<WholeDigest>,
    ) -> Result<Self, Stop> {
        let (id, now) = (wanted.session, SystemTime::now());
        if let (Some(bytes), Some(most)) = (wanted.bytes, job.grants.most)
            && bytes > most
        {
            let text = format!("the ticket is for at most {most} bytes, and these are {bytes}");
            return Err(Refused::new(StatusCode::FORBIDDEN, text).into());
        }
        let found = match job.store.own(id, &job.signer) {
            Ok(info) if info.expires <= now => return Err(StoreError::Gone(Gone::Expired).into()),
            Ok(info) => Some(info),
            Err(StoreError::Unknown) => None,
            Err(error) => return Err(error.into()),
        };
        if found.as_ref().is_some_and(|info| info.status == Status::Failed) {
            let text = "storing this session has failed: drop it, and leave it under another name";
            return Err(Refused::new(StatusCode::CONFLICT, text).into());
        }
        let length = found.as_ref().map_or(0, |info| info.length);
        let of = (id, job.signer);
        let received = job.stored.prefixes.of(&job.store, of, length, digest).await?;
        let latest = now.checked_add(wanted.life).unwrap_or(now);
        let expires = found.as_ref().map_or(latest, |info| info.expires);
        Ok(Self { wanted, found, received, expires })
    }

    pub(super) fn received(&self) -> Beginning {
        self.received.clone()
    }

    /// What the sender learns in WELCOME.
    pub(super) fn kept(&self) -> Kept {
        let complete = self.found.as_ref().filter(|info| info.status == Status::Complete);
        Kept {
            bytes: complete.map(|info| info.length),
            expires_s: UnixTime::from(self.expires).seconds(),
        }
    }

    /// Stores the stream of an initiator that has proved itself.
    pub(super) async fn serve(self, job: &Job, session: &Session) -> Result<(), Stop> {
        session.end();
        let turn = job.stored.leaving.take((self.wanted.session, job.signer)).await;
        if self.kept().bytes.is_some() {
            return confirm_complete(job, session).await;
        }
        let mut writer = self.writer(job).await?;
        // So that it is known to others, and there after a crash.
        let begun = blocking(move || {
            let promise = writer.promise();
            Ok((writer, promise))
        });
        let mut storing = Storing::new((job, session, &turn), begun.await?, self.wanted);
        let stored = storing.store().await;
        match &stored {
            Ok(()) => {}
            // The next one that writes begins behind what is promised.
            Err(Stop::Silent) => storing.await_promise().await,
            Err(Stop::Refused(_) | Stop::Lost(_)) => storing.settle().await,
        }
        stored
    }

    /// The end to write to: of a new session, or behind what is there.
    async fn writer(&self, job: &Job) -> Result<Writer, Stop> {
        let (store, wanted, signer) = (Arc::clone(&job.store), self.wanted, job.signer);
        if self.found.is_none() {
            job.stored.prefixes.forget(wanted.session);
            let account = job.grants.account;
            let create = move || {
                let new = NewSession {
                    id: wanted.session,
                    owner: signer,
                    collector: AccessKey(wanted.collector.0),
                    account,
                    reserved: units::Bytes::new(wanted.bytes.unwrap_or(0)),
                    life: wanted.life,
                    note: &[],
                    allowance: None,
                };
                store.create(&new, SystemTime::now())
            };
            return match blocking(create).await {
                // It belongs to another key, or a session that has not promised anything has just begun it.
                Err(StoreError::Exists) => Err(StoreError::Unknown.into()),
                created => Ok(created?),
            };
        }
        let length = self.received.length();
        let continued = blocking(move || {
            let mut writer = store.writer(wanted.session, &signer)?;
            // More was promised while the sender was answered.
            if writer.length() != length {
                return Ok(None);
            }
            if let Some(bytes) = wanted.bytes {
                writer.reserve(units::Bytes::new(bytes))?;
            }
            Ok(Some(writer))
        });
        // If not, the sender asks again, and finds that.
        continued.await?.ok_or(Stop::Silent)
    }
}

/// Of a session that is complete the sender has not heard so.
async fn confirm_complete(job: &Job, session: &Session) -> Result<(), Stop> {
    if session.chunk().await?.is_some() {
        return Err(StoreError::Ended.into());
    }
    job.done();
    Ok(session.confirm()?)
}

/// A stream on its way to the disk.
struct Storing<'s> {
    job: &'s Job,
    session: &'s Session,
    turn: &'s Turn,
    wanted: Wanted,
    /// Away while it is used by another thread. If that does not bring it back, the session takes no more bytes.
    writer: Option<Writer>,
    length: u64,
    /// Where this session has begun.
    from: u64,
    promised: u64,
    promise: Option<Promise<u64>>,
    last_promise: Instant,
    meter: Meter,
    next_look: Instant,
    pace: Pace,
    /// Whether the depot waits for the sender, and not for the time of a limited rate.
    is_waited_for: bool,
}

/// What happens next.
enum Event {
    Over,
    Promised(Result<u64, StoreError>),
    Tick,
    Chunk(Result<Option<Bytes>, ::session::Error>),
}

impl<'s> Storing<'s> {
    fn new(
        (job, session, turn): (&'s Job, &'s Session, &'s Turn),
        (writer, promise): (Writer, Promise<u64>),
        wanted: Wanted,
    ) -> Self {
        let (length, now) = (writer.length(), Instant::now());
        Self {
            job,
            session,
            turn,
            wanted,
            writer: Some(writer),
            length,
            from: length,
            promised: length,
            promise: Some(promise),
            last_promise: now,
            meter: Meter::new([0, 0]),
            next_look: now,
            pace: Pace::new(),
            is_waited_for: true,
        }
    }

    async fn store(&mut self) -> Result<(), Stop> {
        loop {
            let event = self.next().await;
            match event {
                Event::Over => return Err(Stop::Silent),
                Event::Promised(outcome) => self.promised(outcome)?,
                Event::Tick => {}
                Event::Chunk(chunk) => match chunk? {
                    Some(first) => self.append(first).await?,
                    None => return self.complete().await,
                },
            }
            self.look()?;
            self.promise_if_due().await?;
        }
    }

    fn promised(&mut self, outcome: Result<u64, StoreError>) -> Result<(), Stop> {
        match outcome {
            Ok(promised) => self.promised = promised,
            // The session stays as it was, and the next promise may be kept.
            Err(error @ (StoreError::JournalInDoubt | StoreError::Io { .. })) => {
                tracing::warn!(session = %self.wanted.session, %error, "a promise of the store is late");
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    async fn next(&mut self) -> Event {
        // What is due is looked at although nothing comes.
        let pause = self.job.grants.minimum.map_or(SECOND, |minimum| minimum.pause().min(SECOND));
        let held_back = self.pace.pause(self.job.served.rate_from_client());
        self.is_waited_for = held_back.is_zero();
        let pause = pause.max(Duration::from_millis(10));
        // A rate may change meanwhile.
        let tick = Instant::now() + if self.is_waited_for { pause } else { pause.min(held_back) };
        tokio::select! {
            biased;
            () = self.turn.over() => Event::Over,
            () = self.job.stored.handed_over() => Event::Over,
            outcome = kept(&mut self.promise) => {
                self.promise = None;
                Event::Promised(outcome)
            }
            chunk = self.session.chunk(), if self.is_waited_for => Event::Chunk(chunk),
            () = sleep_until(tick) => Event::Tick,
        }
    }

    /// Whether the sender is too slow. What the depot does meanwhile takes less than a second.
    fn look(&mut self) -> Result<(), Stop> {
        let Some(minimum) = self.job.grants.minimum else { return Ok(()) };
        let now = Instant::now();
        if now < self.next_look {
            return Ok(());
        }
        self.next_look = now + minimum.pause();
        let received = self.length - self.from;
        let minimum = minimum.of_held(self.job.served.rate_from_client());
        if self.meter.look(minimum, self.is_waited_for, [received, received]) {
            let text = format!(
                "the session was sent slower than the depot's `limits.least_rate`, it ends at {} bytes",
                self.length
            );
            return Err(Refused::new(StatusCode::REQUEST_TIMEOUT, text).into());
        }
        Ok(())
    }

    /// Appends bytes, and those that have come behind them.
    async fn append(&mut self, first: Bytes) -> Result<(), Stop> {
        let mut size = first.len();
        let mut batch = vec![first];
        let most = BATCH.min(Pace::most_at_once(self.job.served.rate_from_client()));
        while size < most {
            match at_once(self.session).await {
                Some(Ok(Some(bytes))) => {
                    size += bytes.len();
                    batch.push(bytes);
                }
                // An end or a failure comes again.
                _ => break,
            }
        }
        self.job.served.received(size);
        self.pace.took(size);
        let length = self.length + size as u64;
        self.check(length)?;
        let mut writer = self.writer.take().ok_or(StoreError::Ended)?;
        let step = self.wanted.bytes.is_none();
        let (writer, appended) = blocking(move || {
            let appended = append(&mut writer, &batch, length, step);
            Ok((writer, appended))
        })
        .await?;
        self.length = writer.length();
        self.writer = Some(writer);
        Ok(appended?)
    }

    /// Whether a stream of this length was announced, and granted.
    fn check(&self, length: u64) -> Result<(), Stop> {
        if let Some(bytes) = self.wanted.bytes
            && length > bytes
        {
            let text = format!("the session was announced with {bytes} bytes, and has more");
            return Err(Refused::no_space(text).into());
        }
        match self.job.grants.most {
            Some(most) if length > most => {
                let text =
                    format!("the ticket is for at most {most} bytes, and the session has more");
                Err(Refused::no_space(text).into())
            }
            _ => Ok(()),
        }
    }

    async fn promise_if_due(&mut self) -> Result<(), Stop> {
        let (new, time) = (self.length - self.promised, self.last_promise.elapsed());
        let is_due = time >= SECOND && (new >= PROMISE_BYTES || time >= PROMISE_TIME);
        if new == 0 || !is_due || self.promise.is_some() {
            return Ok(());
        }
        let mut writer = self.writer.take().ok_or(StoreError::Ended)?;
        let asked = blocking(move || {
            let promise = writer.promise();
            Ok((writer, promise))
        });
        let (writer, promise) = asked.await?;
        (self.writer, self.promise) = (Some(writer), Some(promise));
        self.last_promise = Instant::now();
        Ok(())
    }

    /// All is there: it is promised as a whole, and the sender may go.
    async fn complete(&mut self) -> Result<(), Stop> {
        let writer = self.writer.take().ok_or(StoreError::Ended)?;
        blocking(move || Ok(writer.complete())).await?.await?;
        self.job.done();
        Ok(self.session.confirm()?)
    }

    async fn await_promise(&mut self) {
        if let Some(promise) = self.promise.take() {
            let _ = promise.await;
        }
    }

    /// Promises what is there, and gives back the space that is not used. Of a session without a byte nothing stays.
    async fn settle(&mut self) {
        let Some(mut writer) = self.writer.take() else { return };
        let (id, store, signer) = (writer.id(), Arc::clone(&self.job.store), self.job.signer);
        self.await_promise().await;
        let settled = async {
            if self.length == 0 {
                drop(writer);
                return store.remove(id, &signer).await;
            }
            let promise = blocking(move || {
                writer.give_back()?;
                Ok(writer.promise())
            });
            promise.await?.await.map(drop)
        };
        if let Err(error) = settled.await {
            tracing::debug!(session = %id, %error, "a session that has ended early keeps its space");
        }
    }
}

/// The outcome of a promise, if there is one.
async fn kept(promise: &mut Option<Promise<u64>>) -> Result<u64, StoreError> {
    match promise {
        Some(promise) => promise.await,
        None => pending().await,
    }
}

/// What has come already, if anything has.
async fn at_once(session: &Session) -> Option<Result<Option<Bytes>, ::session::Error>> {
    tokio::select! {
        biased;
        chunk = session.chunk() => Some(chunk),
        () = ready(()) => None,
    }
}

/// Appends bytes with which the session has this length; reserves space for them if it was not announced.
fn append(
    writer: &mut Writer,
    batch: &[Bytes],
    length: u64,
    reserves: bool,
) -> Result<(), StoreError> {
    if reserves && length > writer.reserved() {
        let much = writer.reserve(units::Bytes::new(length + STEP));
        if matches!(much, Err(StoreError::Refused(_))) {
            writer.reserve(units::Bytes::new(length))?;
        } else {
            much?;
        }
    }
    batch.iter().try_for_each(|bytes| writer.append(bytes))
}
