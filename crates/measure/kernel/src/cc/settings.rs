// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel's settings of congestion controls, as the calling thread's network namespace has them.

use crate::Error;
use host::sysctl;

/// The names that the kernel has now.
pub fn available() -> Result<Vec<String>, Error> {
    setting(AVAILABLE)
}

const AVAILABLE: &str = "net.ipv4.tcp_available_congestion_control";
/// Those that every user may choose.
pub const ALLOWED: &str = "net.ipv4.tcp_allowed_congestion_control";
/// That of sockets that do not choose.
pub const DEFAULT: &str = "net.ipv4.tcp_congestion_control";

/// The words of a setting of this network namespace.
pub fn setting(key: &str) -> Result<Vec<String>, Error> {
    let failed = |e| Error::system(format!("read {}", sysctl::path(key).display()), e);
    let text = sysctl::read(key).map_err(failed)?;
    Ok(text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect())
}
