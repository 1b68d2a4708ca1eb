// SPDX-License-Identifier: GPL-2.0-or-later
//! Where a receiver's content comes from: a session with its sender, or a stored one.

use crate::Error;
use bytes::Bytes;
use session::Session;

/// Content that comes in order.
pub(super) trait Pieces {
    /// The next piece; `None` when all have come and are what was sent. If it is cancelled, nothing is lost.
    ///
    /// # Errors
    /// The connection is lost for good, or it is not what was sent.
    async fn next(&mut self) -> Result<Option<Bytes>, Error>;

    /// How many depots it comes through.
    fn hops(&self) -> usize;

    /// Everything is in its place: the other end may hear of it.
    fn confirm(&mut self) -> Result<(), Error>;
}

impl Pieces for &Session {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        Ok(self.chunk().await?)
    }

    fn hops(&self) -> usize {
        self.statistics().hops.len()
    }

    fn confirm(&mut self) -> Result<(), Error> {
        Ok(Session::confirm(self)?)
    }
}
