// SPDX-License-Identifier: GPL-2.0-or-later
//! The paths between hosts: what a scenario asks of them, and whether they are that.

use crate::message::PathMeasured;
use record::manifest::MeasuredPath;
use scenario::{Flow, Run};

/// A round trip may always differ by this much, in microseconds: hosts take time to answer.
const RTT_FLOOR_US: f64 = 1000.0;
/// A share of loss may always differ by this much.
const LOSS_FLOOR: f64 = 0.001;
/// Deviations of a count of losses that chance brings once in 15 000 times.
const DEVIATIONS: f64 = 4.0;

/// A path that data take, and what the scenario says of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Path {
    /// The node that sends.
    pub from: String,
    /// The node that receives.
    pub to: String,
    /// Its shortest round trip, in microseconds.
    pub rtt_us: f64,
    /// The rate of its slowest link, if one has a rate.
    pub rate_bps: Option<u64>,
    /// The share of packets that it loses at random.
    pub loss: f64,
}

impl Path {
    /// Those that data of a run take, each once.
    pub fn all(run: &Run) -> Vec<Self> {
        let routes = run.routes();
        let hops = run.flows.iter().flat_map(Flow::hops).map(|hop| (hop.from, hop.to));
        let traffic = run.traffic.iter().map(|it| (it.from.as_str(), it.to.as_str()));
        let mut all: Vec<Self> = Vec::new();
        for (from, to) in hops.chain(traffic) {
            let is_known = all.iter().any(|path| path.from == from && path.to == to);
            let Some(limits) = run.path_limits(&routes, from, to).filter(|_| !is_known) else {
                continue;
            };
            all.push(Self {
                from: from.to_owned(),
                to: to.to_owned(),
                rtt_us: limits.base_rtt.as_secs_f64() * 1e6,
                rate_bps: limits.bottleneck.map(units::Rate::bps),
                loss: run.path_loss(&routes, from, to).unwrap_or(0.0),
            });
        }
        all
    }

    /// Where the measured path differs from the scenario's by more than a share of it.
    pub fn deviations(&self, measured: &PathMeasured, limit: f64) -> Vec<String> {
        let path = format!("the path from {} to {}", self.from, self.to);
        let mut found = Vec::new();
        let rtt_us = f64::from(measured.min_rtt_us);
        if (rtt_us - self.rtt_us).abs() > (self.rtt_us * limit).max(RTT_FLOOR_US) {
            let [has, asked] = [rtt_us, self.rtt_us].map(|us| us / 1e3);
            found.push(format!(
                "{path} has a round trip of {has:.1} ms, and the scenario {asked:.1} ms"
            ));
        }
        if let (Some(has), Some(asked)) = (measured.rate_bps, self.rate_bps) {
            let [has, asked] = [has, asked].map(|bps| bps as f64);
            if (has - asked).abs() > asked * limit {
                let [has, asked] = [has, asked].map(|bps| bps / 1e6);
                found.push(format!(
                    "{path} carries {has:.1} Mb/s, and the scenario's {asked:.1} Mb/s"
                ));
            }
        }
        if let Some(has) = measured.loss() {
            // As many as chance alone may lose more or less.
            let chance = (self.loss * (1.0 - self.loss) / measured.sent as f64).sqrt();
            let allowed = (self.loss * limit).max(LOSS_FLOOR) + DEVIATIONS * chance;
            if (has - self.loss).abs() > allowed {
                let [has, asked] = [has, self.loss].map(|share| share * 100.0);
                found.push(format!("{path} loses {has:.2} %, and the scenario's {asked:.2} %"));
            }
        }
        found
    }

    /// Both, for a record.
    pub fn on_record(&self, measured: &PathMeasured) -> MeasuredPath {
        MeasuredPath {
            from: self.from.clone(),
            to: self.to.clone(),
            asked_rtt_us: self.rtt_us,
            rtt_us: measured.min_rtt_us.into(),
            asked_rate_bps: self.rate_bps,
            rate_bps: measured.rate_bps,
            asked_loss: self.loss,
            loss: measured.loss(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scenario::Scenario;
    use testkit::draft::Draft;

    #[test]
    fn paths_follow_flows_and_depots() {
        let draft = Draft::new("t", "")
            .nodes(&["server", "router", "depot", "client"])
            .link("server", "router", "rate=100mbit delay=10ms loss=1%")
            .link("router", "depot", "rate=1gbit delay=5ms loss=2%")
            .link("depot", "client", "delay=1ms")
            .flow("server", "client", "bytes=1MB via=[\"depot\"]")
            .flow("server", "client", "bytes=1MB via=[\"depot\"]");
        let run = Scenario::parse(&draft.to_string(), "t", &[""; 0]).unwrap().runs.remove(0);
        let paths = Path::all(&run);
        let ends: Vec<_> = paths.iter().map(|it| (it.from.as_str(), it.to.as_str())).collect();
        assert_eq!(ends, [("server", "depot"), ("depot", "client")]);
        assert_eq!((paths[0].rate_bps, paths[1].rate_bps), (Some(100_000_000), None));
        assert!((paths[0].loss - 0.0298).abs() < 1e-9 && paths[1].loss == 0.0, "{paths:?}");
        assert!((30_000.0..30_500.0).contains(&paths[0].rtt_us), "{paths:?}");
    }

    #[test]
    fn deviations_are_beyond_limit_and_chance() {
        let path = Path {
            from: "a".into(),
            to: "b".into(),
            rtt_us: 20_000.0,
            rate_bps: Some(100_000_000),
            loss: 0.01,
        };
        let as_asked = PathMeasured {
            min_rtt_us: 21_900,
            rate_bps: Some(91_000_000),
            sent: 8000,
            // 80 in the mean, with a deviation of 9.
            arrived: 8000 - 115,
        };
        assert_eq!(path.deviations(&as_asked, 0.1), [""; 0]);
        for (measured, part) in [
            (PathMeasured { min_rtt_us: 22_100, ..as_asked }, "22.1 ms, and the scenario 20.0 ms"),
            (PathMeasured { min_rtt_us: 17_900, ..as_asked }, "round trip of 17.9 ms"),
            (PathMeasured { rate_bps: Some(89_000_000), ..as_asked }, "carries 89.0 Mb/s"),
            (PathMeasured { rate_bps: Some(140_000_000), ..as_asked }, "carries 140.0 Mb/s"),
            (PathMeasured { arrived: 7860, ..as_asked }, "loses 1.75 %, and the scenario's 1.00 %"),
            (PathMeasured { arrived: 8000 - 20, ..as_asked }, "loses 0.25 %"),
        ] {
            let found = path.deviations(&measured, 0.1);
            assert!(found.len() == 1 && found[0].contains(part), "{part}: {found:?}");
        }
        // A path of no rate is not judged by one.
        let unlimited = PathMeasured { rate_bps: None, sent: 0, arrived: 0, ..as_asked };
        assert_eq!(path.deviations(&unlimited, 0.1), [""; 0]);
    }
}
