// SPDX-License-Identifier: GPL-2.0-or-later
//! Captures of simulated nodes, read back by another parser and compared with the record.

use crate::common::{outcome, runs};
use experiment::{Options, run_all};
use longhaul_sim::Simulated;
use record::{LinkSummary, RunResults};
use std::path::{Path, PathBuf};
use testkit::{
    captured::{Captured, PayloadCount, SeenPacket},
    draft::Draft,
};

/// Bytes of payload in a segment: 1500 less headers with timestamps.
const MSS: u32 = 1448;
const IMPAIRED: &str = "rate=80mbit queue=1bdp delay=20ms loss=0.3% duplicate=0.2% jitter=2ms";

fn impaired(keys: &str, node: &str) -> String {
    Draft::new("Captured", keys)
        .node("source", node)
        .node("sink", node)
        .link("source", "sink", IMPAIRED)
        .flow("source", "sink", "bytes=6MB")
        .flow("source", "sink", "bytes=3MB streams=2 start=300ms")
        .to_string()
}

/// Runs the only run of a scenario; with its record's folder.
fn recorded(text: &str, out: &Path) -> (RunResults, PathBuf) {
    let options = Options::new(out);
    let results = run_all(&runs(text), &Simulated, &options, |_| ());
    let results = results.unwrap_or_else(|error| panic!("{error}")).remove(0);
    let folder = out.join("sim").join(&results.manifest.id);
    (results, folder)
}

fn captured(folder: &Path, node: &str) -> Captured {
    Captured::open(&folder.join(format!("{node}.pcapng")))
}

/// Packets that went onto a link, and that came out of it.
fn on_link(link: &LinkSummary) -> (u64, u64) {
    let offered = link.segments + link.queue_drops;
    (offered, link.segments - link.losses + link.copies)
}

#[test]
fn captures_agree_with_the_record_of_an_impaired_run() {
    for keys in ["", "family=ipv6"] {
        let out = tempfile::tempdir().expect("a writable folder");
        let (results, folder) = recorded(&impaired(keys, "capture=true"), &out.path().join("out"));
        let [source, sink] = ["source", "sink"].map(|node| captured(&folder, node));
        for (file, entry) in [&source, &sink].iter().zip(&results.manifest.captures) {
            assert!(entry.complete && !file.is_cut, "{entry:?}");
            assert_eq!((file.packets.len() as u64, file.statistics), (entry.packets, 1));
            assert!(file.packets.iter().all(|packet| packet.kept <= entry.snap_bytes as usize));
            assert!(file.packets.is_sorted_by_key(|packet| packet.unix_ns));
        }
        let mss = if keys.is_empty() { MSS } else { MSS - 20 };
        let sent = PayloadCount::of(source.segments(true), mss);
        let arrived = PayloadCount::of(sink.segments(false), mss);
        let flows = &results.summary.flows;
        let content: u64 = flows.iter().map(|flow| flow.bytes).sum();
        assert_eq!((sent.unique, arrived.unique), (content, content));
        let retransmits: u64 = flows.iter().map(|flow| flow.retransmits.unwrap()).sum();
        assert!(retransmits > 10, "{retransmits}");
        assert_eq!(sent.repeated, retransmits);
        let [forward, backward] = [0, 1].map(|n| on_link(&results.summary.links[n]));
        let passed = |file: &Captured, outbound| {
            file.packets.iter().filter(|packet| packet.is_outbound == outbound).count() as u64
        };
        // At the end of the last file, packets are under way.
        assert_eq!((passed(&source, true), passed(&sink, true)), (forward.0, backward.0));
        let under_way = [forward.1 - passed(&sink, false), backward.1 - passed(&source, false)];
        println!("under way at the end: {under_way:?}; {retransmits} sent again");
        assert!(under_way.iter().all(|packets| *packets < 20), "{under_way:?}");
        assert!(source.segments(false).any(|segment| !segment.blocks.is_empty()), "SACK");
        // Three connections, opened from the sink.
        let opened = source.segments(false).filter(|segment| segment.flags[0]).count();
        assert!(opened >= 3, "{opened}");
    }
}

#[test]
fn capture_changes_no_result_and_is_the_same_each_time() {
    let plain = outcome(&runs(&impaired("", ""))[0]);
    let with = outcome(&runs(&impaired("", "capture=true"))[0]);
    assert_eq!((plain.summary, plain.series), (with.summary, with.series));
    let out = tempfile::tempdir().expect("a writable folder");
    let bytes = ["a", "b"].map(|name| {
        let (_, folder) = recorded(&impaired("", "capture=true"), &out.path().join(name));
        std::fs::read(folder.join("sink.pcapng")).expect("a capture")
    });
    assert!(bytes[0] == bytes[1], "byte for byte");
}

#[test]
fn run_whose_capture_is_gone_is_run_again() {
    let out = tempfile::tempdir().expect("a writable folder");
    let at = out.path().join("out");
    let (first, folder) = recorded(&impaired("", "capture=true"), &at);
    let again = || recorded(&impaired("", "capture=true"), &at).0;
    assert_eq!(again(), first, "known");
    let capture = folder.join("sink.pcapng");
    let before = std::fs::read(&capture).expect("a capture");
    std::fs::remove_file(&capture).expect("it can be removed");
    let second = again();
    assert_eq!(second.summary, first.summary);
    assert!(std::fs::read(&capture).expect("a capture") == before);
}

/// What is on its way is seen at each of two ends, a link's delay and its time on the link apart; also by way of a
/// router, where packets are handed on late, and in front of a depot.
#[test]
fn packet_is_seen_at_both_ends_of_a_link_at_its_times() {
    let text = Draft::new("Chain", "duration=2s")
        .nodes(&["source", "sink"])
        .node("router", "capture=true")
        .node("depot", "capture={snap=1600}")
        .link("source", "router", "rate=100mbit delay=3ms")
        .link("router", "depot", "rate=50mbit delay=7ms queue=1bdp")
        .link("depot", "sink", "rate=100mbit delay=2ms")
        .flow("source", "sink", "bytes=2MB via=[\"depot\"]")
        .line("[[traffic]]\nfrom = \"source\"\nto = \"sink\"\nkind = \"cbr\"\nrate = \"2mbit\"")
        .to_string();
    let out = tempfile::tempdir().expect("a writable folder");
    let (results, folder) = recorded(&text, &out.path().join("out"));
    assert_eq!(results.summary.flows[0].outcome, "complete");
    let [router, depot] = ["router", "depot"].map(|node| captured(&folder, node));
    assert_eq!(router.interfaces, ["wan0", "wan1"]);
    assert_eq!(depot.interfaces, ["wan1", "wan2"]);
    let at = |file: &Captured, interface, outbound| -> Vec<SeenPacket> {
        let at =
            |packet: &&SeenPacket| packet.interface == interface && packet.is_outbound == outbound;
        file.packets.iter().filter(at).cloned().collect()
    };
    let (left, came) = (at(&router, 1, true), at(&depot, 0, false));
    assert!(came.len() > 1400 && left.len() >= came.len(), "{} and {}", left.len(), came.len());
    for (left, came) in left.iter().zip(&came) {
        let on_link_ns = u64::from(left.length) * 8 * 20;
        let took = came.unix_ns - left.unix_ns;
        assert_eq!(left.length, came.length);
        assert!(took >= 7_000_000 + on_link_ns, "{took} ns, {} bytes", left.length);
    }
    // All that a router receives leaves it at once.
    assert_eq!(at(&router, 0, false).len(), left.len());
    // 2 Mb/s in datagrams of 1000 bytes for 2 s, of which some are in the queue and on the link at the end.
    let datagrams = came.iter().filter(|packet| packet.tcp.is_none()).count();
    assert!((480..=500).contains(&datagrams), "{datagrams} datagrams");
    assert!(depot.packets.iter().all(|packet| packet.kept == packet.length as usize));
}
