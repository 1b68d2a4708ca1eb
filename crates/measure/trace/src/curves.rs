// SPDX-License-Identifier: GPL-2.0-or-later
//! What is kept of a direction over time, if it is asked for.

use crate::{course::Course, growth::Growth};

/// Which curves are kept of each direction.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum KeptCurves {
    /// None: sums alone.
    #[default]
    None,
    /// How the high-water mark rises. Up to 32 KB of memory a direction.
    Growth,
    /// That, windows and round trips. Up to 80 KB of memory a direction.
    All,
}

/// Windows and round trips of a direction over time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WindowCurves {
    /// Bytes sent and not acknowledged, at the point of capture.
    pub outstanding_bytes: Course,
    /// The receiver's window. Empty if its scale is unknown.
    pub window_bytes: Course,
    /// Round trips from the point of capture to the receiver, in nanoseconds.
    pub rtt_ns: Course,
}

/// The curves of a direction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Curves {
    pub(crate) growth: Growth,
    pub(crate) windows: Option<WindowCurves>,
}

impl Curves {
    /// Curves that are kept, if any are.
    pub(crate) fn of(kept: KeptCurves) -> Option<Box<Self>> {
        let windows = (kept == KeptCurves::All).then(WindowCurves::default);
        (kept != KeptCurves::None).then(|| Box::new(Self { growth: Growth::default(), windows }))
    }

    /// Bytes of memory behind them.
    pub(crate) fn heap_bytes(&self) -> usize {
        let windows = self.windows.as_ref().map_or(0, |windows| {
            let WindowCurves { outstanding_bytes, window_bytes, rtt_ns } = windows;
            outstanding_bytes.heap_bytes() + window_bytes.heap_bytes() + rtt_ns.heap_bytes()
        });
        size_of::<Self>() + self.growth.heap_bytes() + windows
    }
}
