// SPDX-License-Identifier: GPL-2.0-or-later
//! A local proxy into depots: SOCKS5 and HTTP on one port, told apart by the first byte.
//!
//! ```text
//! config    the configuration file, reloaded when it changes
//! socks     SOCKS5 (RFC 1928), optionally with user name and password (RFC 1929)
//! web       HTTP: CONNECT and absolute URLs; /proxy.pac and /status.json for this machine
//! link      a stream with the traits that hyper expects
//! connect   client side: one connection through a running agent (ssh's ProxyCommand), its status
//! ```
//! Threats. Clients are programs of this machine, and web pages that make a browser send requests here. The agent listens on
//! loopback, or requires a password. A page can send neither CONNECT nor an absolute URL. Other requests are answered
//! only if Host is an IP address or localhost, which defeats DNS rebinding, and they change nothing. A slow client has
//! `HEAD_TIME` for its request. At most `MOST` connections are open, and request headers are bounded.

mod config;
pub mod connect;
mod link;
mod socks;
mod web;

pub use config::{Config, Login};

use crate::{
    chain::{Caller, ChainError},
    connections::{Live, Route},
    routes::Destination,
    settings_file::{self, Settings},
    trial::{Down, OpenError, Unconnected},
    tunnel,
};
use relay::{
    copy::RelayResources,
    dial::{Class, Refusal},
    tcp::Stream,
};
use session::{catch_panic, message::ProxyError};
use std::{
    io, net::SocketAddr, os::unix::net::UnixStream, path::PathBuf, sync::Arc, time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime,
    sync::Semaphore,
    time::{sleep, timeout},
};

/// Maximum number of open connections; further ones wait.
const MOST: usize = 4096;
/// Time limit for a client's request.
const HEAD_TIME: Duration = Duration::from_secs(10);

/// The proxy.
#[derive(Debug)]
pub struct Agent {
    settings: Settings<Config>,
    caller: Arc<Caller>,
    down: Down,
    live: Live,
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
        let caller = Arc::new(Caller::new(config.ca.clone()));
        Arc::new(Self {
            settings: Settings::new(config, file),
            down: Down::new(Arc::clone(&caller)),
            caller,
            live: Live::default(),
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
            tracing::info!(listen = %listener.local_addr()?, "ready");
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
                    tokio::spawn(async move {
                        if let Err(panicked) = catch_panic(agent.serve_one(socket, from)).await {
                            tracing::error!(%from, %panicked, "a defect has ended a connection. Please report it");
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

    /// Connects by the first route that works. Connects directly if no route matches, or all have failed.
    pub(crate) async fn open(&self, to: &Destination) -> Result<(Stream, Route), Failed> {
        let config = self.config();
        let time = config.connect_timeout;
        let routes = config.routes.matching(to).await;
        let choice = self.live.choose(to, routes);
        let unconnected = match self.down.open_first(choice, time).await {
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
        let stream = self.caller.connect(&to.server(), time).await?;
        Ok((stream, route))
    }
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
