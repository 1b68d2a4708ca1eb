// SPDX-License-Identifier: GPL-2.0-or-later
//! Flows that end by the clock, and flows over several streams, by emulation and by simulation. Takes root.

use crate::common::{
    Measured, credible,
    emulated::{emulated, recorded},
    one_of_two,
};
use record::RunResults;
use scenario::Scenario;
use sim::Simulated;
use testkit::draft::Draft;

/// Metrics of the two methods differ by no more than this part.
const APART: f64 = 0.25;

fn scenario(keys: &str, flows: &[&str]) -> Scenario {
    let draft = Draft::new("Endless", keys)
        .node("source", "tcp_wmem_max=16MB")
        .node("sink", "tcp_rmem_max=16MB")
        .link("source", "sink", "rate=60mbit queue=1bdp delay=10ms");
    let draft = flows.iter().fold(draft, |draft, keys| draft.flow("source", "sink", keys));
    Scenario::parse(&draft.to_string(), "test", &[] as &[&str]).expect("a sound scenario")
}

/// What a record says in all that is not a measurement.
fn shape(run: &RunResults) -> Vec<String> {
    let flow = |flow: &record::FlowSummary| {
        let hops: Vec<_> = flow.hops.iter().map(|hop| (hop.index, hop.stream)).collect();
        let timed = (flow.bytes_expected, flow.timed_out, &flow.client, &flow.outcome);
        format!("{}: {timed:?} {hops:?}", flow.name)
    };
    run.summary.flows.iter().map(flow).collect()
}

#[test]
fn endless_flows_and_streams_are_recorded_as_by_sim() {
    let _turn = one_of_two();
    let scenario = scenario(
        "duration=4s",
        &["name=one cc=cubic", "name=three cc=reno streams=3 start=500ms", "bytes=900MB streams=2"],
    );
    let simulated = recorded(&scenario.runs, &Simulated);
    credible(|| {
        let emulated = emulated(&scenario.runs);
        let (kernel, simulator) = (&emulated[0], &simulated[0]);
        let mut wrong = Vec::new();
        if shape(kernel) != shape(simulator) {
            wrong.push(format!("{:#?}\n{:#?}", shape(kernel), shape(simulator)));
        }
        for flow in &kernel.summary.flows {
            let carried: u64 = flow.hops.iter().filter_map(|hop| hop.bytes).sum();
            let has_gaps = flow.hops.iter().any(|hop| hop.bytes.is_none_or(|bytes| bytes == 0));
            // Heads of requests and responses, what was under way at the end, and what came after the last look.
            let under_way = flow.bytes.abs_diff(carried);
            if has_gaps || under_way > 2_000_000 {
                wrong.push(format!("{}: {carried} bytes carried of {}", flow.name, flow.bytes));
            }
        }
        let total = |run: &RunResults| -> f64 {
            run.summary.flows.iter().map(|flow| flow.bytes as f64 * 8.0 / 4e6).sum()
        };
        let jain = |run: &RunResults| run.summary.metrics.jain_index.unwrap_or_default();
        println!("{:.1} and {:.1} Mb/s", total(kernel), total(simulator));
        println!("Jain's index {:.3} and {:.3}", jain(kernel), jain(simulator));
        // Of series of each stream's hop.
        let streams = |run: &RunResults| run.summary.metrics.jain_index_streams.unwrap_or_default();
        for (what, values) in [
            ("Mb/s", [total(kernel), total(simulator)]),
            ("Jain's index", [jain(kernel), jain(simulator)]),
            ("Jain's index of streams", [streams(kernel), streams(simulator)]),
        ] {
            if (values[0] / values[1] - 1.0).abs() > APART {
                wrong.push(format!("{what}: {values:?}"));
            }
        }
        Measured { wrong, faults: kernel.manifest.invalid_reasons.clone() }
    });
}
