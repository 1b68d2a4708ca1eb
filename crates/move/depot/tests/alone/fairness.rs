// SPDX-License-Identifier: GPL-2.0-or-later
//! Depots with their default limits, alone and in a chain: which clients are served when very many come and
//! some take all that they can get.

use crate::{
    alone,
    common::process::Daemon,
    scale::crowd::{Link, Origin, address, ask_for_head, come, connect, take},
};
use std::{net::Ipv4Addr, sync::Arc};
use testkit::until;
use tokio::{net::TcpStream, runtime::Runtime, task::JoinSet};

/// What each reader fetches: it comes when all are connected.
const BODY: usize = 1000;
/// What a client may have, and how many connections there may be.
const PER_CLIENT: usize = 256;

/// Two depots that trust each other, and an origin behind them.
struct Chain {
    runtime: Runtime,
    near: Daemon,
    far: Daemon,
    origin: Origin,
}

/// A reader and the head of its answer, if it has one.
struct Reader {
    stream: Link<TcpStream>,
    head: Option<String>,
}

impl Reader {
    fn is_served(&self) -> bool {
        self.head.as_ref().is_some_and(|head| head.starts_with("HTTP/1.1 200 "))
    }

    /// Whether a depot with this name has refused it.
    fn is_refused_by(&self, id: &str) -> bool {
        let refusal = format!("Proxy-Status: {id}; error=connection_limit_reached");
        self.head.as_ref().is_some_and(|head| head.contains(&refusal))
    }
}

fn depot(id: &str, settings: &str) -> Daemon {
    Daemon::depot(&format!(
        "id = \"{id}\"\nadmin.listen = \"127.0.0.1:0\"\ntrust.depots = [\"127.0.0.1/32\"]\n{settings}"
    ))
}

impl Chain {
    /// One whose depot near the clients has these settings more.
    fn new(settings: &str) -> Self {
        let runtime = Runtime::new().unwrap();
        let origin = Origin::new(&runtime);
        Self { near: depot("near", settings), far: depot("far", ""), runtime, origin }
    }

    /// So many readers at a time, each from its address: all that are served hold their answer open.
    fn readers(&self, count: usize, from: impl Fn(usize) -> Ipv4Addr) -> Vec<Reader> {
        let route = self.origin.route_by(&self.far.authority(), &format!("/held/{BODY}"));
        let to = self.near.address;
        come(&self.runtime, count, |n| {
            let (route, from) = (Arc::clone(&route), from(n));
            async move {
                let mut stream = connect(from, to).await;
                let head = ask_for_head(&mut stream, &route, "keep-alive").await.ok();
                Reader { stream, head }
            }
        })
    }

    /// Lets all that are served have their bodies.
    fn finish(&self, readers: Vec<Reader>) {
        self.origin.open_to(BODY);
        let served = readers.into_iter().filter(Reader::is_served);
        let takers = served.map(async |mut reader| take(&mut reader.stream, BODY).await);
        self.runtime.block_on(async { takers.collect::<JoinSet<_>>().join_all().await });
    }
}

fn served(readers: &[Reader]) -> usize {
    readers.iter().filter(|reader| reader.is_served()).count()
}

/// The heads of those that are not served.
fn unserved(readers: &[Reader]) -> Vec<&Option<String>> {
    readers.iter().filter(|reader| !reader.is_served()).map(|reader| &reader.head).collect()
}

#[test]
fn thousand_readers_of_200_addresses_pass_two_depots() {
    let _alone = alone();
    let chain = Chain::new("");
    let readers = chain.readers(1000, |n| address(n % 200));
    assert!(unserved(&readers).is_empty(), "{:?}", unserved(&readers));
    for depot in [&chain.near, &chain.far] {
        assert_eq!(depot.status().live_transfers, 1000);
    }
    chain.finish(readers);
    until("all are complete", || {
        [&chain.near, &chain.far]
            .iter()
            .all(|depot| depot.status().totals.requests["complete"] == 1000)
    });
}

#[test]
fn address_with_500_readers_leaves_slots_for_others() {
    let _alone = alone();
    // The limit is that of the depot near the clients, or where that one has none, of the one behind it.
    for (settings, refuses) in
        [("", "near"), ("limits.connections = 4096\nlimits.per_client = 4096", "far")]
    {
        let chain = Chain::new(settings);
        let mut readers = chain.readers(500, |_| address(0));
        assert_eq!(served(&readers), PER_CLIENT, "by {refuses}");
        assert!(readers.iter().any(|reader| reader.is_refused_by(refuses)), "{refuses}");
        let others = chain.readers(500, |n| address(1 + n % 199));
        assert!(unserved(&others).is_empty(), "{:?}", unserved(&others));
        readers.extend(others);
        chain.finish(readers);
    }
}

#[test]
fn five_addresses_cannot_fill_a_default_depot() {
    let _alone = alone();
    // Those that only take places are not let go meanwhile.
    let chain = Chain::new("timeouts.request_head = \"1h\"");
    let to = chain.near.address;
    let mut held = Vec::new();
    // Three have all that a client may have. The last quarter is for those with few connections.
    for (n, open) in [256, 512, 768, 776, 784].into_iter().enumerate() {
        held.push(come(&chain.runtime, PER_CLIENT, |_| connect(address(n), to)));
        until("each has its share", || chain.near.status().connections.open == open);
    }
    let others = chain.readers(200, |n| address(5 + n));
    assert!(unserved(&others).is_empty(), "{:?}", unserved(&others));
    chain.finish(others);
}
