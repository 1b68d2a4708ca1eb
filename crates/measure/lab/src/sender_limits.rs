// SPDX-License-Identifier: GPL-2.0-or-later
//! What held a kernel's sender back, from samples of its socket by the rules of the crate `limits`.

use host::TcpSocket;
use limits::{Limit, LimitTimes, SenderSample};
use std::time::Duration;

/// Whether the application is not told to write: not before a third of the buffer is free (`sk_stream_is_writeable`).
fn waits_for_room(socket: &TcpSocket) -> bool {
    3 * socket.send_queue_bytes > 2 * socket.sndbuf_bytes
}

/// Of one hop.
#[derive(Debug, Clone, Default)]
pub struct SenderLimits {
    times: LimitTimes,
    /// The last look, and at which socket.
    last: Option<(u64, SenderSample)>,
    /// Time without anything to send that is counted once there is again: time after the last byte is not a limit.
    idle: Duration,
}

impl SenderLimits {
    /// How long each cause has held it back.
    pub fn times(&self) -> &LimitTimes {
        &self.times
    }

    /// The connection that carries the hop, as it is now.
    pub fn look(&mut self, socket: &TcpSocket, time_s: f64) {
        let at = Duration::try_from_secs_f64(time_s).unwrap_or_default();
        let now = socket.info.sender(at, waits_for_room(socket));
        let last = self.last.replace((socket.cookie, now));
        let Some((_, last)) = last.filter(|(cookie, _)| *cookie == socket.cookie) else { return };
        let interval = now.since(&last);
        if interval.busy_for.is_zero() {
            self.idle += if now.busy.is_zero() { Duration::ZERO } else { interval.idle };
            return;
        }
        self.times.add_all(&interval.busy);
        self.times.add(Limit::Application, std::mem::take(&mut self.idle) + interval.idle);
    }
}
