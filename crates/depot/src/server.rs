// SPDX-License-Identifier: GPL-2.0-or-later
//! The daemon: listeners, limits, signals, drain.

use crate::{
    config::{Config, ConfigError},
    connection,
    limits::Gate,
    tune::{self, TuneError},
};
use http::StatusCode;
use session::{
    DepotId, DepotIdError,
    message::{Fault, ProxyError},
};
use socket2::{Domain, Socket, Type};
use std::{
    io,
    net::{SocketAddr, TcpListener as StdListener},
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    signal::unix::{SignalKind, signal},
    sync::{Semaphore, mpsc, watch},
};

/// Pending connections that the kernel keeps for each listener.
const BACKLOG: i32 = 1024;
/// How many that are not let in are told why at a time; further ones are just closed.
const TURNED_AWAY: usize = 64;

/// Why a depot does not start or go on. The fault is with the configuration or the host.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A hop's socket settings cannot be had.
    #[error(transparent)]
    Tune(#[from] TuneError),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {error} (is another program using it?)")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// This host's name does not serve as an id.
    #[error("this host's name gives no id for the depot: {0}; set `id`")]
    Id(#[from] DepotIdError),
    /// The runtime or the signal handlers cannot be set up.
    #[error("the system refuses what a daemon needs: {0}")]
    System(#[from] io::Error),
}

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub config: Config,
    pub id: DepotId,
    stop: watch::Receiver<bool>,
}

impl Shared {
    /// Waits until the depot is told to stop.
    pub(crate) async fn stopping(&self) {
        // An error means that nobody is left who could tell: then it stops for certain.
        let _ = self.stop.clone().wait_for(|stop| *stop).await;
    }
}

/// A depot that listens.
#[derive(Debug)]
pub struct Depot {
    listeners: Vec<TcpListener>,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
}

/// Runs a depot until SIGTERM or SIGINT: it then stops accepting and finishes what is under way,
/// up to the drain time. A second signal ends it at once.
///
/// # Errors
/// The depot cannot start.
pub fn run(config: Config) -> Result<(), Error> {
    raise_file_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(async {
        let depot = Depot::bind(config)?;
        let (mut term, mut int) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let mut signals = async || tokio::select! { _ = term.recv() => (), _ = int.recv() => () };
        depot.serve(&mut signals).await;
        Ok(())
    });
    // Transfers that outlast the drain are dropped here, which closes their sockets.
    runtime.shutdown_timeout(Duration::from_secs(1));
    result
}

/// Checks a configuration by itself and against this host, without starting anything.
///
/// # Errors
/// The configuration is wrong, or the host cannot do as it says.
pub fn check(config: &Config) -> Result<(), Error> {
    config.check()?;
    Ok(tune::check(&config.hops)?)
}

impl Depot {
    /// Checks the configuration against this host and opens the listeners. Needs a runtime.
    ///
    /// # Errors
    /// The configuration is wrong, or the host cannot do as it says.
    pub fn bind(config: Config) -> Result<Self, Error> {
        check(&config)?;
        let listeners: Vec<TcpListener> = config
            .listen
            .iter()
            .map(|address| {
                listen(*address).map_err(|error| Error::Listen { address: *address, error })
            })
            .collect::<Result<_, _>>()?;
        let id = match &config.id {
            Some(id) => id.parse()?,
            None => default_id(&listeners)?,
        };
        let (stop, stopped) = watch::channel(false);
        let shared = Arc::new(Shared { config, id, stop: stopped });
        Ok(Self { listeners, shared, stop })
    }

    /// The addresses it listens on, with the ports that the system chose where 0 was given.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// Serves until `signal` resolves, then drains until all is done, the drain time is over, or
    /// `signal` resolves again.
    pub async fn serve(self, signal: &mut impl AsyncFnMut()) {
        let addresses: Vec<String> = self.addresses().iter().map(ToString::to_string).collect();
        let drain = Duration::from(self.shared.config.timeouts.drain);
        let (alive, mut all_done) = mpsc::channel::<()>(1);
        let door = Door {
            shared: Arc::clone(&self.shared),
            gate: Gate::new(&self.shared.config.limits),
            refusals: Arc::new(Semaphore::new(TURNED_AWAY)),
            alive,
        };
        for listener in self.listeners {
            tokio::spawn(door.clone().keep(listener));
        }
        drop(door);
        tracing::info!(
            id = self.shared.id.as_str(),
            listen = addresses.join(","),
            clients = self.shared.config.allow.clients.len(),
            upstreams = self.shared.config.allow.upstreams.len(),
            "ready"
        );
        signal().await;
        self.stop.send_replace(true);
        tracing::info!(seconds = drain.as_secs_f64(), "stopping: finishing transfers under way");
        tokio::select! {
            // Resolves once every holder of `alive` is gone: listeners and connections.
            _ = all_done.recv() => tracing::info!("stopped: all transfers are finished"),
            () = tokio::time::sleep(drain) => tracing::warn!("stopped: the drain time is over"),
            () = signal() => tracing::warn!("stopped: told so twice"),
        }
    }
}

/// What stands between a listener and the connections that it accepts.
#[derive(Debug, Clone)]
struct Door {
    shared: Arc<Shared>,
    gate: Arc<Gate>,
    /// Permits to be told why one is not let in.
    refusals: Arc<Semaphore>,
    /// Held for as long as a listener or connection is there.
    alive: mpsc::Sender<()>,
}

impl Door {
    /// Accepts connections until the depot stops.
    async fn keep(self, listener: TcpListener) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.shared.stopping() => break,
            };
            match accepted {
                Ok((client, peer)) => self.admit(client, peer),
                Err(error) => {
                    // Out of files or memory: the connection stays queued, so asking again at once
                    // would only spin.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        self.shut(listener);
    }

    /// Serves a connection, or turns it away: strangers before they take up a place.
    fn admit(&self, client: TcpStream, peer: SocketAddr) {
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        if !self.shared.config.allow.client(peer.ip()) {
            let reason = format!("this depot is not open for clients from {}", peer.ip());
            let (status, error) = (StatusCode::FORBIDDEN, ProxyError::HttpRequestDenied);
            return self.turn_away(client, peer, Fault::new(status, error, reason));
        }
        match self.gate.enter(peer.ip()) {
            Ok(place) => {
                let (shared, alive) = (Arc::clone(&self.shared), self.alive.clone());
                tokio::spawn(async move {
                    connection::serve(client, peer, &shared).await;
                    drop((place, alive));
                });
            }
            Err(reason) => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                let fault = Fault::new(status, ProxyError::ConnectionLimitReached, reason);
                self.turn_away(client, peer, fault);
            }
        }
    }

    fn turn_away(&self, client: TcpStream, peer: SocketAddr, fault: Fault) {
        let Ok(permit) = Arc::clone(&self.refusals).try_acquire_owned() else { return };
        let (shared, alive) = (Arc::clone(&self.shared), self.alive.clone());
        tokio::spawn(async move {
            connection::turn_away(client, peer, &fault, &shared).await;
            drop((permit, alive));
        });
    }

    /// Closes the listener. Connections that the kernel has taken already would be reset with it,
    /// so they are told first.
    fn shut(&self, listener: TcpListener) {
        let Ok(listener) = listener.into_std() else { return };
        for (client, peer) in std::iter::from_fn(|| listener.accept().ok()).take(BACKLOG as usize) {
            let client = client.set_nonblocking(true).and_then(|()| TcpStream::from_std(client));
            if let Ok(client) = client {
                self.turn_away(client, peer, connection::stopping());
            }
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // So that 0.0.0.0 and [::] can stand beside each other.
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(StdListener::from(socket))
}

/// The host's name and the port, so that two depots on one host differ.
fn default_id(listeners: &[TcpListener]) -> Result<DepotId, DepotIdError> {
    let name = rustix::system::uname();
    let name = name.nodename().to_string_lossy();
    let port = listeners.first().and_then(|l| l.local_addr().ok()).map_or(0, |a| a.port());
    let id = format!("{}-{port}", name.chars().take(50).collect::<String>());
    // A name may begin with a digit, an id may not.
    id.parse().or_else(|_| format!("depot-{id}").parse())
}

/// A transfer takes four files; the usual soft limit of 1024 is soon reached, the hard one not.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit on open files stays as it is");
    }
}
