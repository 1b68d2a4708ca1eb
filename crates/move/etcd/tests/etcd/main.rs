// SPDX-License-Identifier: GPL-2.0-or-later
//! A real etcd (Debian's etcd-server), which restarts, forgets and is not reached.

mod wire;

use longhaul_etcd::{Change, LONGEST, Settings, announce, follow, list};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};
use testkit::{etcd::Etcd, until};
use tokio::{sync::watch, task::JoinHandle};
use wire::Wire;

/// Depots in etcd at this address.
fn settings(address: SocketAddr) -> Settings {
    let prefix = "/longhaul/depots/".to_owned();
    let (ca, certificate, key, user, password_file) = Default::default();
    let endpoints = vec![format!("http://{address}")];
    Settings { endpoints, prefix, ca, certificate, key, user, password_file }
}

const SECOND: Duration = Duration::from_secs(1);

/// What a follower has heard.
#[derive(Default)]
struct Heard {
    values: BTreeMap<String, String>,
    listed: usize,
    lost: usize,
}

struct Follower {
    heard: Arc<Mutex<Heard>>,
    task: JoinHandle<()>,
}

impl Follower {
    fn of(settings: Settings) -> Self {
        let heard = Arc::new(Mutex::new(Heard::default()));
        let told = Arc::clone(&heard);
        let task = tokio::spawn(async move {
            follow(&settings, |change| {
                let mut heard = told.lock().unwrap();
                match change {
                    Change::All(values) => {
                        heard.values = values.into_iter().collect();
                        heard.listed += 1;
                    }
                    Change::Put(name, value) => drop(heard.values.insert(name, value)),
                    Change::Gone(name) => drop(heard.values.remove(&name)),
                    Change::Lost(_) => heard.lost += 1,
                }
            })
            .await;
        });
        Self { heard, task }
    }

    fn value(&self, name: &str) -> Option<String> {
        self.heard.lock().unwrap().values.get(name).cloned()
    }

    fn counts(&self) -> (usize, usize) {
        let heard = self.heard.lock().unwrap();
        (heard.listed, heard.lost)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn announced(settings: &Settings, name: &'static str, value: &str) -> watch::Sender<String> {
    let (tell, values) = watch::channel(value.to_owned());
    let settings = settings.clone();
    tokio::spawn(async move { announce(&settings, name, values, 2 * SECOND).await });
    tell
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_announces_others_hear_until_it_is_gone() {
    let etcd = Etcd::start();
    let follower = Follower::of(settings(etcd.address));
    until("all is listed", || follower.counts().0 == 1);
    let one = announced(&settings(etcd.address), "one", "1");
    let killed = tokio::spawn({
        let (tell, values) = watch::channel("2".to_owned());
        let settings = settings(etcd.address);
        async move {
            let _stays = tell;
            announce(&settings, "two", values, 2 * SECOND).await;
        }
    });
    until("both are heard", || {
        (follower.value("one"), follower.value("two")) == (Some("1".into()), Some("2".into()))
    });
    one.send("1b".to_owned()).unwrap();
    until("the change is heard", || follower.value("one").as_deref() == Some("1b"));
    tokio::time::sleep(3 * SECOND).await;
    assert!(follower.value("one").is_some(), "its lease is renewed");
    let all = list(&settings(etcd.address), 5 * SECOND).await.unwrap();
    assert_eq!(all, ["1b", "2"]);
    // One ends in good order, the other as by kill -9.
    drop(one);
    killed.abort();
    until("both are gone", || follower.heard.lock().unwrap().values.is_empty());
    assert_eq!(follower.counts(), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn restart_loses_neither_values_nor_changes() {
    let mut etcd = Etcd::start();
    let follower = Follower::of(settings(etcd.address));
    let tell = announced(&settings(etcd.address), "one", "1");
    until("it is heard", || follower.value("one").is_some());
    etcd.stop();
    until("that it is away is told", || follower.counts().1 == 1);
    tell.send("2".to_owned()).unwrap();
    etcd.start_again();
    until("the change is heard", || follower.value("one").as_deref() == Some("2"));
    assert_eq!(follower.counts(), (1, 1), "it went on from the last revision");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_is_listed_again_after_a_compaction() {
    let etcd = Etcd::start();
    let wire = Wire::to(etcd.address).await;
    let follower = Follower::of(settings(wire.address));
    etcd.put("old", "1");
    etcd.put("stays", "1");
    until("both are heard", || {
        follower.value("stays").is_some() && follower.value("old").is_some()
    });
    wire.cut();
    until("it is lost", || follower.counts().1 >= 1);
    etcd.delete("old");
    for n in 0..20 {
        etcd.put("stays", &n.to_string());
    }
    etcd.compact();
    wire.restore();
    until("the last value is heard", || follower.value("stays").as_deref() == Some("19"));
    assert_eq!(follower.value("old"), None, "what was deleted meanwhile is gone");
    assert_eq!(follower.counts().0, 2, "all was listed again");
    etcd.put("new", "1");
    until("and it goes on", || follower.value("new").is_some());
}

/// Packets vanish, and nothing says so.
#[tokio::test(flavor = "multi_thread")]
async fn partition_is_noticed_and_nothing_waits_for_it() {
    let etcd = Etcd::start();
    let wire = Wire::to(etcd.address).await;
    let follower = Follower::of(settings(wire.address));
    let tell = announced(&settings(wire.address), "one", "1");
    until("it is heard", || follower.value("one").is_some());
    wire.hold();
    let begun = std::time::Instant::now();
    let listed = list(&settings(wire.address), SECOND).await;
    assert!(listed.is_err() && begun.elapsed() < 3 * SECOND, "{:?}", begun.elapsed());
    until("its lease runs out", || etcd.get("one").is_none());
    assert!(follower.value("one").is_some(), "what is known stays known");
    etcd.put("two", "2");
    tell.send("1b".to_owned()).unwrap();
    until("that it may be old is told", || follower.counts().1 == 1);
    wire.restore();
    until("all is as it is", || {
        follower.value("two").is_some() && follower.value("one").as_deref() == Some("1b")
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_depots_are_heard_and_no_more_than_fit() {
    let etcd = Etcd::start();
    let value = "x".repeat(700);
    etcd.put_many((0..1000).map(|n| (format!("d{n:04}"), value.clone())));
    let all = list(&settings(etcd.address), 10 * SECOND).await.unwrap();
    assert!(all.len() == 1000 && all.iter().all(|it| *it == value));
    let follower = Follower::of(settings(etcd.address));
    until("all are heard", || follower.heard.lock().unwrap().values.len() == 1000);
    // Further ones, and one that is longer than anybody reads.
    etcd.put_many((1000..1100).map(|n| (format!("d{n:04}"), "y".to_owned())));
    etcd.put("long", &"z".repeat(LONGEST + 1));
    etcd.put("last", "1");
    until("the last is heard", || follower.value("last").is_some());
    assert_eq!(follower.value("long"), None);
    assert_eq!(
        list(&settings(etcd.address), 10 * SECOND).await.unwrap().len(),
        longhaul_etcd::MOST
    );
}

#[tokio::test]
async fn what_is_not_there_is_said_in_time() {
    let nowhere = settings(testkit::refusing_address());
    let begun = std::time::Instant::now();
    assert!(list(&nowhere, SECOND).await.is_err());
    assert!(begun.elapsed() < 3 * SECOND);
}
