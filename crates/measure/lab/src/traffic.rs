// SPDX-License-Identifier: GPL-2.0-or-later
//! The traffic of a run other than its flows: what the generator sends, what of it arrived, and whether it was sent in time.
//! Arrival times and sizes are the simulator's: both draw them by [`scenario::FileArrivals`] and [`Random`].

use crate::{error::LabError, stage::Stage};
use generator::{
    connections::{self, Connections, Pattern},
    datagrams::{self, Datagrams, Report, Schedule, Usage},
};
use record::{OfferedFile, OfferedFiles, TrafficSummary};
use scenario::{Burst, FileArrivals, Random, Run, Source, Traffic};
use serde_json::{Value, json};
use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

/// The largest share of a source's packets or files that may begin late in a valid run: that of the emulator's late deliveries.
const MAX_LATE_SHARE: f64 = wan::Health::MAX_LATE_SHARE;

/// The port of the first source between machines; the next has the next one.
const FIRST_PORT: u16 = 10_000;

/// The sources of a run, ready to start.
pub struct Sources {
    datagrams: Vec<datagrams::Source>,
    connections: Connections,
}

/// The sources of a run at work. They end when this is dropped.
pub struct Running {
    datagrams: Datagrams,
    connections: connections::Running,
    begun: Instant,
}

/// What became of a run's traffic.
#[derive(Default)]
pub struct Outcome {
    /// Source by source, in the order of the scenario.
    pub summaries: Vec<TrafficSummary>,
    /// The files that were offered, or a sample of them.
    pub files: OfferedFiles,
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
    pub fn open(stage: &dyn Stage, run: &Run) -> Result<Self, LabError> {
        let (mut datagrams, mut connections) = (Vec::new(), Connections::default());
        for (n, traffic) in run.traffic.iter().enumerate() {
            let namespace = |node: &str| stage.has(node).then(|| stage.namespace(node)).transpose();
            let (from, to) = (namespace(&traffic.from)?, namespace(&traffic.to)?);
            // Both ends know a port between machines.
            let own = FIRST_PORT.saturating_add(u16::try_from(n).unwrap_or(u16::MAX));
            let port = if from.is_some() && to.is_some() { 0 } else { own };
            let at = |node: &str| Ok::<_, LabError>(SocketAddr::new(stage.address(node)?, port));
            if let Source::Cbr { rate, packet } = traffic.source {
                let schedule = Schedule { rate, packet, start: traffic.start.into() };
                let to = (to, at(&traffic.to)?);
                datagrams.push(datagrams::Source::open(from, to, schedule).map_err(failed)?);
            } else if let Some(pattern) = pattern(traffic, run.seed) {
                let from = (from, at(&traffic.from)?);
                let (cc, start) = (traffic.cc.as_str(), traffic.start.into());
                let source = connections::Source { from, to, cc, start, pattern };
                connections.add(source).map_err(failed)?;
            }
        }
        Ok(Self { datagrams, connections })
    }

    /// Starts them all; their times count from `begun`.
    ///
    /// # Errors
    /// No more threads.
    pub fn start(self, begun: Instant) -> Result<Running, LabError> {
        let connections = self.connections.start(begun).map_err(failed)?;
        let datagrams = Datagrams::start(self.datagrams, begun).map_err(failed)?;
        Ok(Running { datagrams, connections, begun })
    }
}

/// What a source of TCP does; `None` for datagrams.
fn pattern(traffic: &Traffic, seed: u64) -> Option<Pattern> {
    match traffic.source {
        Source::Cbr { .. } => None,
        Source::Files { per_second, size } => {
            let mut arrivals = FileArrivals::new(seed, &traffic.name, per_second, size);
            let arrivals = std::iter::repeat_with(move || {
                let arrival = arrivals.draw();
                (arrival.size.get(), arrival.until_next.into())
            });
            Some(Pattern::Files(Box::new(arrivals)))
        }
        Source::OnOff { on, off } => {
            let mut random = Random::new(seed, &traffic.name);
            let bursts = std::iter::repeat_with(move || {
                let burst = match on {
                    Burst::Time(mean) => connections::Burst::Time(random.time(mean).into()),
                    Burst::Bytes(mean) => connections::Burst::Bytes(random.size(mean).get()),
                };
                (burst, random.time(off).into())
            });
            Some(Pattern::OnOff(Box::new(bursts)))
        }
    }
}

impl Running {
    /// Ends them all. Each end is reported by the machine that it is on.
    ///
    /// # Errors
    /// The kernel does not tell what has arrived.
    pub fn finish(self, run: &Run, stage: &dyn Stage) -> Result<Outcome, LabError> {
        if run.traffic.is_empty() {
            return Ok(Outcome::default());
        }
        let (over, zero) = (Instant::now(), stage.started());
        let (packets, usage) = self.datagrams.finish().map_err(failed)?;
        let connections = self.connections.finish().map_err(failed)?;
        let late_files = late_files(&connections);
        let (mut packets, mut connections) = (packets.into_iter(), connections.into_iter());
        let mut outcome = Outcome::default();
        let mut sources = Vec::new();
        for traffic in &run.traffic {
            let start = self.begun + Duration::from(traffic.start);
            let times = [start, over.max(start)].map(|at| (at - zero).as_secs_f64());
            if let Source::Cbr { packet, .. } = traffic.source {
                let report = packets.next().expect("a report of each source");
                let bytes = report.arrived * u64::from(packet);
                if stage.has(&traffic.to) {
                    outcome.summaries.push(summary(traffic, times, bytes));
                }
                if stage.has(&traffic.from) {
                    outcome.faults.extend(fault(traffic, &report));
                    sources.push(on_record(traffic, &report));
                }
            } else {
                let report = connections.next().expect("a report of each source");
                if !stage.has(&traffic.to) {
                    continue;
                }
                outcome.summaries.push(summary_of_connections(traffic, times, &report));
                outcome.faults.extend(failure(traffic, &report));
                sources.push(connections_on_record(traffic, &report));
                outcome.files.rows.extend(offered_files(traffic, &report, zero));
            }
        }
        outcome.faults.extend(late_files);
        keep_a_sample(&mut outcome.files, run.seed, OfferedFiles::MAX_ROWS);
        for summary in &mut outcome.summaries {
            *summary = std::mem::take(summary).with_completion_quantiles(&outcome.files);
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

fn summary_of_connections(
    traffic: &Traffic,
    times: [f64; 2],
    report: &connections::Report,
) -> TrafficSummary {
    let took: Vec<f64> =
        report.files.iter().filter_map(|f| Some(f.completion?.as_secs_f64())).collect();
    let has_files = matches!(traffic.source, Source::Files { .. });
    let mean_s = took.iter().sum::<f64>() / took.len() as f64;
    TrafficSummary {
        files_offered: has_files.then_some(report.files.len() as u64),
        files_completed: has_files.then_some(took.len() as u64),
        completion_mean_s: (!took.is_empty()).then_some(mean_s),
        ..summary(traffic, times, report.bytes)
    }
}

fn offered_files(
    traffic: &Traffic,
    report: &connections::Report,
    zero: Instant,
) -> impl Iterator<Item = OfferedFile> {
    let source: Arc<str> = traffic.name.as_str().into();
    (1..).zip(&report.files).map(move |(number, file)| OfferedFile {
        source: Arc::clone(&source),
        number,
        start_s: (file.start - zero).as_secs_f64(),
        size_bytes: file.was_asked_for.then_some(file.size),
        completion_s: file.completion.map(|time| time.as_secs_f64()),
    })
}

/// Leaves at most so many files, each with the same chance (Vitter's algorithm R, 1985), sorted as records have them.
fn keep_a_sample(files: &mut OfferedFiles, seed: u64, most: usize) {
    let rows = &mut files.rows;
    let mut random = Random::new(seed, "files on record");
    for n in most..rows.len() {
        let place = random.below(n as u64 + 1) as usize;
        if place < most {
            rows.swap(place, n);
        }
    }
    rows.truncate(most);
    rows.sort_unstable_by(|a, b| (&a.source, a.number).cmp(&(&b.source, b.number)));
}

fn connections_on_record(traffic: &Traffic, report: &connections::Report) -> Value {
    json!({
        "name": traffic.name,
        "sent": report.files.len(),
        "late": report.late,
        "unsent": report.failed,
        "lateness_max_us": report.lateness_max.as_secs_f64() * 1e6,
    })
}

/// Why connections of a source make a run invalid.
fn failure(traffic: &Traffic, report: &connections::Report) -> Option<String> {
    let (why, failed) = (report.first_failure.as_ref()?, report.failed);
    Some(format!("traffic {}: {failed} connections failed, the first: {why}", traffic.name))
}

/// Why the files of all sources make a run invalid.
fn late_files(reports: &[connections::Report]) -> Option<String> {
    let files: usize = reports.iter().map(|report| report.files.len()).sum();
    let late: u64 = reports.iter().map(|report| report.late).sum();
    let worst = reports.iter().map(|report| report.lateness_max).max()?;
    let share = late as f64 / files.max(1) as f64;
    (share > MAX_LATE_SHARE).then(|| {
        format!(
            "{:.1} % of traffic's {files} files began more than 10 ms late (limit {} %, worst {:.1} ms): this machine is too slow or \
             too busy for it",
            share * 100.0,
            MAX_LATE_SHARE * 100.0,
            worst.as_secs_f64() * 1e3,
        )
    })
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
    fn sample_above_bound_is_sorted_and_within_it() {
        let file = |number| OfferedFile {
            source: "web".into(),
            number,
            start_s: 0.0,
            size_bytes: None,
            completion_s: None,
        };
        let mut files = OfferedFiles { rows: (1..=5000).map(file).collect() };
        keep_a_sample(&mut files, 7, 1000);
        assert_eq!(files.rows.len(), 1000);
        assert!(files.rows.windows(2).all(|pair| pair[0].number < pair[1].number));
        // The mean of a uniform sample of 1 to 5000 has a deviation of 46.
        let mean = files.rows.iter().map(|row| row.number).sum::<u64>() / 1000;
        assert!((2300..2700).contains(&mean), "{mean}");
    }

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
