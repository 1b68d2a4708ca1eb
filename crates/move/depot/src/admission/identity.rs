// SPDX-License-Identifier: GPL-2.0-or-later
//! The names of this depot. A ticket opens only the depots that it names.
//!
//! They are the names that the configuration lists, and every name that resolves to the address of a listener
//! (any address of this host, if the listener is bound to the unspecified address). A depot behind NAT or
//! redirected ports does not see the addresses that clients use, and needs `names`.

use crate::{admission::address_class, config::Config, idle_pool::peer_of};
use http::StatusCode;
use protocol::{
    Authority, DepotAddress, Host, Scheme,
    http::{Fault, ProxyError},
};
use relay::dial::Resolver;
use std::{
    collections::HashMap,
    fmt::Display,
    net::{IpAddr, SocketAddr},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// How long the result of a name's check is cached.
const KNOWN: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(5)];
/// How many names are known at a time. Only what a trusted key has signed is looked up.
const MOST_KNOWN: usize = 256;

/// What a depot is.
#[derive(Debug)]
pub(crate) struct Identity {
    listeners: Vec<(SocketAddr, Scheme)>,
    known: Mutex<HashMap<DepotAddress, (bool, Instant)>>,
}

impl Identity {
    /// That of a depot with these listeners for clients.
    pub(crate) fn new(listeners: Vec<(SocketAddr, Scheme)>) -> Self {
        Self { listeners, known: Mutex::default() }
    }

    /// Whether `depot` names this depot for a client that came by `scheme`. A name in the configuration may
    /// belong to a proxy in front of this depot that terminates TLS.
    ///
    /// # Errors
    ///
    /// The fault (503) says why the depot cannot tell.
    pub(crate) async fn is(
        &self,
        depot: &DepotAddress,
        scheme: Scheme,
        config: &Config,
        resolver: Resolver<'_>,
    ) -> Result<bool, Fault> {
        if config.names.contains(depot) {
            return Ok(true);
        }
        if depot.scheme != scheme {
            return Ok(false);
        }
        if let Some(known) = self.known(depot) {
            return Ok(known);
        }
        let cannot_tell = |why: &dyn Display| {
            cannot_tell(&format_args!("whether {depot} is a name of this depot: {why}"))
        };
        let deadline = Instant::now() + Duration::from(config.timeouts.connect);
        let looked_up =
            resolver.addresses(&peer_of(&depot.authority, depot.scheme), deadline).await;
        let addresses = looked_up.map_err(|fault| cannot_tell(&fault))?;
        let (mut is, mut of_one_host) = (false, false);
        for address in addresses {
            // Every host calls itself so.
            let loopback = address.ip().to_canonical().is_loopback();
            of_one_host |= loopback;
            if loopback && !resolver.client.is_loopback() {
                continue;
            }
            is |= self.listens_at(depot.scheme, address).map_err(|errno| cannot_tell(&errno))?;
        }
        if !of_one_host {
            self.learn(depot, is);
        }
        Ok(is)
    }

    /// Whether a server is this depot, as far as that shows without looking names up.
    ///
    /// The fault (503) says why the depot cannot tell.
    pub(crate) fn is_server(&self, server: &Authority, config: &Config) -> Result<bool, Fault> {
        if config.names.iter().any(|name| name.authority == *server) {
            return Ok(true);
        }
        let Host::Ip(ip) = server.host else { return Ok(false) };
        for scheme in [Scheme::Http, Scheme::Https] {
            let here = self.listens_at(scheme, SocketAddr::new(ip, server.port));
            let cannot = |errno| cannot_tell(&format_args!("whether {server} is here: {errno}"));
            if here.map_err(cannot)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn listens_at(&self, scheme: Scheme, at: SocketAddr) -> Result<bool, rustix::io::Errno> {
        let ip = at.ip().to_canonical();
        let here =
            self.listeners.iter().filter(|(own, of)| own.port() == at.port() && *of == scheme);
        let mut on_all = false;
        for (own, _) in here {
            if own.ip().to_canonical() == ip {
                return Ok(true);
            }
            on_all |= own.ip().is_unspecified();
        }
        Ok(on_all && (ip.is_loopback() || address_class::is_own(ip)?))
    }

    /// What was found out not long ago; addresses need not be found out.
    fn known(&self, depot: &DepotAddress) -> Option<bool> {
        let (is, when) = *self.all_known().get(depot)?;
        (when.elapsed() < KNOWN[usize::from(!is)]).then_some(is)
    }

    fn learn(&self, depot: &DepotAddress, is: bool) {
        let mut known = self.all_known();
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        if matches!(depot.authority.host, Host::Name(_)) {
            known.insert(depot.clone(), (is, Instant::now()));
        }
    }

    /// Nothing is left half changed, so a panic elsewhere does not spoil it.
    fn all_known(&self) -> MutexGuard<'_, HashMap<DepotAddress, (bool, Instant)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn cannot_tell(what: &dyn Display) -> Fault {
    let (status, error) = (StatusCode::SERVICE_UNAVAILABLE, ProxyError::ProxyInternalError);
    Fault::new(status, error, format!("cannot tell {what}"))
}

/// Whether a depot that is asked for by this address, or name, has this IP address.
///
/// The fault (503) says why the depot cannot tell.
pub(crate) async fn has_address(
    depot: &DepotAddress,
    ip: IpAddr,
    config: &Config,
    resolver: Resolver<'_>,
) -> Result<bool, Fault> {
    let deadline = Instant::now() + Duration::from(config.timeouts.connect);
    let found = resolver.addresses(&peer_of(&depot.authority, depot.scheme), deadline).await;
    let all = found.map_err(|why| cannot_tell(&format_args!("the addresses of {depot}: {why}")))?;
    Ok(all.iter().any(|address| address.ip().to_canonical() == ip))
}

#[cfg(test)]
mod tests {
    use super::*;
    use relay::dial::Names;

    #[tokio::test]
    async fn depot_recognizes_its_own_names() {
        let listeners = [("127.0.0.1:3880", Scheme::Http), ("0.0.0.0:443", Scheme::Https)];
        let listeners = listeners.map(|(at, scheme)| (at.parse().unwrap(), scheme));
        let identity = Identity::new(listeners.into());
        let config =
            Config::from_toml("names = [\"depot1.example.net\", \"https:d1\"]", "x").unwrap();
        let names = Names::default();
        let resolver = Resolver { names: &names, client: "127.0.0.1".parse().unwrap() };
        for (depot, expected) in [
            ("127.0.0.1", true),
            ("127.0.0.1:3880", true),
            ("[::ffff:127.0.0.1]", true),
            ("localhost", true),
            ("LOCALHOST", true),
            // Another one, by its address, port, or what is spoken there.
            ("127.0.0.2", false),
            ("127.0.0.1:3881", false),
            ("https:127.0.0.1:3880", false),
            ("192.0.2.1", false),
            // Where it listens on all addresses.
            ("https:127.0.0.2", true),
            ("https:localhost", true),
            ("https:192.0.2.1", false),
            ("127.0.0.1:443", false),
            // What the configuration says.
            ("depot1.example.net", true),
            ("Depot1.Example.Net:3880", true),
            ("https:d1:443", true),
        ] {
            let depot: DepotAddress = depot.parse().unwrap();
            let is = identity.is(&depot, depot.scheme, &config, resolver).await;
            assert_eq!(is, Ok(expected), "{depot}");
            // A listener without TLS is not a TLS depot unless the configuration names it as one.
            let other = if depot.scheme == Scheme::Http { Scheme::Https } else { Scheme::Http };
            let is = identity.is(&depot, other, &config, resolver).await;
            assert_eq!(is, Ok(config.names.contains(&depot)), "{depot} by {other}");
            // To others, what leads to this host's loopback is another one.
            let far = Resolver { client: "192.0.2.9".parse().unwrap(), ..resolver };
            let is = identity.is(&depot, depot.scheme, &config, far).await;
            assert_eq!(is, Ok(config.names.contains(&depot)), "{depot} from afar");
        }
    }
}
