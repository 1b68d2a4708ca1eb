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
use testkit::Turn;

/// Held by a test while it runs, with all the open files that the kernel gives this process.
fn alone() -> Turn {
    let alone = testkit::alone();
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    alone
}
