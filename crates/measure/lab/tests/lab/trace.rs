// SPDX-License-Identifier: GPL-2.0-or-later
//! What `trace` finds in captures of emulated nodes, compared with the record: kernel TCP with GSO. Takes root.

use crate::common::{Measured, credible, one_of_two};
use experiment::{Options, run_all};
use longhaul_lab::Emulation;
use scenario::Scenario;
use std::{fs::File, path::Path};
use testkit::draft::Draft;
use trace::{
    CapturePoint, CaptureReader, ConnectionSummary, DirectionSummary, KeptCurves, analyse,
};

fn traced(file: &Path) -> Vec<ConnectionSummary> {
    let mut capture = CaptureReader::new(File::open(file).expect("a capture")).expect("pcapng");
    let mut connections = Vec::new();
    let options = trace::Options { shards: 1, memory_bytes: 1 << 28, curves: KeptCurves::None };
    let (totals, error) = analyse(&mut capture, options, |one| connections.push(one));
    assert!(error.is_none() && totals.evicted_connections == 0, "{error:?}, {totals:?}");
    connections
}

/// The direction with most data.
fn data(connections: &[ConnectionSummary]) -> &DirectionSummary {
    let directions = connections.iter().flat_map(|connection| &connection.directions);
    directions.max_by_key(|direction| direction.unique_bytes).expect("a connection")
}

#[test]
fn trace_finds_the_retransmissions_of_the_record() {
    let _turn = one_of_two();
    for link in
        ["rate=60mbit queue=1bdp delay=10ms loss=0.5%", "rate=100mbit queue=0.3bdp delay=15ms"]
    {
        credible(|| {
            let out = tempfile::tempdir().expect("a writable directory");
            let draft = Draft::new("Traced", "timeout=20s")
                .node("source", "capture=true")
                .node("sink", "capture=true")
                .link("source", "sink", link)
                .flow("source", "sink", "bytes=8MB");
            let scenario = Scenario::parse(&draft.to_string(), "test", &[] as &[&str]);
            let scenario = scenario.expect("a sound scenario");
            let at = out.path().join("out");
            let method = Emulation::new("no depots");
            let results = run_all(&scenario.runs, &method, &Options::new(&at), |_| ());
            let results = results.unwrap_or_else(|error| panic!("{error}")).remove(0);
            let directory = at.join(&results.manifest.id);
            let [source, sink] =
                ["source", "sink"].map(|node| traced(&directory.join(format!("{node}.pcapng"))));
            let (sent, arrived) = (data(&source), data(&sink));
            let flow = &results.summary.flows[0];
            let known = flow.retransmits.expect("the kernel counts them");
            println!("{link}: on record {known}\n{sent:#?}\n{arrived:#?}");
            let mut wrong = Vec::new();
            let mut check = |what: &str, found: u64, expected: u64| {
                if found != expected {
                    wrong.push(format!("{what}: {found}, on record {expected}"));
                }
            };
            check("sent again", sent.retransmitted_segments, known);
            check("never captured", sent.uncaptured_bytes, 0);
            check("bytes at both ends", arrived.unique_bytes, sent.unique_bytes);
            check("reordered at the sender", sent.reordered_packets, 0);
            assert_eq!(sent.capture_point, Some(CapturePoint::Sender));
            assert_eq!(arrived.capture_point, Some(CapturePoint::Receiver));
            Measured { wrong, faults: results.manifest.invalid_reasons.clone() }
        });
    }
}
