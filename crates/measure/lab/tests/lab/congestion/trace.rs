// SPDX-License-Identifier: GPL-2.0-or-later
//! Every call of an algorithm in the kernel, made again by the same C in this process.

use congestion::{Ack, Decision, Params, State};
use kernel::cc::{Call, Hook};

/// A loss event.
#[derive(Debug, Clone, Copy)]
pub struct Loss {
    /// When.
    pub at_us: u64,
    /// Segments in flight, summed over the time until then, in seconds.
    pub flight_s: f64,
    /// The window before it.
    pub cwnd: u32,
    /// What it shall come down to.
    pub ssthresh: u32,
}

/// What is in flight over time.
#[derive(Debug, Default)]
struct Flight {
    sum_s: f64,
    last: Option<(u64, u32)>,
}

impl Flight {
    /// Between two acknowledgements the mean of both counts: a recovery, in which window algorithms
    /// are not asked, lies half way between the windows before and after it.
    fn seen(&mut self, ack: &Ack) {
        if let Some((at_us, in_flight)) = self.last {
            let mean = f64::from(in_flight).midpoint(f64::from(ack.prior_in_flight));
            self.sum_s += mean * (ack.now_us - at_us) as f64 / 1e6;
        }
        self.last = Some((ack.now_us, ack.prior_in_flight));
    }
}

/// One connection's calls so far.
#[derive(Debug, Default)]
pub struct Replay {
    /// Calls that were made again.
    pub calls: u64,
    /// Of those, in how many the window after it was in force at the next, outside of recovery.
    pub applied: u64,
    /// Loss events.
    pub losses: Vec<Loss>,
    flight: Flight,
    last: Option<(Decision, State, bool)>,
}

impl Replay {
    /// Makes a call again and compares: decision and state, bit for bit; that no call is missing
    /// since the last; and that what was decided then is in force now. Says what differs.
    pub fn check(&mut self, params: &Params, call: &Call) -> Result<(), String> {
        let again = call.replay(params);
        if again != (call.after, call.state_after) {
            return Err(format!("decided otherwise: {again:?}; {call:?}"));
        }
        // In recovery and at its end the window is the kernel's.
        let plain =
            matches!(call.hook, Hook::Rtt | Hook::Ack) && call.ack.flags & Ack::RECOVERY == 0;
        if let Some((decided, state, was_plain)) = self.last {
            if state != call.state_before {
                return Err(format!("a call is missing before {call:?}"));
            }
            if was_plain && plain {
                if decided.cwnd != call.before.cwnd {
                    return Err(format!("{decided:?} was not applied before {call:?}"));
                }
                self.applied += 1;
            }
        }
        if call.hook == Hook::Ack {
            self.flight.seen(&call.ack);
        }
        if call.hook == Hook::Loss {
            self.losses.push(Loss {
                at_us: call.ack.now_us,
                flight_s: self.flight.sum_s,
                cwnd: call.before.cwnd,
                ssthresh: call.after.ssthresh,
            });
        }
        self.last = Some((call.after, call.state_after, plain));
        self.calls += 1;
        Ok(())
    }
}
