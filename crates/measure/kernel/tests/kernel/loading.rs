// SPDX-License-Identifier: GPL-2.0-or-later
//! Congestion controls that live as long as their holder.

use crate::common::{Pair, as_nobody, available, in_own_network, is_once_more, loaded, once_more};
use congestion::{Algorithm, Attach};
use longhaul_kernel::{
    BpfStatistics, Error,
    cc::{self, Holder, Options, Provider},
};
use std::{
    io::{BufRead, BufReader},
    process::Stdio,
    time::Duration,
};
use testkit::until;
use testkit::with_kernel_names;

#[test]
fn every_algorithm_loads_and_carries_a_transfer() {
    let _turn = with_kernel_names();
    for algorithm in Algorithm::all() {
        let name = algorithm.kernel_name();
        assert!(!available().contains(&name), "{name} is loaded already");
        let held = loaded(algorithm.name, &Options::default());
        assert_eq!((held.name(), held.holder()), (name.as_str(), Holder::This));
        assert!(available().contains(&name));
        in_own_network(|| {
            let pair = Pair::connect(&name);
            pair.transfer(8_000_000);
            assert_eq!(pair.congestion_control(), name);
        });
        drop(held);
        assert!(!available().contains(&name), "{name} outlived its holder");
    }
}

#[test]
fn the_empty_ones_load() {
    let _turn = with_kernel_names();
    for (attach, name) in [(Attach::Window, "lh_empty_window"), (Attach::Rate, "lh_empty_rate")] {
        let held = cc::load_empty(attach).expect("it loads");
        assert_eq!(held.name(), name);
        in_own_network(|| Pair::connect(name).transfer(1_000_000));
        drop(held);
        assert!(!available().iter().any(|other| other == name));
    }
}

#[test]
fn a_second_load_finds_the_first() {
    let _turn = with_kernel_names();
    let first = loaded("reno", &Options::default());
    let second = loaded("reno", &Options::default());
    assert_eq!(second.holder(), Holder::Other);
    let traced = Options { trace: true, ..Options::default() };
    let reno = Algorithm::find("reno").expect("there is Reno");
    assert!(matches!(cc::load(reno.default_set(), &traced), Err(Error::HeldElsewhere { .. })));
    assert!(matches!(cc::unload(reno), Err(Error::HeldElsewhere { .. })));
    assert!(matches!(second.pin(), Err(Error::HeldElsewhere { .. })));
    assert!(available().contains(&"lh_reno".to_owned()), "the second took the first away");
    drop(first);
    assert!(!available().contains(&"lh_reno".to_owned()));
    assert!(matches!(cc::unload(reno), Err(Error::NotLoaded { .. })));
}

#[test]
fn any_user_may_select_an_unrestricted_algorithm() {
    let _turn = with_kernel_names();
    for restricted in [false, true] {
        let held = loaded("reno", &Options { restricted, ..Options::default() });
        let entry = entry("lh_reno");
        assert_eq!((entry.provider, entry.restricted), (Provider::Process, Some(restricted)));
        let chosen = as_nobody(|| Pair::socket().set_tcp_congestion(b"lh_reno"));
        let refused = chosen.as_ref().err().and_then(std::io::Error::raw_os_error);
        assert_eq!(refused, restricted.then_some(libc::EPERM), "{chosen:?}");
        drop(held);
    }
}

#[test]
fn sockets_keep_an_unloaded_algorithm_and_are_counted() {
    let _turn = with_kernel_names();
    let held = loaded("reno", &Options::default());
    in_own_network(|| {
        // A namespace that only this thread is in.
        let pairs = [Pair::connect("lh_reno"), Pair::connect("lh_reno")];
        assert_eq!(entry("lh_reno").sockets, 2);
        drop(held);
        let entry = entry("lh_reno");
        assert_eq!((entry.provider, entry.sockets), (Provider::Withdrawn, 2));
        for pair in pairs {
            pair.transfer(2_000_000);
            assert_eq!(pair.congestion_control(), "lh_reno");
        }
    });
    assert_eq!(entry("lh_reno").provider, Provider::None);
}

#[test]
fn hooks_are_timed_while_statistics_are_on() {
    let _turn = with_kernel_names();
    let held = loaded("reno", &Options::default());
    let count = || {
        let runs = held.runs().expect("the kernel tells");
        runs.into_iter().find(|runs| runs.hook == "cong_avoid").expect("Reno has it")
    };
    in_own_network(|| {
        Pair::connect("lh_reno").transfer(1_000_000);
        assert_eq!(count().count, 0, "statistics are off");
        let _on = BpfStatistics::enable().expect("root");
        Pair::connect("lh_reno").transfer(1_000_000);
    });
    let runs = count();
    assert!(runs.count > 0 && runs.time > Duration::ZERO, "{runs:?}");
}

/// The test starts itself once more, as the process that is going to be killed.
#[test]
fn algorithm_is_removed_when_its_process_is_killed() {
    if is_once_more() {
        let held = loaded("scalable", &Options::default());
        println!("holding {}", held.name());
        loop {
            std::thread::park();
        }
    }
    let _turn = with_kernel_names();
    let test = "loading::algorithm_is_removed_when_its_process_is_killed";
    let mut holder = once_more(&[], test).stdout(Stdio::piped()).spawn().expect("it starts");
    let said = BufReader::new(holder.stdout.take().expect("piped")).lines();
    let holds = said.map_while(Result::ok).any(|line| line.contains("holding lh_scalable"));
    assert!(holds, "the holder ended early");
    assert!(available().contains(&"lh_scalable".to_owned()));
    holder.kill().expect("it runs"); // SIGKILL
    holder.wait().expect("it was ours");
    until("the kernel drops it", || !available().contains(&"lh_scalable".to_owned()));
}

fn entry(name: &str) -> cc::Entry {
    let entries = cc::list().expect("root");
    entries.into_iter().find(|entry| entry.name == name).expect("it is one of longhaul's")
}
