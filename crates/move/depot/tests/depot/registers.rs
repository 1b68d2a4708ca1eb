// SPDX-License-Identifier: GPL-2.0-or-later
//! Announcements between depots: they reach all, and a depot cannot forge those of others.

use crate::common::{
    client::{body, get, status},
    process::Daemon,
    scripted::Scripted,
};
use protocol::{
    announcement::Announcement,
    http::load::Load,
    ticket::{KeySet, Signer, UnixTime},
};
use serde_json::{Value, json};
use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::SystemTime,
};
use tempfile::TempDir;
use testkit::{etcd::Etcd, until};

/// Depots with keys that all trust.
struct Depots {
    directory: TempDir,
    depots: Vec<Daemon>,
}

fn settings(more: &str) -> String {
    format!(
        "listen = [\"127.0.0.1:0\"]\nadmin.listen = \"127.0.0.1:0\"\n{more}\n[allow]\nclients = [\"127.0.0.0/8\"]\n\
         local = true\nupstreams = [\"127.0.0.0/8:*\", \"o.example:80\"]\n"
    )
}

fn signer(address: SocketAddr, seed: u8) -> Signer {
    Signer::from_seed([seed; 32]).unwrap().named(&address.to_string())
}

fn key_set<'s>(signers: impl IntoIterator<Item = &'s Signer>) -> String {
    let keys = signers.into_iter().map(Signer::public_set).collect::<Vec<_>>();
    let keys =
        keys.iter().map(|set| serde_json::from_str::<Value>(set).unwrap()["keys"][0].clone());
    json!({ "keys": keys.collect::<Vec<_>>() }).to_string()
}

impl Depots {
    /// Each is trusted by all; `also` are trusted addresses, whose keys are of seeds from 100 on.
    fn start(count: u8, also: &[SocketAddr]) -> Self {
        Self::start_with(count, also, |_| String::new())
    }

    /// Each with more settings of its register.
    fn start_with(count: u8, also: &[SocketAddr], more: impl Fn(u8) -> String) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = |n: u8| directory.path().join(format!("{n}.toml"));
        let depots: Vec<Daemon> =
            (0..count).map(|n| Daemon::of_file(&file(n), &settings(""))).collect();
        let signers: Vec<Signer> =
            depots.iter().zip(0..).map(|(depot, n)| signer(depot.address, n)).collect();
        let others: Vec<Signer> = also.iter().zip(100..).map(|(at, n)| signer(*at, n)).collect();
        let trust = directory.path().join("depots.jwks");
        fs::write(&trust, key_set(signers.iter().chain(&others))).unwrap();
        for (n, (depot, signer)) in (0..).zip(depots.iter().zip(&signers)) {
            let key = directory.path().join(format!("{n}.pem"));
            fs::write(&key, signer.to_pem()).unwrap();
            let register = format!(
                "register = {{ address = \"{}\", place = [{n}, 0], key = \"{}\", trust = \"{}\", every = \"1s\"{} }}",
                depot.address,
                key.display(),
                trust.display(),
                more(n)
            );
            depot.read_again(&file(n), &settings(&register));
        }
        Self { directory, depots }
    }

    fn keys(&self) -> KeySet {
        KeySet::parse(&fs::read_to_string(self.file("depots.jwks")).unwrap()).unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

fn told(depot: &Daemon) -> Vec<String> {
    let document: Value = serde_json::from_slice(&body(&depot.url("/lh1/depots"))).unwrap();
    let tokens = document["depots"].as_array().unwrap();
    tokens.iter().map(|token| token.as_str().unwrap().to_owned()).collect()
}

/// What a depot has heard, by address; each is signed by the one that it is about.
fn heard(depot: &Daemon, keys: &KeySet) -> Vec<String> {
    let now = UnixTime::from(SystemTime::now());
    let verify = |token: &String| Announcement::verify(token, keys, now).unwrap();
    told(depot).iter().map(|token| verify(token).address.to_string()).collect()
}

fn is_trusted_by(file: &Path, signers: &[&Signer]) {
    fs::write(file, key_set(signers.iter().copied())).unwrap();
}

#[test]
fn announcements_spread_until_the_key_is_revoked() {
    let mut depots = Depots::start(4, &[]);
    let keys = depots.keys();
    let mut all: Vec<String> = depots.depots.iter().map(Daemon::authority).collect();
    all.sort();
    for depot in &depots.depots {
        until("it has heard of all", || heard(depot, &keys) == all);
    }
    let first = &depots.depots[0];
    let hops = || first.status().register.iter().find(|it| it.own).map(|own| own.hops.len());
    until("it tells of its connections to the others", || hops() == Some(3));
    let status = first.status();
    let own: Vec<_> = status.register.iter().filter(|it| it.own).collect();
    assert_eq!((status.register.len(), own.len()), (4, 1));
    assert_eq!(own[0].depot, first.authority());
    assert_eq!((own[0].place, own[0].rules), (Some([0.0, 0.0]), Some(2)));
    let metrics = String::from_utf8(body(&format!("http://{}/metrics", first.admin()))).unwrap();
    let line =
        format!("longhaul_depot_register_age_seconds{{depot=\"{}\"}}", depots.depots[1].address);
    assert!(metrics.contains(&line), "{metrics}");
    // A key that is trusted no more: what it has signed is forgotten at once, wherever it is heard of.
    let gone = depots.depots.pop().unwrap();
    let signers: Vec<Signer> =
        depots.depots.iter().zip(0..).map(|(depot, n)| signer(depot.address, n)).collect();
    is_trusted_by(&depots.file("depots.jwks"), &signers.iter().collect::<Vec<_>>());
    for depot in &depots.depots {
        until("it is forgotten", || !heard(depot, &keys).contains(&gone.authority()));
    }
}

#[test]
fn unlisted_clients_get_no_announcements() {
    let depots = Depots::start(1, &[]);
    let depot = &depots.depots[0];
    assert_eq!(status(&get(depot.address, "/lh1/depots").0), 200);
    let none = Daemon::depot("");
    assert_ne!(status(&get(none.address, "/lh1/depots").0), 200, "it has no register");
    let settings = fs::read_to_string(depots.file("0.toml")).unwrap();
    let closed = settings.replace("clients = [\"127.0.0.0/8\"]", "clients = [\"192.0.2.0/24\"]");
    depot.read_again(&depots.file("0.toml"), &closed);
    assert_eq!(status(&get(depot.address, "/lh1/depots").0), 403);
}

/// A trusted depot that passes on forgeries, another one's words as its own, old announcements, and far more than is read.
#[test]
fn trusted_depot_cannot_forge_announcements_of_others() {
    let answers = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let said = std::sync::Arc::clone(&answers);
    let liar = Scripted::new(move |mut stream, _| {
        let text = said.lock().unwrap().clone();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", text.len());
        let _ = std::io::Write::write_all(&mut stream, (head + &text).as_bytes());
    });
    let depots = Depots::start(2, &[liar.address]);
    let keys = depots.keys();
    let [first, second] = &depots.depots[..] else { unreachable!("two") };
    for depot in [first, second] {
        until("the two know each other", || heard(depot, &keys).len() == 2);
    }
    let now = UnixTime::from(SystemTime::now());
    let announced = |address: SocketAddr, signed: UnixTime, connections| Announcement {
        address: address.to_string().parse().unwrap(),
        place: None,
        signed,
        expires: signed.plus(3000),
        load: Load {
            connections,
            connections_limit: 9,
            leaving: false,
            transfers: 0,
            rate_bps: 0,
            highest_rate_bps: 0,
        },
        admits: None,
        hops: Vec::new(),
    };
    let own = signer(liar.address, 100);
    let token =
        |address, signed, connections| announced(address, signed, connections).sign(&own).unwrap();
    let old_of_second = told(second).into_iter().find(|token| {
        let of = Announcement::verify(token, &keys, now).unwrap();
        of.address.to_string() == second.authority()
    });
    let stranger: SocketAddr = "127.0.0.1:9".parse().unwrap();
    let later = now.plus(25);
    let tokens = vec![
        token(second.address, later, 777),
        token(stranger, later, 777),
        old_of_second.clone().unwrap(),
        "a.b.c".to_owned(),
        token(liar.address, now, 5),
    ];
    *answers.lock().unwrap() = json!({ "depots": tokens }).to_string();
    let connections = |depot: &Daemon, of: SocketAddr| {
        let status = depot.status();
        let found = status.register.iter().find(|it| it.depot == of.to_string());
        found.map(|it| it.connections)
    };
    for depot in [first, second] {
        until("the liar has told of itself", || connections(depot, liar.address) == Some(5));
        assert_eq!(connections(depot, stranger), None);
        assert!(connections(depot, second.address).is_some_and(|count| count != 777));
    }
    // More than anybody reads, an endless answer, and no JSON: all goes on.
    for answer in ["[".repeat(1 << 20), "x".repeat(6 << 20), String::new()] {
        *answers.lock().unwrap() = answer;
        let age = || first.status().register.iter().find(|it| it.own).map(|it| it.age_s);
        std::thread::sleep(std::time::Duration::from_millis(1500));
        until("it tells still", || age().is_some_and(|age| age <= 2.0));
        assert_eq!(heard(first, &keys).len(), 3);
    }
}

/// They cannot ask each other, and hear of each other in etcd all the same: also after it was away, and not of what others write there.
#[test]
fn depots_discover_each_other_in_etcd() {
    let mut etcd = Etcd::start();
    let address = etcd.address;
    let in_etcd = |_| format!(", etcd = {{ endpoints = [\"http://{address}\"] }}");
    let mut depots = Depots::start_with(2, &[], in_etcd);
    let keys = depots.keys();
    for n in 0..2 {
        let file = depots.file(&format!("{n}.toml"));
        let settings = fs::read_to_string(&file).unwrap();
        let closed = settings.replace("upstreams = [\"127.0.0.0/8:*\", ", "upstreams = [");
        depots.depots[usize::from(n as u8)].read_again(&file, &closed);
    }
    for depot in &depots.depots {
        until("both are heard", || heard(depot, &keys).len() == 2);
    }
    // Without a signature, and what is signed for another.
    let stranger = signer("127.0.0.1:9".parse().unwrap(), 77);
    etcd.put("127.0.0.1:9", &stranger.public_set().replace(['\n', ' '], ""));
    let second = told(&depots.depots[1]);
    etcd.put("127.0.0.1:8", &second[0]);
    etcd.stop();
    let gone = depots.depots.pop().unwrap().authority();
    let left = &depots.depots[0];
    assert_eq!(heard(left, &keys).len(), 2, "what is known stays known");
    etcd.start_again();
    // As at the end of its lease, which is 30 s.
    etcd.delete(&gone);
    until("the one that has gone is gone", || !heard(left, &keys).contains(&gone));
    let own = left.authority();
    until("the other one is there again", || etcd.get(&own).is_some());
    assert_eq!(heard(left, &keys), [own]);
}
