// SPDX-License-Identifier: GPL-2.0-or-later
//! What clients send, on mutations of the inputs in `tests/corpus/`, the same for the same seed. `LONGHAUL_SEED` and
//! `LONGHAUL_FUZZ_INPUTS` as in `protocol`.

pub(crate) use testkit::fuzz::run;
