// SPDX-License-Identifier: GPL-2.0-or-later
//! Emulated networks and the pacing gateway, with real sockets. As root.

#[path = "../../../scenario/tests/draft/mod.rs"]
mod draft;
mod gateway;
mod network;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by each test here: two cores don't run several emulators or gateways in real time.
fn alone() -> MutexGuard<'static, ()> {
    static NETWORK: Mutex<()> = Mutex::new(());
    // A test that failed has not harmed what this guards.
    NETWORK.lock().unwrap_or_else(PoisonError::into_inner)
}
