// SPDX-License-Identifier: GPL-2.0-or-later
//! Scores as tables of text.

use crate::text_table::TextTable;
use ::report::{compare::written_p, format, written_score};
use benchmark::{Card, Estimate, MeasureScores, compare::Change};

/// All candidates, by groups of tasks.
pub fn whole(card: &Card) -> String {
    let mut table = TextTable::default();
    table.left("congestion control", 18);
    table.right("whole", 12);
    let groups = card.whole.first().map_or(&[][..], |whole| &whole.groups);
    for group in groups {
        table.right(&group.group, 12);
    }
    for whole in &card.whole {
        let groups = whole.groups.iter().map(|group| relative(group.relative.as_ref()));
        let cells = [whole.candidate.clone(), relative(whole.relative.as_ref())];
        table.row(cells.into_iter().chain(groups).collect(), String::new());
    }
    let reference = &card.reference;
    let seeds = card.seeds;
    table.text()
        + &format!(
            "times better than {reference}, geometric means over tasks and {seeds} seeds, with 95 % confidence intervals\n"
        )
}

/// All measures of a task.
pub fn task(card: &Card, name: &str) -> String {
    let Some(task) = card.tasks.iter().find(|task| task.name == name) else { return String::new() };
    let heading = format!("{}: {}\n", task.name, task.title);
    task.measures.iter().fold(heading, |text, it| text + &measure(card, it))
}

fn measure(card: &Card, measure: &MeasureScores) -> String {
    let mut table = TextTable::default();
    table.left("congestion control", 18);
    table.right(&measure.title, 14);
    table.right(&format!("over {}", card.reference), 14);
    table.left(" within chance of", 18);
    for score in &measure.scores {
        let absolute = score.absolute.map_or_else(
            || "-".to_owned(),
            |it| {
                let value = |number: f64| written_score(number, measure.unit);
                match (it.low, it.high) {
                    (Some(low), Some(high)) => {
                        format!("{} [{}, {}]", value(it.mean), value(low), value(high))
                    }
                    _ => value(it.mean),
                }
            },
        );
        let is_close = |pair: &&benchmark::Pair| {
            !pair.differs && [&pair.better, &pair.worse].contains(&&score.candidate)
        };
        let other = |pair: &benchmark::Pair| {
            if pair.better == score.candidate { pair.worse.clone() } else { pair.better.clone() }
        };
        let close: Vec<String> = measure.pairs.iter().filter(is_close).map(other).collect();
        let cells = vec![
            score.candidate.clone(),
            absolute,
            relative(score.relative.as_ref()),
            format!(" {}", close.join(", ")),
        ];
        table.row(cells, String::new());
    }
    table.text()
}

/// As `1.23 ± 0.04`: the larger half of the interval.
fn relative(estimate: Option<&Estimate>) -> String {
    let Some(estimate) = estimate else { return "-".to_owned() };
    let mean = format::significant(estimate.mean, 3);
    match (estimate.low, estimate.high) {
        (Some(low), Some(high)) => {
            let half = (high - estimate.mean).max(estimate.mean - low);
            format::plus_minus(&mean, &format::significant(half, 2))
        }
        _ => mean,
    }
}

/// What changed, or all measures.
pub fn changes(changes: &[Change], all: bool) -> String {
    let mut table = TextTable::default();
    table.left("task", 12);
    table.left("measure", 18);
    table.left("from", 10);
    table.left("to", 10);
    table.right("better", 16);
    table.right("p", 8);
    table.left(" verdict", 10);
    let shown: Vec<&Change> = changes.iter().filter(|change| all || change.differs).collect();
    for change in &shown {
        let verdict = match (change.differs, change.better.mean >= 1.0) {
            (false, _) => " chance",
            (true, true) => " better",
            (true, false) => " worse",
        };
        table.row(
            vec![
                change.task.clone(),
                change.measure.clone(),
                change.from.clone(),
                change.to.clone(),
                relative(Some(&change.better)),
                written_p(change.p),
                verdict.to_owned(),
            ],
            String::new(),
        );
    }
    let rest = changes.len() - shown.len();
    let chance = if all {
        String::new()
    } else {
        format!("{rest} measures differ by no more than chance\n")
    };
    let text = if shown.is_empty() { String::new() } else { table.text() };
    text + &chance
}
