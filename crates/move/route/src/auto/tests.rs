// SPDX-License-Identifier: GPL-2.0-or-later
use super::*;
use protocol::announcement::{Announcement, HopFacts};
use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::SystemTime;

/// A depot that answers each question with this load, or nothing.
fn depot(load: Option<&'static str>) -> DepotAddress {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let Ok(length) = stream.read(&mut head) else { continue };
            match load {
                Some(load) if head[..length].starts_with(b"GET /lh1/load ") => {
                    let length = load.len();
                    let answer =
                        format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{load}");
                    let _ = stream.write_all(answer.as_bytes());
                }
                _ => thread::sleep(Duration::from_secs(5)),
            }
        }
    });
    address.to_string().parse().unwrap()
}

fn nowhere() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn done(seconds: u64) -> Attempt {
    let time = Duration::from_secs(seconds);
    Attempt::new(AttemptEnd::Done, time, Bytes::new(50 << 20))
}

fn failed(end: AttemptEnd) -> Attempt {
    Attempt::new(end, Duration::from_secs(5), Bytes::new(0))
}

fn settings() -> AutoSettings {
    AutoSettings { timeout: Duration::from_secs(5), ..AutoSettings::default() }
}

fn auto() -> Auto {
    Auto::alone(settings(), Arc::default())
}

#[tokio::test]
async fn probes_find_round_trips_and_claims_and_wait_a_second_at_most() {
    let busy = r#"{"connections":1,"connections_limit":2,"leaving":false,"transfers":7,"rate_bps":90,"highest_rate_bps":100}"#;
    let old = r#"{"connections":1,"connections_limit":2,"leaving":false}"#;
    let [busy, old, silent] = [Some(busy), Some(old), None].map(depot);
    let absent: DepotAddress = nowhere().to_string().parse().unwrap();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = Destination::Address(server.local_addr().unwrap());
    let chains =
        [vec![busy.clone()], vec![old.clone(), silent.clone()], vec![absent.clone()], vec![]];
    let chains: Vec<&[DepotAddress]> = chains.iter().map(Vec::as_slice).collect();
    let auto = auto();
    let begun = std::time::Instant::now();
    auto.prepare(&to, &chains).await;
    assert!(begun.elapsed() < Duration::from_secs(4), "it waits for a silent depot");
    let found =
        |depot: &DepotAddress| auto.found(depot).map(|found| (found.rtt_s.is_some(), found.claim));
    let claim = overlay::Claim { rate_bps: 90.0, highest_bps: 100.0, transfers: 7 };
    assert_eq!(found(&busy), Some((true, Some(claim))));
    assert_eq!(found(&old), Some((true, None)));
    assert_eq!(found(&silent), Some((true, None)), "it was reached, and says nothing");
    assert_eq!(found(&absent), Some((false, None)));
    let candidates = auto.facts.candidates(&to, &chains, &Memory::default());
    let shapes: Vec<_> = candidates.iter().map(|it| (it.hops.len(), it.claims.len())).collect();
    assert_eq!(shapes, [(2, 1), (3, 0), (2, 0), (1, 0)]);
    // The one that is not reached comes last, and is not promising.
    let plan = auto.plan(&to, None, &chains);
    assert_eq!((plan.all().last(), plan.promising().len()), (Some(&2), 3));
}

#[tokio::test]
async fn routes_are_learnt_by_attempts() {
    let auto = auto();
    let to = Destination::Named("data.example.org:443".parse().unwrap());
    let depot: Vec<DepotAddress> = vec!["d.example.org".parse().unwrap()];
    let chains: [&[DepotAddress]; 2] = [&depot, &[]];
    let bytes = Some(Bytes::new(50 << 20));
    let mut taken = Vec::new();
    for _ in 0..40 {
        let first = auto.plan(&to, bytes, &chains).all()[0];
        auto.ended(&to, chains[first], &done([2, 20][first]));
        taken.push(first);
    }
    assert!(taken[30..].iter().all(|at| *at == 0), "{taken:?}");
    // The same by another port of that host, and what is not the route's doing changes nothing.
    let other = Destination::Named("data.example.org:80".parse().unwrap());
    assert_eq!(auto.plan(&other, bytes, &chains).all(), [0, 1]);
    for end in [AttemptEnd::OfDestination, AttemptEnd::OfHost, AttemptEnd::Done] {
        auto.ended(&other, chains[0], &failed(end));
        assert_eq!(auto.plan(&other, bytes, &chains).all(), [0, 1], "{end:?}");
    }
    for end in [AttemptEnd::Refused, AttemptEnd::Doubtful] {
        auto.ended(&other, chains[0], &failed(end));
    }
    let plan = auto.plan(&other, bytes, &chains);
    assert_eq!((plan.all(), plan.promising()), (&[1, 0][..], &[1][..]));
    // A route that was never offered is not remembered: a client could fill the memory.
    let strange: Vec<DepotAddress> = vec!["strange.example".parse().unwrap()];
    auto.ended(&to, &strange, &done(1));
    assert_eq!(auto.memory().paths("data.example.org").count(), 2);
    assert_eq!(auto.plan(&to, bytes, &[]).all(), [0; 0]);
}

#[tokio::test]
async fn best_chain_is_found_first_and_then_how_to_send() {
    let send_alternatives: Vec<SendOptions> =
        ["bbr", "paced", "4 connections"].map(|text| text.parse().unwrap()).into();
    let settings = AutoSettings { send_alternatives, ..settings() };
    let auto = Auto::alone(settings, Arc::default());
    let to = Destination::Named("data.example.org:443".parse().unwrap());
    let depot: Vec<DepotAddress> = vec!["d.example.org".parse().unwrap()];
    let chains: [&[DepotAddress]; 2] = [&[], &depot];
    let bytes = Some(Bytes::new(50 << 20));
    let seconds = |chain: usize, send_options: &str| match (chain, send_options) {
        (0, _) => 20,
        (_, "bbr") => 2,
        (_, "4 connections") => 5,
        _ => 6,
    };
    let mut taken = Vec::new();
    for _ in 0..120 {
        let plan = auto.plan(&to, bytes, &chains);
        let (chain, send_options) = (plan.all()[0], plan.send_options(0).clone());
        assert_eq!(plan.all().len(), 2, "each chain once");
        let text = send_options.to_string();
        let attempt = Attempt { send_options, ..done(seconds(chain, &text)) };
        auto.ended(&to, chains[chain], &attempt);
        taken.push((chain, text));
    }
    let is_other = |(_, text): &(usize, String)| !text.is_empty();
    let first_other = taken.iter().position(is_other).unwrap_or_else(|| panic!("{taken:?}"));
    assert!(taken[..first_other].contains(&(1, String::new())), "as usual first: {taken:?}");
    let best = (1, "bbr".to_owned());
    assert!(taken[90..].iter().filter(|it| **it == best).count() >= 25, "{taken:?}");
    assert!(!taken.iter().any(|(chain, text)| *chain == 0 && !text.is_empty()), "{taken:?}");
    // It moves on to another chain when it is slow, not to another way to send by the same.
    let floor = auto.floor(&to, &depot, &"bbr".parse().unwrap(), bytes).unwrap();
    let direct_bps = f64::from(50 << 20) * 8.0 / 20.0;
    assert!((0.2..0.6).contains(&(floor.rate.bps() as f64 / direct_bps)), "{floor:?}");
    // A short transfer does not last until it matters.
    let plan = auto.plan(&to, Some(Bytes::new(1 << 20)), &chains);
    assert!(plan.send_options(0).is_usual() && plan.send_options(1).is_usual());
    // A chain that has failed is left however this host sends.
    let send_options: SendOptions = "bbr".parse().unwrap();
    auto.plan(&to, bytes, &chains);
    let attempt = Attempt { send_options, ..failed(AttemptEnd::Refused) };
    auto.ended(&to, &depot, &attempt);
    let plan = auto.plan(&to, bytes, &chains);
    assert_eq!((plan.all(), plan.promising()), (&[0, 1][..], &[0][..]));
}

#[test]
fn processes_share_what_they_learn() {
    let directory = tempfile::tempdir().unwrap();
    let auto = || {
        let knowledge = Knowledge::at(directory.path().join("routes.json"));
        Auto::with(Some(knowledge), settings(), Arc::default())
    };
    let to = Destination::Named("data.example.org:443".parse().unwrap());
    let depot: Vec<DepotAddress> = vec!["d.example.org".parse().unwrap()];
    let chains: [&[DepotAddress]; 2] = [&depot, &[]];
    for _ in 0..20 {
        let auto = auto();
        let first = auto.plan(&to, None, &chains).all()[0];
        auto.ended(&to, chains[first], &done([2, 20][first]));
    }
    let auto = auto();
    let (candidates, decision) = auto.explain(&to, None, &chains);
    assert_eq!(candidates[decision.chosen.index].key, "d.example.org:3880");
    assert_eq!(
        auto.memory().paths("data.example.org").map(|(_, path)| path.transfers()).sum::<usize>(),
        20
    );
}

fn announced(depot: &DepotAddress) -> Announcement {
    let now = SystemTime::now().into();
    let load = r#"{"connections":1,"connections_limit":9,"leaving":false,"transfers":4,"rate_bps":80,"highest_rate_bps":90}"#;
    Announcement {
        address: depot.clone(),
        place: None,
        signed: now,
        expires: now,
        load: serde_json::from_str(load).unwrap(),
        admits: None,
        hops: Vec::new(),
    }
}

#[test]
fn announced_hops_never_improve_a_route() {
    let [a, b, c]: [DepotAddress; 3] = ["a", "b", "c"].map(|name| name.parse().unwrap());
    let hop = |rtt_us, loss| HopFacts {
        to: b.clone(),
        rtt_us: Some(rtt_us),
        loss: Some(loss),
        rate_bps: None,
        warm: 1,
    };
    let told = |rtt_us, loss| Announcement { hops: vec![hop(rtt_us, loss)], ..announced(&a) };
    let refusing = Announcement { admits: Some(vec!["x.example:1".to_owned()]), ..announced(&c) };
    let to = Destination::Named("data.example.org:443".parse().unwrap());
    let pair = [a.clone(), b.clone()];
    let chains: [&[DepotAddress]; 3] = [&pair, std::slice::from_ref(&c), &[]];
    let mut memory = Memory::default();
    for (name, rtt_s) in [("a:3880", 0.01), ("b:3880", 0.05), ("data.example.org", 0.09)] {
        memory.measured(name, rtt_s, 0.0);
    }
    let hop_of = |told: Announcement| {
        let auto = Auto::alone(
            AutoSettings { announcements: vec![told, refusing.clone()], ..settings() },
            Arc::default(),
        );
        let candidates = auto.facts.candidates(&to, &chains, &memory);
        assert_eq!(candidates[0].claims.len(), 1, "the announced load is used");
        let plan = auto.plan(&to, None, &chains);
        assert_eq!((plan.all()[2], plan.promising().len()), (1, 2), "c does not admit it");
        candidates[0].hops[1]
    };
    let plain = overlay::Hop::of_round_trip(0.04);
    let near = |one: f64, other: f64| (one / other - 1.0).abs() < 1e-9;
    let lied = hop_of(told(1, 0.0));
    assert!(near(lied.rtt_s, 0.04) && near(lied.loss, plain.loss) && lied.is_warm, "{lied:?}");
    let worse = hop_of(told(200_000, 0.01));
    assert!(near(worse.rtt_s, 0.2) && near(worse.loss, 0.01), "{worse:?}");
}
