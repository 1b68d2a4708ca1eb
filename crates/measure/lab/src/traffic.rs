// SPDX-License-Identifier: GPL-2.0-or-later
//! The traffic of a run other than its flows: what the generator sends, what of it arrived, and whether it was sent in time.

use crate::error::LabError;
use generator::datagrams::{self, Datagrams, Report, Schedule, Usage};
use record::TrafficSummary;
use scenario::{Run, Source, Traffic};
use serde_json::{Value, json};
use std::{
    io,
    time::{Duration, Instant},
};
use wan::Wan;

/// The largest share of a source's packets that may leave late in a valid run: that of the emulator's late deliveries.
const MAX_LATE_SHARE: f64 = wan::Health::MAX_LATE_SHARE;

/// The sources of a run, ready to start.
pub struct Sources {
    datagrams: Vec<datagrams::Source>,
}

/// The sources of a run at work. They end when this is dropped.
pub struct Running {
    datagrams: Datagrams,
    begun: Instant,
}

/// What became of a run's traffic.
#[derive(Default)]
pub struct Outcome {
    /// Source by source, in the order of the scenario.
    pub summaries: Vec<TrafficSummary>,
    /// Why the run is not to be believed.
    pub faults: Vec<String>,
    /// How well the generator kept up; null for a run without traffic.
    pub on_record: Value,
}

fn failed(error: io::Error) -> LabError {
    LabError::system("generate traffic", error)
}

impl Sources {
    /// Opens the sockets of all sources.
    ///
    /// # Errors
    /// No more descriptors.
    pub fn open(wan: &Wan, run: &Run) -> Result<Self, LabError> {
        let mut datagrams = Vec::new();
        for traffic in &run.traffic {
            let (from, to) =
                (&wan.node(&traffic.from)?.namespace, &wan.node(&traffic.to)?.namespace);
            let to = (to, wan.address(&traffic.to)?);
            if let Source::Cbr { rate, packet } = traffic.source {
                let schedule = Schedule { rate, packet, start: traffic.start.into() };
                datagrams.push(datagrams::Source::open(from, to, schedule).map_err(failed)?);
            }
        }
        Ok(Self { datagrams })
    }

    /// Starts them all; their times count from `begun`.
    ///
    /// # Errors
    /// No more threads.
    pub fn start(self, begun: Instant) -> Result<Running, LabError> {
        let datagrams = Datagrams::start(self.datagrams, begun).map_err(failed)?;
        Ok(Running { datagrams, begun })
    }
}

impl Running {
    /// Ends them all. `zero`: the time that records count from.
    ///
    /// # Errors
    /// The kernel does not tell what has arrived.
    pub fn finish(self, run: &Run, zero: Instant) -> Result<Outcome, LabError> {
        if run.traffic.is_empty() {
            return Ok(Outcome::default());
        }
        let over = Instant::now();
        let (reports, usage) = self.datagrams.finish().map_err(failed)?;
        let mut reports = reports.into_iter();
        let mut outcome = Outcome::default();
        let mut sources = Vec::new();
        for traffic in &run.traffic {
            let start = self.begun + Duration::from(traffic.start);
            let times = [start, over.max(start)].map(|at| (at - zero).as_secs_f64());
            if let Source::Cbr { packet, .. } = traffic.source {
                let report = reports.next().expect("a report of each source");
                let bytes = report.arrived * u64::from(packet);
                outcome.summaries.push(summary(traffic, times, bytes));
                outcome.faults.extend(fault(traffic, &report));
                sources.push(on_record(traffic, &report));
            }
        }
        let Usage { cpu, real_time } = usage;
        outcome.on_record =
            json!({ "cpu_s": cpu.as_secs_f64(), "real_time": real_time, "sources": sources });
        Ok(outcome)
    }
}

fn summary(traffic: &Traffic, [start_s, end_s]: [f64; 2], bytes: u64) -> TrafficSummary {
    TrafficSummary {
        name: traffic.name.clone(),
        from: traffic.from.clone(),
        to: traffic.to.clone(),
        kind: traffic.source.kind().to_owned(),
        start_s,
        end_s,
        bytes,
        goodput_bps: record::goodput_bps(bytes, end_s - start_s),
        ..TrafficSummary::default()
    }
}

fn on_record(traffic: &Traffic, report: &Report) -> Value {
    json!({
        "name": traffic.name,
        "sent": report.sent,
        "late": report.late,
        "unsent": report.unsent,
        "lateness_max_us": report.lateness_max.as_secs_f64() * 1e6,
    })
}

/// Why what a source sent makes a run invalid.
fn fault(traffic: &Traffic, report: &Report) -> Option<String> {
    let Report { sent, late, unsent, lateness_max, .. } = *report;
    let share = late as f64 / sent.max(1) as f64;
    if unsent == 0 && share <= MAX_LATE_SHARE {
        return None;
    }
    let all = sent + unsent;
    Some(format!(
        "traffic {}: {unsent} of {all} packets could not be sent, and {:.1} % of the others left more than 1 ms late (limit {} %, \
         worst {:.1} ms): this machine is too slow or too busy for it",
        traffic.name,
        share * 100.0,
        MAX_LATE_SHARE * 100.0,
        lateness_max.as_secs_f64() * 1e3,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rate;

    #[test]
    fn unsent_and_late_packets_invalidate_a_run() {
        let traffic = Traffic {
            name: "cbr".to_owned(),
            from: "a".to_owned(),
            to: "b".to_owned(),
            cc: "cubic".to_owned(),
            start: units::Duration::ZERO,
            source: Source::Cbr { rate: Rate::bits_per_second(1_000_000), packet: 1000 },
        };
        let in_time = Report { sent: 1000, late: 10, ..Report::default() };
        assert_eq!(fault(&traffic, &in_time), None);
        for (bad, part) in [
            (Report { late: 11, ..in_time }, "0 of 1000 packets could not be sent, and 1.1 %"),
            (Report { unsent: 1, ..in_time }, "1 of 1001 packets could not be sent"),
        ] {
            let fault = fault(&traffic, &bad).expect("a fault");
            assert!(fault.starts_with("traffic cbr: ") && fault.contains(part), "{fault}");
        }
    }
}
