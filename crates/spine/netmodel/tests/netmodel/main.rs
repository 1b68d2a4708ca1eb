// SPDX-License-Identifier: GPL-2.0-or-later
//! Links, queues and pacing, each against a second version or against its source.

mod cap;
mod change;
mod impairments;
mod link;
mod pacing;
mod queue;
mod scheduler;
