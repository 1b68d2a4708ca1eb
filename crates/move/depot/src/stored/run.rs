// SPDX-License-Identifier: GPL-2.0-or-later
//! One session with the store: what is asked is prepared, and done once the initiator has proved itself.

use super::{
    collect::Collect,
    job::Job,
    leave::{Leave, Wanted},
    listing::Listing,
    outcome::Stop,
};
use ::session::{Beginning, Incoming, Options, Outgoing, Session, Window};
use protocol::session::request::{Kept, Request};
use std::time::Duration;
use tokio::time::timeout;
use units::Bytes;

/// How long an initiator may take to prove itself.
const PROOF: Duration = Duration::from_secs(60);
/// How long it may take to hear that all is done, and to say so.
const GOODBYE: Duration = Duration::from_secs(60);
/// How long a session that moves bytes waits for another connection.
const PATIENCE: Duration = Duration::from_secs(300);
/// The same for one that asks something.
const SHORT_PATIENCE: Duration = Duration::from_secs(30);
/// Bytes that a session keeps at most until they are acknowledged, or stored.
const WINDOW: Bytes = Bytes::new(32 << 20);

/// What a session is for.
enum Task {
    Leave(Box<Leave>),
    Collect(Collect),
    Listing(Listing),
}

/// Serves a session to its end.
pub(super) async fn run(job: Job, incoming: Box<Incoming>, request: Request) {
    let task = match Task::prepare(&job, &incoming, request).await {
        Ok(task) => task,
        Err(Stop::Refused(refused)) => {
            job.refuse(&refused);
            return incoming.refuse_with(refused.code, &refused.text).await;
        }
        Err(Stop::Silent | Stop::Lost(_)) => return,
    };
    let (received, options) = (task.received(), task.options());
    let nothing = Outgoing::Window(Window::default());
    // An initiator that cannot be answered was told why.
    let Ok(session) = incoming.accept_from(received, nothing, options).await else { return };
    let done = match timeout(PROOF, session.proved()).await {
        Ok(Ok(())) => task.serve(&job, &session).await,
        Ok(Err(error)) => Err(Stop::Lost(error)),
        Err(_) => Err(Stop::Silent),
    };
    match done {
        Ok(()) => {
            let over = async {
                // The initiator's stream may end behind its DONE for the other one.
                while session.chunk().await?.is_some() {}
                session.closed().await
            };
            let _ = timeout(GOODBYE, over).await;
        }
        Err(Stop::Refused(refused)) => {
            job.refuse(&refused);
            session.end_with(refused.code, &refused.text);
        }
        Err(Stop::Silent) => session.replace(),
        Err(Stop::Lost(error)) => {
            tracing::debug!(session = %session.id(), %error, "a session with the store has failed");
        }
    }
}

impl Task {
    /// Changes nothing: the request may be a recording.
    async fn prepare(job: &Job, incoming: &Incoming, request: Request) -> Result<Self, Stop> {
        match request {
            Request::Leave { collector, bytes, life_s } => {
                let life = Duration::from_secs(life_s);
                let wanted = Wanted { session: incoming.session(), collector, bytes, life };
                let leave = Leave::prepare(job, wanted, incoming.digest()).await?;
                Ok(Self::Leave(Box::new(leave)))
            }
            Request::Collect { session, from } => {
                Collect::prepare(job, session, from).map(Self::Collect)
            }
            asked => Ok(Self::Listing(Listing::new(asked))),
        }
    }

    /// What is there of the initiator's stream.
    fn received(&self) -> Beginning {
        match self {
            Self::Leave(leave) => leave.received(),
            Self::Collect(_) | Self::Listing(_) => Beginning::default(),
        }
    }

    fn options(&self) -> Options {
        let (note, patience) = match self {
            Self::Leave(leave) => (Some(leave.kept()), PATIENCE),
            Self::Collect(collect) => (Some(collect.kept()), PATIENCE),
            Self::Listing(_) => (None, SHORT_PATIENCE),
        };
        Options {
            note: note.map(Kept::to_json).unwrap_or_default(),
            confirm_by_hand: matches!(self, Self::Leave(_)),
            send_window: WINDOW,
            receive_window: WINDOW,
            patience,
            ..Options::default()
        }
    }

    async fn serve(self, job: &Job, session: &Session) -> Result<(), Stop> {
        match self {
            Self::Leave(leave) => leave.serve(job, session).await,
            Self::Collect(collect) => collect.serve(job, session).await,
            Self::Listing(listing) => listing.serve(job, session).await,
        }
    }
}
