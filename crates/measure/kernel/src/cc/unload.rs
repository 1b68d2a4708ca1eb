// SPDX-License-Identifier: GPL-2.0-or-later
//! Taking a pinned congestion control out of the kernel.

use super::{
    pin::{self, Pin},
    settings::{ALLOWED, DEFAULT, available, setting},
};
use crate::{Error, Support, bpffs::require_machines_mounts, lock::Lock};
use congestion::Algorithm;
use host::{Namespace, sysctl};
use std::io;

/// Side effects of [`unload`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unloaded {
    /// Network namespaces whose default it was.
    pub defaults: Vec<DefaultReset>,
}

/// A network namespace's default congestion control was set to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultReset {
    /// The namespace's number, as in `/proc/PID/ns/net`.
    pub namespace: u64,
    /// Its default now.
    pub to: &'static str,
}

/// Unloads a pinned algorithm. Network namespaces that had it as their default get the kernel's:
/// `cubic` where every user may choose that, else `reno`, which is always there. Sockets that use
/// it carry on with it. One that is gone, but still a namespace's default, is unloaded by that reset.
///
/// # Errors
/// It is not pinned; the machine lacks something ([`Error::is_lack`]); mounts of this process are
/// not the machine's.
pub fn unload(algorithm: &Algorithm) -> Result<Unloaded, Error> {
    Support::probe()?;
    let name = algorithm.kernel_name();
    let _lock = Lock::take()?;
    require_machines_mounts()?;
    let pin = Pin::find(&name)?;
    if pin.is_none() {
        pin::sweep(&name)?;
        if available()?.contains(&name) {
            return Err(Error::HeldElsewhere { name });
        }
    }
    let mut defaults = Vec::new();
    let failed = |e| Error::system("change a network namespace's default", e);
    for namespace in Namespace::all().map_err(|e| Error::system("read /proc", e))? {
        if let Some(to) = reset_default(&namespace, &name).map_err(failed)? {
            defaults.push(DefaultReset { namespace: namespace.inode().map_err(failed)?, to });
        }
    }
    match pin {
        Some(pin) => pin.remove()?,
        None if defaults.is_empty() => return Err(Error::NotLoaded { name }),
        None => {}
    }
    Ok(Unloaded { defaults })
}

/// The new default algorithm, if the unloaded one was the default: a default keeps it alive, and new sockets would
/// still get it.
fn reset_default(namespace: &Namespace, name: &str) -> io::Result<Option<&'static str>> {
    namespace.run(|| {
        let read = |key| setting(key).map_err(io::Error::other);
        if read(DEFAULT)? != [name] {
            return Ok(None);
        }
        // Asking for one that is not allowed is refused, and leaks a reference to it in the kernel.
        let allowed = read(ALLOWED).unwrap_or_default();
        let to = if allowed.iter().any(|name| name == "cubic") { "cubic" } else { "reno" };
        sysctl::write(DEFAULT, to)?;
        Ok(Some(to))
    })
}
