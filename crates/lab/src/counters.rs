// SPDX-License-Identifier: GPL-2.0-or-later
//! A node's count of retransmission timeouts (`/proc/net/netstat`). The kernel keeps one a socket
//! as well, but tells it only from 6.7 on, and the library that reads `tcp_info` does not know it.

use std::io;
use wan::Namespace;

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
pub fn timeouts(namespace: &Namespace) -> io::Result<u64> {
    let table = namespace.run(|| std::fs::read_to_string("/proc/thread-self/net/netstat"))?;
    Ok(sum(&table, &TIMEOUTS))
}

/// The table has pairs of lines: names, then values, both behind the name of the group.
fn sum(table: &str, wanted: &[&str]) -> u64 {
    let lines: Vec<&str> = table.lines().collect();
    let pairs = lines
        .chunks_exact(2)
        .flat_map(|pair| pair[0].split_whitespace().zip(pair[1].split_whitespace()));
    let values = pairs.filter(|(name, _)| wanted.contains(name));
    values.filter_map(|(_, value)| value.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name() {
        let table = "TcpExt: SyncookiesSent TCPTimeouts TCPLossFailures\nTcpExt: 9 2 3\n\
                     IpExt: InNoRoutes TCPTimeouts\nIpExt: 7 1\n";
        assert_eq!(sum(table, &TIMEOUTS), 6);
        assert_eq!(sum("", &TIMEOUTS), 0);
    }
}
