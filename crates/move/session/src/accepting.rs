// SPDX-License-Identifier: GPL-2.0-or-later
//! Takes sessions on connections that have been accepted: by a [`Listener`](crate::Listener), or by the program itself.

use crate::{
    acceptor::{Arrival, Incoming, attach, key_of_secret, opened, refuse, restored},
    core::Core,
    digest::Beginning,
    error::{Error, Loss},
    options::{ListenOptions, Options},
    outgoing::Outgoing,
    registry::{Place, Registry},
    session::Session,
    state::State,
    wire::Wire,
};
use bytes::BytesMut;
use protocol::session::{
    MAX_LANES, SessionId,
    handshake::{Attach, Hello},
    record::{EndCode, RecordKind},
    sealed::{PreSharedKey, SealedStart},
};
use relay::tcp::Stream;
use std::{any::Any, sync::Arc};
use tokio::sync::mpsc;

/// The sessions of a program that accepts connections itself: what a [`Listener`](crate::Listener) does behind its socket. Needs
/// a runtime of tokio. Dropped, it takes no further connections.
#[derive(Debug, Clone)]
pub struct Acceptor {
    registry: Arc<Registry>,
}

/// A connection that the program has accepted. It has read OPEN and sent ANSWER; over TLS or not.
#[derive(Debug)]
pub struct Accepted {
    /// The connection.
    pub stream: Stream,
    /// What was read behind OPEN.
    pub ahead: BytesMut,
    /// The session that OPEN names.
    pub session: SessionId,
    /// Dropped when the connection is over.
    pub guard: Box<dyn Any + Send + Sync>,
}

/// What a connection is for.
#[derive(Debug)]
pub enum Greeted {
    /// An initiator asks for a session.
    New(Box<Incoming>),
    /// An earlier session continues on it.
    Continued,
}

/// Why a connection brings no session. Its other end was told so, if that helps.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoSession(String);

impl Acceptor {
    /// Takes sessions within these bounds. Those for handshakes and the backlog are the program's own to keep.
    pub fn new(options: ListenOptions) -> Self {
        Self { registry: Registry::new(options) }
    }

    /// Reads what a connection is for. Takes as long as the other end does: the program bounds the time.
    ///
    /// # Errors
    /// It brings no session.
    pub async fn greet(&self, accepted: Accepted) -> Result<Greeted, NoSession> {
        let Accepted { stream, ahead, session, guard } = accepted;
        let wire = Wire::with(stream, ahead, Some(guard));
        match self.greet_wire(wire, session).await {
            Ok(Some(incoming)) => Ok(Greeted::New(Box::new(incoming))),
            Ok(None) => Ok(Greeted::Continued),
            Err(loss) => Err(NoSession(loss.to_string())),
        }
    }

    /// Takes back a session of an earlier process, whose initiator will continue it; `None` if there is no room for it.
    /// `received` is a [`Beginning`], or a `Prefix` if the session has no further digest.
    ///
    /// # Errors
    /// The received bytes were not hashed for the further digest ([`State::digest`]).
    pub fn restore(
        &self,
        state: &State,
        received: impl Into<Beginning>,
        outgoing: Outgoing,
        options: Options,
    ) -> Result<Option<Session>, Error> {
        let Place::New(arrivals) = self.registry.register(state.session) else { return Ok(None) };
        restored(state, received.into(), outgoing, arrivals, options).map(Some)
    }

    pub(crate) fn options(&self) -> &ListenOptions {
        &self.registry.options
    }

    /// Reads the first record behind OPEN; the session that it asks for, or `None` if an earlier one has the connection now.
    pub(crate) async fn greet_wire(
        &self,
        mut wire: Wire,
        session: SessionId,
    ) -> Result<Option<Incoming>, Loss> {
        let registry = &self.registry;
        let first = wire.next_record().await?;
        let key = |start| match start {
            SealedStart::Hello => key_of_secret(&registry.options.secret),
            SealedStart::Attach => {
                let (core, _) = registry.begun(session, |_| true)?;
                core.terms().map(|(key, _, _)| PreSharedKey::of_key(&key))
            }
        };
        match opened(&mut wire, session, first, key).await? {
            (Some(RecordKind::Hello), payload) => {
                let hello = match Hello::parse(&payload) {
                    Ok(hello) if hello.session == session => hello,
                    _ => {
                        refuse(&mut wire, EndCode::Malformed, "HELLO is malformed").await;
                        return Err(Loss::Connection("HELLO is malformed".to_owned()));
                    }
                };
                begin(registry, hello, wire).await
            }
            (Some(RecordKind::Attach), payload) => {
                continue_session(wire, registry, session, &payload).await.map(|()| None)
            }
            _ => {
                refuse(&mut wire, EndCode::Malformed, "expected HELLO or ATTACH").await;
                Err(Loss::Connection("it begins with another record".to_owned()))
            }
        }
    }
}

async fn begin(
    registry: &Arc<Registry>,
    hello: Hello,
    mut wire: Wire,
) -> Result<Option<Incoming>, Loss> {
    match registry.register(hello.session) {
        Place::New(arrivals) => {
            let secret = registry.options.secret.clone();
            return Ok(Some(Incoming { hello, wire, arrivals, secret }));
        }
        Place::Again(sender) => {
            let again = Arrival::Again { hello, wire, most: MAX_LANES as u8 };
            match sender.try_send(again).map_err(mpsc::error::TrySendError::into_inner) {
                Ok(()) => return Ok(None),
                Err(
                    Arrival::Again { wire: unsent, .. }
                    | Arrival::Continued { wire: unsent, .. }
                    | Arrival::Joined { wire: unsent },
                ) => {
                    wire = unsent;
                }
            }
        }
        Place::None => {}
    }
    refuse(&mut wire, EndCode::NoRoom, "").await;
    Err(Loss::Connection("there is no room for the session, or it has begun".to_owned()))
}

async fn continue_session(
    mut wire: Wire,
    registry: &Registry,
    session: SessionId,
    payload: &[u8],
) -> Result<(), Loss> {
    let attach_record = Attach::parse(payload).ok().filter(|attach| attach.session == session);
    let begun = attach_record.and_then(|attach| {
        // One of several can only be told by the proof.
        let is_its = |core: &Core| core.terms().is_some_and(|(key, _, _)| attach.is_by(&key));
        let several = registry.options.each_hello_begins;
        registry.begun(session, |core| !several || is_its(core))
    });
    let Some((core, arrivals)) = begun else {
        refuse(&mut wire, EndCode::UnknownSession, "").await;
        return Err(Loss::Connection("the session is not known".to_owned()));
    };
    let arrival = attach(&core, wire, payload, MAX_LANES as u8).await?;
    // Where the session has just ended there is nothing to continue.
    let _ = arrivals.send(arrival).await;
    Ok(())
}
