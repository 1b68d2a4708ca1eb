// SPDX-License-Identifier: GPL-2.0-or-later
//! Listens for initiators.
//!
//! Threats: anybody can connect, say nothing, say something else, or name a session of others. Connections that have not
//! said what they want are few and short-lived, sessions are bounded, and only a proof changes one.

use crate::{
    acceptor::{Arrival, Arrivals, Incoming, attach, key_of_secret, opened, refuse, restored},
    connection::{accepted, end},
    core::Core,
    digest::Beginning,
    error::{Error, Loss},
    options::{ListenOptions, Options},
    outgoing::Outgoing,
    session::Session,
    state::State,
    wire::Wire,
};
use ::protocol::{
    http::Fault,
    session::{
        Answer, Header, Open, SessionId, Target,
        handshake::{Attach, Hello},
        record::{EndCode, RecordKind},
        sealed::{PreSharedKey, SealedStart},
    },
};
use relay::tcp::Stream;
use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};
use tokio::{
    net::{TcpListener, ToSocketAddrs},
    sync::{Semaphore, mpsc},
    task::AbortHandle,
    time::timeout,
};

/// Listens for initiators. Dropped, it takes no further sessions, and no further connections of those that it has
/// taken.
#[derive(Debug)]
pub struct Listener {
    local: SocketAddr,
    registry: Arc<Registry>,
    incoming: tokio::sync::Mutex<mpsc::Receiver<Incoming>>,
    task: AbortHandle,
}

/// The sessions of a listener.
#[derive(Debug)]
struct Registry {
    options: ListenOptions,
    sessions: Mutex<HashMap<SessionId, Entry>>,
}

#[derive(Debug)]
struct Entry {
    /// Known once the application has taken the session.
    core: Option<Weak<Core>>,
    arrivals: mpsc::Sender<Arrival>,
}

/// A session's place in its listener's registry.
#[derive(Debug)]
pub(crate) struct Registration {
    registry: Arc<Registry>,
    session: SessionId,
}

/// A registry's entry for a session that begins.
enum Place {
    /// It is a new one.
    New(Arrivals),
    /// It was begun before, by an initiator that has not proved itself, and is begun again (rule 7.5).
    Again(mpsc::Sender<Arrival>),
    /// There is no room, or the session has begun.
    None,
}

impl Registry {
    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Entry>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session that the application has taken.
    fn begun(&self, session: SessionId) -> Option<(Arc<Core>, mpsc::Sender<Arrival>)> {
        let sessions = self.sessions();
        let entry = sessions.get(&session)?;
        Some((entry.core.as_ref()?.upgrade()?, entry.arrivals.clone()))
    }

    /// A place for a session.
    fn register(self: &Arc<Self>, session: SessionId) -> Place {
        let mut sessions = self.sessions();
        let is_proved = |entry: &Entry| {
            let core = entry.core.as_ref().and_then(Weak::upgrade);
            core.is_some_and(|core| core.is_proved())
        };
        match sessions.get(&session) {
            Some(entry) if is_proved(entry) => return Place::None,
            Some(entry) => return Place::Again(entry.arrivals.clone()),
            None if sessions.len() >= self.options.sessions => return Place::None,
            None => {}
        }
        let (sender, arrivals) = mpsc::channel(4);
        sessions.insert(session, Entry { core: None, arrivals: sender });
        let registration = Registration { registry: Arc::clone(self), session };
        Place::New(Arrivals::Listener(arrivals, registration))
    }
}

impl Registration {
    /// The application has taken the session.
    pub(crate) fn knows(&self, core: &Arc<Core>) {
        if let Some(entry) = self.registry.sessions().get_mut(&self.session) {
            entry.core = Some(Arc::downgrade(core));
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.registry.sessions().remove(&self.session);
    }
}

impl Listener {
    /// Listens. Needs a runtime of tokio.
    ///
    /// # Errors
    /// The address cannot be had.
    pub async fn bind(address: impl ToSocketAddrs, options: ListenOptions) -> io::Result<Self> {
        Self::over(TcpListener::bind(address).await?, options)
    }

    /// Listens at a socket that the application has bound. Needs a runtime of tokio.
    ///
    /// # Errors
    /// The socket does not listen, or cannot be watched.
    pub fn from_std(listener: std::net::TcpListener, options: ListenOptions) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Self::over(TcpListener::from_std(listener)?, options)
    }

    fn over(listener: TcpListener, options: ListenOptions) -> io::Result<Self> {
        let local = listener.local_addr()?;
        let (sender, incoming) = mpsc::channel(options.backlog.max(1));
        let registry = Arc::new(Registry { options, sessions: Mutex::default() });
        let task = tokio::spawn(listen(listener, Arc::clone(&registry), sender)).abort_handle();
        Ok(Self { local, registry, incoming: tokio::sync::Mutex::new(incoming), task })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The next session that an initiator asks for.
    pub async fn accept(&self) -> Incoming {
        match self.incoming.lock().await.recv().await {
            Some(incoming) => incoming,
            None => std::future::pending().await,
        }
    }

    /// Takes no further sessions: initiators are refused, and those that wait as well. The ones that were taken
    /// continue on further connections until the listener is dropped.
    pub async fn close(&self) {
        let mut incoming = self.incoming.lock().await;
        incoming.close();
        while let Some(waiting) = incoming.recv().await {
            tokio::spawn(waiting.refuse("the listener takes no more sessions"));
        }
    }

    /// Takes back a session of an earlier process, whose initiator will continue it; `None` if there is no
    /// room for it. `received` is a [`Beginning`], or a `Prefix` if the session has no further digest.
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
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen(listener: TcpListener, registry: Arc<Registry>, incoming: mpsc::Sender<Incoming>) {
    let places = Arc::new(Semaphore::new(registry.options.handshakes));
    loop {
        let (tcp, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                continue;
            }
        };
        // More than that at a time are closed at once.
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let (registry, incoming) = (Arc::clone(&registry), incoming.clone());
        tokio::spawn(async move {
            let _ = tcp.set_nodelay(true);
            let stream = Stream::new(tcp, peer);
            let time = registry.options.handshake_time;
            if let Ok(Err(Loss::Connection(reason))) =
                timeout(time, greet(Wire::new(stream), &registry, &incoming)).await
            {
                tracing::debug!(%peer, reason, "no session");
            }
            drop(place);
        });
    }
}

/// Reads what a connection is for, and hands it over.
async fn greet(
    mut wire: Wire,
    registry: &Arc<Registry>,
    incoming: &mpsc::Sender<Incoming>,
) -> Result<(), Loss> {
    let open = read_open(&mut wire).await?;
    wire.say(&accepted()).await?;
    let first = wire.next_record().await?;
    let key = |start| match start {
        SealedStart::Hello => key_of_secret(&registry.options.secret),
        SealedStart::Attach => {
            let (core, _) = registry.begun(open.session)?;
            core.terms().map(|(key, _, _)| PreSharedKey::of_key(&key))
        }
    };
    match opened(&mut wire, open.session, first, key).await? {
        (Some(RecordKind::Hello), payload) => {
            let hello = match Hello::parse(&payload) {
                Ok(hello) if hello.session == open.session => hello,
                _ => {
                    refuse(&mut wire, EndCode::Malformed, "HELLO is malformed").await;
                    return Err(Loss::Connection("HELLO is malformed".to_owned()));
                }
            };
            let taken = match (registry.register(hello.session), incoming.try_reserve()) {
                (Place::New(arrivals), Ok(place)) => {
                    let secret = registry.options.secret.clone();
                    place.send(Incoming { hello, wire, arrivals, secret });
                    None
                }
                (Place::Again(sender), _) => {
                    let again = Arrival::Again { hello, wire };
                    sender.try_send(again).err().map(mpsc::error::TrySendError::into_inner)
                }
                _ => Some(Arrival::Again { hello, wire }),
            };
            if let Some(Arrival::Again { mut wire, .. }) = taken {
                refuse(&mut wire, EndCode::NoRoom, "").await;
            }
            Ok(())
        }
        (Some(RecordKind::Attach), payload) => continue_session(wire, registry, &payload).await,
        _ => {
            refuse(&mut wire, EndCode::Malformed, "expected HELLO or ATTACH").await;
            Err(Loss::Connection("it begins with another record".to_owned()))
        }
    }
}

async fn read_open(wire: &mut Wire) -> Result<Open, Loss> {
    let parsed = |bytes: &[u8]| match Header::parse_open(bytes) {
        Ok(parsed) => Ok(parsed.map(|(open, length)| (Ok(open), length))),
        // The initiator is told before the connection is closed.
        Err(error) => Ok(Some((Err(error), 0))),
    };
    let fault = match wire.header(parsed).await? {
        Ok(open) if open.hops.is_empty() && open.target == Target::End => return Ok(open),
        Ok(_) => Fault::bad_request("this is the end of the route, and no depot"),
        Err(error) => Fault::bad_request(error.to_string()),
    };
    wire.say(&Answer::of_fault(&fault, end()).to_bytes()?).await?;
    Err(Loss::Connection(fault.to_string()))
}

async fn continue_session(mut wire: Wire, registry: &Registry, payload: &[u8]) -> Result<(), Loss> {
    let named = Attach::parse(payload).ok().map(|attach| attach.session);
    let Some((core, arrivals)) = named.and_then(|session| registry.begun(session)) else {
        refuse(&mut wire, EndCode::UnknownSession, "").await;
        return Ok(());
    };
    let (limit, position) = attach(&core, &mut wire, payload).await?;
    // Where the session has just ended there is nothing to continue.
    let _ = arrivals.send(Arrival::Continued { wire, limit, position }).await;
    Ok(())
}
