// SPDX-License-Identifier: GPL-2.0-or-later
//! `[[site]]`: an origin under a name of its own.

use super::{
    Config, ConfigError, network,
    site_names::{SiteHost, SiteName, SiteOrigin},
};
use ipnet::IpNet;
use protocol::{
    Authority, DepotAddress, Host, MAX_DEPOTS, Scheme,
    http::{Method, RequestHead},
};
use serde::{Deserialize, Serialize};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::PathBuf,
};

/// An origin that the depot answers for under the origin's own name, as a reverse proxy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// The name that clients use, in `Host` and in TLS.
    pub name: SiteName,
    /// The site's origin server.
    pub origin: SiteOrigin,
    /// The depots on the way there, the one nearest to this one first.
    #[serde(default)]
    pub via: Vec<DepotAddress>,
    /// The `Host` that the origin gets. `None`: the client's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<SiteHost>,
    /// The clients that it serves.
    #[serde(default = "Site::everybody", deserialize_with = "network::list")]
    pub clients: Vec<IpNet>,
    /// The methods that they may use.
    #[serde(default = "Site::all_methods")]
    pub methods: Vec<Method>,
    /// The site's certificate chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// Its private key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
}

impl Site {
    fn everybody() -> Vec<IpNet> {
        let all: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        all.map(|ip| IpNet::new(ip, 0).expect("0 bits fit")).into()
    }

    fn all_methods() -> Vec<Method> {
        Method::ALL.into()
    }

    /// Whether this client may use the site.
    pub(crate) fn admits(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        self.clients.iter().any(|net| net.contains(&client))
    }

    /// The depot or origin that its requests go to.
    pub(crate) fn first_hop(&self) -> &Authority {
        self.via.first().map_or_else(|| self.origin.authority(), |depot| &depot.authority)
    }

    /// Whether requests for it go to this depot or origin.
    fn leads_to(&self, next: &Authority) -> bool {
        self.via.iter().any(|depot| depot.authority == *next) || self.origin.authority() == next
    }
}

impl Config {
    /// The site that a request is for, if any. The port does not matter.
    pub(crate) fn site_of(&self, request: &RequestHead) -> Option<&Site> {
        if self.sites.is_empty() {
            return None;
        }
        let asked = Authority::parse(request.asked_authority()?, Some(80)).ok()?;
        self.sites.iter().find(|site| asked.host == Host::Name(site.name.as_str().to_owned()))
    }

    /// Whether requests for a site go to this next hop.
    pub(crate) fn is_of_site(&self, next: &Authority) -> bool {
        self.sites.iter().any(|site| site.leads_to(next))
    }

    /// Whether a site serves clients of this address without a ticket.
    pub(crate) fn lets_in(&self, client: IpAddr) -> bool {
        self.allow.client(client) || self.sites.iter().any(|site| site.admits(client))
    }

    /// # Errors
    /// Two sites have one name, a site loops back here, or a site cannot be served over TLS.
    pub(super) fn check_sites(&self) -> Result<(), ConfigError> {
        for (n, site) in self.sites.iter().enumerate() {
            let wrong = |key, error| Err(ConfigError::in_table("site", n, key, error));
            let name = &site.name;
            if self.sites[..n].iter().any(|other| other.name == *name) {
                return wrong("name", ConfigError::SiteTwice(name.clone()));
            }
            if self
                .names
                .iter()
                .any(|own| own.authority.host == Host::Name(name.as_str().to_owned()))
            {
                return wrong("name", ConfigError::SiteIsDepot(name.clone()));
            }
            if site.via.len() >= MAX_DEPOTS {
                let expected = "at most 15 depots";
                return wrong("via", ConfigError::range("via", &site.via.len(), expected));
            }
            let origin = DepotAddress {
                scheme: site.origin.scheme(),
                authority: site.origin.authority().clone(),
            };
            let stops = site.via.iter().map(|depot| ("via", depot)).chain([("origin", &origin)]);
            let mut before: Vec<&DepotAddress> = Vec::new();
            for (key, stop) in stops {
                if before.contains(&stop) || self.is_here(stop) {
                    let (site, at) = (name.clone(), stop.authority.clone());
                    return wrong(key, ConfigError::SiteLoop { site, at });
                }
                before.push(stop);
            }
            match (&site.certificate, &site.key, self.tls.listen.is_empty()) {
                (Some(_), Some(_), false) | (None, None, true) => {}
                (Some(_), None, _) => {
                    return wrong("certificate", ConfigError::SiteKey(name.clone()));
                }
                (None, Some(_), _) => return wrong("key", ConfigError::SiteKey(name.clone())),
                (None, None, false) => {
                    return wrong("name", ConfigError::SiteCertificate(name.clone()));
                }
                (Some(_), Some(_), true) => {
                    return wrong("certificate", ConfigError::SiteListener(name.clone()));
                }
            }
        }
        Ok(())
    }

    /// Whether the configuration shows that a next hop is this depot itself. If only DNS shows it, looping
    /// requests are refused ([`protocol::message`], 508).
    fn is_here(&self, next: &DepotAddress) -> bool {
        let Authority { host, port } = &next.authority;
        let listen = match next.scheme {
            Scheme::Http => &self.listen,
            Scheme::Https => &self.tls.listen,
        };
        let listens = |ip: IpAddr| {
            let ip = ip.to_canonical();
            let at = |own: IpAddr| own == ip || (own.is_unspecified() && ip.is_loopback());
            listen.iter().any(|own| own.port() == *port && at(own.ip().to_canonical()))
        };
        match host {
            Host::Ip(ip) => listens(*ip),
            // The listener of the site's own port receives its requests. Another port may be the origin's.
            Host::Name(name) => {
                let is_site = self.sites.iter().any(|site| site.name.as_str() == name.as_str());
                let listens = listen.iter().any(|own| own.port() == *port);
                self.names.contains(next) || (is_site && listens)
            }
        }
    }
}
