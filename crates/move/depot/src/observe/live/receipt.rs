// SPDX-License-Identifier: GPL-2.0-or-later
//! What a transfer under way is looked at for its receipt.

use super::{Live, Watched};
use crate::{
    admission::verdict::Grant,
    observe::{
        receipt::{Receipts, TransferReceipt},
        status::TransferLimit,
    },
};
use limits::{RelaySample, Row, SocketSample};
use protocol::{Fetch, http::stripes::Token};
use relay::{
    Side,
    tcp::info::{TcpInfo, tcp_info},
};
use std::{net::IpAddr, sync::Arc, time::Duration};

/// Shorter transfers have no receipt: what is looked at then is mostly the connections' past.
const SHORTEST: Duration = Duration::from_millis(50);

impl Live {
    /// Its receipt, which begins with the first call.
    pub(crate) fn receipt(&self) -> &Arc<TransferReceipt> {
        self.receipt.get_or_init(|| Arc::new(TransferReceipt::new(self.since)))
    }

    /// Looks at its sockets.
    pub(crate) fn note_limits(&self) {
        let at = self.since.elapsed();
        if at < SHORTEST {
            return;
        }
        let moved = self.moved();
        let client = self.client.sample(at, self.received.waits_for_sink());
        let (reached_at, upstream) = {
            let upstream = self.upstream();
            let sample =
                upstream.socket.as_ref().map(|it| it.sample(at, self.sent.waits_for_sink()));
            (upstream.reached_at, sample.flatten())
        };
        let rtts = [&client, &upstream]
            .map(|socket| socket.as_ref().map(|(_, info)| info.rtt_us).filter(|rtt| *rtt > 0));
        let sample = RelaySample {
            at,
            reached_at: reached_at.map(|reached| reached.duration_since(self.since)),
            answered_at: self.first_byte(),
            down_bytes: moved.down_bytes,
            up_bytes: moved.up_bytes,
            client: client.map(|(sample, _)| sample),
            upstream: upstream.map(|(sample, _)| sample),
        };
        self.receipt().look(&sample, rtts);
    }

    /// Looks for the last time, if it has a receipt.
    pub(crate) fn end_receipt(&self) {
        if let Some(receipt) = self.receipt.get() {
            self.note_limits();
            receipt.end();
        }
    }

    /// What has limited it most, and the sums of all causes.
    pub(crate) fn limited_by(&self) -> Option<(TransferLimit, Row)> {
        let (limited, sums) = self.receipt.get()?.summary()?;
        let side = if limited.is_upstream { Side::Upstream } else { Side::Client };
        Some((TransferLimit { side, cause: limited.cause, share: limited.share }, sums))
    }

    /// Whether this depot has waited for the client for most of the time so far.
    pub(crate) fn waits_for_client(&self) -> bool {
        let most = |limit: &TransferLimit| limit.side == Side::Client && limit.share > 0.5;
        self.limited_by().is_some_and(|(limit, _)| most(&limit))
    }

    /// Keeps the receipt of a session under its name.
    pub(crate) fn keep_receipt(&self, client: IpAddr, receipts: &Receipts) {
        if let Some(session) = self.asked.session {
            receipts.keep(Token(session.0), client, Arc::clone(self.receipt()));
        }
    }

    /// The next hop is this depot, which has a receipt, too.
    pub(crate) fn receipt_leads_to(&self, fetch: &Fetch, grant: Grant) {
        self.receipt().leads_to(fetch, grant);
    }
}

impl Watched {
    /// Its socket now. `None` once it is closed.
    fn sample(&self, at: Duration, waits_for_room: bool) -> Option<(SocketSample, TcpInfo)> {
        let wire = self.socket.upgrade()?;
        let info = tcp_info(wire.socket()).ok()?;
        let sample = SocketSample {
            // No other connection has this address while it is watched.
            id: Arc::as_ptr(&wire) as u64,
            sender: info.sender(at, waits_for_room),
            acked_bytes: info.acked.get(),
            limit_bps: info.spacing.rate().map(units::Rate::bps),
            receiver: info.receiver(at),
        };
        Some((sample, info))
    }
}
