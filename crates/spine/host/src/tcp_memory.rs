// SPDX-License-Identifier: GPL-2.0-or-later
//! What all TCP sockets of the machine hold together, and from where on the kernel is short of memory for them.
//!
//! Above the second figure of `net.ipv4.tcp_mem`, and until they hold less than the first, no receive window grows, and that of
//! a socket whose buffer is half full is cut to four segments (`tcp_adjust_rcv_ssthresh`): every connection creeps, also those
//! that need little. A control group with a memory limit does the same to its own sockets, which is not seen here.

use crate::sysctl;
use std::{fs, io};
use units::Bytes;

/// The memory of all TCP sockets, of all network namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpMemory {
    /// What they hold.
    pub held: Bytes,
    /// Where the kernel begins to save (`tcp_mem`); `None` where it does not say, as in any namespace but the first.
    pub pressure: Option<Pressure>,
}

/// Where the kernel is short of memory for TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pressure {
    /// It begins with more than this.
    pub begins: Bytes,
    /// Once it has begun, it ends with less than this.
    pub ends: Bytes,
}

impl TcpMemory {
    /// As it is now.
    ///
    /// # Errors
    /// The kernel does not show what sockets hold (`/proc/net/sockstat`).
    pub fn read() -> io::Result<Self> {
        let page = rustix::param::page_size() as u64;
        let text = fs::read_to_string("/proc/thread-self/net/sockstat")?;
        let unknown =
            || io::Error::new(io::ErrorKind::InvalidData, "sockstat without TCP's memory");
        let held = held_pages(&text).ok_or_else(unknown)?.saturating_mul(page);
        let pressure = sysctl::read("net.ipv4.tcp_mem").ok();
        let pressure = pressure.and_then(|text| Pressure::parse(&text, page));
        Ok(Self { held: Bytes::new(held), pressure })
    }

    /// Whether the kernel may be saving: it is not told where it stands between both figures.
    pub fn may_be_short(&self) -> bool {
        self.pressure.is_some_and(|pressure| self.held >= pressure.ends)
    }

    /// The part of `whole` that sockets hold of what they may before the kernel saves; at most all of it.
    pub fn part_of(&self, whole: usize) -> usize {
        let begins = self.pressure.map_or(0, |pressure| pressure.begins.get());
        let part = (u128::from(self.held.get()) * whole as u128).checked_div(begins.into());
        usize::try_from(part.unwrap_or(0)).unwrap_or(usize::MAX).min(whole)
    }
}

impl Pressure {
    /// Of the setting `tcp_mem`, in pages.
    pub fn parse(tcp_mem: &str, page: u64) -> Option<Self> {
        let mut pages = tcp_mem.split_whitespace().map(str::parse::<u64>);
        let (ends, begins) = (pages.next()?.ok()?, pages.next()?.ok()?);
        let bytes = |pages: u64| Bytes::new(pages.saturating_mul(page));
        Some(Self { begins: bytes(begins), ends: bytes(ends) })
    }
}

/// TCP's pages in `/proc/net/sockstat`.
fn held_pages(sockstat: &str) -> Option<u64> {
    let line = sockstat.lines().find_map(|line| line.strip_prefix("TCP: "))?;
    let mut words = line.split_whitespace().skip_while(|word| *word != "mem");
    words.nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(held: u64) -> TcpMemory {
        let pressure = Pressure::parse("10 20 30", 4096);
        TcpMemory { held: Bytes::new(held * 4096), pressure }
    }

    #[test]
    fn memory_of_this_machine_is_read() {
        let memory = TcpMemory::read().unwrap();
        let kernel = sysctl::read("net.ipv4.tcp_mem").ok();
        assert_eq!(memory.pressure.is_some(), kernel.is_some());
        assert!(memory.pressure.is_none_or(|it| it.ends <= it.begins && it.ends.get() > 0));
    }

    #[test]
    fn figures_are_found_by_name() {
        let text =
            "sockets: used 7\nTCP: inuse 1 orphan 188 tw 0 alloc 189 mem 156\nUDP: inuse 0 mem 9\n";
        assert_eq!(held_pages(text), Some(156));
        for text in ["", "TCP: inuse 1\n", "UDP: inuse 0 mem 9\n", "TCP: mem\n", "TCP: mem x\n"] {
            assert_eq!(held_pages(text), None, "{text:?}");
        }
        assert_eq!(
            Pressure::parse("1 2", u64::MAX).map(|it| it.begins),
            Some(Bytes::new(u64::MAX))
        );
        assert!(
            ["", "1", "1 x 3", "-1 2 3"]
                .map(|text| Pressure::parse(text, 1))
                .iter()
                .all(Option::is_none)
        );
    }

    #[test]
    fn part_grows_to_the_whole_where_the_kernel_begins_to_save() {
        let part = |held| memory(held).part_of(1000);
        assert_eq!([0, 5, 10, 20, 40].map(part), [0, 250, 500, 1000, 1000]);
        assert_eq!([9, 10].map(|held| memory(held).may_be_short()), [false, true]);
        let unknown = TcpMemory { pressure: None, ..memory(40) };
        assert_eq!((unknown.part_of(1000), unknown.may_be_short()), (0, false));
        let none = TcpMemory { pressure: Pressure::parse("0 0 0", 4096), ..memory(4) };
        assert_eq!(none.part_of(1000), 0, "there is no such figure");
        let most = TcpMemory { held: Bytes::new(u64::MAX), ..memory(0) };
        assert_eq!(most.part_of(usize::MAX), usize::MAX);
    }
}
