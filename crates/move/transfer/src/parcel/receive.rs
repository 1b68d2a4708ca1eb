// SPDX-License-Identifier: GPL-2.0-or-later
//! The receiving end.

mod many;

pub use many::ReceiveMany;

use crate::{
    Error, Progress,
    parcel::{
        ParcelReport,
        code::Code,
        hexadecimal,
        note::{Kind, Note},
        placing::{Earlier, Output, Place, Placing, Shown},
        shown_digest,
    },
};
use protocol::session::record::EndCode;
use session::{
    Beginning, Incoming, Listener, Options, Outgoing, Route, Session, WholeDigest, Window,
};
use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::{sleep, timeout};
use units::Bytes as Size;

/// How long the sender may take to hear that this end stops.
const GOODBYE: Duration = Duration::from_millis(300);
/// How long to wait for the sender to end a session whose file is in its place.
const END_TIME: Duration = Duration::from_secs(10);

/// Where a sender comes from.
#[derive(Debug)]
pub enum Origin {
    /// It connects here.
    Listener(Listener),
    /// Both go to a depot with the same code.
    Meeting(Vec<Route>, Code),
}

/// A transfer.
#[derive(Debug)]
pub struct ReceiveRequest {
    /// From whom.
    pub origin: Origin,
    /// Where to.
    pub output: Output,
    /// Replace a file that is there.
    pub overwrite: bool,
    /// The longest stream that is taken.
    pub max_size: Option<Size>,
    /// How.
    pub options: Options,
}

impl ReceiveRequest {
    /// Receives. `waiting` is called when the depot of a meeting has let this end in. When `stop` ends first, what has come is
    /// kept and the error is [`Error::Stopped`].
    pub async fn run(
        mut self,
        progress: &Arc<Progress>,
        waiting: impl Fn(),
        stop: impl Future<Output = ()>,
    ) -> ParcelReport {
        let mut report = ParcelReport::begun();
        let mut stop = pin!(stop);
        let mut next = None;
        loop {
            let incoming = if let Some(incoming) = next.take() {
                Ok(incoming)
            } else {
                tokio::select! {
                    incoming = self.incoming(&waiting) => incoming,
                    () = &mut stop => Err(Error::Stopped),
                }
            };
            let started = Instant::now();
            let result = match incoming {
                Ok(incoming) => {
                    let Self { origin, output, overwrite, max_size, options } = &mut self;
                    let (overwrite, max_size, compares) = (*overwrite, *max_size, false);
                    let mut taking = Taking { output, overwrite, max_size, compares, options };
                    let (origin, next) = (&*origin, &mut next);
                    let stopped = (&**progress, &mut stop);
                    taking
                        .take(incoming, stopped, &mut report, move |session, note| {
                            begun_again(origin, session, note, next)
                        })
                        .await
                }
                Err(error) => Err(error),
            };
            report.seconds = started.elapsed().as_secs_f64();
            match &result {
                Err(error) if self.goes_on_after(error) => progress.note(error.to_string()),
                _ => {
                    report.result = result;
                    return report;
                }
            }
        }
    }

    /// Whether another session may bring what this one has not.
    fn goes_on_after(&self, error: &Error) -> bool {
        let Error::Session(error) = error else { return false };
        if error.is_other_prefix() {
            // It has another file now, which is received from its beginning.
            return !matches!(self.output, Output::Stream(_));
        }
        match (&**error, &self.origin) {
            // A sender with the wrong code does not keep the right one from coming, and one that was started again
            // comes back.
            (session::Error::Handshake(_), Origin::Listener(..))
            | (session::Error::Replaced, _) => true,
            (session::Error::Ended { code, .. }, Origin::Listener(..)) => {
                *code == EndCode::WrongProof as u16
            }
            _ => false,
        }
    }

    async fn incoming(&mut self, waiting: &impl Fn()) -> Result<Incoming, Error> {
        match &self.origin {
            Origin::Listener(listener) => Ok(listener.accept().await),
            Origin::Meeting(routes, code) => {
                let options = Options { secret: code.secret(), ..self.options.clone() };
                Ok(Incoming::meet(code.session(), routes.clone(), &options, waiting).await?)
            }
        }
    }
}

/// How a session is taken.
struct Taking<'t> {
    output: &'t mut Output,
    overwrite: bool,
    max_size: Option<Size>,
    /// Whether a file that is there may be the one that comes.
    compares: bool,
    options: &'t Options,
}

impl Taking<'_> {
    /// Takes one session. `others` gets it too, and never ends.
    async fn take<O: Future<Output = ()>>(
        &mut self,
        incoming: Incoming,
        (progress, stop): (&Progress, &mut (impl Future<Output = ()> + Unpin)),
        report: &mut ParcelReport,
        others: impl FnOnce(Arc<Session>, Note) -> O,
    ) -> Result<(), Error> {
        let (place_of, note) = match self.place(incoming.note(), incoming.digest()).await {
            Ok(found) => found,
            Err(error) => {
                incoming.refuse(&error.to_string()).await;
                return Err(error);
            }
        };
        report.name = note.whole_name();
        let options = Options { confirm_by_hand: true, ..self.options.clone() };
        let nothing_yet = || Beginning::new(incoming.digest());
        let beginning = place_of.beginning().cloned().unwrap_or_else(nothing_yet);
        report.resumed_bytes = beginning.length();
        progress.set(beginning.length(), note.bytes);
        let nothing = Outgoing::Window(Window::default());
        let session = match incoming.accept_from(beginning, nothing, options).await {
            Ok(session) => Arc::new(session),
            Err(error) => {
                place_of.abandon().await;
                return Err(error.into());
            }
        };
        session.end();
        let shown = Shown { progress, total: note.bytes, most: self.max_size };
        let place = Placing { output: self.output, overwrite: self.overwrite, note: &note, shown };
        let mut pieces = &*session;
        let received = tokio::select! {
            received = place.receive(place_of, &mut pieces) => received,
            () = others(Arc::clone(&session), note.clone()) => unreachable!("the session ends with it"),
            () = stop => {
                drop(session);
                sleep(GOODBYE).await;
                return Err(Error::Stopped);
            }
        };
        let now = session.statistics();
        (report.bytes, report.connections, report.hops) =
            (now.received_bytes, now.connections, now.hops);
        report.is_encrypted = now.is_encrypted;
        report.blake3 = Some(hexadecimal(&session.received_hash()));
        report.file = received?;
        report.digest = shown_digest(session.digest(), session.received_digest());
        // The sender has to hear that everything is safe; that it says so too is all that is missing.
        let _ = timeout(END_TIME, session.closed()).await;
        Ok(())
    }

    /// Where to put what a sender describes, and how much of it is there, hashed for this further digest.
    async fn place(
        &mut self,
        note: &[u8],
        digest: Option<WholeDigest>,
    ) -> Result<(Place, Note), Error> {
        let note = Note::parse(note)?;
        if let (Output::Directory(directory), true) = (&*self.output, self.compares)
            && let Some(there) = Place::there(directory, &note, digest).await?
        {
            return Ok((there, note));
        }
        let bounds = (self.overwrite, self.max_size);
        let place = Place::open(self.output, bounds, &note, Earlier::Compared, digest).await?;
        Ok((place, note))
    }
}

/// Fails a session without a connection when its sender, which was started again, begins another one; that is
/// then the `next`. It is known by what its note says, of which a stranger knows neither the date nor the length. Others
/// are refused meanwhile, and so is a pipe, whose bytes do not come again.
async fn begun_again(
    origin: &Origin,
    session: Arc<Session>,
    note: Note,
    next: &mut Option<Incoming>,
) {
    let Origin::Listener(listener) = origin else { return std::future::pending().await };
    loop {
        let incoming = listener.accept().await;
        if next.is_some() || !is_begun_again(&incoming, &note, &session) {
            incoming.refuse("another transfer is under way: try later").await;
            continue;
        }
        *next = Some(incoming);
        session.replace();
    }
}

/// Whether a session is of the sender of this one, which was started again.
fn is_begun_again(incoming: &Incoming, note: &Note, session: &Session) -> bool {
    // A file that grows has neither date nor length.
    let is_known = note.bytes.is_some() || incoming.needs_secret();
    note.kind != Kind::Pipe
        && is_known
        && Note::parse(incoming.note()).is_ok_and(|other| other == *note)
        && !session.statistics().is_connected
}
