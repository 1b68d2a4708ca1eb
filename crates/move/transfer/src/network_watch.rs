// SPDX-License-Identifier: GPL-2.0-or-later
//! Why nothing comes on a connection, as far as its own socket shows it: the kernel's list of sockets has it, since HTTP's
//! library does not give it away.

use host::TcpSockets;
use limits::{Arrivals, Cause};
use std::{
    fmt,
    net::SocketAddr,
    time::{Duration, Instant},
};

/// How often the kernel is asked.
const EVERY: Duration = Duration::from_millis(100);

/// A connection that is looked at.
pub(crate) struct NetworkWatch {
    sockets: TcpSockets,
    local: SocketAddr,
    peer: SocketAddr,
    arrivals: Arrivals,
    begun: Instant,
    looked: Instant,
    cause: Cause,
}

impl NetworkWatch {
    /// The connection between these addresses. `None` where the kernel does not tell.
    pub(crate) fn new((local, peer): (SocketAddr, SocketAddr)) -> Option<Self> {
        let now = Instant::now();
        let mut watch = Self {
            sockets: TcpSockets::open().ok()?,
            local,
            peer,
            arrivals: Arrivals::default(),
            begun: now,
            looked: now,
            // It begins in slow start.
            cause: Cause::StartUp,
        };
        watch.look(now)?;
        watch.cause = Cause::StartUp;
        Some(watch)
    }

    /// Why the network was waited for lately.
    pub(crate) fn cause(&mut self) -> Cause {
        let now = Instant::now();
        if now.duration_since(self.looked) >= EVERY && self.look(now).is_none() {
            self.cause = Cause::OtherHop;
        }
        self.cause
    }

    fn look(&mut self, now: Instant) -> Option<()> {
        self.looked = now;
        let socket = self.sockets.between(self.local, self.peer).ok().flatten()?;
        self.cause = self.arrivals.look(socket.info.receiver(now.duration_since(self.begun)));
        Some(())
    }
}

impl fmt::Debug for NetworkWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetworkWatch").field("peer", &self.peer).finish_non_exhaustive()
    }
}
