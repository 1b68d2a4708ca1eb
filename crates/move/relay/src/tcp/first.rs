// SPDX-License-Identifier: GPL-2.0-or-later
//! The connection of a striped transfer that the others have joined, as they see it.

use crate::tcp::{
    connection::TlsSocket,
    poll::{poll_flush, poll_write},
};
use std::{
    io,
    task::{Context, Poll},
};
use tokio::{io::WriteHalf, net::TcpStream};
use tokio_rustls::TlsStream;

/// The connection that others have joined, as they see it.
pub struct First<'f, 'a> {
    pub(super) tcp: &'a TcpStream,
    pub(super) tls: Option<&'f mut WriteHalf<&'a mut TlsStream<TlsSocket>>>,
}

impl First<'_, '_> {
    /// As [`Sink::write`](super::Sink::write).
    pub fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        poll_write(self.tcp, self.tls.as_deref_mut(), context, bytes)
    }

    /// As [`Sink::flush`](super::Sink::flush).
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        poll_flush(self.tls.as_deref_mut(), context)
    }
}
