// SPDX-License-Identifier: GPL-2.0-or-later
//! What the application gives a connection to send.

/// What a connection carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Content {
    /// Segments that the application has handed over.
    pub(crate) available: u64,
    /// Whether that is all.
    pub(crate) complete: bool,
    /// Bytes in the last segment, where it is.
    pub(crate) last: u32,
}

impl Content {
    /// Nothing to send as yet.
    pub(crate) const NOTHING: Self = Self { available: 0, complete: false, last: 0 };

    /// More than any run sends.
    pub(crate) const ENDLESS: Self = Self { available: u64::MAX, complete: false, last: 0 };

    /// So many bytes, in segments of `mss`, and no more than that.
    pub(crate) fn of_bytes(bytes: u64, mss: u32) -> Self {
        let segments = bytes.div_ceil(mss.into());
        let last = bytes - segments.saturating_sub(1) * u64::from(mss);
        Self { available: segments, complete: true, last: last as u32 }
    }
}
