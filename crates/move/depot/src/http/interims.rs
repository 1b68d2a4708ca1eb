// SPDX-License-Identifier: GPL-2.0-or-later
//! Interim answers (1xx) on their way to a client: each goes out whole, or the connection breaks.
//!
//! A client that reads slowly may take a part of one. Whatever followed that part would be read as the
//! rest of its fields, so nothing may: no further answer, no fault of the depot's own, no other route.

use protocol::http::Fault;
use relay::{
    copy::{CopyError, IdleTimeouts, Progress},
    tcp::Sink,
};

/// How many may come before one answer. Each is a head, so `limits.head` bounds them all.
const MOST: u8 = 16;

/// The interim answers to one request.
#[derive(Debug, Default)]
pub(crate) struct Interims {
    came: u8,
    cut: bool,
}

impl Interims {
    /// How many have come.
    pub(super) fn came(&self) -> u8 {
        self.came
    }

    /// Whether the client has a part of one, so that nothing else may be written to it.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }

    /// Another one has come.
    pub(super) fn count(&mut self) -> Result<(), Fault> {
        if self.came == MOST {
            let reason = format!("upstream sent more than {MOST} interim answers");
            return Err(Fault::bad_response(reason));
        }
        self.came += 1;
        Ok(())
    }

    /// Passes one on. May be dropped on the way: then it is known to be cut.
    pub(super) async fn pass(
        &mut self,
        interim: &[u8],
        client: &mut Sink<'_>,
        timeouts: IdleTimeouts,
        progress: &Progress,
    ) -> Result<(), CopyError> {
        progress.write_all(client, interim, timeouts, |left| self.cut = left > 0).await
    }
}
