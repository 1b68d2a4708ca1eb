// SPDX-License-Identifier: GPL-2.0-or-later
//! Collecting a stored session.
//!
//! The note, which names the file, is in what is stored. So a first session brings the head and the note. If a part of that very
//! parcel is here, it is hashed, and another session goes on at the chunk behind it. Whether the part was right shows the
//! hash at the end; if not, all is collected from the beginning.

use super::{
    client::{StoreClient, asking},
    owner_key::OwnerKey,
    refused::refused,
};
use crate::{
    Error, Progress,
    parcel::{
        ParcelReport,
        code::StoredCode,
        hexadecimal,
        note::Note,
        pieces::Pieces,
        placing::{Earlier, Output, Place, Placing, Shown, is_other_beginning},
    },
};
use bytes::Bytes;
use protocol::session::{
    HopReport, SessionId,
    parcel::{ParcelHead, ParcelReader, ParcelStep},
    record::EndCode,
    request::{Request, SigningKey},
};
use session::{Options, Session};
use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::{sleep, timeout};
use units::Bytes as Size;

/// How long the depot may take to hear that this end stops.
const GOODBYE: Duration = Duration::from_millis(300);
/// How long to wait for the depot to end a session whose file is in its place.
const END_TIME: Duration = Duration::from_secs(10);
/// How often a collector begins again with a depot that was started again.
const BEGINNINGS: u32 = 20;
/// How long it waits before.
const BETWEEN_BEGINNINGS: Duration = Duration::from_millis(50);

/// Who collects.
#[derive(Debug, Clone)]
pub enum Collector {
    /// Anyone who has the code.
    Code(StoredCode),
    /// The owner, who has only the name. The session is not encrypted, or its code is needed.
    Owner(SessionId, OwnerKey),
}

/// A transfer from a depot's store.
#[derive(Debug)]
pub struct CollectRequest {
    /// The depot.
    pub client: StoreClient,
    /// By whom.
    pub collector: Collector,
    /// Where to.
    pub output: Output,
    /// Replace a file that is there.
    pub overwrite: bool,
    /// The longest content that is taken.
    pub max_size: Option<Size>,
    /// Take what is not encrypted, also with a code.
    pub allow_plain: bool,
}

impl CollectRequest {
    /// Collects. When `stop` ends first, what has come is kept and the error is [`Error::Stopped`].
    pub async fn run(
        mut self,
        progress: &Arc<Progress>,
        stop: impl Future<Output = ()>,
    ) -> ParcelReport {
        let mut report = ParcelReport::begun();
        let (started, mut stop) = (Instant::now(), pin!(stop));
        let mut result = self.collect(progress, &mut stop, &mut report).await;
        let is_stream = matches!(self.output, Output::Stream(_));
        if let Err(error) = &result
            && is_other_beginning(error)
            && report.resumed_bytes > 0
            && !is_stream
        {
            progress.note("what was here is not its beginning".to_owned());
            result = self.collect(progress, &mut stop, &mut report).await;
        }
        report.seconds = started.elapsed().as_secs_f64();
        report.result = result;
        report
    }

    async fn collect(
        &mut self,
        progress: &Arc<Progress>,
        stop: &mut (impl Future<Output = ()> + Unpin),
        report: &mut ParcelReport,
    ) -> Result<(), Error> {
        let access = Access::of(&self.client, &self.collector);
        let reader = ParcelReader::new(access.secret);
        let mut collection = Collection::begin(&access, reader, 0, stop);
        let (note, head) = match collection.note().await {
            Ok(found) => found,
            Err(error) => return Err(collection.ended(error).await),
        };
        if !head.is_encrypted() && access.has_code && !self.allow_plain {
            return Err(Error::NotEncrypted);
        }
        let earlier = Earlier::Named(name_of(access.session, &head, &note));
        let length = note.len();
        let note = Note::parse(&note)?;
        report.name.clone_from(&note.name);
        let bounds = (self.overwrite, self.max_size);
        let place = Place::open(&mut self.output, bounds, &note, earlier, None).await?;
        let here = place.beginning().filter(|beginning| beginning.length() > 0);
        report.resumed_bytes = here.map_or(0, session::Beginning::length);
        progress.set(report.resumed_bytes, note.bytes);
        if let Some(beginning) = here {
            let content = beginning.prefix().clone();
            let (reader, from) = ParcelReader::resume(access.secret, head, length, content)?;
            collection.go_on(reader, from);
        }
        let shown = Shown { progress, total: note.bytes, most: self.max_size };
        let placing =
            Placing { output: &mut self.output, overwrite: self.overwrite, note: &note, shown };
        let placed = placing.receive(place, &mut collection).await;
        report.bytes = collection.reader.content().length();
        report.blake3 = Some(hexadecimal(&collection.reader.content().root()));
        report.is_encrypted = head.is_encrypted();
        (report.connections, report.hops) = collection.connections();
        match placed {
            Ok(file) => report.file = file,
            Err(error) => return Err(collection.ended(error).await),
        }
        // The depot has nothing to wait for any more.
        let _ = timeout(END_TIME, collection.session.closed()).await;
        Ok(())
    }
}

/// The name of a part of one stored session: with its salt, which differs if it was left again under the same code.
fn name_of(session: SessionId, head: &ParcelHead, note: &[u8]) -> String {
    let note = String::from_utf8_lossy(note);
    format!("stored {session} {} {note}", hexadecimal(head.as_bytes()))
}

/// How a stored session is asked for and opened.
struct Access<'a> {
    client: &'a StoreClient,
    session: SessionId,
    key: Arc<SigningKey>,
    secret: Option<[u8; 32]>,
    has_code: bool,
}

impl<'a> Access<'a> {
    fn of(client: &'a StoreClient, collector: &Collector) -> Self {
        match collector {
            Collector::Code(code) => {
                let keys = code.keys();
                let key = Arc::new(SigningKey::from_seed(&keys.collector));
                let (session, secret) = (keys.session, Some(keys.secret));
                Self { client, session, key, secret, has_code: true }
            }
            Collector::Owner(session, owner) => {
                let key = owner.signing_key();
                Self { client, session: *session, key, secret: None, has_code: false }
            }
        }
    }

    /// A session that brings what is stored from a byte on.
    fn begin(&self, from: u64) -> Session {
        let request = Request::Collect { session: self.session, from };
        let options = Options { confirm_by_hand: true, ..self.client.options.clone() };
        let options = asking(request, Arc::clone(&self.key), options);
        let session = Session::connect(self.client.routes.clone(), options);
        session.end();
        session
    }
}

/// A stored session that comes.
struct Collection<'c, S> {
    access: &'c Access<'c>,
    session: Session,
    reader: ParcelReader,
    /// From which byte on the session brings what is stored, and how many it has brought.
    from: u64,
    came: u64,
    beginnings: u32,
    stop: &'c mut S,
}

impl<'c, S: Future<Output = ()> + Unpin> Collection<'c, S> {
    fn begin(access: &'c Access<'c>, reader: ParcelReader, from: u64, stop: &'c mut S) -> Self {
        let session = access.begin(from);
        Self { access, session, reader, from, came: 0, beginnings: 1, stop }
    }

    /// Another session takes its place, which brings what this reader needs.
    fn go_on(&mut self, reader: ParcelReader, from: u64) {
        (self.reader, self.from, self.came) = (reader, from, 0);
        self.session = self.access.begin(from);
    }

    async fn step(&mut self) -> Result<ParcelStep, Error> {
        loop {
            if let Some(step) = self.reader.advance()? {
                return Ok(step);
            }
            let chunk = tokio::select! {
                chunk = self.session.chunk() => chunk,
                () = &mut *self.stop => return Err(Error::Stopped),
            };
            match chunk {
                Ok(Some(chunk)) => {
                    self.reader.push(&chunk);
                    self.came += chunk.len() as u64;
                }
                Ok(None) => self.reader.end(),
                Err(session::Error::Ended { code, .. })
                    if code == EndCode::UnknownSession as u16 && self.beginnings < BEGINNINGS =>
                {
                    // The depot was started again, or another process has its store now.
                    self.beginnings += 1;
                    (self.from, self.came) = (self.from + self.came, 0);
                    sleep(BETWEEN_BEGINNINGS).await;
                    self.session = self.access.begin(self.from);
                }
                Err(error) => return Err(refused(error)),
            }
        }
    }

    /// The note, and the head before it.
    async fn note(&mut self) -> Result<(Vec<u8>, ParcelHead), Error> {
        match (self.step().await?, self.reader.head()) {
            (ParcelStep::Note(note), Some(head)) => Ok((note, *head)),
            _ => unreachable!("the note comes first, behind the head"),
        }
    }

    /// Of the last session.
    fn connections(&self) -> (u32, Vec<HopReport>) {
        let now = self.session.statistics();
        (now.connections, now.hops)
    }

    /// Lets the depot hear that this end stops, if it does.
    async fn ended(self, error: Error) -> Error {
        drop(self.session);
        if matches!(error, Error::Stopped) {
            sleep(GOODBYE).await;
        }
        error
    }
}

impl<S: Future<Output = ()> + Unpin> Pieces for Collection<'_, S> {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        match self.step().await? {
            ParcelStep::Content(bytes) => Ok(Some(bytes)),
            ParcelStep::End => Ok(None),
            ParcelStep::Note(_) => unreachable!("it comes once"),
        }
    }

    fn hops(&self) -> usize {
        self.session.statistics().hops.len()
    }

    fn confirm(&mut self) -> Result<(), Error> {
        Ok(self.session.confirm()?)
    }
}
