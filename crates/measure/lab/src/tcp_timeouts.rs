// SPDX-License-Identifier: GPL-2.0-or-later
//! A node's count of retransmission timeouts. The kernel keeps one a socket as well, but tells it
//! only from 6.7 on, and the library that reads `tcp_info` does not know it.

use host::Namespace;
use std::io;

/// What the kernel counts a timeout as, by the state that it met the socket in.
const TIMEOUTS: [&str; 6] = [
    "TCPTimeouts",
    "TCPLossFailures",
    "TCPSackFailures",
    "TCPRenoFailures",
    "TCPSackRecoveryFail",
    "TCPRenoRecoveryFail",
];

/// Timeouts of all sockets of a node since its namespace was made.
///
/// # Errors
/// The kernel does not show the counters.
pub fn count(namespace: &Namespace) -> io::Result<u64> {
    let counters = namespace.protocol_counters()?;
    Ok(TIMEOUTS.iter().filter_map(|name| counters.get("TcpExt", name)).sum())
}
