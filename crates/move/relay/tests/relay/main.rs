// SPDX-License-Identifier: GPL-2.0-or-later
//! What the relay reads from peers, and its example.

mod blocks;
mod example;
#[path = "../../../protocol/tests/protocol/fuzz/mutate.rs"]
mod mutate;
#[path = "../../../protocol/tests/protocol/fuzz/run.rs"]
mod run;
