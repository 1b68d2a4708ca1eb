// SPDX-License-Identifier: GPL-2.0-or-later
//! Whole runs, by emulation as root, and what their records say.

mod background;
mod buffers;
mod capture;
mod classes;
mod common;
mod congestion;
mod endless;
mod limits;
mod pacing;
mod queue;
mod trace;
mod traffic;
