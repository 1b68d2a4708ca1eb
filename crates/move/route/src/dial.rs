// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections to the first depots of routes, for those that open sessions on them.

use crate::depot_peer;
use protocol::{DepotAddress, Scheme, session::ALPN};
use relay::{
    dial::{Connector, Dialer, Names, Refusal, Resolver, resolver},
    tcp::{Stream, congestion::Overruled, socket_options::HopOptions, tls_files::LazyClient},
};
use std::{path::PathBuf, time::Duration};

/// Connects to first depots.
#[derive(Debug)]
pub struct FirstHopDialer {
    names: Names,
    overruled: Overruled,
    tls: LazyClient,
}

impl FirstHopDialer {
    /// With certificates (PEM) of further authorities to trust for depots over TLS.
    pub fn new(ca: Option<PathBuf>) -> Self {
        let (names, overruled) = (Names::default(), Overruled::default());
        Self { names, overruled, tls: LazyClient::new(ca, ALPN) }
    }

    /// A connection to the first depot of a route, or to the other end of a session without depots.
    ///
    /// # Errors
    /// Why there is none. It is this host's fault if the certificates cannot be read.
    pub async fn connect(
        &self,
        depot: &DepotAddress,
        options: &HopOptions<'_>,
        time: Duration,
    ) -> Result<Stream, Refusal> {
        let tls = (depot.scheme == Scheme::Https).then(|| self.tls.get()).transpose();
        let tls = tls.map_err(|error| Refusal::of_host(error.to_string(), false))?;
        let client = || tls.clone().expect("made for depots that speak TLS");
        let dialer = Dialer {
            connector: Connector { tls: &client, overruled: &self.overruled },
            resolver: Resolver { names: &self.names, client: resolver::OWN },
            time,
        };
        dialer.dial(&depot_peer(depot), options).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use relay::dial::{FaultSource, Retry};
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn unreadable_certificates_are_this_hosts_fault() {
        let dialer = FirstHopDialer::new(Some("/nonexistent/ca.pem".into()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connect = async |scheme: &str| {
            let depot = format!("{scheme}{address}").parse().unwrap();
            dialer.connect(&depot, &HopOptions::default(), Duration::from_secs(5)).await
        };
        assert!(connect("").await.is_ok(), "without TLS they are not read");
        let refusal = connect("https:").await.unwrap_err();
        assert_eq!((refusal.source, refusal.retry), (FaultSource::Host, Retry::Never));
        assert!(refusal.text.contains("/nonexistent/ca.pem"), "{refusal}");
    }
}
