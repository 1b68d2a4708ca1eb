// SPDX-License-Identifier: GPL-2.0-or-later
//! Both ends of a connection, to be used at the same time.

use crate::tcp::{Connection, Sink, Source, Stream, Wire};

impl Stream {
    /// Both ends, to be used at the same time.
    pub fn split(&mut self) -> (Source<'_>, Sink<'_>) {
        let Self { first: Connection { tcp, tls }, reader, writer } = self;
        let tcp: &Wire = tcp;
        let (read, write) = tls.as_deref_mut().map(tokio::io::split).unzip();
        (Source { tcp, tls: read, stripes: reader }, Sink { tcp, tls: write, stripes: writer })
    }
}
