// SPDX-License-Identifier: GPL-2.0-or-later
//! Reports about traffic: files with their completion times, computed by hand for an idle link, and the bytes that
//! each kind of source delivered.

use crate::common::{forward_link, only};
use longhaul_sim::Outcome;
use record::{OfferedFile, OfferedFiles, Summary, TrafficSummary};

/// A source and a sink over 8 Mb/s and 10 ms: a byte takes a microsecond.
fn scenario(tcp: &str, traffic: &str) -> String {
    format!(
        r#"
        title = "traffic"
        duration = "20s"
        seed = 3
        {tcp}
        [[node]]
        name = "source"
        [[node]]
        name = "sink"
        [[link]]
        name = "haul"
        between = ["source", "sink"]
        rate = "8mbit"
        delay = "10ms"
        queue = "100000p"
        overhead = 0
        {traffic}
        "#
    )
}

fn files(tcp: &str, per_second: &str, size: &str) -> Outcome {
    only(&scenario(
        tcp,
        &format!(
            r#"
            [[traffic]]
            name = "files"
            from = "source"
            to = "sink"
            kind = "ftp"
            per_second = {per_second}
            size = "{size}"
            "#
        ),
    ))
}

fn source(outcome: &Outcome) -> &TrafficSummary {
    let [source] = &outcome.summary.traffic[..] else { panic!("one source") };
    source
}

fn close(what: &str, found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{what}: {found} s, by hand {expected} s");
}

/// A flow that shares its link with datagrams at half of the link's rate, and a flow in the other direction.
#[test]
fn background_on_a_link_is_counted_apart() {
    let transfer = r#"
        [[flow]]
        name = "file"
        from = "source"
        to = "sink"
        "#;
    let reverse = r#"
        [[flow]]
        name = "back"
        from = "sink"
        to = "source"
        "#;
    let datagrams = r#"
        [[traffic]]
        name = "steady"
        from = "source"
        to = "sink"
        kind = "cbr"
        rate = "4mbit"
        packet = 1000
        "#;
    let summary = |more: &[&str]| only(&scenario("", &more.concat())).summary;
    let alone = summary(&[transfer]);
    assert_eq!(alone.links.iter().map(|link| link.background_bytes).max(), Some(Some(0)));
    let loaded = summary(&[transfer, datagrams]);
    let background = loaded.links[0].background_bytes.unwrap();
    // 500 datagrams a second for 20 s, less those that wait.
    let arrived = loaded.traffic[0].bytes;
    assert!((arrived..arrived + 20_000).contains(&background), "{background}, {arrived} arrived");
    assert_eq!(loaded.links[1].background_bytes, Some(0));
    let efficiency = |summary: &Summary| summary.metrics.efficiency.unwrap();
    let (one, other) = (efficiency(&alone), efficiency(&loaded));
    assert!((one - other).abs() < 0.02, "{one} alone, {other} with datagrams");

    let both = summary(&[transfer, reverse]);
    let [file, back] = &both.flows[..] else { panic!("two flows") };
    assert!(!file.reverse && back.reverse);
    assert_eq!(both.metrics.goodput_bps, file.goodput_bps);
    assert_eq!(both.metrics.jain_index, Some(1.0));
    // Its data goes backward, its acknowledgements forward.
    let carried = both.links[1].background_bytes.unwrap();
    assert!(carried > back.bytes && carried < both.links[1].bytes, "{carried}");
    assert!(both.links[0].background_bytes.unwrap() > 0);
}

#[test]
fn file_on_idle_link_takes_the_computed_time() {
    // Without handshake: one packet of 1000 and 40 bytes, then the variant.
    let outcome = files("[tcp]\nprofile = \"ns2\"", "0.1", "1000");
    let first: &OfferedFile = &outcome.files.rows[0];
    assert_eq!((first.number, first.size_bytes, first.start_s), (1, Some(1000), 0.0));
    close("ns2", first.completion_s.unwrap(), 1040e-6 + 10e-3);

    // With one: the client's SYN and the answer to it, its request with 150 bytes, then the file as two
    // segments, of 1448 and 552 bytes; 52 bytes of header on each, and each variant 10 ms.
    let outcome = files("", "0.1", "2000");
    let first = &outcome.files.rows[0];
    let packets = 52.0 + 52.0 + (52.0 + 150.0) + (52.0 + 1448.0) + (52.0 + 552.0);
    close("linux", first.completion_s.unwrap(), packets * 1e-6 + 4.0 * 10e-3);
}

#[test]
fn files_are_counted_and_listed_individually() {
    let outcome = files("[tcp]\nprofile = \"ns2\"", "20", "20000");
    let (source, rows) = (source(&outcome), &outcome.files.rows);
    assert_eq!((source.kind.as_str(), source.name.as_str()), ("files", "files"));
    assert_eq!((source.from.as_str(), source.to.as_str()), ("source", "sink"));
    let offered = source.files_offered.unwrap();
    assert!((300..500).contains(&offered), "20 a second for 20 s: {offered}");
    assert_eq!((source.files_recorded, rows.len() as u64), (Some(offered), offered));
    assert!(rows.iter().zip(1..).all(|(file, number)| file.number == number));
    assert!(rows.windows(2).all(|pair| pair[0].start_s <= pair[1].start_s));
    let mut times = OfferedFiles::completion_times_s(rows);
    assert_eq!(source.files_completed, Some(times.len() as u64));
    // 20 kB take 20 ms at least, and nothing is faster.
    assert!(times.iter().all(|seconds| *seconds > 0.03), "{times:?}");
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    close("mean", source.completion_mean_s.unwrap(), mean);
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[(share * times.len() as f64).ceil() as usize - 1];
    close("median", source.completion_p50_s.unwrap(), at(0.5));
    close("99 %", source.completion_p99_s.unwrap(), at(0.99));
    // Whole files, and what of others was there at the end.
    let whole = 20_000 * source.files_completed.unwrap();
    assert!(
        (whole..whole + 20_000 * (offered - source.files_completed.unwrap()) + 1)
            .contains(&source.bytes)
    );
    close("goodput", source.goodput_bps / 1e6, source.bytes as f64 * 8.0 / 20.0 / 1e6);
    let metrics = &outcome.summary.metrics;
    assert_eq!(metrics.files_offered, source.files_offered);
    assert_eq!(metrics.files_completed, source.files_completed);
    assert_eq!(metrics.file_completion_p99_s, source.completion_p99_s);
    close("of all", metrics.file_completion_mean_s.unwrap(), mean);
    close("goodput", metrics.traffic_goodput_bps.unwrap() / 1e6, source.goodput_bps / 1e6);
}

#[test]
fn unfinished_files_have_no_completion_time() {
    // A first file of ten times what the link carries in the run.
    let outcome = files("[tcp]\nprofile = \"ns2\"", "0.001", "200MB");
    let [file] = &outcome.files.rows[..] else { panic!("one file") };
    assert_eq!((file.size_bytes, file.completion_s), (Some(200 << 20), None));
    let source = source(&outcome);
    assert_eq!((source.files_offered, source.files_completed), (Some(1), Some(0)));
    assert_eq!((source.completion_mean_s, source.completion_p50_s), (None, None));
    let carried = forward_link(&outcome, "haul").bytes;
    assert!(source.bytes > carried * 9 / 10 && source.bytes <= carried, "what arrived counts");
}

#[test]
fn datagram_and_on_off_traffic_are_reported() {
    let outcome = only(&scenario(
        "",
        r#"
        [[traffic]]
        name = "voice"
        from = "source"
        to = "sink"
        kind = "cbr"
        rate = "1mbit"
        packet = 1000
        start = "10s"
        [[traffic]]
        name = "bulk"
        from = "source"
        to = "sink"
        kind = "on-off"
        on = "2s"
        off = "1s"
        "#,
    ));
    let [voice, bulk] = &outcome.summary.traffic[..] else { panic!("two sources") };
    assert_eq!((voice.kind.as_str(), voice.start_s, voice.end_s), ("cbr", 10.0, 20.0));
    // Less what waits at the end, behind the other source's packets.
    assert!((0.8e6..=1e6).contains(&voice.goodput_bps), "{voice:?}");
    assert_eq!(bulk.kind, "on_off");
    assert!((1e6..8e6).contains(&bulk.goodput_bps), "{bulk:?}");
    let carried = forward_link(&outcome, "haul").bytes;
    assert!(voice.bytes + bulk.bytes <= carried && carried < (voice.bytes + bulk.bytes) * 11 / 10);
    assert_eq!((voice.files_offered, bulk.files_completed), (None, None));
    assert!(outcome.files.rows.is_empty());
    assert_eq!(outcome.summary.metrics.files_offered, None);
    assert!(outcome.summary.metrics.traffic_goodput_bps.is_some());
}
