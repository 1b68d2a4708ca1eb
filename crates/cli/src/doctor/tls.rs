// SPDX-License-Identifier: GPL-2.0-or-later
//! TLS for the doctor's downloads: the one that depots and their clients use.

use ::doctor::facts::path::{Secure, Stream};
use relay::{
    dial::PeerAddr,
    tcp::{
        tls::{cause_of, connect_blocking},
        tls_files::{ALPN, LazyClient},
    },
};
use std::{io, net::TcpStream, path::PathBuf, time::Duration};

/// A client that trusts the system's authorities, and those of a file.
pub struct Tls(LazyClient);

impl Tls {
    pub fn new(ca: Option<PathBuf>) -> Self {
        Self(LazyClient::new(ca, ALPN))
    }
}

impl Secure for Tls {
    fn secure(&self, tcp: TcpStream, host: &str, time: Duration) -> io::Result<Box<dyn Stream>> {
        let client = self.0.get().map_err(io::Error::other)?;
        let host = PeerAddr::new(host, 0, true).host;
        let in_words = |error: io::Error| io::Error::new(error.kind(), cause_of(&error));
        Ok(Box::new(connect_blocking(client, tcp, &host, time).map_err(in_words)?))
    }
}
