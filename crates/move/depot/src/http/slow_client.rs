// SPDX-License-Identifier: GPL-2.0-or-later
//! Clients that are too slow for their connection slot ([`crate::minimum_rate`]).

use crate::http::{attempt::UpstreamAttempt, exchange::Exchange, outcome::End};
use http::header::EXPECT;
use protocol::http::Framing;
use relay::{
    copy::{CopyError, minimum_rate::Meter},
    tcp::info,
};
use std::{future::pending, sync::atomic::Ordering::Relaxed};
use tokio::net::TcpStream;

impl UpstreamAttempt<'_> {
    /// Resolves once the client has taken or sent too little for too long.
    pub(super) async fn too_slow(&self, client: &TcpStream) -> End {
        let Exchange { live, request, client: peer, .. } = self.exchange;
        let (config, depots) = (self.exchange.config(), request.depots_before());
        let Some(minimum) = config.minimum_read(peer.ip(), depots) else {
            return pending().await;
        };
        let upload = config.minimum_upload(peer.ip(), depots);
        if upload.is_none() {
            // Most are over by then, and are asked nothing.
            tokio::time::sleep(minimum.pause()).await;
        }
        let info = || info::tcp_info(client).unwrap_or_default();
        let before = info();
        let mut down = Meter::new([before.acked.get(), live.received.moved()]);
        let mut up = Meter::new([before.received.get(), live.sent.moved()]);
        loop {
            tokio::time::sleep(minimum.pause()).await;
            let info = info();
            let taken = [info.acked.get(), live.received.moved()];
            if down.look(
                minimum.of_held(info.spacing.rate()),
                live.received.waits_for_sink(),
                taken,
            ) {
                return End::Broken(CopyError::SinkSlow.into());
            }
            let begun = info.received > before.received || live.sent.moved() > 0;
            let sent = [info.received.get(), live.sent.moved()];
            if let Some(minimum) = upload
                && up.look(minimum, self.waits_for_body(begun), sent)
            {
                return self.request_broke(CopyError::SourceSlow.into());
            }
        }
    }

    /// Whether it is the client that the request's body waits for. One that is to be told to send it has
    /// to be told first.
    fn waits_for_body(&self, begun: bool) -> bool {
        let request = self.exchange.request;
        request.framing() != Framing::Empty
            && !self.uploaded.load(Relaxed)
            && self.given_up.get().is_none()
            && !self.exchange.live.sent.waits_for_sink()
            && (begun || !request.headers.contains(&EXPECT))
    }
}
