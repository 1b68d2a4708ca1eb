// SPDX-License-Identifier: GPL-2.0-or-later

use super::score_card_page;
use benchmark::{
    Better, Card, Estimate, Extent, MeasureScores, Pair, Unit,
    card::{GroupScore, Meeting, TaskScores, Whole},
    score::CandidateScore,
};

fn estimate(mean: f64) -> Estimate {
    Estimate { mean, low: Some(mean * 0.9), high: Some(mean * 1.1) }
}

fn measure(key: &str, relative: [f64; 3]) -> MeasureScores {
    let names = ["lh_reno", "lh_cubic", "lh_<b>"];
    let score = |(candidate, relative): (&&str, f64)| CandidateScore {
        candidate: (*candidate).to_owned(),
        by_seed: vec![1.0, 2.0],
        absolute: Some(estimate(2.0 / relative)),
        relative: Some(estimate(relative)),
    };
    let pair = |better: &str, differs| Pair {
        better: better.to_owned(),
        worse: "lh_reno".to_owned(),
        ratio: 1.5,
        p: if differs { 0.01 } else { 0.4 },
        differs,
    };
    MeasureScores {
        key: key.to_owned(),
        title: format!("title of {key}"),
        unit: Unit::Seconds,
        better: Better::Less,
        cells: vec!["one".to_owned()],
        scores: names.iter().zip(relative).map(score).collect(),
        pairs: vec![pair("lh_cubic", true), pair("lh_<b>", false)],
    }
}

fn card() -> Card {
    let candidates = ["lh_reno", "lh_cubic", "lh_<b>"].map(str::to_owned);
    let whole = |(candidate, mean): (&String, f64)| Whole {
        candidate: candidate.clone(),
        relative: Some(estimate(mean)),
        groups: vec![GroupScore { group: "alone".to_owned(), relative: Some(estimate(mean)) }],
    };
    let meeting = |own: &str, other: &str, other_keeps| Meeting {
        own: own.to_owned(),
        other: other.to_owned(),
        other_keeps,
    };
    Card {
        suite: 1,
        longhaul: "0.1.0".to_owned(),
        method: "sim".to_owned(),
        extent: Extent::Quick,
        first_seed: 1,
        seeds: 2,
        reference: "lh_reno".to_owned(),
        whole: candidates.iter().zip([1.0, 2.5, 1.1]).map(whole).collect(),
        candidates: candidates.to_vec(),
        tasks: vec![TaskScores {
            name: "bulk".to_owned(),
            title: "a file alone".to_owned(),
            group: "alone".to_owned(),
            measures: vec![measure("completion_s", [1.0, 2.5, 0.6])],
        }],
        radar: ["mean", "deviation", "fairness"].map(|key| measure(key, [1.0, 2.0, 0.5])).to_vec(),
        grid: vec![meeting("lh_reno", "lh_cubic", 0.62), meeting("lh_cubic", "lh_cubic", 0.49)],
    }
}

#[test]
fn page_names_best_candidate_and_pairs_within_chance() {
    let page = score_card_page(&card());
    assert!(
        page.contains(
            "lh_cubic has the best score of all tasks together: 2.5 times that of lh_reno."
        )
    );
    assert!(page.contains("Within chance: lh_&lt;b&gt; and lh_reno."), "names are escaped");
    assert!(!page.contains("lh_<b>") && !page.contains("<script"));
    // Better by more than chance, and worse by no more than that.
    assert!(page.contains("<td class=\"number far-better\">2.5"), "{page}");
    assert!(page.contains("<td class=\"number chance\">0.6"));
    assert!(page.contains("62 %") && page.contains("49 %"));
    for outside in ["http://", "https://", "src="] {
        let own = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!own.contains(outside), "{outside}");
    }
}

#[test]
fn radar_draws_better_values_further_out() {
    let page = score_card_page(&card());
    let points = |n: usize| -> Vec<f64> {
        let text = page.split("<polygon points=\"").nth(n + 1).unwrap().split('"').next().unwrap();
        let of = |pair: &str| {
            let (x, y) = pair.split_once(',').unwrap();
            x.parse::<f64>().unwrap().hypot(y.parse().unwrap())
        };
        text.split(' ').map(of).collect()
    };
    let (reno, cubic, third) = (points(0), points(1), points(2));
    assert_eq!((reno.len(), page.matches("<polygon").count()), (3, 3));
    for n in 0..3 {
        assert!(third[n] < reno[n] && reno[n] < cubic[n]);
        // Twice and half are as far from 1.
        assert!((cubic[n] - reno[n] - (reno[n] - third[n])).abs() < 0.3);
    }
}

#[test]
fn page_without_sources_and_beside_has_no_radar_and_no_grid() {
    let page = score_card_page(&Card { radar: Vec::new(), grid: Vec::new(), ..card() });
    assert!(!page.contains("<polygon") && !page.contains("Beside each other"));
}
