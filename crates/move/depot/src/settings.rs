// SPDX-License-Identifier: GPL-2.0-or-later
//! The configuration and what is made of the files that it names: all that a reload replaces.

use crate::{
    admission::{listed_names::ListedNames, logins::Logins, trust::Trust},
    config::Config,
    config_warnings,
    error::Error,
    hop_sockets::{self},
    observe::Clients,
    packet_pacing::{self, Pacers},
    register_keys::RegisterKeys,
    spare_descriptors,
    tls::Tls,
};
use relay::{dial::pool::Generation, tcp::congestion::Overruled};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

/// How the depot is to work now.
#[derive(Debug)]
pub(crate) struct Settings {
    /// What the configuration says.
    pub config: Arc<Config>,
    /// Whose tickets count.
    pub trust: Trust,
    /// Who uses the proxy.
    pub logins: Logins,
    /// The keys of depots that tell of themselves.
    pub register: Option<RegisterKeys>,
    /// Certificates.
    pub tls: Tls,
    /// The hops that clients belong to, for what is counted of them.
    pub client_hops: Clients,
    /// Hops whose congestion control is not the one that was asked for.
    pub overruled: Overruled,
    /// Which settings these are, counted from those of the start.
    pub generation: Generation,
    /// Addresses of the names in `allow.servers`.
    pub listed_names: ListedNames,
    /// Whether others have taken their place.
    superseded: AtomicBool,
}

impl Settings {
    /// Checks a configuration by itself and against this host, and reads its files.
    pub(crate) fn new(config: Config, pacers: &Pacers) -> Result<Self, Error> {
        config.check()?;
        hop_sockets::check(&config)?;
        packet_pacing::check(&config, pacers)?;
        spare_descriptors::check(&config);
        let (trust, tls) = (Trust::new(&config.trust)?, Tls::new(&config)?);
        config_warnings::warn(&config, &tls);
        let logins = Logins::new(config.proxy.as_ref())?;
        let register = config.register.as_ref().map(RegisterKeys::new).transpose()?;
        Ok(Self { logins, register, ..Self::of(config, trust, tls) })
    }

    /// Those of a configuration whose files have been read, with no users of a proxy.
    pub(crate) fn of(config: Config, trust: Trust, tls: Tls) -> Self {
        let (client_hops, superseded) = (Clients::of(&config), AtomicBool::new(false));
        let (config, overruled) = (Arc::new(config), Overruled::default());
        let (generation, logins) = (Generation::default(), Logins::default());
        let listed_names = ListedNames::default();
        Self {
            config,
            trust,
            logins,
            register: None,
            tls,
            client_hops,
            overruled,
            generation,
            listed_names,
            superseded,
        }
    }

    /// From now on others count. Call it before connections that these opened are looked for.
    pub(crate) fn supersede(&self) {
        self.superseded.store(true, Relaxed);
    }

    /// Whether these settings are still in force. If not, no connection may be opened or kept under them.
    pub(crate) fn are_current(&self) -> bool {
        !self.superseded.load(Relaxed)
    }

    /// Reads again the files that have changed.
    pub(crate) fn refresh(&self) {
        self.trust.refresh();
        self.logins.refresh();
        self.register.iter().for_each(RegisterKeys::refresh);
        self.tls.refresh();
    }
}
