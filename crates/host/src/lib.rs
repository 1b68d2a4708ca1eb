// SPDX-License-Identifier: GPL-2.0-or-later
//! What longhaul keeps on a Linux host while the host runs.

mod run_folder;

pub use run_folder::{RUN_FOLDER, RunFolder};
