// SPDX-License-Identifier: GPL-2.0-or-later
//! How the values of metrics are written.

use crate::format;
use record::{
    metric::{Form, Metric},
    units::Unit,
};

/// A mean, or half the width of its interval, with its unit: of counts it need not be a whole number.
pub fn write_mean(metric: &Metric, value: f64) -> String {
    if metric.form == Form::Count { format::digits(value) } else { write(metric, value) }
}

/// A value with its unit.
pub fn write(metric: &Metric, value: f64) -> String {
    match (metric.form, Unit::of_key(metric.last_key())) {
        (Form::Share, _) => format::percent(value),
        (Form::Count, _) => format!("{value:.0}"),
        (_, Unit::BitsPerSecond) => format::rate(value),
        (_, Unit::Microseconds) => format::milliseconds(value),
        (_, Unit::Seconds) => format::seconds(value),
        (_, Unit::RoundTrips) => format!("{} RTT", format::digits(value)),
        (_, Unit::Segments) => format!("{} segments", format::digits(value)),
        _ => format::index(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::metric::METRICS;

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
            values.map(|value| write(metric, value)).collect::<Vec<_>>()
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
