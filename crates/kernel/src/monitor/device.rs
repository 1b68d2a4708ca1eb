// SPDX-License-Identifier: GPL-2.0-or-later
//! A network device, told apart from those of the same name or number in other namespaces.

use crate::Error;
use rustix::net::{AddressFamily, SocketType, netdevice, socket};
use std::{fs, os::fd::OwnedFd, os::unix::fs::MetadataExt};

/// A device of the network namespace in which it was found.
#[derive(Debug)]
pub struct Device {
    /// Its number there.
    pub index: u32,
    /// The number of the namespace, as in `/proc/PID/ns/net`.
    pub namespace: u32,
    /// Asks in that namespace, whichever thread uses it.
    socket: OwnedFd,
}

impl Device {
    /// Looks in the calling thread's network namespace.
    pub fn find(name: &str) -> Result<Self, Error> {
        let socket = socket(AddressFamily::UNIX, SocketType::DGRAM, None)
            .map_err(|e| Error::system("ask for network devices", e))?;
        let path = "/proc/thread-self/ns/net";
        let namespace = fs::metadata(path).map_err(|e| Error::system(format!("read {path}"), e))?;
        let namespace = namespace.ino() as u32;
        match netdevice::name_to_index(&socket, name) {
            Ok(index) => Ok(Self { index, namespace, socket }),
            Err(_) => Err(Error::NoDevice { device: name.to_owned(), there: all() }),
        }
    }

    /// Whether it is still there; one that was made anew under the same name is another.
    pub fn is_there(&self) -> bool {
        netdevice::index_to_name(&self.socket, self.index).is_ok()
    }
}

/// The names of all devices in the calling thread's namespace.
fn all() -> Vec<String> {
    // The one place that tells without asking by netlink.
    let table = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let lines = table.lines().filter_map(|line| line.split_once(':'));
    lines.map(|(name, _)| name.trim().to_owned()).collect()
}
