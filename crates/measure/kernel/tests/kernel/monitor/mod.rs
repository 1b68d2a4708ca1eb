// SPDX-License-Identifier: GPL-2.0-or-later
//! The monitor, by packets that the tests send themselves: what is counted, how gaps and bursts are
//! reckoned, whose packets they are, and what happens where something is missing.

mod counting;
mod lacking;
mod reckoning;
mod wire;
