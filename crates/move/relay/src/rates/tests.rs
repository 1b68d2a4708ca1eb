// SPDX-License-Identifier: GPL-2.0-or-later
use super::*;
use crate::tcp::info::max_pacing_rate;
use rand_core::{Rng, SeedableRng};
use std::net::{Ipv4Addr, SocketAddr};
use tokio::net::{TcpListener, TcpStream};

const A: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const B: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

/// What clients are held to, and how connections with [`A`] are spaced.
#[derive(Debug, Clone, Copy, Default)]
struct Config {
    client_rate: Option<Rate>,
    spacing: SocketPacing,
}

impl Config {
    fn client_rate(rate: u64) -> Self {
        Self { client_rate: Some(mbit(rate)), spacing: SocketPacing::Free }
    }

    fn options(&self, peer: IpAddr) -> HopOptions<'static> {
        let spacing = if peer == A { self.spacing } else { SocketPacing::Free };
        HopOptions { spacing, ..HopOptions::default() }
    }
}

/// Of a transfer whose ticket grants this rate.
fn limits(granted: Option<Rate>) -> TransferLimits {
    TransferLimits { granted, ..TransferLimits::default() }
}

fn mbit(rate: u64) -> Rate {
    Rate::bits_per_second(rate * 1_000_000)
}

/// Connections whose peers do not read.
struct Peers(TcpListener);

impl Peers {
    async fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    /// One that looks as if it were with this address.
    async fn stream(&self, peer: IpAddr) -> Stream {
        let tcp = TcpStream::connect(self.0.local_addr().unwrap()).await.unwrap();
        Stream::new(tcp, SocketAddr::new(peer, 1))
    }

    async fn both(&self) -> [Stream; 2] {
        [self.stream(A).await, self.stream(B).await]
    }
}

/// To what the kernel holds a connection, in Mb/s.
fn held(stream: &Stream) -> Option<u64> {
    let bytes_per_s = max_pacing_rate(stream.tcp()).unwrap();
    (bytes_per_s != u64::MAX).then(|| bytes_per_s * 8 / 1_000_000)
}

fn all_held<const N: usize>(streams: [&Stream; N]) -> [Option<u64>; N] {
    streams.map(held)
}

#[tokio::test]
async fn client_transfers_share_its_rate_while_running() {
    let (config, peers) = (Config::client_rate(80), Peers::new().await);
    let rates = Rates::new(config.client_rate);
    let ([a, a_up], [b, b_up], [c, c_up]) =
        (peers.both().await, peers.both().await, peers.both().await);
    let first = rates.begin(1, A, limits(None));
    first.hold(&a, &a_up, |ip| config.options(ip)).unwrap();
    assert_eq!(all_held([&a, &a_up]), [Some(80), Some(80)], "both directions");
    let second = rates.begin(2, A, limits(None));
    assert_eq!(held(&a), Some(40), "also while the second still connects");
    second.hold(&b, &b_up, |ip| config.options(ip)).unwrap();
    let other = rates.begin(3, B, limits(None));
    other.hold(&c, &c_up, |ip| config.options(ip)).unwrap();
    assert_eq!(all_held([&a, &a_up, &b, &b_up, &c, &c_up]), [40, 40, 40, 40, 80, 80].map(Some));
    drop(first);
    assert_eq!(all_held([&b, &b_up, &c]), [80, 80, 80].map(Some));
    assert_eq!(held(&a), Some(40), "it is the next transfer's on that connection");
    drop((second, other));
    assert!(locked(&rates.0).crowds.is_empty());
}

#[tokio::test]
async fn ipv6_host_addresses_share_a_rate() {
    let config = Config::client_rate(80);
    let rates = Rates::new(config.client_rate);
    let addresses = ["2001:db8:0:1::1", "2001:db8:0:1:ffff::2", "2001:db8:0:2::1"];
    let addresses = addresses.map(|address| address.parse::<IpAddr>().unwrap());
    let begun: Vec<_> =
        (0..).zip(addresses).map(|(n, ip)| rates.begin(n, ip, limits(None))).collect();
    let places: Vec<_> = locked(&rates.0).crowds.values().map(|place| place.places).collect();
    assert!(places == [1, 2] || places == [2, 1], "{places:?}");
    drop(begun);
}

#[tokio::test]
async fn lowest_of_ticket_hop_and_share_applies() {
    let peers = Peers::new().await;
    for (rate, granted, client, upstream) in [
        (Some(80), None, Some(30), Some(80)),
        (Some(80), Some(mbit(20)), Some(20), Some(20)),
        (Some(10), Some(mbit(20)), Some(10), Some(10)),
        (None, Some(mbit(40)), Some(30), Some(40)),
        (None, None, Some(30), None),
    ] {
        let config =
            Config { client_rate: rate.map(mbit), spacing: SocketPacing::AtMost(mbit(30)) };
        let rates = Rates::new(config.client_rate);
        let [a, up] = peers.both().await;
        let pacing = rates.begin(1, A, limits(granted));
        pacing.hold(&a, &up, |ip| config.options(ip)).unwrap();
        assert_eq!(all_held([&a, &up]), [client, upstream], "{rate:?} {granted:?}");
    }
}

#[tokio::test]
async fn unlimited_next_transfer_clears_pacing() {
    let (set, none, peers) = (Config::client_rate(80), Config::default(), Peers::new().await);
    let rates = Rates::new(set.client_rate);
    let [a, up] = peers.both().await;
    rates.begin(1, A, limits(None)).hold(&a, &up, |ip| set.options(ip)).unwrap();
    assert_eq!(all_held([&a, &up]), [Some(80), Some(80)]);
    rates.replace(None);
    let free = rates.begin(2, A, limits(None));
    free.hold(&a, &up, |ip| none.options(ip)).unwrap();
    assert_eq!(all_held([&a, &up]), [None, None]);
}

#[tokio::test]
async fn joining_connections_divide_the_share() {
    let (config, peers) = (Config::client_rate(80), Peers::new().await);
    let rates = Rates::new(config.client_rate);
    let [a, up] = peers.both().await;
    let (one, two) = (peers.stream(A).await, peers.stream(A).await);
    let pacing = rates.begin(1, A, limits(None));
    pacing.hold(&a, &up, |ip| config.options(ip)).unwrap();
    let join = pacing.join(crate::Side::Client);
    join(&one).unwrap();
    assert_eq!(all_held([&a, &one, &up]), [40, 40, 80].map(Some));
    join(&two).unwrap();
    let other = rates.begin(2, A, limits(None));
    let thirds = [&a, &one, &two].map(|stream| max_pacing_rate(stream.tcp()).unwrap());
    assert_eq!(thirds, [40_000_000 / 8 / 3; 3], "thirds of a half");
    // A finished transfer no longer takes a share.
    drop((two, other));
    assert_eq!(all_held([&a, &one]), [Some(40), Some(40)]);
    pacing.alone().unwrap();
    assert_eq!(held(&a), Some(80));
}

#[tokio::test]
async fn changed_rate_applies_immediately() {
    let config = Config::client_rate(80);
    let (rates, peers) = (Rates::new(config.client_rate), Peers::new().await);
    let [a, up] = peers.both().await;
    let pacing = rates.begin(1, A, limits(None));
    pacing.hold(&a, &up, |ip| config.options(ip)).unwrap();
    rates.replace(Some(mbit(60)));
    assert_eq!(all_held([&a, &up]), [Some(60), Some(60)]);
    rates.replace(None);
    assert_eq!(all_held([&a, &up]), [None, None]);
    // Without a rate, no transfer takes a share.
    let _free = rates.begin(2, A, limits(None));
    drop(pacing);
    assert!(locked(&rates.0).crowds.is_empty());
}

fn transfer(number: u64, client: &Sharer) -> Transfer {
    Transfer {
        number,
        client: client.clone(),
        ticket: None,
        key: None,
        granted: None,
        upstream: None,
        memberships: Mutex::default(),
        held: Mutex::default(),
    }
}

/// Starts and ends transfers at random: the shares add up to at most the rate and hardly less, and dividing it
/// again changes only a few other transfers each.
#[test]
fn crowd_shares_the_rate_with_few_changes() {
    const RATE: u64 = 8_000_000_000;
    let seed = std::env::var("LONGHAUL_SEED").map_or(11, |seed| seed.parse().unwrap());
    println!("LONGHAUL_SEED={seed}");
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
    let whose = Sharer::client(A);
    let Place { crowd, .. } = Place::new(whose.clone(), Rate::bits_per_second(RATE), 0);
    let crowd = &mut *locked(&crowd);
    let (mut next, mut set, mut changes) = (0, 0, 0);
    for target in [3, 7, 8, 9, 300, 40, 1000, 1000, 5, 0] {
        // Towards the target, and then up and down around it.
        for step in 0..4000 {
            let (count, parts) = (crowd.transfers.len(), crowd.parts);
            let more = if step % 2 == 0 { count < target } else { random.next_u32() % 2 == 0 };
            if more {
                crowd.enter(next, &Arc::new(transfer(next, &whose)), Policy::Fair);
                next += 1;
            } else if let Some(number) = crowd.transfers.keys().next().copied() {
                crowd.leave(number);
            }
            changes += 1;
            let count = crowd.transfers.len() as u64;
            if crowd.parts != parts {
                set += count;
            }
            let each: Vec<_> =
                crowd.transfers.values().map(|t| locked(&t.held).of_client).collect();
            let share = crowd.division().map(|division| division.share(Policy::Fair));
            assert!(each.iter().all(|part| *part == share), "all have the same");
            let sum: u64 = each.iter().flatten().map(|part| part.bps()).sum();
            assert!(sum <= RATE, "{sum} of {count}");
            let least = if count < 8 { RATE - count } else { RATE / 5 * 4 - count };
            assert!(count == 0 || sum >= least, "{sum} of {count}");
        }
    }
    assert!(set < 12 * changes, "{set} parts were set in {changes} changes");
}

#[tokio::test]
async fn tcp_pacing_applies_without_a_rate() {
    let own = Config { spacing: SocketPacing::Own, ..Config::default() };
    let (limited, peers) = (Config { client_rate: Some(mbit(80)), ..own }, Peers::new().await);
    let spaced = |stream: &Stream| stream.wire().in_force().spacing;
    let [a, up] = peers.both().await;
    let rates = Rates::new(None);
    let pacing = rates.begin(1, A, limits(None));
    pacing.hold(&a, &up, |ip| own.options(ip)).unwrap();
    assert_eq!((spaced(&a), spaced(&up)), (SocketPacing::Own, SocketPacing::Free), "by peer");
    let joined = peers.stream(A).await;
    pacing.join(crate::Side::Client)(&joined).unwrap();
    assert_eq!((spaced(&a), spaced(&joined)), (SocketPacing::Own, SocketPacing::Own));
    drop(pacing);
    // A rate still applies, and TCP's own applies once it is removed.
    rates.begin(2, A, limits(Some(mbit(20)))).hold(&a, &up, |ip| own.options(ip)).unwrap();
    assert_eq!(all_held([&a, &up]), [Some(20), Some(20)]);
    rates.begin(3, A, limits(None)).hold(&a, &up, |ip| own.options(ip)).unwrap();
    assert_eq!((spaced(&a), spaced(&up)), (SocketPacing::Own, SocketPacing::Free));
    let rates = Rates::new(limited.client_rate);
    let pacing = rates.begin(4, A, limits(None));
    pacing.hold(&a, &up, |ip| limited.options(ip)).unwrap();
    assert_eq!(all_held([&a, &up]), [Some(80), Some(80)]);
    rates.replace(None);
    assert_eq!((spaced(&a), spaced(&up)), (SocketPacing::Own, SocketPacing::Free));
}

#[tokio::test]
async fn requested_rate_limits_only_the_next_hop() {
    let rates = Rates::new(None);
    let [client, upstream] = Peers::new().await.both().await;
    let config = Config::default();
    let wish = |rate| TransferLimits { upstream: Some(mbit(rate)), ..limits(None) };
    let pacing = rates.begin(1, A, wish(8));
    pacing.hold(&client, &upstream, |peer| config.options(peer)).unwrap();
    assert_eq!((held(&client), held(&upstream)), (None, Some(8)));
    // The lower of it and what is set.
    let set = Config { spacing: SocketPacing::AtMost(mbit(4)), ..config };
    let pacing = rates.begin(2, A, wish(8));
    pacing.hold(&upstream, &client, |peer| set.options(peer)).unwrap();
    assert_eq!((held(&upstream), held(&client)), (None, Some(4)));
}

#[tokio::test]
async fn operator_rate_is_applied_and_removed() {
    let (config, peers) = (Config::default(), Peers::new().await);
    let rates = Rates::new(None);
    let [a, a_up] = peers.both().await;
    let [b, b_up] = peers.both().await;
    let first = rates.begin(1, A, limits(None));
    first.hold(&a, &a_up, |ip| config.options(ip)).unwrap();
    assert_eq!(all_held([&a, &a_up]), [None, None]);
    // A rate for each client, where there was none.
    rates.replace(Some(mbit(80)));
    assert_eq!(all_held([&a, &a_up]), [Some(80), Some(80)]);
    // One for this client in its place, be it higher.
    let whose = Sharer::client(A);
    rates.set(&whose, Some(mbit(200))).unwrap();
    let second = rates.begin(2, A, limits(None));
    second.hold(&b, &b_up, |ip| config.options(ip)).unwrap();
    assert_eq!(all_held([&a, &b]), [Some(100), Some(100)]);
    assert!(rates.set_transfer(2, Some(mbit(30))));
    assert_eq!(all_held([&a, &b]), [Some(100), Some(30)]);
    assert!(rates.set_transfer(2, None) && !rates.set_transfer(3, None));
    assert_eq!(rates.all_set(), [(whose.clone(), mbit(200))]);
    rates.set(&whose, None).unwrap();
    assert_eq!(all_held([&a, &b]), [Some(40), Some(40)]);
    rates.replace(None);
    assert_eq!(all_held([&a, &b, &a_up, &b_up]), [None; 4]);
    drop((first, second));
    let all = locked(&rates.0);
    assert!(all.crowds.is_empty() && all.transfers.is_empty() && all.set.is_empty());
}

#[tokio::test]
async fn ticket_transfers_share_its_total_rate() {
    let (config, peers) = (Config::client_rate(80), Peers::new().await);
    let rates = Rates::new(config.client_rate);
    let of = |rate: Option<u64>| TransferLimits {
        ticket: Some(("order-1".into(), rate.map(mbit))),
        ..TransferLimits::default()
    };
    let ([a, a_up], [b, b_up]) = (peers.both().await, peers.both().await);
    let first = rates.begin(1, A, of(Some(60)));
    first.hold(&a, &a_up, |ip| config.options(ip)).unwrap();
    assert_eq!(held(&a), Some(60));
    // From another address, with the same ticket.
    let second = rates.begin(2, B, of(Some(60)));
    second.hold(&b, &b_up, |ip| config.options(ip)).unwrap();
    assert_eq!(all_held([&a, &b]), [Some(30), Some(30)]);
    let whose = Sharer::Ticket("order-1".into());
    rates.set(&whose, Some(mbit(10))).unwrap();
    assert_eq!(all_held([&a, &b]), [Some(5), Some(5)]);
    rates.set(&whose, None).unwrap();
    assert_eq!(all_held([&a, &b]), [Some(30), Some(30)], "what the ticket says");
    drop(second);
    assert_eq!(held(&a), Some(60));
}

#[test]
fn operator_rates_are_bounded_in_number() {
    let rates = Rates::new(None);
    let whose = |n: usize| Sharer::Ticket(n.to_string().into());
    for n in 0..MOST_SET {
        rates.set(&whose(n), Some(mbit(1))).unwrap();
    }
    assert_eq!(rates.set(&whose(MOST_SET), Some(mbit(1))), Err(TooManyRates));
    rates.set(&whose(0), Some(mbit(2))).unwrap();
    rates.set(&whose(1), None).unwrap();
    rates.set(&whose(MOST_SET), Some(mbit(1))).unwrap();
}

#[tokio::test]
async fn transfers_of_another_process_take_shares() {
    let (config, peers) = (Config::client_rate(80), Peers::new().await);
    let rates = Rates::new(config.client_rate);
    let [a, up] = peers.both().await;
    let first = rates.begin(1, A, limits(None));
    first.hold(&a, &up, |ip| config.options(ip)).unwrap();
    assert_eq!(rates.numbers(), [(Sharer::client(A), 1)]);
    rates.set_elsewhere([(Sharer::client(A), 3), (Sharer::client(B), 1)].into());
    assert_eq!(held(&a), Some(20), "a fourth");
    // One that begins afterwards knows of them too.
    let [b, b_up] = peers.both().await;
    let second = rates.begin(2, B, limits(None));
    second.hold(&b, &b_up, |ip| config.options(ip)).unwrap();
    assert_eq!(held(&b), Some(40));
    rates.set_elsewhere([].into());
    assert_eq!(all_held([&a, &b]), [Some(80), Some(80)]);
}

#[tokio::test]
async fn key_and_depot_rates_are_shared() {
    let (config, peers) = (Config::default(), Peers::new().await);
    let rates = Rates::new(None);
    let of = |key: Option<&str>| TransferLimits {
        ticket: key.map(|key| (format!("of {key}").into(), None)),
        key: key.map(Into::into),
        ..TransferLimits::default()
    };
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(peers.both().await);
    }
    let begun: Vec<_> = [Some("k1"), Some("k1"), None]
        .into_iter()
        .zip(&streams)
        .zip(1..)
        .map(|((key, [a, up]), number)| {
            let rate = rates.begin(number, if number == 1 { A } else { B }, of(key));
            rate.hold(a, up, |ip| config.options(ip)).unwrap();
            rate
        })
        .collect();
    let now = || [&streams[0][0], &streams[1][0], &streams[2][0]].map(held);
    rates.set(&Sharer::Key("k1".into()), Some(mbit(80))).unwrap();
    assert_eq!(now(), [Some(40), Some(40), None], "two clients, one signer");
    rates.set(&Sharer::Depot, Some(mbit(90))).unwrap();
    assert_eq!(now(), [Some(30), Some(30), Some(30)]);
    rates.set(&Sharer::Depot, Some(mbit(150))).unwrap();
    assert_eq!(now(), [Some(40), Some(40), Some(50)], "the lowest applies");
    assert_eq!(rates.all_set().len(), 2);
    rates.set(&Sharer::Key("k1".into()), None).unwrap();
    rates.set(&Sharer::Depot, None).unwrap();
    assert_eq!(now(), [None; 3]);
    drop(begun);
    assert!(locked(&rates.0).crowds.is_empty());
}

#[tokio::test]
async fn policies_divide_a_shared_rate() {
    let (config, peers) = (Config::client_rate(80), Peers::new().await);
    let rates = Rates::new(config.client_rate);
    let ([a, a_up], [b, b_up], [c, c_up]) =
        (peers.both().await, peers.both().await, peers.both().await);
    let begin = |number, stream: &Stream, up: &Stream| {
        let rate = rates.begin(number, A, limits(None));
        rate.hold(stream, up, |ip| config.options(ip)).unwrap();
        rate
    };
    let (first, second) = (begin(1, &a, &a_up), begin(2, &b, &b_up));
    let now = || [&a, &b].map(held);
    assert_eq!(rates.set_policy(1, Policy::High, None), Some(true));
    assert_eq!(now(), [Some(53), Some(26)], "two parts of three");
    assert_eq!(rates.set_policy(1, Policy::Low { minimum: mbit(10) }, None), Some(true));
    assert_eq!(now(), [Some(10), Some(70)]);
    // A minimum is at most an equal part, and a target applies in addition.
    rates.set_policy(1, Policy::Low { minimum: mbit(70) }, None);
    assert_eq!(now(), [Some(40), Some(40)]);
    rates.set_policy(1, Policy::Low { minimum: mbit(10) }, None);
    rates.set_policy(2, Policy::High, Some(mbit(20)));
    assert_eq!(now(), [Some(10), Some(20)], "what it does not use is not given to others");
    drop(second);
    assert_eq!(held(&a), Some(80), "alone, it has all");
    let third = begin(3, &c, &c_up);
    assert_eq!([&a, &c].map(held), [Some(10), Some(70)]);
    assert_eq!(rates.set_policy(1, Policy::Fair, None), Some(true));
    assert_eq!([&a, &c].map(held), [Some(40), Some(40)]);
    assert_eq!(rates.set_policy(9, Policy::High, None), None);
    // A rate that is set later is shared by the policy, too.
    rates.replace(None);
    assert_eq!(rates.set_policy(3, Policy::High, None), Some(false));
    assert_eq!([&a, &c].map(held), [None, None]);
    rates.set(&Sharer::Depot, Some(mbit(90))).unwrap();
    assert_eq!([&a, &c].map(held), [Some(30), Some(60)]);
    drop((first, third));
    assert!(locked(&rates.0).crowds.is_empty());
}
