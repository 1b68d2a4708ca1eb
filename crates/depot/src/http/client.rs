// SPDX-License-Identifier: GPL-2.0-or-later
//! A client and what is known of it between two requests.

use crate::http::interims::Interims;
use bytes::BytesMut;
use relay::tcp::Stream;

/// A client.
#[derive(Debug)]
pub(crate) struct Client {
    /// Its connection.
    pub stream: Stream,
    /// What it has sent beyond what was read so far.
    pub ahead: BytesMut,
    /// What it has had of interim answers to its request.
    pub interims: Interims,
}

impl Client {
    /// A client that has sent `ahead` so far.
    pub(crate) fn new(stream: Stream, ahead: BytesMut) -> Self {
        Self { stream, ahead, interims: Interims::default() }
    }
}
