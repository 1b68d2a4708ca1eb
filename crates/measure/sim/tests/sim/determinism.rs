// SPDX-License-Identifier: GPL-2.0-or-later
//! The same run gives the same outcome: repeated, in other steps, and in parallel with other runs.

use crate::common::{outcome, runs};
use longhaul_sim::{Outcome, Simulation};
use scenario::Run;

/// Everything that draws or that depends on order: random loss, web traffic, on-off sources, a chain,
/// streams, jitter, both ways of finding losses.
fn busy(seed: u64, profile: &str) -> Run {
    let mut runs = runs(&format!(
        r#"
        title = "Busy"
        seed = {seed}
        duration = "8s"
        [tcp]
        profile = "{profile}"
        [[node]]
        name = "source#"
        count = 3
        [[node]]
        name = "depot"
        [[node]]
        name = "sink"
        cc = "lh_bbr"
        [[link]]
        name = "access-#"
        count = 3
        between = ["source#", "depot"]
        rate = "50mbit"
        delay = "3ms"
        delay_spread = "2ms"
        [[link]]
        name = "haul"
        between = ["depot", "sink"]
        rate = "40mbit"
        delay = "20ms"
        loss = {{ gilbert_elliott = {{ p = "0.1%", r = "20%", loss_bad = "30%" }} }}
        queue = "60p"
        [[flow]]
        name = "flow-#"
        count = 3
        from = "source#"
        to = "sink"
        bytes = "5MB"
        jitter = "500ms"
        streams = 2
        [[flow]]
        name = "chain"
        from = "source1"
        to = "sink"
        via = ["depot"]
        [[background]]
        link = "haul"
        from = ["source2", "source3"]
        to = "sink"
        share = "30%"
        [[traffic]]
        from = "source3"
        to = "sink"
        kind = "on-off"
        on = "200KB"
        off = "300ms"
        "#
    ));
    runs.remove(0)
}

fn in_steps_of(run: &Run, events: u64) -> Outcome {
    let mut simulation = Simulation::new(run).unwrap();
    while simulation.advance(events) {}
    simulation.outcome()
}

/// Without tolerance: doubles are compared as they are.
fn assert_same(one: &Outcome, other: &Outcome) {
    assert!(one.summary == other.summary, "summaries differ");
    assert!(one.series == other.series, "series differ");
}

const PROFILES: [&str; 2] = ["linux", "ns2"];

#[test]
fn again_and_in_other_steps() {
    for profile in PROFILES {
        let run = busy(1, profile);
        let first = outcome(&run);
        assert!(first.summary.links.iter().any(|link| link.losses > 0), "something was lost");
        assert_same(&first, &outcome(&run));
        for events in [1, 7, 1000] {
            assert_same(&first, &in_steps_of(&run, events));
        }
    }
}

/// To look on the way changes nothing.
#[test]
fn looked_at_on_the_way() {
    let run = busy(2, "linux");
    let mut simulation = Simulation::new(&run).unwrap();
    while simulation.advance(50_000) {
        let looked_at = simulation.outcome();
        assert_eq!(looked_at.summary.flows.len(), run.flows.len());
        assert!((0.0..=1.0).contains(&simulation.progress()));
    }
    assert_same(&outcome(&run), &simulation.outcome());
}

#[test]
fn parallel_runs_give_the_same_outcome() {
    let runs: Vec<Run> = (1..=3).map(|seed| busy(seed, "linux")).collect();
    let alone: Vec<Outcome> = runs.iter().map(outcome).collect();
    std::thread::scope(|scope| {
        for (run, alone) in runs.iter().zip(&alone).chain(runs.iter().zip(&alone)) {
            scope.spawn(|| assert_same(alone, &outcome(run)));
        }
    });
}

/// By turns in one thread: no state is shared.
#[test]
fn by_turns() {
    let runs = [busy(1, "linux"), busy(1, "ns2")];
    let mut simulations = runs.each_ref().map(|run| Simulation::new(run).unwrap());
    let mut one_goes_on = true;
    while one_goes_on {
        one_goes_on = false;
        for simulation in &mut simulations {
            one_goes_on |= simulation.advance(1000);
        }
    }
    for (run, simulation) in runs.iter().zip(&mut simulations) {
        assert_same(&outcome(run), &simulation.outcome());
    }
}

#[test]
fn another_seed_is_another_run() {
    let outcomes = [1, 2].map(|seed| outcome(&busy(seed, "linux")));
    assert!(outcomes[0].summary != outcomes[1].summary);
}

#[test]
fn no_curve_has_two_samples_at_one_time() {
    // The run ends where a sample is due.
    let outcome = outcome(&busy(1, "linux"));
    for (entity, quantity, curve) in outcome.series.curves() {
        assert!(curve.time_s.is_sorted_by(|a, b| a < b), "{} of {entity}", quantity.name());
    }
}
