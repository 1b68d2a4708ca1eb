// SPDX-License-Identifier: GPL-2.0-or-later
//! `--via`: the depots of a route, the one nearest this machine first; each further one is the next alternative. `auto` stands for
//! those of a register, by forecast.

use crate::failure::Failure;
use protocol::DepotAddress;
use route::{Auto, ChainTextError, Chooser, Match, Register, RouteTable, read_chain};
use std::{
    fmt::Display,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
    time::Duration,
};

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
    Auto(Register),
}

impl Via {
    /// Reads all `--via` of a command that takes `auto`.
    pub fn read(via: &[String]) -> Result<Self, Failure> {
        let file = via.iter().find_map(|text| register_file(text));
        match (file, via) {
            (Some(file), [_]) => Register::read(&file?).map(Self::Auto).map_err(Failure::usage),
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
            Self::Auto(register) => [register.chains(), vec![Vec::new()]].concat(),
        }
    }

    /// What chooses among them, if anything does: with further authorities to trust, and what an attempt that fails costs.
    pub fn chooser(&self, ca: Option<&Path>, timeout: Duration) -> MaybeChooser {
        match self {
            Self::Written(_) => None,
            Self::Auto(_) => Some(Arc::new(Auto::new(ca.map(Path::to_owned), timeout))),
        }
    }
}

/// The register that `auto` or `auto:FILE` names; none of depots. A file has a slash, or ends in `.toml`.
fn register_file(text: &str) -> Option<Result<PathBuf, Failure>> {
    if text == "auto" {
        let missing = || {
            malformed(
                &"auto needs a register of depots: longhaul/depots.toml in the user's configuration directory or /etc, or auto:FILE",
            )
        };
        return Some(Register::usual_file().ok_or_else(missing));
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
pub fn table(via: &[String], to: &[Match]) -> Result<RouteTable, Failure> {
    let to = if to.is_empty() { &[Match::OTHERS] } else { to };
    Ok(match Via::read(via)? {
        Via::Written(chains) => RouteTable::through(chains, to),
        Via::Auto(register) => RouteTable::through(register.chains(), to).by_forecast(),
    })
}

/// The failure for a malformed route.
pub fn malformed(error: &dyn Display) -> Failure {
    Failure::usage(format_args!("--via: {error}"))
}
