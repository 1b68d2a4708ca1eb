// SPDX-License-Identifier: GPL-2.0-or-later
//! The Rust face of `cc/`: finding algorithms and parameters, and what no algorithm may do whatever
//! it is told.

use std::collections::HashSet;

use longhaul_congestion::{Ack, Algorithm, Control, Decision, trial};

#[test]
fn an_unknown_algorithm_lists_the_known_ones() {
    let error = Algorithm::find("lh_renno").unwrap_err().to_string();
    assert!(error.contains("no congestion control \"renno\""), "{error}");
    for algorithm in Algorithm::all() {
        assert!(error.contains(algorithm.name), "{error}");
    }
    assert!(error.ends_with("(did you mean \"reno\"?)"), "{error}");
}

#[test]
fn algorithm_is_found_with_and_without_lh_prefix() {
    for algorithm in Algorithm::all() {
        assert_eq!(Algorithm::find(algorithm.name).unwrap().name, algorithm.name);
        assert_eq!(Algorithm::find(&algorithm.kernel_name()).unwrap().name, algorithm.name);
        assert_eq!(algorithm.kernel_name(), format!("lh_{}", algorithm.name));
        assert!(algorithm.kernel_name().len() < 16, "TCP_CA_NAME_MAX");
    }
}

#[test]
fn every_algorithm_describes_itself() {
    let names: HashSet<&str> = Algorithm::all().iter().map(|algorithm| algorithm.name).collect();
    assert_eq!(names.len(), Algorithm::all().len(), "a name twice");
    for algorithm in Algorithm::all() {
        assert!(algorithm.state_bytes <= 104, "{}: ICSK_CA_PRIV_SIZE", algorithm.name);
        for text in [algorithm.title, algorithm.rule, algorithm.source] {
            assert!(!text.is_empty(), "{}", algorithm.name);
        }
        let params: HashSet<&str> = algorithm.params.iter().map(|param| param.name).collect();
        assert_eq!(params.len(), algorithm.params.len(), "{}: a parameter twice", algorithm.name);
        for param in &algorithm.params {
            assert!(!param.unit.is_empty() && !param.what.is_empty(), "{}", param.name);
        }
    }
}

#[test]
fn sets_are_found_by_name_and_the_first_is_the_default() {
    for algorithm in Algorithm::all() {
        assert_eq!(&algorithm.sets[0].params, algorithm.default_set(), "{}", algorithm.name);
        for set in &algorithm.sets {
            assert_eq!(&algorithm.set(set.name).unwrap().params, &set.params);
            assert_eq!(set.params.algorithm().name, algorithm.name);
            assert_eq!(set.params.values().len(), algorithm.params.len());
            assert!(!set.source.is_empty(), "{} {}", algorithm.name, set.name);
        }
        let error = algorithm.set("none such").unwrap_err().to_string();
        assert!(error.contains(algorithm.sets[0].name), "{error}");
    }
}

#[test]
fn one_parameter_can_be_changed() {
    for algorithm in Algorithm::all() {
        for (at, param) in algorithm.params.iter().enumerate() {
            let changed = algorithm.default_set().clone().with(param.name, 7).unwrap();
            for (i, value) in changed.values().iter().enumerate() {
                let before = algorithm.default_set().values()[i];
                assert_eq!(*value, if i == at { 7 } else { before }, "{}", param.name);
            }
        }
        let error = algorithm.default_set().clone().with("none such", 1).unwrap_err().to_string();
        assert!(error.starts_with("there is no parameter \"none such\""), "{error}");
    }
    let reno = Algorithm::find("reno").unwrap().default_set().clone();
    let error = reno.clone().with("betta", 1).unwrap_err().to_string();
    assert!(error.ends_with("(did you mean \"beta\"?)"), "{error}");
    assert_ne!(reno.clone().with("beta", 900).unwrap(), reno);
    assert_eq!(format!("{reno:?}"), "{\"increase\": 1024, \"beta\": 512}");
}

/// No algorithm divides by zero (that would end the process), gives a window of nothing, or lets a
/// window algorithm's window fall while acknowledgements come, whatever it is told.
#[test]
fn no_event_breaks_an_algorithm() {
    let seed = std::env::var("LONGHAUL_SEED").map_or(trial::SEED, |seed| seed.parse().unwrap());
    println!("LONGHAUL_SEED={seed}");
    for algorithm in Algorithm::all() {
        println!("{}", algorithm.name);
        trial::run(algorithm, seed).unwrap_or_else(|broken| panic!("{broken}"));
    }
}

/// A state read elsewhere goes on as the one it was read from.
#[test]
fn a_control_resumes_from_its_state() {
    for algorithm in Algorithm::all() {
        let mut now_us = 1_000_000;
        let mut ack = || {
            now_us += 10_000;
            Ack {
                now_us,
                acked: 3,
                rtt_us: 50_000,
                min_rtt_us: 40_000,
                in_flight: 20,
                prior_in_flight: 23,
                delivered: now_us as u32 / 1000,
                delivery_rate: 1_000_000,
                mss: 1448,
                flags: Ack::CWND_LIMITED,
                ..Ack::default()
            }
        };
        let mut decision = Decision::default();
        let mut control = Control::new(algorithm.default_set(), &ack(), &mut decision);
        for _ in 0..50 {
            control.ack(&ack(), &mut decision);
            decision.cwnd = decision.cwnd.clamp(1, Decision::INFINITE_SSTHRESH);
        }
        let mut resumed = Control::resume(control.params(), *control.state());
        let mut again = decision;
        let ack = ack();
        control.ack(&ack, &mut decision);
        resumed.ack(&ack, &mut again);
        assert_eq!(decision, again, "{}", algorithm.name);
        assert_eq!(control.state(), resumed.state(), "{}", algorithm.name);
    }
}
