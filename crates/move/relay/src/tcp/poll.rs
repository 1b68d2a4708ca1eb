// SPDX-License-Identifier: GPL-2.0-or-later
//! Reading and writing a connection by polling, with TLS above it or without.

use bytes::{BufMut, BytesMut};
use std::{
    future::poll_fn,
    io,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite},
    net::TcpStream,
};

/// Resolves once there may be something to read. Tokio's own future of that is for several that wait, which
/// costs more.
///
/// # Errors
/// The connection failed.
pub async fn readable(tcp: &TcpStream) -> io::Result<()> {
    poll_fn(|context| tcp.poll_read_ready(context)).await
}

pub(super) fn poll_read<T: AsyncRead + Unpin>(
    tcp: &TcpStream,
    tls: Option<&mut T>,
    context: &mut Context<'_>,
    buffer: &mut BytesMut,
    most: usize,
) -> Poll<io::Result<usize>> {
    if let Some(tls) = tls {
        buffer.reserve(most);
        let read = pin!(tls.read_buf(&mut buffer.limit(most))).poll(context);
        return read.map_err(without_link);
    }
    loop {
        ready!(tcp.poll_read_ready(context))?;
        buffer.reserve(most);
        match tcp.try_read_buf(&mut (&mut *buffer).limit(most)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return Poll::Ready(result),
        }
    }
}

/// An error of the TLS library whose text ends in a link to the library's documentation, without that link: it says
/// nothing to operators.
pub(super) fn without_link(error: io::Error) -> io::Error {
    match error.to_string().split_once(": https://") {
        Some((said, _)) => io::Error::new(error.kind(), said),
        None => error,
    }
}

pub(super) fn poll_write<T: AsyncWrite + Unpin>(
    tcp: &TcpStream,
    tls: Option<&mut T>,
    context: &mut Context<'_>,
    bytes: &[u8],
) -> Poll<io::Result<usize>> {
    if let Some(tls) = tls {
        return Pin::new(tls).poll_write(context, bytes);
    }
    poll_send(tcp, context, bytes)
}

pub(super) fn poll_send(
    tcp: &TcpStream,
    context: &mut Context<'_>,
    bytes: &[u8],
) -> Poll<io::Result<usize>> {
    loop {
        match tcp.try_write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return Poll::Ready(result),
        }
        ready!(tcp.poll_write_ready(context))?;
    }
}

pub(super) fn poll_flush<T: AsyncWrite + Unpin>(
    tls: Option<&mut T>,
    context: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    tls.map_or(Poll::Ready(Ok(())), |tls| Pin::new(tls).poll_flush(context))
}
