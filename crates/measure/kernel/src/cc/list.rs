// SPDX-License-Identifier: GPL-2.0-or-later
//! List of congestion controls: the kernel's, and those that longhaul can add.

use super::{
    pin::Pin,
    settings::{ALLOWED, DEFAULT, available, setting},
};
use crate::{Error, Support, lock::Lock};
use congestion::{Algorithm, Params};
use host::{Namespace, TcpSockets};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};

/// A congestion control, loaded or not.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its name in the kernel.
    pub name: String,
    /// The algorithm, if it is one of longhaul's.
    pub algorithm: Option<&'static Algorithm>,
    /// Its provider.
    pub provider: Provider,
    /// Whether programs need `CAP_NET_ADMIN` to choose it. None where that is not known: it is not
    /// in the kernel, or this network namespace does not tell.
    pub restricted: Option<bool>,
    /// Whether sockets of this network namespace use it that did not choose.
    pub default: bool,
    /// TCP sockets that use it, in all network namespaces that can be reached.
    pub sockets: u64,
}

/// The provider of a congestion control.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Provider {
    /// The kernel itself, or another program that has nothing to do with longhaul.
    Kernel,
    /// longhaul, pinned.
    Pinned(InForce),
    /// longhaul, as long as some process runs; its parameters are not known.
    Process,
    /// No provider any more. Sockets that use the algorithm keep it.
    Withdrawn,
    /// No provider: the algorithm can be loaded.
    None,
}

/// The parameters in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InForce {
    /// The named set that they are, if they are one.
    pub set: Option<&'static str>,
    /// As `name=value` each, in the algorithm's order.
    pub values: Vec<(&'static str, u32)>,
}

/// Everything, the kernel's own first, then longhaul's in the order of `cc/algorithms.h`.
///
/// # Errors
/// The machine lacks something ([`Error::is_lack`]): looking into other network namespaces takes
/// root, too.
pub fn list() -> Result<Vec<Entry>, Error> {
    Support::probe()?;
    let _lock = Lock::take()?;
    let view = View::look()?;
    let mut entries = Vec::new();
    for name in view.available.iter().filter(|name| !name.starts_with(Algorithm::PREFIX)) {
        entries.push(view.entry(name.clone(), None, Provider::Kernel));
    }
    for algorithm in Algorithm::all() {
        let name = algorithm.kernel_name();
        let provider = view.provider(&name, algorithm)?;
        entries.push(view.entry(name, Some(algorithm), provider));
    }
    // The rest: what only sockets still have, and longhaul's names that this build does not know.
    let more = view.available.iter().chain(view.sockets.keys()).cloned();
    for name in more.collect::<BTreeSet<_>>() {
        if !entries.iter().any(|entry| entry.name == name) {
            let there = view.available.contains(&name);
            let provider = if there { Provider::Process } else { Provider::Withdrawn };
            entries.push(view.entry(name, None, provider));
        }
    }
    Ok(entries)
}

/// The provider of an algorithm for new sockets, or [`Provider::None`].
///
/// # Errors
/// The machine lacks something ([`Error::is_lack`]); its pin can't be read.
pub fn provider(algorithm: &'static Algorithm) -> Result<Provider, Error> {
    Support::probe()?;
    let _lock = Lock::take()?;
    registered(algorithm, &available()?)
}

fn registered(algorithm: &'static Algorithm, available: &[String]) -> Result<Provider, Error> {
    let name = algorithm.kernel_name();
    Ok(match Pin::find(&name)? {
        Some(pin) => Provider::Pinned(InForce::of_values(algorithm, &pin.params()?)),
        None if available.contains(&name) => Provider::Process,
        None => Provider::None,
    })
}

/// Adds how many sockets of the calling thread's network namespace use which.
fn count(into: &mut BTreeMap<String, u64>) -> io::Result<()> {
    for name in TcpSockets::open()?.congestion_controls()? {
        *into.entry(name).or_default() += 1;
    }
    Ok(())
}

/// One look at the machine.
struct View {
    available: Vec<String>,
    allowed: Option<Vec<String>>,
    default: Vec<String>,
    sockets: BTreeMap<String, u64>,
}

impl View {
    fn look() -> Result<Self, Error> {
        let mut counted = BTreeMap::new();
        for namespace in Namespace::all().map_err(|e| Error::system("read /proc", e))? {
            namespace
                .run(|| count(&mut counted))
                .map_err(|e| Error::system("count the sockets of a network namespace", e))?;
        }
        Ok(Self {
            available: available()?,
            allowed: setting(ALLOWED).ok(),
            default: setting(DEFAULT)?,
            sockets: counted,
        })
    }

    fn provider(&self, name: &str, algorithm: &'static Algorithm) -> Result<Provider, Error> {
        let provider = registered(algorithm, &self.available)?;
        let in_use = provider == Provider::None && self.sockets.contains_key(name);
        Ok(if in_use { Provider::Withdrawn } else { provider })
    }

    fn entry(
        &self,
        name: String,
        algorithm: Option<&'static Algorithm>,
        provider: Provider,
    ) -> Entry {
        let there = self.available.contains(&name);
        let restricted = self.allowed.as_ref().filter(|_| there).map(|a| !a.contains(&name));
        let sockets = self.sockets.get(&name).copied().unwrap_or(0);
        let default = self.default.contains(&name);
        Entry { name, algorithm, provider, restricted, default, sockets }
    }
}

impl InForce {
    /// These.
    pub fn of(params: &Params) -> Self {
        Self::of_values(params.algorithm(), params.values())
    }

    fn of_values(algorithm: &'static Algorithm, values: &[u32]) -> Self {
        let set = algorithm.set_name(values);
        let names = algorithm.params.iter().map(|param| param.name);
        Self { set, values: names.zip(values.iter().copied()).collect() }
    }
}
