// SPDX-License-Identifier: GPL-2.0-or-later
//! The end of a connection that bytes come from.

use crate::{
    stripes::Reader,
    tcp::{
        connection::TlsSocket,
        info::is_at_urgent,
        poll::{poll_read, readable, without_link},
        wire::Wire,
    },
};
use bytes::{BufMut, BytesMut};
use std::{
    future::poll_fn,
    io,
    mem::MaybeUninit,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, Interest, ReadBuf, ReadHalf},
    net::TcpStream,
};
use tokio_rustls::TlsStream;

/// What is read by way of the stack at most: heads, and not bodies.
const BRIEF: usize = 16 << 10;

/// The end of a connection that bytes come from.
#[derive(Debug)]
pub struct Source<'a> {
    pub(super) tcp: &'a Wire,
    pub(super) tls: Option<ReadHalf<&'a mut TlsStream<TlsSocket>>>,
    /// Where this is the first of several connections.
    pub(super) stripes: &'a mut Option<Box<Reader>>,
}

impl<'a> Source<'a> {
    /// The socket, if what is read from it is what was sent: then the kernel can move it.
    pub fn plain(&self) -> Option<&'a TcpStream> {
        (self.tls.is_none() && self.stripes.is_none()).then_some(self.tcp.socket())
    }

    /// From here on, what is read comes in blocks, over further connections too.
    pub fn stripe(&mut self, stripes: Reader) {
        *self.stripes = Some(Box::new(stripes));
    }

    /// Whether what is read comes over several connections.
    pub fn is_striped(&self) -> bool {
        self.stripes.is_some()
    }

    /// Reads to the end of the blocks, of which all data has been read; with what follows them.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn unstripe(&mut self) -> io::Result<BytesMut> {
        let Self { tcp, tls, stripes } = self;
        let Some(mut stripes) = stripes.take() else { return Ok(BytesMut::new()) };
        poll_fn(|context| {
            stripes.poll_end(context, |context, buffer, most| {
                poll_read(tcp, tls.as_mut(), context, buffer, most)
            })
        })
        .await?;
        Ok(stripes.rest())
    }

    /// The socket.
    pub fn tcp(&self) -> &'a TcpStream {
        self.tcp.socket()
    }

    /// Who is at its other end.
    pub fn peer(&self) -> SocketAddr {
        self.tcp.peer()
    }

    /// Appends at most `most` bytes; 0 is the end. May be dropped at any time without loss.
    ///
    /// A peer of TLS that closes without saying so has cut the stream off: that is an error.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn read(&mut self, buffer: &mut BytesMut, most: usize) -> io::Result<usize> {
        if let Self { tcp, tls, stripes: Some(stripes) } = self {
            let mut first = |context: &mut Context<'_>, buffer: &mut BytesMut, most| {
                poll_read(tcp, tls.as_mut(), context, buffer, most)
            };
            return poll_fn(|context| stripes.poll_read(context, &mut first, buffer, most)).await;
        }
        if most <= BRIEF {
            return self.read_brief(buffer, most).await;
        }
        let Some(tls) = &mut self.tls else {
            loop {
                readable(self.tcp).await?;
                // Room is made only once there is something, so that waiting costs no memory.
                buffer.reserve(most);
                if let Some(result) = receive(self.tcp, &mut buffer.limit(most)) {
                    return result;
                }
            }
        };
        buffer.reserve(most);
        tls.read_buf(&mut buffer.limit(most)).await.map_err(without_link)
    }
}

impl Source<'_> {
    /// Like [`read`](Self::read), by way of the stack: a connection that waits for a head, perhaps for long,
    /// holds no buffer meanwhile, and afterwards only what came. An existing buffer, as on a connection that
    /// has served others, is used directly.
    async fn read_brief(&mut self, buffer: &mut BytesMut, most: usize) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            loop {
                readable(self.tcp).await?;
                let received = if buffer.try_reclaim(most) {
                    receive(self.tcp, &mut buffer.limit(most))
                } else {
                    receive_brief(self.tcp, buffer, most)
                };
                if let Some(result) = received {
                    return result;
                }
            }
        };
        poll_fn(|context| {
            let mut brief = [MaybeUninit::uninit(); BRIEF];
            let mut read = ReadBuf::uninit(&mut brief[..most]);
            ready!(Pin::new(&mut *tls).poll_read(context, &mut read)).map_err(without_link)?;
            buffer.extend_from_slice(read.filled());
            Poll::Ready(Ok(read.filled().len()))
        })
        .await
    }
}

/// Reads what there is room for; nothing where there is nothing just now.
///
/// What was less than there is room for was all: the socket then counts as drained, which saves
/// asking it in vain the next time. Only here can that be said, with what the socket was known to be
/// before the call: what comes meanwhile makes it readable again.
fn receive(tcp: &TcpStream, room: &mut impl BufMut) -> Option<io::Result<usize>> {
    let most = room.remaining_mut();
    let mut received = None;
    let drained = tcp.try_io(Interest::READABLE, || {
        let read = tcp.try_read_buf(room)?;
        received = Some(read);
        // A read also ends before an urgent byte.
        let is_all = (1..most).contains(&read) && !is_at_urgent(tcp);
        if is_all { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    });
    match (received, drained) {
        (Some(read), _) => Some(Ok(read)),
        (None, Err(error)) if error.kind() != io::ErrorKind::WouldBlock => Some(Err(error)),
        (None, _) => None,
    }
}

/// As [`receive`], by way of the stack.
fn receive_brief(tcp: &TcpStream, buffer: &mut BytesMut, most: usize) -> Option<io::Result<usize>> {
    let mut brief = [MaybeUninit::uninit(); BRIEF];
    let mut room = ReadBuf::uninit(&mut brief[..most]);
    let result = receive(tcp, &mut room);
    buffer.extend_from_slice(room.filled());
    result
}
