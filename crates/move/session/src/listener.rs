// SPDX-License-Identifier: GPL-2.0-or-later
//! Listens for initiators.
//!
//! Threats: anybody can connect, say nothing, say something else, or name a session of others. Connections that have not
//! said what they want are few and short-lived, sessions are bounded, and only a proof changes one.

use crate::{
    accepting::Acceptor,
    acceptor::Incoming,
    connection::{accepted, end},
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
    session::{Answer, Header, Open, Target, record::EndCode},
};
use relay::tcp::Stream;
use std::{io, net::SocketAddr, sync::Arc};
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
    acceptor: Acceptor,
    incoming: tokio::sync::Mutex<mpsc::Receiver<Incoming>>,
    task: AbortHandle,
}

impl Listener {
    /// Listens. Needs a runtime of tokio.
    ///
    /// # Errors
    /// The address cannot be had.
    pub async fn bind(address: impl ToSocketAddrs, options: ListenOptions) -> io::Result<Self> {
        Self::over(TcpListener::bind(address).await?, Acceptor::new(options))
    }

    /// Listens at a socket that the application has bound. Needs a runtime of tokio.
    ///
    /// # Errors
    /// The socket does not listen, or cannot be watched.
    pub fn from_std(listener: std::net::TcpListener, options: ListenOptions) -> io::Result<Self> {
        Self::serving(listener, Acceptor::new(options))
    }

    /// The same for sessions that were [restored](Acceptor::restore) before an initiator can ask for them. Needs a runtime of tokio.
    ///
    /// # Errors
    /// The socket does not listen, or cannot be watched.
    pub fn serving(listener: std::net::TcpListener, acceptor: Acceptor) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Self::over(TcpListener::from_std(listener)?, acceptor)
    }

    fn over(listener: TcpListener, acceptor: Acceptor) -> io::Result<Self> {
        let local = listener.local_addr()?;
        let (sender, incoming) = mpsc::channel(acceptor.options().backlog.max(1));
        let task = tokio::spawn(listen(listener, acceptor.clone(), sender)).abort_handle();
        Ok(Self { local, acceptor, incoming: tokio::sync::Mutex::new(incoming), task })
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
    /// room for it. An initiator that comes before is told that the session is not known, which ends it: if it may come at any
    /// time, use [`serving`](Self::serving). `received` is a [`Beginning`], or a `Prefix` if the session has no further digest.
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
        self.acceptor.restore(state, received, outgoing, options)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen(listener: TcpListener, acceptor: Acceptor, incoming: mpsc::Sender<Incoming>) {
    let places = Arc::new(Semaphore::new(acceptor.options().handshakes));
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
        let (acceptor, incoming) = (acceptor.clone(), incoming.clone());
        tokio::spawn(async move {
            let _ = tcp.set_nodelay(true);
            let stream = Stream::new(tcp, peer);
            let time = acceptor.options().handshake_time;
            if let Ok(Err(Loss::Connection(reason))) =
                timeout(time, greet(Wire::new(stream), &acceptor, &incoming)).await
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
    acceptor: &Acceptor,
    incoming: &mpsc::Sender<Incoming>,
) -> Result<(), Loss> {
    let open = read_open(&mut wire).await?;
    wire.say(&accepted()).await?;
    if let Some(asked) = acceptor.greet_wire(wire, open.session).await?
        && let Err(refused) = incoming.try_send(asked)
    {
        refused.into_inner().refuse_with(EndCode::NoRoom, "").await;
    }
    Ok(())
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
