// SPDX-License-Identifier: GPL-2.0-or-later
//! At a site: which depots are alive, and so where the web server sends which clients.
//!
//! ```text
//! each second   probe ──▶ health ──▶ choice ──▶ include ──▶ the web server's file, and its reload
//!               every     up or      by way     as text     only where that has changed
//!               depot     down
//! ```
//! A site redirects its clients to depots; when one dies it has to stop. Of each group of clients the first way
//! counts whose depots are all up; without one, clients are served directly.
//!
//! Threats. Depots answer probes: their bytes are hostile, so a probe reads one head, and a short body, within a
//! time. Names may hang: look-ups are bounded. Nothing that anybody answers gets into
//! the file, which is printed from the configuration's own routes and networks; those cannot hold what a web
//! server would read as more (quotes, spaces, line ends). The file is replaced, never written through a link.

mod config;
mod health;
mod include;
mod probe;

pub use config::{Clients, Config, ConfigError, Server, Way};

use crate::{config::TlsFiles, tls::Tls, upstream::Names, watched::FileError};
use health::Health;
use sd_notify::NotifyState;
use session::DepotAddress;
use std::{collections::HashMap, io, path::PathBuf, process::Stdio, sync::Arc, time::Duration};
use tokio::{
    process::Command,
    signal::unix::{SignalKind, signal},
    task::JoinSet,
    time::{MissedTickBehavior, interval, timeout},
};

/// How long the web server may take to reload.
const RELOAD_TIME: Duration = Duration::from_secs(10);

/// Why clients cannot be led. The fault is with the configuration or the host.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file with certificates cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The include cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Include {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The web server does not reload.
    #[error("the web server does not reload: {0}")]
    Reload(String),
    /// The runtime or the signal handlers cannot be set up.
    #[error("the system refuses what a daemon needs: {0}")]
    System(#[from] io::Error),
}

/// Leads until SIGTERM or SIGINT, which leave the include as it is; or looks once, and ends.
///
/// # Errors
/// It cannot begin; looking once, also where the include cannot be written or the web server does not reload.
pub fn run(config: Config, once: bool) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(async {
        let mut lead = Lead::new(config)?;
        // What looks every now and then reloads for a change alone; what stays, also for one before it.
        lead.is_reloaded = once;
        if once { lead.round().await } else { lead.run().await }
    });
    runtime.shutdown_background();
    result
}

struct Lead {
    config: Config,
    tls: Arc<Tls>,
    names: Names,
    depots: HashMap<DepotAddress, Health>,
    /// Whether the web server knows what the file says.
    is_reloaded: bool,
}

impl Lead {
    fn new(config: Config) -> Result<Self, Error> {
        let files = TlsFiles { roots: config.roots.clone(), ..TlsFiles::default() };
        let health = Health::new(config.fall, config.rise);
        let depots = config.depots().map(|depot| (depot.clone(), health)).collect();
        let tls = Arc::new(Tls::new(&files)?);
        Ok(Self { config, tls, names: Names::default(), depots, is_reloaded: false })
    }

    async fn run(mut self) -> Result<(), Error> {
        let (mut term, mut int) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let mut ticks = interval(self.config.every.into());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_ready = false;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = term.recv() => return Ok(()),
                _ = int.recv() => return Ok(()),
            }
            if let Err(error) = self.round().await {
                tracing::warn!(error = error.to_string(), "clients are led as before");
            }
            if !is_ready {
                is_ready = true;
                tracing::info!(depots = self.depots.len(), "ready");
                // Without systemd nobody waits to be told.
                let _ = sd_notify::notify(false, &[NotifyState::Ready]);
            }
        }
    }

    /// Looks at all depots once, and sees to it that clients are led accordingly.
    async fn round(&mut self) -> Result<(), Error> {
        self.tls.refresh();
        for (depot, found) in self.probe().await {
            let Some(health) = self.depots.get_mut(&depot) else { continue };
            let was_up = health.is_up();
            health.saw(found.is_ok());
            match (was_up, health.is_up(), found) {
                (None | Some(false), Some(true), _) => tracing::info!(%depot, "up"),
                (None | Some(true), Some(false), Err(why)) => tracing::warn!(%depot, why, "down"),
                _ => {}
            }
        }
        let text = include::text(&self.config, |depot| {
            self.depots.get(depot).and_then(Health::is_up).unwrap_or(false)
        });
        let path = &self.config.include;
        let written = include::replace(path, &text);
        if written.map_err(|error| Error::Include { path: path.clone(), error })? {
            tracing::info!(include = %path.display(), "clients are led another way");
            self.is_reloaded = false;
        }
        if !self.is_reloaded {
            self.reload().await?;
            self.is_reloaded = true;
        }
        Ok(())
    }

    /// What each depot says, or why not.
    async fn probe(&self) -> Vec<(DepotAddress, Result<(), String>)> {
        let mut probes = JoinSet::new();
        for depot in self.depots.keys() {
            let (tls, names, depot) = (Arc::clone(&self.tls), self.names.clone(), depot.clone());
            let time = Duration::from(self.config.timeout);
            probes.spawn(async move {
                let found = timeout(time, probe::ask(&depot, &tls, &names, time)).await;
                let late = || format!("it does not answer within {} s", time.as_secs_f64());
                (depot, found.unwrap_or_else(|_| Err(late())))
            });
        }
        probes.join_all().await
    }

    async fn reload(&self) -> Result<(), Error> {
        let Some((program, arguments)) = self.config.reload.split_first() else { return Ok(()) };
        let failed = |why: String| Error::Reload(format!("{program}: {why}"));
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
        let ended = timeout(RELOAD_TIME, command.output()).await;
        let output = ended
            .map_err(|_| failed(format!("it does not end within {} s", RELOAD_TIME.as_secs())))?
            .map_err(|error| failed(error.to_string()))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(failed(format!("{}: {}", output.status, said.trim())))
    }
}
