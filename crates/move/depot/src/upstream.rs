// SPDX-License-Identifier: GPL-2.0-or-later
//! The next hop: a connection to it, new or used before. Requests and sessions share them.

use crate::{
    admission::{
        rules::not_listed,
        verdict::{Grant, Objection, Verdict},
    },
    config::Config,
    idle_pool::{Peer, Pool, key_of, limits_of, peer_of},
    settings::Settings,
    state::Shared,
};
use bytes::BytesMut;
use protocol::{Authority, Host};
use relay::{
    dial::{
        Connector, Dialer, Hops, PeerAddr, Refusal, Resolver,
        pool::{Generation, Kept, Key},
        resolver::is_scarcity,
    },
    tcp::{Stream, info::reset_on_close, socket_options::HopOptions},
};
use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};
use tokio::time::Instant;

/// A connection to the next hop.
pub(crate) struct UpstreamConnection {
    /// The connection.
    pub stream: Stream,
    /// What was read from it beyond what was asked for so far.
    pub ahead: BytesMut,
    /// Whether it was used before. Then it may be closed already.
    pub reused: bool,
    key: Key<Grant>,
    /// For how long the next hop holds it while it is idle, where that was agreed.
    held: Option<Duration>,
    /// When it was used last, if it was.
    used: Option<Instant>,
    /// By whose rules it was opened, or taken over.
    generation: Generation,
}

/// A connection whose exchange is over.
pub(crate) struct Used {
    /// The connection.
    pub hop: UpstreamConnection,
    /// Whether it can be used again.
    pub fit: bool,
}

/// A connection to the next hop that waits for work, if there is one. It may turn out to be closed, so
/// it serves only what can be asked again.
pub(crate) fn waiting(
    peer: Peer<'_>,
    grant: Grant,
    pool: &Pool,
    config: &Config,
) -> Option<UpstreamConnection> {
    let key = key_of(peer, grant);
    let (kept, generation) = pool.take(&key, limits_of(&config.idle_connections))?;
    Some(UpstreamConnection::waited(kept, key, generation))
}

/// One that the next depot is to be asked to hold: for the first time, or, of the `warm` that were used last, again.
pub(crate) fn due(key: &Key<Grant>, warm: usize, pool: &Pool) -> Option<UpstreamConnection> {
    let (kept, generation) = pool.take_due(key, warm)?;
    Some(UpstreamConnection::waited(kept, key.clone(), generation))
}

impl UpstreamConnection {
    fn waited(kept: Kept, key: Key<Grant>, generation: Generation) -> Self {
        let Kept { stream, ahead, held, used } = kept;
        Self { stream, ahead, reused: true, key, held, used, generation }
    }

    /// The same once something new has been opened on it, which is not asked for again if it breaks.
    pub(crate) fn renewed(self) -> Self {
        Self { reused: false, ..self }
    }

    /// What others of the same next hop are kept under.
    pub(crate) fn key(&self) -> &Key<Grant> {
        &self.key
    }
}

/// A new connection to the next hop, by the settings that are in force once it is made: meanwhile they may
/// have been read again.
pub(crate) async fn connected_now(
    peer: Peer<'_>,
    grant: Grant,
    shared: &Shared,
    resolver: Resolver<'_>,
) -> Result<UpstreamConnection, Refusal> {
    connected_now_within(peer, grant, shared, (resolver, Duration::MAX)).await
}

/// The same in at most this time, also if the settings give more.
pub(crate) async fn connected_now_within(
    peer: Peer<'_>,
    grant: Grant,
    shared: &Shared,
    (resolver, most): (Resolver<'_>, Duration),
) -> Result<UpstreamConnection, Refusal> {
    loop {
        let settings = shared.settings();
        let hop = connected_within(peer, grant, &settings, (resolver, most)).await?;
        if settings.are_current() {
            return Ok(hop);
        }
    }
}

/// A new connection to the next hop.
pub(crate) async fn connected(
    peer: Peer<'_>,
    grant: Grant,
    settings: &Settings,
    resolver: Resolver<'_>,
) -> Result<UpstreamConnection, Refusal> {
    connected_within(peer, grant, settings, (resolver, Duration::MAX)).await
}

/// The same in at most this time, also if the settings give more.
async fn connected_within(
    peer: Peer<'_>,
    grant: Grant,
    settings: &Settings,
    (resolver, most): (Resolver<'_>, Duration),
) -> Result<UpstreamConnection, Refusal> {
    let key = key_of(peer, grant);
    let tls = || settings.tls.client(peer.protocol);
    let connector = Connector { tls: &tls, overruled: &settings.overruled };
    let time = Duration::from(settings.config.timeouts.connect).min(most);
    let dialer = Dialer { connector, resolver, time };
    let (config, next) = (&*settings.config, peer.next);
    let verdict = verdict(next, grant, settings, (resolver, time)).await;
    let hops = Admitted { config, next, verdict: (grant, verdict) };
    let stream = dialer.dial(&key.peer, &hops).await?;
    let generation = settings.generation;
    let (ahead, held, used) = (BytesMut::new(), None, None);
    Ok(UpstreamConnection { stream, ahead, reused: false, key, held, used, generation })
}

/// What the rules say of a next hop, with a look-up of listed names if they depend on it.
pub(crate) async fn verdict(
    next: &Authority,
    grant: Grant,
    settings: &Settings,
    (resolver, time): (Resolver<'_>, Duration),
) -> Verdict {
    let config = &settings.config;
    match (config.upstream(next, grant), &next.host) {
        (Verdict::ByListedName, Host::Ip(ip)) => {
            let names: Vec<_> = config.allow.server_names(next.port).collect();
            let deadline = Instant::now() + time;
            let is_one = settings.listed_names.have(&names, *ip, resolver, deadline).await;
            if is_one { Verdict::Listed } else { Verdict::ByListedName }
        }
        (verdict, _) => verdict,
    }
}

/// A connection to an address of the next hop that was admitted.
pub(crate) async fn connect_to(
    peer: Peer<'_>,
    address: SocketAddr,
    settings: &Settings,
) -> Result<Stream, Refusal> {
    let tls = || settings.tls.client(peer.protocol);
    let connector = Connector { tls: &tls, overruled: &settings.overruled };
    let peer = peer_of(peer.next, peer.scheme);
    connector.connect(&peer, address, &settings.config.hop_options(address.ip())).await
}

/// A next hop that the rules or a ticket permit.
struct Admitted<'a> {
    config: &'a Config,
    next: &'a Authority,
    verdict: (Grant, Verdict),
}

impl Admitted<'_> {
    /// The rules do not let this depot connect there.
    fn not_open(&self, why: &str, ip: Option<IpAddr>) -> Refusal {
        let text = format!("this depot is not open for upstream {}: {why}", self.next);
        Refusal::forbidden(text, ip)
    }
}

impl Hops for Admitted<'_> {
    fn admit(&self, _: &PeerAddr) -> Result<(), Refusal> {
        match self.verdict.1 {
            Verdict::Refused => Err(self.not_open(not_listed(self.verdict.0), None)),
            _ => Ok(()),
        }
    }

    fn addresses(
        &self,
        _: &PeerAddr,
        resolved: Vec<SocketAddr>,
    ) -> Result<Vec<SocketAddr>, Refusal> {
        let allowed = self.config.allow.addresses(self.verdict, resolved.into_iter());
        allowed.map_err(|objection| match objection {
            Objection::Rules(reason, ip) => self.not_open(&reason, ip),
            Objection::Unjudged(errno) => {
                let text =
                    format!("the addresses of upstream {} cannot be judged: {errno}", self.next);
                Refusal::of_host(text, is_scarcity(&errno.into()))
            }
        })
    }

    fn options(&self, address: IpAddr) -> HopOptions<'_> {
        self.config.hop_options(address)
    }
}

impl Used {
    /// The last exchange has ended in good order, so the connection may close in good order too. If it is
    /// kept, the pool does that.
    pub(crate) fn settle(self) -> Self {
        if !self.fit {
            reset_on_close(self.hop.stream.tcp(), false);
        }
        self
    }

    /// Keeps the connection for the next exchange, if it is fit.
    pub(crate) fn keep(self, pool: &Pool, config: &Config) {
        if self.fit {
            let (key, kept, generation) = self.parts();
            pool.put(key, kept, generation, limits_of(&config.idle_connections));
        }
    }

    /// The same of one that the next depot has just agreed to hold for so long while it is idle.
    pub(crate) fn keep_unused(self, held: Duration, pool: &Pool, config: &Config) {
        if self.fit {
            let (key, kept, generation) = self.parts();
            let kept = Kept { held: Some(held), ..kept };
            pool.put_unused(key, kept, generation, limits_of(&config.idle_connections));
        }
    }

    fn parts(self) -> (Key<Grant>, Kept, Generation) {
        let UpstreamConnection { stream, ahead, key, held, used, generation, .. } = self.hop;
        (key, Kept { stream, ahead, held, used }, generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{admission::trust::Trust, http::refused, tls::Tls};
    use http::StatusCode;
    use protocol::{Route, Step, http::ProxyError};
    use relay::dial::Names;

    #[tokio::test]
    async fn failed_socket_settings_are_depot_fault() {
        let text = "allow.local = true\nallow.upstreams = [\"127.0.0.0/8:*\"]\n\
                    [[hop]]\npeer = \"127.0.0.0/8\"\ncongestion = \"warp\"";
        let config = Config::from_toml(text, "test").unwrap();
        // Unchecked: what was there at the start may be gone later.
        let tls = Tls::new(&config).unwrap();
        let settings = Settings::of(config, Trust::default(), tls);
        let route: Route = "/lh1/fetch/-/http:127.0.0.1:1/".parse().unwrap();
        let Step::Fetch(fetch) = route.step() else { panic!("a fetch is not a redirect") };
        let names = Names::default();
        let resolver = Resolver { names: &names, client: "127.0.0.1".parse().unwrap() };
        let connected = connected((&fetch).into(), Grant::Rules, &settings, resolver).await;
        let fault = refused::fault(connected.err().expect("a refusal"));
        assert_eq!(fault.status, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(fault.error, ProxyError::ProxyInternalError);
    }
}
