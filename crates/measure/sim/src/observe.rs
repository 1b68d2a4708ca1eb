// SPDX-License-Identifier: GPL-2.0-or-later
//! What a run shows of itself: samples while it goes on, a summary at any time.

use crate::{flows::FlowState, simulation_state::SimulationState};
use congestion::Decision;
use netmodel::Counters;
use record::{
    Direction, Entity, FlowSummary, HopSummary, LinkSummary, Metrics, Quantity, Series, Summary,
};
use scenario::Run;
use units::{Duration, Timestamp};

/// Samples of a run.
#[derive(Debug)]
pub(crate) struct Observer {
    series: Series,
    directions: Vec<(Entity, Counters)>,
    flows: Vec<Entity>,
    hops: Vec<Vec<Entity>>,
}

fn direction_entities(run: &Run) -> impl Iterator<Item = Entity> {
    run.links.iter().flat_map(|link| {
        [Direction::Forward, Direction::Backward]
            .map(|direction| Entity::Link { name: link.name.clone(), direction })
    })
}

impl Observer {
    pub(crate) fn new(run: &Run, flows: &[FlowState]) -> Self {
        let hops = |(flow, state): (&scenario::Flow, &FlowState)| {
            let count = state.hops.len() * state.streams.len();
            (0..count as u32).map(|index| Entity::Hop { flow: flow.name.clone(), index }).collect()
        };
        Self {
            series: Series::default(),
            directions: direction_entities(run)
                .map(|entity| (entity, Counters::default()))
                .collect(),
            flows: run.flows.iter().map(|flow| Entity::Flow(flow.name.clone())).collect(),
            hops: run.flows.iter().zip(flows).map(hops).collect(),
        }
    }

    /// Samples everything as it is now.
    pub(crate) fn sample(&mut self, sim: &mut SimulationState, flows: &[FlowState]) {
        let now_s = sim.now.as_secs_f64();
        for ((entity, before), direction) in
            self.directions.iter_mut().zip(&mut sim.network.directions)
        {
            let counters = *direction.link.counters();
            let queue = direction.link.queue(sim.now).bytes;
            let dropped = counters.queue_drops - before.queue_drops;
            let lost = counters.losses - before.losses;
            for (quantity, value) in [
                (Quantity::QueueBytes, queue),
                (Quantity::Drops, dropped),
                (Quantity::Losses, lost),
            ] {
                self.series.push(entity, quantity, now_s, value as f64);
            }
            *before = counters;
        }
        for (n, flow) in flows.iter().enumerate() {
            if flow.started.is_none() || flow.ended.is_some_and(|ended| ended < sim.now) {
                continue;
            }
            let received = flow.received(sim);
            self.series.push(&self.flows[n], Quantity::ReceivedBytes, now_s, received as f64);
            let connections = flow.streams.iter().flat_map(|stream| &stream.connections);
            for (at, taken) in connections.enumerate() {
                let hop = &flow.hops[at % flow.hops.len()];
                let Some(taken) = taken else { continue };
                let Some(connection) = sim.connections.get(taken.number) else { continue };
                let (entity, series) = (&self.hops[n][at], &mut self.series);
                let mut push = |quantity, value| series.push(entity, quantity, now_s, value);
                let (decision, carried) = (connection.decision(), taken.carried(sim));
                let mss = f64::from(hop.mss);
                push(Quantity::AckedBytes, carried.acknowledged as f64 * mss);
                push(Quantity::DeliveredBytes, carried.delivered as f64 * mss);
                push(Quantity::CwndSegments, decision.cwnd.into());
                if decision.ssthresh < Decision::INFINITE_SSTHRESH {
                    push(Quantity::SsthreshSegments, decision.ssthresh.into());
                }
                push(Quantity::Retransmits, carried.retransmits as f64);
                let paced = connection.pacing_rate();
                if paced > 0 {
                    push(Quantity::PacingRateBps, paced as f64 * 8.0);
                }
                let (smoothed, min) = connection.rtt();
                for (quantity, rtt) in [(Quantity::SrttUs, smoothed), (Quantity::MinRttUs, min)] {
                    if let Some(rtt) = rtt {
                        push(quantity, micros(rtt));
                    }
                }
            }
        }
    }

    /// The samples so far, with what the links' monitors counted.
    pub(crate) fn series(&self, sim: &SimulationState) -> Series {
        let mut series = self.series.clone();
        for ((entity, _), direction) in self.directions.iter().zip(&sim.network.directions) {
            let (width, bins) = (direction.link.monitor().width(), direction.link.monitor().bins());
            // What waits has been counted at the time at which it will leave.
            let begun = sim.now.as_nanos().div_ceil(width.as_nanos()) as usize;
            let bins = &bins[..begun.min(bins.len())];
            series.add_throughput(entity, width.as_secs_f64(), bins);
        }
        series
    }

    /// What came out so far, with the metrics of these samples.
    pub(crate) fn summary(
        run: &Run,
        sim: &mut SimulationState,
        flows: &[FlowState],
        series: &Series,
    ) -> Summary {
        let flow_summaries: Vec<FlowSummary> = run
            .flows
            .iter()
            .zip(flows)
            .filter(|(flow, _)| !flow.prepares)
            .map(|(flow, state)| flow_summary(run, flow, state, sim))
            .collect();
        let links = link_summaries(run, sim);
        let metrics = Metrics::compute(&flow_summaries, &links, series);
        Summary { flows: flow_summaries, links, metrics, ..Summary::default() }
    }
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

fn flow_summary(
    run: &Run,
    flow: &scenario::Flow,
    state: &FlowState,
    sim: &SimulationState,
) -> FlowSummary {
    let start = state.started.unwrap_or(Timestamp::ZERO + flow.start);
    let end = state.ended.unwrap_or(sim.now.max(start));
    let seconds = end.since(start).as_secs_f64();
    let bytes = state.received(sim);
    let hops: Vec<HopSummary> = hop_summaries(state, sim);
    FlowSummary {
        name: flow.name.clone(),
        client: None,
        reverse: flow.reverse,
        bytes,
        bytes_expected: flow.bytes.map(units::Bytes::get),
        start_s: start.as_secs_f64(),
        end_s: end.as_secs_f64(),
        seconds: Some(seconds),
        goodput_bps: Some(record::goodput_bps(bytes, seconds)),
        retransmits: hops.iter().map(|hop| hop.retransmits).sum(),
        timeouts: hops.iter().map(|hop| hop.timeouts).sum(),
        timed_out: flow.bytes.is_some() && state.ended.is_none(),
        outcome: outcome(run, flow, state),
        hops,
        ..FlowSummary::default()
    }
}

pub(crate) fn outcome(run: &Run, flow: &scenario::Flow, state: &FlowState) -> String {
    match (flow.bytes, state.ended, run.duration) {
        (Some(_), Some(_), _) => "complete".to_owned(),
        (Some(_), None, None) => format!("cut at the time limit of {}", run.timeout),
        (Some(_), None, Some(duration)) => format!("cut at the end of the run after {duration}"),
        (None, ..) => "went on to the end of the run".to_owned(),
    }
}

fn hop_summaries(state: &FlowState, sim: &SimulationState) -> Vec<HopSummary> {
    let mut summaries = Vec::new();
    for (stream, connections) in (0..).zip(state.streams.iter().map(|s| &s.connections)) {
        for (hop, taken) in state.hops.iter().zip(connections) {
            let connection = taken.as_ref().and_then(|taken| sim.connections.get(taken.number));
            let carried = taken.as_ref().map(|taken| taken.carried(sim));
            let rtt = connection.map(crate::tcp::Connection::rtt);
            summaries.push(HopSummary {
                index: summaries.len() as u32,
                stream,
                from: hop.from.clone(),
                to: hop.to.clone(),
                congestion_control: Some(hop.cc.clone()),
                bytes: carried.map(|carried| carried.acknowledged * u64::from(hop.mss)),
                retransmits: Some(carried.map_or(0, |carried| carried.retransmits)),
                timeouts: Some(carried.map_or(0, |carried| carried.timeouts)),
                min_rtt_us: rtt.and_then(|(_, min)| min).map(micros),
                srtt_us: rtt.and_then(|(smoothed, _)| smoothed).map(micros),
                bottleneck_bps: hop.limits.bottleneck.map(units::Rate::bps),
                base_rtt_us: Some(micros(hop.limits.base_rtt)),
                segment_bytes: Some(hop.limits.segment.get()),
                limited: carried.and_then(|carried| carried.limited.shares()),
            });
        }
    }
    summaries
}

fn link_summaries(run: &Run, sim: &mut SimulationState) -> Vec<LinkSummary> {
    let directions = run.links.iter().flat_map(|link| {
        [(link, Direction::Forward, &link.forward), (link, Direction::Backward, &link.backward)]
    });
    let now = sim.now;
    let background_bytes = sim.network.background_bytes(now);
    directions
        .zip(&mut sim.network.directions)
        .zip(background_bytes)
        .map(|(((link, direction, settings), simulated), background_bytes)| {
            // Waiting packets are not on the link yet. Their bytes have been counted already, except those of
            // packets that the queue decides on at departure.
            let waits = simulated.link.queue(now);
            let uncounted = simulated.link.undecided().bytes;
            let counters = *simulated.link.counters();
            let counted = LinkSummary::from_counters(
                &link.name,
                direction,
                &counters,
                simulated.link.spacing(),
            );
            let rate_bps = settings.rate.map(units::Rate::bps);
            let seconds = now.as_secs_f64();
            LinkSummary {
                rate_bps,
                background_bytes: Some(background_bytes),
                gap_frames: counted.gap_frames - waits.gaps,
                gap_bytes: counted.gap_bytes - waits.gap_bytes,
                bytes: counted.bytes + uncounted - (waits.bytes - waits.gap_bytes),
                segments: counted.segments - (waits.packets - waits.gaps),
                utilisation: rate_bps.filter(|_| seconds > 0.0).map(|rate| {
                    // All that was accepted, gap frames too, less the time that its rest will still take.
                    let ahead = simulated.link.free_at().since(now).as_secs_f64();
                    let taken = (counters.carried_bytes + counters.gap_bytes) as f64;
                    taken * 8.0 / (rate as f64 * seconds) - ahead / seconds
                }),
                ..counted
            }
        })
        .collect()
}
