// SPDX-License-Identifier: GPL-2.0-or-later
//! `/metrics`: a depot's status as `OpenMetrics` text, in base units. `docs/depot/metrics.md` has the table.

use super::{
    statistics::{Families, Family, Kind, Labels, Sample, Statistic, Value},
    status::{Histogram, ShownCertificate, State, Status},
};
use http::HeaderValue;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, text::encode},
    metrics::{MetricType, info::Info},
    registry::{Registry, Unit},
};
use std::{collections::HashMap, fmt};

/// How the text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// As `OpenMetrics` 1.0 has it.
    OpenMetrics,
    /// As Prometheus had it before, 0.0.4.
    Text,
}

impl Format {
    /// The format that a client accepts: `OpenMetrics` if its `Accept` names it or is missing.
    pub(crate) fn wanted<'v>(accept: impl IntoIterator<Item = &'v HeaderValue>) -> Self {
        let mut accept = accept.into_iter().peekable();
        let open = |value: &HeaderValue| {
            value.to_str().is_ok_and(|value| value.contains("application/openmetrics-text"))
        };
        if accept.peek().is_none() || accept.any(open) { Self::OpenMetrics } else { Self::Text }
    }

    /// The type of the text.
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// The text for a status.
pub(crate) fn text(status: &Status, format: Format) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("longhaul_depot");
    let labels = [("id", status.id.clone()), ("version", status.version.clone())];
    registry.register("build", "The depot", Info::new(labels));
    registry.register_collector(Box::new(Exposed(families(status))));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(match format {
        Format::OpenMetrics => text,
        Format::Text => older(&text),
    })
}

/// The same in the older Prometheus text format: a counter's metadata uses the name of its samples, there are
/// no units and no end marker, and metrics without a numeric meaning are gauges.
fn older(open: &str) -> String {
    let mut suffixes = HashMap::new();
    for line in open.lines() {
        let kind = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '));
        match kind {
            Some((name, "counter")) => suffixes.insert(name, "_total"),
            Some((name, "info")) => suffixes.insert(name, "_info"),
            _ => None,
        };
    }
    let mut text = String::with_capacity(open.len());
    for line in open.lines() {
        let Some(rest) = line.strip_prefix("# ") else {
            text.extend([line, "\n"]);
            continue;
        };
        let mut words = rest.splitn(3, ' ');
        let (Some(what @ ("HELP" | "TYPE")), Some(name), Some(rest)) =
            (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let suffix = suffixes.get(name).copied().unwrap_or_default();
        let rest = if (what, rest) == ("TYPE", "info") { "gauge" } else { rest };
        text.extend(["# ", what, " ", name, suffix, " ", rest, "\n"]);
    }
    text
}

/// All metrics of a status.
fn families(status: &Status) -> Families {
    let (mut labels, mut families) = (Labels::new(), Families::default());
    status.collect(&Statistic::gauge("", ""), &mut labels, &mut families);
    for (metric, help, value) in [
        (
            "draining",
            "1 while the depot finishes requests before it stops",
            usize::from(status.state == State::Draining),
        ),
        (
            "draining_processes",
            "Earlier depots that finish accepted requests",
            status.draining.len(),
        ),
        (
            "draining_transfers",
            "Transfers of draining depots",
            status.draining.iter().map(|one| one.live_transfers).sum(),
        ),
    ] {
        families.add(&Statistic::gauge(metric, help), &labels, Sample::Number(value as f64));
    }
    let largest = status.memory.largest_client.as_ref().map_or(0, |largest| largest.reserved_bytes);
    let help = "What is reserved for the client with the most";
    let statistic =
        Statistic { key: "reserved_bytes", ..Statistic::gauge("memory_largest_client", help) };
    families.add(&statistic, &labels, Sample::Number(largest as f64));
    let statistic = Statistic::gauge(
        "certificate_problem",
        "1 if clients refuse a certificate for this, or (refused) its file holds one that was not taken, else 0",
    );
    for certificate in &status.certificates {
        for problem in ShownCertificate::PROBLEMS {
            let labels = vec![("of", certificate.of.clone()), ("problem", problem.to_owned())];
            families.add(&statistic, &labels, Sample::Number(certificate.has(problem).into()));
        }
    }
    families
}

#[derive(Debug)]
struct Exposed(Families);

impl Collector for Exposed {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        for Family { statistic, samples } in &self.0.0 {
            let (kind, (unit, divisor)) = match (&samples[0].1, statistic.kind) {
                (Sample::Durations(_), _) => (MetricType::Histogram, (Some(Unit::Seconds), 1.0)),
                (_, Kind::counter) => (MetricType::Counter, base_unit(statistic)),
                _ => (MetricType::Gauge, base_unit(statistic)),
            };
            let (name, help) = (statistic.metric, statistic.help());
            let mut family = encoder.encode_descriptor(name, &help, unit.as_ref(), kind)?;
            for (labels, sample) in samples {
                if labels.is_empty() {
                    write(&mut family, statistic.kind, sample, divisor)?;
                } else {
                    write(&mut family.encode_family(labels)?, statistic.kind, sample, divisor)?;
                }
            }
        }
        Ok(())
    }
}

/// The unit of a metric, and what its statistic is divided by.
fn base_unit(statistic: &Statistic) -> (Option<Unit>, f64) {
    match statistic.unit() {
        "bytes" => (Some(Unit::Bytes), 1.0),
        "s" => (Some(Unit::Seconds), 1.0),
        "us" => (Some(Unit::Seconds), 1e6),
        "bps" => (Some(Unit::Other("bytes_per_second".to_owned())), 8.0),
        _ => (None, 1.0),
    }
}

type NoLabels = [(&'static str, &'static str); 0];

/// Writes one sample; a number that is whole without a fraction.
fn write(
    encoder: &mut MetricEncoder<'_>,
    kind: Kind,
    sample: &Sample,
    divisor: f64,
) -> fmt::Result {
    let real = match sample {
        Sample::Number(n) => n / divisor,
        Sample::Durations(Histogram { bounds_s, counts, sum_s }) => {
            let bounds = bounds_s.iter().copied().chain([f64::INFINITY]);
            let buckets: Vec<_> = bounds.zip(counts.iter().copied()).collect();
            let all = counts.iter().sum();
            return encoder.encode_histogram::<NoLabels>(*sum_s, all, &buckets, None);
        }
    };
    let whole = (real >= 0.0 && real.fract() == 0.0).then_some(real as u64);
    match (kind, whole) {
        (Kind::counter, Some(n)) => encoder.encode_counter::<NoLabels, _, f64>(&n, None),
        (Kind::counter, None) => encoder.encode_counter::<NoLabels, _, f64>(&real, None),
        (_, Some(n)) => encoder.encode_gauge(&n),
        (_, None) => encoder.encode_gauge(&real),
    }
}
