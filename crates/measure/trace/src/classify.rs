// SPDX-License-Identifier: GPL-2.0-or-later
//! What a packet is, and by which evidence: the rules that `docs/trace.md` publishes, as pure functions.
//!
//! Data below the high-water mark is sent again ([`Kind::Retransmission`]), late ([`Kind::Reordered`]) or seen twice
//! ([`Kind::Copy`]). Why it was sent again ([`cause`]) follows from what the capture has shown until then: silence, selective
//! acknowledgements, duplicate acknowledgements. Whether data that fills a gap is late or was sent again ([`is_reordered`]) follows
//! from timestamps, from IPv4's identification, or from the time that a retransmission takes at least.
//! Sources: RFC 6298 (timeout), RFC 8985 (RACK and tail loss probes), RFC 6675 (recovery), as Linux has them.

/// What a packet is. A packet may be several of them: it acknowledges and carries data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Data that was not seen before, beyond all that was.
    NewData,
    /// New data that lies beyond a gap: what is between was lost before it was captured, is late, or the capture lacks it.
    Gap,
    /// Data that was sent again.
    Retransmission(Cause),
    /// A SYN or FIN without data that was sent again.
    ControlRetransmission,
    /// Data that fills a gap and was sent before what is beyond the gap.
    Reordered,
    /// The same packet once more: a mirror port, a second interface, or a network that duplicates.
    Copy,
    /// Asks whether the other end is still there: the byte before the next one, with all acknowledged.
    KeepAlive,
    /// The same, while the receiver's window is closed; also one byte beyond the closed window.
    ZeroWindowProbe,
    /// The receiver closes its window.
    ZeroWindow,
    /// Data up to the end of the receiver's window.
    WindowFull,
    /// An acknowledgement that repeats the one before, while data is under way.
    DuplicateAck,
    /// An acknowledgement that says that data came twice (RFC 2883).
    DuplicateSack,
    /// Far outside of the window: not of this connection, or damaged. It is not counted further.
    Stray,
}

/// Why data was sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// The receiver's acknowledgements told of a loss: selective ones, or three duplicates.
    Fast,
    /// Nothing was acknowledged for the retransmission timeout; also what is sent again in the recovery after it.
    Timeout,
    /// The last data, after two round trips of silence, to learn whether it arrived (RFC 8985).
    TailLossProbe,
    /// The capture shows that the receiver had already acknowledged it.
    Unneeded,
    /// The capture does not show a reason.
    Unknown,
}

/// A recovery that a connection is in until all is acknowledged that was sent when it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recovery {
    Fast,
    Timeout,
}

/// What is known when data is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact that a rule asks for")]
pub(crate) struct Evidence {
    /// All of it was acknowledged, cumulatively or selectively.
    pub(crate) is_acknowledged: bool,
    /// It begins at the first byte that is not acknowledged.
    pub(crate) is_first: bool,
    /// It ends at the high-water mark.
    pub(crate) is_last: bool,
    /// Data behind it was selectively acknowledged.
    pub(crate) is_sacked_behind: bool,
    pub(crate) duplicate_acks: u32,
    /// It was sent when a recovery began, which is not over.
    pub(crate) recovery: Option<Recovery>,
    /// Since it was sent the last time, as far as seen, or since the acknowledgement advanced if that is later.
    pub(crate) waited_ns: u64,
    /// Since any data was sent or acknowledged.
    pub(crate) silence_ns: u64,
    /// Smoothed round trip and its variation, of the whole path as far as known.
    pub(crate) round_trip_ns: Option<(u64, u64)>,
}

const MS: u64 = 1_000_000;

/// A retransmission timeout before any round trip is known (RFC 6298, section 2.1).
const INITIAL_TIMEOUT_NS: u64 = 1000 * MS;
/// What Linux adds to a round trip at least.
const MIN_VARIATION_NS: u64 = 200 * MS;
/// A capture sees timers of the sender with some error: a timer may have begun a little later than the packet shows.
const TOLERANCE_PERCENT: u64 = 90;
/// Duplicates that tell of a loss (RFC 5681).
const DUPLICATE_THRESHOLD: u32 = 3;

/// A share of a time that a timer of the sender takes, as the capture may see it.
fn tolerated(ns: u64) -> u64 {
    ns / 100 * TOLERANCE_PERCENT
}

/// Whether a retransmission timeout has passed, so that another one of them begins.
pub(crate) fn has_timed_out(evidence: &Evidence) -> bool {
    let timeout = match evidence.round_trip_ns {
        Some((smoothed, variation)) => {
            smoothed.saturating_add(MIN_VARIATION_NS.max(variation.saturating_mul(4)))
        }
        None => INITIAL_TIMEOUT_NS,
    };
    evidence.is_first && !evidence.is_acknowledged && evidence.waited_ns >= tolerated(timeout)
}

/// Why data was sent again. The first rule that applies decides.
pub(crate) fn cause(evidence: &Evidence) -> Cause {
    let is_told = evidence.is_sacked_behind || evidence.duplicate_acks >= DUPLICATE_THRESHOLD;
    let is_silent = evidence
        .round_trip_ns
        .is_some_and(|(smoothed, _)| evidence.silence_ns >= tolerated(smoothed.saturating_mul(2)));
    if evidence.is_acknowledged {
        Cause::Unneeded
    } else if has_timed_out(evidence) || evidence.recovery == Some(Recovery::Timeout) {
        Cause::Timeout
    } else if is_told || evidence.recovery == Some(Recovery::Fast) {
        Cause::Fast
    } else if evidence.is_last && is_silent {
        Cause::TailLossProbe
    } else {
        Cause::Unknown
    }
}

/// Data that fills a gap, compared with the data right behind the gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GapFiller {
    /// `TSval` of both: the filler's, the other's.
    pub(crate) timestamps: Option<(u32, u32)>,
    /// IPv4 identifications of both, if the sender counts them up.
    pub(crate) identifications: Option<(u16, u16)>,
    /// How much later it came.
    pub(crate) late_ns: u64,
    /// The shortest round trip of the whole path, as far as known.
    pub(crate) round_trip_ns: Option<u64>,
}

/// What a gap's filler may be late by if no round trip is known, as in tshark.
const LATE_NS: u64 = 3 * MS;

/// Whether a gap's filler is late, rather than sent again.
pub(crate) fn is_reordered(filler: &GapFiller) -> bool {
    let difference = |(filler, behind): (u32, u32)| filler.wrapping_sub(behind).cast_signed();
    match filler.timestamps.map(difference) {
        Some(later) if later != 0 => return later < 0,
        _ => {}
    }
    if let Some((filler, behind)) = filler.identifications {
        match filler.wrapping_sub(behind).cast_signed() {
            0 => {}
            later => return later < 0,
        }
    }
    // What tells the sender of the gap was sent after the gap was seen, so it takes a round trip.
    let shortest = filler.round_trip_ns.map_or(LATE_NS, |ns| ns / 100 * TOLERANCE_PERCENT);
    filler.late_ns < shortest
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Evidence = Evidence {
        is_acknowledged: false,
        is_first: false,
        is_last: false,
        is_sacked_behind: false,
        duplicate_acks: 0,
        recovery: None,
        waited_ns: 50 * MS,
        silence_ns: 50 * MS,
        round_trip_ns: Some((40 * MS, 5 * MS)),
    };

    #[test]
    fn cause_is_by_the_first_rule_that_applies() {
        let first = Evidence { is_first: true, ..PLAIN };
        let late = Evidence { waited_ns: 240 * MS, silence_ns: 240 * MS, ..first };
        let cases = [
            (PLAIN, Cause::Unknown),
            (late, Cause::Timeout),
            (Evidence { waited_ns: 210 * MS, ..late }, Cause::Unknown),
            (Evidence { is_acknowledged: true, ..late }, Cause::Unneeded),
            (Evidence { is_sacked_behind: true, ..first }, Cause::Fast),
            (Evidence { is_sacked_behind: true, ..late }, Cause::Timeout),
            (Evidence { duplicate_acks: 3, ..first }, Cause::Fast),
            (Evidence { duplicate_acks: 2, ..first }, Cause::Unknown),
            (Evidence { recovery: Some(Recovery::Fast), ..PLAIN }, Cause::Fast),
            (
                Evidence { recovery: Some(Recovery::Timeout), is_sacked_behind: true, ..PLAIN },
                Cause::Timeout,
            ),
            (Evidence { is_last: true, silence_ns: 80 * MS, ..PLAIN }, Cause::TailLossProbe),
            (Evidence { is_last: true, silence_ns: 60 * MS, ..PLAIN }, Cause::Unknown),
            (Evidence { round_trip_ns: None, waited_ns: 950 * MS, ..first }, Cause::Timeout),
            (Evidence { round_trip_ns: None, waited_ns: 800 * MS, ..first }, Cause::Unknown),
            // A variation above 50 ms makes the timeout longer.
            (Evidence { round_trip_ns: Some((40 * MS, 100 * MS)), ..late }, Cause::Unknown),
        ];
        for (evidence, expected) in cases {
            assert_eq!(cause(&evidence), expected, "{evidence:?}");
        }
    }

    #[test]
    fn gap_is_filled_late_or_again_by_the_strongest_evidence() {
        let plain = GapFiller {
            timestamps: None,
            identifications: None,
            late_ns: 2 * MS,
            round_trip_ns: None,
        };
        let slow = GapFiller { late_ns: 5 * MS, ..plain };
        let cases = [
            (plain, true),
            (slow, false),
            (GapFiller { round_trip_ns: Some(20 * MS), ..slow }, true),
            (GapFiller { round_trip_ns: Some(MS), ..plain }, false),
            (GapFiller { identifications: Some((9, 10)), ..slow }, true),
            (GapFiller { identifications: Some((1, 0xffff)), ..plain }, false),
            (GapFiller { timestamps: Some((7, 8)), ..slow }, true),
            (
                GapFiller { timestamps: Some((8, 7)), identifications: Some((9, 10)), ..plain },
                false,
            ),
            (GapFiller { timestamps: Some((1, u32::MAX)), ..plain }, false),
            // Equal ones say nothing.
            (GapFiller { timestamps: Some((7, 7)), identifications: Some((3, 3)), ..plain }, true),
        ];
        for (filler, expected) in cases {
            assert_eq!(is_reordered(&filler), expected, "{filler:?}");
        }
    }
}
