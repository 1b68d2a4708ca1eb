// SPDX-License-Identifier: GPL-2.0-or-later
//! A local proxy into depots: SOCKS5 and HTTP on one port, told apart by the first byte.
//!
//! ```text
//! config    the configuration file, reloaded when it changes
//! socks     SOCKS5 (RFC 1928), optionally with user name and password (RFC 1929)
//! web       HTTP: CONNECT and absolute URLs; /proxy.pac and /status.json for this machine
//! itself    whether a server is the agent itself
//! link      a stream with the traits that hyper expects
//! connect   client side: one connection through a running agent (ssh's ProxyCommand), its status
//! ```
//! Threats. Clients are programs of this machine, and web pages that make a browser send requests here. The agent listens on
//! loopback, or requires a password. A page can send neither CONNECT nor an absolute URL. Other requests are answered
//! only if Host is an IP address or localhost, which defeats DNS rebinding, and they change nothing. With `login`, all but
//! /proxy.pac takes the password, and a client has few tries (`relay::guesses`). A slow client has
//! `HEAD_TIME` for its request. At most `MOST` connections are open, `MOST_OF_CLIENT` of another machine, and request
//! headers are bounded. Sessions that are being opened have shares, so that one client or one silent server does not take
//! all that a depot has for this machine. A tunnel to the agent itself is refused.

mod config;
pub mod connect;
mod itself;
mod link;
mod socks;
mod web;

pub use config::{Config, Login};

use crate::{
    chain::{ChainError, EntryDialer},
    connections::{Live, Route},
    shares::{Share, Shares},
    trial::{DownDepots, OpenError, Unconnected},
    tunnel,
};
use host::settings_file::{self, Settings};
use protocol::{
    Authority, catch_panic,
    http::{ProxyError, proxy::Credentials},
};
use relay::{
    client_key::host_key,
    copy::RelayResources,
    dial::{Class, Refusal},
    guesses::{Guesses, TooManyGuesses},
    tcp::Stream,
};
use route::Destination;
use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::unix::net::UnixStream,
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime,
    sync::Semaphore,
    time::{Instant, sleep, timeout},
};

/// Maximum number of open connections; further ones wait.
const MOST: usize = 4096;
/// Maximum number of open connections of one client on another machine.
const MOST_OF_CLIENT: usize = 1024;
/// Maximum number of connections that are being made for one client on another machine, and to one server: a quarter of
/// what a depot serves of one client.
const MOST_OPENING: usize = 64;
/// Interval between looks for a free share.
const LOOK: Duration = Duration::from_millis(20);
/// Time limit for a client's request.
const HEAD_TIME: Duration = Duration::from_secs(10);

/// The proxy.
#[derive(Debug)]
pub struct Agent {
    settings: Settings<Config>,
    caller: Arc<EntryDialer>,
    down: DownDepots,
    live: Live,
    guesses: Guesses,
    /// Where it listens, once it does.
    listener: OnceLock<SocketAddr>,
    clients: Arc<Shares<IpAddr>>,
    opening_for: Arc<Shares<IpAddr>>,
    opening_to: Arc<Shares<String>>,
    resources: RelayResources,
}

/// Why a client is not connected.
#[derive(Debug)]
pub(crate) struct Failed {
    pub kind: ProxyError,
    pub text: String,
}

impl Agent {
    /// One with these settings, which come from `file` if there is one.
    pub fn new(config: Config, file: Option<PathBuf>) -> Arc<Self> {
        let caller = Arc::new(EntryDialer::new(config.ca.clone()));
        let (asking, time) = (Arc::clone(&caller), config.connect_timeout);
        let down = DownDepots::of(asking, &config.routes, config.ca.as_ref(), time, None);
        Arc::new(Self {
            settings: Settings::new(config, file),
            down,
            caller,
            live: Live::default(),
            guesses: Guesses::default(),
            listener: OnceLock::new(),
            clients: Shares::new(MOST_OF_CLIENT),
            opening_for: Shares::new(MOST_OPENING),
            opening_to: Shares::new(MOST_OPENING),
            resources: tunnel::resources(),
        })
    }

    /// Serves until `stop` can be read.
    ///
    /// # Errors
    /// The port is taken, or not to be had.
    pub fn run(self: Arc<Self>, stop: UnixStream) -> io::Result<()> {
        stop.set_nonblocking(true)?;
        let runtime = runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let stop = tokio::net::UnixStream::from_std(stop)?;
            let listen = self.config().listen;
            let listener = TcpListener::bind(listen).await.map_err(|error| {
                io::Error::new(error.kind(), format!("cannot listen at {listen}: {error}"))
            })?;
            let own = *self.listener.get_or_init(|| listener.local_addr().unwrap_or(listen));
            tracing::info!(listen = %own, "ready");
            tokio::select! {
                () = self.serve(listener) => {}
                stopped = stop.readable() => stopped?,
            }
            tracing::info!("stopped");
            Ok(())
        })
    }

    async fn serve(self: Arc<Self>, listener: TcpListener) {
        tokio::spawn(Arc::clone(&self).follow_file());
        let places = Arc::new(Semaphore::new(MOST));
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((socket, from)) => {
                    let agent = Arc::clone(&self);
                    let share = share_of(&self.clients, from);
                    tokio::spawn(async move {
                        if let Ok(_share) = share {
                            agent.serve_caught(socket, from).await;
                        } else {
                            tracing::info!(%from, "it has too many connections");
                        }
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    /// A panic ends one connection, not the process.
    async fn serve_caught(self: Arc<Self>, socket: TcpStream, from: SocketAddr) {
        if let Err(panicked) = catch_panic(self.serve_one(socket, from)).await {
            tracing::error!(%from, %panicked, "a defect has ended a connection. Please report it");
        }
    }

    async fn serve_one(self: Arc<Self>, socket: TcpStream, from: SocketAddr) {
        let _ = socket.set_nodelay(true);
        let mut first = [0];
        match timeout(HEAD_TIME, socket.peek(&mut first)).await {
            Ok(Ok(1)) if first[0] == socks::VERSION => socks::serve(&self, socket, from).await,
            Ok(Ok(1)) => web::serve(self, socket, from).await,
            _ => {}
        }
    }

    fn config(&self) -> Arc<Config> {
        self.settings.get()
    }

    /// Reads the file again whenever it changes.
    async fn follow_file(self: Arc<Self>) {
        loop {
            sleep(settings_file::LOOK).await;
            let before = self.settings.reread(Config::read);
            if before.is_some_and(|before| before.listen != self.config().listen) {
                tracing::warn!("`listen` has changed: that takes a restart");
            }
        }
    }

    /// Whether a client shows the login, if there is one.
    ///
    /// # Errors
    /// It has tried too many wrong passwords.
    pub(crate) async fn admits(
        &self,
        from: SocketAddr,
        given: Option<&Credentials>,
    ) -> Result<bool, TooManyGuesses> {
        let config = self.config();
        let Some(login) = &config.login else { return Ok(true) };
        let Some(Credentials { user, password }) = given else { return Ok(false) };
        login.is_shown((&self.guesses, from.ip()), (user.as_bytes(), password)).await
    }

    /// Connects by the first route that works. Connects directly if no route matches, or all have failed.
    pub(crate) async fn open(
        &self,
        from: SocketAddr,
        to: &Destination,
    ) -> Result<(Stream, Route), Failed> {
        let (config, server) = (self.config(), to.server());
        if let Some(own) = self.listener.get()
            && itself::is_listener(*own, &server).await
        {
            return Err(looped(&server));
        }
        let time = config.connect_timeout;
        let until = Instant::now() + time;
        let busy = || Failed {
            kind: ProxyError::ConnectionLimitReached,
            text: format!("too many connections to {server}, or of this client, are being made"),
        };
        let take = || share_of(&self.opening_for, from).ok();
        let _for_client = wait_for(take, until).await.ok_or_else(busy)?;
        let take = || self.opening_to.take(to.key());
        let _to_server = wait_for(take, until).await.ok_or_else(busy)?;
        let routes = config.routes.matching(to).await.routes;
        let choice = self.live.choose(to, routes);
        let unconnected = match self.down.open_first(to, choice, time).await {
            Ok(opened) => return Ok(opened),
            Err(OpenError::OfServer(error)) => return Err(error.into()),
            Err(OpenError::Unconnected(unconnected)) => unconnected,
        };
        let left_alone = || "no route was reached some seconds ago".to_owned();
        let route = match unconnected {
            Unconnected::NoRoute => Route::Direct,
            Unconnected::Short => Route::Short,
            Unconnected::AllFailed(last) if config.strict => {
                let kind = ProxyError::ConnectionRefused;
                return Err(last.map_or_else(|| Failed { kind, text: left_alone() }, Failed::from));
            }
            Unconnected::AllFailed(last) => {
                Route::FellBack(last.map_or_else(left_alone, |error| error.to_string()))
            }
        };
        let stream = self.caller.connect(&server, time).await?;
        // The name may have led elsewhere before.
        let peer = stream.peer();
        let is_own =
            |own: &SocketAddr| own.port() == peer.port() && itself::leads_to(*own, peer.ip());
        if self.listener.get().is_some_and(is_own) {
            return Err(looped(&server));
        }
        Ok((stream, route))
    }
}

/// What `take` gives, as soon as it does.
async fn wait_for<T>(take: impl Fn() -> Option<T>, until: Instant) -> Option<T> {
    loop {
        match take() {
            None if Instant::now() < until => sleep(LOOK).await,
            taken => return taken,
        }
    }
}

/// A client has its share already.
struct TooMany;

/// One of a client's share; programs of this machine have none, which are all at the same address.
fn share_of(
    shares: &Arc<Shares<IpAddr>>,
    client: SocketAddr,
) -> Result<Option<Share<IpAddr>>, TooMany> {
    if client.ip().to_canonical().is_loopback() {
        return Ok(None);
    }
    shares.take(host_key(client.ip())).map(Some).ok_or(TooMany)
}

fn looped(server: &Authority) -> Failed {
    let text = format!("{server} is this proxy itself");
    Failed { kind: ProxyError::ProxyLoopDetected, text }
}

impl From<ChainError> for Failed {
    fn from(error: ChainError) -> Self {
        let kind = match &error {
            ChainError::Refused { fault, .. } => fault.error,
            _ => ProxyError::ConnectionRefused,
        };
        Self { kind, text: error.to_string() }
    }
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Self {
        let kind = match refusal.class {
            Class::NameUnknown => ProxyError::DnsError,
            Class::NameTimeout => ProxyError::DnsTimeout,
            Class::ConnectionTimeout => ProxyError::ConnectionTimeout,
            Class::Unroutable => ProxyError::DestinationIpUnroutable,
            Class::Forbidden => ProxyError::DestinationIpProhibited,
            _ => ProxyError::ConnectionRefused,
        };
        Self { kind, text: refusal.text }
    }
}
