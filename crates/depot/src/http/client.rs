// SPDX-License-Identifier: GPL-2.0-or-later
//! A client and what is known of it between two requests.

use crate::{admission::limits::ConnectionSlot, http::interims::Interims};
use bytes::BytesMut;
use relay::tcp::Stream;
use std::time::Duration;

/// A client.
#[derive(Debug)]
pub(crate) struct Client {
    /// Its connection.
    pub stream: Stream,
    /// What it has sent beyond what was read so far.
    pub ahead: BytesMut,
    /// What it has had of interim answers to its request.
    pub interims: Interims,
    /// Its place among the connections; none for one that is turned away.
    pub slot: Option<ConnectionSlot>,
    /// For how long it is held while it is idle, where it is a depot with which that was agreed.
    pub held: Option<Duration>,
}

impl Client {
    /// A client that has sent `ahead` so far.
    pub(crate) fn new(stream: Stream, ahead: BytesMut) -> Self {
        Self { stream, ahead, interims: Interims::default(), slot: None, held: None }
    }
}
