// SPDX-License-Identifier: GPL-2.0-or-later
//! The ways of older kernels, as far as this one can show them.

use super::{Holder, Loaded, Options, attach, pin::Pin, settings::available};
use crate::lock::Lock;
use crate::{
    CongControl, Error, Restart, Support,
    objects::{self, Setup},
};
use congestion::{Algorithm, Attach};
use std::sync::{Mutex, PoisonError};

static MACHINE: Mutex<()> = Mutex::new(());

fn setup(algorithm: &Algorithm, support: Support, options: &'static Options) -> Setup<'static> {
    let params = algorithm.default_set().values();
    Setup {
        ops: objects::ops(algorithm.attach, support),
        links: support.links,
        params: params.iter().flat_map(|value| value.to_ne_bytes()).collect(),
        options,
    }
}

static OPTIONS: Options = Options { trace: false, initial_ssthresh: None, restricted: false };

/// As before Linux 6.4.
fn load_without_link() -> Loaded {
    let reno = Algorithm::find("reno").expect("there is Reno");
    let support = Support { links: false, ..Support::probe().expect("root") };
    let _lock = Lock::take().expect("root");
    attach("reno", reno.kernel_name(), &setup(reno, support, &OPTIONS)).expect("it loads")
}

fn is_there() -> bool {
    available().expect("TCP's settings").iter().any(|name| name == "lh_reno")
}

#[test]
fn without_links_one_goes_with_its_value() {
    let _alone = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let held = load_without_link();
    assert_eq!(held.holder(), Holder::This);
    assert!(!held.is_inherited(), "it is removed with the value, whatever other process uses it");
    assert!(is_there());
    drop(held);
    assert!(!is_there());
}

#[test]
fn kernel_without_bpf_links_can_pin_and_unload() {
    let _alone = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    load_without_link().pin().expect("a BPF file system");
    assert!(is_there());
    assert!(Pin::find("lh_reno").expect("root").is_some());
    let reno = Algorithm::find("reno").expect("there is Reno");
    super::unload(reno).expect("it is pinned");
    assert!(!is_there());
    assert!(Pin::find("lh_reno").expect("root").is_none());
}

/// The `cong_control` of the other kernels is in every object of the kind, and this one's verifier
/// is the one to refuse it: nothing else of the object is wrong.
#[test]
fn kernel_accepts_only_its_own_cong_control() {
    let _alone = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let support = Support::probe().expect("root");
    let (cong_control, program) = match support.cong_control {
        CongControl::Four => (CongControl::Two, "rate_cong_control_2"),
        CongControl::Two => (CongControl::Four, "rate_cong_control"),
    };
    let others = Support { cong_control, ..support };
    for algorithm in Algorithm::all().iter().filter(|a| a.attach == Attach::Rate) {
        let name = algorithm.kernel_name();
        let setup = setup(algorithm, others, &OPTIONS);
        match objects::load(algorithm.name, &name, &setup) {
            Err(Error::Refused { log, .. }) => {
                assert!(log.contains(&format!("prog '{program}': failed to load")), "{log}");
                assert_eq!(log.matches("BPF program load failed").count(), 1, "{log}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

/// The member that tells of a restart from 7.1 on is in every object that uses it, and an older kernel is told
/// that it lacks it.
#[test]
fn kernel_before_7_1_has_no_restart_callback() {
    let _alone = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let support = Support::probe().expect("root");
    if support.restart == Restart::Own {
        // It would take the older one, too, and never call it.
        return;
    }
    let newer = Support { restart: Restart::Own, ..support };
    for name in ["bbr", "cubic"] {
        let algorithm = Algorithm::find(name).expect("it uses restarts");
        let setup = setup(algorithm, newer, &OPTIONS);
        match objects::load(algorithm.name, &algorithm.kernel_name(), &setup) {
            Err(Error::Refused { log, .. }) => {
                assert!(log.contains("cwnd_event_tx_start"), "{log}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}
