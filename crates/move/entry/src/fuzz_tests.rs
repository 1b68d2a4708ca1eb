// SPDX-License-Identifier: GPL-2.0-or-later
//! What clients send, on mutations of the inputs in `tests/corpus/`, the same for the same seed. `LONGHAUL_SEED` and
//! `LONGHAUL_FUZZ_INPUTS` as in `protocol`.

#[path = "../../protocol/tests/protocol/fuzz/mutate.rs"]
mod mutate;
#[path = "../../protocol/tests/protocol/fuzz/run.rs"]
mod run;

pub(crate) use run::run;
