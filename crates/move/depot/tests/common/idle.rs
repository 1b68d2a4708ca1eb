// SPDX-License-Identifier: GPL-2.0-or-later
//! That a depot keeps nothing of what has passed.

use super::process::Daemon;
use testkit::until;

/// The number of files that a depot has open while it has no requests.
pub struct Idle<'d>(Vec<(&'d Daemon, usize)>);

impl<'d> Idle<'d> {
    /// Of depots that are idle now.
    pub fn now(depots: impl IntoIterator<Item = &'d Daemon>) -> Self {
        Self(depots.into_iter().map(|depot| (depot, depot.open_files())).collect())
    }

    /// Awaits that all of them have no more open than they had. Connections to next hops and pipes are
    /// kept for some seconds.
    pub fn again(&self) {
        for (depot, files) in &self.0 {
            until("sockets and pipes are closed", || depot.open_files() <= *files);
        }
    }
}
