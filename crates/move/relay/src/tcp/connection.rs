// SPDX-License-Identifier: GPL-2.0-or-later
//! A connection: TCP, with or without TLS above it.
//!
//! The TCP socket stays at hand beneath TLS: for its options, for what the kernel knows of the path,
//! and to wait on. Without TLS the bytes on the socket are those of the application, and the kernel
//! can move them by itself.

use crate::tcp::{
    poll::{poll_flush, poll_read, poll_send, poll_write},
    wire::Wire,
};
use bytes::BytesMut;
use socket2::SockRef;
use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::TlsStream;

/// One connection.
#[derive(Debug)]
pub struct Connection {
    pub(super) tcp: Arc<Wire>,
    /// Boxed: its buffers are large, and most connections have none.
    pub(super) tls: Option<Box<TlsStream<TlsSocket>>>,
}

/// What TLS reads from and writes to.
#[derive(Debug)]
pub struct TlsSocket(Arc<Wire>);

impl Connection {
    /// A connection to `peer`, without TLS.
    pub fn new(tcp: TcpStream, peer: SocketAddr) -> Self {
        // What the peer marks as urgent is part of its stream. Otherwise a read would leave it out.
        let _ = SockRef::from(&tcp).set_out_of_band_inline(true);
        Self { tcp: Wire::new(tcp, peer), tls: None }
    }

    /// Puts TLS above a socket by a handshake that `shake` makes.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn secured<F>(
        tcp: TcpStream,
        peer: SocketAddr,
        shake: impl FnOnce(TlsSocket) -> F,
    ) -> io::Result<Self>
    where
        F: Future<Output = io::Result<TlsStream<TlsSocket>>>,
    {
        let tcp = Wire::new(tcp, peer);
        let tls = shake(TlsSocket(Arc::clone(&tcp))).await?;
        Ok(Self { tcp, tls: Some(Box::new(tls)) })
    }

    /// The socket.
    pub fn tcp(&self) -> &TcpStream {
        self.tcp.socket()
    }

    /// Who is at its other end.
    pub fn peer(&self) -> SocketAddr {
        self.tcp.peer()
    }

    /// The segments sent to the peer again so far, as far as anybody looked.
    pub fn resent(&self) -> u32 {
        self.tcp.resent()
    }

    /// The connection, to be looked at for as long as it is open, which this does not prolong.
    pub fn watch(&self) -> Weak<Wire> {
        Arc::downgrade(&self.tcp)
    }

    /// The connection, to be set and asked.
    pub fn wire(&self) -> &Wire {
        &self.tcp
    }

    /// Whether there is TLS above the socket.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// What both sides have agreed to speak above TLS, if they have (ALPN).
    pub fn alpn(&self) -> Option<&[u8]> {
        self.tls.as_ref()?.get_ref().1.alpn_protocol()
    }

    /// As [`Source::read`](super::Source::read).
    pub fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut BytesMut,
        most: usize,
    ) -> Poll<io::Result<usize>> {
        poll_read(&self.tcp, self.tls.as_deref_mut(), context, buffer, most)
    }

    /// As [`Sink::write`](super::Sink::write).
    pub fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        poll_write(&self.tcp, self.tls.as_deref_mut(), context, bytes)
    }

    /// As [`Sink::flush`](super::Sink::flush).
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        poll_flush(self.tls.as_deref_mut(), context)
    }
}

impl AsyncRead for TlsSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(context))?;
            match self.0.try_read(buffer.initialize_unfilled()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(read) => {
                    buffer.advance(read);
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl AsyncWrite for TlsSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        poll_send(&self.0, context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = rustix::net::shutdown(&**self.0, rustix::net::Shutdown::Write);
        Poll::Ready(shut.map_err(Into::into))
    }
}
