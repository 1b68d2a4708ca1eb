// SPDX-License-Identifier: GPL-2.0-or-later
//! The congestion control of connections that are open, which a route may have overruled.
//!
//! `ip route ... congctl NAME` replaces a socket's choice when its connection opens; it can then be set
//! again. `congctl lock NAME` forbids that with EPERM: the connection works, and the log says what it has.

use ipnet::IpNet;
use rustix::{io::Errno, net::sockopt};
use std::{
    collections::HashMap,
    io,
    os::fd::BorrowedFd,
    sync::{Mutex, PoisonError},
};

/// Hops whose connections have another congestion control than they are to have, and which: each is said
/// once, until it is right again.
#[derive(Debug, Default)]
pub(crate) struct Overruled(Mutex<HashMap<IpNet, String>>);

impl Overruled {
    /// Gives an open connection with a peer of `hop` the congestion control `wanted`.
    pub(super) fn settle(
        &self,
        socket: BorrowedFd<'_>,
        hop: IpNet,
        wanted: &str,
    ) -> io::Result<()> {
        let in_force = match sockopt::set_tcp_congestion(socket, wanted) {
            Ok(()) | Err(Errno::PERM) => sockopt::tcp_congestion(socket)?,
            Err(error) => return Err(error.into()),
        };
        let mut overruled = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let right = in_force == wanted;
        let before =
            if right { overruled.remove(&hop) } else { overruled.insert(hop, in_force.clone()) };
        drop(overruled);
        match before {
            None if right => {}
            Some(before) if before == in_force => {}
            Some(_) if right => {
                tracing::info!(peer = %hop, in_force, "congestion control as asked again");
            }
            _ => tracing::warn!(
                peer = %hop,
                wanted,
                in_force,
                "another congestion control than [[hop]] asks for: a route to the peer may set it \
                 (`ip route get`: congctl lock), or this user may not have it"
            ),
        }
        Ok(())
    }
}
