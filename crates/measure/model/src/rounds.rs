// SPDX-License-Identifier: GPL-2.0-or-later
//! A connection in rounds: the window of each round trip, losses in between, and what the path makes of it.
//!
//! Slow start doubles the window (Cardwell, Savage, Anderson 2000 with an acknowledgement for each segment); `HyStart`
//! ends it where the acknowledgements of a round last half of a round trip (Ha, Rhee 2011). Then the window follows
//! its rule ([`crate::window`]). A window above the path's product waits in the queue and makes rounds longer; one
//! above product and queue loses. A loss costs a round without growth, and further losses of its own round cost nothing
//! (RFC 6675).
//!
//! With losses at regular intervals this is what response functions average; with independent losses it is the
//! Markov chain of windows at losses (Ott, Kemperman, Mathis 1996; Poojary, Sharma 2016 for CUBIC), followed
//! numerically over [`SAMPLES`] sequences of losses.

use crate::window::{Rule, Window};

/// Sequences of losses that are followed where loss is random.
pub const SAMPLES: u32 = 200;
/// Rounds that are followed one by one; beyond them the average rate goes on.
const MOST_ROUNDS: u32 = 50_000;

/// A path as one connection sees it, in segments and seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Path {
    /// Round trip over empty queues.
    pub rtt_s: f64,
    /// Segments a second that the slowest link carries; infinite without one.
    pub segments_per_s: f64,
    /// Segments that its queue holds.
    pub queue: f64,
    /// The largest window that the buffers allow.
    pub limit: f64,
}

impl Path {
    /// The bandwidth-delay product in segments.
    pub fn product(&self) -> f64 {
        self.segments_per_s * self.rtt_s
    }

    /// What path and queue hold.
    pub fn room(&self) -> f64 {
        self.product() + self.queue
    }

    /// How long a window's round takes.
    fn round_s(&self, window: f64) -> f64 {
        self.rtt_s.max(window / self.segments_per_s)
    }

    /// Segments a second with the largest window and without loss.
    pub fn most_per_s(&self) -> f64 {
        self.segments_per_s.min(self.limit / self.rtt_s)
    }
}

/// Which segments are lost on the way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Losses {
    /// None.
    None,
    /// One in so many.
    Periodic(f64),
    /// Each with this probability.
    Random(f64),
}

/// How a connection begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Start {
    /// The first window.
    pub window: f64,
    /// Where slow start ends at the latest.
    pub ssthresh: f64,
    /// Whether `HyStart` may end it.
    pub hystart: bool,
}

/// When to stop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Until {
    /// So many segments are delivered.
    Segments(f64),
    /// So many seconds have passed.
    Seconds(f64),
}

/// What a connection did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Delivered {
    /// Segments.
    pub segments: f64,
    /// From the first segment's departure to that of the last.
    pub seconds: f64,
}

/// Follows a connection: once where nothing is random, or else once for each sequence of losses, `stream` telling
/// connections of a run apart.
pub fn follow(
    rule: Rule,
    path: &Path,
    start: Start,
    losses: Losses,
    until: Until,
    stream: u64,
) -> Vec<Delivered> {
    let samples = if matches!(losses, Losses::Random(_)) { SAMPLES } else { 1 };
    let of_sample = |sample: u32| {
        let random = Random(stream << 32 | u64::from(sample));
        Connection::new(rule, path, start, losses, random).run(until)
    };
    (0..samples).map(of_sample).collect()
}

struct Connection<'p> {
    path: &'p Path,
    window: Window,
    /// Where slow start ends; none once it has.
    slow_start: Option<Start>,
    losses: Losses,
    random: Random,
    /// Segments to the next loss.
    to_loss: f64,
    segments: f64,
    seconds: f64,
}

impl<'p> Connection<'p> {
    fn new(rule: Rule, path: &'p Path, start: Start, losses: Losses, random: Random) -> Self {
        let mut connection = Self {
            path,
            window: Window::new(rule, start.window),
            slow_start: (start.window < start.ssthresh).then_some(start),
            losses,
            random,
            to_loss: 0.0,
            segments: 0.0,
            seconds: 0.0,
        };
        connection.to_loss = connection.next_loss();
        connection
    }

    fn next_loss(&mut self) -> f64 {
        match self.losses {
            Losses::None => f64::INFINITY,
            Losses::Periodic(every) => every,
            Losses::Random(probability) => -self.random.share().ln() / -(-probability).ln_1p(),
        }
    }

    fn run(mut self, until: Until) -> Delivered {
        for _ in 0..MOST_ROUNDS {
            let before = (self.segments, self.seconds);
            self.round();
            if let Some(delivered) = self.ended(before, until) {
                return delivered;
            }
        }
        let rate = self.segments / self.seconds;
        match until {
            Until::Segments(segments) => Delivered { segments, seconds: segments / rate },
            Until::Seconds(seconds) => Delivered { segments: seconds * rate, seconds },
        }
    }

    /// The state at the end, if it is within the last round. A window leaves in one burst.
    fn ended(&self, before: (f64, f64), until: Until) -> Option<Delivered> {
        let (segments, seconds) = before;
        match until {
            Until::Segments(all) if self.segments >= all => {
                let burst_s = (all - segments) / self.path.segments_per_s;
                Some(Delivered { segments: all, seconds: seconds + burst_s })
            }
            Until::Seconds(end) if self.seconds >= end => {
                let share = (end - seconds) / (self.seconds - seconds);
                let segments = segments + share * (self.segments - segments);
                Some(Delivered { segments, seconds: end })
            }
            _ => None,
        }
    }

    fn round(&mut self) {
        let flight = self.window.segments.min(self.path.limit);
        let overflows = flight > self.path.room();
        let before_loss = (self.to_loss / flight).clamp(0.0, 1.0);
        let loses = self.to_loss <= flight || overflows;
        self.send(flight.min(self.path.room()));
        if loses {
            self.window.segments = self.grown_to_loss(flight, before_loss);
            self.window.lose();
            self.slow_start = None;
            self.pass_losses();
            self.send(self.window.segments.min(self.path.room()));
            return;
        }
        let round_s = self.path.round_s(flight);
        match self.slow_start {
            Some(start) => self.slow_start_round(start, flight),
            // A window that the buffers hold down does not grow (RFC 7661, Linux's cwnd validation).
            None if self.window.segments > self.path.limit => {}
            None => self.window.grow(round_s),
        }
    }

    /// The window when the loss is, after a share of the round.
    fn grown_to_loss(&self, flight: f64, share: f64) -> f64 {
        let mut grown = self.window;
        grown.segments = flight;
        match self.slow_start {
            Some(_) => grown.segments *= 2.0,
            None => grown.grow(self.path.round_s(flight)),
        }
        (flight + (grown.segments - flight) * share).min(self.path.limit)
    }

    /// A window's departure.
    fn send(&mut self, flight: f64) {
        self.seconds += self.path.round_s(flight);
        self.segments += flight;
        self.to_loss -= flight;
    }

    /// Losses of the round of a loss are one event. What is sent anew in recovery may be lost, too.
    fn pass_losses(&mut self) {
        match self.losses {
            Losses::Periodic(every) => {
                while self.to_loss <= 0.0 {
                    self.to_loss += every;
                }
            }
            _ => self.to_loss = self.next_loss(),
        }
    }

    fn slow_start_round(&mut self, start: Start, flight: f64) {
        let half_train = self.path.product() / 2.0;
        if start.hystart && flight >= half_train.max(HYSTART_LOW_WINDOW) {
            self.window = Window::new(Rule::Cubic, flight + half_train);
            self.slow_start = None;
            return;
        }
        let doubled = (2.0 * flight).min(start.ssthresh);
        self.window.segments = doubled;
        if doubled >= start.ssthresh {
            self.slow_start = None;
        }
    }
}

/// `HyStart` looks from this window on.
const HYSTART_LOW_WINDOW: f64 = 16.0;

/// `SplitMix64` (Steele, Lea, Flood 2014): the same sequences for every run, since the prediction is their average.
#[derive(Debug, Clone, Copy)]
struct Random(u64);

impl Random {
    /// Evenly in (0, 1].
    fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        ((z >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use congestion::response;
    use units::{Duration, Probability};

    const WIDE: Path = Path {
        rtt_s: 0.1,
        segments_per_s: f64::INFINITY,
        queue: f64::INFINITY,
        limit: f64::INFINITY,
    };

    /// Segments a round trip over a long time, from a start near the average.
    fn average(rule: Rule, losses: Losses, near: f64, epochs: f64, every: f64) -> f64 {
        let start = Start { window: near, ssthresh: near, hystart: false };
        let runs = follow(rule, &WIDE, start, losses, Until::Segments(epochs * every), 1);
        let sum = |of: fn(&Delivered) -> f64| runs.iter().map(of).sum::<f64>();
        sum(|run| run.segments) / sum(|run| run.seconds) * WIDE.rtt_s
    }

    /// Regular losses: the response functions, which are written as formulas of their own. A round of recovery and the
    /// fast convergence of CUBIC and BIC make up to a tenth.
    #[test]
    fn regular_losses_give_the_response_functions() {
        let cases = [
            (Rule::Reno, "reno", 0.03),
            (Rule::HighSpeed, "highspeed", 0.05),
            (Rule::Scalable, "scalable", 0.1),
            (Rule::Cubic, "cubic", 0.1),
            (Rule::Bic, "bic", 0.15),
        ];
        for (rule, name, tolerance) in cases {
            for every in [1e4, 1e5] {
                let loss = Probability::new(1.0 / every).unwrap();
                let form =
                    response::average_window(name, loss, Duration::from_millis(100)).unwrap();
                let found = average(rule, Losses::Periodic(every), form, 200.0, every);
                println!("{name} 1 in {every}: {found}, formula {form}");
                assert!(
                    (found / form - 1.0).abs() < tolerance,
                    "{name} 1 in {every}: {found}, {form}"
                );
            }
        }
    }

    /// Ott, Kemperman, Mathis 1996: `1.3098 / sqrt(p)` for Reno over time.
    #[test]
    fn random_losses_give_the_constant_of_ott() {
        for p in [1e-4_f64, 1e-3] {
            let form = 1.3098 / p.sqrt();
            let found = average(Rule::Reno, Losses::Random(p), form, 400.0, 1.0 / p);
            println!("p = {p}: {found}, {form}");
            assert!((found / form - 1.0).abs() < 0.04, "{found}, {form}");
        }
    }

    /// Scalable's logarithm walks evenly, so that random losses cost what regular ones do.
    #[test]
    fn random_losses_do_not_change_scalable() {
        let form = response::scalable(Probability::new(1e-4).unwrap());
        let found = average(Rule::Scalable, Losses::Random(1e-4), form, 400.0, 1e4);
        assert!((found / form - 1.0).abs() < 0.08, "{found}, {form}");
    }

    /// A link of 1000 segments a second with a queue of its product: Reno's saw never leaves it empty.
    #[test]
    fn full_queue_keeps_the_link_full() {
        let path = Path { segments_per_s: 1000.0, queue: 100.0, ..WIDE };
        let start = Start { window: 100.0, ssthresh: 100.0, hystart: false };
        let run = follow(Rule::Reno, &path, start, Losses::None, Until::Seconds(300.0), 0)[0];
        assert!((run.segments / 300_000.0 - 1.0).abs() < 0.01, "{run:?}");
    }

    /// The same sequences of losses each time, and others for another connection.
    #[test]
    fn sequences_are_of_the_connection() {
        let start = Start { window: 10.0, ssthresh: f64::INFINITY, hystart: false };
        let of = |stream| {
            follow(Rule::Reno, &WIDE, start, Losses::Random(0.01), Until::Seconds(10.0), stream)
        };
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        assert_eq!(of(1).len(), SAMPLES as usize);
    }
}
