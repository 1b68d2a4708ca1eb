// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections that depots keep for the next flow, against times worked out by hand: links without a rate take
//! their delay and nothing else.

use crate::common::{outcome, runs};
use longhaul_sim::{Outcome, Simulation};
use record::FlowSummary;

/// One way, in seconds: to the near depot, between the depots, and to the server.
const ACCESS: f64 = 0.001;
const HAUL: f64 = 0.040;
const LAN: f64 = 0.002;
const ALL: f64 = ACCESS + HAUL + LAN;

const WAY: &str =
    "from = \"server\"\nto = \"client\"\nvia = [\"far\", \"near\"]\ncc = \"lh_reno\"\n";

fn network(more: &str, flows: &str) -> String {
    format!(
        r#"
        title = "Kept"
        timeout = "2000s"
        [[node]]
        name = "client"
        [[node]]
        name = "near"
        [[node]]
        name = "far"
        {more}
        [[node]]
        name = "server"
        {more}
        [[link]]
        between = ["client", "near"]
        delay = "1ms"
        [[link]]
        name = "haul"
        between = ["near", "far"]
        delay = "40ms"
        [[link]]
        between = ["far", "server"]
        delay = "2ms"
        {flows}
        "#
    )
}

/// A flow of 1 MB, and one that comes after it.
fn pair(keys: &str, second: &str) -> String {
    let first = format!("[[flow]]\nname = \"first\"\nbytes = \"1MB\"\n{WAY}{keys}\n");
    format!("{first}[[flow]]\nname = \"second\"\nafter = \"first\"\n{WAY}{keys}\n{second}\n")
}

fn run(more: &str, flows: &str) -> Outcome {
    let runs = runs(&network(more, flows));
    assert_eq!(runs.len(), 1);
    outcome(&runs[0])
}

fn flow<'o>(outcome: &'o Outcome, name: &str) -> &'o FlowSummary {
    let found = outcome.summary.flows.iter().find(|flow| flow.name == name);
    let flow = found.unwrap_or_else(|| panic!("no flow {name}"));
    assert_eq!(flow.outcome, "complete");
    flow
}

fn assert_seconds(what: &str, flow: &FlowSummary, expected: f64) {
    let found = flow.seconds.unwrap();
    assert!((found - expected).abs() < 1e-6, "{what}: {found} s, expected {expected}");
}

/// A connection takes a round trip to open and one to answer; one that was kept only the second.
#[test]
fn short_file_on_kept_connections_takes_one_round_trip() {
    let redirect = 4.0 * ALL;
    let by_client = 4.0 * ACCESS;
    for (keys, start, between, to_server, site) in [
        ("", "1s", 2.0, 2.0, false),
        ("", "3s", 2.0, 2.0, false),
        ("", "5s", 4.0, 4.0, false),
        ("warm = 1", "1s", 2.0, 2.0, false),
        ("warm = 1", "5s", 2.0, 4.0, false),
        ("warm = 1", "590s", 2.0, 4.0, false),
        ("warm = 1", "601s", 4.0, 4.0, false),
        ("warm = 1\nsite = true", "1s", 2.0, 2.0, true),
        ("warm = 1\nsite = true", "601s", 2.0, 4.0, true),
        ("site = true", "601s", 4.0, 4.0, true),
    ] {
        let outcome = run("", &pair(keys, &format!("bytes = 1\nstart = \"{start}\"")));
        let expected =
            by_client + between * HAUL + to_server * LAN + if site { 0.0 } else { redirect };
        let what = format!("{keys:?}, idle for {start}");
        assert_seconds(&what, flow(&outcome, "second"), expected);
        let begins = flow(&outcome, "second").start_s - flow(&outcome, "first").end_s;
        let waited = start.parse::<units::Duration>().unwrap().as_secs_f64();
        assert!((begins - waited).abs() < 1e-6, "{what}: it began {begins} s after the first");
    }
}

/// 300 segments: Reno's window, grown by 1 MB (724 segments), takes them in one flight. The client's own connection
/// is new: 10, 20, 40, 80 and 150 segments in five rounds of 2 ms.
#[test]
fn a_kept_connection_has_its_window() {
    let second = "bytes = 434400\nstart = \"100ms\"";
    let outcome = run("", &pair("site = true", second));
    let one_flight = 4.0 * ACCESS + 2.0 * HAUL + 2.0 * LAN + 4.0 * 2.0 * ACCESS;
    assert_seconds("kept", flow(&outcome, "second"), one_flight);
    let alone = format!("[[flow]]\nname = \"second\"\nsite = true\nbytes = 434400\n{WAY}");
    let cold = run("", &alone);
    // 10 + 20 + 40 + 80 + 150: four more round trips over the long haul, and none over the shorter ones.
    let rounds = 4.0 * ALL + 4.0 * 2.0 * HAUL;
    assert_seconds("cold", flow(&cold, "second"), rounds);
}

/// The window is halved for each timeout that the connection is idle, unless the setting prevents it.
#[test]
fn sysctl_keeps_windows_over_idle_times() {
    let second = "bytes = 434400\nstart = \"3s\"";
    let sysctl = |value| format!("sysctl.\"net.ipv4.tcp_slow_start_after_idle\" = \"{value}\"");
    let [off, on] = ["0", "1"].map(|value| {
        let outcome = run(&sysctl(value), &pair("site = true", second));
        flow(&outcome, "second").seconds.unwrap()
    });
    let one_flight = 4.0 * ACCESS + 2.0 * HAUL + 2.0 * LAN + 4.0 * 2.0 * ACCESS;
    assert!((off - one_flight).abs() < 1e-6, "{off} s, expected {one_flight}");
    // 10, 20, 40, 80 and 150 segments.
    let rounds = 4.0 * ACCESS + 2.0 * LAN + 5.0 * 2.0 * HAUL;
    assert!((on - rounds).abs() < 1e-6, "{on} s, expected {rounds}");
    let wrong = network(&sysctl("2"), &pair("", "bytes = 1"));
    let refused = Simulation::new(&runs(&wrong)[0]).unwrap_err().to_string();
    assert!(refused.contains("\"2\" is neither \"0\" nor \"1\""), "{refused}");
}

/// A short flow leaves a connection that was used last and has hardly grown. Two others have carried 1 MB ahead of need:
/// one of them takes 300 segments in one flight. They come from the server in 10, 20, 40, 80 and 150, over a kept
/// connection as small as the first one.
#[test]
fn flow_takes_the_connection_that_has_grown_most() {
    let first = format!(
        "[[flow]]\nname = \"first\"\nprepares = true\nbytes = \"10KB\"\nsite = true\nwarm = 2\n{WAY}"
    );
    let second = |start: &str| {
        format!(
            "[[flow]]\nname = \"second\"\nafter = \"first\"\nsite = true\nwarm = 2\nbytes = 434400\n\
             start = \"{start}\"\n{WAY}"
        )
    };
    let seconds = |sysctl: &str, start: &str| {
        let more = format!("sysctl.\"net.ipv4.tcp_slow_start_after_idle\" = \"{sysctl}\"");
        flow(&run(&more, &(first.clone() + &second(start))), "second").seconds.unwrap()
    };
    let one_flight = 4.0 * ACCESS + 2.0 * HAUL + 2.0 * LAN + 4.0 * 2.0 * LAN;
    let five_flights = 4.0 * ACCESS + 2.0 * LAN + 5.0 * 2.0 * HAUL;
    for (sysctl, start, expected) in [
        ("0", "3s", one_flight),
        // The connection to the server is a new one.
        ("0", "300s", one_flight + 2.0 * LAN),
        // Their windows have come down to the initial one.
        ("1", "3s", five_flights),
    ] {
        let found = seconds(sysctl, start);
        assert!((found - expected).abs() < 1e-6, "{sysctl}, {start}: {found} s, not {expected}");
    }
}

/// What a connection has carried is told apart by the flows that had it.
#[test]
fn flow_results_include_only_its_own_bytes() {
    let outcome = run("", &pair("warm = 2", "bytes = 1449\nstart = \"1s\"\nstreams = 1"));
    for (name, least, segments) in [("first", 725, 725), ("second", 0, 2)] {
        let flow = flow(&outcome, name);
        for hop in &flow.hops {
            // Of the last flow, acknowledgements are on their way when the run ends.
            let acknowledged = hop.bytes.unwrap() / 1448;
            assert!((least..=segments).contains(&acknowledged), "{name}: {hop:?}");
            assert_eq!((hop.retransmits, hop.timeouts), (Some(0), Some(0)));
        }
    }
}

/// Each stream takes a connection of its own; those that there are not are opened.
#[test]
fn streams_take_connections_of_their_own() {
    let with = |keys: &str, streams: u32| {
        let second = format!("bytes = 16\nstart = \"1s\"\nstreams = {streams}");
        flow(&run("", &pair(keys, &second)), "second").seconds.unwrap()
    };
    let kept = 4.0 * ACCESS + 2.0 * HAUL + 2.0 * LAN;
    // It asks the server when the first stream has its answer, and has left that connection.
    let other_is_new = 4.0 * ACCESS + 4.0 * HAUL + 2.0 * LAN;
    // Two were opened when the first flow asked, and its own was left.
    let server_is_new = 4.0 * ACCESS + 2.0 * HAUL + 4.0 * LAN;
    for (keys, streams, expected) in [
        ("site = true", 1, kept),
        ("site = true", 2, other_is_new),
        ("site = true\nwarm = 2", 3, server_is_new),
        ("site = true\nwarm = 2", 4, other_is_new),
    ] {
        let found = with(keys, streams);
        assert!((found - expected).abs() < 1e-6, "{keys:?}, {streams}: {found}, not {expected}");
    }
}

/// A site's connections are there before anybody asks, and have carried 1 MB.
#[test]
fn site_connections_are_ready_at_the_start() {
    let alone = format!(
        "[[flow]]\nname = \"only\"\nsite = true\nwarm = 1\nstart = \"1s\"\nbytes = 289600\n{WAY}"
    );
    let outcome = run("", &alone);
    // 200 segments come from the server in 10, 20, 40, 80 and 50, go on at once, and come to the client in as many.
    let expected = 4.0 * ACCESS + 2.0 * HAUL + 4.0 * LAN + 4.0 * 2.0 * LAN;
    assert_seconds("a site's first", flow(&outcome, "only"), expected);
    let haul = outcome.summary.links.iter().find(|l| l.name == "haul" && l.direction == "backward");
    let carried = haul.unwrap().bytes;
    let payload = (1 << 20) + 289_600;
    assert!((payload..payload * 11 / 10).contains(&carried), "{carried} bytes, of them {payload}");
}

#[test]
fn preparing_flow_is_left_out_of_results_and_must_end() {
    let flows = pair("", "bytes = 1").replacen("via", "prepares = true\nvia", 1);
    let outcome = run("", &flows);
    assert_eq!(
        outcome.summary.flows.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(),
        ["second"]
    );
    let cut = network("", &flows).replace("2000s", "500ms");
    let mut simulation = Simulation::new(&runs(&cut)[0]).unwrap();
    while simulation.advance(1000) {}
    let faults = simulation.faults();
    let expected = "flow first, which prepares connections: cut at the time limit of 500ms";
    assert_eq!(faults, [expected]);
    assert!(simulation.outcome().summary.flows[0].timed_out);
}

#[test]
fn kept_connections_need_the_same_congestion_control() {
    let flows = pair("", "bytes = 1");
    let (first, second) = flows.split_at(flows.rfind("[[flow]]").unwrap());
    let flows = format!(
        "{first}{}",
        second.replace("\"lh_reno\"", "[\"lh_reno\", \"lh_bbr\", \"lh_bbr\"]")
    );
    let refused = Simulation::new(&runs(&network("", &flows))[0]).unwrap_err().to_string();
    assert!(
        refused.contains("flow second: from far to near it takes over connections of flow first")
            && refused.contains("whose congestion control is another"),
        "{refused}"
    );
}

/// A request that is lost on a kept connection is sent again after a timeout, and one that arrives twice is answered once.
#[test]
fn a_lost_request_is_sent_again() {
    let mut later = 0;
    for seed in 0..40 {
        let flows = pair("site = true", "bytes = 1\nstart = \"1s\"");
        let lossy = network("", &flows)
            .replace("delay = \"40ms\"", "delay = \"40ms\"\nloss = \"5%\"")
            .replace("timeout", &format!("seed = {seed}\ntimeout"));
        let outcome = outcome(&runs(&lossy)[0]);
        let second = flow(&outcome, "second");
        let kept = 4.0 * ACCESS + 2.0 * HAUL + 2.0 * LAN;
        assert_eq!(second.bytes, 1, "seed {seed}");
        assert!(
            second.seconds.unwrap() > kept - 1e-6,
            "seed {seed}: {} s",
            second.seconds.unwrap()
        );
        later += u32::from(second.seconds.unwrap() > kept + 0.2);
    }
    assert!(later > 0, "5 % of 80 packets are lost now and then");
}
