// SPDX-License-Identifier: GPL-2.0-or-later
//! Congestion controls of users' C files: `longhaul sim --cc` and `longhaul cc check`.

use crate::{cc::description_text, failure::Failure, print::print_text};
use ::congestion::{Algorithm, file, trial};
use ::kernel::cc::decides;
use std::path::Path;

/// Compiles a file and loads its algorithm. The compiler's warnings go to standard error.
pub fn load(path: &Path) -> Result<&'static Algorithm, Failure> {
    let loaded = file::load(path)?;
    if !loaded.warnings.is_empty() {
        errln!("{}", loaded.warnings);
    }
    Ok(loaded.algorithm)
}

/// Prints a file's algorithm, and checks that it keeps the contract under random acknowledgements.
pub fn check(path: &Path, seed: u64) -> Result<(), Failure> {
    let algorithm = load(path)?;
    print_text(&description_text(algorithm, decides(algorithm.attach)));
    trial::run(algorithm, seed).map_err(Failure::failed)?;
    let sets = algorithm.sets.len();
    print_text(&format!(
        "kept the contract in {} connections of random acknowledgements for each of {sets} parameter set{}\n",
        trial::CONNECTIONS,
        if sets == 1 { "" } else { "s" }
    ));
    Ok(())
}
