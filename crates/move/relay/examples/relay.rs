// SPDX-License-Identifier: GPL-2.0-or-later
//! A plain TCP relay: `relay LISTEN HOST PORT [CONGESTION_CONTROL]`.
//!
//! It copies both ways between each client and HOST:PORT, and uses the congestion control on that hop.
//! At Ctrl-C it accepts no more clients, and ends when those it has are done.

use bytes::BytesMut;
use longhaul_relay::{
    copy::{CopyMode, IdleTimeouts, Progress, RelayResources, copy_to_end, pipe::Pipes},
    dial::{Connector, Dialer, Names, PeerAddr, Resolver},
    tcp::{
        Stream, congestion::Overruled, info::reset_on_close, socket_options::HopOptions,
        tls_files::client_config,
    },
};
use std::{env, error::Error, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{net::TcpListener, signal::ctrl_c, task::JoinSet};

type Failure = Box<dyn Error + Send + Sync>;

struct Relay {
    peer: PeerAddr,
    congestion: Option<String>,
    names: Names,
    overruled: Overruled,
    resources: RelayResources,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [listen, host, port, more @ ..] = &args[..] else {
        return Err("usage: relay LISTEN HOST PORT [CONGESTION_CONTROL]".into());
    };
    let relay = Arc::new(Relay {
        peer: PeerAddr::new(host, port.parse()?, false),
        congestion: more.first().cloned(),
        names: Names::default(),
        overruled: Overruled::default(),
        resources: RelayResources { mode: CopyMode::Splice, pipes: Pipes::new(1 << 20, 1 << 30) },
    });
    let (listener, mut clients) = (TcpListener::bind(listen).await?, JoinSet::new());
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (tcp, from) = tokio::select! {
            accepted = listener.accept() => accepted?,
            Some(_) = clients.join_next() => continue,
            _ = ctrl_c() => break,
        };
        let relay = Arc::clone(&relay);
        clients.spawn(async move {
            let served = relay.serve(Stream::new(tcp, from), from).await;
            served.unwrap_or_else(|error| eprintln!("{from}: {error}"));
        });
    }
    drop(listener);
    clients.join_all().await;
    Ok(())
}

impl Relay {
    async fn serve(&self, mut client: Stream, from: SocketAddr) -> Result<(), Failure> {
        let tls = || Arc::new(client_config(&[]).expect("the system's roots"));
        let connector = Connector { tls: &tls, overruled: &self.overruled };
        let resolver = Resolver { names: &self.names, client: from.ip() };
        let dialer = Dialer { connector, resolver, time: Duration::from_secs(10) };
        let options =
            HopOptions { congestion: self.congestion.as_deref(), ..HopOptions::default() };
        let mut upstream = dialer.dial(&self.peer, &options).await?;
        let ((mut from_client, mut to_client), (mut from_peer, mut to_peer)) =
            (client.split(), upstream.split());
        let idle = IdleTimeouts::default();
        let resources = &self.resources;
        let (none, [sent, received]) = (BytesMut::new, [(); 2].map(|()| Progress::default()));
        let up = copy_to_end(&mut from_client, none(), &mut to_peer, resources, idle, &sent);
        let down = copy_to_end(&mut from_peer, none(), &mut to_client, resources, idle, &received);
        tokio::try_join!(up, down)?;
        // Until here a close would have been a reset: both directions have ended in good order.
        reset_on_close(upstream.tcp(), false);
        Ok(())
    }
}
