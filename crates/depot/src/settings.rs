// SPDX-License-Identifier: GPL-2.0-or-later
//! The configuration and what is made of the files that it names: all that a reload replaces.

use crate::{
    config::Config,
    observe::Clients,
    paced::{self, Pacers},
    server::Error,
    tls::Tls,
    trust::{self, Keys},
    tune,
};
use std::sync::Arc;

/// How the depot is to work now.
#[derive(Debug)]
pub(crate) struct Settings {
    /// What the configuration says.
    pub config: Arc<Config>,
    /// Whose tickets count.
    pub keys: Keys,
    /// Certificates.
    pub tls: Tls,
    /// The hops that clients belong to, for what is counted of them.
    pub client_hops: Clients,
}

impl Settings {
    /// Checks a configuration by itself and against this host, and reads its files.
    pub(crate) fn new(config: Config, pacers: &Pacers) -> Result<Self, Error> {
        config.check()?;
        tune::check(&config.hops)?;
        paced::check(&config, pacers)?;
        Ok(Self {
            keys: trust::keys(&config.trust)?,
            tls: Tls::new(&config.tls)?,
            client_hops: Clients::of(&config),
            config: Arc::new(config),
        })
    }

    /// Reads again the files that have changed.
    pub(crate) fn refresh(&self) {
        if let Some(keys) = &self.keys {
            keys.refresh();
        }
        self.tls.refresh();
    }
}
