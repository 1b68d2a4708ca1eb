// SPDX-License-Identifier: GPL-2.0-or-later
//! Many transfers into one directory, several at the same time, until it is stopped: `longhaul recv --many`.
//!
//! Threats: a sender without the code gets no session. One with it may begin as many as it likes: at most [`AT_ONCE`] go on,
//! others are refused, and of one name there is one at a time.

use super::{Note, Output, ParcelReport, Taking, is_begun_again};
use crate::{Error, Progress};
use protocol::session::record::EndCode;
use session::{Incoming, Listener, Options, Session};
use std::{
    collections::HashSet,
    future::Future,
    path::PathBuf,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};
use tokio::{sync::watch, task::JoinSet, time::timeout};
use units::Bytes as Size;

/// Transfers that go on at the same time.
const AT_ONCE: usize = 16;
/// Refusals that are being told. Beyond, connections are closed without one.
const REFUSALS: usize = 16;
/// How long all transfers may take to tell their senders that this end stops.
const GOODBYE: Duration = Duration::from_secs(2);
/// Names of files that turned out to be others. There are as many as a sender tries before it is refused.
const MOST_OTHERS: usize = 1000;

/// Transfers into a directory. What is there already is compared with what comes under its name, and not sent again.
#[derive(Debug)]
pub struct ReceiveMany {
    /// Where senders connect.
    pub listener: Listener,
    /// Where to, under the senders' names and folders.
    pub directory: PathBuf,
    /// Replace files that are there; otherwise a sender of another one is refused.
    pub overwrite: bool,
    /// The longest stream that is taken.
    pub max_size: Option<Size>,
    /// How.
    pub options: Options,
}

/// A transfer that goes on, as the next one is told apart from it.
#[derive(Debug)]
struct UnderWay {
    path: PathBuf,
    note: Note,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    session: Weak<Session>,
    /// The same sender's next session, for which this one was ended.
    next: Option<Incoming>,
}

impl UnderWay {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a session takes the place of this one: its sender was started again.
    fn gives_way(&self, incoming: &Incoming) -> bool {
        let state = self.state();
        let session = state.session.upgrade();
        state.next.is_none()
            && session.is_some_and(|session| is_begun_again(incoming, &self.note, &session))
    }
}

/// A transfer that has ended.
struct Ended {
    path: Option<PathBuf>,
    report: ParcelReport,
}

impl ReceiveMany {
    /// Receives until `stop` ends. `ended` gets the report of each transfer, refused ones included.
    pub async fn run(self, mut ended: impl FnMut(ParcelReport), stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let this = Arc::new(self);
        let (stopping, stopped) = watch::channel(false);
        let (mut transfers, mut refusals) = (JoinSet::new(), JoinSet::new());
        let mut under_way: Vec<Arc<UnderWay>> = Vec::new();
        let mut others = HashSet::new();
        loop {
            tokio::select! {
                incoming = this.listener.accept() => {
                    match this.admit(&incoming, &under_way, transfers.len()) {
                        Admission::New(new) => {
                            under_way.extend(new.clone());
                            let compares = new.as_ref().is_some_and(|new| !others.remove(&new.path));
                            let this = Arc::clone(&this);
                            transfers.spawn(this.transfer(incoming, new, compares, stopped.clone()));
                        }
                        Admission::Next(of) => {
                            let session = {
                                let mut state = of.state();
                                state.next = Some(incoming);
                                state.session.upgrade()
                            };
                            if let Some(session) = session {
                                session.replace();
                            }
                        }
                        Admission::Refused(text) if refusals.len() < REFUSALS => {
                            refusals.spawn(async move { incoming.refuse(text).await });
                        }
                        Admission::Refused(_) => {}
                    }
                }
                Some(done) = transfers.join_next() => {
                    let Ok(Ended { path, report }) = done else { continue };
                    under_way.retain(|it| Some(&it.path) != path.as_ref());
                    if is_another(&report) && others.len() < MOST_OTHERS {
                        others.extend(path);
                    }
                    if !is_stranger(&report) {
                        ended(report);
                    }
                }
                Some(_) = refusals.join_next() => {}
                () = &mut stop => break,
            }
        }
        let _ = stopping.send(true);
        let rest = async {
            while let Some(done) = transfers.join_next().await {
                if let Ok(Ended { report, .. }) = done {
                    ended(report);
                }
            }
        };
        let _ = timeout(GOODBYE, rest).await;
    }

    fn admit(&self, incoming: &Incoming, under_way: &[Arc<UnderWay>], count: usize) -> Admission {
        // What cannot be used is refused by the transfer, with its reason.
        let note = Note::parse(incoming.note()).ok();
        let placed = note.and_then(|note| Some((note.place_in(&self.directory)?, note)));
        if let Some((path, _)) = &placed
            && let Some(same) = under_way.iter().find(|it| it.path == *path)
        {
            return if same.gives_way(incoming) {
                Admission::Next(Arc::clone(same))
            } else {
                Admission::Refused("another transfer of this name is under way: try later")
            };
        }
        if count >= AT_ONCE {
            return Admission::Refused(
                "as many transfers are under way as go on at once: try later",
            );
        }
        Admission::New(
            placed.map(|(path, note)| Arc::new(UnderWay { path, note, state: Mutex::default() })),
        )
    }

    /// One transfer, by as many sessions as its sender needs.
    async fn transfer(
        self: Arc<Self>,
        mut incoming: Incoming,
        under_way: Option<Arc<UnderWay>>,
        compares: bool,
        mut stopped: watch::Receiver<bool>,
    ) -> Ended {
        let mut stop: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
            let _ = stopped.wait_for(|stopped| *stopped).await;
        });
        let progress = Progress::default();
        let mut output = Output::Directory(self.directory.clone());
        loop {
            let (mut report, started) = (ParcelReport::begun(), Instant::now());
            let known = under_way.as_deref();
            let mut taking = Taking {
                output: &mut output,
                overwrite: self.overwrite,
                max_size: self.max_size,
                compares: compares && !self.overwrite,
                options: &self.options,
            };
            let others = |session: Arc<Session>, _| other_sessions(known, &session);
            let result = taking.take(incoming, (&progress, &mut stop), &mut report, others).await;
            let next = known.and_then(|known| known.state().next.take());
            if let (Err(Error::Session(error)), Some(next)) = (&result, next)
                && matches!(**error, session::Error::Replaced)
            {
                incoming = next;
                continue;
            }
            report.seconds = started.elapsed().as_secs_f64();
            report.result = result;
            return Ended { path: known.map(|known| known.path.clone()), report };
        }
    }
}

/// Makes a session known to those that come later.
fn other_sessions(
    known: Option<&UnderWay>,
    session: &Arc<Session>,
) -> impl Future<Output = ()> + use<> {
    if let Some(known) = known {
        known.state().session = Arc::downgrade(session);
    }
    std::future::pending()
}

/// What becomes of a session that a sender asks for.
enum Admission {
    /// A transfer, with its name if it has one.
    New(Option<Arc<UnderWay>>),
    /// It takes the place of the one before.
    Next(Arc<UnderWay>),
    Refused(&'static str),
}

/// Whether the file that is there turned out to be another one.
fn is_another(report: &ParcelReport) -> bool {
    matches!(&report.result, Err(Error::Session(error)) if error.is_other_prefix())
}

/// Whether it was a session of an initiator without the code: it is not worth a line.
fn is_stranger(report: &ParcelReport) -> bool {
    let Err(Error::Session(error)) = &report.result else { return false };
    match &**error {
        session::Error::Handshake(_) => true,
        session::Error::Ended { code, .. } => *code == EndCode::WrongProof as u16,
        _ => false,
    }
}
