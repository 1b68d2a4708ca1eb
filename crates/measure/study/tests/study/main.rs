// SPDX-License-Identifier: GPL-2.0-or-later
//! The ledger of the papers' figures: complete, and the page is made of it.

mod compared;

use longhaul_study::{Ledger, Outcome, StudyError};
use std::{collections::BTreeSet, fs, path::Path};

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/study")
}

#[test]
fn page_is_made_of_the_ledger() {
    let path = folder().join("README.md");
    let page = Ledger::own().page();
    if std::env::var_os("LONGHAUL_BLESS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    assert_eq!(page, fs::read_to_string(path).unwrap(), "LONGHAUL_BLESS=1 writes it");
}

/// The figures and tables of each paper, by their numbers.
#[test]
fn every_numbered_figure_and_table_has_a_row() {
    let ledger = Ledger::own();
    for (paper, figures, tables) in [
        ("000", 13, &[][..]),
        ("001", 10, &["III", "IV", "V"][..]),
        ("002", 4, &["table 1"][..]),
        ("003", 29, &[][..]),
        ("004", 0, &["NS-2 and NXE", "latency", "3000 MB", "parallel streams", "HSTTS"][..]),
    ] {
        let figures = (1..=figures).map(|number: u32| number.to_string());
        for item in figures.chain(tables.iter().map(|table| (*table).to_owned())) {
            let row = ledger.find(paper, &item).unwrap_or_else(|error| panic!("{error}"));
            let is_told = row.scenario.is_some() || !row.note.is_empty();
            assert!(is_told && row.paper == paper, "{paper} {item}: no result and no reason");
        }
    }
}

#[test]
fn rows_are_sound() {
    let ledger = Ledger::own();
    let names: BTreeSet<(&str, &str)> =
        ledger.rows.iter().map(|row| (row.paper.as_str(), row.item.as_str())).collect();
    assert_eq!(names.len(), ledger.rows.len(), "each once");
    for row in &ledger.rows {
        let name = format!("{} {}", row.paper, row.item);
        if let Some(scenario) = &row.scenario {
            if row.table {
                assert!(folder().join(format!("{scenario}.txt")).exists(), "{name}: no table");
            }
            if let Some(picture) = &row.picture {
                let file = folder().join(format!("{scenario}.{picture}"));
                assert!(file.exists(), "{name}: no picture");
            }
            let (all, _) = row.scenario(false).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(!all.runs.is_empty());
            // Each number is of runs that take place.
            for number in &row.numbers {
                let is_its = |run: &&scenario::Run| {
                    let name = run.variant.as_ref().map(|variant| variant.name.as_str());
                    let points = [Some(&number.at), number.less.as_ref()];
                    let mut points = points.into_iter().flatten().flatten();
                    let is_swept = |key: &String| run.point.iter().any(|it| it.key == *key);
                    number.variant.as_deref() == name && points.all(|(key, _)| is_swept(key))
                };
                assert!(all.runs.iter().any(|run| is_its(&run)), "{name}: {}", number.what);
            }
        }
        if let Some(quick) = &row.quick {
            let (scenario, method) =
                row.scenario(true).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(
                !scenario.runs.is_empty() && ["sim", "model"].contains(&method.as_str()),
                "{name}"
            );
            let named: BTreeSet<&str> = scenario
                .runs
                .iter()
                .filter_map(|run| Some(run.variant.as_ref()?.name.as_str()))
                .collect();
            for variant in &quick.variants {
                assert!(named.contains(variant.as_str()), "{name}: {variant}");
            }
        }
        let has_none = matches!(row.result, Outcome::Drawing | Outcome::Open | Outcome::Impossible);
        assert!(
            has_none || row.scenario.is_some() || row.item == "HSTTS",
            "{name}: a result of what?"
        );
    }
}

#[test]
fn rows_are_found_by_number_name_and_range() {
    let ledger = Ledger::own();
    let item = |paper, item| ledger.find(paper, item).unwrap().item.clone();
    assert_eq!(item("003", "12"), "11-14");
    assert_eq!(item("003", "28-29"), "28-29");
    assert_eq!(item("001", "iii"), "III");
    assert_eq!(item("001", "table IV"), "IV");
    assert_eq!(item("002", "1"), "1");
    assert_eq!(item("002", "table 1"), "table 1");
    let error = ledger.find("001", "99").unwrap_err().to_string();
    assert!(error.contains("paper 001 has no row \"99\": it has 1-2, 3-5, 6,"), "{error}");
    assert!(matches!(ledger.of_paper("7"), Err(StudyError::NoSuchPaper(_))));
    let drawing = ledger.find("000", "1").unwrap().scenario(true).unwrap_err();
    assert!(drawing.to_string().contains("no scenario makes it"), "{drawing}");
    let long = ledger.find("001", "III emulated").unwrap().scenario(true).unwrap_err();
    assert!(long.to_string().contains("--full, which takes 12 min"), "{long}");
}
