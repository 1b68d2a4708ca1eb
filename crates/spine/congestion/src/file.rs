// SPDX-License-Identifier: GPL-2.0-or-later
//! A congestion control from a user's C file, without a build of longhaul.
//!
//! [`load`] reads the file (`source`), has the system's C compiler make a shared object of it (`compile`) and loads
//! that (`library`). From then on [`Algorithm::find`] knows it, as those of `cc/`.
//!
//! The file is a user's program in development, and its mistakes must not damage the simulator. The compiler is
//! asked to check every access to memory, every loop and every operation that C leaves undefined; `guard.c` answers
//! these checks. What the contract does not allow does not take place: a [`Fault`] with file and line unwinds
//! through the caller, up to [`catch_fault`]. So a run needs no process of its own, costs what its own algorithm's
//! checks cost, and algorithms of `cc/` cost what they did.
//!
//! Limits: it keeps out mistakes, not attacks. Inline assembly is not checked.

mod compile;
mod error;
mod fault;
mod library;
mod source;

pub use error::FileError;
pub use fault::{Fault, catch_fault};
pub(crate) use fault::{HOOKS, rule_text, told};

use crate::ffi::{Algorithm, AlgorithmFile};
use source::Source;
use std::path::Path;

/// An algorithm of a file, and what the compiler remarked.
#[derive(Debug)]
pub struct Loaded {
    /// [`Algorithm::find`] finds it after this.
    pub algorithm: &'static Algorithm,
    /// The compiler's warnings; empty where there are none.
    pub warnings: String,
}

/// Compiles a file and loads its algorithm, until the process ends.
///
/// # Errors
/// See [`FileError`]. An algorithm of this name may be there already.
pub fn load(path: &Path) -> Result<Loaded, FileError> {
    let source = Source::read(path)?;
    let taken = |same: &Algorithm| {
        let of = match &same.file {
            Some(file) => format!("{} has one", file.name),
            None => "longhaul has one".to_owned(),
        };
        source.unusable(format!(
            "its algorithm is {0}, but {of} of that name; rename it, from cc_{0}_title to CC_ALGORITHM({0})",
            source.name
        ))
    };
    if let Ok(same) = Algorithm::find(&source.name) {
        return Err(taken(same));
    }
    let compiled = compile::compile(&source)?;
    let entry = library::open(&source, &compiled.library)?;
    let file = AlgorithmFile { name: source.file_name.clone(), sha256: source.sha256.clone() };
    // SAFETY: guard.c hands on what `FFI_ENTRY` has made, in a library that stays loaded.
    #[expect(unsafe_code, reason = "takes up a C table")]
    let algorithm = unsafe { Algorithm::read(entry, Some(file)) };
    let lacking = [
        (
            "its parameter list has a name twice",
            has_repeats(algorithm.params.iter().map(|p| p.name)),
        ),
        ("it has no parameter set", algorithm.sets.is_empty()),
        (
            "its list of parameter sets has a name twice",
            has_repeats(algorithm.sets.iter().map(|s| s.name)),
        ),
    ];
    if let Some((why, _)) = lacking.iter().find(|(_, is_so)| *is_so) {
        return Err(source.unusable((*why).to_owned()));
    }
    let algorithm = algorithm.add().map_err(taken)?;
    Ok(Loaded { algorithm, warnings: compiled.warnings })
}

fn has_repeats<'a>(names: impl Iterator<Item = &'a str>) -> bool {
    let mut names: Vec<&str> = names.collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    names.len() < all
}
