// SPDX-License-Identifier: GPL-2.0-or-later
//! The settings of a new connection.

use super::{ConnectionRoute, content::Content};
use crate::plan::SenderPacing;
use congestion::Params;
use units::Bytes;

/// The settings of a new connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionSetup<'a> {
    pub(crate) route: ConnectionRoute,
    pub(crate) params: &'a Params,
    /// Bytes of payload in a full segment.
    pub(crate) mss: u32,
    pub(crate) sndbuf: Bytes,
    pub(crate) rcvbuf: Bytes,
    pub(crate) content: Content,
    pub(crate) pace: SenderPacing,
    /// Segments of one GSO packet that its receiver gets in one frame.
    pub(crate) frame: u32,
    pub(crate) slow_start_after_idle: bool,
}
