// SPDX-License-Identifier: GPL-2.0-or-later
//! What TCP's endpoints, depots and traffic do, against expectations worked out by hand.

use crate::common::{curve, forward, forward_link, hop, only, onsets, runs};
use longhaul_sim::Outcome;
use record::{FlowSummary, Quantity};
use testkit::draft::Draft;

/// A server, a client and a link between them; what is added to its tables.
#[derive(Debug, Clone, Copy, Default)]
struct Path<'a> {
    top: &'a str,
    tcp: &'a str,
    link: &'a str,
    rest: &'a str,
}

impl Path<'_> {
    fn run(&self) -> Outcome {
        let Self { top, tcp, link, rest } = self;
        only(&format!(
            r#"
            title = "Protocol"
            {top}
            [tcp]
            {tcp}
            [[node]]
            name = "server"
            cc = "lh_reno"
            [[node]]
            name = "client"
            [[link]]
            name = "link"
            between = ["server", "client"]
            overhead = 0
            {link}
            {rest}
            "#
        ))
    }

    /// Sends a file of `bytes` bytes.
    fn file(&self, bytes: u32) -> FlowSummary {
        let rest = format!("{FLOW}bytes = {bytes}\n{}", self.rest);
        let outcome = Path { rest: &rest, ..*self }.run();
        let flow = outcome.summary.flows[0].clone();
        assert_eq!((flow.outcome.as_str(), flow.bytes), ("complete", bytes.into()));
        flow
    }
}

const FLOW: &str = r#"
[[flow]]
name = "transfer"
from = "server"
to = "client"
"#;

/// Payload of a full segment: 1500 less 52 bytes of headers.
const MSS: u32 = 1448;

fn assert_close(what: &str, found: f64, expected: f64, tolerance: f64) {
    println!("{what}: {found}, expected {expected}: {:+.3} %", 100.0 * (found / expected - 1.0));
    assert!((found / expected - 1.0).abs() < tolerance, "{what}: {found}, expected {expected}");
}

/// 12 Mb/s, so that a full segment takes 1 ms, and 50 ms each variant.
const SLOW: &str = "rate = \"12mbit\"\ndelay = \"50ms\"\nqueue = \"1000p\"";
const SEGMENT_S: f64 = 1e-3;
const DELAY_S: f64 = 0.05;

fn wire_s(bytes: f64) -> f64 {
    bytes * 8.0 / 12e6
}

/// Handshake and request: three packets of 52, 52 and 202 bytes.
fn asked_s() -> f64 {
    wire_s(52.0 + 52.0 + 202.0) + 3.0 * DELAY_S
}

/// The first byte comes after two round trips; the first window is ten segments, back to back.
#[test]
fn a_file_within_the_first_window_takes_two_round_trips() {
    let path = Path { link: SLOW, ..Path::default() };
    for (bytes, sending_s) in [
        (1, wire_s(53.0)),
        (MSS, SEGMENT_S),
        (10 * MSS, 10.0 * SEGMENT_S),
        (MSS + 1, SEGMENT_S + wire_s(53.0)),
    ] {
        let expected = asked_s() + sending_s + DELAY_S;
        assert_close(&format!("{bytes} bytes"), path.file(bytes).seconds.unwrap(), expected, 1e-6);
    }
}

/// ns-2 sends at once, with headers of 40 bytes.
#[test]
fn without_a_handshake_data_comes_first() {
    let path = Path { tcp: "profile = \"ns2\"", link: SLOW, ..Path::default() };
    assert_close("a segment", path.file(1460).seconds.unwrap(), SEGMENT_S + DELAY_S, 1e-6);
}

/// Slow start by hand: 10, 20 and 40 segments, then the last 30. Each round begins with the first
/// acknowledgement of the one before, and from then on the link is busy, as each frees two for one. The
/// first 16 segments are acknowledged at once, the others in pairs: so the last round begins with the
/// acknowledgement of the 32nd, a segment after the 31st.
#[test]
fn a_file_of_100_segments_takes_four_rounds() {
    let path = Path { link: SLOW, ..Path::default() };
    let round = SEGMENT_S + DELAY_S + wire_s(52.0) + DELAY_S;
    let expected = asked_s() + 3.0 * round + SEGMENT_S + 30.0 * SEGMENT_S + DELAY_S;
    let flow = path.file(100 * MSS);
    assert_close("100 segments", flow.seconds.unwrap(), expected, 1e-6);
    assert_eq!((flow.retransmits, flow.timeouts), (Some(0), Some(0)));
}

/// What a flow without end delivers a second, from 5 s to 20 s. Segments arrive one by one, and not in frames.
fn delivered_bps(tcp: &str) -> f64 {
    let link = "delay = \"10ms\"\nmax_burst = \"0\"";
    let outcome = Path { top: "duration = \"20s\"", tcp, link, rest: FLOW }.run();
    assert_eq!(outcome.summary.flows[0].retransmits, Some(0));
    let delivered = curve(&outcome, &hop("transfer", 0), Quantity::DeliveredBytes);
    (delivered.at(20.0) - delivered.at(5.0)) * 8.0 / 15.0
}

fn a_round_bps(segments: u32, round_s: f64) -> f64 {
    f64::from(segments * MSS) * 8.0 / round_s
}

/// The sender may have ten segments out and the receiver would wait for more, so each round trip is
/// longer by the time for which it waits. Where each segment is acknowledged by itself, the application hears of
/// room by the third, when four are, and does not refill the last two: eight a round trip. The sender is ns-2's,
/// which pushes nothing; its headers have 40 bytes.
#[test]
fn a_delayed_acknowledgement_comes_after_its_time() {
    let segment = 1460;
    for (ack_delay, waits_s, out) in [("40ms", 0.04, 10), ("25ms", 0.025, 10), ("0", 0.0, 8)] {
        let found = delivered_bps(&format!(
            "profile = \"ns2\"\nack_every = 1000\nack_delay = \"{ack_delay}\"\nsndbuf = {}",
            10 * segment
        ));
        let expected = f64::from(out * segment) * 8.0 / (0.02 + waits_s);
        assert_close(ack_delay, found, expected, 0.005);
    }
}

/// Ten segments may be out, and the receiver would wait for more; but the sender pushes the last segment of
/// each piece of several, and a receiver whose application has read all acknowledges that at once. The
/// application hears of room by the third segment, when four are acknowledged, and does not refill the last
/// two: eight a round trip.
#[test]
fn a_pushed_segment_is_acknowledged_at_once() {
    for ack_delay in ["40ms", "25ms"] {
        let found = delivered_bps(&format!(
            "autotuning = false\ntail_probe = false\nack_every = 1000\nack_delay = \"{ack_delay}\"\n\
             sndbuf = {}",
            10 * MSS
        ));
        assert_close(ack_delay, found, a_round_bps(8, 0.02), 0.005);
    }
}

/// Ten segments arrive at one time. As one arrival they are acknowledged once, when no more can be part
/// of it; two by two, five times at once, and eight a round trip are refilled.
#[test]
fn a_burst_is_acknowledged_once() {
    for (ack_stretch, waits_s, out) in [("3ms", 0.003, 10), ("0", 0.0, 8)] {
        let found = delivered_bps(&format!(
            "autotuning = false\ntail_probe = false\nack_stretch = \"{ack_stretch}\"\nsndbuf = {}",
            10 * MSS
        ));
        assert_close(ack_stretch, found, a_round_bps(out, 0.02 + waits_s), 0.005);
    }
}

/// Without tuning, buffers are what may be out: in a round trip the window and no more.
#[test]
fn a_small_buffer_bounds_goodput_by_window_over_round_trip() {
    for buffer in ["rcvbuf", "sndbuf"] {
        let tcp = format!("autotuning = false\nack_every = 1\n{buffer} = {}", 45 * MSS + 100);
        assert_close(buffer, delivered_bps(&tcp), a_round_bps(45, 0.02), 0.005);
    }
}

/// With tuning, two thirds of the receive buffer become window, as measured of Linux (see `room`), less
/// the segment that has just arrived.
#[test]
fn a_tuned_receive_window_grows_to_two_thirds_of_its_buffer() {
    let tcp = format!("ack_every = 1\nsndbuf = \"1GB\"\nrcvbuf = {}", 300 * MSS);
    assert_close("rcvbuf", delivered_bps(&tcp), a_round_bps(199, 0.02), 0.005);
}

/// What waits for room at the receiver was handed over: samples of the rate count, so BBR sees that
/// no more gets through and leaves Startup, where it paces at 2.89 times the rate.
#[test]
fn closed_window_is_not_counted_as_slow_application() {
    let tcp = format!("autotuning = false\nack_every = 1\nrcvbuf = {}", 45 * MSS + 100);
    let rest = format!("{FLOW}cc = \"lh_bbr\"");
    let link = "rate = \"1gbit\"\ndelay = \"10ms\"";
    let outcome = Path { top: "duration = \"5s\"", tcp: &tcp, link, rest: &rest }.run();
    let pace = curve(&outcome, &hop("transfer", 0), Quantity::PacingRateBps);
    let paced = crate::common::mean_between(pace, 2.0, 5.0) / a_round_bps(45, 0.02);
    assert!(paced < 1.25, "paced at {paced:.2} times the rate that gets through");
}

/// RFC 6298: one second where no round trip is known, then twice as long each time.
#[test]
fn the_timeout_doubles_when_everything_is_lost() {
    for tcp in ["handshake = false", "profile = \"ns2\""] {
        let outcome = Path {
            top: "duration = \"20s\"",
            tcp,
            link: "delay = \"10ms\"\nforward = { loss = { periodic = 1 } }",
            rest: FLOW,
        }
        .run();
        let flow = &outcome.summary.flows[0];
        assert_eq!((flow.timeouts, flow.retransmits, flow.bytes), (Some(4), Some(4), 0));
        let losses = onsets(curve(&outcome, &forward("link"), Quantity::Losses), 0.0);
        // Samples are 100 ms apart.
        let rounded: Vec<f64> = losses.iter().map(|at| at.floor()).collect();
        assert_eq!(rounded, [0.0, 1.0, 3.0, 7.0, 15.0], "{losses:?}");
    }
}

/// Without rate, with a round trip of 100 ms. The server's packets are one to answer the handshake and
/// ten of data; the last is lost. It is asked at 0.15 s and hears of the first nine at 0.25 s. One
/// segment is out, for which a probe would wait for two round trips and 200 ms; the timeout of a round
/// trip and 200 ms comes first and becomes its time. So either repairs it at 0.55 s.
#[test]
fn a_tail_probe_repairs_a_lost_last_segment_without_a_timeout() {
    for (tcp, timeouts) in [("tail_probe = true", 0), ("tail_probe = false", 1)] {
        let link = "delay = \"50ms\"\nmax_burst = \"0\"\nforward = { loss = { periodic = 11 } }";
        let flow = Path { tcp, link, ..Path::default() }.file(10 * MSS);
        assert_eq!((flow.retransmits, flow.timeouts), (Some(1), Some(timeouts)), "{tcp}");
        assert_close(tcp, flow.seconds.unwrap(), 0.6, 1e-6);
    }
}

/// A window of 20 in congestion avoidance. Every 23rd packet is lost: the 23rd, in the second window,
/// and the 46th, which is its retransmission, since 22 are sent for the first 22 (and one as the window
/// grows) and two for the first two of the three that tell of the loss. At 0.3 s the acknowledgements of
/// what was sent after it tell of that loss too, so it is acknowledged at 0.4 s. If every 24th or 22nd
/// is lost, the retransmission is not the second of them, and is acknowledged at 0.3 s. And if there is
/// nothing to send after it, nothing tells of its loss but the timeout.
#[test]
fn later_segments_reveal_a_lost_retransmission() {
    for detection in ["rack", "dupack"] {
        let run = |lost: u32, segments: u32| {
            let tcp = format!(
                "handshake = false\ntail_probe = false\nack_every = 1\ninitial_window = 20\n\
                 initial_ssthresh = 20\nloss_detection = \"{detection}\""
            );
            let link = format!(
                "rate = \"1gbit\"\ndelay = \"50ms\"\nmax_burst = \"0\"\n\
                 forward = {{ loss = {{ periodic = {lost} }} }}"
            );
            let rest = format!("{FLOW}bytes = {}", segments * MSS);
            let top = "sample = \"50ms\"";
            let outcome = Path { top, tcp: &tcp, link: &link, rest: &rest }.run();
            let flow = outcome.summary.flows[0].clone();
            let acked = curve(&outcome, &hop("transfer", 0), Quantity::AckedBytes).at(0.35);
            (flow.retransmits.unwrap(), flow.timeouts.unwrap(), (acked / f64::from(MSS)) as u32)
        };
        assert_eq!(run(23, 60), (2, 0, 22), "{detection}");
        for lost in [22, 24] {
            let (retransmits, timeouts, acked) = run(lost, 60);
            assert_eq!((retransmits, timeouts), (2, 0), "{detection}, every {lost}th");
            assert!(acked > lost, "{detection}, every {lost}th: {acked}");
        }
        assert_eq!(run(23, 45), (2, 1, 22), "{detection}");
    }
}

/// A fast link into the depot and a slow one out of it: the depot holds what its two buffers hold, and
/// the chain goes at the slow link's pace.
#[test]
fn a_slow_last_hop_holds_the_first_one_back() {
    // The kernel doubles what a program asks for.
    const BUFFER: f64 = 2.0 * 262_144.0;
    let outcome = only(
        r#"
        title = "Chain"
        sample = "10ms"
        [[node]]
        name = "server"
        [[node]]
        name = "depot"
        [[node]]
        name = "client"
        [[link]]
        between = ["server", "depot"]
        rate = "1gbit"
        delay = "10ms"
        [[link]]
        between = ["depot", "client"]
        rate = "10mbit"
        delay = "10ms"
        [[flow]]
        name = "transfer"
        from = "server"
        to = "client"
        via = ["depot"]
        sndbuf = "256KB"
        rcvbuf = "256KB"
        bytes = "10MB"
        "#,
    );
    let flow = &outcome.summary.flows[0];
    assert_eq!(flow.outcome, "complete");
    let [into, out_of] =
        [0, 1].map(|n| curve(&outcome, &hop("transfer", n), Quantity::DeliveredBytes));
    let held = out_of.time_s.iter().map(|at| into.at(*at) - out_of.at(*at));
    let most = held.fold(0.0, f64::max);
    println!("the depot holds {most} bytes at most, of {BUFFER} in each buffer");
    assert!(most <= 2.0 * BUFFER, "{most}");
    assert!(most > BUFFER / 2.0, "the buffers fill: {most}");
    let slowest = 10e6 * f64::from(MSS) / 1514.0;
    assert!(
        (0.97 * slowest..slowest).contains(&flow.goodput_bps.unwrap()),
        "{}",
        flow.goodput_bps.unwrap()
    );
}

#[test]
fn streams_share_a_file() {
    let bytes = 4_000_003;
    let rest = "streams = 4\n";
    let link = "rate = \"100mbit\"\ndelay = \"5ms\"";
    let flow = Path { link, rest, ..Path::default() }.file(bytes);
    assert_eq!(flow.hops.iter().map(|hop| hop.stream).collect::<Vec<_>>(), [0, 1, 2, 3]);
    for hop in &flow.hops {
        // 1 000 001 and 1 000 000 bytes are 691 segments. At the end some acknowledgements are on their
        // variant.
        let segments = hop.bytes.unwrap() / u64::from(MSS);
        assert!((650..=691).contains(&segments), "{segments}");
    }
}

/// RFC 3168: the sender hears of the queue before it is full. What is marked right behind the segment
/// that tells of its answer halves the window once more: also then it is above the path's 33 segments.
#[test]
fn marks_hold_a_queue_without_drops() {
    let [marked, dropped] = [true, false].map(|ecn| {
        let outcome = Path {
            top: "duration = \"20s\"",
            tcp: &format!("ecn = {ecn}"),
            link: "rate = \"10mbit\"\ndelay = \"20ms\"\nqueue = \"400p\"\nmark = \"120p\"",
            rest: FLOW,
        }
        .run();
        let link = forward_link(&outcome, "link").clone();
        (link, outcome.summary.flows[0].clone())
    });
    assert_eq!((marked.0.queue_drops, marked.1.retransmits), (0, Some(0)));
    assert!(marked.0.utilisation > Some(0.98), "{:?}", marked.0.utilisation);
    assert!(dropped.0.queue_drops > 0 && dropped.1.retransmits > Some(0));
    assert!(marked.0.queue_mean_delay_us < dropped.0.queue_mean_delay_us);
}

fn cbr(mbit: u32) -> String {
    format!(
        "[[traffic]]\nfrom = \"server\"\nto = \"client\"\nkind = \"cbr\"\nrate = \"{mbit}mbit\"\n\
         packet = 1000\n"
    )
}

/// Datagrams don't answer to loss: of 15 Mb/s 10 pass, and a third is lost.
#[test]
fn constant_rate_loses_what_exceeds_the_link() {
    let link = "rate = \"10mbit\"\ndelay = \"10ms\"\nqueue = \"50p\"";
    let rest = cbr(15);
    let outcome = Path { top: "duration = \"20s\"", link, rest: &rest, ..Path::default() }.run();
    let link = forward_link(&outcome, "link");
    assert_close("utilisation", link.utilisation.unwrap(), 1.0, 0.001);
    assert_close("loss", link.loss_ratio().unwrap(), 1.0 / 3.0, 0.01);
}

/// At 8 Mb/s a datagram of 1000 bytes comes every millisecond, and takes 80 us at 100 Mb/s.
#[test]
fn a_constant_rate_has_equal_gaps() {
    let link = "rate = \"100mbit\"\ndelay = \"10ms\"\nqueue = \"50p\"";
    let rest = cbr(8);
    let outcome = Path { top: "duration = \"20s\"", link, rest: &rest, ..Path::default() }.run();
    let link = forward_link(&outcome, "link");
    assert_close("mean gap", link.gap_mean_us.unwrap(), 920.0, 1e-9);
    assert_eq!((link.gap_deviation_us, link.gap_p99_us), (Some(0.0), Some(920.0)));
    assert_eq!((link.burst_mean_segments, link.burst_max_segments), (Some(1.0), Some(1)));
}

/// What 6 Mb/s of datagrams leave of 10 is TCP's.
#[test]
fn tcp_takes_what_a_constant_rate_leaves() {
    let link = "rate = \"10mbit\"\ndelay = \"10ms\"\nqueue = \"50p\"";
    let rest = format!("{FLOW}{}", cbr(6));
    let outcome = Path { top: "duration = \"60s\"", link, rest: &rest, ..Path::default() }.run();
    let flow = &outcome.summary.flows[0];
    let share = 4e6 * f64::from(MSS) / 1500.0;
    assert_close("goodput", flow.goodput_bps.unwrap(), share, 0.03);
    assert!(forward_link(&outcome, "link").utilisation > Some(0.98));
}

/// Exponential times of 1 s on and 1 s off: busy for half of the time. The variance of the share of a
/// time T is 1 s / (4 T) (alternating renewal process), so in 1000 s the standard error is 1.6 % of all.
#[test]
fn an_on_off_source_is_on_for_its_share_of_the_time() {
    let link = "rate = \"10mbit\"\ndelay = \"1ms\"\nqueue = \"20p\"";
    let seed = std::env::var("LONGHAUL_SEED").unwrap_or("1".to_owned());
    println!("LONGHAUL_SEED={seed}");
    // 1.2 MB of payload are 1.25 MB with headers, which take a second.
    for on in ["\"1s\"", "1_200_000"] {
        let top = format!("duration = \"1000s\"\nseed = {seed}");
        let rest = format!(
            "[[traffic]]\nfrom = \"server\"\nto = \"client\"\nkind = \"on-off\"\non = {on}\n\
             off = \"1s\"\n"
        );
        let outcome = Path { top: &top, link, rest: &rest, ..Path::default() }.run();
        let utilisation = forward_link(&outcome, "link").utilisation.unwrap();
        println!("on for {on}: {utilisation}");
        assert!((utilisation - 0.5).abs() < 4.0 * 0.016, "on for {on}: {utilisation}");
        // Idle when it is off, not slow all the time.
        let bins = &curve(&outcome, &forward("link"), Quantity::ThroughputBps).value;
        let idle = bins.iter().filter(|bps| **bps == 0.0).count() as f64 / bins.len() as f64;
        assert!((idle - 0.5).abs() < 0.1, "on for {on}: idle for {idle}");
    }
}

/// A window that is all in flight when the send buffer runs empty was the limit: both grow. Otherwise a flow whose
/// slow start ends early stays at the 60 segments of its first buffer.
#[test]
fn a_buffer_that_is_all_in_flight_does_not_freeze_the_window() {
    let goodput = |tcp: &str| {
        let link = "rate = \"50mbit\"\ndelay = \"25ms\"";
        let tcp = format!("initial_ssthresh = 30\n{tcp}");
        let outcome = Path { top: "duration = \"60s\"", tcp: &tcp, link, rest: FLOW }.run();
        outcome.summary.flows[0].goodput_bps.unwrap()
    };
    let (tuned, fixed) = (goodput(""), goodput("autotuning = false"));
    println!("{tuned} with tuned buffers, {fixed} with fixed ones");
    assert!(tuned > 0.97 * fixed, "{tuned} {fixed}");
}

/// What an acknowledgement lets out waits for more of it, up to a millisecond of the rate: with a window of some
/// 100 segments on a path that holds 206, more than two leave in one piece. ns-2 sends at once.
#[test]
fn segments_leave_in_pieces_of_a_millisecond() {
    let mean = |profile: &str| {
        let tcp = format!(
            "tcp={{profile={profile:?},initial_ssthresh=100,ack_every=2,ack_delay=\"40ms\"}}"
        );
        let text = Draft::new("t", &format!("duration=3s {tcp}"))
            .nodes(&["server", "router", "client"])
            .link("server", "router", "name=wire rate=1gbit delay=\"0\" queue=1000p")
            .link("router", "client", "name=link rate=50mbit delay=25ms queue=1000p")
            .line(FLOW)
            .to_string();
        let outcome = crate::common::only(&text);
        forward_link(&outcome, "wire").burst_mean_segments.unwrap()
    };
    let (linux, ns2) = (mean("linux"), mean("ns2"));
    println!("{linux} segments without a gap, {ns2} with ns-2");
    assert!(linux > 1.3 * ns2, "{linux} {ns2}");
}

#[test]
fn kernel_algorithm_name_selects_kernel_parameters() {
    let run = |profile: &str| {
        runs(&format!(
            r#"
            title = "Parameters"
            [tcp]
            profile = "{profile}"
            [[node]]
            name = "server"
            [[node]]
            name = "client"
            [[link]]
            name = "link"
            between = ["server", "client"]
            [[flow]]
            name = "file"
            from = "server"
            to = "client"
            bytes = "1MB"
            "#
        ))
    };
    let bbr = congestion::Algorithm::find("bbr").unwrap();
    let params =
        |profile, name| experiment::congestion_controls::params(&run(profile)[0], name).unwrap();
    let linux = &bbr.set("linux").unwrap().params;
    assert_ne!(linux.values(), bbr.default_set().values());
    assert_eq!(params("linux", "bbr").values(), linux.values());
    assert_eq!(params("linux", "lh_bbr").values(), bbr.default_set().values());
    assert_eq!(params("ns2", "bbr").values(), bbr.default_set().values());
}
