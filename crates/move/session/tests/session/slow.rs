// SPDX-License-Identifier: GPL-2.0-or-later
//! A session leaves a slow route for another one, without losing data.

use super::{
    bytes, listener, options, read_all, route,
    wire::{Mishap, Wire},
};
use longhaul_session::{Options, Session};
use protocol::DepotAddress;
use route::{Attempt, AttemptEnd, Chooser, Destination, Floor, Plan, SendOptions};
use std::{
    sync::{Arc, Mutex, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio::time::timeout;
use units::{Bytes, Rate};

/// Uses routes in their order, demands 8 Mb/s over half a second, and records how attempts end.
#[derive(Debug, Default)]
struct Demanding(Mutex<Vec<AttemptEnd>>);

impl Chooser for Demanding {
    fn plan(&self, _: &Destination, _: Option<Bytes>, chains: &[&[DepotAddress]]) -> Plan {
        Plan::new((0..chains.len()).collect(), chains.len())
    }

    fn floor(
        &self,
        _: &Destination,
        _: &[DepotAddress],
        _: &SendOptions,
        _: Option<Bytes>,
    ) -> Option<Floor> {
        Some(Floor { rate: Rate::bits_per_second(8_000_000), over: Duration::from_millis(500) })
    }

    fn ended(&self, _: &Destination, _: &[DepotAddress], attempt: &Attempt) {
        self.0.lock().unwrap().push(attempt.end);
    }
}

/// Sends over two wires, the first of which passes 100 bytes per millisecond. Returns how attempts ended, and the connections per wire.
async fn send(change: impl FnOnce(&mut Options), length: usize) -> (Vec<AttemptEnd>, [u64; 2]) {
    let listener = listener().await;
    let slow = Wire::to(listener.local_addr(), |_| Mishap::Slow(100)).await;
    let fast = Wire::to(listener.local_addr(), |_| Mishap::None).await;
    let chooser = Arc::new(Demanding::default());
    let mut settings = Options { chooser: Some(Arc::<Demanding>::clone(&chooser)), ..options() };
    change(&mut settings);
    let content = bytes(length, 7);
    let session = Session::connect(vec![route(slow.address), route(fast.address)], settings);
    let accept = async {
        let accepted = listener.accept().await.accept(options()).await.unwrap();
        accepted.end();
        assert!(read_all(&accepted).await.unwrap() == content, "other bytes have arrived");
        accepted.sent().await.unwrap();
        accepted.closed().await.unwrap();
    };
    let send = async {
        session.write(&content).await.unwrap();
        session.end();
        session.sent().await.unwrap();
        assert_eq!(read_all(&session).await.unwrap(), b"");
        session.settled().await;
    };
    timeout(Duration::from_secs(60), async { tokio::join!(accept, send) }).await.expect("it ends");
    let ends = chooser.0.lock().unwrap().clone();
    (ends, [slow, fast].map(|wire| wire.connections.load(Relaxed)))
}

#[tokio::test(flavor = "multi_thread")]
async fn session_leaves_a_slow_route() {
    // 80 s by the first route.
    let (ends, connections) = send(|_| (), 8_000_000).await;
    assert_eq!(ends, [AttemptEnd::Stalled, AttemptEnd::Done]);
    assert_eq!(connections, [1, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn limited_rate_does_not_make_a_route_slow() {
    let limited = |options: &mut Options| options.limit_rate = Some(Rate::bits_per_second(400_000));
    let (ends, connections) = send(limited, 100_000).await;
    assert_eq!((ends, connections), (vec![AttemptEnd::LimitedByEnds], [1, 0]));
}

/// Has what is sent go by several connections over the second route.
#[derive(Debug, Default)]
struct Several(Mutex<Vec<SendOptions>>);

impl Chooser for Several {
    fn plan(&self, _: &Destination, _: Option<Bytes>, _: &[&[DepotAddress]]) -> Plan {
        let several = SendOptions { connections: Some(3), ..SendOptions::default() };
        Plan::new(vec![1, 0], 2).with_send_options(vec![several])
    }

    fn ended(&self, _: &Destination, _: &[DepotAddress], attempt: &Attempt) {
        self.0.lock().unwrap().push(attempt.send_options.clone());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chooser_decides_how_many_connections_a_route_has() {
    let listener = listener().await;
    let mut wires = Vec::new();
    for _ in 0..2 {
        wires.push(Wire::to(listener.local_addr(), |_| Mishap::Slow(20_000)).await);
    }
    let chooser = Arc::new(Several::default());
    let settings = Options { chooser: Some(Arc::<Several>::clone(&chooser)), ..options() };
    let content = bytes(20_000_000, 7);
    let routes = wires.iter().map(|wire| route(wire.address)).collect();
    let session = Session::connect(routes, settings);
    let accept = async {
        let accepted = listener.accept().await.accept(options()).await.unwrap();
        accepted.end();
        assert!(read_all(&accepted).await.unwrap() == content, "other bytes have arrived");
        accepted.closed().await.unwrap();
    };
    let send = async {
        session.write(&content).await.unwrap();
        session.end();
        session.sent().await.unwrap();
        assert_eq!(read_all(&session).await.unwrap(), b"");
        session.settled().await;
    };
    timeout(Duration::from_secs(60), async { tokio::join!(accept, send) }).await.expect("it ends");
    let connections: Vec<u64> = wires.iter().map(|wire| wire.connections.load(Relaxed)).collect();
    assert_eq!(connections, [0, 3]);
    let several = SendOptions { connections: Some(3), ..SendOptions::default() };
    assert_eq!(session.statistics().send_options, several);
    assert_eq!(*chooser.0.lock().unwrap(), [several]);
}
