// SPDX-License-Identifier: GPL-2.0-or-later
//! Which form is for a connection, and what it gives.
//!
//! ```text
//! BBR                                  bbr
//! no loss, buffers below the queue     slow start to the largest window (Cardwell), link and buffer limits
//! Reno, half a loss at most             Cardwell
//! Reno, many rare losses               Mathis
//! Reno, losses, held down by buffers   Padhye
//! regular losses far below the limits  the response function
//! Reno streams that fill a link        Altman, losses synchronised
//! all else by a window's rule          rounds
//! ```
//! A form that knows no limit is taken where its average window is at most half of what path and buffers hold: the
//! saw's peak is then within them. Elsewhere the rule is followed round by round.

use crate::{
    bbr,
    hop::{Connection, Law},
    rounds::{self, Delivered, Losses, Path, Start, Until},
    sawtooth,
    window::Rule,
};
use congestion::response;
use formulas::{cardwell::SlowStart, padhye};
use units::{Duration, Probability};

/// The share of the limits up to which a form without limits is taken.
const FAR_BELOW: f64 = 0.5;
/// A form of the long run is for this many losses at least: until then, the window that slow start left counts.
const LONG_RUN: f64 = 100.0;
/// A form of the start is for fewer losses than this: the window after the first one is far from its average.
const SHORT_RUN: f64 = 0.5;
/// Losses up to which most of them find a window that three duplicate acknowledgements can repair, and one of them at a
/// time: the square root's domain.
const RARE: f64 = 0.005;
/// More segments are not looked for.
const MOST_SEGMENTS: f64 = 1e18;
/// Segments for an acknowledgement that lets the window grow: segments are counted.
const PER_ACK: f64 = 1.0;

/// What a form gives for a connection: one value, or one for each sequence of random losses.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// What is delivered.
    pub runs: Vec<Delivered>,
    /// The form and where it is from.
    pub source: String,
}

/// What a connection delivers, where it is the only one on its path. `stream` tells connections of a run apart where losses are random.
pub fn deliver(connection: &Connection, until: Until, stream: u64) -> Answer {
    let Connection { path, law, start, losses, .. } = connection;
    match *law {
        Law::Bbr => {
            let source = if connection.is_warm {
                "warm hop of BBR (Cardwell et al. 2016)"
            } else {
                "BBR (Cardwell et al. 2016)"
            };
            one(bbr::deliver(path, start.window, connection.loss(), until), source)
        }
        Law::Htcp => regular(connection, until),
        Law::Window(rule) => by_window(connection, rule, *start, *losses, until, stream),
    }
}

/// What `streams` equal Reno streams use of a link that they fill by themselves, as segments of all of them: with losses
/// that are synchronised, and one at a time. None where another form is for them.
pub fn parallel(connection: &Connection, streams: u32, until: Until) -> Option<[Answer; 2]> {
    let Path { segments_per_s, queue, limit, .. } = connection.path;
    let product = connection.path.product();
    let fills = limit * f64::from(streams) > product + queue;
    if connection.law != Law::Window(Rule::Reno)
        || connection.losses != Losses::None
        || !fills
        || streams < 2
    {
        return None;
    }
    let of = |losses| {
        let kept = Rule::Reno.kept(product);
        let rate = segments_per_s * sawtooth::used_share(streams, kept, queue / product, losses);
        one(
            at(until, |segments| segments / rate),
            "parallel streams (Altman et al. 2006), losses synchronised",
        )
    };
    Some([of(sawtooth::Losses::Synchronised), of(sawtooth::Losses::OneAtATime)])
}

fn one(run: Delivered, source: impl Into<String>) -> Answer {
    Answer { runs: vec![run], source: source.into() }
}

fn by_window(
    connection: &Connection,
    rule: Rule,
    start: Start,
    losses: Losses,
    until: Until,
    stream: u64,
) -> Answer {
    let path = &connection.path;
    let warm = connection.is_warm;
    let quiet = losses == Losses::None && path.limit <= path.room();
    let early = start.hystart && path.limit > path.product() / 2.0;
    if quiet && !early {
        let largest = path.most_per_s() * path.rtt_s;
        return one(without_loss(path, start, largest, until), limit_source(path, warm));
    }
    if matches!(losses, Losses::Periodic(_)) && is_long(connection, until) && has_room(connection) {
        return regular(connection, until);
    }
    if let (Rule::Reno, Losses::Random(p), false) = (rule, losses, warm) {
        let is_start = matches!(until, Until::Segments(d) if d * p <= SHORT_RUN);
        if p <= RARE && has_room(connection) && (is_start || is_long(connection, until)) {
            return lossy_reno(connection, until, stream);
        }
        if path.limit <= path.product() && is_long(connection, until) && is_held_down(connection) {
            return limited_reno(connection, until, stream);
        }
    }
    let runs = rounds::follow(rule, path, start, losses, until, stream);
    Answer { runs, source: format!("{} round by round", rule.name()) }
}

fn limit_source(path: &Path, warm: bool) -> String {
    let limit =
        if path.limit < path.product() { "window of the buffers" } else { "rate of the link" };
    if warm {
        format!("warm hop at the {limit}")
    } else {
        format!("slow start (Cardwell et al. 2000) to the {limit}")
    }
}

/// Cardwell's slow start to the largest window, and that window, or the link, from then on.
fn without_loss(path: &Path, start: Start, largest: f64, until: Until) -> Delivered {
    let slow_start = SlowStart {
        first_window: start.window.min(largest),
        most_window: largest,
        rtt_s: path.rtt_s,
        growth: 2.0,
    };
    at(until, |segments| slow_start.departure_s(segments, path.segments_per_s))
}

/// Losses at regular intervals: the response function of the congestion control.
fn regular(connection: &Connection, until: Until) -> Answer {
    let path = &connection.path;
    let loss = Probability::new(connection.loss()).expect("a share");
    let window = average_window(connection, loss).min(path.most_per_s() * path.rtt_s);
    let name = connection.algorithm.trim_start_matches(congestion::Algorithm::PREFIX);
    let source = if connection.losses == Losses::None {
        limit_source(path, false)
    } else if name == "reno" {
        "Mathis et al. 1997, regular losses".to_owned()
    } else {
        format!("response function of {name}")
    };
    let start = Start { ssthresh: window.max(connection.start.window), ..connection.start };
    one(without_loss(path, start, window, until), source)
}

fn average_window(connection: &Connection, loss: Probability) -> f64 {
    let rtt = Duration::from_nanos((connection.path.rtt_s * 1e9).round() as u64);
    response::average_window(&connection.algorithm, loss, rtt).unwrap_or(f64::INFINITY)
}

/// Whether a form without limits is for it.
fn has_room(connection: &Connection) -> bool {
    let loss = Probability::new(connection.loss()).expect("a share");
    let room = connection.path.limit.min(connection.path.product());
    average_window(connection, loss) <= FAR_BELOW * room
}

fn is_long(connection: &Connection, until: Until) -> bool {
    let loss = Probability::new(connection.loss()).expect("a share");
    let segments = match until {
        Until::Segments(segments) => segments,
        Until::Seconds(seconds) => {
            let window = average_window(connection, loss).min(connection.path.limit);
            seconds * window / connection.path.rtt_s
        }
    };
    segments * connection.loss() >= LONG_RUN
}

/// Whether the buffers hold the window below what its losses would leave it.
fn is_held_down(connection: &Connection) -> bool {
    let loss = Probability::new(connection.loss()).expect("a share");
    average_window(connection, loss) >= connection.path.limit
}

/// Independent losses: Cardwell's slow start and first loss, then Mathis's rate for random losses. The interval is that
/// of the same window round by round.
fn lossy_reno(connection: &Connection, until: Until, stream: u64) -> Answer {
    let Connection { path, start, .. } = connection;
    let p = connection.loss();
    let rate = response::reno_random(Probability::new(p).expect("a share")) / path.rtt_s;
    let slow_start = SlowStart {
        first_window: start.window,
        most_window: path.limit.min(path.room()).min(start.ssthresh),
        rtt_s: path.rtt_s,
        growth: 2.0,
    };
    let seconds = |d: f64| {
        let first = SlowStart::segments(d, p);
        let lost = 1.0 - (1.0 - p).powf(d);
        // A loss is repaired in a round trip. Where there is none, the last departure is one before the last
        // acknowledgement.
        let repair_s = (2.0 * lost - 1.0) * path.rtt_s;
        (slow_start.seconds(first) + repair_s + (d - first) / rate).max(0.0)
    };
    let is_short = matches!(until, Until::Segments(d) if d * p <= SHORT_RUN);
    let source = if is_short {
        "Cardwell et al. 2000, then Mathis et al. 1997"
    } else {
        "Mathis et al. 1997, random losses"
    };
    around(connection, at(until, seconds), until, stream, source)
}

/// A window that buffers hold down and losses cut now and then: Padhye's second case.
fn limited_reno(connection: &Connection, until: Until, stream: u64) -> Answer {
    let Path { rtt_s, limit, .. } = connection.path;
    let timeout_s = connection.least_timeout_s + rtt_s;
    let reno = padhye::Reno { most_window: limit, rtt_s, timeout_s, per_ack: PER_ACK };
    let rate = reno.throughput(connection.loss());
    around(connection, at(until, |segments| segments / rate), until, stream, "Padhye et al. 2000")
}

/// A mean with the interval that the same window has round by round.
fn around(
    connection: &Connection,
    mean: Delivered,
    until: Until,
    stream: u64,
    source: &str,
) -> Answer {
    let Connection { path, start, losses, .. } = connection;
    let spread = rounds::follow(Rule::Reno, path, *start, *losses, until, stream);
    Answer { runs: moved_to(mean, spread), source: source.to_owned() }
}

/// The same spread around another mean.
fn moved_to(mean: Delivered, spread: Vec<Delivered>) -> Vec<Delivered> {
    let n = spread.len() as f64;
    let of_spread = |of: fn(&Delivered) -> f64| spread.iter().map(of).sum::<f64>() / n;
    let segments = mean.segments / of_spread(|run| run.segments);
    let seconds = mean.seconds / of_spread(|run| run.seconds);
    let moved = |run: Delivered| Delivered {
        segments: run.segments * segments,
        seconds: run.seconds * seconds,
    };
    spread.into_iter().map(moved).collect()
}

/// When so much is delivered, or how much in a time, by the time that segments take.
fn at(until: Until, seconds_of: impl Fn(f64) -> f64) -> Delivered {
    match until {
        Until::Segments(segments) => Delivered { segments, seconds: seconds_of(segments) },
        Until::Seconds(seconds) => {
            let (mut low, mut high) = (0.0, 1.0);
            while seconds_of(high) < seconds && high < MOST_SEGMENTS {
                high *= 2.0;
            }
            for _ in 0..60 {
                let middle = f64::midpoint(low, high);
                if seconds_of(middle) < seconds { low = middle } else { high = middle }
            }
            Delivered { segments: low, seconds }
        }
    }
}
