// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests that want the machine for themselves: they hold thousands of connections, measure a depot's
//! memory, or keep every core busy for minutes. They are a second binary, since they count what each
//! daemon allocates (an allocator is a whole program's) and raise this process's limit of open files,
//! which the daemons of other tests would inherit. One runs at a time.

#[path = "../common/mod.rs"]
mod common;
mod conversations;
mod fairness;
mod memory;
mod scale;

use rustix::process::{Resource, getrlimit, setrlimit};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by a test while it runs, with all the open files that the kernel gives this process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    // A test that failed has not harmed what this guards.
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    alone
}
