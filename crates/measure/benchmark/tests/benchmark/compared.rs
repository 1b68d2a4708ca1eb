// SPDX-License-Identifier: GPL-2.0-or-later

use crate::cells::card_of;
use longhaul_benchmark::{
    BenchmarkError, Card, Extent, MeasureScores, VERSION,
    compare::{self, Side},
};

fn before() -> Card {
    card_of(&[("lh_reno", &[2.0, 2.1, 2.2]), ("lh_cubic", &[1.0, 1.1, 1.2])])
}

#[test]
fn another_version_is_compared_seed_by_seed() {
    let after = card_of(&[("lh_reno", &[2.0, 2.1, 2.2]), ("lh_cubic", &[0.5, 0.55, 0.6])]);
    let changes = compare::cards(&before(), &after).unwrap();
    let [reno, cubic] = &changes[..] else { panic!("{changes:?}") };
    assert!(!reno.differs && (reno.better.mean - 1.0).abs() < 1e-9);
    assert!(cubic.differs && (cubic.better.mean - 2.0).abs() < 1e-9, "{cubic:?}");
    let back = compare::cards(&after, &before()).unwrap();
    assert!((back[1].better.mean - 0.5).abs() < 1e-9);
}

#[test]
fn candidates_of_one_card_and_other_seeds_are_compared() {
    let card = before();
    let side = |candidate| Side { card: &card, candidate };
    let changes = compare::changes(&[(side("lh_reno"), side("lh_cubic"))]).unwrap();
    assert!(changes[0].differs && (1.8..2.1).contains(&changes[0].better.mean), "{changes:?}");
    let other = Card { first_seed: 7, ..before() };
    let changes = compare::cards(&card, &other).unwrap();
    // Welch's test, of samples that vary.
    assert!(!changes[1].differs && changes[1].p > 0.9, "{changes:?}");
}

#[test]
fn measure_that_one_card_lacks_hides_no_other() {
    let (mut card, mut lacks) = (before(), before());
    let only = card.tasks[0].measures[0].clone();
    let more =
        ["processor time", "queueing"].map(|key| MeasureScores { key: key.into(), ..only.clone() });
    card.tasks[0].measures.extend(more.clone());
    lacks.tasks[0].measures.push(more[1].clone());
    for (one, other) in [(&card, &lacks), (&lacks, &card)] {
        let changes = compare::cards(one, other).unwrap();
        let keys: Vec<&str> = changes.iter().map(|change| change.measure.as_str()).collect();
        assert_eq!(keys, ["completion_s", "queueing", "completion_s", "queueing"]);
    }
}

#[test]
fn cards_of_other_runs_are_refused() {
    let refused = |other: &Card| compare::cards(&before(), other).unwrap_err().to_string();
    let next = VERSION + 1;
    let versions = format!("version {VERSION} of the suite, the other of version {next}");
    assert!(refused(&Card { suite: next, ..before() }).contains(&versions));
    let full = Card { extent: Extent::Full, ..before() };
    assert!(refused(&full).contains("one is quick by sim, the other full by sim"));
    let none = Card { candidates: vec!["bbr".into()], ..before() };
    let error = compare::cards(&before(), &none).unwrap_err();
    assert!(matches!(error, BenchmarkError::NothingInCommon));
}
