// SPDX-License-Identifier: GPL-2.0-or-later
//! What transfers move through, and who may join them.

use crate::session::Meetings;
use relay::{buffers::KernelMemory, copy::RelayResources, stripes::Offers};
use std::sync::Arc;

/// What all transfers share.
#[derive(Debug)]
pub(crate) struct Transfers {
    /// Resources for copying bodies.
    pub resources: RelayResources,
    /// Kernel memory of transfers.
    pub kernel_memory: KernelMemory,
    /// Transfers that further connections may join.
    pub stripes: Arc<Offers>,
    /// Sessions with one end that waits for the other.
    pub meetings: Meetings,
}
