// SPDX-License-Identifier: GPL-2.0-or-later
//! What the papers and RFCs state of each algorithm, measured from its behaviour.

#[path = "targets/queue.rs"]
mod queue;
#[path = "targets/window.rs"]
mod window;
