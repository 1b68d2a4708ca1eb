// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections whose first SYN is held.

use super::packet::Syn;
use crate::shares::{Share, Shares};
use relay::{
    client_key::host_key,
    tcp::{Stream, info::reset_on_close},
};
use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::oneshot;

/// Maximum number of held connections. A client sends a SYN that was not taken again, 1 s later. Sources of SYNs can be
/// forged, so each held connection costs little, and a session only within these bounds.
const MOST: usize = 1024;
/// Of one client (an IPv4 address, an IPv6 /64), and to one server's address: a quarter of the connections that a depot
/// serves of one client, which to it is this host. Neither a client nor an address that stays silent takes them all.
const MOST_OF_CLIENT: usize = 64;
const MOST_TO_SERVER: usize = 64;

/// Client and server.
type Ends = (SocketAddr, SocketAddr);

/// All of them.
#[derive(Debug)]
pub(super) struct HeldConnections {
    held: Mutex<HashMap<Ends, oneshot::Sender<Stream>>>,
    of_client: Arc<Shares<IpAddr>>,
    to_server: Arc<Shares<IpAddr>>,
}

impl Default for HeldConnections {
    fn default() -> Self {
        let (of_client, to_server) = (Shares::new(MOST_OF_CLIENT), Shares::new(MOST_TO_SERVER));
        Self { held: Mutex::default(), of_client, to_server }
    }
}

/// One of them, until this is dropped.
pub(super) struct Held {
    all: Arc<HeldConnections>,
    ends: Ends,
    _shares: [Share<IpAddr>; 2],
    /// The client's connection, once the listener has accepted it.
    pub accepted: oneshot::Receiver<Stream>,
}

impl HeldConnections {
    /// Holds a connection. `None`: it is held already, or there are too many.
    pub(super) fn hold(self: &Arc<Self>, syn: &Syn) -> Option<Held> {
        let ends = (syn.client, syn.server);
        let mut held = self.held();
        if held.contains_key(&ends) || held.len() >= MOST {
            return None;
        }
        let of_client = self.of_client.take(host_key(syn.client.ip()))?;
        let to_server = self.to_server.take(syn.server.ip())?;
        let (sender, accepted) = oneshot::channel();
        held.insert(ends, sender);
        Some(Held { all: Arc::clone(self), ends, _shares: [of_client, to_server], accepted })
    }

    /// Hands over a connection that was accepted. One that is not held is reset, as all are if this process ends.
    pub(super) fn accepted(&self, stream: Stream, server: SocketAddr) {
        reset_on_close(stream.tcp(), true);
        let ends = (stream.peer(), server);
        let sender = self.held().get_mut(&ends).map(|sender| {
            // What is left behind has no receiver.
            std::mem::replace(sender, oneshot::channel().0)
        });
        if let Some(sender) = sender {
            let _ = sender.send(stream);
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.held().len()
    }

    fn held(&self) -> MutexGuard<'_, HashMap<Ends, oneshot::Sender<Stream>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.held().remove(&self.ends);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    fn syn(client: IpAddr, port: u16, server: IpAddr) -> Syn {
        let ip = match (client, server) {
            (IpAddr::V4(client), IpAddr::V4(server)) => {
                PacketBuilder::ipv4(client.octets(), server.octets(), 64)
            }
            (IpAddr::V6(client), IpAddr::V6(server)) => {
                PacketBuilder::ipv6(client.octets(), server.octets(), 64)
            }
            _ => panic!("of one family"),
        };
        let mut packet = Vec::new();
        ip.tcp(port, 443, 1, 1000).syn().write(&mut packet, &[]).unwrap();
        Syn::parse(&packet).unwrap()
    }

    fn v4(client: u8, port: u16, server: u8) -> Syn {
        syn([192, 0, 2, client].into(), port, [198, 51, 100, server].into())
    }

    /// How many of these are held, at the same time.
    fn held(all: &Arc<HeldConnections>, syns: impl Iterator<Item = Syn>) -> Vec<Held> {
        syns.filter_map(|syn| all.hold(&syn)).collect()
    }

    #[test]
    fn connection_is_held_once() {
        let all = Arc::new(HeldConnections::default());
        let first = all.hold(&v4(1, 1, 1)).unwrap();
        assert!(all.hold(&v4(1, 1, 1)).is_none(), "the client has sent its SYN again");
        assert!(all.hold(&v4(1, 1, 2)).is_some());
        drop(first);
        assert!(all.hold(&v4(1, 1, 1)).is_some());
        assert_eq!((all.count(), all.of_client.keys(), all.to_server.keys()), (0, 0, 0));
    }

    #[test]
    fn clients_and_servers_have_shares_of_held_connections() {
        let all = Arc::new(HeldConnections::default());
        // One client to a silent address, and to many.
        let to_one = held(&all, (0..1000).map(|port| v4(1, port, 1)));
        assert_eq!(to_one.len(), MOST_OF_CLIENT);
        assert!(all.hold(&v4(1, 1, 2)).is_none(), "the client has its share");
        assert!(all.hold(&v4(2, 1, 1)).is_none(), "and so has the server");
        assert!(all.hold(&v4(2, 1, 2)).is_some(), "others have theirs");
        drop(to_one);
        let to_many = held(&all, (0..200).map(|server| v4(1, 1, server)));
        assert_eq!(to_many.len(), MOST_OF_CLIENT);
        drop(to_many);
        // Forged sources, within an IPv6 /64 and elsewhere.
        let v6 = |text: String| text.parse::<IpAddr>().unwrap();
        let server = |n: u16| v6(format!("2001:db8:7::{n:x}"));
        let in_64 = (0..500).map(|n| syn(v6(format!("2001:db8::{n:x}")), 1, server(n)));
        assert_eq!(held(&all, in_64).len(), MOST_OF_CLIENT);
        let anywhere = (0..500).map(|n| syn(v6(format!("2001:db8:{n:x}::1")), 1, server(1)));
        assert_eq!(held(&all, anywhere).len(), MOST_TO_SERVER);
        let all_over = (0..5000).map(|n| syn(v6(format!("2001:db8:{n:x}::1")), 1, server(n)));
        let all_over = held(&all, all_over);
        assert_eq!(all_over.len(), MOST, "all places are taken");
        drop(all_over);
        assert_eq!((all.count(), all.of_client.keys(), all.to_server.keys()), (0, 0, 0));
    }
}
