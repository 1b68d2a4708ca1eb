// SPDX-License-Identifier: GPL-2.0-or-later
//! Random bytes for keys and codes.

use crate::failure::Failure;

/// Cryptographically random bytes.
pub fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let said =
        |error| Failure::failed(format!("cannot read random bytes from the system: {error}"));
    host::random().map_err(said)
}
