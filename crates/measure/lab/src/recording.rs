// SPDX-License-Identifier: GPL-2.0-or-later
//! Turns the observations of a run into its record.

use crate::{
    client,
    drive::Driven,
    ended::Ending,
    error::LabError,
    pacing_gateways,
    sampler::{HopObservation, link_entity},
    servers::{FlowPlan, has_stock_client},
    stage::Stage,
    traffic,
};
use experiment::manifest::MadeBy;
use host::TcpMemory;
use record::{
    Direction, FlowSummary, HopSummary, LinkSummary, Manifest, Metrics, Record, Summary, manifest,
};
use scenario::{PathLimits, Routes, Run};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant, SystemTime},
};
use wan::{Health, LinkState, Snapshot};

/// Everything that a record is made of.
pub struct Observed<'a> {
    /// By which it was run.
    pub method: MadeBy<'a>,
    /// Whether a node is on this machine.
    pub is_here: &'a dyn Fn(&str) -> bool,
    /// The run as run.
    pub run: &'a Run,
    /// Its flows.
    pub plans: &'a [FlowPlan],
    /// What took place.
    pub driven: Driven,
    /// Bytes received, and whether they are the right ones, flow by flow.
    pub verified: &'a [(u64, Option<bool>)],
    /// Retransmission timeouts of each hop's sender, where they are known.
    pub timeouts: &'a [Option<u64>],
    /// Why what paced the senders makes the run not count.
    pub pacing_faults: Vec<String>,
    /// The gateways of hosts with classes.
    pub gateways: &'a [pacing_gateways::Ended],
    /// What emulated links did.
    pub links: Option<&'a EmulatedLinks>,
    /// Time zero.
    pub zero: Instant,
    /// The same by the calendar.
    pub started: SystemTime,
    /// The nodes' settings.
    pub sysctls: BTreeMap<String, manifest::NodeSettings>,
    /// longhaul's congestion controls, with their parameters.
    pub congestion_controls: &'a BTreeMap<String, manifest::CongestionControl>,
    /// How long the machine's processors worked while it took place, where all of it was on this machine.
    pub processor_time: Option<Duration>,
    /// Captures of nodes.
    pub captures: Vec<manifest::Capture>,
    /// The command line.
    pub command: &'a [String],
}

/// The links of an emulated run.
pub struct EmulatedLinks {
    /// The names of their directions.
    pub names: Vec<String>,
    /// What they did.
    pub snapshot: Snapshot,
}

impl EmulatedLinks {
    fn directions(&self) -> impl Iterator<Item = (&String, &LinkState)> {
        self.names.iter().zip(&self.snapshot.directed_links)
    }
}

/// Kernel settings that bear on transport.
const SYSCTLS: [&str; 8] = [
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_window_scaling",
];

/// Reads the settings of each node that is here.
pub fn sysctls(
    stage: &dyn Stage,
    run: &Run,
) -> Result<BTreeMap<String, manifest::NodeSettings>, LabError> {
    let mut nodes = BTreeMap::new();
    for node in run.nodes.iter().filter(|node| stage.has(&node.name)) {
        let namespace = stage.namespace(&node.name)?;
        let keys = SYSCTLS.iter().copied().chain(node.sysctl.keys().map(String::as_str));
        // A kernel may lack one, or show it to the first namespace only.
        let sysctls =
            keys.filter_map(|key| Some((key.to_owned(), namespace.sysctl(key).ok()?))).collect();
        nodes.insert(node.name.clone(), manifest::NodeSettings { sysctls });
    }
    Ok(nodes)
}

/// Makes the record.
pub fn record(mut observed: Observed<'_>) -> Record {
    let mut series = std::mem::take(&mut observed.driven.seen.series);
    for (name, directed_link) in observed.links.iter().flat_map(|links| links.directions()) {
        series.add_throughput(
            &link_entity(name),
            directed_link.monitor_width.as_secs_f64(),
            &directed_link.monitor,
        );
    }
    let mut hops = observed.driven.seen.hops.iter().zip(observed.timeouts.iter().copied());
    let routes = observed.run.routes();
    let flows: Vec<FlowSummary> =
        (0..observed.plans.len()).map(|n| flow_summary(&observed, n, &routes, &mut hops)).collect();
    let links = link_summaries(&observed, active_s(&observed, &flows));
    let prepares =
        |name: &String| observed.run.flows.iter().any(|flow| flow.prepares && flow.name == *name);
    let flows: Vec<_> = flows.into_iter().filter(|flow| !prepares(&flow.name)).collect();
    let manifest = manifest(&observed);
    let traffic::Outcome { summaries: traffic, files, .. } = observed.driven.traffic;
    let content = flows.iter().map(|flow| flow.bytes).chain(traffic.iter().map(|it| it.bytes));
    let processor_s = observed.processor_time.map(|busy| busy.as_secs_f64());
    let metrics = Metrics::compute(&flows, &links, &series)
        .with_traffic(&traffic, &files)
        .with_processor_time(processor_s, content.sum());
    let summary = Summary { flows, links, traffic, metrics };
    Record { manifest, series, summary, files }
}

/// The whole run if it ends by the clock; otherwise from the first client's start to the last one's end.
fn active_s(observed: &Observed<'_>, flows: &[FlowSummary]) -> f64 {
    let (begun, over) = observed.driven.took_place;
    if observed.run.duration.is_some() {
        return (over - begun).as_secs_f64();
    }
    let start = flows.iter().map(|flow| flow.start_s).fold(f64::INFINITY, f64::min);
    let end = flows.iter().map(|flow| flow.end_s).fold(0.0, f64::max);
    end - start
}

fn flow_summary<'a>(
    observed: &Observed<'_>,
    n: usize,
    routes: &Routes,
    seen: &mut impl Iterator<Item = (&'a HopObservation, Option<u64>)>,
) -> FlowSummary {
    let (plan, ended) = (&observed.plans[n], &observed.driven.ended[n]);
    let (bytes, sha256_ok) = observed.verified[n];
    let start_s = (ended.start - observed.zero).as_secs_f64();
    let end_s = (ended.end - observed.zero).as_secs_f64();
    let seconds = end_s - start_s;
    let hops_of_flow: Vec<_> = plan.flow.hops().collect();
    let hops: Vec<HopSummary> = plan
        .hops
        .iter()
        .zip(hops_of_flow.iter().cycle())
        .map(|(place, hop)| {
            let (seen, timeouts) = seen.next().expect("as many hops were watched as there are");
            let limits = observed.run.path_limits(routes, hop.from, hop.to);
            HopSummary {
                index: place.index,
                stream: place.stream,
                from: hop.from.to_owned(),
                to: hop.to.to_owned(),
                timeouts,
                ..hop_summary(seen, limits)
            }
        })
        .collect();
    FlowSummary {
        name: plan.flow.name.clone(),
        client: has_stock_client(&plan.flow).then(|| client::program(&plan.flow).to_owned()),
        reverse: plan.flow.reverse,
        bytes,
        bytes_expected: plan.flow.bytes.map(units::Bytes::get),
        start_s,
        end_s,
        seconds: Some(seconds),
        goodput_bps: Some(record::goodput_bps(bytes, seconds)),
        prediction: None,
        retransmits: hops.iter().map(|hop| hop.retransmits).sum(),
        timeouts: hops.iter().map(|hop| hop.timeouts).sum(),
        sha256_ok,
        exit_code: ended.exit_code(),
        timed_out: plan.flow.bytes.is_some() && ended.how == Ending::Cut,
        outcome: outcome(observed, n),
        hops,
    }
}

/// What was seen of a hop, and what its path gives at best.
fn hop_summary(seen: &HopObservation, limits: Option<PathLimits>) -> HopSummary {
    let carrier = seen.carrier();
    let was_seen = carrier.is_some();
    HopSummary {
        congestion_control: carrier.map(|socket| socket.congestion_control.clone()),
        bytes: was_seen.then(|| seen.total(|socket| socket.info.acked.get())),
        retransmits: was_seen.then(|| seen.total(|socket| socket.info.retransmits.into())),
        min_rtt_us: carrier.and_then(|socket| socket.info.min_rtt_us).map(f64::from),
        srtt_us: carrier.map(|socket| socket.info.rtt_us.into()),
        bottleneck_bps: limits.and_then(|limits| limits.bottleneck).map(units::Rate::bps),
        base_rtt_us: limits.map(|limits| limits.base_rtt.as_nanos() as f64 / 1e3),
        segment_bytes: limits.map(|limits| limits.segment.get()),
        limited: seen.limits.times().shares(),
        ..HopSummary::default()
    }
}

/// The outcome of the n-th flow.
fn outcome(observed: &Observed<'_>, n: usize) -> String {
    let bytes = observed.plans[n].flow.bytes.map(units::Bytes::get);
    observed.driven.ended[n].outcome(observed.run, bytes, observed.verified[n].1)
}

fn link_summaries(observed: &Observed<'_>, active_s: f64) -> Vec<LinkSummary> {
    let directions = observed.run.links.iter().flat_map(|link| {
        [(link, Direction::Forward, &link.forward), (link, Direction::Backward, &link.backward)]
    });
    let emulated = observed.links.iter().flat_map(|links| &links.snapshot.directed_links);
    directions
        .zip(emulated)
        .map(|((link, direction, settings), directed_link)| {
            let (counters, spacing) = (&directed_link.counters, directed_link.spacing.as_ref());
            let counted = LinkSummary::from_counters(&link.name, direction, counters, spacing);
            let rate_bps = settings.rate.map(units::Rate::bps);
            LinkSummary {
                rate_bps,
                utilisation: rate_bps.map(|rate| {
                    let taken = counted.bytes + counted.gap_bytes;
                    taken as f64 * 8.0 / (rate as f64 * active_s)
                }),
                ..counted
            }
        })
        .collect()
}

fn manifest(observed: &Observed<'_>) -> Manifest {
    let run = observed.run;
    let sockets = sockets(observed);
    let reasons = invalid_reasons(observed, &sockets);
    let stock = run.flows.iter().filter(|flow| has_stock_client(flow));
    let received = stock.clone().filter(|flow| (observed.is_here)(&flow.to));
    let sent = stock.filter(|flow| (observed.is_here)(&flow.from));
    let programs = received.map(client::program).chain(sent.take(1).map(|_| "nginx"));
    Manifest {
        versions: experiment::versions(programs),
        nodes: observed.sysctls.clone(),
        congestion_controls: observed.congestion_controls.clone(),
        sockets,
        // What the emulator's devices offer to the kernel, which uses it where a program sends TCP.
        offloads: observed
            .links
            .map(|_| ("wan*", ["tx-checksum", "tso4", "tso6", "tso-ecn"]))
            .into_iter()
            .map(|(device, names)| (device.to_owned(), names.map(str::to_owned).into()))
            .collect(),
        valid: reasons.is_empty(),
        invalid_reasons: reasons,
        emulator: observed.links.map(|links| emulator(observed, &links.snapshot.health)),
        captures: observed.captures.clone(),
        events: observed.driven.events.clone(),
        ..experiment::manifest::of(run, observed.method, observed.command, observed.started)
    }
}

fn emulator(observed: &Observed<'_>, health: &Health) -> manifest::EmulatorHealth {
    let more: [(&str, serde_json::Value); 9] = [
        ("write_errors", health.write_errors.into()),
        ("malformed", health.malformed.into()),
        ("devices_lost", health.devices_lost.into()),
        ("starved_s", health.starved_s.into()),
        ("stood_still_s", health.stood_still_s.into()),
        ("cpu_s", health.cpu_s.into()),
        ("real_time", health.real_time.into()),
        ("gateways", pacing_gateways::on_record(observed.gateways)),
        ("generator", observed.driven.traffic.on_record.clone()),
    ];
    manifest::EmulatorHealth {
        deliveries: health.deliveries,
        late: health.late,
        lateness_p50_us: health.lateness_p50_us,
        lateness_p99_us: health.lateness_p99_us,
        lateness_max_us: health.lateness_max_us,
        device_drops: health.device_drops,
        more: more.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
    }
}

fn sockets(observed: &Observed<'_>) -> Vec<manifest::HopSocket> {
    let places =
        observed.plans.iter().flat_map(|plan| plan.hops.iter().zip(plan.flow.cc.iter().cycle()));
    places
        .zip(&observed.driven.seen.hops)
        .flat_map(|((place, asked), seen)| {
            seen.connections.iter().map(|socket| manifest::HopSocket {
                flow: place.flow.clone(),
                hop: place.index,
                node: place.node.clone(),
                local: socket.local.to_string(),
                peer: socket.peer.to_string(),
                congestion_control_asked: Some(asked.clone()),
                congestion_control: socket.congestion_control.clone(),
                sndbuf_bytes: Some(socket.sndbuf_bytes),
                rcvbuf_bytes: Some(socket.rcvbuf_bytes),
            })
        })
        .collect()
}

/// What a kernel short of memory does to a run.
fn short_of_memory(memory: TcpMemory) -> String {
    let mb = |bytes: units::Bytes| bytes.get() as f64 / 1e6;
    let ends = memory.pressure.map_or(0.0, |pressure| mb(pressure.ends));
    format!(
        "all TCP sockets of the machine held {:.1} MB, and from {ends:.1} MB on (net.ipv4.tcp_mem) the kernel may keep receive \
         windows at a few segments",
        mb(memory.held)
    )
}

/// Why the run is not to be believed: the emulator could not keep up, the kernel was short of memory for TCP, or a socket ran
/// with another congestion control than the scenario says.
fn invalid_reasons(observed: &Observed<'_>, sockets: &[manifest::HopSocket]) -> Vec<String> {
    let mut reasons: Vec<String> =
        observed.links.iter().flat_map(|links| links.snapshot.health.faults()).collect();
    reasons.extend(observed.driven.seen.short_of_memory.map(short_of_memory));
    let prepares = |plan: &FlowPlan| plan.flow.prepares && (observed.is_here)(&plan.flow.to);
    for (n, plan) in observed.plans.iter().enumerate().filter(|(_, plan)| prepares(plan)) {
        let outcome = outcome(observed, n);
        if outcome != "complete" {
            reasons.push(plan.flow.unprepared(&outcome));
        }
    }
    for (plan, ended) in observed.plans.iter().zip(&observed.driven.ended) {
        if let (None, Ending::Failed(why)) = (plan.flow.bytes, &ended.how) {
            reasons.push(format!("flow {} ended before the run: {why}", plan.flow.name));
        }
    }
    reasons.extend(observed.driven.traffic.faults.iter().cloned());
    reasons.extend(observed.pacing_faults.iter().cloned());
    for socket in sockets {
        let asked = socket.congestion_control_asked.as_deref().unwrap_or_default();
        if asked != socket.congestion_control {
            reasons.push(format!(
                "hop {} of flow {} ran with {}, not with {asked}",
                socket.hop, socket.flow, socket.congestion_control
            ));
        }
    }
    let ended = observed.plans.iter().zip(&observed.driven.ended);
    let places = ended.flat_map(|(plan, ended)| plan.hops.iter().map(move |hop| (hop, ended)));
    for ((place, ended), seen) in places.zip(&observed.driven.seen.hops) {
        if seen.connections.is_empty() && ended.has_begun() && (observed.is_here)(&place.node) {
            reasons.push(format!(
                "hop {} of flow {} was not seen, so its congestion control is not known",
                place.index, place.flow
            ));
        }
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortage_of_memory_is_said_with_both_figures() {
        let pressure = host::Pressure::parse("1000 2000 3000", 4096);
        let said = short_of_memory(TcpMemory { held: units::Bytes::new(5_000_000), pressure });
        assert!(said.contains("held 5.0 MB, and from 4.1 MB on"), "{said}");
    }

    #[test]
    fn hop_without_socket_samples_has_its_best_path_values() {
        let text = "title = \"t\"\n[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n\
            [[link]]\nbetween = [\"a\", \"b\"]\nrate = \"80mbit\"\ndelay = \"10ms\"\noverhead = 14\n\
            [[flow]]\nfrom = \"a\"\nto = \"b\"\nbytes = \"1MB\"\n";
        let run = scenario::Scenario::parse(text, "recording", &[""; 0]).unwrap().runs.remove(0);
        let hop = hop_summary(&HopObservation::default(), run.path_limits(&run.routes(), "a", "b"));
        assert_eq!((hop.bottleneck_bps, hop.segment_bytes), (Some(80_000_000), Some(1514)));
        // 20 ms, 1514 bytes at 80 Mb/s there and 66 back.
        assert_eq!(hop.base_rtt_us, Some(20_000.0 + 151.4 + 6.6));
        assert_eq!((hop.bytes, hop.min_rtt_us), (None, None));
        assert_eq!(hop_summary(&HopObservation::default(), None).base_rtt_us, None);
    }
}
