// SPDX-License-Identifier: GPL-2.0-or-later
//! The sending end: what may be sent and when, what acknowledgements and the timer mean.
//!
//! ```text
//!         echo of a mark         loss found          timeout
//!   Open ────────────────▶ Cwr ─────────────▶ Recovery ─────▶ Timeout
//!    ▲ └──────────────────────────────────────▶ │               │
//!    └──── all acknowledged that was sent before mark or loss ──┘
//! ```
//!
//! Of a window algorithm the sender brings the window down in `Cwr` and `Recovery`
//! ([`WindowReduction`](super::recovery::WindowReduction)), once for both; at all other times, and always where an
//! algorithm sets a rate, the algorithm is asked at every acknowledgement.
//!
//! `state` is what a sender knows, `acknowledgement` what an acknowledgement means, `timer` what the time
//! means, `limit_clock` what holds the sender back, `write_queue` what leaves in one GSO packet, `transmission` what is sent.

mod acknowledgement;
mod limit_clock;
mod send_memory;
mod state;
mod timer;
mod transmission;
mod write_queue;

pub(super) use acknowledgement::ReceivedAck;
pub(crate) use state::{Sender, SenderCounts};
