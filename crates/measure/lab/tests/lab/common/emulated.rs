// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs by a method, as tests of records need them.

use experiment::{Method, Options, run_all};
use longhaul_lab::Emulation;
use record::RunResults;
use scenario::Run;

/// Runs them one after the other by emulation; none may have a depot. Records on disk are gone afterwards.
pub fn emulated(runs: &[Run]) -> Vec<RunResults> {
    recorded(runs, &Emulation::new("no depots"))
}

/// The same by any method.
pub fn recorded(runs: &[Run], method: &dyn Method) -> Vec<RunResults> {
    let folder = tempfile::tempdir().expect("a writable folder");
    let options = Options::new(folder.path());
    run_all(runs, method, &options, |_| ()).unwrap_or_else(|error| panic!("{error}"))
}
