// SPDX-License-Identifier: GPL-2.0-or-later
//! What the papers and RFCs state of each algorithm, measured from its behaviour.

mod queue;
mod window;
