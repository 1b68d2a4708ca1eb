// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel's random bytes.

use rustix::{
    io::{Errno, retry_on_intr},
    rand::{GetRandomFlags, getrandom},
};
use std::io;

/// Cryptographically random bytes, at most 256. Soon after the machine's start it waits until the kernel has some.
///
/// # Errors
/// The kernel has none, which Linux never says of so few.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    const { assert!(N <= 256, "more may come in pieces") };
    let mut bytes = [0; N];
    let got = retry_on_intr(|| getrandom(&mut bytes, GetRandomFlags::empty()))?;
    if got == N { Ok(bytes) } else { Err(Errno::AGAIN.into()) }
}
