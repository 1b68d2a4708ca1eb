// SPDX-License-Identifier: GPL-2.0-or-later
//! `cc/pace.h` for programs. All `unsafe` code of this crate is here.

#![expect(unsafe_code, reason = "calls into cc/pace.h")]

/// `struct pace_params`. Plain numbers, since the kernel's program is given the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Params {
    /// Bytes a second of the link that the target is cut at; 0: none.
    pub max_rate: u64,
    /// 0: the smoothed RTT, 1: the smallest.
    pub rtt: u32,
    /// 1: packets count as their payload.
    pub payload: u32,
    /// 1: `ssthresh` paces while losses are repaired.
    pub recovery: u32,
    /// 1: the target is cut at what the path is found to carry.
    pub find_cap: u32,
}

/// TCP's state when a packet leaves: `struct pace_flow`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TcpSnapshot {
    /// Bytes/s of the sender's own link; 0: not known.
    pub line: u64,
    /// Segments.
    pub cwnd: u32,
    /// Segments.
    pub ssthresh: u32,
    /// Bytes of payload in a full segment.
    pub mss: u32,
    /// Bytes that a full segment takes on the link.
    pub packet: u32,
    /// Smoothed RTT; 0: not known.
    pub srtt_us: u32,
    /// Smallest RTT; 0: not known.
    pub min_rtt_us: u32,
    /// 1: losses are being repaired.
    pub recovering: u32,
    /// Segments, with the one that leaves and what waits at the sender.
    pub in_flight: u32,
    /// Segments in all; wraps.
    pub delivered: u32,
}

/// State of the cap of a flow's path: `struct pace_cap`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PathCap {
    /// Bytes/s of the link that the target is cut at; 0: nothing found.
    pub rate: u64,
    /// Bytes/s delivered when the path was last full.
    pub full: u64,
    before: u64,
    drain: u64,
    departs_ns: u64,
    rest: u64,
    last_ns: u64,
    others_ns: u64,
    sent_ns: u64,
    departed_ns: u64,
    part_ns: u64,
    peak: u64,
    part_delivered: u32,
    delivered: u32,
    goal: u32,
    watching: u16,
    busy: u16,
    limited: u16,
    seen: u16,
    settle: u16,
    padding: u16,
}

/// `struct pace_wire`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Wire {
    pub(super) line: u64,
    pub(super) rest: u64,
    pub(super) owed: u32,
    pub(super) max_gap: u32,
    pub(super) min_frame: u32,
    pub(super) max_frame: u32,
}

const FLOWS: usize = 512;

#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct FlowSlot {
    flow: u64,
    target: u64,
    until_ns: u64,
}

/// `struct pace_sum`.
#[derive(Debug, Clone)]
#[repr(C)]
pub(super) struct TargetSum {
    total: u64,
    hand: u32,
    pub(super) flows: u32,
    slots: [FlowSlot; FLOWS],
}

unsafe extern "C" {
    static longhaul_pace_sizes: [u64; 5];
    fn longhaul_pace_target(params: *const Params, known: *const TcpSnapshot) -> u64;
    fn longhaul_pace_capped(
        params: *const Params,
        known: *const TcpSnapshot,
        cap: *mut PathCap,
        now_ns: u64,
    ) -> u64;
    fn longhaul_pace_owe(wire: *mut Wire, rate: u64, packet: u32);
    fn longhaul_pace_frame(wire: *mut Wire) -> u32;
    fn longhaul_pace_join(
        sum: *mut TargetSum,
        flow: u64,
        target: u64,
        now_ns: u64,
        stay_ns: u64,
    ) -> u64;
}

impl Params {
    /// Bytes a second of the link by equation 1; 0 before the first RTT.
    pub fn target(&self, known: &TcpSnapshot) -> u64 {
        // SAFETY: both are what the C struct is (checked by `TargetSum::new` and the tests), and are read only.
        unsafe { longhaul_pace_target(self, known) }
    }

    /// The same for a packet that leaves now, cut at what the path is found to carry where that is asked for.
    pub fn capped(&self, known: &TcpSnapshot, cap: &mut PathCap, now: units::Timestamp) -> u64 {
        // SAFETY: all are what the C structs are (as above), and `cap` is ours alone for the call.
        unsafe { longhaul_pace_capped(self, known, cap, now.as_nanos()) }
    }
}

impl Wire {
    pub(super) fn owe(&mut self, bytes_per_second: u64, packet: u32) {
        // SAFETY: it is what the C struct is, and ours alone for the call.
        unsafe { longhaul_pace_owe(self, bytes_per_second, packet) }
    }

    pub(super) fn frame(&mut self) -> u32 {
        // SAFETY: as above.
        unsafe { longhaul_pace_frame(self) }
    }
}

impl TargetSum {
    pub(super) fn new() -> Box<Self> {
        // SAFETY: a constant that the C file defines with four elements.
        let sizes = unsafe { longhaul_pace_sizes };
        let mirrors = [
            size_of::<Params>(),
            size_of::<TcpSnapshot>(),
            size_of::<Wire>(),
            size_of::<Self>(),
            size_of::<PathCap>(),
        ];
        assert_eq!(sizes, mirrors.map(|size| size as u64), "cc/pace.h and its mirrors differ");
        Box::new(Self { total: 0, hand: 0, flows: 0, slots: [FlowSlot::default(); FLOWS] })
    }

    pub(super) fn join(&mut self, flow: u64, target: u64, now_ns: u64, stay_ns: u64) -> u64 {
        // SAFETY: it is what the C struct is, and ours alone for the call.
        unsafe { longhaul_pace_join(self, flow, target, now_ns, stay_ns) }
    }
}
