// SPDX-License-Identifier: GPL-2.0-or-later
//! A depot's configuration, as in its TOML file. `docs/depot/configuration.md` explains each key.

use crate::admission::verdict::{Grant, Verdict};
use ipnet::IpNet;
use protocol::{Authority, DEPOT_PORT, DepotAddress, DepotId};
use relay::{copy::MinimumRate, tcp::socket_options::HopOptions};
use serde::{Deserialize, Serialize};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
};
use units::{Bytes, Duration};

pub use admin::Admin;
pub use allow::Allow;
pub use control::Control;
pub use detour::{Detour, DetourCheck, DetourOrder};
pub use digest::DigestMode;
pub use error::ConfigError;
pub use hop::{Buffers, PeerOptions};
pub use idle_connections::IdleConnections;
pub use limits::{LeastRate, Limits};
pub use log::{AccessTo, Log, LogFormat};
pub use network::parse_network;
pub use pacing::{HopPacing, PacingMethod};
pub use proxy::Proxy;
pub use register::Register;
pub use relay::copy::CopyMode;
pub use sessions::Sessions;
pub use siblings::Siblings;
pub use site::Site;
pub use site_names::{SiteError, SiteHost, SiteName, SiteOrigin};
pub use stall::Stall;
pub use store::Store;
pub use tcp::Tcp;
pub(crate) use timeouts::DepotsAround;
pub use timeouts::Timeouts;
pub use tls::TlsFiles;
pub use trust::TrustFiles;
pub use upstream_rule::{UpstreamRule, UpstreamRuleError};

use range::check_time;

/// What waits in the kernel on each of several connections, until its rate is known.
const UNSENT_ON_EACH: Bytes = Bytes::new(128 << 10);

mod addresses;
mod admin;
mod allow;
mod control;
mod detour;
mod digest;
mod error;
mod files;
mod hop;
mod idle_connections;
mod limits;
mod log;
mod network;
mod paced_below;
mod pacing;
mod proxy;
mod range;
mod register;
mod sessions;
mod siblings;
mod site;
mod site_names;
mod stall;
mod store;
mod tcp;
mod timeouts;
mod tls;
mod trust;
mod upstream_rule;

#[cfg(test)]
mod tests;

/// All settings. The default listens on port 3880 and serves no client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The depot's name in `Via`. `None` makes one of the host's name and the port. Depots of one chain need
    /// different names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Addresses to listen on.
    pub listen: Vec<SocketAddr>,
    /// Names of the depot in tickets, in addition to its listening addresses.
    pub names: Vec<DepotAddress>,
    /// The Unix socket where a successor asks for the listeners.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handover: Option<PathBuf>,
    /// Source addresses of connections to next hops, at most one of each family. Empty: the kernel chooses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub source: Vec<IpAddr>,
    /// Number of threads. 0: one per processor.
    pub threads: usize,
    /// How bodies are copied.
    pub copy: CopyMode,
    /// Which bodies are hashed in transit.
    pub digest: DigestMode,
    /// Which clients the depot serves, and which next hops it connects to.
    pub allow: Allow,
    /// Whose tickets it accepts.
    pub trust: TrustFiles,
    /// TLS, towards clients and next hops.
    pub tls: TlsFiles,
    /// How long it waits for peers.
    pub timeouts: Timeouts,
    /// Limits on connections, clients and memory.
    pub limits: Limits,
    /// Which idle connections to next hops it keeps.
    pub idle_connections: IdleConnections,
    /// The listener for operators.
    pub admin: Admin,
    /// How operators control running transfers.
    pub control: Control,
    /// Destination and format of the access log.
    pub log: Log,
    /// Announcements between depots; `None` for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub register: Option<Register>,
    /// Sibling depots that share the load.
    pub siblings: Siblings,
    /// When a next hop is too slow.
    pub stall: Stall,
    /// Settings of sessions.
    pub session: Sessions,
    /// Its use as an HTTP proxy; `None` refuses that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,
    /// Where it keeps sessions; `None` keeps none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<Store>,
    /// Routes around depots that fail.
    #[serde(rename = "detour", skip_serializing_if = "Vec::is_empty")]
    pub detours: Vec<Detour>,
    /// Socket settings by peer.
    #[serde(rename = "hop", skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<PeerOptions>,
    /// Origins served under names of their own.
    #[serde(rename = "site", skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<Site>,
    /// Ports that are relayed to one server each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tcp: Vec<Tcp>,
}

impl Config {
    /// Parses a configuration file's text. `file` is its name, for the message.
    ///
    /// # Errors
    /// [`ConfigError::Toml`], or what [`check`](Self::check) finds.
    pub fn from_toml(text: &str, file: &str) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text)
            .map_err(|error| ConfigError::Toml { file: file.to_owned(), error: Box::new(error) })?;
        config.check().map_err(|error| error.located(text, file))?;
        Ok(config)
    }

    /// The configuration as TOML text that parses to the same value.
    pub fn to_toml(&self) -> String {
        // Every value here has a form in TOML; a test prints and reads them all.
        toml::to_string(self).expect("a configuration is TOML")
    }

    /// Checks the conditions that types alone cannot express.
    ///
    /// # Errors
    /// The first error found.
    pub fn check(&self) -> Result<(), ConfigError> {
        if let Some(id) = &self.id {
            id.parse::<DepotId>()?;
        }
        if self.listen.is_empty() && self.tls.listen.is_empty() {
            return Err(ConfigError::NoListener);
        }
        let (certificate, key) = (self.tls.certificate.is_some(), self.tls.key.is_some());
        if certificate != key {
            return Err(ConfigError::NoCertificate);
        }
        if !self.shows_certificate() && !self.tls.listen.is_empty() {
            // If there are sites, one of them is what lacks a certificate.
            self.check_sites()?;
            return Err(ConfigError::NoCertificate);
        }
        let peers: Vec<IpNet> = self.hops.iter().map(|hop| hop.peer.trunc()).collect();
        if let Some(i) = (1..peers.len()).find(|i| peers[..*i].contains(&peers[*i])) {
            return Err(ConfigError::HopTwice(peers[i]));
        }
        if self.threads > 1024 {
            return Err(ConfigError::range("threads", &self.threads, "0 to 1024"));
        }
        self.check_listeners()?;
        self.check_sources()?;
        self.timeouts.check()?;
        check_time("stall.time", self.stall.time)?;
        check_time("siblings.every", self.siblings.every)?;
        if !(0.0..=1.0).contains(&self.siblings.above) {
            return Err(ConfigError::range("siblings.above", &self.siblings.above, "0 to 1"));
        }
        self.check_detours()?;
        self.limits.check()?;
        let paths = self.hops.iter().find(|hop| hop.mptcp);
        if let Some(hop) = paths.filter(|_| self.limits.client_rate.is_some()) {
            return Err(ConfigError::Paths { peer: hop.peer, rate: "limits.client_rate" });
        }
        self.check_paced_below()?;
        self.check_warm()?;
        self.check_sites()?;
        self.session.check()?;
        self.check_tcp()?;
        self.check_proxy()?;
        self.store.as_ref().map_or(Ok(()), Store::check)?;
        self.register.as_ref().map_or(Ok(()), Register::check)?;
        self.hops.iter().try_for_each(PeerOptions::check)
    }

    fn check_detours(&self) -> Result<(), ConfigError> {
        for (n, detour) in self.detours.iter().enumerate() {
            check_time("detour.avoid", detour.avoid)?;
            detour.check.check()?;
            let closed = |depot: &&DepotAddress| {
                self.allow.upstream(&depot.authority, Grant::Rules) == Verdict::Refused
            };
            if let Some(depot) = detour.through.iter().find(closed) {
                return Err(ConfigError::Detour(depot.clone()));
            }
            if self.detours[..n].iter().any(|other| other.around == detour.around) {
                return Err(ConfigError::DetourTwice(detour.around.clone()));
            }
        }
        Ok(())
    }

    /// A depot that holds connections open for strangers would be at their mercy, and one that opens them
    /// ahead of need has to know whom it does that for.
    fn check_warm(&self) -> Result<(), ConfigError> {
        for (n, hop) in self.hops.iter().enumerate().filter(|(_, hop)| hop.warm > 0) {
            let wrong = |error| Err(ConfigError::in_table("hop", n, "warm", error));
            if !self.trust.depots.iter().any(|net| net.contains(&hop.peer)) {
                return wrong(ConfigError::WarmStranger(hop.peer));
            }
            if usize::from(hop.warm) > self.idle_connections.per_hop {
                let (warm, per_hop) = (hop.warm, self.idle_connections.per_hop);
                return wrong(ConfigError::WarmBeyondReuse { peer: hop.peer, warm, per_hop });
            }
        }
        Ok(())
    }

    /// For how long an idle connection with this depot is held.
    pub(crate) fn held_idle(&self, depot: IpAddr) -> Duration {
        self.hop(depot).map_or_else(PeerOptions::default_idle, |hop| hop.idle)
    }

    /// How much a connection with this depot carries when it is opened ahead of need.
    pub(crate) fn prime(&self, depot: IpAddr) -> Bytes {
        self.hop(depot).map_or_else(PeerOptions::default_prime, |hop| hop.prime)
    }

    /// How many idle connections are to be open to this depot.
    pub(crate) fn warm(&self, depot: IpAddr) -> usize {
        self.hop(depot).map_or(0, |hop| hop.warm.into())
    }

    /// Which keys differ that count only when a depot starts.
    pub(crate) fn fixed_differences(&self, new: &Self) -> Vec<&'static str> {
        let differ = [
            ("id", self.id != new.id),
            ("listen", self.listen != new.listen),
            ("tls.listen", self.tls.listen != new.tls.listen),
            // Its listeners cannot be without.
            ("tls.certificate", !self.tls.listen.is_empty() && !new.shows_certificate()),
            ("handover", self.handover != new.handover),
            ("threads", self.threads != new.threads),
            ("copy", self.copy != new.copy),
            ("limits.pipe", self.limits.pipe != new.limits.pipe),
            ("limits.memory", self.limits.memory != new.limits.memory),
            ("trust.replays", self.trust.replays != new.trust.replays),
            ("tcp", self.tcp != new.tcp),
            ("store.path", self.store_path() != new.store_path()),
            ("admin", self.admin != new.admin),
            ("control.socket", self.control.socket != new.control.socket),
            ("control.state", self.control.state != new.control.state),
            ("log", self.log != new.log),
        ];
        differ.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
    }

    fn store_path(&self) -> Option<&PathBuf> {
        self.store.as_ref().map(|store| &store.path)
    }

    /// Whether it has a certificate to show, for one name or other.
    fn shows_certificate(&self) -> bool {
        let of_site = || self.sites.iter().any(|site| site.certificate.is_some());
        self.tls.certificate.is_some() || of_site()
    }

    /// The verdict of the rules under `grant` on a next hop.
    pub(crate) fn upstream(&self, next: &Authority, grant: Grant) -> Verdict {
        match grant {
            Grant::Site if self.is_fixed(next) => Verdict::OfSite,
            // Around it, through others that clients may name.
            Grant::Site => self.allow.upstream(next, Grant::Rules),
            grant => self.allow.upstream(next, grant),
        }
    }

    /// Whether the configuration itself has something lead to this next hop: a site, a port of `[[tcp]]`, or the way of
    /// the proxy's clients.
    pub(crate) fn is_fixed(&self, next: &Authority) -> bool {
        let of_proxy = |proxy: &Proxy| proxy.via.iter().any(|depot| depot.authority == *next);
        self.is_of_site(next)
            || self.tcp.iter().any(|table| table.leads_to(next))
            || self.proxy.as_ref().is_some_and(of_proxy)
    }

    /// Whether any peer may come by Multipath TCP.
    pub(crate) fn takes_mptcp(&self) -> bool {
        self.hops.iter().any(|hop| hop.mptcp)
    }

    /// The settings for connections with `peer`: those of the narrowest network that holds it.
    pub(crate) fn hop(&self, peer: IpAddr) -> Option<&PeerOptions> {
        self.hop_around(&peer.to_canonical().into())
    }

    /// Maximum bytes kept unsent on each of several connections to `peer` until its rate is known, unless that is set: for
    /// what a slow one has taken, all others wait.
    pub(crate) fn unsent_on_each(&self, peer: IpAddr) -> Option<Bytes> {
        let set = self.hop(peer).and_then(|hop| hop.notsent_lowat);
        set.is_none().then_some(UNSENT_ON_EACH)
    }

    /// The socket options for connections with `peer`.
    pub(crate) fn hop_options(&self, peer: IpAddr) -> HopOptions<'_> {
        let (hop, user_timeout) = (self.hop(peer), self.timeouts.tcp_user.into());
        let source = self.source_towards(peer, hop);
        let Some(hop) = hop else {
            return HopOptions { source, user_timeout, ..HopOptions::default() };
        };
        HopOptions {
            network: Some(hop.peer),
            source,
            mark: None,
            congestion: hop.congestion.as_deref(),
            sndbuf: hop.sndbuf,
            rcvbuf: hop.rcvbuf,
            notsent_lowat: hop.notsent_lowat,
            mptcp: hop.mptcp,
            spacing: hop.pacing.spacing(),
            raise_buffers: hop.buffers == Buffers::Auto,
            keepalive: hop.warm > 0,
            user_timeout,
        }
    }

    /// Minimum rate at which a client behind `depots` depots has to read responses, if one is set. `None` for
    /// a depot of `trust.depots`: it is as slow as its slowest client may be, and applies its own minimum.
    pub(crate) fn minimum_read(&self, client: IpAddr, depots: usize) -> Option<MinimumRate> {
        let minimum = self.limits.minimum_read().filter(|_| !self.trust.has_depot(client))?;
        Some(minimum.over_longer(timeouts::later(depots)))
    }

    /// The same for uploads.
    pub(crate) fn minimum_upload(&self, client: IpAddr, depots: usize) -> Option<MinimumRate> {
        self.minimum_read(client, depots).filter(|_| self.limits.measures_uploads())
    }

    /// The narrowest of the hops that hold all of a network: part of it may have a narrower one.
    pub(crate) fn hop_around(&self, peers: &IpNet) -> Option<&PeerOptions> {
        self.hops
            .iter()
            .filter(|hop| hop.peer.contains(peers))
            .max_by_key(|hop| hop.peer.prefix_len())
    }
}

impl Default for Config {
    fn default() -> Self {
        let any: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        Self {
            id: None,
            listen: any.map(|ip| SocketAddr::new(ip, DEPOT_PORT)).into(),
            names: Vec::new(),
            handover: None,
            source: Vec::new(),
            threads: 0,
            copy: CopyMode::default(),
            digest: DigestMode::default(),
            allow: Allow::default(),
            trust: TrustFiles::default(),
            tls: TlsFiles::default(),
            timeouts: Timeouts::default(),
            limits: Limits::default(),
            idle_connections: IdleConnections::default(),
            register: None,
            siblings: Siblings::default(),
            stall: Stall::default(),
            session: Sessions::default(),
            proxy: None,
            store: None,
            detours: Vec::new(),
            admin: Admin::default(),
            control: Control::default(),
            log: Log::default(),
            hops: Vec::new(),
            sites: Vec::new(),
            tcp: Vec::new(),
        }
    }
}
