// SPDX-License-Identifier: GPL-2.0-or-later
//! Reuse of connections by depots after a transfer, in every method: the defaults of a real depot
//! (docs/depot/configuration.md, `idle_connections.idle`, `hop.idle` and `hop.prime`).

use units::{Bytes, Duration};

/// How long an idle connection lasts.
pub const IDLE: Duration = Duration::from_secs(4);

/// The same where depots keep some ahead of need, counted from the last time that the next depot was asked.
pub const WARM_IDLE: Duration = Duration::from_secs(600);

/// Bytes that a connection that is opened ahead of need carries first.
pub const PRIME: Bytes = Bytes::new(1 << 20);
