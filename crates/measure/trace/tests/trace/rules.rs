// SPDX-License-Identifier: GPL-2.0-or-later
//! The published rules, each on a conversation that it decides.

use crate::script::{MSS, Script};
use longhaul_trace::{CapturePoint, Cause, Ending, Flags, Kind};

/// Round trip of most scripts, all of it between sender and receiver.
const TRIP_US: u64 = 40_000;

/// Captured at the sender: segments 0 to 9 at once.
fn at_sender() -> Script {
    let mut script = Script::opened(TRIP_US, 10);
    for n in 0..10 {
        script.data(50_000 + 100 * u64::from(n), n);
    }
    script
}

/// Captured at the receiver.
fn at_receiver() -> Script {
    Script::opened(10, TRIP_US)
}

/// The kinds of retransmissions alone, by packet.
fn causes(kinds: &[(u64, Kind)]) -> Vec<(u64, Cause)> {
    let cause = |(packet, kind): &(u64, Kind)| match kind {
        Kind::Retransmission(cause) => Some((*packet, *cause)),
        _ => None,
    };
    kinds.iter().filter_map(cause).collect()
}

#[test]
fn clean_transfer_has_round_trips_goodput_and_nothing_else() {
    let mut script = at_sender();
    for n in 1..=10 {
        script.ack(50_000 + TRIP_US + 100 * u64::from(n), n, &[]);
    }
    let (kinds, connection) = script.only();
    assert_eq!(kinds, []);
    assert!(connection.handshake_captured);
    let server = &connection.directions[1];
    assert_eq!((server.from.as_str(), server.to.as_str()), ("10.0.0.2:80", "10.0.0.1:40000"));
    assert_eq!((server.unique_bytes, server.acknowledged_bytes), (10_000, 10_000));
    assert_eq!(server.rtt_samples, 10);
    assert_eq!(server.rtt_min_us, Some(40_100.0));
    assert_eq!(server.rtt_max_us, Some(40_100.0));
    assert_eq!(connection.path_rtt_min_us, Some(40_010.0));
    assert_eq!(server.capture_point, Some(CapturePoint::Sender));
    assert_eq!(connection.directions[0].capture_point, Some(CapturePoint::Receiver));
    let seconds = (TRIP_US + 1000) as f64 / 1e6;
    assert!((server.goodput_bps.unwrap() - 80_000.0 / seconds).abs() < 1.0);
    assert_eq!((server.retransmitted_segments, server.outstanding_max_bytes), (0, 10_000));
    assert_eq!((server.window_scale, server.window_max_bytes), (Some(7), Some(128_000)));
}

#[test]
fn loss_told_by_selective_blocks_is_sent_again_fast() {
    let mut script = at_sender();
    script.ack(91_000, 3, &[]);
    for n in 5..=10 {
        script.ack(91_000 + 100 * u64::from(n), 3, &[(4, n)]);
    }
    script.data(92_100, 3);
    script.ack(132_200, 10, &[]);
    let (kinds, connection) = script.only();
    assert_eq!(causes(&kinds), [(21, Cause::Fast)]);
    let duplicates = kinds.iter().filter(|(_, kind)| *kind == Kind::DuplicateAck).count();
    assert_eq!(duplicates, 6);
    let server = &connection.directions[1];
    assert_eq!((server.fast_segments, server.retransmitted_segments), (1, 1));
    assert_eq!((server.retransmitted_bytes, server.unique_bytes), (1000, 10_000));
    // Karn: the acknowledgement of what was sent twice is no round trip.
    assert!(server.rtt_max_us.unwrap() < 42_000.0, "{:?}", server.rtt_max_us);
}

#[test]
fn three_duplicates_without_blocks_are_enough_and_a_partial_one_goes_on() {
    let mut script = at_sender();
    script.ack(91_000, 3, &[]);
    for n in 0..3 {
        script.ack(91_100 + n, 3, &[]);
    }
    script.data(91_200, 3);
    // A partial acknowledgement: segment 6 is lost as well (NewReno).
    script.ack(132_000, 6, &[]);
    script.data(132_100, 6);
    script.ack(173_000, 10, &[]);
    let (kinds, _) = script.only();
    assert_eq!(causes(&kinds), [(18, Cause::Fast), (20, Cause::Fast)]);
}

#[test]
fn silence_ends_by_timeout_and_its_recovery_goes_on() {
    let mut script = at_sender();
    script.ack(91_000, 3, &[]);
    script.data(91_000 + 245_000, 3);
    script.ack(91_000 + 290_000, 4, &[]);
    script.data(91_000 + 290_010, 4);
    script.data(91_000 + 290_020, 5);
    script.ack(91_000 + 340_000, 10, &[]);
    let (kinds, connection) = script.only();
    let timeout = Cause::Timeout;
    assert_eq!(causes(&kinds), [(15, timeout), (17, timeout), (18, timeout)]);
    assert_eq!(connection.directions[1].timeout_segments, 3);
}

#[test]
fn last_segment_after_two_round_trips_is_a_tail_loss_probe() {
    let mut script = at_sender();
    script.ack(91_000, 8, &[]);
    script.data(91_000 + 85_000, 9);
    script.ack(91_000 + 126_000, 8, &[(9, 10)]);
    script.data(91_000 + 126_010, 8);
    script.ack(91_000 + 167_000, 10, &[]);
    let (kinds, connection) = script.only();
    assert_eq!(causes(&kinds), [(15, Cause::TailLossProbe), (17, Cause::Fast)]);
    assert_eq!(connection.directions[1].tail_loss_probe_segments, 1);
}

#[test]
fn duplicate_selective_block_makes_a_retransmission_spurious() {
    let mut script = at_sender();
    script.ack(91_000, 3, &[]);
    script.data(91_000 + 245_000, 3);
    // All had arrived; acknowledgements were late.
    script.ack(91_000 + 245_100, 10, &[]);
    script.ack(91_000 + 286_000, 10, &[(3, 4)]);
    let (kinds, connection) = script.only();
    assert_eq!(causes(&kinds), [(15, Cause::Timeout)]);
    assert_eq!(kinds.last(), Some(&(17, Kind::DuplicateSack)));
    let server = &connection.directions[1];
    assert_eq!((server.spurious_segments, server.network_duplicates), (1, 0));
    // A block for what was never sent again: the network duplicated it.
    let mut script = at_sender();
    script.ack(91_000, 10, &[]);
    script.ack(91_100, 10, &[(3, 4)]);
    let server = &script.only().1.directions[1];
    assert_eq!(
        (server.spurious_segments, server.duplicate_sacks, server.network_duplicates),
        (0, 1, 1)
    );
}

#[test]
fn acknowledged_data_is_sent_again_in_vain() {
    let mut script = at_sender();
    script.ack(91_000, 5, &[(6, 8)]);
    script.data(91_100, 2);
    script.data(91_200, 6);
    let (kinds, connection) = script.only();
    assert_eq!(causes(&kinds), [(15, Cause::Unneeded), (16, Cause::Unneeded)]);
    assert_eq!(connection.directions[1].unneeded_segments, 2);
}

/// Segment 1 is overtaken by 2 and 3, or lost and sent again, and comes after so long.
fn gap_filled(late_us: u64) -> (Kind, u64) {
    let mut script = at_receiver();
    for n in [0, 2, 3] {
        script.data(60_000 + 10 * u64::from(n), n);
    }
    script.ack(60_040, 1, &[(2, 4)]);
    script.data(60_020 + late_us, 1);
    script.ack(60_030 + late_us, 4, &[]);
    let packet = script.segments.len() as u64 - 1;
    let (kinds, connection) = script.only();
    assert_eq!(kinds[0], (5, Kind::Gap));
    let kind = kinds.iter().find(|(number, _)| *number == packet).expect("a kind").1;
    assert_eq!(connection.directions[1].uncaptured_bytes, 0);
    (kind, connection.directions[1].reordered_packets)
}

#[test]
fn gap_is_filled_late_or_again_by_time() {
    let fill = |late_us: u64| {
        let mut script = at_receiver();
        for n in [0, 2, 3] {
            script.data(60_000 + 10 * u64::from(n), n);
        }
        script.ack(60_040, 1, &[(2, 4)]);
        script.data(60_020 + late_us, 1);
        // Without identifications, time decides.
        script.segments.iter_mut().for_each(|segment| segment.ip_id = 0);
        script.only()
    };
    let (kinds, connection) = fill(30_000);
    assert_eq!(kinds.last(), Some(&(8, Kind::Reordered)));
    assert_eq!(connection.directions[1].reordering_max_us, Some(30_000.0));
    let (kinds, _) = fill(40_000);
    assert_eq!(kinds.last(), Some(&(8, Kind::Retransmission(Cause::Fast))));
}

#[test]
fn gap_is_filled_late_or_again_by_identification() {
    // It was sent after what is behind the gap, although no round trip has passed.
    assert_eq!(gap_filled(5000), (Kind::Retransmission(Cause::Fast), 0));
}

#[test]
fn gap_is_filled_late_or_again_by_timestamps() {
    for (value, expected) in [(99, Kind::Reordered), (101, Kind::Retransmission(Cause::Fast))] {
        let mut script = at_receiver();
        script.timestamp = Some(100);
        for n in [0, 2, 3] {
            script.data(60_000 + 10 * u64::from(n), n);
        }
        script.ack(60_040, 1, &[(2, 4)]);
        script.timestamp = Some(value);
        // Against what time alone would say.
        let late_us: u64 = if expected == Kind::Reordered { 90_000 } else { 1000 };
        script.data(60_020 + late_us, 1);
        assert_eq!(script.only().0.last(), Some(&(8, expected)));
    }
}

#[test]
fn packets_captured_twice_are_copies() {
    let mut script = at_sender();
    for n in 1..=10 {
        script.ack(50_000 + TRIP_US + 100 * u64::from(n), n, &[]);
    }
    let once = script.only().1;
    // A mirror port of both directions: each packet twice, the same identification.
    let mirror = script.segments.iter().flat_map(|segment| [*segment; 2]);
    let mirror = Script { segments: mirror.collect(), ..script.clone() };
    // A router: the second time on another interface, with a lower hop limit, in IPv6 style without identification.
    let forwarded = script.segments.iter().flat_map(|segment| {
        let first = longhaul_trace::Segment { ip_id: 0, ..*segment };
        let later = segment.unix_ns + 30_000;
        [first, longhaul_trace::Segment { interface: 1, hops: 63, unix_ns: later, ..first }]
    });
    let forwarded = Script { segments: forwarded.collect(), ..script.clone() };
    for twice in [mirror, forwarded] {
        let (kinds, connection) = twice.only();
        assert!(kinds.iter().all(|(_, kind)| *kind == Kind::Copy), "{kinds:?}");
        assert_eq!(kinds.len(), script.segments.len());
        for (once, twice) in once.directions.iter().zip(&connection.directions) {
            assert_eq!(twice.copies * 2, twice.packets);
            assert_eq!(twice.retransmitted_segments, 0);
            assert_eq!(twice.payload_bytes, once.payload_bytes);
            assert_eq!((twice.rtt_samples, twice.rtt_min_us), (once.rtt_samples, once.rtt_min_us));
        }
    }
}

#[test]
fn keep_alives_and_probes_are_no_data() {
    let mut script = at_sender();
    script.ack(91_000, 10, &[]);
    script.push(5_000_000, 1, 10 * MSS, 1, 1);
    script.ack(5_041_000, 10, &[]);
    script.push(9_000_000, 1, 10 * MSS, 0, 1);
    script.ack(9_041_000, 10, &[]);
    script.ack(9_100_000, 10, &[]).window = 0;
    script.push(9_400_000, 1, 10 * MSS, 0, 1);
    script.push(9_800_000, 1, 10 * MSS + 1, 1, 1);
    let (kinds, connection) = script.only();
    let (alive, probe) = (Kind::KeepAlive, Kind::ZeroWindowProbe);
    assert_eq!(kinds, [(15, alive), (17, alive), (19, Kind::ZeroWindow), (20, probe), (21, probe)]);
    let server = &connection.directions[1];
    assert_eq!((server.keep_alives, server.zero_window_probes, server.zero_windows), (2, 2, 1));
    assert_eq!((server.retransmitted_segments, server.unique_bytes), (0, 10_000));
}

/// A window of 1000 without scaling would hold one segment; the handshake scales it by 7 bits to 128 segments.
#[test]
fn window_is_full_for_as_long_as_no_segment_fits() {
    let mut script = Script::opened(TRIP_US, 10);
    for n in 0..128 {
        script.data(50_000 + u64::from(n), n);
    }
    script.ack(90_000, 64, &[]);
    script.ack(90_100, 128, &[]);
    script.data(190_100, 128);
    script.ack(230_100, 129, &[]);
    let (kinds, connection) = script.only();
    assert_eq!(kinds, [(131, Kind::WindowFull)]);
    let server = &connection.directions[1];
    assert_eq!(server.window_full_packets, 1);
    assert!((server.window_limited_s - 0.039_873).abs() < 1e-9, "{}", server.window_limited_s);
    assert!((server.idle_s - 0.1).abs() < 1e-9, "{}", server.idle_s);
    assert_eq!(server.outstanding_max_bytes, 128_000);
}

#[test]
fn capture_from_mid_connection_follows_the_stream() {
    let mut script = Script { offset: u32::MAX - 4000, ..Script::default() };
    // The first packet captured had overtaken the one before.
    script.data(60_000, 1);
    script.data(60_100, 0);
    for n in 2..40 {
        script.data(60_000 + 100 * u64::from(n), n);
    }
    script.ack(101_000, 40, &[]);
    // The overtaken packet has the lower identification.
    (script.segments[0].ip_id, script.segments[1].ip_id) = (2, 1);
    let (kinds, connection) = script.only();
    assert_eq!(kinds, [(2, Kind::Reordered)]);
    assert!(!connection.handshake_captured);
    assert_eq!(connection.ending, Ending::Open);
    let server = connection.directions.iter().find(|one| one.from.ends_with(":80")).unwrap();
    assert_eq!((server.unique_bytes, server.acknowledged_bytes), (40_000, 40_000));
    assert_eq!((server.window_scale, server.segment_bytes), (None, 1000));
}

#[test]
fn super_packet_counts_its_segments() {
    let mut script = Script::opened(TRIP_US, 10);
    script.push(50_000, 1, 1, 20 * MSS, 1);
    script.ack(90_000, 5, &[]);
    script.ack(90_100, 5, &[(8, 20)]);
    // The three that are missing, in one packet.
    script.push(90_200, 1, 1 + 5 * MSS, 3 * MSS, 1);
    script.ack(131_000, 20, &[]);
    let (kinds, connection) = script.only();
    assert_eq!(causes(&kinds), [(7, Cause::Fast)]);
    let server = &connection.directions[1];
    assert_eq!((server.retransmitted_segments, server.retransmitted_packets), (3, 1));
    assert_eq!((server.data_packets, server.unique_bytes), (2, 20_000));
}

#[test]
fn packet_far_away_does_not_move_the_high_water_mark() {
    let mut script = at_sender();
    script.push(51_000, 1, 1 + (1 << 30) + 77_000, MSS, 1);
    script.data(51_100, 10);
    script.ack(91_000, 11, &[]);
    let (kinds, connection) = script.only();
    assert_eq!(kinds, [(14, Kind::Stray)]);
    let server = &connection.directions[1];
    assert_eq!((server.stray_packets, server.unique_bytes), (1, 11_000));
}

#[test]
fn what_the_capture_lacks_is_counted_and_is_no_retransmission() {
    let mut script = at_sender();
    // Segments 10 to 14 were sent and not captured.
    script.data(52_000, 15);
    script.ack(92_000, 16, &[]);
    script.data(92_100, 16);
    let (kinds, connection) = script.only();
    assert_eq!(kinds, [(14, Kind::Gap)]);
    let server = &connection.directions[1];
    assert_eq!((server.uncaptured_bytes, server.retransmitted_segments, server.gaps), (5000, 0, 1));
}

#[test]
fn syn_and_fin_sent_again_are_counted_apart() {
    let mut script = Script::default();
    let opens = Flags { syn: true, ..Flags::default() };
    script.push(0, 0, 0, 0, 0).flags = opens;
    script.push(1_000_000, 0, 0, 0, 0).flags = opens;
    script.push(1_040_000, 1, 0, 0, 1).flags = Flags { ack: true, ..opens };
    script.push(1_040_010, 0, 1, 0, 1);
    let ends = Flags { fin: true, ack: true, ..Flags::default() };
    script.push(1_050_000, 0, 1, 0, 1).flags = ends;
    script.push(1_300_000, 0, 1, 0, 1).flags = ends;
    script.push(1_340_000, 1, 1, 0, 2).flags = ends;
    script.push(1_340_010, 0, 2, 0, 2);
    let (kinds, connection) = script.only();
    let control = Kind::ControlRetransmission;
    assert_eq!(kinds, [(2, control), (6, control)]);
    assert_eq!(connection.directions[0].control_retransmissions, 2);
    assert_eq!(connection.ending, Ending::Closed);
    // The SYN came twice, so its answer is no round trip.
    assert!(connection.path_rtt_min_us.is_none_or(|us| us < 50_000.0));
}

#[test]
fn same_ends_open_another_connection() {
    let mut script = at_sender();
    script.ack(91_000, 10, &[]);
    script.push(92_000, 0, 1, 0, 1).flags = Flags { rst: true, ..Flags::default() };
    let opens = Flags { syn: true, ..Flags::default() };
    script.push(93_000, 0, 5_000_000, 0, 0).flags = opens;
    let (_, connections) = script.analysed();
    let endings: Vec<_> = connections.iter().map(|one| one.ending).collect();
    assert_eq!(endings, [Ending::Reset, Ending::Open]);
    assert_eq!(connections[1].first_packet, 16);
}
