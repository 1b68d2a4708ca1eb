// SPDX-License-Identifier: GPL-2.0-or-later
//! A stream as libraries for HTTP want it. It counts.

use crate::connections::Connection;
use bytes::BytesMut;
use relay::tcp::Stream;
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What is read at a time.
const READ: usize = 64 << 10;

pub(super) struct Link {
    stream: Stream,
    buffer: BytesMut,
    connection: Arc<Connection>,
}

impl Link {
    pub(super) fn new(stream: Stream, connection: Arc<Connection>) -> Self {
        Self { stream, buffer: BytesMut::new(), connection }
    }
}

impl AsyncRead for Link {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, buffer, connection } = self.get_mut();
        let most = into.remaining().min(READ);
        let count = ready!(stream.poll_read(context, buffer, most))?;
        into.put_slice(&buffer[..count]);
        buffer.clear();
        connection.passed.down.count(count as u64);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Link {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self { stream, connection, .. } = self.get_mut();
        let count = ready!(stream.poll_write(context, bytes))?;
        connection.passed.up.count(count as u64);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream.poll_flush(context)
    }

    /// Its owner closes it: for HTTP the end of one direction says nothing.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}
