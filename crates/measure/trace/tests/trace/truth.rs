// SPDX-License-Identifier: GPL-2.0-or-later
//! Captures of simulated runs, whose losses and reorderings the record knows.

use experiment::{Options as RunOptions, run_all};
use longhaul_trace::{
    CapturePoint, CaptureReader, ConnectionSummary, DirectionSummary, KeptCurves, Options, analyse,
};
use record::RunResults;
use scenario::Scenario;
use std::{
    fs::File,
    path::{Path, PathBuf},
};
use testkit::draft::Draft;

/// A flow over one link, captured at both ends.
pub fn draft(link: &str, flow: &str) -> Draft {
    Draft::new("Known", "")
        .node("source", "capture=true")
        .node("sink", "capture=true")
        .link("source", "sink", link)
        .flow("source", "sink", flow)
}

/// Runs the only run of a scenario. The record, and the captures of source and sink in a directory that lives as long.
pub fn simulated(draft: &Draft) -> (RunResults, [PathBuf; 2], tempfile::TempDir) {
    let out = tempfile::tempdir().expect("a writable directory");
    let text = draft.to_string();
    let scenario = Scenario::parse(&text, "test", &[] as &[&str]);
    let scenario = scenario.unwrap_or_else(|error| panic!("{error}\n{text}"));
    let at = out.path().join("out");
    let results = run_all(&scenario.runs, &sim::Simulated, &RunOptions::new(&at), |_| ());
    let results = results.unwrap_or_else(|error| panic!("{error}")).remove(0);
    let directory = at.join("sim").join(&results.manifest.id);
    let captures = ["source", "sink"].map(|node| directory.join(format!("{node}.pcapng")));
    (results, captures, out)
}

/// The record, and the connections that source and sink captured.
pub fn run(draft: &Draft) -> (RunResults, [Vec<ConnectionSummary>; 2]) {
    let (results, captures, _directory) = simulated(draft);
    (results, captures.map(|file| traced(&file)))
}

fn traced(file: &Path) -> Vec<ConnectionSummary> {
    let mut capture = CaptureReader::new(File::open(file).expect("a capture")).expect("pcapng");
    let mut connections = Vec::new();
    let options = Options { shards: 1, memory_bytes: 1 << 28, curves: KeptCurves::None };
    let (totals, error) = analyse(&mut capture, options, |one| connections.push(one));
    assert!(error.is_none() && totals.evicted_connections == 0, "{error:?}, {totals:?}");
    connections.sort_by_key(|connection| connection.first_packet);
    connections
}

/// The direction in which the server sends.
pub fn data(connection: &ConnectionSummary) -> &DirectionSummary {
    connection.directions.iter().find(|one| one.from.ends_with(":80")).expect("a server")
}

pub const LINKS: [&str; 14] = [
    "rate=80mbit queue=1bdp delay=20ms loss=0.3%",
    "rate=80mbit queue=1bdp delay=20ms loss=2%",
    "rate=20mbit queue=0.2bdp delay=50ms",
    "rate=100mbit queue=0.5bdp delay=5ms",
    "rate=50mbit queue=2bdp delay=80ms loss=0.05%",
    "rate=10mbit queue=10p delay=30ms",
    "rate=200mbit queue=1bdp delay=2ms loss=1%",
    "rate=40mbit queue=1bdp delay=25ms loss=5%",
    "rate=80mbit queue=1bdp delay=20ms loss=0.3% duplicate=0.5%",
    "rate=80mbit queue=1bdp delay=20ms loss=0.3% jitter=2ms",
    "rate=80mbit queue=1bdp delay=20ms reorder={probability=\"1%\",by=\"5ms\"}",
    "rate=80mbit queue=1bdp delay=20ms loss=0.5% reorder={probability=\"1%\",by=\"30ms\"}",
    "rate=1gbit queue=0.1bdp delay=10ms",
    "rate=30mbit queue=3bdp delay=10ms loss=0.5%",
];

#[test]
fn retransmissions_at_the_sender_are_those_of_the_record() {
    let (mut connections, mut exact) = (0, 0);
    for link in LINKS {
        for cc in ["reno", "cubic", "bbr"] {
            let draft = draft(link, &format!("bytes=4MB cc={cc}"));
            let (results, [source, _]) = run(&draft);
            let hop = &results.summary.flows[0].hops[0];
            let known = hop.retransmits.expect("the simulator counts them");
            let found = data(&source[0]);
            let (segments, by) = (found.retransmitted_segments, found);
            println!(
                "{link}, {cc}: {segments} sent again, on record {known}: {} fast, {} timeout ({}, on record {:?}), {} probe, \
                 {} in vain, {} unknown; {} spurious",
                by.fast_segments,
                by.timeout_segments,
                by.timeouts,
                hop.timeouts,
                by.tail_loss_probe_segments,
                by.unneeded_segments,
                by.unknown_cause_segments,
                by.spurious_segments
            );
            connections += 1;
            exact += u64::from(segments == known);
            assert!(segments.abs_diff(known) * 50 <= known, "{link}, {cc}: 2 %");
            assert_eq!(found.capture_point, Some(CapturePoint::Sender), "{link}, {cc}");
            assert_eq!(found.uncaptured_bytes, 0, "{link}, {cc}");
        }
    }
    assert!(exact * 100 >= connections * 95, "{exact} of {connections} exact");
}
