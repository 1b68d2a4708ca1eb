// SPDX-License-Identifier: GPL-2.0-or-later
//! BBR version 1 in closed form: Cardwell, Cheng, Gunn, Yeganeh, Jacobson, "BBR: congestion-based congestion control",
//! ACM Queue 14(5), 2016; draft-cardwell-iccrg-bbr-congestion-control-00.
//!
//! Start-up doubles what is delivered each round trip until it is the bottleneck's rate. From then on that rate is
//! sent, except for the 200 ms and a round trip in ten seconds in which the round trip is probed with four segments. Loss
//! takes what it takes of the segments and no more: up to the share that probing for bandwidth adds in a cycle,
//! `p < 0.05` here, where the estimate does not suffer yet. Domain: the only flow on its bottleneck, or among others
//! of the same kind. Units: segments, seconds.

use crate::rounds::{Delivered, Path, Until};

/// The largest loss that the form is for.
pub const MOST_LOSS: f64 = 0.05;
/// How often the round trip is probed, and with how many segments for how long.
const PROBE_EVERY_S: f64 = 10.0;
const PROBE_S: f64 = 0.2;
const PROBE_WINDOW: f64 = 4.0;

/// What a connection delivers that begins with `first_window` segments and loses the share `loss`.
pub fn deliver(path: &Path, first_window: f64, loss: f64, until: Until) -> Delivered {
    let rate = path.most_per_s() * (1.0 - loss);
    let plateau = path.most_per_s() * path.rtt_s;
    let (mut window, mut segments, mut seconds) = (first_window, 0.0, 0.0);
    while window < plateau {
        match until {
            Until::Segments(all) if segments + window >= all => {
                return Delivered {
                    segments: all,
                    seconds: seconds + (all - segments) / path.segments_per_s,
                };
            }
            Until::Seconds(end) if seconds + path.rtt_s >= end => {
                let share = (end - seconds) / path.rtt_s;
                return Delivered { segments: segments + share * window, seconds: end };
            }
            _ => {}
        }
        segments += window;
        seconds += path.rtt_s;
        window *= 2.0;
    }
    match until {
        Until::Segments(all) => {
            let steady_s = (all - segments).max(0.0) / rate;
            Delivered {
                segments: all,
                seconds: seconds + steady_s + probes_s(path, seconds + steady_s),
            }
        }
        Until::Seconds(end) => {
            let steady_s = end - seconds - probes_s(path, end);
            Delivered { segments: segments + rate * steady_s, seconds: end }
        }
    }
}

/// The time that probing the round trip costs within `seconds`.
fn probes_s(path: &Path, seconds: f64) -> f64 {
    let probe_s = PROBE_S + path.rtt_s;
    let used = (PROBE_WINDOW / (path.most_per_s() * path.rtt_s)).min(1.0);
    (seconds / (PROBE_EVERY_S + probe_s)).floor() * probe_s * (1.0 - used)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1000 segments a second, 100 ms.
    const PATH: Path =
        Path { rtt_s: 0.1, segments_per_s: 1000.0, queue: 100.0, limit: f64::INFINITY };

    /// Windows of 10, 20, 40, 80 in 400 ms, then a segment a millisecond.
    #[test]
    fn start_up_doubles_to_the_rate() {
        let file = deliver(&PATH, 10.0, 0.0, Until::Segments(1150.0));
        assert!((file.seconds - 1.4).abs() < 1e-9, "{file:?}");
        let short = deliver(&PATH, 10.0, 0.0, Until::Segments(20.0));
        assert!((short.seconds - 0.11).abs() < 1e-9, "{short:?}");
    }

    /// Two probes of 300 ms at 40 segments a second in 25 s.
    #[test]
    fn probes_cost_three_percent() {
        let run = deliver(&PATH, 100.0, 0.0, Until::Seconds(25.0));
        assert!((run.segments - (25_000.0 - 2.0 * 300.0 * 0.96)).abs() < 1e-6, "{run:?}");
        let lossy = deliver(&PATH, 100.0, 0.02, Until::Seconds(25.0));
        assert!((lossy.segments / run.segments - 0.98).abs() < 1e-9);
    }

    #[test]
    fn buffers_hold_the_rate_down() {
        let half = Path { limit: 50.0, ..PATH };
        let run = deliver(&half, 50.0, 0.0, Until::Seconds(5.0));
        assert!((run.segments - 2500.0).abs() < 1e-6, "{run:?}");
    }
}
