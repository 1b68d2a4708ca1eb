// SPDX-License-Identifier: GPL-2.0-or-later
//! What ns-2.35 found, and the same run here.

use longhaul_sim::Simulation;
use record::{Direction, Entity, Quantity, Series};
use scenario::{Queue, Run};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};
use units::{Duration, Rate};

/// A run of ns-2, one line of its results.
#[derive(Debug, Clone)]
pub struct Cell {
    pub algorithm: String,
    pub flows: usize,
    pub rate_bps: u64,
    pub rtt_ms: u64,
    pub buffer_bdp: f64,
    buffer_packets: u64,
    duration_s: u64,
    ssthresh_packets: Option<u64>,
    pub ns2: Figures,
}

/// What came out of a run. The second half is what is compared: the start is another thing.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// Of each flow, in the second half.
    pub goodput_bps: Vec<f64>,
    /// Of each flow, in the whole run.
    pub whole_goodput_bps: Vec<f64>,
    /// Share of the bottleneck that was used in the second half.
    pub utilisation: f64,
    /// At the bottleneck in the second half.
    pub drops: u64,
    /// In the whole run.
    pub whole_drops: u64,
    pub timeouts: u64,
}

impl Figures {
    /// Of all flows, in the second half.
    pub fn total_bps(&self) -> f64 {
        self.goodput_bps.iter().sum()
    }
}

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// The cells of a results file, in the order of the table.
pub fn read(name: &str) -> Vec<Cell> {
    let file = repository().join("docs/validation").join(name);
    let text = fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let mut cells: Vec<Cell> = text.lines().map(cell).collect();
    cells.sort_by(|a, b| {
        let order = |cell: &Cell| (cell.algorithm.clone(), cell.rate_bps, cell.rtt_ms);
        let rest = a.buffer_bdp.total_cmp(&b.buffer_bdp).then(a.flows.cmp(&b.flows));
        order(a).cmp(&order(b)).then(rest)
    });
    cells
}

fn cell(line: &str) -> Cell {
    let json: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    let whole = |key: &str| json[key].as_u64().unwrap_or_else(|| panic!("{key}: {line}"));
    let list = |key: &str| -> Vec<f64> {
        let list = json[key].as_array().unwrap_or_else(|| panic!("{key}: {line}"));
        list.iter().filter_map(Value::as_f64).collect()
    };
    Cell {
        algorithm: json["algorithm"].as_str().expect("a name").to_owned(),
        flows: whole("flows") as usize,
        rate_bps: whole("rate_bps"),
        rtt_ms: whole("rtt_ms"),
        buffer_bdp: json["buffer_bdp"].as_f64().expect("a number"),
        buffer_packets: whole("buffer_packets"),
        duration_s: whole("duration_s"),
        ssthresh_packets: json["ssthresh_packets"].as_u64(),
        ns2: Figures {
            goodput_bps: list("second_half_goodput_bps"),
            whole_goodput_bps: list("goodput_bps"),
            utilisation: json["second_half_utilisation"].as_f64().expect("a number"),
            drops: whole("second_half_bottleneck_drops"),
            whole_drops: whole("bottleneck_drops"),
            timeouts: list("timeouts").iter().sum::<f64>() as u64,
        },
    }
}

impl Cell {
    /// The run of `scenarios/validation-ns2.toml` that is this cell.
    fn scenario(&self) -> Run {
        let mut set = vec![
            format!("vars.algorithm=lh_{}", self.algorithm),
            format!("vars.rivals={}", usize::from(self.flows > 1)),
            format!("duration={}s", self.duration_s),
        ];
        set.extend(self.ssthresh_packets.map(|n| format!("tcp.initial_ssthresh={n}")));
        let file = repository().join("scenarios/validation-ns2.toml");
        let scenario = scenario::load(&file, &set).unwrap_or_else(|e| panic!("{e}"));
        let run = scenario.runs.into_iter().find(|run| self.is(run));
        run.unwrap_or_else(|| panic!("no variant of {} is {self:?}", file.display()))
    }

    /// Whether a run has the network and the flows of this cell.
    fn is(&self, run: &Run) -> bool {
        let link = run.links.iter().find(|link| link.name == "bottleneck");
        let link = &link.expect("the scenario has a bottleneck").forward;
        // A packet of ns-2's limit is the one that is being sent.
        link.queue == Some(Queue::Packets(self.buffer_packets - 1))
            && link.rate.map(Rate::bps) == Some(self.rate_bps)
            && link.delay + Duration::from_micros(200) == Duration::from_micros(500 * self.rtt_ms)
            && run.flows.len() == self.flows
    }

    fn name(&self) -> String {
        let Self { algorithm, flows, rate_bps, rtt_ms, buffer_bdp, .. } = self;
        format!(
            "{algorithm}, flows {flows}, {rate_bps} bit/s, {rtt_ms} ms, buffer {buffer_bdp} BDP"
        )
    }

    fn simulate(&self) -> Figures {
        let run = self.scenario();
        let mut simulation = Simulation::new(&run).unwrap_or_else(|e| panic!("{e}"));
        while simulation.advance(1_000_000) {}
        let outcome = simulation.outcome();
        let (summary, series) = (outcome.summary, outcome.series);
        let half_s = self.duration_s as f64 / 2.0;
        let goodput = |flow: &record::FlowSummary| {
            let received = Entity::Flow(flow.name.clone());
            let curve = series.curve(&received, Quantity::ReceivedBytes).expect("it was sampled");
            (flow.bytes as f64 - curve.at(half_s)) * 8.0 / half_s
        };
        let named =
            |link: &&record::LinkSummary| link.name == "bottleneck" && link.direction == "forward";
        let link = summary.links.iter().find(named).expect("the scenario has a bottleneck");
        Figures {
            goodput_bps: summary.flows.iter().map(goodput).collect(),
            whole_goodput_bps: summary.flows.iter().map(|flow| flow.goodput_bps.unwrap()).collect(),
            utilisation: late(&series, Quantity::ThroughputBps, half_s) * MONITOR_S
                / (self.rate_bps as f64 * half_s),
            drops: late(&series, Quantity::Drops, half_s) as u64,
            whole_drops: link.queue_drops,
            timeouts: summary.flows.iter().filter_map(|flow| flow.timeouts).sum(),
        }
    }
}

/// The scenario's width of the monitor's bins.
const MONITOR_S: f64 = 0.1;

/// The sum of a quantity of the bottleneck after a time.
fn late(series: &Series, quantity: Quantity, from_s: f64) -> f64 {
    let link = Entity::Link { name: "bottleneck".to_owned(), direction: Direction::Forward };
    let curve = series.curve(&link, quantity).expect("it was sampled");
    // A bin has the time of its beginning, a count of drops that of its end.
    let slack_s = if quantity == Quantity::Drops { 0.01 } else { -0.01 };
    let late = curve.time_s.iter().zip(&curve.value).filter(|(time, _)| **time > from_s + slack_s);
    late.map(|(_, value)| value).sum()
}

/// Simulates all cells, on all processors.
pub fn simulate(cells: &[Cell]) -> Vec<Figures> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(vec![None; cells.len()]);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((n, cell)) = take(cells, &next) {
                    let figures = cell.simulate();
                    eprintln!("{} of {}: {}", n + 1, cells.len(), cell.name());
                    found.lock().expect("no other thread panicked")[n] = Some(figures);
                }
            });
        }
    });
    let found = found.into_inner().expect("no thread panicked");
    found.into_iter().map(|figures| figures.expect("each was simulated")).collect()
}

fn take<'c>(cells: &'c [Cell], next: &AtomicUsize) -> Option<(usize, &'c Cell)> {
    let n = next.fetch_add(1, Ordering::Relaxed);
    cells.get(n).map(|cell| (n, cell))
}
