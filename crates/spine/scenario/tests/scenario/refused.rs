// SPDX-License-Identifier: GPL-2.0-or-later
//! What is refused, and in which words: `refused/cases.txt`, each case a change of
//! `refused/good.toml`.
//!
//! After a deliberate change of wording, `BLESS=1 cargo test -p longhaul-scenario --test scenario refused::`
//! writes the messages as they now are into the file; read the difference before keeping it.

use longhaul_scenario::Scenario;
use std::{fmt::Write, path::Path};

const GOOD: &str = include_str!("refused/good.toml");
const CASES: &str = "tests/scenario/refused/cases.txt";

/// A case: what it changes and, when run, the message.
#[derive(Default)]
struct Case<'t> {
    removed: Option<&'t str>,
    added: Vec<&'t str>,
    overrides: Vec<&'t str>,
}

impl<'t> Case<'t> {
    fn read(block: &'t str) -> Self {
        let mut case = Self::default();
        for line in block.lines() {
            match line.split_at_checked(2) {
                Some(("- ", line)) => case.removed = Some(line),
                Some(("+ ", line)) => case.added.push(line),
                Some(("! ", text)) => case.overrides.push(text),
                _ => {}
            }
        }
        case
    }

    fn is_empty(&self) -> bool {
        self.removed.is_none() && self.overrides.is_empty()
    }

    fn messages(&self) -> String {
        let text = match self.removed {
            None => GOOD.to_owned(),
            Some(removed) => {
                let mut lines: Vec<&str> = GOOD.lines().collect();
                let at = lines.iter().position(|l| *l == removed);
                let at = at.unwrap_or_else(|| panic!("good.toml has no line {removed}"));
                // A removed line stays as an empty one, so that the lines after keep their numbers.
                let added = if self.added.is_empty() { &[""] } else { self.added.as_slice() };
                lines.splice(at..=at, added.iter().copied());
                lines.join("\n")
            }
        };
        Scenario::parse(&text, "x.toml", &self.overrides)
            .map_or_else(|e| format!("{e}\n"), |_| "it is taken as good\n".to_owned())
    }
}

#[test]
fn the_good_scenario_is_good() {
    Scenario::parse(GOOD, "good.toml", &[""; 0]).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn every_case_is_refused_in_these_words() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(CASES);
    let expected = std::fs::read_to_string(&path).unwrap();
    let mut found = String::new();
    let mut cases = 0;
    for block in expected.split_inclusive("\n\n") {
        let case = Case::read(block);
        if case.is_empty() {
            found += block;
            continue;
        }
        let is_case = |line: &&str| ["- ", "+ ", "! ", "# "].iter().any(|s| line.starts_with(s));
        block.lines().filter(is_case).for_each(|line| writeln!(found, "{line}").unwrap());
        writeln!(found, "{}", case.messages()).unwrap();
        cases += 1;
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    for (line, (expected, found)) in expected.lines().zip(found.lines()).enumerate() {
        assert_eq!(found, expected, "{CASES}:{}", line + 1);
    }
    assert_eq!(found.lines().count(), expected.lines().count(), "messages at the end of {CASES}");
    assert!(cases > 80, "{cases} cases");
}
