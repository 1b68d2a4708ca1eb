// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs by emulation, as tests of records need them.

use longhaul_lab::{Known, Method, Options, Recorded, run_all};
use scenario::Run;

/// Runs them one after the other; none may have a depot. Records on disk are gone afterwards.
pub fn emulated(runs: &[Run]) -> Vec<Recorded> {
    let folder = tempfile::tempdir().expect("a writable folder");
    let options = Options {
        out: folder.path().to_owned(),
        method: Method::Emu,
        jobs: 1,
        known: Known::default(),
        longhaul: "no depots".into(),
        command: Vec::new(),
    };
    run_all(runs, &options, |_| ()).unwrap_or_else(|error| panic!("{error}"))
}
