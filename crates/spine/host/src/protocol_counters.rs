// SPDX-License-Identifier: GPL-2.0-or-later
//! What the kernel counts of all sockets of a network namespace.

use crate::Namespace;
use std::io;

/// The counters of a namespace at one moment: `/proc/net/snmp` and `/proc/net/netstat`.
#[derive(Debug, Clone)]
pub struct ProtocolCounters(String);

impl Namespace {
    /// Reads the counters.
    ///
    /// # Errors
    /// The kernel does not show them.
    pub fn protocol_counters(&self) -> io::Result<ProtocolCounters> {
        let read = |table| std::fs::read_to_string(format!("/proc/thread-self/net/{table}"));
        self.run(|| Ok(ProtocolCounters(read("snmp")? + &read("netstat")?)))
    }
}

impl ProtocolCounters {
    /// A counter by its group and name, as `get("Tcp", "RetransSegs")`; none where this kernel does
    /// not count that.
    pub fn get(&self, group: &str, name: &str) -> Option<u64> {
        // Two lines a group: names, then values, both behind the group's name.
        let of_group = |line: &'_ str| line.split_once(": ").is_some_and(|(of, _)| of == group);
        let mut lines = self.0.lines().filter(|line| of_group(line));
        let (names, values) = (lines.next()?, lines.next()?);
        let mut pairs = names.split_whitespace().zip(values.split_whitespace());
        pairs.find(|(known, _)| *known == name)?.1.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_group_and_name() {
        let table = "Tcp: OutSegs MaxConn\nTcp: 5 -1\n\
                     TcpExt: SyncookiesSent TCPTimeouts\nTcpExt: 9 2\n\
                     IpExt: InNoRoutes TCPTimeouts\nIpExt: 7 1\n";
        let counters = ProtocolCounters(table.to_owned());
        assert_eq!(counters.get("Tcp", "OutSegs"), Some(5));
        assert_eq!(counters.get("TcpExt", "TCPTimeouts"), Some(2));
        assert_eq!(counters.get("IpExt", "SyncookiesSent"), None);
        assert_eq!(counters.get("Udp", "InErrors"), None);
    }
}
