// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs by a method, as tests of records need them.

use longhaul_lab::{Method, Options, ReusePolicy, run_all};
use record::RunResults;
use scenario::Run;

/// Runs them one after the other by emulation; none may have a depot. Records on disk are gone afterwards.
pub fn emulated(runs: &[Run]) -> Vec<RunResults> {
    recorded(runs, Method::Emu)
}

/// The same by any method.
pub fn recorded(runs: &[Run], method: Method) -> Vec<RunResults> {
    let folder = tempfile::tempdir().expect("a writable folder");
    let options = Options {
        out: folder.path().to_owned(),
        method,
        jobs: 1,
        known: ReusePolicy::default(),
        longhaul: "no depots".into(),
        command: Vec::new(),
    };
    run_all(runs, &options, |_| ()).unwrap_or_else(|error| panic!("{error}"))
}
