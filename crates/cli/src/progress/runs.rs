// SPDX-License-Identifier: GPL-2.0-or-later
//! Progress of runs on standard error. A terminal shows a line for each run under way and one for all runs.
//! Otherwise only a line for each run that has ended is printed.

use super::line;
use experiment::{Event, Progress, RunEvent};
use indicatif::{MultiProgress, ProgressBar};
use record::{
    FlowSummary, PredictedFlow, RunResults, Summary, TrafficSummary, manifest::SimulatorSpeed,
    repeats::RepeatKey, stats,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::{Duration, Instant},
};

/// Watches the runs of a scenario.
pub struct ProgressDisplay {
    runs: usize,
    known: usize,
    /// Indices of ended runs. An invalid run is run again.
    ended: BTreeSet<usize>,
    started: Option<Instant>,
    terminal: MultiProgress,
    /// The last line, below those of the runs.
    all: ProgressBar,
    /// Runs under way, by their index.
    under_way: BTreeMap<usize, RunningLine>,
    means: Means,
}

/// The goodput of valid runs so far, by what their repeats share.
#[derive(Default)]
struct Means(HashMap<RepeatKey, Vec<f64>>);

impl Means {
    /// Adds a run. From the second repeat on, the mean so far in a line of its own.
    fn add(&mut self, record: &RunResults) -> String {
        let goodput = record.summary.metrics.goodput_bps;
        let Some(bps) = goodput.filter(|_| record.verdict().in_medians()) else {
            return String::new();
        };
        let values = self.0.entry(record.manifest.repeat_key()).or_default();
        values.push(bps);
        let estimate = stats::mean_ci95(values);
        let interval = estimate.and_then(|it| Some((it.mean, it.half_width?)));
        interval.map_or_else(String::new, |(mean, half)| {
            format!(
                "\n        so far {:.1} Mb/s, +-{:.1} % by the 95 % interval of {} repeats",
                mean / 1e6,
                half / mean * 100.0,
                values.len()
            )
        })
    }
}

struct RunningLine {
    line: ProgressBar,
    share: f64,
}

impl ProgressDisplay {
    /// A display for this number of runs, before the first starts.
    pub fn new(runs: usize) -> Self {
        // Standard error. It shows nothing if that is not a terminal.
        let terminal = MultiProgress::new();
        let all = terminal.add(line());
        Self {
            runs,
            known: 0,
            ended: BTreeSet::new(),
            started: None,
            terminal,
            all,
            under_way: BTreeMap::new(),
            means: Means::default(),
        }
    }

    /// Updates the display for an event.
    pub fn show(&mut self, event: &Event<'_>) {
        let place = format!("[{}/{}]", event.index + 1, self.runs);
        let id = &event.run.id;
        match event.what {
            RunEvent::Known(record) => {
                self.known += 1;
                self.means.add(record);
                self.print(&format!("{place} {id:<50} on record already"));
            }
            RunEvent::Outdated => {
                self.print(&format!("{place} {id:<50} on record of another longhaul: runs again"));
            }
            RunEvent::Changed(differences) => {
                let differences = differences.join("\n        ");
                self.print(&format!(
                    "{place} {id:<50} on record with other settings: replaced\n        {differences}"
                ));
            }
            RunEvent::LeftOut(why) => {
                self.known += 1;
                self.print(&format!("{place} {id:<50} left out: {why}"));
            }
            RunEvent::Begins => {
                self.ended.remove(&event.index);
                self.started.get_or_insert_with(Instant::now);
                let line = self.terminal.insert_before(&self.all, line());
                line.set_message(format!("{place} {id}"));
                self.under_way.insert(event.index, RunningLine { line, share: 0.0 });
            }
            RunEvent::Step(step) => {
                if let Some(run) = self.under_way.get(&event.index) {
                    run.line.set_message(format!("{place} {id}: {step}"));
                }
            }
            RunEvent::Goes(progress) => {
                if let Some(run) = self.under_way.get_mut(&event.index) {
                    run.share = progress.share;
                    let progress = progress_text(&progress);
                    run.line.set_message(format!("{place} {id}: {progress}"));
                }
            }
            RunEvent::Ended(record) => {
                if let Some(run) = self.under_way.remove(&event.index) {
                    run.line.finish_and_clear();
                    self.terminal.remove(&run.line);
                }
                self.ended.insert(event.index);
                let mean = self.means.add(record);
                self.print(&format!("{place} {id:<50} {}{mean}", ended_text(record)));
            }
        }
        self.all.set_message(self.all_text());
    }

    fn print(&self, text: &str) {
        self.terminal.suspend(|| errln!("{text}"));
    }

    fn all_text(&self) -> String {
        let todo = (self.runs - self.known) as f64;
        if self.runs < 2 {
            return String::new();
        }
        let done =
            self.ended.len() as f64 + self.under_way.values().map(|run| run.share).sum::<f64>();
        let took = self.started.map(|started| started.elapsed()).unwrap_or_default();
        let left_s = took.as_secs_f64() * (todo / done - 1.0);
        let left = Duration::try_from_secs_f64(left_s).map(time_text);
        let left = left.map_or_else(|_| String::new(), |left| format!(", about {left} left"));
        format!("{} of {} runs done{left}", self.known + self.ended.len(), self.runs)
    }
}

impl Drop for ProgressDisplay {
    fn drop(&mut self) {
        // An error means that the terminal is gone.
        let _ = self.terminal.clear();
    }
}

fn progress_text(progress: &Progress) -> String {
    let left = progress.left().map(time_text);
    format!(
        "{:.0} %, {:.1} of {:.1} s, {} events/s{}",
        progress.share * 100.0,
        progress.now.as_secs_f64(),
        progress.ends.as_secs_f64(),
        scaled(progress.events_per_s()),
        left.map_or_else(String::new, |left| format!(", {left} left"))
    )
}

/// A line for each flow, or for each traffic source if there are no flows, or one line for many flows. Then the
/// reasons why the run is invalid, and the simulator's speed.
fn ended_text(record: &RunResults) -> String {
    let flows = &record.summary.flows;
    let mut lines: Vec<String> = if flows.is_empty() {
        record.summary.listed_traffic().iter().map(traffic_text).collect()
    } else if flows.len() > Summary::MOST_LISTED {
        vec![together_text(record)]
    } else {
        flows.iter().map(flow_text).collect()
    };
    if !record.manifest.valid {
        for line in &mut lines {
            *line += "  INVALID";
        }
    }
    let reasons = record.manifest.invalid_reasons.iter();
    lines.extend(reasons.map(|reason| format!("invalid: {reason}")));
    lines.extend(record.manifest.simulator.as_ref().map(simulator_text));
    lines.join("\n        ")
}

fn flow_text(flow: &FlowSummary) -> String {
    let Some((bps, seconds)) = flow.goodput_bps.zip(flow.seconds) else {
        return flow.outcome.clone();
    };
    let source = flow.prediction.as_ref().map_or_else(String::new, prediction_text);
    format!("{:>7.1} Mb/s  {seconds:>6.2} s  {}{source}", bps / 1e6, flow.outcome)
}

/// The form that a prediction is from, and its interval.
fn prediction_text(prediction: &PredictedFlow) -> String {
    let interval = prediction.low_bps.zip(prediction.high_bps);
    let interval = interval.map_or_else(String::new, |(low, high)| {
        format!("  {:.1} to {:.1} Mb/s", low / 1e6, high / 1e6)
    });
    format!("{interval}  by {}", prediction.source)
}

fn together_text(record: &RunResults) -> String {
    let metrics = &record.summary.metrics;
    let known =
        |value: Option<f64>, text: fn(f64) -> String| value.map_or_else(|| "-".to_owned(), text);
    format!(
        "{:>7} Mb/s by {} flows, Jain {}, utilisation {}",
        known(metrics.goodput_bps, |bps| format!("{:.1}", bps / 1e6)),
        record.summary.flows.len(),
        known(metrics.jain_index, |index| format!("{index:.3}")),
        known(metrics.utilisation, |share| format!("{:.1} %", share * 100.0)),
    )
}

fn traffic_text(traffic: &TrafficSummary) -> String {
    let rate = format!("{:>7.1} Mb/s", traffic.goodput_bps / 1e6);
    match traffic.files_completed.zip(traffic.files_offered) {
        Some((completed, offered)) => {
            format!("{rate}  {completed} of {offered} files  {}", traffic.name)
        }
        None => format!("{rate}  {}", traffic.name),
    }
}

fn simulator_text(simulator: &SimulatorSpeed) -> String {
    let SimulatorSpeed { events, wall_s, events_per_s, simulated_s } = simulator;
    format!(
        "{} events, {}/s; {simulated_s:.1} s in {wall_s:.2} s, {} simulated s per s",
        scaled(*events as f64),
        scaled(*events_per_s),
        scaled(simulated_s / wall_s.max(1e-6))
    )
}

/// Three digits and a power of 1000.
fn scaled(value: f64) -> String {
    let (value, unit) = match value {
        v if v >= 1e9 => (v / 1e9, " G"),
        v if v >= 1e6 => (v / 1e6, " M"),
        v if v >= 1e3 => (v / 1e3, " k"),
        v => (v, ""),
    };
    format!("{value:.2}{unit}")
}

fn time_text(time: Duration) -> String {
    match time.as_secs() {
        s if s >= 2 * 3600 => format!("{} h", s / 3600),
        s if s >= 120 => format!("{} min", s / 60),
        s => format!("{s} s"),
    }
}
