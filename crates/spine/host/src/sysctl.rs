// SPDX-License-Identifier: GPL-2.0-or-later
//! Kernel settings, as sysctl(8) names them.
//!
//! Those below `net` are the calling thread's network namespace's:
//! [`Namespace::sysctl`](crate::Namespace::sysctl) reads another's.

use std::{fs, io, path::PathBuf};

/// The file of a setting. Dots in a key separate its parts; where a part has dots of its own, as a VLAN
/// device's name has, slashes separate them instead: `net/ipv4/conf/eth0.5/rp_filter`.
pub fn path(key: &str) -> PathBuf {
    let separator = key.find(['.', '/']).map(|at| key.as_bytes()[at]);
    let relative = if separator == Some(b'/') { key.to_owned() } else { key.replace('.', "/") };
    PathBuf::from("/proc/sys").join(relative)
}

/// The words of a setting, with one space between them.
///
/// # Errors
/// There is no such setting, or this user may not read it.
pub fn read(key: &str) -> io::Result<String> {
    let text = fs::read_to_string(path(key))?;
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Gives a setting a value.
///
/// # Errors
/// There is no such setting, it does not take the value, or this user may not write it.
pub fn write(key: &str, value: &str) -> io::Result<()> {
    fs::write(path(key), value)
}

/// The congestion controls that the kernel has now, built in or loaded, with one space between them.
///
/// # Errors
/// The kernel does not tell.
pub fn available_congestion_controls() -> io::Result<String> {
    read("net.ipv4.tcp_available_congestion_control")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_with_dots_and_with_slashes_name_the_same_file() {
        let file = PathBuf::from("/proc/sys/net/ipv4/tcp_rmem");
        assert_eq!(path("net.ipv4.tcp_rmem"), file);
        assert_eq!(path("net/ipv4/tcp_rmem"), file);
        let vlan = "/proc/sys/net/ipv4/conf/eth0.5/rp_filter";
        assert_eq!(path("net/ipv4/conf/eth0.5/rp_filter"), PathBuf::from(vlan));
    }

    #[test]
    fn settings_are_read_word_by_word() {
        let name = read("kernel.osrelease").unwrap();
        assert!(!name.is_empty() && !name.contains(char::is_whitespace), "{name:?}");
        assert_eq!(read("net.ipv4.tcp_rmem").unwrap().split(' ').count(), 3);
        assert!(read("net.ipv4.no_such_setting").is_err());
    }
}
