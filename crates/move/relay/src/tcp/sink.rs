// SPDX-License-Identifier: GPL-2.0-or-later
//! The end of a connection that bytes go to.

use crate::{
    stripes::Writer,
    tcp::{connection::TlsSocket, first::First, wire::Wire},
};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use std::{
    future::{pending, poll_fn},
    io::{self, IoSlice},
    task::Poll,
};
use tokio::{
    io::{AsyncWriteExt, Interest, WriteHalf},
    net::TcpStream,
};
use tokio_rustls::TlsStream;

/// Whether what is written is followed at once by something that goes out with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum More {
    /// By what a pipe holds: until then the kernel keeps a last short segment to itself.
    Yes,
    /// Perhaps not.
    No,
}

/// The end of a connection that bytes go to.
#[derive(Debug)]
pub struct Sink<'a> {
    pub(super) tcp: &'a Wire,
    pub(super) tls: Option<WriteHalf<&'a mut TlsStream<TlsSocket>>>,
    /// Where this is the first of several connections.
    pub(super) stripes: &'a mut Option<Box<Writer>>,
}

impl<'a> Sink<'a> {
    /// As [`Source::plain`](super::Source::plain).
    pub fn plain(&self) -> Option<&'a TcpStream> {
        (self.tls.is_none() && self.stripes.is_none()).then_some(self.tcp.socket())
    }

    /// From here on, what is written goes out in blocks, over further connections too.
    pub fn stripe(&mut self, stripes: Writer) {
        *self.stripes = Some(Box::new(stripes));
    }

    /// Whether what is written goes out over several connections.
    pub fn is_striped(&self) -> bool {
        self.stripes.is_some()
    }

    /// Ends the blocks; when this is done all of them have arrived, or are on this connection.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn unstripe(&mut self) -> io::Result<()> {
        let Self { tcp, tls, stripes } = self;
        let Some(mut stripes) = stripes.take() else { return Ok(()) };
        poll_fn(|context| stripes.poll_end(context, &mut First { tcp, tls: tls.as_mut() })).await
    }

    /// Sends on what waits for room on one of several connections, and resolves only where that fails.
    pub async fn drive(&mut self) -> io::Error {
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
    pub fn tcp(&self) -> &'a TcpStream {
        self.tcp.socket()
    }

    /// The connection, to be set and asked.
    pub fn wire(&self) -> &'a Wire {
        self.tcp
    }

    /// Hands over what is taken at once, after waiting for that to be something. May be dropped at
    /// any time: what was not reported as written was not.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
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

    /// Like [`write`](Self::write), for two slices: in one system call unless TLS or stripes process the
    /// bytes.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn write_both(
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
                Ok(sendmsg(self.tcp.socket(), &both, &mut nothing, flags)?)
            });
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
            self.tcp.writable().await?;
        }
    }

    /// Sends what TLS holds back to fill a record. Striped connections do so by themselves.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn flush(&mut self) -> io::Result<()> {
        if self.stripes.is_some() {
            return Ok(());
        }
        match &mut self.tls {
            Some(tls) => tls.flush().await,
            None => Ok(()),
        }
    }

    /// Ends this direction: the peer reads an orderly end.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn shut(&mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            return tls.shutdown().await;
        }
        Ok(rustix::net::shutdown(self.tcp(), rustix::net::Shutdown::Write)?)
    }
}
