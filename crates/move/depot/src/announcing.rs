// SPDX-License-Identifier: GPL-2.0-or-later
//! Announces this depot to others, and queries their announcements.
//!
//! Each round (`register.every`) the depot signs its announcement, and queries three random trusted depots for all announcements that
//! they have (`GET /lh1/depots`). So an announcement reaches all N depots in about log4 N rounds, without a central server.
//!
//! Threats. A queried depot may send anything: one list of bounded size is read from each in a round, and only announcements with a
//! valid signature are stored. Only depots of `register.trust` are queried, and only if `allow.upstreams` admits them. Only clients
//! get a response, as for the load.

use crate::{
    admission::verdict::Grant,
    announcing_in_etcd::InEtcd,
    config::{Config, Register},
    http::question,
    idle_pool::{self, Peer},
    lifecycle::Phase,
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
use register::AnnouncementList;
use relay::Side;
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{task::JoinSet, time::timeout};

/// Number of queried depots in a round.
const QUERIED: usize = 3;
/// Validity of an announcement: a number of rounds, and a minimum in seconds.
const ROUNDS: u32 = 6;
const LEAST_S: u32 = 30;
/// Minimum number of sent bytes for which losses of a hop are announced.
const LEAST_SENT: u64 = 4 << 20;
/// A segment's payload, in bytes.
const SEGMENT: u64 = 1448;
/// Interval of checks for a `[register]` while there is none.
const LOOK: Duration = Duration::from_secs(1);

/// Runs rounds until the depot ends or has a successor.
pub(crate) async fn keep(shared: Arc<Shared>) {
    let mut in_etcd = None;
    // After a takeover the successor announces the same address.
    while shared.lifecycle.phase() != Phase::Succeeded {
        let settings = shared.settings();
        let Some((register, keys)) =
            settings.config.register.as_ref().zip(settings.register.as_ref())
        else {
            shared.next_hops.announcements.clear();
            in_etcd = None;
            tokio::time::sleep(LOOK).await;
            continue;
        };
        let announced = announce(&shared, &settings, register, keys);
        let lease = Duration::from_secs(lifetime_s(register).into());
        InEtcd::keep(&mut in_etcd, &shared, register, lease, announced);
        query_some(&shared, &settings, register, keys).await;
        tokio::time::sleep(register.every.into()).await;
    }
}

fn now() -> UnixTime {
    SystemTime::now().into()
}

/// Signs and stores this depot's announcement, and returns its token.
fn announce(
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
    shared.next_hops.announcements.expire(&keys.trusted(), signed);
    match own.clone().sign(&keys.own) {
        Ok(token) => {
            shared.next_hops.announcements.insert_own(token.clone(), own);
            Some(token)
        }
        Err(error) => {
            tracing::error!(%error, "cannot sign an announcement");
            None
        }
    }
}

/// Validity of an announcement, in seconds.
fn lifetime_s(register: &Register) -> u32 {
    (Duration::from(register.every).as_secs() as u32 * ROUNDS).max(LEAST_S)
}

/// Statistics of connections to announced depots, used ones first.
fn hops(shared: &Shared, config: &Config, own: &DepotAddress) -> Vec<HopFacts> {
    let others = shared.next_hops.announcements.all();
    let seen = shared.observer.read().counters.hops;
    let limits = idle_pool::limits_of(&config.idle_connections);
    let facts = |to: DepotAddress| {
        let name = to.authority.to_string();
        let seen = seen.iter().find(|hop| hop.side == Side::Upstream && hop.hop == name);
        let peer = Peer { next: &to.authority, scheme: to.scheme, protocol: Protocol::Http };
        let key = idle_pool::key_of(peer, Grant::Rules);
        let warm = shared.next_hops.pool.standing(&key, limits);
        let loss = seen.filter(|hop| hop.up_bytes >= LEAST_SENT).map(|hop| {
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
    // Not all may fit.
    hops.sort_by_key(|hop| (hop.warm == 0, hop.rtt_us.is_none()));
    hops
}

/// Queries some trusted depots for their announcements.
async fn query_some(
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
    let mut queries = JoinSet::new();
    for _ in 0..QUERIED.min(others.len()) {
        // Without random bits the same depots are queried each time.
        let random = host::random().map_or(0, u64::from_ne_bytes);
        let depot = others.swap_remove((random % others.len() as u64) as usize);
        let (shared, settings) = (Arc::clone(shared), Arc::clone(settings));
        let time = Duration::from(register.every);
        queries.spawn(async move {
            let response = timeout(time, query(&depot, &settings, &shared)).await;
            let late = |_| Err("it does not respond in time".to_owned());
            (depot, response.unwrap_or_else(late))
        });
    }
    while let Some(response) = queries.join_next().await {
        match response {
            Ok((depot, Ok(list))) => {
                let wrong = shared.next_hops.announcements.accept_list(&list, &trusted, now());
                if wrong > 0 {
                    tracing::debug!(%depot, wrong, "announcements not accepted");
                }
            }
            Ok((depot, Err(reason))) => {
                tracing::debug!(%depot, reason, "no announcements from a depot");
            }
            Err(error) => tracing::error!(%error, "a defect has ended a query"),
        }
    }
}

async fn query(
    depot: &DepotAddress,
    settings: &Settings,
    shared: &Shared,
) -> Result<AnnouncementList, String> {
    let fetch = Fetch::from_depot(depot.clone(), ANNOUNCEMENTS.to_owned(), 1);
    let mut hop = question::connected(&fetch, Grant::Rules, settings, shared).await?;
    let host = &fetch.host;
    let text = format!("GET {ANNOUNCEMENTS} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let limit = BodyLimit { document: MAX_ANNOUNCEMENTS_BODY, padding: 0 };
    let (list, _) =
        question::ask(&mut hop, &text, limit).await.map_err(|error| error.to_string())?;
    Ok(list)
}
