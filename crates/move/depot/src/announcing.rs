// SPDX-License-Identifier: GPL-2.0-or-later
//! Depots tell each other of themselves: where they are, how busy, what they admit, and how their connections to others do.
//!
//! Each `register.every` a depot signs what it tells of itself, and asks three of the depots that it believes, by chance, for all that
//! they have heard (`GET /lh1/depots`). So what one tells reaches all after a few rounds, however many they are, and no depot is needed
//! by all others.
//!
//! Threats. Whoever answers may send anything: at most one list of bounded size is read from each in a round, and only what the depot
//! in question has signed counts. Only depots of `register.trust` are asked, and only where `allow.upstreams` lets connections go.
//! Clients alone are answered, as with the load.

use crate::{
    admission::verdict::Grant,
    announcing_in_etcd::InEtcd,
    config::{Config, Register},
    http::question,
    idle_pool::{self, Peer},
    peer_load::own_load,
    register_keys::RegisterKeys,
    settings::Settings,
    state::Shared,
    tls::Protocol,
};
use health::BodyLimit;
use protocol::{
    DepotAddress, Fetch,
    announcement::{ANNOUNCEMENTS, Announcement, HopFacts, MAX_ANNOUNCEMENTS_BODY},
    ticket::UnixTime,
};
use register::Told;
use relay::Side;
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{task::JoinSet, time::timeout};

/// How many depots are asked in a round.
const ASKED: usize = 3;
/// For so many rounds an announcement counts, and at least so many seconds.
const ROUNDS: u32 = 6;
const LEAST_S: u32 = 30;
/// The least that was sent to a hop for its losses to be told, in bytes.
const TOLD_FROM: u64 = 4 << 20;
/// A segment's payload, in bytes.
const SEGMENT: u64 = 1448;
/// How often the configuration is looked at where there is no `[register]`.
const LOOK: Duration = Duration::from_secs(1);

/// Tells and asks, for as long as the depot runs.
pub(crate) async fn keep(shared: Arc<Shared>) {
    let mut in_etcd = None;
    loop {
        let settings = shared.settings();
        let Some((register, keys)) =
            settings.config.register.as_ref().zip(settings.register.as_ref())
        else {
            shared.next_hops.registered.clear();
            in_etcd = None;
            tokio::time::sleep(LOOK).await;
            continue;
        };
        let told = tell(&shared, &settings, register, keys);
        let lease = Duration::from_secs(lifetime_s(register).into());
        InEtcd::keep(&mut in_etcd, &shared, register, lease, told);
        ask_some(&shared, &settings, register, keys).await;
        tokio::time::sleep(register.every.into()).await;
    }
}

fn now() -> UnixTime {
    SystemTime::now().into()
}

/// Signs what there is to tell of this depot.
fn tell(
    shared: &Shared,
    settings: &Settings,
    register: &Register,
    keys: &RegisterKeys,
) -> Option<String> {
    let (signed, config) = (now(), &settings.config);
    let own = Announcement {
        address: register.address.clone(),
        place: register.place,
        signed,
        expires: signed.plus(lifetime_s(register)),
        load: own_load(shared, config),
        admits: Some(config.allow.upstreams.iter().map(ToString::to_string).collect()),
        hops: hops(shared, config, &register.address),
    };
    shared.next_hops.registered.tidy(&keys.trusted(), signed);
    match own.clone().sign(&keys.own) {
        Ok(token) => {
            shared.next_hops.registered.tell(token.clone(), own);
            Some(token)
        }
        Err(error) => {
            tracing::error!(%error, "this depot cannot tell of itself");
            None
        }
    }
}

/// For how long an announcement counts.
fn lifetime_s(register: &Register) -> u32 {
    (Duration::from(register.every).as_secs() as u32 * ROUNDS).max(LEAST_S)
}

/// What was seen of connections to depots that have told of themselves.
fn hops(shared: &Shared, config: &Config, own: &DepotAddress) -> Vec<HopFacts> {
    let others = shared.next_hops.registered.announcements();
    let seen = shared.observer.read().counters.hops;
    let limits = idle_pool::limits_of(&config.idle_connections);
    let facts = |to: DepotAddress| {
        let name = to.authority.to_string();
        let seen = seen.iter().find(|hop| hop.side == Side::Upstream && hop.hop == name);
        let peer = Peer { next: &to.authority, scheme: to.scheme, protocol: Protocol::Http };
        let key = idle_pool::key_of(peer, Grant::Rules);
        let warm = shared.next_hops.pool.standing(&key, limits);
        let loss = seen.filter(|hop| hop.up_bytes >= TOLD_FROM).map(|hop| {
            let segments = hop.up_bytes / SEGMENT;
            (hop.retransmitted_segments as f64 / segments as f64).min(1.0)
        });
        HopFacts {
            rtt_us: seen.and_then(|hop| hop.min_rtt_us),
            loss,
            rate_bps: seen.map(|hop| hop.up_bps + hop.down_bps).filter(|bps| *bps > 0),
            warm: u32::try_from(warm).unwrap_or(u32::MAX),
            to,
        }
    };
    let others = others.into_iter().map(|it| it.address).filter(|to| to != own);
    let mut hops: Vec<HopFacts> = others.map(facts).collect();
    // Those that are used come first: not all may fit.
    hops.sort_by_key(|hop| (hop.warm == 0, hop.rtt_us.is_none()));
    hops
}

/// Asks some of the depots that are believed what they have heard.
async fn ask_some(
    shared: &Arc<Shared>,
    settings: &Arc<Settings>,
    register: &Register,
    keys: &RegisterKeys,
) {
    let trusted = keys.trusted();
    let mut others: Vec<DepotAddress> = trusted
        .kids()
        .filter_map(|name| name.parse().ok())
        .filter(|depot| *depot != register.address)
        .collect();
    let mut asked = JoinSet::new();
    for _ in 0..ASKED.min(others.len()) {
        // Without random bits always the same ones.
        let random = host::random().map_or(0, u64::from_ne_bytes);
        let depot = others.swap_remove((random % others.len() as u64) as usize);
        let (shared, settings) = (Arc::clone(shared), Arc::clone(settings));
        let time = Duration::from(register.every);
        asked.spawn(async move {
            let told = timeout(time, ask(&depot, &settings, &shared)).await;
            let late = |_| Err("it does not answer in time".to_owned());
            (depot, told.unwrap_or_else(late))
        });
    }
    while let Some(answer) = asked.join_next().await {
        match answer {
            Ok((depot, Ok(told))) => {
                let wrong = shared.next_hops.registered.hear(&told, &trusted, now());
                if wrong > 0 {
                    tracing::debug!(%depot, wrong, "announcements that do not count");
                }
            }
            Ok((depot, Err(reason))) => {
                tracing::debug!(%depot, reason, "a depot does not tell what it has heard");
            }
            Err(error) => tracing::error!(%error, "a defect has ended a question"),
        }
    }
}

async fn ask(depot: &DepotAddress, settings: &Settings, shared: &Shared) -> Result<Told, String> {
    let fetch = Fetch::from_depot(depot.clone(), ANNOUNCEMENTS.to_owned(), 1);
    let mut hop = question::connected(&fetch, Grant::Rules, settings, shared).await?;
    let host = &fetch.host;
    let text = format!("GET {ANNOUNCEMENTS} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let limit = BodyLimit { document: MAX_ANNOUNCEMENTS_BODY, padding: 0 };
    let (told, _) =
        question::ask(&mut hop, &text, limit).await.map_err(|error| error.to_string())?;
    Ok(told)
}
