// SPDX-License-Identifier: GPL-2.0-or-later
//! The metrics of `docs/metrics.md` by the readers whom they tell something, and how each is written.

use crate::format;
use record::units::{Unit, is_count, is_share};
use serde_json::Value;

/// Who reads a metric: the columns of the table "By point of view".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Whose data it is.
    User,
    /// Who makes the protocol.
    Designer,
    /// Whose links they are.
    Provider,
}

impl Audience {
    /// In the order of the docs.
    pub const ALL: [Self; 3] = [Self::User, Self::Designer, Self::Provider];

    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "End user",
            Self::Designer => "Protocol designer",
            Self::Provider => "Network provider",
        }
    }
}

/// A metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// What it is about: "Throughput", "Delay", …
    pub kind: &'static str,
    /// For people.
    pub name: &'static str,
    /// Where to find it in a run's `metrics`: a key, or a JSON pointer without its first slash.
    pub key: &'static str,
    /// Whether it is one of each flow.
    pub of_flow: bool,
    /// Who reads it.
    readers: &'static [Audience],
}

use Audience::{Designer, Provider, User};

const fn run(
    kind: &'static str,
    name: &'static str,
    key: &'static str,
    readers: &'static [Audience],
) -> Metric {
    Metric { kind, name, key, of_flow: false, readers }
}

const fn flow(
    kind: &'static str,
    name: &'static str,
    key: &'static str,
    readers: &'static [Audience],
) -> Metric {
    Metric { kind, name, key, of_flow: true, readers }
}

/// All of them, in the order of the docs' table.
pub const METRICS: &[Metric] = &[
    run("Throughput", "Goodput, all flows together", "goodput_bps", &[User]),
    run("Throughput", "Completion time, mean", "completion_mean_s", &[User]),
    run("Throughput", "Completion time, deviation", "completion_deviation_s", &[User]),
    run("Throughput", "Goodput of all traffic together", "traffic_goodput_bps", &[User, Provider]),
    run("Throughput", "Traffic’s files, offered", "files_offered", &[Provider]),
    run("Throughput", "Traffic’s files, arrived whole", "files_completed", &[User, Provider]),
    run("Throughput", "Traffic’s files, completion time, mean", "file_completion_mean_s", &[User]),
    run("Throughput", "Traffic’s files, completion time, median", "file_completion_p50_s", &[User]),
    run("Throughput", "Traffic’s files, completion time, 99 %", "file_completion_p99_s", &[User]),
    flow("Throughput", "Congestion window, mean", "cwnd_mean_segments", &[Designer]),
    flow("Throughput", "Congestion window, deviation", "cwnd_deviation_segments", &[Designer]),
    run("Throughput", "Carried by the busiest link", "throughput_bps", &[Designer, Provider]),
    run("Throughput", "Efficiency (goodput of what it carried)", "efficiency", &[Designer]),
    run("Throughput", "Utilisation of the busiest link", "utilisation", &[Provider]),
    flow("Delay", "Round trip, smallest", "rtt_min_us", &[User]),
    flow("Delay", "Round trip, mean", "rtt_mean_us", &[User]),
    flow("Delay", "Round trip, median", "rtt_median_us", &[User]),
    flow("Delay", "Round trip, 99 %", "rtt_p99_us", &[User]),
    run("Delay", "Queueing, mean, worst link", "queueing_delay_us", &[Designer, Provider]),
    run("Delay", "Queueing, 99 %, worst link", "queueing_delay_p99_us", &[Designer, Provider]),
    run("Loss", "Timeouts", "timeouts", &[User]),
    run("Loss", "Lost or refused, worst link", "loss_ratio", &[Designer, Provider]),
    run("Loss", "Dropped at full queues", "drops", &[Provider]),
    run("Loss", "Dropped after slow start", "drops_after_start", &[Designer]),
    flow(
        "Reactivity",
        "Aggressiveness (largest rise in a round trip)",
        "aggressiveness_bps",
        &[User, Designer, Provider],
    ),
    run("Reactivity", "Responsiveness, slowest flow", "responsiveness_rtts", &[Designer]),
    flow("Reactivity", "Responsiveness, each flow", "responsiveness_rtts", &[Designer]),
    run("Reactivity", "Average responsiveness", "average_responsiveness_s", &[Designer]),
    flow(
        "Stability",
        "Goodput’s standard deviation (1 s)",
        "goodput_deviation_bps",
        &[User, Designer],
    ),
    flow("Stability", "Smoothness (largest fall in a round trip)", "smoothness_bps", &[Designer]),
    run(
        "Stability",
        "Goodput’s coefficient of variation, all flows together (1 s)",
        "goodput_cov",
        &[Provider],
    ),
    flow(
        "Stability",
        "Goodput’s coefficient of variation, each flow (1 s)",
        "goodput_cov",
        &[Provider],
    ),
    run(
        "Stability",
        "Busiest link’s coefficient of variation (1 s)",
        "throughput_cov",
        &[Provider],
    ),
    run(
        "Fairness",
        "Until shares are fair within 10 %, slowest of the joins",
        "delta_fair_convergence_s",
        &[User],
    ),
    flow(
        "Fairness",
        "Until shares are fair within 10 %, each join",
        "delta_fair_convergence_s",
        &[User],
    ),
    run("Fairness", "Jain index of the flows", "jain_index", &[Designer]),
    run("Fairness", "Jain index of the streams", "jain_index_streams", &[Designer]),
    run("Fairness", "Max-min (smallest over mean)", "max_min_fairness", &[Provider]),
    run(
        "Fairness",
        "Proportional (geometric mean over mean)",
        "proportional_fairness",
        &[Provider],
    ),
    run("Fairness", "Alpha 2 (harmonic mean over mean)", "alpha_fairness", &[Provider]),
    run("Convergence", "Until 80 % of the path, slowest flow", "convergence_rtts", &[Designer]),
    flow("Convergence", "Until 80 % of the path, each flow", "convergence_rtts", &[Designer]),
    run("Robustness", "Segments sent again", "retransmits", &[User]),
    run("Robustness", "Performability (time at 80 % of capacity)", "performability", &[Designer]),
    run("Robustness", "Undisturbed: share of the time", "path_states/0/share", &[Designer]),
    run(
        "Robustness",
        "Undisturbed: goodput of the capacity",
        "path_states/0/performance",
        &[Designer],
    ),
    run(
        "Robustness",
        "Undisturbed: time at 80 % of capacity",
        "path_states/0/performing",
        &[Designer],
    ),
    run("Robustness", "Disturbed: share of the time", "path_states/1/share", &[Designer]),
    run(
        "Robustness",
        "Disturbed: goodput of the capacity",
        "path_states/1/performance",
        &[Designer],
    ),
    run(
        "Robustness",
        "Disturbed: time at 80 % of capacity",
        "path_states/1/performing",
        &[Designer],
    ),
    run("Robustness", "Kolmogorov-Smirnov statistic", "kolmogorov_smirnov", &[Provider]),
];

impl Metric {
    /// The metrics for a reader.
    pub fn of(reader: Audience) -> impl Iterator<Item = &'static Self> {
        METRICS.iter().filter(move |metric| metric.readers.contains(&reader))
    }

    /// What a run's `metrics` have for it: one value, or one of each flow; without those that are not
    /// known.
    pub fn values(&self, metrics: &Value) -> Vec<f64> {
        let pointer = format!("/{}", self.key);
        let at = |of: &Value| of.pointer(&pointer).and_then(Value::as_f64);
        match metrics["flows"].as_array() {
            Some(flows) if self.of_flow => flows.iter().filter_map(at).collect(),
            _ => at(metrics).into_iter().collect(),
        }
    }

    /// A mean, or half the width of its interval, with its unit: of counts it need not be a whole number.
    pub fn write_mean(&self, value: f64) -> String {
        if is_count(self.key) { format::digits(value) } else { self.write(value) }
    }

    /// A value with its unit.
    pub fn write(&self, value: f64) -> String {
        let key = self.key.rsplit('/').next().unwrap_or(self.key);
        if is_share(key) {
            return format::percent(value);
        }
        if is_count(key) {
            return format!("{value:.0}");
        }
        match Unit::of_key(key) {
            Unit::BitsPerSecond => format::rate(value),
            Unit::Microseconds => format::milliseconds(value),
            Unit::Seconds => format::seconds(value),
            Unit::RoundTrips => format!("{} RTT", format::digits(value)),
            Unit::Segments => format!("{} segments", format::digits(value)),
            _ => format::index(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Metrics, metrics::FlowMetrics};

    fn keys(of: &impl serde::Serialize) -> Vec<String> {
        let value = serde_json::to_value(of).unwrap();
        value.as_object().unwrap().keys().cloned().collect()
    }

    /// A new metric of records has no reader until it is listed here.
    #[test]
    fn metric_readers_match_the_keys_of_records() {
        let known = |of_flow: bool| METRICS.iter().filter(move |metric| metric.of_flow == of_flow);
        for (of_flow, keys) in
            [(false, keys(&Metrics::default())), (true, keys(&FlowMetrics::default()))]
        {
            for key in keys.iter().filter(|key| !["flows", "name"].contains(&key.as_str())) {
                let found = known(of_flow).any(|m| m.key.split('/').next() == Some(key));
                assert!(found, "{key} of a flow: {of_flow}");
            }
            for metric in known(of_flow) {
                let key = metric.key.split('/').next().unwrap().to_owned();
                assert!(keys.contains(&key), "{key}");
                assert!(!metric.readers.is_empty(), "{key}");
            }
        }
        let states = keys(&record::metrics::PathState::default());
        for metric in METRICS.iter().filter(|metric| metric.key.contains('/')) {
            let key = metric.key.rsplit('/').next().unwrap().to_owned();
            assert!(states.contains(&key), "{key}");
        }
    }

    #[test]
    fn values_are_found_and_written_with_their_units() {
        let metrics = serde_json::json!({
            "goodput_bps": 5e6, "timeouts": 12345, "jain_index": null, "loss_ratio": 0.001,
            "max_min_fairness": 0.9997,
            "path_states": [{"share": 0.25}],
            "flows": [{"rtt_mean_us": 2500.0}, {"rtt_mean_us": null}, {"rtt_mean_us": 3000.0}],
        });
        let written = |key: &str| {
            let metric = METRICS.iter().find(|metric| metric.key == key).unwrap();
            let values = metric.values(&metrics).into_iter();
            values.map(|value| metric.write(value)).collect::<Vec<_>>()
        };
        assert_eq!(written("goodput_bps"), ["5 Mb/s"]);
        assert_eq!(written("timeouts"), ["12345"]);
        assert_eq!(written("loss_ratio"), ["0.1 %"]);
        assert_eq!(written("path_states/0/share"), ["25 %"]);
        assert_eq!(written("path_states/1/share"), [""; 0]);
        assert_eq!(written("rtt_mean_us"), ["2.5 ms", "3 ms"]);
        assert_eq!(written("jain_index"), [""; 0]);
        assert_eq!(written("max_min_fairness"), ["0.9997"], "only 1 is 1");
    }
}
