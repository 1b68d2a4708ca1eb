// SPDX-License-Identifier: GPL-2.0-or-later
//! How a flow starts: what its client has received by when, in the first seconds.

use record::{Entity, FlowSummary, Quantity, Series, Summary};

/// Seconds of a start.
pub const SPAN_S: f64 = 2.0;
/// Of a run with more flows than this no start is kept: each would be a picture.
const MOST_FLOWS: usize = 4;

/// The start of one flow.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    pub flow: String,
    pub client: Option<String>,
    /// Seconds since the flow started, and bytes received until then; the first is 0, 0.
    pub points: Vec<(f64, f64)>,
}

/// Of each flow of a run that has an end and was sampled.
pub fn starts(summary: &Summary, series: &Series) -> Vec<Start> {
    if summary.flows.len() > MOST_FLOWS {
        return Vec::new();
    }
    let with_end = summary.flows.iter().filter(|flow| flow.bytes_expected.is_some());
    with_end.filter_map(|flow| start(flow, series)).collect()
}

fn start(flow: &FlowSummary, series: &Series) -> Option<Start> {
    let sampled = series.curve(&Entity::Flow(flow.name.clone()), Quantity::ReceivedBytes)?;
    let seconds = flow.seconds?;
    let since_start = sampled.time_s.iter().map(|time_s| time_s - flow.start_s);
    let samples = since_start.zip(sampled.value.iter().copied());
    // What was sampled later than the end is the end, whose time is known better.
    let samples = samples.filter(|(time_s, _)| *time_s > 0.0 && *time_s < seconds.min(SPAN_S));
    let samples: Vec<_> = samples.collect();
    let mut points = vec![(0.0, 0.0)];
    // Where sampling begins with the first bytes, there were none one sample before.
    if let [(first_s, _), (second_s, _), ..] = samples[..]
        && 2.0 * first_s > second_s
    {
        points.push((2.0 * first_s - second_s, 0.0));
    }
    points.extend(samples);
    if seconds <= SPAN_S {
        points.push((seconds, flow.bytes as f64));
    }
    let (flow, client) = (flow.name.clone(), flow.client.clone());
    (points.len() > 1).then_some(Start { flow, client, points })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(seconds: f64) -> Summary {
        let flow = FlowSummary {
            name: "f".into(),
            bytes: 1000,
            bytes_expected: Some(1000),
            start_s: 10.0,
            seconds: Some(seconds),
            ..Default::default()
        };
        Summary { flows: vec![flow], ..Default::default() }
    }

    fn series() -> Series {
        let mut series = Series::default();
        let flow = Entity::Flow("f".into());
        for (time_s, bytes) in [(9.75, 0.0), (10.5, 200.0), (11.5, 600.0), (12.5, 900.0)] {
            series.push(&flow, Quantity::ReceivedBytes, time_s, bytes);
        }
        series
    }

    #[test]
    fn a_start_is_the_first_two_seconds_and_ends_with_the_flow() {
        let of = |seconds| starts(&summary(seconds), &series()).remove(0).points;
        assert_eq!(of(3.0), [(0.0, 0.0), (0.5, 200.0), (1.5, 600.0)]);
        assert_eq!(of(1.25), [(0.0, 0.0), (0.5, 200.0), (1.25, 1000.0)]);
    }

    #[test]
    fn start_begins_with_zero_bytes_before_first_sample() {
        let mut series = Series::default();
        for (time_s, bytes) in [(10.5, 200.0), (10.75, 600.0)] {
            series.push(&Entity::Flow("f".into()), Quantity::ReceivedBytes, time_s, bytes);
        }
        let points = starts(&summary(3.0), &series).remove(0).points;
        assert_eq!(points, [(0.0, 0.0), (0.25, 0.0), (0.5, 200.0), (0.75, 600.0)]);
    }

    #[test]
    fn start_needs_an_end_samples_and_few_flows() {
        let mut endless = summary(3.0);
        endless.flows[0].bytes_expected = None;
        assert_eq!(starts(&endless, &series()), []);
        assert_eq!(starts(&summary(3.0), &Series::default()), []);
        let mut many = summary(3.0);
        many.flows = vec![many.flows[0].clone(); MOST_FLOWS + 1];
        assert_eq!(starts(&many, &series()), []);
    }
}
