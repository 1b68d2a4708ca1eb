// SPDX-License-Identifier: GPL-2.0-or-later
//! Up to where the kernel tunes buffers by itself.

use units::Bytes;

/// The kernel's limits, of the network namespace that the depot is in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Up to where it tunes send buffers; none where it does not say.
    pub tuned_sndbuf: Option<Bytes>,
    /// The same of receive buffers.
    pub tuned_rcvbuf: Option<Bytes>,
}

impl Limits {
    /// As they are now: an operator may change them while the depot runs.
    pub(super) fn read() -> Self {
        Self { tuned_sndbuf: most("tcp_wmem"), tuned_rcvbuf: most("tcp_rmem") }
    }
}

/// The last of a setting's three numbers.
fn most(name: &str) -> Option<Bytes> {
    let text = host::sysctl::read(&format!("net.ipv4.{name}")).ok()?;
    text.split_whitespace().nth(2)?.parse().ok().map(Bytes::new)
}
