// SPDX-License-Identifier: GPL-2.0-or-later
//! A Linux host: its network namespaces and settings, and what longhaul keeps on it while it runs.

mod counters;
mod namespace;
mod run_folder;
mod sys;
pub mod sysctl;

pub use counters::Counters;
pub use namespace::Namespace;
pub use run_folder::{RUN_FOLDER, RunFolder};
