// SPDX-License-Identifier: GPL-2.0-or-later
//! What a relay waited for between two looks at its two sockets.
//!
//! ```text
//! source ──▶ relay ──▶ sink      the sink's sender has data: its own rules apply        ▶ the sink's side
//!                                it has none: the relay waits for the source            ▶ the source's side
//! ```
//! A sink without room stops the relay, so its source waits for the sink and not the other way round. The side that the relay
//! waits for is the one to blame; a chain of such verdicts leads to one hop ([`Chain`](crate::Chain)).

use crate::{Arrivals, Cause, CauseTimes, Flow, Limit, ReceiverSample, Row, SenderSample};
use std::time::Duration;

/// A sender that is limited to a rate and reaches this share of it is held back by the limit.
const AT_LIMIT: f64 = 0.7;

/// One socket of a relay at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct SocketSample {
    /// Tells connections apart.
    pub id: u64,
    /// What it sends.
    pub sender: SenderSample,
    /// Bytes that its peer has acknowledged.
    pub acked_bytes: u64,
    /// The rate in bit/s that it is held to; `None` without a limit.
    pub limit_bps: Option<u64>,
    /// What it receives.
    pub receiver: ReceiverSample,
}

/// A relay at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct RelaySample {
    /// The moment, counted from the start of the transfer.
    pub at: Duration,
    /// When there was a connection to the next hop.
    pub reached_at: Option<Duration>,
    /// When the next hop has answered.
    pub answered_at: Option<Duration>,
    /// Bytes moved from the next hop to the client so far.
    pub down_bytes: u64,
    /// Bytes moved from the client to the next hop so far.
    pub up_bytes: u64,
    /// The client's connection; `None` once it is closed.
    pub client: Option<SocketSample>,
    /// The next hop's connection.
    pub upstream: Option<SocketSample>,
}

/// What was seen so far.
#[derive(Debug, Clone, Default)]
pub struct RelayClock {
    until: Duration,
    down_bytes: u64,
    up_bytes: u64,
    flow: Flow,
    /// The sink at the last look.
    sink: Option<(Flow, SocketSample)>,
    source: Option<u64>,
    arrivals: Arrivals,
}

impl RelayClock {
    /// Where most of the bytes went at the last look.
    pub fn flow(&self) -> Flow {
        self.flow
    }

    /// Up to when it has looked.
    pub fn until(&self) -> Duration {
        self.until
    }

    /// Looks again: the time since the last look, by cause and side.
    pub fn look(&mut self, now: &RelaySample) -> Row {
        let (from, mut row) = (self.until, Row::default());
        if now.at <= from {
            return row;
        }
        let down = now.down_bytes.saturating_sub(self.down_bytes);
        let up = now.up_bytes.saturating_sub(self.up_bytes);
        (self.until, self.down_bytes, self.up_bytes) = (now.at, now.down_bytes, now.up_bytes);
        row.bytes = down.saturating_add(up);
        if down != up {
            self.flow = if down > up { Flow::Down } else { Flow::Up };
        }
        let reached = now.reached_at.unwrap_or(now.at).clamp(from, now.at);
        row.upstream.add(Cause::Connecting, reached.saturating_sub(from));
        let begun = match self.flow {
            Flow::Down => now.answered_at.unwrap_or(now.at).clamp(reached, now.at),
            Flow::Up => reached,
        };
        row.upstream.add(Cause::OtherHop, begun.saturating_sub(reached));
        let left = now.at.saturating_sub(begun);
        let (sink, source) = match self.flow {
            Flow::Down => (now.client, now.upstream),
            Flow::Up => (now.upstream, now.client),
        };
        let awaited = self.awaited(source);
        let Some(sink) = sink.filter(|_| !left.is_zero()) else { return row };
        let (of_sink, waited) = self.sink_times(&sink, left);
        let (to, of) = match self.flow {
            Flow::Down => (&mut row.client, &mut row.upstream),
            Flow::Up => (&mut row.upstream, &mut row.client),
        };
        to.add_all(&of_sink);
        of.add(awaited, waited);
        row
    }

    /// Why nothing comes from the source, if nothing does.
    fn awaited(&mut self, source: Option<SocketSample>) -> Cause {
        let Some(source) = source else { return Cause::OtherHop };
        if self.source.replace(source.id) != Some(source.id) {
            self.arrivals = Arrivals::default();
        }
        self.arrivals.look(source.receiver)
    }

    /// The last part of the time since the last look: by the sink's causes, and how much of it the source was waited for.
    fn sink_times(&mut self, sink: &SocketSample, left: Duration) -> (CauseTimes, Duration) {
        let known = self.sink.replace((self.flow, *sink));
        let known = known.filter(|(flow, last)| (*flow, last.id) == (self.flow, sink.id));
        let acked = known.map(|(_, last)| {
            let passed = sink.sender.at.saturating_sub(last.sender.at).as_secs_f64();
            let bits = sink.acked_bytes.saturating_sub(last.acked_bytes) as f64 * 8.0;
            if passed > 0.0 { bits / passed } else { 0.0 }
        });
        // Of a connection that was not looked at before, only its state now tells.
        let last = known.map_or_else(
            || SenderSample {
                at: sink.sender.at.saturating_sub(left),
                busy: sink.sender.busy.saturating_sub(left),
                ..sink.sender
            },
            |(_, last)| last.sender,
        );
        let interval = sink.sender.since(&last);
        let busy_for = interval.busy_for.min(left);
        let scale = if interval.busy_for.is_zero() {
            0.0
        } else {
            busy_for.as_secs_f64() / interval.busy_for.as_secs_f64()
        };
        let at_limit = sink
            .limit_bps
            .zip(acked)
            .is_some_and(|(limit, acked)| acked >= AT_LIMIT * limit as f64);
        let (mut times, mut waited) = (CauseTimes::default(), left.saturating_sub(busy_for));
        for limit in Limit::ALL {
            let time = interval.busy.of(limit).mul_f64(scale);
            match cause_of(limit, at_limit) {
                Some(cause) => times.add(cause, time),
                None => waited += time,
            }
        }
        (times, waited)
    }
}

/// What a sender's limit is called in a receipt. `None`: it has nothing to send.
fn cause_of(limit: Limit, at_limit: bool) -> Option<Cause> {
    Some(match limit {
        Limit::Application => return None,
        Limit::Cwnd | Limit::Pacing | Limit::StartUp if at_limit => Cause::RateLimit,
        Limit::StartUp => Cause::StartUp,
        // A congestion control's own pacing is a window by another name. And what comes after a hole fills the peer's window:
        // the loss is the cause.
        Limit::Cwnd | Limit::Pacing | Limit::Recovery | Limit::WindowInRecovery => {
            Cause::Congestion
        }
        Limit::ReceiveWindow => Cause::Receiver,
        Limit::SendBuffer => Cause::SendBuffer,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    /// A socket at a moment: for how long it was busy, limited by its peer's window, and what it has still to send.
    fn socket(at: u64, busy: u64, rwnd: u64, unsent: u64) -> SocketSample {
        SocketSample {
            sender: SenderSample {
                at: ms(at),
                busy: ms(busy),
                rwnd_limited: ms(rwnd),
                in_flight_segments: 20,
                cwnd_segments: 20,
                ssthresh_segments: Some(10),
                unsent_bytes: unsent,
                segment_bytes: 1448,
                ..SenderSample::default()
            },
            receiver: ReceiverSample {
                at: ms(at),
                rtt: ms(20),
                window_bytes: 1 << 20,
                ..ReceiverSample::default()
            },
            ..SocketSample::default()
        }
    }

    fn at(now: u64, down: u64, client: SocketSample, upstream: SocketSample) -> RelaySample {
        RelaySample {
            at: ms(now),
            reached_at: Some(ms(10)),
            answered_at: Some(ms(40)),
            down_bytes: down,
            up_bytes: 0,
            client: Some(client),
            upstream: Some(upstream),
        }
    }

    #[test]
    fn full_sink_is_blamed_by_its_own_rules() {
        let mut clock = RelayClock::default();
        let row = clock.look(&at(100, 1000, socket(100, 60, 0, 9000), socket(100, 0, 0, 0)));
        let seconds = |times: &CauseTimes, cause| (times.seconds(cause) * 1e3).round() as u64;
        assert_eq!(seconds(&row.upstream, Cause::Connecting), 10);
        assert_eq!(seconds(&row.upstream, Cause::OtherHop), 30, "the answer was waited for");
        assert_eq!(seconds(&row.client, Cause::Congestion), 60);
        let row = clock.look(&at(200, 2000, socket(200, 160, 70, 9000), socket(200, 0, 0, 0)));
        assert_eq!(seconds(&row.client, Cause::Receiver), 70);
        assert_eq!(seconds(&row.client, Cause::Congestion), 30);
        assert_eq!((row.upstream.total_s(), row.bytes), (0.0, 1000));
    }

    #[test]
    fn empty_sink_has_the_source_to_blame() {
        let mut clock = RelayClock::default();
        clock.look(&at(100, 1000, socket(100, 60, 0, 0), socket(100, 0, 0, 0)));
        let row = clock.look(&at(1100, 2000, socket(1100, 360, 0, 0), socket(1100, 0, 0, 0)));
        assert!(row.client.total_s() <= 0.0, "what is under way is all there is");
        assert!((row.upstream.seconds(Cause::OtherHop) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn limited_sender_at_its_rate_is_limited_by_it() {
        let mut clock = RelayClock::default();
        let paced = |now, acked_bytes| SocketSample {
            acked_bytes,
            limit_bps: Some(8_000_000),
            ..socket(now, now, 0, 9000)
        };
        clock.look(&at(100, 1000, paced(100, 0), socket(100, 0, 0, 0)));
        let row = clock.look(&at(200, 2000, paced(200, 90_000), socket(200, 0, 0, 0)));
        assert!((row.client.seconds(Cause::RateLimit) - 0.1).abs() < 1e-6, "{row:?}");
        let row = clock.look(&at(300, 3000, paced(300, 110_000), socket(300, 0, 0, 0)));
        assert!((row.client.seconds(Cause::Congestion) - 0.1).abs() < 1e-6, "{row:?}");
    }

    #[test]
    fn upload_swaps_the_sides() {
        let mut clock = RelayClock::default();
        let sample = |now, up| RelaySample {
            answered_at: None,
            up_bytes: up,
            ..at(now, 0, socket(now, 0, 0, 0), socket(now, now, 0, 9000))
        };
        clock.look(&sample(100, 50));
        let row = clock.look(&sample(200, 100));
        assert_eq!(clock.flow(), Flow::Up);
        assert!((row.upstream.seconds(Cause::Congestion) - 0.1).abs() < 1e-6, "{row:?}");
        assert!(row.client.total_s() <= 0.0);
    }

    #[test]
    fn time_that_is_told_never_exceeds_the_time_that_passed() {
        let mut clock = RelayClock::default();
        let mut told = 0.0;
        for (now, busy, rwnd) in [(50, 900, 900), (60, 5, 1), (61, 2000, 0), (400, 2100, 3000)] {
            let row = clock.look(&at(now, now, socket(now, busy, rwnd, 1), socket(now, 0, 0, 0)));
            told += row.client.total_s() + row.upstream.total_s();
            assert!(told <= now as f64 / 1e3 + 1e-5, "{told} s at {now} ms");
        }
        let row = clock.look(&at(10, 0, socket(10, 0, 0, 0), socket(10, 0, 0, 0)));
        assert_eq!(row, Row::default(), "a clock that is set back adds nothing");
    }
}
