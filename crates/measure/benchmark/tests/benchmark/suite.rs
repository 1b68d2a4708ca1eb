// SPDX-License-Identifier: GPL-2.0-or-later

use crate::cells::plan;
use longhaul_benchmark::{BenchmarkError, Extent, Plan, TASKS};
use std::collections::BTreeSet;

#[test]
fn every_task_has_runs_of_its_variants_by_every_algorithm() {
    for extent in [Extent::Quick, Extent::Full] {
        let plan = Plan::new(&["lh_fast".into(), "bbr".into()], &[], &[], extent).unwrap();
        assert_eq!(plan.candidates(), ["lh_reno", "lh_fast", "bbr"]);
        let batches = plan.batches().unwrap();
        for task in TASKS {
            let of_task = batches.iter().filter(|batch| batch.scenario == task.scenario);
            for batch in of_task {
                let named: BTreeSet<&str> = batch
                    .runs
                    .iter()
                    .filter_map(|run| run.variant.as_ref().map(|it| it.name.as_str()))
                    .collect();
                let mut wanted = task.variants.iter().copied().chain(task.beside);
                assert!(wanted.all(|variant| named.contains(variant)), "{}: {named:?}", task.name);
                let seeds: BTreeSet<u32> = batch.runs.iter().map(|run| run.repeat).collect();
                assert_eq!(seeds.len() as u32, extent.seeds());
            }
            assert!(batches.iter().any(|batch| batch.scenario == task.scenario), "{}", task.name);
            assert!(!task.measures.is_empty());
        }
        let folders: BTreeSet<&str> = batches.iter().map(|batch| batch.folder.as_str()).collect();
        assert_eq!(folders.len(), batches.len(), "a folder each");
        // Each beside each, and beside the usual one.
        let meetings = batches.iter().filter(|batch| batch.scenario == "beside");
        assert_eq!(meetings.count(), 3 * 4 + 1);
    }
}

#[test]
fn all_candidates_share_seeds() {
    let plan = plan(&["lh_cubic"], &["files", "beside"]);
    let seeds = |candidate: &str| -> BTreeSet<u64> {
        let batches = plan.batches().unwrap();
        let own = batches.iter().filter(|batch| batch.candidate == candidate);
        own.flat_map(|batch| batch.runs.iter().map(|run| run.seed)).collect()
    };
    assert_eq!(seeds("lh_reno"), seeds("lh_cubic"));
    let other = plan.clone().with_seeds(Some(2), None).batches().unwrap();
    assert!(other[0].runs.iter().all(|run| !seeds("lh_reno").contains(&run.seed)));
}

#[test]
fn plan_runs_only_requested_tasks() {
    let batches = plan(&["lh_cubic"], &["outage"]).batches().unwrap();
    assert!(batches.iter().all(|batch| batch.scenario == "conditions"));
    let variants: BTreeSet<&str> =
        batches[0].runs.iter().map(|run| run.variant.as_ref().unwrap().name.as_str()).collect();
    assert_eq!(variants, BTreeSet::from(["outage", "plain"]), "with what it is compared with");
    let chains = Plan::new(&[], &[], &[2], Extent::Quick).unwrap();
    assert!(chains.tasks().iter().any(|task| task.name == "two-depots"));
    assert!(chains.tasks().iter().all(|task| task.name != "one-depot"));
}

#[test]
fn unknown_names_are_refused_with_the_known_ones() {
    let new = |cc: &[&str], tasks: &[&str], chains: &[u32]| {
        let owned = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        Plan::new(&owned(cc), &owned(tasks), chains, Extent::Quick)
    };
    let said = |result: Result<Plan, BenchmarkError>| result.unwrap_err().to_string();
    assert!(said(new(&[], &["bulky"], &[])).contains("no task \"bulky\": the tasks are bulk,"));
    let with_reference = new(&["lh_cubic", "lh_reno"], &[], &[]).unwrap();
    assert_eq!(with_reference.candidates(), ["lh_reno", "lh_cubic"]);
    assert!(said(new(&["bbr", "bbr"], &[], &[])).contains("bbr is named twice"));
    assert!(said(new(&[], &[], &[3])).contains("3 chains of depots"));
    let batches = new(&["lh_none"], &["bulk"], &[]).unwrap().batches();
    assert!(batches.is_ok(), "the method checks that the control exists");
    let strange = new(&["a b\"c"], &["bulk"], &[]).unwrap().batches();
    assert!(strange.unwrap_err().to_string().contains("a b\"c cannot be run"));
}
