// SPDX-License-Identifier: GPL-2.0-or-later
//! Limits and reordering compared with the records of simulated runs, which know them without packets.

use crate::truth::{data, draft, run};
use record::{LimitShares, RunResults};
use testkit::draft::Draft;

fn limits(results: &RunResults) -> (f64, LimitShares) {
    let flow = &results.summary.flows[0];
    (flow.end_s - flow.start_s, flow.hops[0].limited.expect("the simulator knows them"))
}

/// A receiver whose buffer is smaller than the path: its window is the limit nearly all the time. The sender also waits while
/// there is room for a segment or two, so as to send several in one GSO packet, which packets do not show.
#[test]
fn time_limited_by_the_receivers_window_is_within_the_record() {
    for (buffer, delay) in [("256KB", "20ms"), ("1MB", "20ms"), ("512KB", "40ms")] {
        let link = format!("rate=200mbit queue=1bdp delay={delay}");
        let draft = Draft::new("Known", "")
            .node("source", "capture=true")
            .node("sink", &format!("capture=true tcp_rmem_max={buffer}"))
            .link("source", "sink", &link)
            .flow("source", "sink", "bytes=12MB cc=cubic");
        let (results, [source, sink]) = run(&draft);
        let (seconds, shares) = limits(&results);
        let expected = (shares.receive_window + shares.window_in_recovery) * seconds;
        let found = data(&source[0]).window_limited_s;
        println!("{buffer}, {delay}: {found} s of {seconds} s, on record {expected} s");
        assert!(found <= expected + 0.01 * seconds, "{buffer}, {delay}");
        // The larger the window, the more of it the sender lets open before it sends again.
        assert!(buffer != "256KB" || found >= 0.6 * expected, "{buffer}, {delay}");
        assert!(buffer == "1MB" || expected > 0.5 * seconds, "{buffer}, {delay}: {shares:?}");
        // The receiver sees the same, but for what is on its way.
        let seen = data(&sink[0]).window_limited_s;
        assert!(seen <= found + 0.05 * seconds, "{seen}");
    }
}

/// A program that writes less than the path carries. Each pause begins when the last data is acknowledged, a round trip and
/// perhaps a delayed acknowledgement after it was sent.
#[test]
fn idle_time_is_that_of_the_program_without_what_is_under_way() {
    for rate in ["50kbit", "1mbit", "20mbit"] {
        let link = "rate=50mbit queue=1bdp delay=10ms";
        let draft = draft(link, &format!("bytes=200KB cc=cubic app_rate={rate}"));
        let (results, [source, _]) = run(&draft);
        let (seconds, shares) = limits(&results);
        let (found, waited) = (data(&source[0]).idle_s, shares.application * seconds);
        let under_way = data(&source[0]).data_packets as f64 * (0.02 + 0.04 + 0.001);
        println!("{rate}: idle for {found} s of {seconds} s, the program waited for {waited} s");
        assert!(found <= waited + 0.01, "{rate}");
        assert!(found >= waited - under_way, "{rate}: {under_way} s under way");
        assert!(rate != "50kbit" || found > 0.3 * seconds, "{rate}");
    }
}

/// Packets that a link delays and others overtake.
#[test]
fn reordered_packets_are_those_that_the_link_delayed() {
    for (probability, by_ms) in [("0.5%", 5.0), ("2%", 2.0), ("1%", 10.0)] {
        let link = format!(
            "rate=80mbit queue=1bdp delay=20ms reorder={{probability=\"{probability}\",by=\"{by_ms}ms\"}}"
        );
        let (results, [_, sink]) = run(&draft(&link, "bytes=8MB cc=cubic"));
        let links = results.summary.links.iter().map(|link| (link.segments, link.late));
        // Data are the packets of the direction that carries more bytes.
        let late = links.max().expect("two directions").1;
        let found = data(&sink[0]);
        let reordered = found.reordered_packets;
        println!(
            "{probability}, {by_ms} ms: {reordered} reordered, {late} late on record, {:?} us",
            found.reordering_max_us
        );
        assert!(reordered <= late && reordered * 20 >= late * 19, "{reordered} of {late}");
        let latest_ms = found.reordering_max_us.expect("some were") / 1e3;
        assert!(latest_ms <= by_ms && latest_ms > 0.5 * by_ms, "{latest_ms} of {by_ms} ms");
    }
}
