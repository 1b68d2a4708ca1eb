// SPDX-License-Identifier: GPL-2.0-or-later
//! Next hops that have not failed and are of little use: slower than they may be, for too long.

use crate::{
    failover_routes::Trying,
    http::{body::Broken, exchange::Exchange},
};
use protocol::Authority;
use relay::copy::CopyError;
use route::AttemptEnd;
use std::{pin::Pin, time::Duration};
use units::Rate;

/// How often is looked within the time for which a hop may be slow.
const LOOKS: u32 = 10;

impl Exchange<'_> {
    /// Moves an answer's body. A next hop that stalls is reported, once; where there is a way around
    /// it and the settings say so, the body is broken off, and the client resumes on that way.
    pub(super) async fn unless_stalled(
        &self,
        next: &Authority,
        mut body: Pin<&mut impl Future<Output = Result<(), Broken>>>,
    ) -> Result<(), Broken> {
        let stall = &self.config().stall;
        let Some(least) = stall.rate else { return body.await };
        let trying = Trying::begin(self.live.moved_in_all());
        let bps = tokio::select! {
            biased;
            result = &mut body => return result,
            bps = self.stalls(least, stall.time.into()) => bps,
        };
        let reroute = stall.reroute && self.routes.len() > 1;
        let (rate_bps, least_bps, seconds) = (bps, least.bps(), stall.time.as_secs_f64());
        tracing::warn!(upstream = %next, rate_bps, least_bps, seconds, reroute, "stalled hop");
        self.live.stalled();
        if !reroute {
            return body.await;
        }
        self.tell_chooser(next, &trying, AttemptEnd::Stalled);
        Err(Broken::Copy(CopyError::SourceStalled))
    }

    /// Resolves once less than `least` has come for that time, though the client took all that came;
    /// with the rate at which it did, in bits a second.
    async fn stalls(&self, least: Rate, time: Duration) -> u64 {
        let (mut looks, mut before) = (0, self.live.received.moved());
        loop {
            tokio::time::sleep(time / LOOKS).await;
            looks += 1;
            let now = self.live.received.moved();
            // Time in which the depot itself waits for its client is not a stall of the hop.
            if self.live.received.waits_for_sink() {
                (looks, before) = (0, now);
            }
            if looks == LOOKS {
                let bps = ((now - before) as f64 * 8.0 / time.as_secs_f64()) as u64;
                if bps < least.bps() {
                    return bps;
                }
                (looks, before) = (0, now);
            }
        }
    }
}
