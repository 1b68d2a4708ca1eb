// SPDX-License-Identifier: GPL-2.0-or-later
//! `--via`: the depots of a route, the one nearest this machine first; each further one is the next alternative. `auto` stands for
//! those of a register, by forecast.

use crate::failure::Failure;
use protocol::DepotAddress;
use register::{AsOf, Register, RegisterFile};
use route::{
    Auto, AutoSettings, ChainTextError, Chooser, Destination, Match, RouteTable, SendOptions,
    read_chain,
};
use std::{
    cell::LazyCell,
    fmt::Display,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
    time::Duration,
};
use units::Bytes;

/// The one chain of a command that has no alternatives: clap refuses a second `--via`.
#[derive(Debug, Clone)]
pub struct OneChain(pub Vec<DepotAddress>);

impl FromStr for OneChain {
    type Err = ChainTextError;

    fn from_str(text: &str) -> Result<Self, ChainTextError> {
        read_chain(text).map(Self)
    }
}

/// What chooses among routes, if anything does.
pub type MaybeChooser = Option<Arc<dyn Chooser>>;

/// What `--via` says.
pub enum Via {
    /// These routes, in this order.
    Written(Vec<Vec<DepotAddress>>),
    /// The best of those that a register's depots make.
    Auto(Registered),
}

/// Depots to choose from.
pub struct Registered {
    /// All that there are.
    pub register: Register,
    /// Those that are chosen from.
    pub depots: Vec<DepotAddress>,
}

impl Via {
    /// Reads all `--via` of a command that takes `auto`, and looks depots up for that, with further authorities to trust.
    pub fn read(via: &[String], ca: Option<&Path>) -> Result<Self, Failure> {
        let file = via.iter().find_map(|text| register_file(text));
        match (file, via) {
            (Some(file), [_]) => Registered::read(&file?, ca).map(Self::Auto),
            (Some(_), _) => {
                Err(malformed(&"auto stands alone: it takes its depots from a register"))
            }
            (None, _) => routes(via).map(Self::Written),
        }
    }

    /// The chains of depots; of a register with the direct way as the last.
    pub fn chains(&self) -> Vec<Vec<DepotAddress>> {
        match self {
            Self::Written(chains) => chains.clone(),
            Self::Auto(registered) => [registered.chains(), vec![Vec::new()]].concat(),
        }
    }

    /// What chooses among them, if anything does: with further authorities to trust, what an attempt that fails costs, and other ways to
    /// send.
    pub fn chooser(
        &self,
        ca: Option<&Path>,
        timeout: Duration,
        send_alternatives: Vec<SendOptions>,
    ) -> MaybeChooser {
        match self {
            Self::Written(_) => None,
            Self::Auto(registered) => {
                Some(Arc::new(registered.auto(ca, timeout, send_alternatives)))
            }
        }
    }
}

impl Registered {
    fn read(file: &Path, ca: Option<&Path>) -> Result<Self, Failure> {
        let file = RegisterFile::read(file).map_err(Failure::usage)?;
        let register = file.look_up(ca).map_err(Failure::failed)?;
        if let Some(warning) = warning(register.as_of()) {
            errln!("longhaul: {warning}");
        }
        let memory = LazyCell::new(|| Auto::new(AutoSettings::default()).memory());
        let depots = register.nearest(|depot| memory.round_trip(&depot.to_string()));
        Ok(Self { register, depots })
    }

    /// The chains that the depots make.
    pub fn chains(&self) -> Vec<Vec<DepotAddress>> {
        register::chains(&self.depots)
    }

    /// The best chain of at least one depot to a destination, after probes; none in an empty register.
    pub fn best(
        &self,
        to: &Destination,
        bytes: Option<Bytes>,
        ca: Option<&Path>,
    ) -> Result<Option<Vec<DepotAddress>>, Failure> {
        let mut chains = self.chains();
        if chains.is_empty() {
            return Ok(None);
        }
        let listed: Vec<&[DepotAddress]> = chains.iter().map(Vec::as_slice).collect();
        let auto = self.auto(ca, AutoSettings::default().timeout, Vec::new());
        auto.prepare_blocking(to, &listed).map_err(Failure::failed)?;
        let first = auto.explain(to, bytes, &listed).1.order[0];
        Ok(Some(chains.swap_remove(first)))
    }

    /// What chooses among them.
    pub fn auto(
        &self,
        ca: Option<&Path>,
        timeout: Duration,
        send_alternatives: Vec<SendOptions>,
    ) -> Auto {
        let (ca, announcements) = (ca.map(Path::to_owned), self.register.announcements().to_vec());
        Auto::new(AutoSettings { ca, timeout, announcements, mark: None, send_alternatives })
    }
}

/// Warning about a register whose sources do not respond.
fn warning(as_of: &AsOf) -> Option<String> {
    let AsOf::Stale { at, why } = as_of else { return None };
    Some(match at {
        Some(at) => format!("announcements of depots are from {at}, as no source responds: {why}"),
        None => format!("only the depots of the register file are used: {why}"),
    })
}

/// The register that `auto` or `auto:FILE` names; none of depots. A file has a slash, or ends in `.toml`.
fn register_file(text: &str) -> Option<Result<PathBuf, Failure>> {
    if text == "auto" {
        let missing = || {
            malformed(
                &"auto needs a register of depots: longhaul/depots.toml in the user's configuration directory or /etc, or auto:FILE",
            )
        };
        return Some(RegisterFile::usual().ok_or_else(missing));
    }
    let file = text.strip_prefix("auto:")?;
    let is_toml = Path::new(file).extension().is_some_and(|extension| extension == "toml");
    (file.contains('/') || is_toml).then(|| Ok(PathBuf::from(file)))
}

/// The depots of each route, where only these are possible.
pub fn routes(via: &[String]) -> Result<Vec<Vec<DepotAddress>>, Failure> {
    if via.iter().any(|text| register_file(text).is_some()) {
        return Err(malformed(
            &"auto is not for meetings, --detach and recv: name the depot at which both ends are",
        ));
    }
    via.iter().map(|text| read_chain(text).map_err(|error| malformed(&error))).collect()
}

/// These routes to some destinations; if none are named, to all but this machine.
pub fn table(via: &[String], to: &[Match], ca: Option<&Path>) -> Result<RouteTable, Failure> {
    let to = if to.is_empty() { &[Match::OTHERS] } else { to };
    Ok(match Via::read(via, ca)? {
        Via::Written(chains) => RouteTable::through(chains, to),
        Via::Auto(registered) => {
            let announcements = registered.register.announcements();
            RouteTable::through(registered.chains(), to).by_forecast(announcements)
        }
    })
}

/// The failure for a malformed route.
pub fn malformed(error: &dyn Display) -> Failure {
    Failure::usage(format_args!("--via: {error}"))
}
