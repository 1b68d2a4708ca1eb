// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections taken over on their route, on a router or on the host that makes them (transparent interception).
//!
//! ```text
//! config     settings, reloaded when their file changes
//! ruleset    the nftables table
//! steering   policy routing, and the guard that removes it
//! packet     a held SYN, and what refuses it
//! held       connections whose SYN is held
//! sockets    transparent listeners, raw sockets
//! status     what `intercept status` shows
//! ```
//! The table holds a connection's first SYN: it is logged to this process and dropped. A session to the server is opened.
//! Then the same SYN is sent again, with a mark that leads it to a listener of this process. So a client is connected
//! once its server is; if the server refuses, so does the answer to the SYN. `log` and a raw socket do what `queue`
//! would, in every kernel, and the table stays free of verdicts that wait for a process.
//!
//! If no route works, connections to that server pass the table for `PASS` (or are refused: `strict`). The held client
//! sends its SYN again after 1 s, and that one takes its usual route, with all of this host's filters.
//!
//! Threats. Machines in `clients`, and anyone who can forge their addresses, can send SYNs at any rate: held connections
//! are bounded, with shares for each client and server (`held.rs`), open ones by `MOST_OPEN` and `MOST_OF_CLIENT`. Listeners are on loopback, and reset what was not held. A route
//! reaches no loopback, and no private network that it does not name (`config.rs`). Depots' own connections and those to
//! depots are never held, so none comes back. The status socket answers root alone.

mod config;
mod held;
mod packet;
mod ruleset;
mod sockets;
mod status;
mod steering;

pub use config::Config;
pub use ruleset::TABLE;
pub use status::{Report, status};
pub use steering::guard;

use crate::{
    chain::EntryDialer,
    connections::Live,
    shares::Shares,
    short::Choice,
    sys,
    trial::{DownDepots, OpenError, Unconnected},
    tunnel::{self, tunnel},
};
use bytes::BytesMut;
use held::{Held, HeldConnections};
use host::{
    IprouteError, Lack, Nftables, NftablesError, PacketLog,
    settings_file::{self, Settings},
};
use packet::{Refusal, Syn};
use protocol::proxy_protocol;
use relay::{client_key::host_key, copy::RelayResources, tcp::info::reset_on_close};
use route::Destination;
use ruleset::Ends;
use sockets::PacketSender;
use std::{
    collections::BTreeSet,
    io::{self, ErrorKind},
    net::{IpAddr, SocketAddr},
    os::unix::net::UnixStream,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use steering::Steering;
use tokio::{
    io::Interest,
    net::{TcpListener, lookup_host},
    runtime,
    task::block_in_place,
    time::{interval, sleep, timeout},
};

/// How long connections to a server pass after all routes to it failed.
const PASS: Duration = Duration::from_secs(10);
/// Time limit for a client whose SYN was sent again.
const ACCEPTANCE: Duration = Duration::from_secs(10);
/// Time limit for a route if the settings have none.
const CONNECT: Duration = Duration::from_secs(10);
/// Maximum number of open connections, and of those of one client.
const MOST_OPEN: usize = 16_384;
const MOST_OF_CLIENT: usize = MOST_OPEN / 4;
/// Interval between checks that table and policy routing are as they were set up.
const CHECK: Duration = Duration::from_secs(10);
/// Interval between look-ups of depots' names.
const LOOK_UP: Duration = Duration::from_secs(60);

/// Why nothing is intercepted.
#[derive(Debug, thiserror::Error)]
pub enum InterceptError {
    /// This machine or this user's rights lack something.
    #[error("{0}")]
    Lacks(Lack),
    /// Something else is in its place.
    #[error("{0}")]
    Failed(String),
}

impl From<NftablesError> for InterceptError {
    fn from(error: NftablesError) -> Self {
        match error {
            NftablesError::Missing(lack) => Self::Lacks(lack),
            NftablesError::Refused(_) => Self::Failed(error.to_string()),
        }
    }
}

impl From<IprouteError> for InterceptError {
    fn from(error: IprouteError) -> Self {
        match error {
            IprouteError::Missing(lack) => Self::Lacks(lack),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<io::Error> for InterceptError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::PermissionDenied => {
                Self::Lacks(Lack::root("interception needs CAP_NET_ADMIN and CAP_NET_RAW"))
            }
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// The table as text, and the policy routing as comments. Depots that are named by addresses alone are in it, and ports
/// of listeners are 0.
pub fn rules(config: &Config) -> String {
    let ends = Ends { v6: Some(0), depots: BTreeSet::new(), ..Ends::default() };
    ruleset::table(config, &ends, "flags owner;") + &Steering::text()
}

/// Removes policy routing that an interceptor has left behind which was killed together with its guard.
pub fn clean() {
    steering::remove();
}

/// The interceptor.
#[derive(Debug)]
pub struct Interceptor {
    settings: Settings<Config>,
    down: DownDepots,
    live: Live,
    held: Arc<HeldConnections>,
    of_client: Arc<Shares<IpAddr>>,
    resources: RelayResources,
}

/// What the kernel has of an interceptor. Fields are dropped in this order: the table first, which marks packets.
struct Installed {
    table: Mutex<Table>,
    replaying: PacketSender,
    refusing: PacketSender,
    steering: Steering,
}

struct Table {
    nftables: Nftables,
    ends: Ends,
    /// As the kernel showed it right after it was written.
    shown: String,
}

impl Interceptor {
    /// One with these settings, which come from `file` if there is one.
    pub fn new(config: Config, file: Option<PathBuf>) -> Arc<Self> {
        let caller = Arc::new(EntryDialer::new(config.ca.clone()).with_mark(ruleset::OWN));
        let time = config.connect_timeout.unwrap_or(CONNECT);
        let mark = Some(ruleset::OWN);
        let down = DownDepots::of(caller, &config.routes, config.ca.as_ref(), time, mark);
        Arc::new(Self {
            settings: Settings::new(config, file),
            down,
            live: Live::default(),
            held: Arc::default(),
            of_client: Shares::new(MOST_OF_CLIENT),
            resources: tunnel::resources(),
        })
    }

    /// Intercepts until `stop` can be read.
    ///
    /// # Errors
    /// The kernel or the user's rights do not allow it, or another interceptor is at work.
    pub fn run(self: Arc<Self>, stop: UnixStream) -> Result<(), InterceptError> {
        stop.set_nonblocking(true)?;
        let runtime = runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let stop = tokio::net::UnixStream::from_std(stop)?;
            let v4 = sockets::listen(false)?;
            // Without IPv6 on this host there is nothing to intercept in it.
            let v6 = sockets::listen(true).ok();
            let (installed, log) = self.install(&v4, v6.as_ref()).await?;
            let installed = Arc::new(installed);
            tokio::spawn(status::serve(Arc::clone(&self)));
            for listener in [Some(v4), v6].into_iter().flatten() {
                tokio::spawn(Arc::clone(&self).accept(listener));
            }
            let working = Arc::clone(&self).read(log, &installed);
            tracing::info!(table = TABLE, "ready");
            let failed = tokio::select! {
                failed = working => Some(failed),
                failed = self.keep(&installed) => Some(failed),
                stopped = stop.readable() => { stopped?; None }
            };
            tracing::info!("stopped");
            failed.map_or(Ok(()), Err)
        })
    }

    /// Makes table, policy routing and the log that the table writes to.
    async fn install(
        &self,
        v4: &TcpListener,
        v6: Option<&TcpListener>,
    ) -> Result<(Installed, PacketLog), InterceptError> {
        let mut nftables = Nftables::open()?;
        if nftables.run(&format!("list table inet {TABLE}")).is_ok() {
            return Err(InterceptError::Failed(format!(
                "there is a table inet {TABLE} already: another `longhaul intercept run` has it \
                 (see `longhaul intercept status`), or `nft delete table inet {TABLE}` removes it"
            )));
        }
        let log = PacketLog::open(ruleset::LOG_GROUP)?;
        let has_v6 = v6.is_some();
        let replaying = PacketSender::replaying(has_v6)?;
        let refusing = PacketSender::refusing(has_v6)?;
        let steering = Steering::set_up(has_v6)?;
        let port = |listener: &TcpListener| Ok::<_, io::Error>(listener.local_addr()?.port());
        let config = self.config();
        let depots = depot_addresses(&config).await;
        let ends = Ends { v4: port(v4)?, v6: v6.map(port).transpose()?, depots };
        let mut table = Table { nftables, ends, shown: String::new() };
        table.write(&config)?;
        let table = Mutex::new(table);
        Ok((Installed { table, replaying, refusing, steering }, log))
    }

    /// Reads held SYNs.
    async fn read(self: Arc<Self>, log: PacketLog, installed: &Arc<Installed>) -> InterceptError {
        let mut log = match sys::watch(log, Interest::READABLE) {
            Ok(log) => log,
            Err(error) => return error.into(),
        };
        loop {
            let mut syns = Vec::new();
            let received = log
                .async_io_mut(Interest::READABLE, |log| {
                    log.receive(|packet| syns.extend(Syn::parse(packet)))
                })
                .await;
            if let Err(error) = received {
                // The kernel has dropped some; their clients send them again.
                if error.raw_os_error() != Some(libc::ENOBUFS) {
                    return error.into();
                }
            }
            for syn in syns {
                if let Some(held) = self.held.hold(&syn) {
                    let (this, installed) = (Arc::clone(&self), Arc::clone(installed));
                    tokio::spawn(async move { this.connect(syn, held, &installed).await });
                }
            }
        }
    }

    async fn accept(self: Arc<Self>, listener: TcpListener) {
        loop {
            match sockets::accept(&listener).await {
                Ok((stream, server)) => self.held.accepted(stream, server),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    /// Connects a held client, or tells it why not.
    async fn connect(self: Arc<Self>, syn: Syn, held: Held, installed: &Installed) {
        let config = self.config();
        let refuse = |refusal| {
            self.live.failed();
            let packet = syn.refused(refusal);
            if let Err(error) = installed.refusing.send(&packet, syn.client) {
                tracing::warn!(client = %syn.client, %error, "cannot refuse a connection");
            }
        };
        let Syn { client, server, .. } = syn;
        let Some(_share) = self.of_client.take(host_key(client.ip())) else {
            tracing::info!(%client, "{server}: the client has {MOST_OF_CLIENT} connections");
            return refuse(Refusal::Reset);
        };
        let destination = Destination::Address(server);
        let routes = config.routes.matching(&destination).await.routes;
        let choice = Choice { routes, is_short: false };
        let time = config.connect_timeout.unwrap_or(CONNECT);
        let full = self.live.open() >= MOST_OPEN;
        let by_forecast = config.routes.forecast_by().is_some();
        let opened = if full {
            Err(OpenError::Unconnected(Unconnected::NoRoute))
        } else {
            self.down.open_first(&destination, choice, time).await
        };
        let (stream, route) = match opened {
            Ok(opened) => opened,
            Err(OpenError::OfServer(error)) => {
                tracing::info!(%client, "{server}: {error}");
                let is_refused = error.errno() == libc::ECONNREFUSED;
                return refuse(if is_refused { Refusal::Reset } else { Refusal::Unreachable });
            }
            // Directly is one of the routes by forecast, and the others are slower.
            Err(OpenError::Unconnected(Unconnected::NoRoute)) if by_forecast && !full => {
                return installed.let_pass(server);
            }
            Err(OpenError::Unconnected(_)) if config.strict => return refuse(Refusal::Reset),
            Err(OpenError::Unconnected(_)) => {
                self.live.fell_back();
                return installed.let_pass(server);
            }
        };
        if let Err(error) = installed.replaying.send(&syn.packet, server) {
            tracing::warn!(%client, %error, "cannot send a held SYN again");
            return;
        }
        let mut held = held;
        let Ok(Ok(accepted)) = timeout(ACCEPTANCE, &mut held.accepted).await else {
            tracing::info!(%client, "{server}: the client did not complete its connection");
            reset_on_close(stream.tcp(), true);
            return;
        };
        drop(held);
        let listed = self.live.list(client, "tcp", &destination.server(), route);
        let mut ahead = BytesMut::new();
        if config.proxy_protocol.iter().any(|to| to.contains(server)) {
            ahead.extend(proxy_protocol::header(client, server));
        }
        let passed = &listed.connection.passed;
        if let Err(error) = tunnel((accepted, ahead), stream, &self.resources, passed).await {
            tracing::debug!(%client, %server, %error, "ended");
        }
    }

    /// Keeps the table as the settings and depots' addresses are, and table and policy routing as they were set up.
    async fn keep(&self, installed: &Installed) -> InterceptError {
        let mut tick = interval(settings_file::LOOK);
        let seconds = |time: Duration| time.as_secs();
        for second in 1.. {
            tick.tick().await;
            let is_changed = self.settings.reread(Config::read).is_some();
            if is_changed || second % seconds(LOOK_UP) == 0 {
                let config = self.config();
                let depots = depot_addresses(&config).await;
                let written = block_in_place(|| installed.rewrite(&config, depots, is_changed));
                if let Err(error) = written {
                    return error;
                }
            }
            if second == 1 || second % seconds(CHECK) == 0 {
                let checked = block_in_place(|| installed.check(&self.config()));
                if let Err(error) = checked {
                    return error;
                }
            }
        }
        unreachable!("a number of 64 bits does not end")
    }

    fn config(&self) -> Arc<Config> {
        self.settings.get()
    }
}

impl Installed {
    /// Lets connections to a server pass for a while. The held one comes again with its client's next SYN.
    fn let_pass(&self, server: SocketAddr) {
        let commands = ruleset::let_pass(server, PASS);
        let passed = block_in_place(|| self.table().nftables.run(&commands));
        if let Err(error) = passed {
            tracing::warn!(%server, %error, "cannot let connections pass");
        }
    }

    /// Writes the table again if depots' addresses have changed, or the settings.
    fn rewrite(
        &self,
        config: &Config,
        depots: BTreeSet<SocketAddr>,
        is_changed: bool,
    ) -> Result<(), InterceptError> {
        let mut table = self.table();
        if !is_changed && table.ends.depots == depots {
            return Ok(());
        }
        table.ends.depots = depots;
        table.write(config)
    }

    /// Repairs what other programs have changed.
    fn check(&self, config: &Config) -> Result<(), InterceptError> {
        if self.steering.restore()? {
            tracing::warn!("another program has removed the policy routing: it is set up again");
        }
        let mut table = self.table();
        if table.show().is_ok_and(|shown| shown == table.shown) {
            return Ok(());
        }
        tracing::warn!("another program has changed the table inet {TABLE}: it is written again");
        table.write(config)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn write(&mut self, config: &Config) -> Result<(), InterceptError> {
        let is_there = self.nftables.run(&format!("list table inet {TABLE}")).is_ok();
        self.nftables.run(&ruleset::commands(config, &self.ends, is_there))?;
        self.shown = self.show()?;
        Ok(())
    }

    fn show(&mut self) -> Result<String, NftablesError> {
        ruleset::lists().iter().map(|command| self.nftables.run(command)).collect()
    }
}

/// Where the depots of all routes are, as far as it is known.
async fn depot_addresses(config: &Config) -> BTreeSet<SocketAddr> {
    let mut addresses = BTreeSet::new();
    for depot in config.routes.rules().iter().flat_map(|route| &route.via) {
        match lookup_host(depot.authority.to_string()).await {
            Ok(found) => addresses.extend(found),
            Err(error) => tracing::warn!(%depot, %error, "cannot look up a depot"),
        }
    }
    addresses
}
