// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections whose first SYN is held.

use super::packet::Syn;
use relay::tcp::{Stream, info::reset_on_close};
use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::oneshot;

/// Maximum number of held connections, and of those of one client. A client sends a SYN that was not taken again, 1 s
/// later. Sources of SYNs can be forged, so each held connection costs little, and a session only within these bounds.
const MOST: usize = 4096;
const MOST_OF_CLIENT: usize = 512;

/// Client and server.
type Ends = (SocketAddr, SocketAddr);

#[derive(Debug, Default)]
struct State {
    held: HashMap<Ends, oneshot::Sender<Stream>>,
    by_client: HashMap<IpAddr, usize>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct HeldConnections(Mutex<State>);

/// One of them, until this is dropped.
pub(super) struct Held {
    all: Arc<HeldConnections>,
    ends: Ends,
    /// The client's connection, once the listener has accepted it.
    pub accepted: oneshot::Receiver<Stream>,
}

impl HeldConnections {
    /// Holds a connection. `None`: it is held already, or there are too many.
    pub(super) fn hold(self: &Arc<Self>, syn: &Syn) -> Option<Held> {
        let ends = (syn.client, syn.server);
        let mut state = self.state();
        let of_client = state.by_client.get(&syn.client.ip()).copied().unwrap_or(0);
        if state.held.contains_key(&ends) || state.held.len() >= MOST || of_client >= MOST_OF_CLIENT
        {
            return None;
        }
        let (sender, accepted) = oneshot::channel();
        state.held.insert(ends, sender);
        state.by_client.insert(syn.client.ip(), of_client + 1);
        Some(Held { all: Arc::clone(self), ends, accepted })
    }

    /// Hands over a connection that was accepted. One that is not held is reset, as all are if this process ends.
    pub(super) fn accepted(&self, stream: Stream, server: SocketAddr) {
        reset_on_close(stream.tcp(), true);
        let ends = (stream.peer(), server);
        let sender = self.state().held.get_mut(&ends).map(|sender| {
            // What is left behind has no receiver.
            std::mem::replace(sender, oneshot::channel().0)
        });
        if let Some(sender) = sender {
            let _ = sender.send(stream);
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.state().held.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.all.state();
        state.held.remove(&self.ends);
        let client = self.ends.0.ip();
        if let Some(count) = state.by_client.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                state.by_client.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    fn syn(client: u8, port: u16) -> Syn {
        let ip = PacketBuilder::ipv4([192, 0, 2, client], [198, 51, 100, 1], 64);
        let mut packet = Vec::new();
        ip.tcp(port, 443, 1, 1000).syn().write(&mut packet, &[]).unwrap();
        Syn::parse(&packet).unwrap()
    }

    #[test]
    fn a_connection_is_held_once_and_clients_have_a_limit() {
        let all = Arc::new(HeldConnections::default());
        let first = all.hold(&syn(1, 1)).unwrap();
        assert!(all.hold(&syn(1, 1)).is_none(), "the client has sent its SYN again");
        drop(first);
        let mut held: Vec<_> =
            (0..MOST_OF_CLIENT).map(|port| all.hold(&syn(1, port as u16)).unwrap()).collect();
        assert!(all.hold(&syn(1, 9999)).is_none());
        let others = 2..=(MOST / MOST_OF_CLIENT) as u8;
        for client in others {
            held.extend(
                (0..MOST_OF_CLIENT).map(|port| all.hold(&syn(client, port as u16)).unwrap()),
            );
        }
        assert!(all.hold(&syn(200, 1)).is_none(), "all places are taken");
        held.truncate(10);
        assert!(all.hold(&syn(200, 1)).is_some());
        drop(held);
        assert!(all.state().held.is_empty() && all.state().by_client.is_empty());
    }
}
