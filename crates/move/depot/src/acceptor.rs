// SPDX-License-Identifier: GPL-2.0-or-later
//! Between a listener and its connections: which clients the depot accepts, and the refusal that it sends to
//! the others.

use crate::{
    admission::rules::not_listed_client,
    config::Tcp,
    http::{
        connection::{self, AcceptedConnection},
        refused::stopping,
    },
    lifecycle::Phase,
    listeners::{BACKLOG, Listener, Service},
    observe::Entry,
    session,
    state::{RequestContext, Shared},
};
use ::protocol::{
    Scheme, catch_panic,
    http::{Connection, Fault, ProxyError},
    session::{Answer, FIRST_BYTE},
};
use http::StatusCode;
use relay::tcp::info::reset_on_close;
use socket2::SockRef;
use std::{
    future::Future,
    io,
    net::{Shutdown, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
    time::{Instant, timeout},
};

/// How many refused connections get an explanation at a time. Further ones are just closed.
const TURNED_AWAY: usize = 64;

/// How often the log has it that no connection can be accepted; the counter has each time.
const SAID_AGAIN: Duration = Duration::from_secs(1);

/// How long a client that there is no descriptor for may take to read that.
const GRACE: Duration = Duration::from_secs(1);

/// The way in.
#[derive(Debug, Clone)]
pub(crate) struct Acceptor {
    shared: Arc<Shared>,
    /// Permits to send a refusal.
    refusals: Arc<Semaphore>,
    /// Held for as long as a listener or connection is there.
    alive: mpsc::Sender<()>,
}

impl Acceptor {
    /// An acceptor that has no connection yet. Connections hold clones of `alive`.
    pub(crate) fn new(shared: Arc<Shared>, alive: mpsc::Sender<()>) -> Self {
        let refusals = Arc::new(Semaphore::new(TURNED_AWAY));
        Self { shared, refusals, alive }
    }

    /// Accepts connections until the depot stops.
    pub(crate) async fn keep(self, Listener { tcp: listener, service, is_kept }: Listener) {
        let mut said: Option<Instant> = None;
        loop {
            let open = self.shared.lifecycle.doors.read().await;
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.shared.lifecycle.pausing() => {
                    drop(open);
                    self.shared.lifecycle.decided().await;
                    if self.shared.lifecycle.is_leaving() {
                        break;
                    }
                    continue;
                }
            };
            match accepted {
                Ok((client, peer)) if self.shared.lifecycle.spare.is_owed() => {
                    self.tell(client, peer, &service);
                }
                Ok((client, peer)) => match &service {
                    Service::Clients(scheme) => {
                        self.admit(AcceptedConnection::new(client, peer, *scheme));
                    }
                    Service::Port(table) => self.admit_plain(client, peer, table),
                },
                Err(error) => {
                    if said.is_none_or(|then| then.elapsed() >= SAID_AGAIN) {
                        tracing::warn!(%error, "cannot accept a connection");
                        said = Some(Instant::now());
                    }
                    self.shared.observer.counts.not_accepted();
                    // Out of files or memory: the connection stays queued, so asking again at once
                    // would only spin.
                    if !self.tell_one(&listener, &service).await {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                }
            }
        }
        // Those in the queue of a listener that systemd holds wait for the next depot.
        if let (Phase::Stopping, Service::Clients(scheme), false) =
            (self.shared.lifecycle.phase(), &service, is_kept)
        {
            self.shut(&listener, *scheme);
        }
    }

    /// Accepts one connection by a descriptor that was kept for this, and tells the client that there are no
    /// more. Says whether there was such a descriptor.
    async fn tell_one(&self, listener: &TcpListener, service: &Service) -> bool {
        if !self.shared.lifecycle.spare.clients.release() {
            return false;
        }
        // Another thread may have taken the descriptor, or the connection may be gone.
        let accepted = timeout(Duration::from_millis(10), listener.accept()).await;
        let Ok(Ok((client, peer))) = accepted else {
            self.shared.lifecycle.spare.clients.refill();
            return false;
        };
        self.tell(client, peer, service);
        true
    }

    /// Tells a client that there are no descriptors, and keeps that of its connection. One who speaks TLS, or to a
    /// server, is just closed.
    fn tell(&self, client: TcpStream, peer: SocketAddr, service: &Service) {
        let is_plain = matches!(service, Service::Clients(Scheme::Http));
        let shared = Arc::clone(&self.shared);
        self.spawn(async move {
            if is_plain {
                let reason = "this depot has no descriptors left for another connection: try later";
                let status = StatusCode::SERVICE_UNAVAILABLE;
                let fault = Fault::new(status, ProxyError::ConnectionLimitReached, reason);
                let settings = shared.settings();
                Entry::new(peer, RequestContext::new(&shared, &settings)).refused(&fault);
                let answer = if opens_session(&client).await {
                    let answer = Answer::of_fault(&fault, shared.id.clone()).to_bytes();
                    answer.expect("an answer without reports is short")
                } else {
                    fault.answer(&shared.id, true, Connection::Close)
                };
                say(&client, &answer).await;
            }
            if let Ok(client) = client.into_std() {
                shared.lifecycle.spare.put_back(client.into());
            }
        });
    }

    /// Serves a connection, or refuses it: strangers before they take a slot.
    fn admit(&self, caller: AcceptedConnection) {
        let (settings, peer) = (self.shared.settings(), caller.peer);
        // A ticket may open the depot to clients that are not listed; what they ask tells.
        if !settings.trust.takes_tickets() && !settings.config.lets_in(peer.ip()) {
            return self.turn_away(caller, not_listed_client(peer.ip()));
        }
        if let Err(fault) = self.shared.admission.denied.check_client(peer.ip()) {
            return self.turn_away(caller, fault);
        }
        let (gate, limits) = (&self.shared.admission.gate, &settings.config.limits);
        let entered = if settings.config.trust.has_depot(peer.ip()) {
            gate.enter_depot(peer.ip(), limits)
        } else {
            gate.enter_client(peer.ip(), limits)
        };
        match entered {
            Ok(slot) => {
                let shared = Arc::clone(&self.shared);
                self.spawn(async move { connection::serve(caller, slot, &shared).await });
            }
            Err(reached) => self.turn_away(caller, reached.fault(&self.shared.id)),
        }
    }

    /// Serves a connection that is relayed to a server, or closes it.
    fn admit_plain(&self, client: TcpStream, peer: SocketAddr, table: &Arc<Tcp>) {
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let settings = self.shared.settings();
        let refused = if let Err(fault) = self.shared.admission.denied.check_client(peer.ip()) {
            fault
        } else if settings.config.allow.client(peer.ip()) {
            // What comes here names no client, so it is one, also where a depot has the same address.
            match self.shared.admission.gate.enter_client(peer.ip(), &settings.config.limits) {
                Ok(slot) => {
                    let (shared, table) = (Arc::clone(&self.shared), Arc::clone(table));
                    self.spawn(async move {
                        session::port::serve((client, peer), slot, &table, &shared).await;
                    });
                    return;
                }
                Err(reached) => reached.fault(&self.shared.id),
            }
        } else {
            not_listed_client(peer.ip())
        };
        reset_on_close(&client, true);
        Entry::new(peer, RequestContext::new(&self.shared, &settings)).refused(&refused);
    }

    fn turn_away(&self, caller: AcceptedConnection, fault: Fault) {
        let Ok(permit) = Arc::clone(&self.refusals).try_acquire_owned() else { return };
        let shared = Arc::clone(&self.shared);
        self.spawn(async move {
            connection::turn_away(caller, &fault, &shared).await;
            drop(permit);
        });
    }

    /// Handles a connection beside the others. If that panics, the connection is reset.
    fn spawn(&self, handler: impl Future<Output = ()> + Send + 'static) {
        let (shared, alive) = (Arc::clone(&self.shared), self.alive.clone());
        tokio::spawn(async move {
            if let Err(panicked) = catch_panic(handler).await {
                shared.observer.counts.panicked("a connection", &panicked);
            }
            drop(alive);
        });
    }

    /// Turns away the connections that the kernel has taken already: they would be reset with the
    /// listener, which is closed then.
    fn shut(&self, listener: &TcpListener, scheme: Scheme) {
        let listener = SockRef::from(listener);
        for (client, peer) in std::iter::from_fn(|| listener.accept().ok()).take(BACKLOG as usize) {
            let client =
                client.set_nonblocking(true).and_then(|()| TcpStream::from_std(client.into()));
            if let (Ok(client), Some(peer)) = (client, peer.as_socket()) {
                self.turn_away(AcceptedConnection::new(client, peer, scheme), stopping());
            }
        }
    }
}

/// Whether a client's first byte is that of a session, if it comes soon.
async fn opens_session(client: &TcpStream) -> bool {
    let mut first = [0];
    let peeked = timeout(GRACE, client.peek(&mut first)).await;
    matches!(peeked, Ok(Ok(1))) && first[0] == FIRST_BYTE
}

/// Sends a short response and waits for the client to close, for a bounded time. Closing with unread input
/// would send a reset that may overtake the response.
async fn say(client: &TcpStream, answer: &[u8]) {
    // It fits into any connection that is new.
    let _ = timeout(GRACE, client.writable()).await;
    let _ = client.try_write(answer);
    let _ = SockRef::from(client).shutdown(Shutdown::Write);
    let read = async {
        let mut scrap = [0; 1024];
        while client.readable().await.is_ok() {
            match client.try_read(&mut scrap) {
                Ok(0) => return,
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return,
                _ => tokio::task::consume_budget().await,
            }
        }
    };
    let _ = timeout(GRACE, read).await;
}
