// SPDX-License-Identifier: GPL-2.0-or-later
//! Every call of an algorithm in the kernel, as it went: enough to make the same call again, and
//! compare.

use crate::{
    Error,
    maps::words,
    objects::{TRACE, TRACE_LOST},
    ring::Ring,
};
use congestion::{Ack, Control, Decision, Event, Params, State};
use libbpf_rs::{MapCore, Object};
use std::{ffi::OsStr, time::Duration};

/// Which function of the algorithm was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// The connection is established, or was given this algorithm.
    Init,
    /// [`congestion::Control::rtt`]
    Rtt,
    /// [`congestion::Control::ack`]
    Ack,
    /// [`congestion::Control::loss`]
    Loss,
    /// [`congestion::Control::event`]
    Event(Event),
}

/// A call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The socket's cookie, 0 if no process has asked for it yet (`SO_COOKIE`, `ss -e`).
    pub cookie: u64,
    /// The number of its network namespace, as in `/proc/PID/ns/net`.
    pub namespace: u32,
    /// Its own port.
    pub local_port: u16,
    /// The other end's.
    pub peer_port: u16,
    /// Which function.
    pub hook: Hook,
    /// The acknowledgement that it processed.
    pub ack: Ack,
    /// The decision in force before.
    pub before: Decision,
    /// Its decision.
    pub after: Decision,
    /// Its state before the call.
    pub state_before: State,
    /// Its state after the call.
    pub state_after: State,
}

/// An open trace. Dropping it ends the reading, not the recording.
pub struct Trace<'a> {
    ring: Ring<'a>,
    object: &'a Object,
}

impl<'a> Trace<'a> {
    pub(super) fn open(object: &'a Object, on_call: impl FnMut(Call) + 'a) -> Result<Self, Error> {
        let mut on_call = on_call;
        let map = object.maps().find(|map| map.name() == TRACE).expect("every adapter has it");
        let ring = Ring::open(&map, move |bytes| on_call(Call::read(&mut Reader(bytes))))?;
        Ok(Self { ring, object })
    }

    /// Shows the calls since the last time; waits that long for the first.
    ///
    /// # Errors
    /// The kernel refused it.
    pub fn poll(&self, patience: Duration) -> Result<(), Error> {
        self.ring.poll(patience)
    }

    /// Calls that are missing, because they came faster than they were read.
    ///
    /// # Errors
    /// The kernel refused to tell.
    pub fn lost(&self) -> Result<u64, Error> {
        let named = |map: &libbpf_rs::Map<'_>| map.name() == OsStr::new(TRACE_LOST);
        let map = self.object.maps().find(named).expect("every adapter has it");
        let words = words(&map, "how much of the trace is lost")?;
        Ok(words.iter().rev().fold(0, |high, &low| high << 32 | u64::from(low)))
    }
}

/// `struct call` of `src/bpf/adapter.h`, which has no gaps.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (taken, rest) = self.0.split_first_chunk().expect("the adapter writes whole calls");
        self.0 = rest;
        *taken
    }

    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.take())
    }

    fn hook(&mut self) -> Hook {
        match (self.u32(), self.u32()) {
            (0, _) => Hook::Init,
            (1, _) => Hook::Rtt,
            (2, _) => Hook::Ack,
            (3, _) => Hook::Loss,
            (4, 0) => Hook::Event(Event::Timeout),
            (4, 1) => Hook::Event(Event::Recovered),
            (4, 2) => Hook::Event(Event::Undo),
            (4, 3) => Hook::Event(Event::Restart),
            other => unreachable!("the adapter has no hook {other:?}"),
        }
    }

    fn ack(&mut self) -> Ack {
        Ack {
            now_us: self.u64(),
            delivery_rate: self.u64(),
            acked: self.u32(),
            lost: self.u32(),
            rtt_us: self.u32(),
            min_rtt_us: self.u32(),
            in_flight: self.u32(),
            prior_in_flight: self.u32(),
            delivered: self.u32(),
            prior_delivered: self.u32(),
            mss: self.u32(),
            paced_us: self.u32(),
            delivered_ce: self.u32(),
            flags: self.u32(),
        }
    }

    fn decision(&mut self) -> Decision {
        Decision { pacing_rate: self.u64(), cwnd: self.u32(), ssthresh: self.u32() }
    }

    fn state(&mut self) -> State {
        std::array::from_fn(|_| self.u64())
    }
}

impl Call {
    /// The same call, made by the same C in this process: what it decides, and what it remembers.
    /// Both must be [`Call::after`] and [`Call::state_after`], bit for bit.
    pub fn replay(&self, params: &Params) -> (Decision, State) {
        let mut decision = self.before;
        let mut control = Control::resume(params, self.state_before);
        match self.hook {
            Hook::Init => control = Control::new(params, &self.ack, &mut decision),
            Hook::Rtt => control.rtt(&self.ack, &mut decision),
            Hook::Ack => control.ack(&self.ack, &mut decision),
            Hook::Loss => control.loss(&self.ack, &mut decision),
            Hook::Event(event) => control.event(&self.ack, &mut decision, event),
        }
        (decision, *control.state())
    }

    fn read(from: &mut Reader<'_>) -> Self {
        Self {
            cookie: from.u64(),
            namespace: from.u32(),
            local_port: from.u16(),
            peer_port: from.u16(),
            hook: from.hook(),
            ack: from.ack(),
            before: from.decision(),
            after: from.decision(),
            state_before: from.state(),
            state_after: from.state(),
        }
    }
}
