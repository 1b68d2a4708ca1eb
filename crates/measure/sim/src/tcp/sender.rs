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
//! From `Recovery` and `Timeout` it goes back to `Open` as well, with the window that was, once they turn out to be
//! needless (`undo`).
//!
//! `state` holds the sender's variables, `acknowledgement` and `timer` process acknowledgements and timeouts,
//! `limit_clock` measures what limits the sender, `write_queue` builds GSO packets, `transmission` sends them.

mod acknowledgement;
mod episode;
mod limit_clock;
mod send_memory;
mod state;
mod timer;
mod transmission;
mod undo;
mod write_queue;

pub(super) use acknowledgement::ReceivedAck;
pub(crate) use state::{Sender, SenderCounts};
