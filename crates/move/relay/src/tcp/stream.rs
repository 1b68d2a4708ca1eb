// SPDX-License-Identifier: GPL-2.0-or-later
//! A stream of bytes each way: over one connection, or in blocks over further ones too, which join the first.

use crate::{
    stripes::{Arrivals, Reader, Writer},
    tcp::connection::{Connection, TlsSocket},
};
use std::{
    io,
    net::SocketAddr,
    ops::{Deref, DerefMut},
};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

/// Bytes both ways. What it says of its connection, it says of the first.
#[derive(Debug)]
pub struct Stream {
    pub(super) first: Connection,
    /// Where further connections bring bytes.
    pub(super) reader: Option<Box<Reader>>,
    /// Where further connections take bytes.
    pub(super) writer: Option<Box<Writer>>,
}

impl Stream {
    /// A connection to `peer`, without TLS.
    pub fn new(tcp: TcpStream, peer: SocketAddr) -> Self {
        Connection::new(tcp, peer).into()
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
        Connection::secured(tcp, peer, shake).await.map(Self::from)
    }

    /// Its one connection, to join another stream.
    pub fn into_connection(self) -> Connection {
        self.first
    }

    /// From here on, what is read comes in blocks, over further connections too.
    pub fn stripe_source(&mut self, reader: Reader) {
        self.reader = Some(Box::new(reader));
    }

    /// From here on, what is written goes out in blocks, over further connections too.
    pub fn stripe_sink(&mut self, writer: Writer) {
        self.writer = Some(Box::new(writer));
    }

    /// These may join what is read and what is written, as far as that is in blocks.
    pub fn let_join(&mut self, source: Option<Arrivals>, sink: Option<Arrivals>) {
        if let (Some(reader), Some(arrivals)) = (&mut self.reader, source) {
            reader.let_join(arrivals);
        }
        if let (Some(writer), Some(arrivals)) = (&mut self.writer, sink) {
            writer.let_join(arrivals);
        }
    }
}

impl From<Connection> for Stream {
    fn from(first: Connection) -> Self {
        Self { first, reader: None, writer: None }
    }
}

impl Deref for Stream {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.first
    }
}

impl DerefMut for Stream {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.first
    }
}
