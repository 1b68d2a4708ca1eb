// SPDX-License-Identifier: GPL-2.0-or-later
//! Everything that reads from the network, on inputs that nobody would write: a bounded number of
//! mutations of the inputs kept in `corpus/`, the same for the same seed.
//!
//! The targets (`fuzz/targets.rs`) are plain functions of bytes, which `libfuzzer_sys::fuzz_target!`
//! takes as they are. `LONGHAUL_SEED` replays a run, `LONGHAUL_FUZZ_INPUTS` makes it longer. An input
//! that fails is printed; kept in the corpus, it is tried first from then on.

#[path = "fuzz/delimit.rs"]
mod delimit;
#[path = "fuzz/mutate.rs"]
mod mutate;
#[path = "fuzz/targets.rs"]
mod targets;

use mutate::Mutator;
use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::Path,
};

/// How many mutations each target gets unless told otherwise.
const INPUTS: u64 = 200_000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// The kept inputs of a target, in the order of their names.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name);
    let entries =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Runs a target, which says of each input whether it was taken or refused.
fn run(name: &str, target: fn(&[u8]) -> bool) {
    let seed = number("LONGHAUL_SEED").unwrap_or(1);
    let inputs = number("LONGHAUL_FUZZ_INPUTS").unwrap_or(INPUTS);
    println!("LONGHAUL_SEED={seed}");
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
    let taken = (0..inputs).filter(|_| attempt(&mutator.next())).count() as u64;
    println!("{name}: {taken} of {inputs} taken");
    // What never gets in, or always does, tests little.
    assert!(taken > inputs / 100 && taken < inputs, "{name}: {taken} of {inputs} taken");
}

macro_rules! fuzz {
    ($($name:ident),*) => { $(
        #[test]
        fn $name() {
            run(stringify!($name), targets::$name);
        }
    )* };
}

fuzz!(request, response, chunked, route, ticket_route, token, digest);
