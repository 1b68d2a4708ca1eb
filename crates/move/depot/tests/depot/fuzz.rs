// SPDX-License-Identifier: GPL-2.0-or-later
//! Malformed input from the network and from files: a bounded number of mutations of the files in `corpus/`,
//! the same for the same seed.
//!
//! `LONGHAUL_SEED` replays a run, `LONGHAUL_FUZZ_INPUTS` makes it longer. The parsers of messages, routes,
//! tickets and digests are `protocol`'s and are tried there, by the same means, a hundred times as often;
//! here are texts that only the depot reads (`texts`), and whole depots among peers that talk nonsense
//! (`peers`).

mod peers;
mod successors;
mod texts;
