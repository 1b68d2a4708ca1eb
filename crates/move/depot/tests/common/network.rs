// SPDX-License-Identifier: GPL-2.0-or-later
//! Networks of a test's own, which end with it.

#![expect(unsafe_code, reason = "a network namespace for one thread")]

use super::client::run;

/// Puts this thread, and what it starts, into a network of its own.
pub fn own_network() {
    // SAFETY: changes what this thread sees of the network, and touches no memory.
    let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    assert_eq!(result, 0, "only root has its own networks: {}", std::io::Error::last_os_error());
    ip("link set lo up");
}

/// What iproute2 is told.
pub fn ip(command: &str) {
    let words: Vec<_> = command.split(' ').collect();
    let output = run("ip", "iproute2", &words);
    assert!(output.status.success(), "ip {command}: {}", String::from_utf8_lossy(&output.stderr));
}
