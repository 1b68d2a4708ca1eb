// SPDX-License-Identifier: GPL-2.0-or-later
//! Acknowledgements by hand and the transmissions that Linux answers them with. The smallest RTT is 100 ms everywhere,
//! the first window 10 segments, and CUBIC takes 7/10 of it at a loss.

use super::test_path::{TestPath, at};
use congestion::Decision;

/// A connection whose first window was sent at 0 ms. The tests say at which millisecond what is acknowledged.
fn first_window() -> TestPath {
    let mut path = TestPath::scripted("cubic");
    assert_eq!(path.take_sent(), numbers(0, 0..10));
    path
}

fn numbers(ms: u64, range: std::ops::Range<u64>) -> Vec<(u64, u64)> {
    range.map(|number| (ms, number)).collect()
}

/// Three arrivals above a hole, before any reordering was seen: segment 0 is sent again at once.
fn fast_retransmit() -> TestPath {
    let mut path = first_window();
    for end in 2..4 {
        path.acknowledge(100, 0, Some(1..end), None, None);
    }
    path.take_sent();
    assert_eq!(path.counts().retransmits, 0);
    path.acknowledge(100, 0, Some(1..4), None, None);
    assert!(path.take_sent().contains(&(100, 0)));
    assert_eq!(path.counts().retransmits, 1);
    assert!(path.decision().ssthresh < Decision::INFINITE_SSTHRESH);
    path
}

#[test]
fn late_original_undoes_recovery_by_its_timestamp() {
    let mut path = fast_retransmit();
    path.acknowledge(110, 4, None, Some(0), None);
    let decision = path.decision();
    assert_eq!(path.counts().undone, 1);
    assert!(
        decision.cwnd >= 10 && decision.ssthresh == Decision::INFINITE_SSTHRESH,
        "{decision:?}"
    );
    assert_eq!(path.sender().reordering().times_seen(), 1);
    assert_eq!(path.sender().reordering().degree(), 4);
}

#[test]
fn acknowledgement_that_left_before_retransmission_undoes_recovery() {
    let mut path = fast_retransmit();
    path.acknowledge(101, 4, None, None, None);
    assert_eq!(path.counts().undone, 1);
}

#[test]
fn repaired_loss_is_not_undone() {
    let mut path = fast_retransmit();
    let ssthresh = path.decision().ssthresh;
    path.acknowledge(200, 10, None, Some(100), None);
    let end = path.sender().next();
    path.acknowledge(210, end, None, Some(101), None);
    assert_eq!(path.counts().undone, 0);
    assert_eq!(path.decision().ssthresh, ssthresh);
    assert_eq!(path.sender().reordering().times_seen(), 0);
}

#[test]
fn duplicate_report_undoes_recovery() {
    let mut path = fast_retransmit();
    path.acknowledge(200, 10, None, Some(100), None);
    assert_eq!(path.counts().undone, 0);
    path.acknowledge(201, 10, None, Some(100), Some(0));
    assert_eq!((path.counts().undone, path.counts().duplicates), (1, 1));
    assert!(path.decision().cwnd >= 10);
    assert_eq!(path.decision().ssthresh, Decision::INFINITE_SSTHRESH);
}

#[test]
fn duplicate_report_undoes_recovery_that_has_ended() {
    let mut path = fast_retransmit();
    let end = path.sender().next();
    path.acknowledge(200, end, None, Some(100), None);
    let reduced = path.decision();
    assert!(reduced.cwnd < 10, "{reduced:?}");
    path.acknowledge(201, end, None, Some(100), Some(0));
    assert_eq!(path.counts().undone, 1);
    assert!(path.decision().cwnd >= 10);
}

#[test]
fn more_duplicates_than_retransmissions_are_the_networks() {
    let mut path = first_window();
    path.acknowledge(100, 2, None, None, None);
    path.acknowledge(101, 2, None, None, Some(1));
    assert_eq!((path.counts().duplicates, path.counts().undone), (1, 0));
    // Then one that is due to a retransmission is not believed, either.
    path.acknowledge(110, 2, Some(3..6), None, None);
    assert_eq!(path.counts().retransmits, 1);
    path.acknowledge(200, 6, None, Some(110), Some(2));
    assert_eq!((path.counts().duplicates, path.counts().undone), (2, 0));
}

#[test]
fn all_of_several_retransmissions_must_be_duplicates() {
    let mut path = first_window();
    path.acknowledge(100, 0, Some(2..6), None, None);
    path.take_sent();
    path.acknowledge(110, 0, Some(2..7), None, None);
    assert_eq!(path.counts().retransmits, 2, "segments 0 and 1");
    path.acknowledge(200, 10, None, Some(100), Some(0));
    assert_eq!(path.counts().undone, 0);
    path.acknowledge(201, 10, None, Some(100), Some(1));
    assert_eq!(path.counts().undone, 1);
}

/// The smallest RTT is 100 ms: with reordering seen, a hole is lost 25 ms later.
#[test]
fn seen_reordering_waits_a_quarter_of_the_round_trip() {
    let mut path = first_window();
    path.acknowledge(100, 0, Some(1..2), None, None);
    path.acknowledge(101, 2, None, None, None);
    assert_eq!((path.sender().reordering().times_seen(), path.counts().retransmits), (1, 0));
    path.take_sent();
    path.acknowledge(102, 2, Some(3..9), None, None);
    path.take_sent();
    path.run_until(at(126));
    assert_eq!(path.counts().retransmits, 0, "102 ms of the newest and 25 ms");
    path.run_until(at(127));
    assert_eq!(path.counts().retransmits, 1);
    assert!(path.take_sent().contains(&(127, 2)));
}

/// All of the first window is late. Without an RTT sample the timeout is 1 s.
fn timed_out() -> TestPath {
    let mut path = first_window();
    path.run_until(at(1000));
    assert_eq!(path.take_sent(), [(1000, 0)]);
    assert_eq!((path.counts().timeouts, path.decision().cwnd), (1, 1));
    path
}

#[test]
fn timeout_is_undone_by_timestamp() {
    let mut path = timed_out();
    path.acknowledge(1010, 1, None, Some(0), None);
    assert_eq!((path.counts().undone, path.counts().retransmits), (1, 1));
    let decision = path.decision();
    assert!(
        decision.cwnd >= 10 && decision.ssthresh == Decision::INFINITE_SSTHRESH,
        "{decision:?}"
    );
    assert!(path.take_sent().iter().all(|(_, number)| *number >= 10), "new data only");
}

/// RFC 5682: two new segments go out before anything else is sent again; what was sent once then arrives.
#[test]
fn frto_sends_new_data_and_undoes_a_spurious_timeout() {
    let mut path = timed_out();
    path.acknowledge(1100, 1, None, Some(1000), None);
    assert_eq!(path.take_sent(), numbers(1100, 10..12));
    path.acknowledge(1105, 2, None, Some(1000), None);
    assert_eq!((path.counts().undone, path.counts().retransmits), (1, 1));
    assert!(path.decision().cwnd >= 10);
    assert_eq!(path.decision().ssthresh, Decision::INFINITE_SSTHRESH);
}

#[test]
fn frto_repairs_a_timeout_that_was_needed() {
    let mut path = timed_out();
    path.acknowledge(1100, 1, None, Some(1000), None);
    assert_eq!(path.take_sent(), numbers(1100, 10..12));
    path.acknowledge(1200, 1, Some(10..11), Some(1000), None);
    assert_eq!(path.take_sent().first(), Some(&(1200, 1)));
    path.acknowledge(1201, 1, Some(10..12), Some(1000), None);
    assert_eq!(path.counts().undone, 0);
    assert!(path.decision().ssthresh < 10);
}

#[test]
fn timeout_is_undone_by_duplicate_reports() {
    let mut path = timed_out();
    // The echo is that of the retransmission, and all comes at once: nothing is left for F-RTO.
    path.run_until(at(3000));
    assert_eq!(path.counts().timeouts, 2);
    path.take_sent();
    path.acknowledge(3010, 1, None, Some(3000), Some(0));
    assert_eq!(path.counts().undone, 0, "one of two");
    path.acknowledge(3011, 1, None, Some(3000), Some(0));
    path.acknowledge(3012, 10, None, Some(3000), None);
    assert_eq!(path.counts().undone, 1);
}

/// The last segment of a window is sent again as a probe.
fn tail_probe() -> TestPath {
    let mut path = first_window();
    path.offer(10);
    path.acknowledge(100, 9, None, None, None);
    path.run_until(at(450));
    assert_eq!(path.counts().timeouts, 0);
    let sent = path.take_sent();
    assert!(matches!(sent[..], [(_, 9)]), "{sent:?}");
    path
}

#[test]
fn duplicate_report_of_a_tail_probe_clears_it() {
    let mut path = tail_probe();
    path.acknowledge(460, 10, None, None, None);
    assert_eq!(path.decision().ssthresh, Decision::INFINITE_SSTHRESH, "not known yet");
    path.acknowledge(550, 10, None, None, Some(9));
    path.offer(12);
    path.acknowledge(650, 12, None, None, None);
    assert_eq!(path.decision().ssthresh, Decision::INFINITE_SSTHRESH);
    assert_eq!(path.sender().reordering().times_seen(), 0);
}

#[test]
fn tail_probe_that_repaired_a_loss_reduces_the_window() {
    let mut path = tail_probe();
    path.acknowledge(550, 10, None, None, None);
    assert_eq!(path.decision().ssthresh, Decision::INFINITE_SSTHRESH, "not known yet");
    path.offer(12);
    path.acknowledge(650, 12, None, None, None);
    let decision = path.decision();
    assert!(decision.ssthresh < Decision::INFINITE_SSTHRESH, "{decision:?}");
    assert_eq!(decision.cwnd, decision.ssthresh);
}

/// Much reordering: the window grows with what is acknowledged selectively, too.
#[test]
fn window_grows_with_selective_acknowledgements_after_reordering() {
    let mut path = first_window();
    let before = path.decision().cwnd;
    path.acknowledge(100, 0, Some(1..2), None, None);
    assert_eq!(path.decision().cwnd, before, "no reordering was seen");
    let mut path = fast_retransmit();
    path.acknowledge(110, 4, None, Some(0), None);
    assert!(path.sender().reordering().is_high());
    let before = path.decision().cwnd;
    path.acknowledge(111, 4, Some(5..7), None, None);
    assert!(path.decision().cwnd > before, "before: {before}");
}
