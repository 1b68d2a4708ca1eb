// SPDX-License-Identifier: GPL-2.0-or-later
//! Captures of emulated nodes, read back by another parser and compared with the record. Takes root.

use crate::common::{Measured, credible, one_of_two};
use experiment::{Options, run_all};
use longhaul_lab::Emulation;
use record::{RunResults, manifest::Capture};
use scenario::Scenario;
use std::path::Path;
use testkit::{
    captured::{Captured, PayloadCount},
    draft::Draft,
};

/// Bytes of payload in a segment: 1500 less headers with timestamps.
const MSS: u32 = 1448;

fn scenario(link: &str, node: &str) -> Scenario {
    let draft = Draft::new("Captured", "timeout=20s")
        .node("source", node)
        .node("sink", node)
        .link("source", "sink", link)
        .flow("source", "sink", "bytes=8MB");
    Scenario::parse(&draft.to_string(), "test", &[] as &[&str]).expect("a sound scenario")
}

fn run(scenario: &Scenario, out: &Path) -> RunResults {
    let options = Options::new(out);
    let method = Emulation::new("no depots");
    let results = run_all(&scenario.runs, &method, &options, |_| ());
    results.unwrap_or_else(|error| panic!("{error}")).remove(0)
}

fn check(what: &str, found: u64, expected: u64, wrong: &mut Vec<String>) {
    println!("{what}: {found}, on record {expected}");
    if found != expected {
        wrong.push(format!("{what}: {found}, on record {expected}"));
    }
}

#[test]
fn capture_agrees_with_the_record_of_a_lossy_run() {
    let _turn = one_of_two();
    let link = "rate=60mbit queue=1bdp delay=10ms loss=0.5%";
    credible(|| {
        let out = tempfile::tempdir().expect("a writable folder");
        let scenario = scenario(link, "capture=true");
        let results = run(&scenario, &out.path().join("out"));
        let folder = out.path().join("out").join(&results.manifest.id);
        let [source, sink] =
            ["source", "sink"].map(|node| Captured::open(&folder.join(format!("{node}.pcapng"))));
        let mut wrong = Vec::new();
        let mut faults = results.manifest.invalid_reasons.clone();
        for (capture, file) in results.manifest.captures.iter().zip([&source, &sink]) {
            // The kernel dropped copies that were not fetched in time.
            faults.extend(capture.incomplete_reasons.clone());
            assert!(file.packets.iter().all(|packet| packet.kept <= 96), "snap length");
            assert!(file.packets.iter().all(|packet| packet.unix_ns > capture.zero_unix_ns));
            for outbound in [true, false] {
                // The kernel stamps a packet before it queues the copy: one of the other direction may come between.
                let packets = file.packets.iter().filter(|packet| packet.is_outbound == outbound);
                assert!(packets.is_sorted_by_key(|packet| packet.unix_ns), "in order");
            }
            assert_eq!((file.statistics, file.is_cut), (1, false));
            assert_eq!(file.drops == 0, capture.complete, "{capture:?}");
            check("copies dropped", file.drops, 0, &mut wrong);
            check("packets kept", file.packets.len() as u64, capture.packets, &mut wrong);
        }
        let sent = PayloadCount::of(source.segments(true), MSS);
        let arrived = PayloadCount::of(sink.segments(false), MSS);
        let (flow, link) = (&results.summary.flows[0], &results.summary.links[0]);
        let content = flow.bytes_expected.expect("it has a size");
        let head = sent.unique.saturating_sub(content);
        if !(1..1000).contains(&head) {
            wrong.push(format!("a response's head of {head} bytes"));
        }
        check("bytes arrived", arrived.unique, sent.unique, &mut wrong);
        check("retransmissions", sent.repeated, flow.retransmits.unwrap(), &mut wrong);
        let on_link = link.segments + link.queue_drops;
        check("segments sent", sent.segments, on_link, &mut wrong);
        check("segments arrived", arrived.segments, link.segments - link.losses, &mut wrong);
        let lost = link.losses + link.queue_drops;
        let between = sent.segments.saturating_sub(arrived.segments);
        check("lost between", between, lost, &mut wrong);
        for (n, flag) in ["SYN", "FIN"].iter().enumerate() {
            let counts = [true, false].map(|outbound| {
                source.segments(outbound).filter(|segment| segment.flags[n]).count()
            });
            // Each end's, and again if the link took one.
            if !counts.iter().all(|count| (1..=3).contains(count)) {
                wrong.push(format!("{flag}: {counts:?}"));
            }
        }
        Measured { wrong, faults }
    });
}

#[test]
fn capture_ends_at_its_limit_and_the_run_does_not() {
    let _turn = one_of_two();
    let out = tempfile::tempdir().expect("a writable folder");
    let node = "capture={limit=\"64KB\",snap=200}";
    let scenario = scenario("rate=60mbit delay=2ms", node);
    let results = run(&scenario, &out.path().join("out"));
    assert_eq!(results.summary.flows[0].outcome, "complete");
    for Capture { file, complete, incomplete_reasons, packets, .. } in &results.manifest.captures {
        let path = out.path().join("out").join(&results.manifest.id).join(file);
        let length = std::fs::metadata(&path).expect("a capture").len();
        assert!((60_000..=65_536).contains(&length), "{length} bytes");
        assert!(!complete && incomplete_reasons[0].contains("limit"), "{incomplete_reasons:?}");
        let captured = Captured::open(&path);
        assert_eq!((captured.packets.len() as u64, captured.statistics), (*packets, 1));
    }
}
