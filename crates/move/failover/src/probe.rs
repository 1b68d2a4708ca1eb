// SPDX-License-Identifier: GPL-2.0-or-later
//! Connecting to depots, to ask whether they are up.

use crate::forecast::Answered;
use health::Finding;
use protocol::{DepotAddress, Scheme};
use relay::{
    dial::{Connector, Dialer, Names, PeerAddr, Resolver, resolver::OWN},
    tcp::{congestion::Overruled, info::tcp_info, socket_options::HopOptions, tls::ClientConfig},
};
use std::{sync::Arc, time::Duration};

/// What a depot says to this host within a time, and how it has answered.
pub(super) async fn ask(
    depot: &DepotAddress,
    tls: Arc<ClientConfig>,
    names: &Names,
    time: Duration,
) -> (Finding, Answered) {
    let (authority, is_tls) = (&depot.authority, depot.scheme == Scheme::Https);
    let peer = PeerAddr::new(&authority.host.to_string(), authority.port, is_tls);
    let (tls, overruled) = (|| Arc::clone(&tls), Overruled::default());
    let connector = Connector { tls: &tls, overruled: &overruled };
    let resolver = Resolver { names, client: OWN };
    let dialer = Dialer { connector, resolver, time };
    let mut answered = Answered::default();
    let asked = async {
        match dialer.dial(&peer, &HopOptions::default()).await {
            Ok(mut stream) => {
                let (finding, load) = health::probe(&mut stream, depot).await;
                let rtt_us = tcp_info(stream.tcp()).ok().and_then(|info| info.min_rtt_us);
                let rtt_s = rtt_us.map(|rtt_us| f64::from(rtt_us) / 1e6);
                answered = Answered { rtt_s, load };
                finding
            }
            Err(refusal) => refusal.into(),
        }
    };
    let finding = health::within(time, asked).await;
    (finding, answered)
}
