// SPDX-License-Identifier: GPL-2.0-or-later
//! `[timeouts]`: how long the depot waits for peers.

use crate::config::{error::ConfigError, range::check_time};
use protocol::MAX_DEPOTS;
use relay::copy::IdleTimeouts;
use serde::{Deserialize, Serialize};
use std::time::Duration as StdDuration;
use units::Duration;

/// How long the depot waits for peers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// To resolve the next hop's name and connect to it, all its addresses together.
    pub connect: Duration,
    /// For the client to send its whole request head.
    pub request_head: Duration,
    /// For a client that has had an answer to begin another request.
    pub keep_alive: Duration,
    /// For the next hop to send its whole response head.
    pub response_head: Duration,
    /// For the next hop to send at least one byte.
    pub idle: Duration,
    /// For the client to read at least one byte. Longer than `idle`: the client may be a depot whose own
    /// reader is slow, and which reads nothing until that one has read a pipe's worth. Towards depots it is
    /// longer still, so that the depot next to a stalled client is the one that aborts.
    pub client_idle: Duration,
    /// Like `idle`, once the client has closed its sending side: it may be gone.
    pub half_closed: Duration,
    /// For the peer's system to acknowledge sent bytes.
    pub tcp_user: Duration,
    /// For transfers to finish once the depot stops.
    pub drain: Duration,
}

/// The numbers of other depots on a route.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DepotsAround {
    /// Between the client and this depot.
    pub before: usize,
    /// Between this depot and the origin.
    pub after: usize,
}

/// How much later than the next depot a depot aborts a stalled body, so that the depot next to the stall
/// reports it.
const LATER: StdDuration = StdDuration::from_secs(3);
/// The same for a response's head, in addition to that depot's connect timeout.
const LATER_HEAD: StdDuration = StdDuration::from_secs(1);

/// Extra time before a depot with `depots` further depots on the way times out.
pub(super) fn later(depots: usize) -> StdDuration {
    LATER.saturating_mul(number(depots))
}

impl Timeouts {
    /// Idle timeouts towards a client behind `depots` depots.
    pub(crate) fn towards_client(&self, depots: usize) -> IdleTimeouts {
        IdleTimeouts {
            source_idle: self.idle.into(),
            sink_idle: StdDuration::from(self.client_idle) + later(depots),
            tcp_user: self.tcp_user.into(),
            minimum: None,
        }
    }

    /// Idle timeouts of response bodies.
    pub(crate) fn of_answers(&self, depots: DepotsAround) -> IdleTimeouts {
        let timeouts = self.towards_client(depots.before);
        IdleTimeouts { source_idle: timeouts.source_idle + later(depots.after), ..timeouts }
    }

    /// Idle timeouts of request bodies that go through `depots` depots.
    pub(crate) fn of_requests(&self, depots: usize) -> IdleTimeouts {
        // The next hop has as long as a client behind as many depots.
        self.towards_client(depots)
    }

    /// `TCP_USER_TIMEOUT` towards clients: longer than the depot itself waits behind any number of depots.
    pub(crate) fn tcp_user_of_clients(&self) -> StdDuration {
        StdDuration::from(self.client_idle).saturating_mul(2) + later(MAX_DEPOTS)
    }

    /// Timeout for the head of a response that comes through `depots` depots.
    pub(crate) fn of_head(&self, depots: usize) -> StdDuration {
        let later = StdDuration::from(self.connect) + LATER_HEAD;
        StdDuration::from(self.response_head) + later.saturating_mul(number(depots))
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        for (key, time) in [
            ("timeouts.connect", self.connect),
            ("timeouts.request_head", self.request_head),
            ("timeouts.keep_alive", self.keep_alive),
            ("timeouts.response_head", self.response_head),
            ("timeouts.idle", self.idle),
            ("timeouts.client_idle", self.client_idle),
            ("timeouts.half_closed", self.half_closed),
            ("timeouts.tcp_user", self.tcp_user),
            ("timeouts.drain", self.drain),
        ] {
            check_time(key, time)?;
        }
        Ok(())
    }
}

/// A number of depots as `u32`. No route has many.
fn number(depots: usize) -> u32 {
    u32::try_from(depots).unwrap_or(u32::MAX)
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            request_head: Duration::from_secs(10),
            keep_alive: Duration::from_secs(60),
            response_head: Duration::from_secs(30),
            idle: Duration::from_secs(60),
            client_idle: Duration::from_secs(600),
            half_closed: Duration::from_secs(10),
            tcp_user: Duration::from_secs(60),
            drain: Duration::from_secs(30),
        }
    }
}
