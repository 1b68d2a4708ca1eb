// SPDX-License-Identifier: GPL-2.0-or-later
//! Watching a client that has asked and waits, and telling a connection's end.

use crate::{client::failed, http::exchange::Exchange};
use bytes::BytesMut;
use relay::tcp::Source;
use std::{io, time::Duration};

impl Exchange<'_> {
    /// Resolves once the client is gone. What it sends meanwhile (its next request or the rest of this one) is
    /// kept, up to a limit.
    pub(super) async fn gone(&self, source: &mut Source<'_>, ahead: &mut BytesMut) -> io::Error {
        let config = self.config();
        let limit = config.limits.head.get() as usize;
        loop {
            if ahead.len() >= limit {
                return failed(source.tcp()).await;
            }
            match source.read(ahead, (4 << 10).min(limit - ahead.len())).await {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => return error,
            }
        }
        // It has closed its sending side and may still want the answer (`nc -N`), or it has gone: that
        // looks the same until bytes are sent to it. So patience is shorter.
        let patience = Duration::from(config.timeouts.half_closed);
        let mut seen = self.live.received.moved();
        loop {
            tokio::select! {
                error = failed(source.tcp()) => return error,
                () = tokio::time::sleep(patience) => {}
            }
            let now = self.live.received.moved();
            if now == seen && !self.live.received.waits_for_sink() {
                let reason = "it closed its sending side and nothing moved since";
                return io::Error::new(io::ErrorKind::TimedOut, reason);
            }
            seen = now;
        }
    }
}
