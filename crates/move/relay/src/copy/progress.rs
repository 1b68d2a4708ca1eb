// SPDX-License-Identifier: GPL-2.0-or-later
//! How far a copy is, for everybody who watches it.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

/// How far a copy is.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes handed to the sink's kernel.
    pub(super) moved: AtomicU64,
    /// Of those, moved by splice.
    pub(super) spliced: AtomicU64,
    /// Bytes that are in a pipe now.
    pub(super) piped: AtomicUsize,
    /// Whether the sink has no room just now.
    pub(super) blocked: AtomicBool,
    /// For how long the sink has had no room since the source was last waited for, in milliseconds.
    pub(super) held_up_ms: AtomicU64,
}

impl Progress {
    /// Counts bytes that another component has handed over.
    pub fn count(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Relaxed);
    }

    /// Bytes handed over.
    pub fn moved(&self) -> u64 {
        self.moved.load(Relaxed)
    }

    /// Of those, moved in the kernel.
    pub fn spliced(&self) -> u64 {
        self.spliced.load(Relaxed)
    }

    /// Bytes that are in a pipe now.
    pub fn piped(&self) -> usize {
        self.piped.load(Relaxed)
    }

    /// Whether the sink has no room just now.
    pub fn waits_for_sink(&self) -> bool {
        self.blocked.load(Relaxed)
    }

    /// How long the sink has kept the source waiting.
    pub(super) fn held_up(&self) -> Duration {
        Duration::from_millis(self.held_up_ms.load(Relaxed))
    }

    /// All that the source had sent was taken, and more was waited for: what becomes of it now is its own doing.
    pub(super) fn source_was_awaited(&self) {
        self.held_up_ms.store(0, Relaxed);
    }

    /// How they were moved, for the log.
    pub fn means(&self) -> &'static str {
        match (self.moved(), self.spliced()) {
            (0, _) => "none",
            (_, 0) => "copy",
            _ => "splice",
        }
    }
}
