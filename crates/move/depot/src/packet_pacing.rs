// SPDX-License-Identifier: GPL-2.0-or-later
//! Peers to whom packets are spaced below TCP, by what others have put in the kernel.
//!
//! That takes rights which a depot does not have, so it only looks: before it works with a configuration,
//! and from then on every second. [`Pacers`] says how things are; it belongs to the command, which knows
//! the kernel's programs.

use crate::config::{Config, PacingMethod};
use ipnet::IpNet;
use relay::tcp::info::SocketPacing;
use std::{
    fmt,
    net::IpAddr,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// Whether all packets to a network are spaced by that method where they leave this host; the text says why not.
pub type Pacers = Arc<dyn Fn(IpNet, PacingMethod) -> Result<(), String> + Send + Sync>;

/// Packets to a hop's peers are not spaced as its `pacing` says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("[[hop]] peer = \"{peer}\", pacing = \"{method}\": {why}")]
pub struct NotPaced {
    /// The hop.
    pub peer: IpNet,
    /// How they should be.
    pub method: PacingMethod,
    /// Why they are not, and what to do.
    pub why: String,
}

/// Those peers, as they are now.
pub(crate) struct Paced {
    ask: Pacers,
    peers: RwLock<Arc<[Peer]>>,
}

/// One network of them.
#[derive(Debug)]
pub(crate) struct Peer {
    pub net: IpNet,
    pub method: PacingMethod,
    in_force: AtomicBool,
}

/// Refuses a configuration that asks for what is not so.
pub(crate) fn check(config: &Config, ask: &Pacers) -> Result<(), NotPaced> {
    for (peer, method) in config.paced_below() {
        ask(peer, method).map_err(|why| NotPaced { peer, method, why })?;
    }
    Ok(())
}

impl Paced {
    /// Those of a configuration that was checked.
    pub(crate) fn new(config: &Config, ask: Pacers) -> Arc<Self> {
        Arc::new(Self { ask, peers: RwLock::new(peers(config)) })
    }

    /// Who says how things are.
    pub(crate) fn pacers(&self) -> &Pacers {
        &self.ask
    }

    /// From now on those of another one, which was checked.
    pub(crate) fn replace(&self, config: &Config) {
        *self.peers.write().unwrap_or_else(PoisonError::into_inner) = peers(config);
    }

    /// Looks whether they still are, and says so when that has changed.
    pub(crate) fn refresh(&self) {
        for peer in self.peers().iter() {
            let found = (self.ask)(peer.net, peer.method);
            if peer.in_force.swap(found.is_ok(), Relaxed) == found.is_ok() {
                continue;
            }
            let (net, pacing) = (peer.net.to_string(), peer.method.as_str());
            match found {
                Ok(()) => tracing::info!(peer = net, pacing, "packets are paced again"),
                Err(why) => {
                    tracing::warn!(peer = net, pacing, why, "packets are not paced any more");
                }
            }
        }
    }

    /// All of them.
    pub(crate) fn peers(&self) -> Arc<[Peer]> {
        Arc::clone(&self.peers.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// By what a connection's packets are spaced, in a word: below TCP, or by TCP, as its socket says.
    pub(crate) fn how(&self, peer: IpAddr, socket: SocketPacing) -> Option<&'static str> {
        let by_tcp = (socket != SocketPacing::Free).then_some("tcp");
        let peers = self.peers();
        if peers.is_empty() {
            return by_tcp;
        }
        let peer = peer.to_canonical();
        let found = peers.iter().find(|one| one.is_in_force() && one.net.contains(&peer));
        found.map(|one| one.method.as_str()).or(by_tcp)
    }
}

impl Peer {
    /// Whether pacing was in force at the last check.
    pub(crate) fn is_in_force(&self) -> bool {
        self.in_force.load(Relaxed)
    }
}

fn peers(config: &Config) -> Arc<[Peer]> {
    let peer = |(net, method)| Peer { net, method, in_force: true.into() };
    config.paced_below().into_iter().map(peer).collect()
}

impl fmt::Debug for Paced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paced").field("peers", &self.peers()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_pacing_is_checked_at_start_and_later() {
        let text = "[[hop]]\npeer = \"10.0.0.0/8\"\npacing = \"gap\"\n\
                    [[hop]]\npeer = \"192.0.2.1/32\"\npacing = \"tcp\"";
        let config = Config::from_toml(text, "x").unwrap();
        let is_so = Arc::new(AtomicBool::new(false));
        let ask: Pacers = Arc::new({
            let is_so = Arc::clone(&is_so);
            move |net, method| {
                assert_eq!((net.to_string().as_str(), method), ("10.0.0.0/8", PacingMethod::Gap));
                if is_so.load(Relaxed) { Ok(()) } else { Err("nothing is paced".to_owned()) }
            }
        });
        let refused = check(&config, &ask).unwrap_err().to_string();
        let expected = "[[hop]] peer = \"10.0.0.0/8\", pacing = \"gap\": nothing is paced";
        assert_eq!(refused, expected);
        is_so.store(true, Relaxed);
        check(&config, &ask).unwrap();

        let paced = Paced::new(&config, ask);
        let how = |peer: &str, socket| paced.how(peer.parse().unwrap(), socket);
        assert_eq!(how("10.1.2.3", SocketPacing::Free), Some("gap"));
        assert_eq!(how("::ffff:10.1.2.3", SocketPacing::Own), Some("gap"));
        assert_eq!(how("192.0.2.1", SocketPacing::Free), None, "that is a socket's");
        assert_eq!(how("192.0.2.1", SocketPacing::Own), Some("tcp"));
        for (now, expected) in [(false, None), (false, None), (true, Some("gap"))] {
            is_so.store(now, Relaxed);
            paced.refresh();
            assert_eq!(how("10.1.2.3", SocketPacing::Free), expected);
        }
        paced.replace(&Config::default());
        assert_eq!(how("10.1.2.3", SocketPacing::Free), None);
    }
}
