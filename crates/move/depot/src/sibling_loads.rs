// SPDX-License-Identifier: GPL-2.0-or-later
//! How full the sibling depots are, and which of them is to take a client that this one is too full for.

use crate::config::{Config, Siblings};
use protocol::{
    DepotAddress,
    http::{Framing, RequestHead, load::Load},
};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// How much less full a sibling must be to get another's clients.
const CLEARLY: f64 = 0.1;
/// After this many rounds without a response, the load of a sibling is unknown.
const FORGOTTEN: u32 = 3;

/// How full the siblings were when they last said so.
#[derive(Debug, Default)]
pub(crate) struct SiblingLoads {
    loads: Mutex<HashMap<DepotAddress, (Load, Instant)>>,
}

impl SiblingLoads {
    /// Where a client is to ask instead, if this depot is too full for its request. Another depot has none of this
    /// one's sites.
    pub(crate) fn instead(
        &self,
        request: &RequestHead,
        own: &Load,
        config: &Config,
    ) -> Option<DepotAddress> {
        let share = own.share();
        let may = !request.came_through_depot()
            && request.method.is_idempotent()
            && request.framing() == Framing::Empty
            && request.target.starts_with('/');
        if !may || share < config.siblings.above || config.site_of(request).is_some() {
            return None;
        }
        self.least(config, share - CLEARLY)
    }

    /// A sibling has said how full it is.
    pub(crate) fn heard(&self, depot: DepotAddress, load: Load) {
        self.state().insert(depot, (load, Instant::now()));
    }

    /// A sibling does not say how full it is.
    pub(crate) fn forget(&self, depot: &DepotAddress) {
        self.state().remove(depot);
    }

    /// The sibling that is least full, if it is less so than `share`.
    fn least(&self, config: &Config, share: f64) -> Option<DepotAddress> {
        let Siblings { members, every, .. } = &config.siblings;
        let fresh = Duration::from(*every) * FORGOTTEN;
        let loads = self.state();
        let known = members.iter().filter_map(|depot| {
            let (load, when) = loads.get(depot)?;
            (!load.leaving && when.elapsed() < fresh).then(|| (load.share(), depot))
        });
        let least = known.min_by(|(one, _), (other, _)| one.total_cmp(other));
        least.filter(|(least, _)| *least < share).map(|(_, depot)| depot.clone())
    }

    /// Nothing is left half changed, so a panic elsewhere does not spoil it.
    fn state(&self) -> MutexGuard<'_, HashMap<DepotAddress, (Load, Instant)>> {
        self.loads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
