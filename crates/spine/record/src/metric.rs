// SPDX-License-Identifier: GPL-2.0-or-later
//! The metrics of `docs/metrics.md`: of each its key, its name, its readers, how it is written and whether it can leave out a run's
//! beginning. The unit is the key's suffix ([`crate::units`]).

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

    /// The heading of its column.
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
    /// What its values are.
    pub form: Form,
    /// Whether it is known without a run's beginning.
    pub after_warm_up: bool,
    /// Who reads it.
    readers: &'static [Audience],
}

/// What the values of a metric are, and so how they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A quantity in the unit of the key.
    Quantity,
    /// A count, written with all its digits.
    Count,
    /// A share of something, read in percent.
    Share,
}

use Audience::{Designer, Provider, User};

const fn run(
    kind: &'static str,
    name: &'static str,
    key: &'static str,
    readers: &'static [Audience],
) -> Metric {
    Metric { kind, name, key, of_flow: false, form: Form::Quantity, after_warm_up: false, readers }
}

const fn flow(
    kind: &'static str,
    name: &'static str,
    key: &'static str,
    readers: &'static [Audience],
) -> Metric {
    Metric { of_flow: true, ..run(kind, name, key, readers) }
}

/// All of them, in the order of the docs' table.
#[rustfmt::skip] // one line each
pub const METRICS: &[Metric] = &[
    run("Throughput", "Goodput, all flows together", "goodput_bps", &[User]).after_warm_up(),
    run("Throughput", "Completion time, mean", "completion_mean_s", &[User]),
    run("Throughput", "Completion time, deviation", "completion_deviation_s", &[User]),
    run("Throughput", "Goodput of all traffic together", "traffic_goodput_bps", &[User, Provider]),
    run("Throughput", "Traffic’s files, offered", "files_offered", &[Provider]).count(),
    run("Throughput", "Traffic’s files, arrived whole", "files_completed", &[User, Provider]).count(),
    run("Throughput", "Traffic’s files, completion time, mean", "file_completion_mean_s", &[User]).after_warm_up(),
    run("Throughput", "Traffic’s files, completion time, median", "file_completion_p50_s", &[User]).after_warm_up(),
    run("Throughput", "Traffic’s files, completion time, 99 %", "file_completion_p99_s", &[User]).after_warm_up(),
    flow("Throughput", "Congestion window, mean", "cwnd_mean_segments", &[Designer]).after_warm_up(),
    flow("Throughput", "Congestion window, deviation", "cwnd_deviation_segments", &[Designer]).after_warm_up(),
    run("Throughput", "Carried by the busiest link", "throughput_bps", &[Designer, Provider]).after_warm_up(),
    run("Throughput", "Efficiency (goodput of what it carried)", "efficiency", &[Designer]).share().after_warm_up(),
    run("Throughput", "Utilisation of the busiest link", "utilisation", &[Provider]).share().after_warm_up(),
    flow("Delay", "Round trip, smallest", "rtt_min_us", &[User]),
    flow("Delay", "Round trip, mean", "rtt_mean_us", &[User]).after_warm_up(),
    flow("Delay", "Round trip, median", "rtt_median_us", &[User]).after_warm_up(),
    flow("Delay", "Round trip, 99 %", "rtt_p99_us", &[User]).after_warm_up(),
    run("Delay", "Queueing, mean, worst link", "queueing_delay_us", &[Designer, Provider]),
    run("Delay", "Queueing, 99 %, worst link", "queueing_delay_p99_us", &[Designer, Provider]).after_warm_up(),
    run("Loss", "Timeouts", "timeouts", &[User]).count(),
    run("Loss", "Lost or refused, worst link", "loss_ratio", &[Designer, Provider]).share(),
    run("Loss", "Dropped at full queues", "drops", &[Provider]).count().after_warm_up(),
    run("Loss", "Dropped after slow start", "drops_after_start", &[Designer]).count(),
    flow("Reactivity", "Aggressiveness (largest rise in a round trip)", "aggressiveness_bps", &[User, Designer, Provider]).after_warm_up(),
    run("Reactivity", "Responsiveness, slowest flow", "responsiveness_rtts", &[Designer]),
    flow("Reactivity", "Responsiveness, each flow", "responsiveness_rtts", &[Designer]),
    run("Reactivity", "Average responsiveness", "average_responsiveness_s", &[Designer]),
    flow("Stability", "Goodput’s standard deviation (1 s)", "goodput_deviation_bps", &[User, Designer]).after_warm_up(),
    flow("Stability", "Smoothness (largest fall in a round trip)", "smoothness_bps", &[Designer]).after_warm_up(),
    run("Stability", "Goodput’s coefficient of variation, all flows together (1 s)", "goodput_cov", &[Provider]).after_warm_up(),
    flow("Stability", "Goodput’s coefficient of variation, each flow (1 s)", "goodput_cov", &[Provider]).after_warm_up(),
    run("Stability", "Busiest link’s coefficient of variation (1 s)", "throughput_cov", &[Provider]).after_warm_up(),
    run("Fairness", "Until shares are fair within 10 %, slowest of the joins", "delta_fair_convergence_s", &[User]),
    flow("Fairness", "Until shares are fair within 10 %, each join", "delta_fair_convergence_s", &[User]),
    run("Fairness", "Jain index of the flows", "jain_index", &[Designer]).after_warm_up(),
    run("Fairness", "Jain index of the streams", "jain_index_streams", &[Designer]).after_warm_up(),
    run("Fairness", "Max-min (smallest over mean)", "max_min_fairness", &[Provider]).after_warm_up(),
    run("Fairness", "Proportional (geometric mean over mean)", "proportional_fairness", &[Provider]).after_warm_up(),
    run("Fairness", "Alpha 2 (harmonic mean over mean)", "alpha_fairness", &[Provider]).after_warm_up(),
    run("Convergence", "Until 80 % of the path, slowest flow", "convergence_rtts", &[Designer]),
    flow("Convergence", "Until 80 % of the path, each flow", "convergence_rtts", &[Designer]),
    run("Robustness", "Segments sent again", "retransmits", &[User]).count().after_warm_up(),
    run("Robustness", "Performability (time at 80 % of capacity)", "performability", &[Designer]).share().after_warm_up(),
    run("Robustness", "Undisturbed: share of the time", "path_states/0/share", &[Designer]).share().after_warm_up(),
    run("Robustness", "Undisturbed: goodput of the capacity", "path_states/0/performance", &[Designer]).share().after_warm_up(),
    run("Robustness", "Undisturbed: time at 80 % of capacity", "path_states/0/performing", &[Designer]).share().after_warm_up(),
    run("Robustness", "Disturbed: share of the time", "path_states/1/share", &[Designer]).share().after_warm_up(),
    run("Robustness", "Disturbed: goodput of the capacity", "path_states/1/performance", &[Designer]).share().after_warm_up(),
    run("Robustness", "Disturbed: time at 80 % of capacity", "path_states/1/performing", &[Designer]).share().after_warm_up(),
    run("Robustness", "Kolmogorov-Smirnov statistic", "kolmogorov_smirnov", &[Provider]).after_warm_up(),
    run("Deployability", "Processor time of the emulating machine for a gigabit", "cpu_per_gbit_s", &[Designer, Provider]),
];

impl Metric {
    const fn count(self) -> Self {
        Self { form: Form::Count, ..self }
    }

    const fn share(self) -> Self {
        Self { form: Form::Share, ..self }
    }

    const fn after_warm_up(self) -> Self {
        Self { after_warm_up: true, ..self }
    }

    /// All metrics.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        METRICS.iter()
    }

    /// The metrics for a reader.
    pub fn of(reader: Audience) -> impl Iterator<Item = &'static Self> {
        METRICS.iter().filter(move |metric| metric.readers.contains(&reader))
    }

    /// The key of its value, which may be in a list.
    pub fn last_key(&self) -> &'static str {
        self.key.rsplit('/').next().unwrap_or(self.key)
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
}

/// The form of the values with a key of a summary.
pub fn form(key: &str) -> Form {
    let metric = METRICS.iter().find(|metric| metric.last_key() == key);
    metric.map_or(Form::Quantity, |metric| metric.form)
}

/// Whether a key of a run's metrics, or of a flow's, is known without the run's beginning.
pub fn is_after_warm_up(key: &str, of_flow: bool) -> bool {
    let same = |it: &&Metric| it.of_flow == of_flow && it.key.split('/').next() == Some(key);
    METRICS.iter().find(same).is_some_and(|metric| metric.after_warm_up)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Metrics,
        metrics::{FlowMetrics, PathState},
    };

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
        let states = keys(&PathState::default());
        for metric in METRICS.iter().filter(|metric| metric.key.contains('/')) {
            let key = metric.key.rsplit('/').next().unwrap().to_owned();
            assert!(states.contains(&key), "{key}");
        }
    }
}
