// SPDX-License-Identifier: GPL-2.0-or-later
//! What the card calls different has the same order under other seeds.

use crate::cells::plan;
use experiment::{Options, run_all};
use longhaul_benchmark::{Card, Cell, Outcomes, Plan};
use record::OfferedFiles;
use sim::Simulated;

fn run(plan: &Plan) -> Card {
    let folder = tempfile::tempdir().unwrap();
    let mut outcomes = Outcomes::default();
    for batch in plan.batches().unwrap() {
        let options = Options { jobs: 2, ..Options::new(folder.path().join(&batch.folder)) };
        for results in run_all(&batch.runs, &Simulated, &options, |_| ()).unwrap() {
            let cell = Cell::new(batch.other.as_deref(), results, OfferedFiles::default());
            outcomes.add(&batch.candidate, batch.scenario, cell);
        }
    }
    Card::new(plan, "sim", "0", &outcomes)
}

#[test]
fn other_seeds_give_the_same_order() {
    let tasks =
        ["short-queue", "codel", "wireless", "reordering", "policer", "outage", "path-change"];
    let plan = plan(&["lh_cubic", "lh_htcp", "lh_scalable"], &tasks);
    let (one, other) = (run(&plan), run(&plan.clone().with_seeds(Some(1001), None)));
    let (mut called, mut kept) = (0, 0);
    for (task, again) in one.tasks.iter().zip(&other.tasks) {
        for (measure, again) in task.measures.iter().zip(&again.measures) {
            for pair in measure.pairs.iter().filter(|pair| pair.differs) {
                let same =
                    again.pairs.iter().any(|it| it.better == pair.better && it.worse == pair.worse);
                if !same {
                    println!("{} {}: {pair:?}", task.name, measure.key);
                }
                (called, kept) = (called + 1, kept + usize::from(same));
            }
        }
    }
    println!("{kept} of {called} pairs");
    assert!(called >= 20, "{called} pairs are called different");
    assert!(kept * 10 >= called * 9, "{kept} of {called}");
}
