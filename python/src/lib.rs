// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul._longhaul`, the compiled part of the Python package: what Python's part calls, and nothing for users.
//!
//! ```text
//! scenario   scenarios from files, texts and dicts; their runs
//! running    all runs of a scenario by a method
//!   elsewhere     those that take place in other processes or on other machines
//!   commanded     those that the command `longhaul` makes
//! records    what is on record, as tables
//!   rows          results as rows, rows as tables
//!   series        samples over time, read record by record
//!   descriptions  what the columns are
//! control    congestion controls that are Python classes
//! captures   TCP connections of packet captures, as tables
//! remote     files at servers, through depots
//! ahead      many files read by all processors
//! callable   Python functions that are called from here
//! arrow      tables as Python takes them
//! errors     errors as exceptions of the package
//! ```

#![expect(
    clippy::needless_pass_by_value,
    reason = "PyO3 makes values of Python's, and gives them away"
)]

mod ahead;
mod arrow;
mod callable;
mod captures;
mod commanded;
mod control;
mod descriptions;
mod elsewhere;
mod errors;
mod records;
mod remote;
mod rows;
mod running;
mod scenario;
mod series;

use pyo3::prelude::*;

/// The compiled part of longhaul.
#[pymodule]
mod _longhaul {
    #[pymodule_export]
    use super::arrow::Table;
    #[pymodule_export]
    use super::captures::{Capture, read_capture};
    #[pymodule_export]
    use super::control::{Ack, Decision, add_control, forget_connections};
    #[pymodule_export]
    use super::elsewhere::StopFlag;
    #[pymodule_export]
    use super::records::Records;
    #[pymodule_export]
    use super::remote::{Job, Remote, Version};
    #[pymodule_export]
    use super::running::{load_congestion_control, run, source_hash};
    #[pymodule_export]
    use super::scenario::Scenario;

    /// The version of longhaul.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
