// SPDX-License-Identifier: GPL-2.0-or-later
//! Connecting to depots, to ask whether they are up.

use health::Finding;
use protocol::{DepotAddress, Scheme};
use relay::{
    dial::{Connector, Dialer, Names, PeerAddr, Resolver, resolver::OWN},
    tcp::{congestion::Overruled, socket_options::HopOptions, tls::ClientConfig},
};
use std::{sync::Arc, time::Duration};

/// What a depot says to this host, within a time.
pub(super) async fn ask(
    depot: &DepotAddress,
    tls: Arc<ClientConfig>,
    names: &Names,
    time: Duration,
) -> Finding {
    let (authority, is_tls) = (&depot.authority, depot.scheme == Scheme::Https);
    let peer = PeerAddr::new(&authority.host.to_string(), authority.port, is_tls);
    let (tls, overruled) = (|| Arc::clone(&tls), Overruled::default());
    let connector = Connector { tls: &tls, overruled: &overruled };
    let resolver = Resolver { names, client: OWN };
    let dialer = Dialer { connector, resolver, time };
    health::within(time, async {
        match dialer.dial(&peer, &HopOptions::default()).await {
            Ok(mut stream) => health::probe(&mut stream, depot).await,
            Err(refusal) => refusal.into(),
        }
    })
    .await
}
