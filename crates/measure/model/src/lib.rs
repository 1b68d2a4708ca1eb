// SPDX-License-Identifier: GPL-2.0-or-later
//! Scenarios by closed forms: what the literature predicts of each flow, or why it has no form for it.
//!
//! ```text
//! prediction    a run's flows: alone on their links, or sharing them
//!   flow        a chain of connections and its set-up: equations 1, 3 and 4 of Augusto et al. 2008
//!     hop       one connection: path, buffers, losses, the law of its congestion control
//!     forms     which form is for it
//!       formulas, bbr, congestion::response             the forms
//!       rounds, window                                  a window's rule, round by round
//!   timeline    flows that share links, from event to event
//!     shares, sawtooth                                  weighted max-min, and what a saw leaves of a link
//! transfer      one transfer between two hosts, or a chain of them, without a scenario
//! method, record_of, unsupported                        as a method of an experiment
//! ```
//! `docs/model.md` has each form with its source, domain and error against the simulator. No I/O, no clock; what is random
//! is averaged over sequences that are always the same.

pub mod bbr;
pub mod buffers;
mod flow;
mod forms;
mod hop;
mod method;
mod prediction;
mod record_of;
pub mod rounds;
pub mod sawtooth;
pub mod shares;
mod timeline;
pub mod transfer;
mod unsupported;
pub mod window;

pub use method::Modelled;
pub use prediction::predicted;
pub use record_of::summary;
