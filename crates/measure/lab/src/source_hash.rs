// SPDX-License-Identifier: GPL-2.0-or-later
//! Which longhaul made a record: a hash of its sources.

use crate::method::Method;

/// SHA-256 over the sources of this program that bear on a run by that method: `cc/`, the crates that
/// carry it out, and `Cargo.lock`. A change elsewhere leaves it.
pub fn of(method: Method) -> &'static str {
    match method {
        Method::Sim => env!("LONGHAUL_SOURCES_SIM"),
        Method::Emu => env!("LONGHAUL_SOURCES_EMU"),
    }
}
