// SPDX-License-Identifier: GPL-2.0-or-later
//! What real paths do to packets beyond queueing and loss: late and early ones, copies, outages, a policer.
//!
//! Delays only grow: a packet arrives at the link's `delay` after its last bit at the earliest. So what is known to
//! arrive is known in time, and the order of others is not touched.

use crate::LossModel;
use rand_core::Rng;
use rand_pcg::Pcg64;
use units::{Bytes, Duration, Probability, Rate, Timestamp};

/// What a link does to packets beyond its queue and its loss.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Impairments {
    /// Packets that come late, so that later ones overtake them.
    pub reorder: Option<Reorder>,
    /// The probability that a packet arrives twice, the copy right behind it.
    pub duplicate: Probability,
    /// Delay that differs from packet to packet.
    pub jitter: Option<Jitter>,
    /// Times in which nothing arrives.
    pub outages: Vec<Outage>,
    /// What drops packets above a rate, before the queue.
    pub policer: Option<Policer>,
}

impl Impairments {
    /// Whether there are none.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Why impairments make no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ImpairmentsError {
    /// An outage that lasts as long as the time after which it comes again, or several that do together.
    #[error("outages leave no time in which anything passes")]
    AlwaysDown,
    /// An outage.
    #[error("an outage of 0 s is none")]
    NoTime,
    /// A policer that lets nothing pass.
    #[error("a policer needs a rate and a burst of at least one packet")]
    NoTokens,
}

impl Impairments {
    /// Whether a link with them can work.
    ///
    /// # Errors
    /// See [`ImpairmentsError`].
    pub fn check(&self, longest_packet: Bytes) -> Result<(), ImpairmentsError> {
        if self.outages.iter().any(|outage| outage.lasts == Duration::ZERO) {
            return Err(ImpairmentsError::NoTime);
        }
        let share = |outage: &Outage| {
            outage.every.map_or(0.0, |every| outage.lasts.as_secs_f64() / every.as_secs_f64())
        };
        if self.outages.iter().map(share).sum::<f64>() >= 1.0 {
            return Err(ImpairmentsError::AlwaysDown);
        }
        match self.policer {
            Some(policer) if policer.rate.bps() == 0 || policer.burst < longest_packet => {
                Err(ImpairmentsError::NoTokens)
            }
            _ => Ok(()),
        }
    }
}

/// Single packets that come late.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reorder {
    /// Of each packet, independently.
    pub probability: Probability,
    /// How much later it arrives.
    pub by: Duration,
}

/// Delay of each packet beyond the link's own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Jitter {
    /// How it is distributed.
    pub distribution: Distribution,
    /// Whether a packet may arrive before one that left earlier. If not, it arrives with that one at the earliest.
    pub reorders: bool,
}

/// A distribution of times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// Evenly from zero up to this.
    Uniform(Duration),
    /// With this mean; the median is 0.69 of it.
    Exponential(Duration),
    /// With this mean and standard deviation; what would be less than zero is zero.
    Normal(Duration, Duration),
}

/// A time in which a link does not carry anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// When it begins.
    pub from: Duration,
    /// How long it lasts.
    pub lasts: Duration,
    /// After what time it comes again, if it does.
    pub every: Option<Duration>,
    /// Whether packets wait in the queue meanwhile; else those are lost whose last bit would leave then.
    pub packets_wait: bool,
}

impl Outage {
    /// When it ends, if it lasts at that time.
    pub fn end_at(&self, at: Timestamp) -> Option<Timestamp> {
        let begun = self.begun(at)?;
        (at < begun + self.lasts).then(|| begun + self.lasts)
    }

    /// When it begins for the first time after that.
    pub fn next_after(&self, at: Timestamp) -> Option<Timestamp> {
        match self.begun(at) {
            None => Some(Timestamp::ZERO + self.from),
            Some(begun) => self.every.map(|every| begun + every),
        }
    }

    /// When it began last.
    fn begun(&self, at: Timestamp) -> Option<Timestamp> {
        let first = Timestamp::ZERO + self.from;
        if at < first {
            return None;
        }
        let every = self.every.map_or(u64::MAX, Duration::as_nanos);
        let rounds = at.since(first).as_nanos() / every.max(1);
        Some(first + Duration::from_nanos(rounds * every))
    }
}

/// A token bucket that drops what it has no tokens for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policer {
    /// At which tokens come.
    pub rate: Rate,
    /// How many bytes may come at once, with the link's overhead.
    pub burst: Bytes,
}

/// A policer at work.
#[derive(Debug, Clone)]
pub(crate) struct TokenBucket {
    policer: Policer,
    /// In bits times nanoseconds per second, so that no rounding accumulates.
    tokens: u128,
    at: Timestamp,
}

impl TokenBucket {
    pub(crate) fn new(policer: Policer) -> Self {
        Self { policer, tokens: work(policer.burst.get()), at: Timestamp::ZERO }
    }

    /// Whether a packet conforms, which takes its tokens.
    pub(crate) fn passes(&mut self, now: Timestamp, bytes: u64) -> bool {
        let come = u128::from(self.policer.rate.bps()) * u128::from(now.since(self.at).as_nanos());
        self.tokens = (self.tokens + come).min(work(self.policer.burst.get()));
        self.at = self.at.max(now);
        let needed = work(bytes);
        let conforms = needed <= self.tokens;
        if conforms {
            self.tokens -= needed;
        }
        conforms
    }
}

fn work(bytes: u64) -> u128 {
    u128::from(bytes) * 8_000_000_000
}

/// The impairments of a wire at work.
#[derive(Debug, Clone)]
pub(crate) struct Impairing {
    impairments: Impairments,
    random: Pcg64,
    /// Of the packets that were not late by chance.
    last_arrival: Timestamp,
    /// When the outages' time begins.
    begun: Timestamp,
    /// Whether nothing arrives until that changes.
    cut: bool,
    pub(crate) bucket: Option<TokenBucket>,
}

/// How a packet that is not lost arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) at: Timestamp,
    pub(crate) late: bool,
    pub(crate) twice: bool,
}

impl Impairing {
    /// None where there are no impairments: most links.
    pub(crate) fn new(impairments: &Impairments, seed: u64) -> Option<Box<Self>> {
        (!impairments.is_none()).then(|| Self::of(impairments, seed))
    }

    /// Those of a link that may have none, but is cut.
    pub(crate) fn of(impairments: &Impairments, seed: u64) -> Box<Self> {
        Box::new(Self {
            bucket: impairments.policer.map(TokenBucket::new),
            impairments: impairments.clone(),
            // A stream of its own: with and without, a link loses the same packets.
            random: Pcg64::new(u128::from(seed), 0x5eed_0f1a_7e9a_c4e7),
            last_arrival: Timestamp::ZERO,
            begun: Timestamp::ZERO,
            cut: false,
        })
    }

    /// Cuts the wire, or joins it again.
    pub(crate) fn set_cut(&mut self, cut: bool) {
        self.cut = cut;
    }

    /// Has the time of outages begin now.
    pub(crate) fn begin_schedule(&mut self, now: Timestamp) {
        self.begun = now;
    }

    /// Whether a packet whose last bit leaves then is lost: in an outage, or as the wire is cut.
    pub(crate) fn is_cut(&self, ends: Timestamp) -> bool {
        let ends = Timestamp::ZERO + ends.since(self.begun);
        let mut outages = self.impairments.outages.iter().filter(|outage| !outage.packets_wait);
        self.cut || outages.any(|outage| outage.end_at(ends).is_some())
    }

    /// How a packet arrives that would at that time.
    pub(crate) fn arrival(&mut self, at: Timestamp) -> Arrival {
        let mut arrival = Arrival { at, late: false, twice: false };
        if let Some(Jitter { distribution, reorders }) = self.impairments.jitter {
            arrival.at = at + self.draw(distribution);
            if !reorders {
                arrival.at = arrival.at.max(self.last_arrival);
            }
            self.last_arrival = arrival.at;
        }
        if let Some(Reorder { probability, by }) = self.impairments.reorder
            && self.happens(probability)
        {
            arrival.at = arrival.at + by;
            arrival.late = true;
        }
        if self.impairments.duplicate > Probability::ZERO {
            arrival.twice = self.happens(self.impairments.duplicate);
        }
        arrival
    }

    fn happens(&mut self, p: Probability) -> bool {
        LossModel::happens(&mut self.random, p)
    }

    /// Above 0 and not above 1: 53 random bits.
    fn unit(&mut self) -> f64 {
        ((self.random.next_u64() >> 11) + 1) as f64 / 9_007_199_254_740_992.0
    }

    /// The same on every machine: the logarithm and the cosine are those of `libm`.
    fn draw(&mut self, distribution: Distribution) -> Duration {
        let nanos = |time: Duration| time.as_nanos() as f64;
        let drawn = match distribution {
            Distribution::Uniform(most) => nanos(most) * self.unit(),
            Distribution::Exponential(mean) => -libm::log(self.unit()) * nanos(mean),
            Distribution::Normal(mean, deviation) => {
                // Box and Muller 1958.
                let radius = libm::sqrt(-2.0 * libm::log(self.unit()));
                let normal = radius * libm::cos(2.0 * std::f64::consts::PI * self.unit());
                normal * nanos(deviation) + nanos(mean)
            }
        };
        // A negative time is cut to zero.
        Duration::from_nanos(drawn as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_nanos(ms * 1_000_000)
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::ZERO + ms(millis)
    }

    fn impairing(impairments: &Impairments) -> Impairing {
        *Impairing::new(impairments, 7).unwrap()
    }

    #[test]
    fn outages_come_again() {
        let outage = Outage { from: ms(10), lasts: ms(3), every: Some(ms(20)), packets_wait: true };
        for (time, end) in [(9, None), (10, Some(13)), (12, Some(13)), (13, None), (32, Some(33))] {
            assert_eq!(outage.end_at(at(time)), end.map(at), "{time}");
        }
        for (time, next) in [(0, 10), (9, 10), (10, 30), (29, 30), (30, 50)] {
            assert_eq!(outage.next_after(at(time)), Some(at(next)), "{time}");
        }
        let once = Outage { every: None, ..outage };
        assert_eq!((once.end_at(at(32)), once.next_after(at(10))), (None, None));
    }

    #[test]
    fn policer_passes_its_rate_and_its_burst() {
        let policer = Policer { rate: Rate::bits_per_second(8000), burst: Bytes::new(100) };
        let mut bucket = TokenBucket::new(policer);
        assert!(bucket.passes(at(0), 60) && !bucket.passes(at(0), 41) && bucket.passes(at(0), 40));
        // A byte a millisecond.
        assert!(!bucket.passes(at(9), 10) && bucket.passes(at(10), 10));
        assert!(!bucket.passes(at(10_000), 101) && bucket.passes(at(10_000), 100));
    }

    #[test]
    fn jitter_has_its_distribution() {
        let draws = 200_000;
        for (distribution, mean, deviation) in [
            (Distribution::Uniform(ms(12)), 6.0, 12.0 / 12f64.sqrt()),
            (Distribution::Exponential(ms(5)), 5.0, 5.0),
            (Distribution::Normal(ms(20), ms(2)), 20.0, 2.0),
        ] {
            let jitter = Some(Jitter { distribution, reorders: true });
            let mut wire = impairing(&Impairments { jitter, ..Impairments::default() });
            let drawn: Vec<f64> = (0..draws)
                .map(|_| wire.arrival(at(0)).at.since(at(0)).as_nanos() as f64 / 1e6)
                .collect();
            let got = drawn.iter().sum::<f64>() / f64::from(draws);
            let variance = drawn.iter().map(|x| (x - got).powi(2)).sum::<f64>() / f64::from(draws);
            // Four standard errors of the mean; a deviation to 2 %.
            let margin = 4.0 * deviation / f64::from(draws).sqrt();
            assert!((got - mean).abs() < margin, "{distribution:?}: mean {got}");
            let error = (variance.sqrt() / deviation - 1.0).abs();
            assert!(error < 0.02, "{distribution:?}: deviation {}", variance.sqrt());
        }
    }

    #[test]
    fn jitter_keeps_the_order_unless_it_may_not() {
        for reorders in [false, true] {
            let jitter = Some(Jitter { distribution: Distribution::Uniform(ms(5)), reorders });
            let mut wire = impairing(&Impairments { jitter, ..Impairments::default() });
            let arrivals: Vec<_> = (0..1000).map(|n| wire.arrival(at(n)).at).collect();
            assert_eq!(arrivals.is_sorted(), !reorders);
        }
    }

    #[test]
    fn late_packets_and_copies_have_their_shares() {
        let p = |text: &str| text.parse::<Probability>().unwrap();
        let reorder = Some(Reorder { probability: p("3%"), by: ms(4) });
        let mut wire =
            impairing(&Impairments { reorder, duplicate: p("1%"), ..Impairments::default() });
        let packets = 1_000_000;
        let (mut late, mut twice) = (0, 0);
        for _ in 0..packets {
            let arrival = wire.arrival(at(1));
            assert_eq!(arrival.at, if arrival.late { at(5) } else { at(1) });
            late += u64::from(arrival.late);
            twice += u64::from(arrival.twice);
        }
        // Four standard deviations of a binomial count.
        for (count, p) in [(late, 0.03), (twice, 0.01)] {
            let expected = f64::from(packets) * p;
            let margin = 4.0 * (expected * (1.0 - p)).sqrt();
            assert!((count as f64 - expected).abs() < margin, "{count} of {packets}");
        }
    }
}
