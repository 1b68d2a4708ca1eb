// SPDX-License-Identifier: GPL-2.0-or-later
//! The congestion control of connections that are open, which a route may have overruled.
//!
//! `ip route ... congctl NAME` replaces a socket's choice when its connection opens; it can then be set
//! again. `congctl lock NAME` forbids that with EPERM: the connection works, and the log says what it has.

use crate::{Side, tcp::socket_options::HopOptions};
use ipnet::IpNet;
use rustix::{io::Errno, net::sockopt};
use std::{
    collections::HashMap,
    io,
    net::IpAddr,
    os::fd::AsFd,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How long all connections with a hop must use the right congestion control before the log says so: peers of
/// one hop may have different routes.
const RIGHT_FOR: Duration = Duration::from_secs(5);

/// Hops whose connections use another congestion control than configured. Each is logged once, until it is
/// right again. Connections opened by clients and those to next hops are separate.
#[derive(Debug, Default)]
pub struct Overruled(Mutex<HashMap<(IpNet, Side), Wrong>>);

/// What such connections have, and when that was seen last.
#[derive(Debug)]
struct Wrong {
    in_force: String,
    seen: Instant,
}

impl Overruled {
    /// Gives an open connection with a peer the congestion control that `options` name, if any.
    ///
    /// # Errors
    /// The kernel refuses it for another reason than a route that locks its own.
    pub fn settle(
        &self,
        socket: impl AsFd,
        (peer, side): (IpAddr, Side),
        options: &HopOptions<'_>,
    ) -> io::Result<()> {
        let Some(wanted) = options.congestion else { return Ok(()) };
        let (socket, hop) = (socket.as_fd(), options.network.unwrap_or_else(|| peer.into()));
        let in_force = match sockopt::set_tcp_congestion(socket, wanted) {
            Ok(()) | Err(Errno::PERM) => sockopt::tcp_congestion(socket)?,
            Err(error) => return Err(error.into()),
        };
        let mut overruled = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = overruled.get(&(hop, side));
        if in_force == wanted {
            if known.is_some_and(|wrong| wrong.seen.elapsed() >= RIGHT_FOR) {
                overruled.remove(&(hop, side));
                let side = side.as_str();
                tracing::info!(peer = %hop, side, in_force, "congestion control as asked again");
            }
            return Ok(());
        }
        let is_new = known.is_none_or(|wrong| wrong.in_force != in_force);
        let wrong = Wrong { in_force: in_force.clone(), seen: Instant::now() };
        overruled.insert((hop, side), wrong);
        drop(overruled);
        if is_new {
            tracing::warn!(
                peer = %hop,
                side = side.as_str(),
                wanted,
                in_force,
                "another congestion control than [[hop]] asks for: a route to the peer may set it \
                 (`ip route get`: congctl lock), or this user may not have it"
            );
        }
        Ok(())
    }
}
