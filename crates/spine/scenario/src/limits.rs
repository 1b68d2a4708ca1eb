// SPDX-License-Identifier: GPL-2.0-or-later
//! Limits of a path for a connection that is alone on it, with all queues empty. Every method records
//! these values, so that they mean the same in all.

use crate::{Direction, Leg, Routes, Run};
use units::{Bytes, Duration, Rate};

/// Ethernet's MTU, for a path without links.
const USUAL_MTU: u32 = 1500;
/// IP tells a packet's length in 16 bits.
const LONGEST_PACKET: u32 = 65_535;

/// Limits of a path for a single connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathLimits {
    /// The largest IP packet that crosses every link of the way there and of the way back.
    pub mtu: Bytes,
    /// The rate of the slowest link in the direction of the data; none where no link has one.
    pub bottleneck: Option<Rate>,
    /// A full segment on that link, with all that it takes there.
    pub segment: Bytes,
    /// Propagation there and back, and the serialisation of a full segment and its acknowledgement.
    pub base_rtt: Duration,
}

impl Run {
    /// What the way that data take from one node to another gives at best; none where a way there or
    /// back is missing. `routes` are the run's.
    pub fn path_limits(&self, routes: &Routes, from: &str, to: &str) -> Option<PathLimits> {
        let (there, back) = (routes.legs(from, to)?, routes.legs(to, from)?);
        let (there, back) = (self.crossed(&there), self.crossed(&back));
        let mtu = there.iter().chain(&back).map(|link| link.mtu).min();
        let mtu = mtu.unwrap_or(USUAL_MTU).min(LONGEST_PACKET);
        let slowest = there.iter().filter(|link| link.rate.is_some()).min_by_key(|link| link.rate);
        let overhead = slowest.map_or(0, |link| link.overhead);
        Some(PathLimits {
            mtu: Bytes::new(mtu.into()),
            bottleneck: slowest.and_then(|link| link.rate),
            segment: Bytes::new(u64::from(mtu) + u64::from(overhead)),
            base_rtt: crossing(&there, mtu) + crossing(&back, self.tcp.header),
        })
    }

    /// The share of packets that is lost at random on the way from one node to another, in the mean; none where there is no way.
    pub fn path_loss(&self, routes: &Routes, from: &str, to: &str) -> Option<f64> {
        let legs = routes.legs(from, to)?;
        let kept = self.crossed(&legs).iter().map(|link| 1.0 - link.loss.mean()).product::<f64>();
        Some(1.0 - kept)
    }

    fn crossed(&self, legs: &[Leg]) -> Vec<&Direction> {
        legs.iter().map(|leg| self.links[leg.link].direction(leg.heading)).collect()
    }
}

/// Time that an IP packet of `bytes` bytes takes over idle links.
fn crossing(links: &[&Direction], bytes: u32) -> Duration {
    links.iter().fold(Duration::ZERO, |sum, link| {
        let on_link = Bytes::new(u64::from(bytes) + u64::from(link.overhead));
        let sending = link.rate.and_then(|rate| rate.time_for(on_link));
        sum + link.delay + sending.unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use crate::{PathLimits, Run, Scenario};
    use units::{Bytes, Duration, Rate};

    /// a - b fast, b - c slow with headers of its own and a smaller MTU on the way back.
    fn chain() -> Run {
        let text = "title = \"t\"\ntcp = { header = 52 }\n\
            [[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[node]]\nname = \"c\"\n\
            [[node]]\nname = \"d\"\n\
            [[link]]\nbetween = [\"a\", \"b\"]\ndelay = \"1ms\"\noverhead = 0\n\
            [[link]]\nbetween = [\"b\", \"c\"]\nrate = \"8mbit\"\ndelay = \"3ms\"\n\
            overhead = 20\nbackward = { mtu = 1000, rate = \"80mbit\", delay = \"5ms\" }\n";
        Scenario::parse(text, "limits", &[""; 0]).unwrap_or_else(|e| panic!("{e}")).runs.remove(0)
    }

    #[test]
    fn chain_limits_match_computation_by_hand() {
        let run = chain();
        let routes = run.routes();
        // There: 4 ms and 1020 bytes at 8 Mb/s. Back: 6 ms and 52 + 20 bytes at 80 Mb/s.
        let expected = PathLimits {
            mtu: Bytes::new(1000),
            bottleneck: Some(Rate::bits_per_second(8_000_000)),
            segment: Bytes::new(1020),
            base_rtt: Duration::from_nanos(10_000_000 + 1_020_000 + 7_200),
        };
        assert_eq!(run.path_limits(&routes, "a", "c"), Some(expected));
        let back = run.path_limits(&routes, "c", "b").unwrap();
        assert_eq!(back.bottleneck, Some(Rate::bits_per_second(80_000_000)));
        assert_eq!(back.base_rtt, Duration::from_nanos(8_000_000 + 102_000 + 72_000));
        let near = run.path_limits(&routes, "b", "a").unwrap();
        assert_eq!((near.bottleneck, near.segment), (None, Bytes::new(1500)));
        assert_eq!(near.base_rtt, Duration::from_millis(2));
        assert_eq!(run.path_limits(&routes, "a", "d"), None);
        assert_eq!(
            run.path_limits(&routes, "a", "a").map(|limits| limits.mtu),
            Some(Bytes::new(1500))
        );
    }
}
