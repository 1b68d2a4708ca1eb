// SPDX-License-Identifier: GPL-2.0-or-later
//! Whole runs, by emulation as root, and what their records say.

mod buffers;
mod classes;
mod common;
mod congestion;
#[path = "../../../../spine/scenario/tests/draft/mod.rs"]
mod draft;
mod limits;
mod pacing;
mod queue;
