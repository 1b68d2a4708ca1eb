// SPDX-License-Identifier: GPL-2.0-or-later
//! What a depot reads from the network, and from files of others, on inputs that nobody would write: a
//! bounded number of mutations of those kept in `corpus/`, the same for the same seed.
//!
//! `LONGHAUL_SEED` replays a run, `LONGHAUL_FUZZ_INPUTS` makes it longer. The parsers of messages, routes,
//! tickets and digests are `session`'s and are tried there, by the same means, a hundred times as often;
//! here are texts that only the depot reads (`texts`), and whole depots among peers that talk nonsense
//! (`peers`).

mod common;
#[path = "../../session/tests/fuzz/mutate.rs"]
mod mutate;
#[path = "fuzz/peers.rs"]
mod peers;
#[path = "../../session/tests/fuzz/run.rs"]
mod run;
#[path = "fuzz/successors.rs"]
mod successors;
#[path = "fuzz/texts.rs"]
mod texts;
