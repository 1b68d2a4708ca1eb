// SPDX-License-Identifier: GPL-2.0-or-later
//! `/metrics`: a depot's status as `OpenMetrics` text, in base units. `docs/depot/metrics.md` has the table.

use super::status::{Histogram, HopStatistics, Memory, Sessions, ShownCertificate, State, Status};
use http::HeaderValue;
use prometheus_client::{
    collector::Collector,
    encoding::{
        DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeMetric, MetricEncoder,
        text::encode,
    },
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge, info::Info},
    registry::{Registry, Unit},
};
use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    fmt,
};

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
pub(crate) fn text(status: Status, format: Format) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("longhaul_depot");
    let labels = [("id", status.id.clone()), ("version", status.version.clone())];
    registry.register("build", "The depot", Info::new(labels));
    registry.register_collector(Box::new(Exposed(status)));
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

#[derive(Debug)]
struct Exposed(Status);

type Labels<'a> = Vec<(&'static str, Cow<'a, str>)>;

/// What a family of metrics is called, and what it is.
struct Family {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
}

fn family(name: &'static str, help: &'static str) -> Family {
    Family { name, help, unit: None }
}

fn bytes(name: &'static str, help: &'static str) -> Family {
    Family { name, help, unit: Some(Unit::Bytes) }
}

fn seconds(name: &'static str, help: &'static str) -> Family {
    Family { name, help, unit: Some(Unit::Seconds) }
}

fn bytes_per_second(name: &'static str, help: &'static str) -> Family {
    Family { name, help, unit: Some(Unit::Other("bytes_per_second".to_owned())) }
}

/// A histogram as it is written.
struct Buckets<'h>(&'h Histogram);

impl EncodeMetric for Buckets<'_> {
    fn encode(&self, mut encoder: MetricEncoder) -> fmt::Result {
        let Self(Histogram { bounds_s, counts, sum_s }) = self;
        let bounds = bounds_s.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<_> = bounds.zip(counts.iter().copied()).collect();
        encoder.encode_histogram::<[(&str, &str); 0]>(*sum_s, counts.iter().sum(), &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

/// Writes families one after another.
struct Out<'a>(DescriptorEncoder<'a>);

impl Out<'_> {
    fn gauge<N: EncodeGaugeValue>(&mut self, family: &Family, value: N) -> fmt::Result {
        self.one(family, &ConstGauge::new(value))
    }

    fn counter<N: EncodeCounterValue>(&mut self, family: &Family, value: N) -> fmt::Result {
        self.one(family, &ConstCounter::new(value))
    }

    fn gauges<'l, N: EncodeGaugeValue>(
        &mut self,
        family: &Family,
        values: impl Iterator<Item = (Labels<'l>, N)>,
    ) -> fmt::Result {
        self.all(family, values.map(|(labels, value)| (labels, ConstGauge::new(value))))
    }

    fn counters<'l, N: EncodeCounterValue>(
        &mut self,
        family: &Family,
        values: impl Iterator<Item = (Labels<'l>, N)>,
    ) -> fmt::Result {
        self.all(family, values.map(|(labels, value)| (labels, ConstCounter::new(value))))
    }

    fn histogram(&mut self, family: &Family, histogram: &Histogram) -> fmt::Result {
        self.one(family, &Buckets(histogram))
    }

    fn one(&mut self, family: &Family, metric: &impl EncodeMetric) -> fmt::Result {
        let Family { name, help, unit } = family;
        let encoder = self.0.encode_descriptor(name, help, unit.as_ref(), metric.metric_type())?;
        metric.encode(encoder)
    }

    fn all<'l, M: EncodeMetric>(
        &mut self,
        family: &Family,
        metrics: impl Iterator<Item = (Labels<'l>, M)>,
    ) -> fmt::Result {
        let mut metrics = metrics.peekable();
        // A family without members is left out.
        let Some((_, first)) = metrics.peek() else { return Ok(()) };
        let Family { name, help, unit } = family;
        let kind = first.metric_type();
        let mut encoder = self.0.encode_descriptor(name, help, unit.as_ref(), kind)?;
        for (labels, metric) in metrics {
            metric.encode(encoder.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl Collector for Exposed {
    fn encode(&self, encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let (mut out, status) = (Out(encoder), &self.0);
        depot(&mut out, status)?;
        files(&mut out, status)?;
        connections(&mut out, status)?;
        requests(&mut out, status)?;
        sessions(&mut out, &status.sessions)?;
        hops_counted(&mut out, &status.hops)?;
        hops_measured(&mut out, &status.hops)
    }
}

fn depot(out: &mut Out<'_>, status: &Status) -> fmt::Result {
    let Status { connections, memory, .. } = status;
    out.gauge(&seconds("uptime", "Seconds since the start"), status.uptime_s)?;
    let draining = u32::from(status.state == State::Draining);
    out.gauge(
        &family("draining", "1 while the depot finishes requests before it stops"),
        draining,
    )?;
    out.gauge(&family("client_connections", "Open connections of clients"), connections.open)?;
    out.gauge(
        &family(
            "client_connections_limit",
            "Maximum of open client connections: limits.connections",
        ),
        connections.limit,
    )?;
    out.gauge(
        &family("held_connections", "Connections that other depots may hold open while idle"),
        connections.held,
    )?;
    out.gauge(
        &family("idle_upstream_connections", "Idle connections to next hops"),
        connections.idle_upstream,
    )?;
    held_memory(out, memory)?;
    out.gauge(&family("open_files", "Open files of the process"), memory.open_files)?;
    out.gauge(
        &family("open_files_limit", "Maximum of open files of the process"),
        memory.open_files_limit,
    )?;
    out.counter(
        &family("access_log_dropped_lines", "Lines of the log that could not be written"),
        status.access_log.dropped_lines,
    )?;
    out.gauges(
        &family("paced", "1 if packets to the peer are paced below TCP as configured, else 0"),
        status.paced.iter().map(|paced| {
            let labels = vec![
                ("peer", paced.peer.as_str().into()),
                ("pacing", paced.pacing.as_str().into()),
            ];
            (labels, u32::from(paced.in_force))
        }),
    )?;
    out.gauges(
        &family("detour_up", "1 if the depot of a detour is up, else 0"),
        status
            .detours
            .iter()
            .map(|it| (vec![("depot", it.depot.as_str().into())], u32::from(it.up))),
    )
}

fn held_memory(out: &mut Out<'_>, memory: &Memory) -> fmt::Result {
    out.gauge(
        &bytes("sockets_held", "Kernel memory for the sockets of transfers"),
        memory.sockets_held_bytes,
    )?;
    out.gauge(&bytes("pipes_held", "Bytes in pipes"), memory.pipes_held_bytes)?;
    out.gauge(&bytes("pipes_reserved", "Capacity of all pipes"), memory.pipes_reserved_bytes)?;
    out.gauge(
        &bytes("raised_buffers", "Capacity of the socket buffers that the depot has raised"),
        memory.raised_buffers_bytes,
    )?;
    out.gauge(
        &bytes("memory_limit", "Maximum for sockets and pipes together: limits.memory"),
        memory.limit_bytes,
    )?;
    out.gauge(
        &bytes(
            "memory_reserved",
            "What is reserved of limits.memory: what transfers hold, or would if all of them stopped",
        ),
        memory.reserved_bytes,
    )?;
    out.gauge(
        &bytes("memory_client_share", "The share of limits.memory of one client"),
        memory.client_share_bytes,
    )?;
    let largest = memory.largest_client.as_ref().map_or(0, |largest| largest.reserved_bytes);
    out.gauge(
        &bytes("memory_largest_client", "What is reserved for the client with the most"),
        largest,
    )?;
    out.counters(
        &family(
            "memory_refusals",
            "Transfers refused for lack of memory: all of it, what is kept for clients with few, or the client's share",
        ),
        memory.refusals.iter().map(|(of, n)| (vec![("of", of.as_str().into())], *n)),
    )?;
    for (name, help, value) in [
        ("host_tcp_memory", "What all TCP sockets of the machine hold", memory.host_tcp_bytes),
        (
            "host_tcp_memory_pressure",
            "With more the kernel is short of memory for TCP, and connections creep (tcp_mem)",
            memory.host_tcp_pressure_bytes,
        ),
    ] {
        out.gauges(&bytes(name, help), value.into_iter().map(|value| (Vec::new(), value)))?;
    }
    out.gauge(
        &bytes("resident_memory", "The process's memory, without pipes and sockets"),
        memory.resident_bytes,
    )
}

fn files(out: &mut Out<'_>, status: &Status) -> fmt::Result {
    if let Some(certificate) = &status.certificate {
        out.gauge(
            &seconds("certificate_expiry_timestamp", "End of validity of the depot's certificate"),
            certificate.not_after_unix_s,
        )?;
    }
    out.gauges(
        &family(
            "certificate_problem",
            "1 if clients refuse a certificate for this, or (refused) its file holds one that was not taken, else 0",
        ),
        status.certificates.iter().flat_map(|certificate| {
            ShownCertificate::PROBLEMS.iter().map(|problem| {
                let labels =
                    vec![("of", certificate.of.as_str().into()), ("problem", (*problem).into())];
                (labels, u32::from(certificate.has(problem)))
            })
        }),
    )?;
    let reloads = || status.reloads.iter().map(|it| (vec![("of", it.of.as_str().into())], it));
    out.gauges(
        &family("last_reload_successful", "1 if the last reload succeeded, else 0"),
        reloads().map(|(labels, it)| (labels, u32::from(it.good))),
    )?;
    out.gauges(
        &seconds("last_reload_success_timestamp", "Time of the last successful reload"),
        reloads().map(|(labels, it)| (labels, it.good_unix_s)),
    )
}

/// One label and a number.
fn by<'l>(
    label: &'static str,
    counts: &'l BTreeMap<String, u64>,
) -> impl Iterator<Item = (Labels<'l>, u64)> {
    counts.iter().map(move |(value, n)| (vec![(label, value.as_str().into())], *n))
}

fn connections(out: &mut Out<'_>, status: &Status) -> fmt::Result {
    out.counter(
        &family("accept_failures", "Failed attempts to accept a connection"),
        status.accept_failures,
    )?;
    out.counter(
        &family("panics", "Requests and connections that a defect of the depot has ended"),
        status.panics,
    )?;
    out.counters(
        &family("tls_handshake_failures", "Failed TLS handshakes, by side"),
        by("side", &status.tls_failures),
    )?;
    out.histogram(
        &seconds("connect", "To a connection with a next hop: name, TCP and TLS"),
        &status.times.connect,
    )?;
    out.counters(
        &family("connect_failures", "Failed connections to next hops, by error"),
        by("error", &status.connect_failures),
    )?;
    out.counters(&family("tickets", "Accepted tickets, by issuer"), by("issuer", &status.tickets))?;
    out.counter(
        &family("ticket_refusals", "Refused requests with a ticket"),
        status.ticket_refusals,
    )
}

fn requests(out: &mut Out<'_>, status: &Status) -> fmt::Result {
    out.gauge(&family("live_transfers", "Transfers under way"), status.live_transfers)?;
    let draining = &status.draining;
    out.gauge(
        &family("draining_processes", "Earlier depots that finish accepted requests"),
        draining.len(),
    )?;
    out.gauge(
        &family("draining_transfers", "Transfers of draining depots"),
        draining.iter().map(|one| one.live_transfers).sum::<usize>(),
    )?;
    out.counters(
        &family("requests", "Ended requests, by outcome"),
        status.totals.requests.iter().map(|(outcome, n)| (vec![("outcome", outcome.into())], *n)),
    )?;
    out.counters(
        &family("refusals", "Requests that the depot answered with an error of its own"),
        status.refusals.iter().map(|refusals| {
            let status = refusals.status.to_string().into();
            let error = refusals.error.as_str().into();
            (vec![("status", status), ("error", error)], refusals.requests)
        }),
    )?;
    out.histogram(
        &seconds("first_byte", "From a relayed request to the head of its response"),
        &status.times.first_byte,
    )?;
    out.histogram(
        &seconds("transfer_duration", "From a relayed request to the end of the transfer"),
        &status.times.duration,
    )?;
    let totals = &status.totals;
    let directions = |up, down| {
        [(vec![("direction", "up".into())], up), (vec![("direction", "down".into())], down)]
    };
    out.counters(
        &bytes("relayed", "Relayed body bytes: up to origins, down to clients"),
        directions(totals.up_bytes, totals.down_bytes).into_iter(),
    )?;
    out.counters(
        &bytes("spliced", "Relayed body bytes that moved in the kernel"),
        directions(totals.up_spliced_bytes, totals.down_spliced_bytes).into_iter(),
    )
}

fn sessions(out: &mut Out<'_>, sessions: &Sessions) -> fmt::Result {
    out.gauge(&family("sessions_open", "Sessions with both sides connected"), sessions.open)?;
    out.gauge(
        &family("session_meetings_waiting", "Connections that wait for their session's other end"),
        sessions.meetings_waiting,
    )?;
    out.counters(
        &family("sessions", "Ended or refused sessions, by target and outcome"),
        sessions.ended.iter().map(|ended| {
            let labels = vec![
                ("target", ended.target.as_str().into()),
                ("outcome", ended.outcome.as_str().into()),
            ];
            (labels, ended.sessions)
        }),
    )
}

/// The labels of a hop, and more.
fn of<'l>(
    hop: &'l HopStatistics,
    more: impl IntoIterator<Item = (&'static str, &'l str)>,
) -> Labels<'l> {
    let more = more.into_iter().map(|(key, value)| (key, value.into()));
    [("side", hop.side.as_str().into()), ("hop", hop.hop.as_str().into())]
        .into_iter()
        .chain(more)
        .collect()
}

/// A value for each hop and direction.
fn both_ways(
    hops: &[HopStatistics],
    values: impl Fn(&HopStatistics) -> [u64; 2],
) -> impl Iterator<Item = (Labels<'_>, u64)> {
    hops.iter().flat_map(move |hop| {
        let [up, down] = values(hop);
        [(of(hop, [("direction", "up")]), up), (of(hop, [("direction", "down")]), down)]
    })
}

fn hops_counted(out: &mut Out<'_>, hops: &[HopStatistics]) -> fmt::Result {
    out.counters(
        &family("hop_answers", "Ended responses of a next hop, by status"),
        hops.iter().flat_map(|hop| {
            hop.answers.iter().map(|(status, n)| (of(hop, [("status", status.as_str())]), *n))
        }),
    )?;
    out.counters(
        &family("hop_requests", "Ended requests, by hop and outcome"),
        hops.iter().flat_map(|hop| {
            hop.requests.iter().map(|(outcome, n)| (of(hop, [("outcome", outcome.as_str())]), *n))
        }),
    )?;
    out.counters(
        &bytes("hop_relayed", "Relayed body bytes, by hop"),
        both_ways(hops, |hop| [hop.up_bytes, hop.down_bytes]),
    )?;
    out.counters(
        &family("hop_retransmitted_segments", "TCP segments retransmitted to the hop"),
        hops.iter().map(|hop| (of(hop, []), hop.retransmitted_segments)),
    )?;
    out.counters(
        &seconds("hop_crept", "Time in which the kernel offered the hop less than an initial window, with all that came read"),
        hops.iter().map(|hop| (of(hop, []), hop.crept_us as f64 / 1e6)),
    )?;
    out.counters(
        &family("hop_stalls", "Transfers in which the hop was slower than stall.rate"),
        hops.iter().map(|hop| (of(hop, []), hop.stalls)),
    )
}

fn hops_measured(out: &mut Out<'_>, hops: &[HopStatistics]) -> fmt::Result {
    out.gauges(
        &family("hop_connections", "Connections with a transfer, by congestion control in force"),
        hops.iter().flat_map(|hop| {
            let connections = hop.connections.iter();
            connections.map(|(name, n)| (of(hop, [("congestion", name.as_str())]), *n))
        }),
    )?;
    out.gauges(
        &family("hop_streams", "Connections with a transfer, with those that have joined one"),
        hops.iter().map(|hop| (of(hop, []), hop.streams)),
    )?;
    out.gauges(
        &bytes_per_second("hop_rate", "Rate over the last second, by hop"),
        both_ways(hops, |hop| [hop.up_bps / 8, hop.down_bps / 8]),
    )?;
    let known = |value: fn(&HopStatistics) -> Option<f64>| {
        hops.iter().filter_map(move |hop| Some((of(hop, []), value(hop)?)))
    };
    out.gauges(
        &seconds("hop_rtt", "Mean of the smoothed round-trip times of connections with a transfer"),
        known(|hop| Some(f64::from(hop.rtt_us?) / 1e6)),
    )?;
    out.gauges(
        &seconds("hop_min_rtt", "Minimum round-trip time of connections with a transfer"),
        known(|hop| Some(f64::from(hop.min_rtt_us?) / 1e6)),
    )?;
    out.gauges(
        &bytes("hop_cwnd", "Sum of the congestion windows of connections with a transfer"),
        hops.iter().map(|hop| (of(hop, []), hop.cwnd_bytes)),
    )?;
    out.gauges(
        &bytes("hop_sndbuf", "Sum of the send buffers of connections with a transfer"),
        hops.iter().map(|hop| (of(hop, []), hop.sndbuf_bytes)),
    )?;
    out.gauges(
        &bytes("hop_rcvbuf", "Sum of the receive buffers of connections with a transfer"),
        hops.iter().map(|hop| (of(hop, []), hop.rcvbuf_bytes)),
    )?;
    out.gauges(
        &bytes_per_second("hop_delivery_rate", "Last rate at which the hop acknowledged data"),
        known(|hop| Some(hop.delivery_rate_bps? as f64 / 8.0)),
    )
}
