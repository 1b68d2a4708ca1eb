// SPDX-License-Identifier: GPL-2.0-or-later
//! Random bytes for names and keys.

/// Linux has always some.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    host::random().expect("Linux has random bytes")
}
