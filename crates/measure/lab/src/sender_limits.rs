// SPDX-License-Identifier: GPL-2.0-or-later
//! What held a kernel's sender back, from samples of its socket: the kernel's own clocks, and for the time that they leave, the
//! state at the sample.

use host::TcpSocket;
use record::{LimitTimes, SenderState};
use std::time::Duration;

/// A sender that is nearer than this part of its window to being full waits for acknowledgements, and not for its pace: what
/// lies between is a packet that waits to grow (`tcp_tso_should_defer`).
const NEARLY_FULL: u32 = 8;

/// Whether the application is not told to write: not before a third of the buffer is free (`sk_stream_is_writeable`).
fn waits_for_room(socket: &TcpSocket) -> bool {
    3 * socket.send_queue_bytes > 2 * socket.sndbuf_bytes
}

/// Of one hop.
#[derive(Debug, Clone, Default)]
pub struct SenderLimits {
    times: LimitTimes,
    last: Option<Sample>,
    /// Time without anything to send that is counted once there is again: time after the last byte is not a limit.
    idle: Duration,
}

#[derive(Debug, Clone)]
struct Sample {
    cookie: u64,
    time_s: f64,
    busy: Duration,
    rwnd_limited: Duration,
    sndbuf_limited: Duration,
}

impl SenderLimits {
    /// How long each cause has held it back.
    pub fn times(&self) -> &LimitTimes {
        &self.times
    }

    /// The connection that carries the hop, as it is now.
    pub fn look(&mut self, socket: &TcpSocket, time_s: f64) {
        let info = &socket.info;
        let now = Sample {
            cookie: socket.cookie,
            time_s,
            busy: info.busy,
            rwnd_limited: info.rwnd_limited,
            sndbuf_limited: info.sndbuf_limited,
        };
        let Some(last) = self.last.replace(now.clone()).filter(|last| last.cookie == now.cookie)
        else {
            return;
        };
        let passed = Duration::try_from_secs_f64(now.time_s - last.time_s).unwrap_or_default();
        let busy = now.busy.saturating_sub(last.busy).min(passed);
        if busy.is_zero() {
            self.idle += if now.busy.is_zero() { Duration::ZERO } else { passed };
            return;
        }
        let of_receiver = now.rwnd_limited.saturating_sub(last.rwnd_limited).min(busy);
        let of_buffer = now
            .sndbuf_limited
            .saturating_sub(last.sndbuf_limited)
            .min(busy.saturating_sub(of_receiver));
        let idle = std::mem::take(&mut self.idle) + passed.saturating_sub(busy);
        let rest = busy.saturating_sub(of_receiver + of_buffer);
        let is_full =
            info.in_flight_segments + info.cwnd_segments / NEARLY_FULL >= info.cwnd_segments;
        // A part of a segment waits for the application to complete it, while another one is under way (Nagle).
        let segment = info.cwnd.get().checked_div(info.cwnd_segments.into()).unwrap_or(0);
        let has_unsent = info.unsent.get() > 0 && info.unsent.get() >= segment;
        let state = SenderState {
            // The kernel's own clock misses what was sent before the application found the buffer full.
            buffer_is_full: !has_unsent && !is_full && waits_for_room(socket),
            recovers: info.recovers,
            has_unsent: has_unsent || waits_for_room(socket),
            is_starting: info
                .ssthresh_segments
                .is_none_or(|ssthresh| info.cwnd_segments < ssthresh),
            waits_for_pace: !is_full,
            ..SenderState::default()
        };
        for (limit, time) in [
            (SenderState { receiver_is_full: true, ..state }.limit(), of_receiver),
            (record::Limit::SendBuffer, of_buffer),
            (record::Limit::Application, idle),
            (state.limit(), rest),
        ] {
            self.times.add(limit, time);
        }
    }
}
