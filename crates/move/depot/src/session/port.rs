// SPDX-License-Identifier: GPL-2.0-or-later
//! `[[tcp]]`: plain connections that the depot takes through other depots to one server. For each the depot
//! opens a session, as an initiator.

use crate::{
    admission::limits::ConnectionSlot,
    client::Client,
    config::Tcp,
    hop_sockets,
    session::{plan::random_id, serve::open_for},
    state::{RequestContext, Shared},
    tls::Protocol,
};
use bytes::BytesMut;
use protocol::session::{Hop, Open, Target};
use relay::tcp::{Stream, info::reset_on_close};
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// Serves one plain connection to its end.
pub(crate) async fn serve(
    (tcp, peer): (TcpStream, SocketAddr),
    slot: ConnectionSlot,
    table: &Tcp,
    shared: &Shared,
) {
    // A failure must reset the connection, even if this process is killed.
    reset_on_close(&tcp, true);
    let mut client = Client::new(Stream::new(tcp, peer), BytesMut::new());
    client.protocol = Protocol::Tcp;
    client.slot = Some(slot);
    let settings = shared.settings();
    let context = RequestContext::new(shared, &settings);
    let tcp = client.stream.tcp();
    let set_up = hop_sockets::accepted(tcp, peer.ip(), &settings.config, &settings.overruled);
    let id = match set_up.and_then(|()| random_id()) {
        Ok(id) => id,
        Err(error) => {
            tracing::warn!(client = %peer, %error, "cannot set up a client's connection");
            return;
        }
    };
    let hops = table.via.iter().cloned().map(Hop::from).collect();
    let target =
        Target::Tcp { server: table.upstream.clone(), proxy_protocol: table.proxy_protocol };
    open_for(client, Open::new(id, hops, target), context).await;
}
