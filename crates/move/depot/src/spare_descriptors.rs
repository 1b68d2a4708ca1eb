// SPDX-License-Identifier: GPL-2.0-or-later
//! Descriptors: how many a depot needs, and some that are kept for when there are no others.

use crate::config::Config;
use rustix::process::{Resource, getrlimit};
use std::{
    fs::File,
    os::fd::OwnedFd,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// What a depot has open that serves no transfer: the runtime's, the log, idle connections, look-ups.
const BASE: u64 = 64;
/// What a transfer takes: two sockets, both ends of a pipe.
const PER_TRANSFER: u64 = 4;

/// The most descriptors that this process may have: the soft limit, which a depot raises at its start to the hard one.
pub(crate) fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Says so where the system gives fewer than `limits.connections` may take.
pub(crate) fn check(config: &Config) {
    let listeners = config.listen.len() + config.tls.listen.len() + 1;
    let connections = config.limits.connections as u64;
    let needed = connections * PER_TRANSFER + listeners as u64 + BASE;
    let Some(hard) = getrlimit(Resource::Nofile).maximum.filter(|hard| *hard < needed) else {
        return;
    };
    tracing::warn!(
        needed,
        hard,
        "the limit on open files is too low for limits.connections = {connections}: raise it (ulimit -n {needed}; \
         systemd: LimitNOFILE={needed}) or lower limits.connections"
    );
}

/// Descriptors that are kept.
#[derive(Debug)]
pub(crate) struct Reserve {
    size: usize,
    spare: Mutex<Vec<OwnedFd>>,
}

impl Reserve {
    /// Reserves `size` descriptors, or as many as the system has.
    pub(crate) fn new(size: usize) -> Self {
        let reserve = Self { size, spare: Mutex::default() };
        reserve.refill();
        reserve
    }

    /// Closes one reserved descriptor, so that the system can reuse it immediately. Returns whether there was
    /// one.
    pub(crate) fn release(&self) -> bool {
        self.spare().pop().is_some()
    }

    /// Keeps as many as before again, as far as there are any. To be called every second or so.
    pub(crate) fn refill(&self) {
        let mut spare = self.spare();
        while spare.len() < self.size {
            let Ok(file) = File::open("/dev/null") else { return };
            spare.push(file.into());
        }
    }

    /// Whether there are fewer than are to be kept.
    fn is_short(&self) -> bool {
        self.spare().len() < self.size
    }

    /// Closes a descriptor that this reserve made possible, and reserves it again before another thread can
    /// get it.
    fn put_back(&self, mut used: OwnedFd) {
        let mut spare = self.spare();
        if spare.len() < self.size
            && let Some(other) = spare.first()
            && rustix::io::dup2(other, &mut used).is_ok()
        {
            spare.push(used);
            return;
        }
        drop(used);
        drop(spare);
        self.refill();
    }

    fn spare(&self) -> MutexGuard<'_, Vec<OwnedFd>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Descriptors that are kept for when there are no others.
#[derive(Debug)]
pub(crate) struct Spare {
    /// To tell clients so.
    pub clients: Reserve,
    /// To answer operators.
    pub operators: Reserve,
}

impl Spare {
    /// So few that most are left to transfers.
    pub(crate) fn new() -> Self {
        let most = usize::try_from(limit()).unwrap_or(usize::MAX);
        Self { clients: Reserve::new((most / 16).clamp(1, 8)), operators: Reserve::new(2) }
    }

    /// Whether a descriptor that was just opened is one of those reserved for operators. They are free for a
    /// moment while an operator connects, and other threads may get them.
    pub(crate) fn is_owed(&self) -> bool {
        self.operators.is_short() && {
            self.operators.refill();
            self.operators.is_short()
        }
    }

    /// Closes the connection of a client for which there is no descriptor, and reserves its descriptor again.
    pub(crate) fn put_back(&self, used: OwnedFd) {
        let reserve = if self.operators.is_short() { &self.operators } else { &self.clients };
        reserve.put_back(used);
    }

    /// Keeps as many as before again.
    pub(crate) fn refill(&self) {
        self.operators.refill();
        self.clients.refill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_descriptor_is_released_and_refilled() {
        let reserve = Reserve::new(3);
        assert!(reserve.release() && reserve.release());
        reserve.put_back(File::open("/dev/zero").unwrap().into());
        assert_eq!(reserve.spare().len(), 2);
        assert!(reserve.release() && reserve.release() && !reserve.release());
        reserve.put_back(File::open("/dev/zero").unwrap().into());
        assert_eq!(reserve.spare().len(), 3);
    }
}
