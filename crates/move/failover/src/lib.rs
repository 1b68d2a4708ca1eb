// SPDX-License-Identifier: GPL-2.0-or-later
//! Failover at a site: probes depots, and tells the web server which clients to redirect to which route.
//!
//! ```text
//! each second   probe ──▶ health ──▶ choice ──▶ include ──▶ the web server's file, and its reload
//!               every     up or      by route   as text     only where that has changed
//!               depot     down          └─────▶ routes_file ──▶ the file for programs
//! ```
//! A site that redirects clients to depots must stop when a depot dies. Each group of clients gets its first
//! route whose depots are all up, or each of its networks the fastest of these (`forecast`). Without one, the site serves its clients directly.
//!
//! Threats. Depots answer probes: their bytes are hostile, so a probe reads one head and a short body within a
//! timeout. Names may hang: lookups are bounded. No bytes of an answer get into the file, which is printed
//! from the configuration's own routes and networks; those cannot contain characters with a meaning for the
//! web server (quotes, spaces, line ends). The file is replaced, never written through a link.

mod config;
mod forecast;
mod include;
mod output_file;
mod probe;
mod reload;
mod routes_file;

pub use config::{Clients, Config, ConfigError, FailoverRoute, RouteOrder, Server};

use config::RouteOf;
use forecast::{Answered, Forecasts};
use health::{Finding, Health};
use host::{FileError, ReloadingFile, SettingFile};
use ipnet::IpNet;
use output_file::{OutputFile, Renewal};
use protocol::{DepotAddress, catch_panic};
use relay::{
    dial::Names,
    tcp::{tls::ClientConfig, tls_files::client_config},
};
use reload::Reload;
use sd_notify::NotifyState;
use std::{
    collections::HashMap,
    env, io,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval},
};

/// How often a lasting failure is logged again.
const SAID_AGAIN: Duration = Duration::from_secs(60);

/// Why failover does not start or go on. The configuration or the host is at fault.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file with certificates cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The include, or the file for programs, cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The web server does not reload.
    #[error("the web server does not reload: {0}")]
    Reload(String),
    /// The runtime or the signal handlers cannot be set up.
    #[error("the system refuses what a daemon needs: {0}")]
    System(#[from] io::Error),
}

/// Checks this host for what a configuration needs. Changes nothing and probes no depot.
///
/// # Errors
/// The directory of an output file is missing, or its path is not a file; the reload command is missing;
/// certificates cannot be used.
pub fn check(config: &Config) -> Result<(), Error> {
    roots(config)?;
    for path in config.include.iter().chain(&config.routes_file) {
        output_file::check(path).map_err(|error| Error::Output { path: path.clone(), error })?;
    }
    match config.reload.first() {
        Some(program) if !is_there(program) => {
            Err(Error::Reload(format!("{program} is not there")))
        }
        _ => Ok(()),
    }
}

/// Checks that a program exists, by its path or in `PATH`.
fn is_there(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    Path::new(program).is_file()
        || !program.contains('/') && env::split_paths(&path).any(|at| at.join(program).is_file())
}

/// The authorities trusted for depots' certificates.
fn roots(config: &Config) -> Result<ReloadingFile<ClientConfig>, FileError> {
    let files = config.roots.iter().map(|file| SettingFile::new("roots", file)).collect();
    ReloadingFile::new("roots", files, client_config, |_| String::new())
}

/// Runs until SIGTERM or SIGINT, which leave the files as they are; or probes once, and ends.
///
/// # Errors
/// It cannot start, or cannot write a file. In a single run, also if the web server does not reload.
pub fn run(config: Config, once: bool) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(async {
        // What looks every now and then reloads for a change alone; what stays, also for one before it.
        let mut failover = Failover::new(config, !once)?;
        failover.look().await?;
        if once {
            failover.reload.now().await.map_err(Error::Reload)
        } else {
            failover.stay().await
        }
    });
    runtime.shutdown_background();
    result
}

struct Failover {
    config: Config,
    roots: ReloadingFile<ClientConfig>,
    names: Names,
    depots: HashMap<DepotAddress, Health>,
    forecasts: Forecasts,
    reload: Reload,
    include: Option<(Server, OutputFile)>,
    routes_file: Option<OutputFile>,
    /// The last logged failure, and its time.
    said: Option<(String, Instant)>,
}

impl Failover {
    fn new(config: Config, is_due: bool) -> Result<Self, Error> {
        let health = Health::new(config.rules());
        let depots = config.depots().map(|depot| (depot.clone(), health)).collect();
        let is_due = is_due && config.include.is_some();
        let (roots, reload) = (roots(&config)?, Reload::new(&config.reload, is_due));
        let names = Names::default();
        let include = config.include.as_deref().map(OutputFile::new);
        let include = config.server.zip(include);
        let routes_file = config.routes_file.as_deref().map(OutputFile::new);
        let (forecasts, said) = (Forecasts::new(), None);
        Ok(Self { config, roots, names, depots, forecasts, reload, include, routes_file, said })
    }

    async fn stay(mut self) -> Result<(), Error> {
        let (mut term, mut int) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let mut ticks = interval(self.config.every.into());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.tend().await;
        tracing::info!(depots = self.depots.len(), "ready");
        // Without systemd there is no socket, and the error does not matter.
        let _ = sd_notify::notify(false, &[NotifyState::Ready]);
        loop {
            tokio::select! {
                _ = term.recv() => return Ok(()),
                _ = int.recv() => return Ok(()),
                () = async {
                    ticks.tick().await;
                    if let Err(error) = self.look().await {
                        self.say(error.to_string());
                    }
                    self.tend().await;
                } => {}
            }
        }
    }

    /// Probes all depots once, and brings the files up to date.
    async fn look(&mut self) -> Result<(), Error> {
        self.roots.refresh();
        for (depot, (finding, answered)) in self.probe().await {
            if let Some(health) = self.depots.get_mut(&depot) {
                health.record(&depot, &finding);
                self.forecasts.answered(&depot, answered);
            }
        }
        let (routes, include) = self.renew_files();
        // A file that cannot be written does not keep the other one from being renewed.
        let (routes, include) = (routes.transpose(), include.transpose()?);
        if include.is_some_and(|renewal| renewal != Renewal::Same) {
            self.reload.is_due();
        }
        if [include, routes?].contains(&Some(Renewal::Restored)) {
            self.say("another program writes the same file".to_owned());
        }
        Ok(())
    }

    /// Writes the routes where they have changed: for programs, and for the web server.
    fn renew_files(&mut self) -> (Option<Renewed>, Option<Renewed>) {
        let Self { config, depots, forecasts, .. } = self;
        let is_up = |depot: &DepotAddress| depots.get(depot).and_then(Health::is_up) == Some(true);
        let mut route = by_order(forecasts, is_up);
        let routes = self.routes_file.as_mut().map(|file| {
            let text = routes_file::text(config, &mut route);
            renew(file, text)
        });
        let include = self.include.as_mut().map(|(server, file)| {
            let text = include::text(config, *server, &mut route);
            renew(file, text)
        });
        (routes, include)
    }

    async fn tend(&mut self) {
        match self.reload.tend().await {
            Some(Ok(())) => {
                tracing::info!("clients are led as the include says");
                self.said = None;
            }
            Some(Err(why)) => self.say(Error::Reload(why).to_string()),
            None => {}
        }
    }

    /// Warns of a failure: once, and again periodically while it lasts.
    fn say(&mut self, error: String) {
        let is_new = self
            .said
            .as_ref()
            .is_none_or(|(said, when)| *said != error || when.elapsed() >= SAID_AGAIN);
        if is_new {
            tracing::warn!(error, "clients are led as before");
            self.said = Some((error, Instant::now()));
        }
    }

    /// The results of all depots.
    async fn probe(&self) -> Vec<(DepotAddress, (Finding, Answered))> {
        let mut probes = JoinSet::new();
        for depot in self.depots.keys() {
            let (tls, names, depot) = (self.roots.get(), self.names.clone(), depot.clone());
            let time = Duration::from(self.config.timeout);
            probes.spawn(async move {
                let found = catch_panic(probe::ask(&depot, tls, &names, time)).await;
                let found = found.unwrap_or_else(|panicked| {
                    tracing::error!(%depot, %panicked, "a defect has ended a probe. Please report it");
                    let why = format!("a defect of this program: {panicked}");
                    (Finding::NotAsked(why), Answered::default())
                });
                (depot, found)
            });
        }
        probes.join_all().await
    }
}

/// What became of a file.
type Renewed = Result<Renewal, Error>;

/// The route of each network, in the order that its group says.
fn by_order<'c>(
    forecasts: &mut Forecasts,
    is_up: impl Fn(&DepotAddress) -> bool + Copy,
) -> impl RouteOf<'c> {
    move |clients: &'c Clients, network: &IpNet| match clients.order {
        RouteOrder::Written => clients.route(is_up),
        RouteOrder::Forecast => forecasts.route(clients, network, is_up),
    }
}

/// Ensures that a file has this text.
fn renew(file: &mut OutputFile, text: String) -> Renewed {
    let renewal =
        file.renew(text).map_err(|error| Error::Output { path: file.path().to_owned(), error })?;
    if renewal != Renewal::Same {
        tracing::info!(file = %file.path().display(), "the file is renewed");
    }
    Ok(renewal)
}
