// SPDX-License-Identifier: GPL-2.0-or-later
//! What a depot knows and keeps of the peers that it connects to.

use crate::{
    announcements::Announcements, failover_routes::FailoverRoutes, idle_pool::Pool,
    next_depots::NextDepots, packet_pacing::Paced, sibling_loads::SiblingLoads,
};
use relay::dial::{Names, Resolver};
use std::{net::IpAddr, sync::Arc};

/// The next hops of all requests.
#[derive(Debug)]
pub(crate) struct NextHops {
    /// Resolves names.
    pub names: Names,
    /// Idle connections to next hops.
    pub pool: Pool,
    /// Next depots with connections opened ahead of need.
    pub warm: NextDepots,
    /// Peers whose packets are spaced below TCP.
    pub paced: Arc<Paced>,
    /// Load of sibling depots.
    pub siblings: SiblingLoads,
    /// Depots of detours that are down, or have failed recently.
    pub detours: FailoverRoutes,
    /// Announcements of depots.
    pub announcements: Announcements,
}

impl NextHops {
    /// Of a depot that knows none yet.
    pub(crate) fn new(paced: Arc<Paced>) -> Self {
        let (names, pool, warm) = (Names::default(), Pool::default(), NextDepots::default());
        let (siblings, detours) = (SiblingLoads::default(), FailoverRoutes::default());
        let announcements = Announcements::default();
        Self { names, pool, warm, paced, siblings, detours, announcements }
    }

    /// A resolver for this client.
    pub(crate) fn resolver(&self, client: IpAddr) -> Resolver<'_> {
        Resolver { names: &self.names, client }
    }
}
