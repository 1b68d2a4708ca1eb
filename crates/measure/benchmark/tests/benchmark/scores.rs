// SPDX-License-Identifier: GPL-2.0-or-later

use crate::cells::{card_of, cell, plan, with_flows};
use longhaul_benchmark::{Card, MeasureScores, Outcomes, VERSION};

fn close(one: f64, other: f64) -> bool {
    (one / other - 1.0).abs() < 1e-9
}

fn measure(card: &Card) -> &MeasureScores {
    &card.tasks[0].measures[0]
}

#[test]
fn scores_are_geometric_means_and_ratios_seed_by_seed() {
    let card = card_of(&[("lh_reno", &[2.0, 2.0, 8.0]), ("lh_cubic", &[1.0, 1.0, 4.0])]);
    let [reno, cubic] = &measure(&card).scores[..] else { panic!() };
    let relative = cubic.relative.unwrap();
    assert!(close(cubic.absolute.unwrap().mean, 4.0_f64.cbrt()));
    // Half the time under every seed: no doubt about it, though times differ.
    assert!(close(relative.mean, 2.0) && close(relative.low.unwrap(), 2.0));
    assert!(close(reno.relative.unwrap().mean, 1.0));
    let [pair] = &measure(&card).pairs[..] else { panic!() };
    assert_eq!(
        (pair.better.as_str(), pair.worse.as_str(), pair.differs),
        ("lh_cubic", "lh_reno", true)
    );
    assert!(close(pair.ratio, 2.0));
    assert!(close(card.whole[1].relative.unwrap().mean, 2.0), "the only task is the whole");
}

#[test]
fn intervals_are_students_of_the_logarithms() {
    let card = card_of(&[("lh_reno", &[2.0, 2.0, 1.0, 1.0]), ("lh_cubic", &[1.0, 1.0, 2.0, 1.0])]);
    let relative = measure(&card).scores[1].relative.unwrap();
    let logarithms = [1.0, 1.0, -1.0, 0.0].map(|twos: f64| twos * 2.0_f64.ln());
    let mean = logarithms.iter().sum::<f64>() / 4.0;
    let squares: f64 = logarithms.iter().map(|it| (it - mean).powi(2)).sum();
    // The 97.5 % quantile of three degrees of freedom, from a table.
    let half = 3.182_446_3 * (squares / 3.0).sqrt() / 2.0;
    assert!((relative.mean - mean.exp()).abs() < 1e-9, "{relative:?}");
    assert!((relative.low.unwrap().ln() - (mean - half)).abs() < 1e-6, "{relative:?}");
    let pair = &measure(&card).pairs[0];
    assert!(!pair.differs && pair.p > 0.5, "{pair:?}");
}

#[test]
fn p_values_of_three_pairs_are_corrected() {
    let reno = [1.0, 1.1, 1.0, 1.1];
    let card = card_of(&[
        ("lh_reno", &reno),
        ("lh_cubic", &[1.01, 1.12, 1.0, 1.09]),
        ("bbr", &[2.0, 2.3, 2.1, 2.2]),
    ]);
    let differs: Vec<bool> = measure(&card).pairs.iter().map(|pair| pair.differs).collect();
    assert_eq!(differs, [false, true, true], "{:?}", measure(&card).pairs);
    let one = card_of(&[("lh_reno", &[1.0]), ("lh_cubic", &[2.0])]);
    assert!(
        measure(&one).pairs.is_empty() && measure(&one).scores[1].relative.unwrap().low.is_none()
    );
}

#[test]
fn cell_missing_for_one_candidate_is_dropped_for_all() {
    let mut outcomes = Outcomes::default();
    for (candidate, points) in [("lh_reno", &[10.0, 20.0][..]), ("lh_cubic", &[10.0][..])] {
        for seed in 1..=2 {
            for (rtt, seconds) in ["10ms", "100ms"].iter().zip(points) {
                let cell = cell(None, &[("vars.rtt", rtt)], seed);
                outcomes.add(candidate, "bulk", with_flows(cell, &[("file", *seconds, 1.0)]));
            }
        }
    }
    let plan = plan(&["lh_cubic", "bbr"], &["bulk"]).with_seeds(None, Some(2));
    let card = Card::new(&plan, "emu", "0", &outcomes);
    let measure = measure(&card);
    assert_eq!(measure.cells, ["vars.rtt=10ms"]);
    assert!(close(measure.scores[0].absolute.unwrap().mean, 10.0));
    // None of its runs counts.
    assert_eq!((measure.scores[2].absolute, card.whole[2].relative), (None, None));
    assert!(measure.pairs.iter().all(|pair| pair.better != "bbr" && pair.worse != "bbr"));
}

#[test]
fn card_is_the_same_as_json_and_has_a_row_each_as_csv() {
    let card = card_of(&[("lh_reno", &[2.0, 2.0]), ("lh_cubic", &[1.0, 1.5])]);
    let text = serde_json::to_string(&card).unwrap();
    assert_eq!(serde_json::from_str::<Card>(&text).unwrap(), card);
    let csv = card.csv();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(
        lines[0]
            .starts_with("suite,method,task,measure,unit,better,candidate,mean,low,high,relative,")
    );
    let row = format!("{VERSION},sim,short,completion_s,seconds,less,lh_reno,2");
    assert!(lines[1].starts_with(&row), "{csv}");
}
