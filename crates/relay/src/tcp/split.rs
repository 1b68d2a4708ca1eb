// SPDX-License-Identifier: GPL-2.0-or-later
//! Both ends of a connection, to be used at the same time.

use crate::tcp::{Sink, Source, Stream, Wire};

impl Stream {
    /// Both ends, to be used at the same time.
    pub fn split(&mut self) -> (Source<'_>, Sink<'_>) {
        let tcp: &Wire = &self.tcp;
        match self.tls.as_deref_mut().map(tokio::io::split) {
            None => (Source::new(tcp, None), Sink::new(tcp, None)),
            Some((read, write)) => (Source::new(tcp, Some(read)), Sink::new(tcp, Some(write))),
        }
    }
}
