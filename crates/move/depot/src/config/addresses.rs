// SPDX-License-Identifier: GPL-2.0-or-later
//! Addresses of this host: those that the depot listens on, and those that its connections leave by.

use crate::config::{Config, ConfigError, PeerOptions};
use std::net::{IpAddr, SocketAddr};

impl Config {
    /// # Errors
    /// Two listeners have one address.
    pub(super) fn check_listeners(&self) -> Result<(), ConfigError> {
        let mut taken: Vec<(&'static str, SocketAddr)> = Vec::new();
        for (setting, address) in self.listeners() {
            let other = taken.iter().find(|(_, other)| *other == address).copied();
            // With port 0 the system chooses one that is free.
            if let Some((other, _)) = other.filter(|_| address.port() != 0) {
                return Err(ConfigError::ListenTwice { setting, other, address });
            }
            taken.push((setting, address));
        }
        Ok(())
    }

    /// The addresses for clients and operators, with the settings that name them; not those of `[[tcp]]`.
    pub(super) fn listeners(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        let plain = self.listen.iter().map(|address| ("listen", *address));
        let secured = self.tls.listen.iter().map(|address| ("tls.listen", *address));
        plain.chain(secured).chain(self.admin.listen.map(|address| ("admin.listen", address)))
    }

    /// # Errors
    /// An address that connections cannot leave by, or more than one for a family.
    pub(super) fn check_sources(&self) -> Result<(), ConfigError> {
        for (n, source) in self.source.iter().enumerate() {
            check_source("source", *source)?;
            if self.source[..n].iter().any(|other| other.is_ipv4() == source.is_ipv4()) {
                return Err(ConfigError::SourceTwice(*source));
            }
        }
        for (n, hop) in self.hops.iter().enumerate() {
            let Some(source) = hop.source else { continue };
            let wrong = |error| Err(ConfigError::in_table("hop", n, "source", error));
            if let Err(error) = check_source("hop.source", source) {
                return wrong(error);
            }
            if source.is_ipv4() != hop.peer.addr().is_ipv4() {
                return wrong(ConfigError::SourceFamily { peer: hop.peer, address: source });
            }
        }
        Ok(())
    }

    /// The source address of connections to `peer`: the hop's, or the depot's. If the configuration has one of
    /// the other family only, it is that one, so that the connection fails: the depot never uses a source
    /// address that the operator has not chosen.
    pub(super) fn source_towards(&self, peer: IpAddr, hop: Option<&PeerOptions>) -> Option<IpAddr> {
        let peer = peer.to_canonical();
        let of_all = || {
            let same = self.source.iter().find(|source| source.is_ipv4() == peer.is_ipv4());
            same.or(self.source.first()).copied()
        };
        hop.and_then(|hop| hop.source).or_else(of_all)
    }

    /// All addresses that connections are to leave by, with the settings that name them.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (String, IpAddr)> {
        let of_all = self.source.iter().map(|source| ("`source`".to_owned(), *source));
        let of_hop = |hop: &PeerOptions| {
            Some((format!("[[hop]] peer = \"{}\": `source`", hop.peer), hop.source?))
        };
        of_all.chain(self.hops.iter().filter_map(of_hop))
    }
}

fn check_source(key: &'static str, source: IpAddr) -> Result<(), ConfigError> {
    let is_one = !source.is_unspecified()
        && !source.is_multicast()
        && source == source.to_canonical()
        && source != IpAddr::from([255; 4]);
    let expected = "one address of this host, as in 192.0.2.1 or 2001:db8::1";
    if is_one { Ok(()) } else { Err(ConfigError::range(key, &source, expected)) }
}
