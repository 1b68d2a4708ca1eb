// SPDX-License-Identifier: GPL-2.0-or-later
//! One connection with the store: ANSWER, what it is for, and its end in the log.
//!
//! The session may outlive it, and have another connection later. What a connection counts for (its slot, its place, its share
//! of memory and rates) stays until the session has let go of it.

use super::{
    account::account,
    job::{Grants, Job},
    outcome::{Fate, InUse, Refused, Served},
    run::run,
};
use crate::{
    admission::allowance::Allowance,
    client::Client,
    observe::{Direction, Entry, Live, Withdrawal},
    session::SessionEnd,
    state::RequestContext,
};
use ::session::{Accepted, Greeted, Incoming, NoSession};
use http::StatusCode;
use protocol::{
    Authority, Host,
    http::{Connection, Fault, ProxyError},
    session::{Answer, SessionId, request::Signed},
    ticket::Verified,
};
use relay::{copy::CopyError, tcp::Wire};
use rustix::net::{Shutdown, shutdown};
use std::{
    io,
    sync::{Arc, Weak},
    time::Duration,
};
use store::{AccessKey, Store};
use tokio::{sync::oneshot, time::timeout};

/// How long an initiator may take to say what it wants.
const GREETING: Duration = Duration::from_secs(30);
/// How long a session may take to let go of a connection that is closed.
const LET_GO: Duration = Duration::from_secs(10);

/// Serves a connection whose OPEN asks for the store.
pub(crate) async fn serve(
    mut client: Client,
    mut entry: Entry,
    (session, ticket): (SessionId, Option<&Verified>),
    allowance: Allowance,
    context: RequestContext<'_>,
) {
    let store = match context.stored.store() {
        Ok(store) if client.streams < 2 => store,
        Ok(_) => {
            // Rule 4.4.
            let fault = Fault::bad_request("the store is an acceptor, which takes no `streams`");
            return client.refuse(entry, &fault, true, context).await;
        }
        Err(fault) => return client.refuse(entry, &fault, true, context).await,
    };
    let asker = client.asker().client;
    let Some(place) = context.stored.places.take(asker) else {
        let reason = "too many sessions with the depot's store at a time. Try again in a minute";
        let (status, error) = (StatusCode::SERVICE_UNAVAILABLE, ProxyError::ConnectionLimitReached);
        return client.refuse(entry, &Fault::new(status, error, reason), true, context).await;
    };
    let name = Authority { host: Host::Name("store".to_owned()), port: 0 };
    let live = entry.fetching(&name, &client.stream);
    let answer = Answer::of(StatusCode::OK, context.id.clone()).to_bytes().expect("a short header");
    if client.answer(&answer, Connection::Keep, context).await == Connection::Close {
        return entry.abandoned(&"it takes no answer");
    }
    entry.opened();
    let peer = client.stream.peer().ip();
    let minimum = context.config().minimum_read(peer, client.depots_before);
    let grants = Grants {
        account: account(asker, ticket),
        most: allowance.bytes.map(units::Bytes::get),
        minimum,
    };
    let pacing = Arc::new(context.admission.rates.begin(live.number, peer, allowance.limits()));
    let hop = |peer| context.config().hop_options(peer);
    if let Err(error) = pacing.hold(&client.stream, &client.stream, hop) {
        tracing::warn!(%error, "cannot hold a session to its rate");
    }
    context.share_memory(asker, [&client.stream, &client.stream]);
    // What it is counted for stays until the session has let go of it.
    let Client { stream, ahead, slot: _slot, carried: _carried, .. } = client;
    let socket = stream.watch();
    let (over, is_over) = oneshot::channel::<()>();
    let accepted = Accepted { stream, ahead, session, guard: Box::new(over) };
    let greeted = tokio::select! {
        greeted = timeout(GREETING, context.stored.acceptor.greet(accepted)) => greeted,
        why = live.withdrawn() => return entry.withdrawn(&why),
    };
    let counted = [Arc::clone(&live.sent), Arc::clone(&live.received)];
    let connection = InUse { counted, rate: Arc::downgrade(&pacing) };
    let begun = Begun { connection, store, grants, place: Arc::new(place), session };
    let served = match greeted {
        Err(_) => return entry.abandoned(&"it did not say what it wants"),
        Ok(Err(error)) => return refused(entry, &error),
        Ok(Ok(Greeted::Continued)) => begun.continued(context),
        Ok(Ok(Greeted::New(incoming))) => match begun.asked(incoming, &mut entry, context).await {
            Ok(served) => Some(served),
            Err(refused) => return entry.refused(&refused.fault()),
        },
    };
    let withdrawn = wait(is_over, &live, &socket).await;
    end(entry, served.as_deref(), withdrawn).await;
}

/// A connection that has said what it wants.
struct Begun {
    connection: InUse,
    store: Arc<Store>,
    grants: Grants,
    place: Arc<super::places::Place>,
    session: SessionId,
}

impl Begun {
    /// The session that continues on it.
    fn continued(&self, context: RequestContext<'_>) -> Option<Arc<Served>> {
        let served = context.stored.find(self.session)?;
        served.continues(self.connection.clone());
        Some(served)
    }

    /// Begins a session, if its request is signed.
    async fn asked(
        self,
        incoming: Box<Incoming>,
        entry: &mut Entry,
        context: RequestContext<'_>,
    ) -> Result<Arc<Served>, Refused> {
        let Self { connection, store, grants, place, session } = self;
        let Signed { request, signer } = match incoming.request() {
            Ok(signed) => signed,
            Err(error) => {
                let refused = Refused::from(&error);
                context.stored.count_refused();
                incoming.refuse_with(refused.code, &refused.text).await;
                return Err(refused);
            }
        };
        let of = request.about(session).map(|id| format!(" {id}")).unwrap_or_default();
        entry.asks_store(format!("store {}{of}", request.name()));
        let served = Arc::new(Served::new(connection));
        context.stored.remember(session, &served);
        let job = Job {
            stored: Arc::clone(&context.stored),
            store,
            served: Arc::clone(&served),
            signer: AccessKey(signer.0),
            grants,
            _place: place,
        };
        tokio::spawn(run(job, incoming, request));
        Ok(served)
    }
}

/// Waits until the session has let go of the connection. If the depot is to end it, says why.
async fn wait(
    mut is_over: oneshot::Receiver<()>,
    live: &Live,
    socket: &Weak<Wire>,
) -> Option<Withdrawal> {
    let why = tokio::select! {
        // Its sender is dropped, never used.
        _ = &mut is_over => return None,
        why = live.withdrawn() => why,
    };
    if let Some(wire) = socket.upgrade() {
        // It may be closed by now.
        let _ = shutdown(wire.socket(), Shutdown::Both);
    }
    let _ = timeout(LET_GO, is_over).await;
    Some(why)
}

fn refused(entry: Entry, error: &NoSession) {
    entry.refused(&Fault::bad_request(error.to_string()));
}

async fn end(entry: Entry, served: Option<&Served>, withdrawn: Option<Withdrawal>) {
    if let Some(why) = withdrawn {
        return entry.withdrawn(&why);
    }
    let fate = match served {
        Some(served) => served.fate().await,
        None => None,
    };
    match fate {
        Some(Fate::Done) => entry.session_ended(SessionEnd::Closed),
        Some(Fate::Refused(fault)) => entry.refused(fault),
        None => {
            let error = io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "the connection has ended before the session",
            );
            let broken = CopyError::SourceFailed(error);
            entry.session_ended(SessionEnd::Broken(broken, Direction::Up));
        }
    }
}
