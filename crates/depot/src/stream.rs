// SPDX-License-Identifier: GPL-2.0-or-later
//! A connection: TCP, with or without TLS above it.
//!
//! The TCP socket stays at hand beneath TLS: for its options, for what the kernel knows of the path,
//! and to wait on. Without TLS the bytes on the socket are those of HTTP, and the kernel can move
//! them by itself.

use crate::{
    kernel::{self, Spacing},
    stripes::{Reader, Writer},
    tune::{self, InForce, Settled},
};
use bytes::{BufMut, BytesMut};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use session::Scheme;
use std::{
    future::{pending, poll_fn},
    io::{self, IoSlice},
    mem::MaybeUninit,
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd},
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};
use tokio::{
    io::{
        AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest, ReadBuf, ReadHalf, WriteHalf,
    },
    net::TcpStream,
};
use tokio_rustls::TlsStream;
use units::Bytes;

/// What is read by way of the stack at most: heads, and not bodies.
const BRIEF: usize = 16 << 10;

/// How old what the kernel said of a connection may be where a request's line quotes it. Short requests
/// follow each other on a connection faster than its figures change.
const RECENT: Duration = Duration::from_millis(100);

/// Whether what is written is followed at once by something that goes out with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum More {
    /// By what a pipe holds: until then the kernel keeps a last short segment to itself.
    Yes,
    /// Perhaps not.
    No,
}

/// A TCP connection, with what was found out about it: it serves one request after another.
#[derive(Debug)]
pub(crate) struct Wire {
    tcp: TcpStream,
    /// Kept: of a connection that has broken the kernel knows it no more.
    peer: SocketAddr,
    known: Mutex<Known>,
    /// How it is spaced, as the kernel has it. Apart from what else is known of it: most connections are
    /// not, and to see that takes no lock.
    paced: AtomicU64,
    /// The segments sent again so far, when they were last looked at.
    resent: AtomicU32,
}

/// What is known of a connection. Whatever is set on it is set by way of [`Wire`], so that this is true.
#[derive(Debug, Default)]
struct Known {
    settled: Option<Settled>,
    /// What was in force when that was last looked at.
    seen: Option<(Instant, InForce)>,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Stream {
    tcp: Arc<Wire>,
    /// Boxed: its buffers are large, and most connections have none.
    tls: Option<Box<TlsStream<Socket>>>,
}

/// The end of a connection that bytes come from.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    tcp: &'a Wire,
    tls: Option<ReadHalf<&'a mut TlsStream<Socket>>>,
    /// Where this is the first of several connections.
    stripes: Option<Box<Reader>>,
}

/// The end of a connection that bytes go to.
#[derive(Debug)]
pub(crate) struct Sink<'a> {
    tcp: &'a Wire,
    tls: Option<WriteHalf<&'a mut TlsStream<Socket>>>,
    /// Where this is the first of several connections.
    stripes: Option<Box<Writer>>,
}

/// What TLS reads from and writes to.
#[derive(Debug)]
pub(crate) struct Socket(Arc<Wire>);

impl Wire {
    fn new(tcp: TcpStream, peer: SocketAddr) -> Arc<Self> {
        let info = kernel::tcp_info(&tcp).unwrap_or_default();
        Arc::new(Self {
            tcp,
            peer,
            known: Mutex::default(),
            paced: AtomicU64::new(Spacing::Free.to_kernel()),
            resent: info.retransmits.into(),
        })
    }

    /// Who is at its other end, also after that is gone.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The segments sent again so far, when they were last looked at.
    pub(crate) fn resent(&self) -> u32 {
        self.resent.load(Relaxed)
    }

    /// What is in force on it now.
    pub(crate) fn in_force(&self) -> InForce {
        self.known().look(&self.tcp, &self.resent)
    }

    /// What was in force lately: it was looked at now, or not long ago.
    pub(crate) fn recently_in_force(&self) -> InForce {
        let mut known = self.known();
        let seen = known.seen.as_ref().filter(|(when, _)| when.elapsed() < RECENT);
        let seen = seen.map(|(_, in_force)| in_force.clone());
        seen.unwrap_or_else(|| known.look(&self.tcp, &self.resent))
    }

    /// Has TCP space what is sent so.
    pub(crate) fn pace(&self, spacing: Spacing) -> io::Result<()> {
        let wanted = spacing.to_kernel();
        if self.paced.load(Relaxed) != wanted {
            let mut known = self.known();
            kernel::set_spacing(&self.tcp, spacing)?;
            self.paced.store(wanted, Relaxed);
            known.seen = None;
        }
        Ok(())
    }

    /// Sets how much is kept unsent.
    pub(crate) fn keep_unsent(&self, bytes: Bytes) -> io::Result<()> {
        let mut known = self.known();
        (known.settled, known.seen) = (None, None);
        tune::keep_unsent(&self.tcp, bytes)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn look(&mut self, tcp: &TcpStream, resent: &AtomicU32) -> InForce {
        let settled = self.settled.get_or_insert_with(|| Settled::read(tcp));
        let in_force = InForce::read(tcp, settled);
        resent.fetch_max(in_force.retransmits, Relaxed);
        self.seen = Some((Instant::now(), in_force.clone()));
        in_force
    }
}

impl std::ops::Deref for Wire {
    type Target = TcpStream;
    fn deref(&self) -> &TcpStream {
        &self.tcp
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tcp.as_fd()
    }
}

impl Stream {
    /// A connection to `peer`, without TLS.
    pub(crate) fn new(tcp: TcpStream, peer: SocketAddr) -> Self {
        Self { tcp: Wire::new(tcp, peer), tls: None }
    }

    /// Puts TLS above a socket by a handshake that `shake` makes.
    pub(crate) async fn secured<F>(
        tcp: TcpStream,
        peer: SocketAddr,
        shake: impl FnOnce(Socket) -> F,
    ) -> io::Result<Self>
    where
        F: Future<Output = io::Result<TlsStream<Socket>>>,
    {
        let tcp = Wire::new(tcp, peer);
        let tls = shake(Socket(Arc::clone(&tcp))).await?;
        Ok(Self { tcp, tls: Some(Box::new(tls)) })
    }

    /// The socket.
    pub(crate) fn tcp(&self) -> &TcpStream {
        &self.tcp.tcp
    }

    /// Who is at its other end.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.tcp.peer
    }

    /// The segments sent to the peer again so far, as far as anybody looked.
    pub(crate) fn resent(&self) -> u32 {
        self.tcp.resent()
    }

    /// The connection, to be looked at for as long as it is open, which this does not prolong.
    pub(crate) fn watch(&self) -> Weak<Wire> {
        Arc::downgrade(&self.tcp)
    }

    /// The connection, to be set and asked.
    pub(crate) fn wire(&self) -> &Wire {
        &self.tcp
    }

    /// Both ends, to be used at the same time.
    pub(crate) fn split(&mut self) -> (Source<'_>, Sink<'_>) {
        let tcp: &Wire = &self.tcp;
        match self.tls.as_deref_mut().map(tokio::io::split) {
            None => {
                (Source { tcp, tls: None, stripes: None }, Sink { tcp, tls: None, stripes: None })
            }
            Some((read, write)) => (
                Source { tcp, tls: Some(read), stripes: None },
                Sink { tcp, tls: Some(write), stripes: None },
            ),
        }
    }

    /// With TLS or without.
    pub(crate) fn scheme(&self) -> Scheme {
        if self.tls.is_some() { Scheme::Https } else { Scheme::Http }
    }

    /// As [`Source::read`].
    pub(crate) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut BytesMut,
        most: usize,
    ) -> Poll<io::Result<usize>> {
        poll_read(&self.tcp, self.tls.as_deref_mut(), context, buffer, most)
    }

    /// As [`Sink::write`].
    pub(crate) fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        poll_write(&self.tcp, self.tls.as_deref_mut(), context, bytes)
    }

    /// As [`Sink::flush`].
    pub(crate) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        poll_flush(self.tls.as_deref_mut(), context)
    }
}

impl<'a> Source<'a> {
    /// The socket, if what is read from it is what was sent: then the kernel can move it.
    pub(crate) fn plain(&self) -> Option<&'a TcpStream> {
        (self.tls.is_none() && self.stripes.is_none()).then_some(&self.tcp.tcp)
    }

    /// From here on, what is read comes in blocks, over further connections too.
    pub(crate) fn stripe(&mut self, stripes: Reader) {
        self.stripes = Some(Box::new(stripes));
    }

    /// Whether what is read comes over several connections.
    pub(crate) fn is_striped(&self) -> bool {
        self.stripes.is_some()
    }

    /// Reads to the end of the blocks, of which all data has been read; with what follows them.
    pub(crate) async fn unstripe(&mut self) -> io::Result<BytesMut> {
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
    pub(crate) fn tcp(&self) -> &'a TcpStream {
        &self.tcp.tcp
    }

    /// Who is at its other end.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.tcp.peer
    }

    /// Appends at most `most` bytes; 0 is the end. May be dropped at any time without loss.
    ///
    /// A peer of TLS that closes without saying so has cut the stream off: that is an error.
    pub(crate) async fn read(&mut self, buffer: &mut BytesMut, most: usize) -> io::Result<usize> {
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
        tls.read_buf(&mut buffer.limit(most)).await
    }
}

impl Source<'_> {
    /// As [`read`](Self::read), by way of the stack: whoever waits for a head, which may be for long,
    /// holds no room for it meanwhile, and afterwards no more than what came. Room that is there already,
    /// as with a connection that has served others, is used at once.
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
            ready!(Pin::new(&mut *tls).poll_read(context, &mut read))?;
            buffer.extend_from_slice(read.filled());
            Poll::Ready(Ok(read.filled().len()))
        })
        .await
    }
}

/// Resolves once there may be something to read. Tokio's own future of that is for several that wait, which
/// costs more.
pub(crate) async fn readable(tcp: &TcpStream) -> io::Result<()> {
    poll_fn(|context| tcp.poll_read_ready(context)).await
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
        if (1..most).contains(&read) { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
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

impl<'a> Sink<'a> {
    /// As [`Source::plain`].
    pub(crate) fn plain(&self) -> Option<&'a TcpStream> {
        (self.tls.is_none() && self.stripes.is_none()).then_some(&self.tcp.tcp)
    }

    /// From here on, what is written goes out in blocks, over further connections too.
    pub(crate) fn stripe(&mut self, stripes: Writer) {
        self.stripes = Some(Box::new(stripes));
    }

    /// Whether what is written goes out over several connections.
    pub(crate) fn is_striped(&self) -> bool {
        self.stripes.is_some()
    }

    /// Ends the blocks; when this is done all of them have arrived, or are on this connection.
    pub(crate) async fn unstripe(&mut self) -> io::Result<()> {
        let Self { tcp, tls, stripes } = self;
        let Some(mut stripes) = stripes.take() else { return Ok(()) };
        poll_fn(|context| stripes.poll_end(context, &mut First { tcp, tls: tls.as_mut() })).await
    }

    /// Sends on what waits for room on one of several connections, and resolves only where that fails.
    pub(crate) async fn drive(&mut self) -> io::Error {
        let Self { tcp, tls, stripes: Some(stripes) } = self else { return pending().await };
        poll_fn(|context| {
            match stripes.poll_drive(context, &mut First { tcp, tls: tls.as_mut() }) {
                Err(error) => Poll::Ready(error),
                Ok(()) => Poll::Pending,
            }
        })
        .await
    }

    /// The socket.
    pub(crate) fn tcp(&self) -> &'a TcpStream {
        &self.tcp.tcp
    }

    /// The connection, to be set and asked.
    pub(crate) fn wire(&self) -> &'a Wire {
        self.tcp
    }

    /// Hands over what is taken at once, after waiting for that to be something. May be dropped at
    /// any time: what was not reported as written was not.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Self { tcp, tls, stripes: Some(stripes) } = self {
            let mut first = First { tcp, tls: tls.as_mut() };
            return poll_fn(|context| stripes.poll_write(context, &mut first, bytes)).await;
        }
        let Some(tls) = &mut self.tls else {
            loop {
                match self.tcp.try_write(bytes) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    result => return result,
                }
                self.tcp.writable().await?;
            }
        };
        tls.write(bytes).await
    }

    /// As [`write`](Self::write), of what stands in two places: in one system call where nobody looks at
    /// the bytes.
    pub(crate) async fn write_both(
        &mut self,
        first: &[u8],
        second: &[u8],
        more: More,
    ) -> io::Result<usize> {
        if self.plain().is_none() {
            return self.write(if first.is_empty() { second } else { first }).await;
        }
        let flags = match more {
            More::Yes => SendFlags::MORE | SendFlags::NOSIGNAL,
            More::No => SendFlags::NOSIGNAL,
        };
        loop {
            let sent = self.tcp.try_io(Interest::WRITABLE, || {
                let both = [IoSlice::new(first), IoSlice::new(second)];
                let mut nothing = SendAncillaryBuffer::default();
                Ok(sendmsg(&self.tcp.tcp, &both, &mut nothing, flags)?)
            });
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
            self.tcp.writable().await?;
        }
    }

    /// Sends what TLS holds back to fill a record. Of several connections each does so by itself.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        if self.stripes.is_some() {
            return Ok(());
        }
        match &mut self.tls {
            Some(tls) => tls.flush().await,
            None => Ok(()),
        }
    }

    /// Ends this direction: the peer reads an orderly end.
    pub(crate) async fn shut(&mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            return tls.shutdown().await;
        }
        Ok(rustix::net::shutdown(self.tcp(), rustix::net::Shutdown::Write)?)
    }
}

/// The connection that others have joined, as they see it.
pub(crate) struct First<'f, 'a> {
    tcp: &'a TcpStream,
    tls: Option<&'f mut WriteHalf<&'a mut TlsStream<Socket>>>,
}

impl First<'_, '_> {
    /// As [`Sink::write`].
    pub(crate) fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        poll_write(self.tcp, self.tls.as_deref_mut(), context, bytes)
    }

    /// As [`Sink::flush`].
    pub(crate) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        poll_flush(self.tls.as_deref_mut(), context)
    }
}

fn poll_read<T: AsyncRead + Unpin>(
    tcp: &TcpStream,
    tls: Option<&mut T>,
    context: &mut Context<'_>,
    buffer: &mut BytesMut,
    most: usize,
) -> Poll<io::Result<usize>> {
    if let Some(tls) = tls {
        buffer.reserve(most);
        return pin!(tls.read_buf(&mut buffer.limit(most))).poll(context);
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

fn poll_write<T: AsyncWrite + Unpin>(
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

fn poll_send(tcp: &TcpStream, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
    loop {
        match tcp.try_write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return Poll::Ready(result),
        }
        ready!(tcp.poll_write_ready(context))?;
    }
}

fn poll_flush<T: AsyncWrite + Unpin>(
    tls: Option<&mut T>,
    context: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    tls.map_or(Poll::Ready(Ok(())), |tls| Pin::new(tls).poll_flush(context))
}

impl AsyncRead for Socket {
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

impl AsyncWrite for Socket {
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

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rate;

    #[tokio::test]
    async fn a_connection_is_held_to_a_rate_and_let_go() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let tcp = TcpStream::connect(address).await.unwrap();
        let stream = Stream::new(tcp, address);
        let held_to = |spacing: Spacing| {
            stream.wire().pace(spacing).unwrap();
            assert_eq!(stream.wire().in_force().spacing, spacing);
            kernel::max_pacing_rate(stream.tcp()).unwrap()
        };
        assert_eq!(held_to(Spacing::Free), u64::MAX);
        assert_eq!(held_to(Spacing::AtMost(Rate::bits_per_second(8_000_000))), 1_000_000);
        assert_eq!(held_to(Spacing::Free), u64::MAX);
        // Nothing but all ones leaves a socket unpaced.
        assert_eq!(held_to(Spacing::Own), u64::MAX - 1);
    }
}
