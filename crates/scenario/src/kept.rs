// SPDX-License-Identifier: GPL-2.0-or-later
//! What depots do with connections on which a transfer is over, by every method: the defaults of a real depot
//! (docs/depot/configuration.md, `reuse.idle`, `hop.idle` and `hop.prime`).

use units::{Bytes, Duration};

/// How long an idle connection lasts.
pub const IDLE: Duration = Duration::from_secs(4);

/// The same where depots keep some ahead of need, counted from the last time that the next depot was asked.
pub const WARM_IDLE: Duration = Duration::from_secs(600);

/// What a connection that is opened ahead of need carries first.
pub const PRIME: Bytes = Bytes::new(1 << 20);
