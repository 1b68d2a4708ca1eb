// SPDX-License-Identifier: GPL-2.0-or-later
//! Sessions: two-way streams of bytes through depots (`docs/lsl.md`, sections 1 to 4).
//!
//! ```text
//! serve             one OPEN: its ANSWER, and the session that follows
//!   plan              what to do with an OPEN, if the rules allow it
//!   hop               the next hop: connected to, asked, and asked again where a kept connection was closed
//!   early             what a client sends before there is an ANSWER
//!   relay             bytes in both directions, ends and resets
//!   stripes           one hop over several connections
//!   meeting           two ends that both connect to this depot (meetings: those that wait)
//!   port              `[[tcp]]`: plain connections that become sessions
//! ```

mod early;
mod hop;
mod meeting;
mod meetings;
mod plan;
pub(crate) mod port;
mod relay;
mod serve;
mod stripes;

pub(crate) use hop::{NextHop, NoSession, Payload};
pub(crate) use meetings::Meetings;
pub(crate) use plan::Plan;
pub(crate) use relay::SessionEnd;
pub(crate) use serve::{carry_out, serve};
pub(crate) use stripes::enter;
