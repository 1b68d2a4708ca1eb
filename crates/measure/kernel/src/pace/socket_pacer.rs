// SPDX-License-Identifier: GPL-2.0-or-later
//! TCP's own pacing for programs that don't ask for it.

use super::{
    Refusal,
    attach::{SETUP, map, write},
    layout,
    readings::ONLY,
    requirements::namespace,
    rules::{MOST_RULES, Match, Rule, Target},
};
use crate::{Error, objects, support};
use host::private_mount;
use libbpf_rs::{Link, MapCore, MapFlags, Object};
use std::os::fd::AsRawFd;
use units::Rate;

/// Name of the object with the program.
const OBJECT: &str = "sockets";
/// The counter's name in it, see `src/bpf/sockets.bpf.c`.
const ASKED: &str = ".data.asked";

/// Has TCP pace the sockets of a network namespace by itself, at the rate that it finds (2 times
/// cwnd / RTT in slow start, 1.2 times after it; `tcp_pacing_ss_ratio` and `tcp_pacing_ca_ratio`), as if
/// their programs had set `SO_MAX_PACING_RATE`. The kernel's timers do it, or fq where that is the
/// queueing discipline.
///
/// It ends with this value or with the process; sockets that it has changed stay paced. Sockets
/// that are connected already are left alone.
#[derive(Debug)]
pub struct SocketPacer {
    // Dropped in this order: detached, then taken down.
    _link: Link,
    object: Object,
}

impl SocketPacer {
    /// The largest rate of `SO_MAX_PACING_RATE` in 32 bits other than "no limit", which asks for nothing:
    /// 34 Gb/s. A socket cannot send faster.
    pub const MAX_RATE: Rate = Rate::bits_per_second((u32::MAX as u64 - 1) * 8);

    /// Begins with the sockets that any of `matches` is true for, of the calling thread's network
    /// namespace, wherever their programs run.
    ///
    /// # Errors
    /// More than 16 of them; or, with [`Error::is_lack`], this isn't root, or the kernel takes no such
    /// program.
    pub fn attach(matches: &[Match]) -> Result<Self, Error> {
        support::require_root()?;
        if matches.len() > MOST_RULES {
            return Err(Refusal::TooManyRules { most: MOST_RULES }.into());
        }
        let setup = setup(namespace()?, matches);
        let object = objects::load_plain(OBJECT)?;
        write(&map(&object, SETUP), &setup)?;
        // The root's program sees the sockets of all groups.
        let root = private_mount("cgroup2");
        let root = root.map_err(|e| Error::system("open the control groups (version 2)", e))?;
        let program = object.progs_mut().next().expect("the object has one program");
        let link = program.attach_cgroup(root.as_raw_fd());
        let link = link.map_err(Error::bpf("attach to the root of the control groups"))?;
        Ok(Self { _link: link, object })
    }

    /// How many sockets it has been so far.
    ///
    /// # Errors
    /// The kernel refused to tell.
    pub fn paced_sockets(&self) -> Result<u64, Error> {
        let value = map(&self.object, ASKED).lookup(&ONLY, MapFlags::ANY);
        let value = value.map_err(Error::bpf("read how many sockets are paced"))?;
        let value = value.as_deref().and_then(|bytes| bytes.first_chunk().copied());
        Ok(u64::from_ne_bytes(value.expect("the map has one place of 8 bytes")))
    }
}

/// `struct sockets_setup`.
fn setup(namespace: u64, matches: &[Match]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((namespace as u32).to_ne_bytes());
    bytes.extend((matches.len() as u32).to_ne_bytes());
    for matches in matches {
        let rule = Rule { matches: *matches, target: Target::Rate(SocketPacer::MAX_RATE) };
        layout::rule(&mut bytes, 0, None, &rule);
    }
    bytes.resize(8 + layout::RULES, 0);
    bytes
}
