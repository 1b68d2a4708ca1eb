// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs a target on its corpus and on mutations of it.

mod mutate;

pub use mutate::Mutator;

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::Path,
};

/// The value of a variable of the environment.
pub fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// The kept inputs of a target, in the order of their names.
pub fn corpus(name: &str) -> Vec<Vec<u8>> {
    let tested = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let folder = Path::new(&tested).join("tests/corpus").join(name);
    let entries =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// The seed of a run, which is printed.
pub fn seed() -> u64 {
    let seed = number("LONGHAUL_SEED").unwrap_or(1);
    println!("LONGHAUL_SEED={seed}");
    seed
}

/// Runs a target on `inputs` inputs, or as many as the environment asks for. The target returns whether it
/// accepted the input.
pub fn run(name: &str, inputs: u64, target: fn(&[u8]) -> bool) {
    let seed = seed();
    let inputs = number("LONGHAUL_FUZZ_INPUTS").unwrap_or(inputs);
    let corpus = corpus(name);
    let attempt = |input: &[u8]| {
        catch_unwind(AssertUnwindSafe(|| target(input))).unwrap_or_else(|panic| {
            eprintln!("the input to {name} was b\"{}\"", input.escape_ascii());
            resume_unwind(panic)
        })
    };
    for input in &corpus {
        attempt(input);
    }
    let mut mutator = Mutator::new(seed, &corpus);
    let taken = (0..inputs).filter(|_| attempt(&mutator.input())).count() as u64;
    println!("{name}: {taken} of {inputs} taken");
    // What never gets in, or always does, tests little.
    assert!(taken > inputs / 100 && taken < inputs, "{name}: {taken} of {inputs} taken");
}
