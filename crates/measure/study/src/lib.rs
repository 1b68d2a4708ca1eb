// SPDX-License-Identifier: GPL-2.0-or-later
//! The ledger of the five papers (`docs/study/ledger.toml`): every numbered figure and table, what became of it, the scenario that makes
//! it, and the numbers that the paper prints, to be compared with ours.
//!
//! Nothing here runs anything, and there is no I/O.

mod compared;
mod page;
mod scenarios;

pub use compared::{Compared, compared};

use scenario::{Diagnostics, Scenario};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const LEDGER: &str = include_str!("../../../../docs/study/ledger.toml");

/// The papers and their figures and tables.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ledger {
    /// The papers, in their order.
    #[serde(rename = "paper")]
    pub papers: Vec<Paper>,
    /// Figures and tables, in the order of the page.
    #[serde(rename = "row")]
    pub rows: Vec<Row>,
}

/// A paper.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Its number.
    pub name: String,
    /// In a few words.
    pub title: String,
    /// Below its heading on the page.
    pub text: String,
}

/// A figure or a table, or some that are one.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The paper's number.
    pub paper: String,
    /// The figure's number, a range of them, or a table's name.
    pub item: String,
    /// In a few words.
    pub title: String,
    /// What became of it.
    pub result: Outcome,
    /// What differs, and why; or where it is.
    pub note: String,
    /// The scenario that makes it.
    #[serde(default)]
    pub scenario: Option<String>,
    /// Arguments of `scripts/study` behind the scenario's name.
    #[serde(default)]
    pub arguments: Option<String>,
    /// What stands in place of the command.
    #[serde(default)]
    pub study: Option<String>,
    /// Whether `docs/study` has a table of it.
    #[serde(default = "yes")]
    pub table: bool,
    /// The form of its picture there: `svg`, or `png` of a page.
    #[serde(default)]
    pub picture: Option<String>,
    /// By which methods.
    #[serde(default)]
    pub method: Option<String>,
    /// Processor time of the whole.
    #[serde(default)]
    pub time: Option<String>,
    /// How it is run quickly.
    #[serde(default)]
    pub quick: Option<Quick>,
    /// What the paper prints.
    #[serde(default, rename = "number")]
    pub numbers: Vec<Number>,
}

const fn yes() -> bool {
    true
}

/// What became of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It comes out alike.
    Reproduced,
    /// A part of it does.
    InPart,
    /// It comes out otherwise.
    Differs,
    /// Not run, or not readable.
    Open,
    /// There is nothing to measure.
    Drawing,
    /// It cannot be measured here.
    Impossible,
}

impl Outcome {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::InPart => "reproduced in part",
            Self::Differs => "differs",
            Self::Open => "open",
            Self::Drawing => "nothing to measure",
            Self::Impossible => "not possible here",
        }
    }
}

/// How a row is run quickly.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Quick {
    /// The method.
    pub method: String,
    /// Changed keys of the scenario.
    #[serde(default)]
    pub set: Vec<String>,
    /// Variants; all if there are none.
    #[serde(default)]
    pub variants: Vec<String>,
}

/// A number that a paper prints.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Number {
    /// Of what.
    pub what: String,
    /// The variant.
    #[serde(default)]
    pub variant: Option<String>,
    /// The point of the sweep.
    #[serde(default)]
    pub at: BTreeMap<String, String>,
    /// The point whose value is taken away.
    #[serde(default)]
    pub less: Option<BTreeMap<String, String>>,
    /// A key of `docs/metrics.md`; of flows the mean.
    pub metric: String,
    /// What the metric is multiplied with.
    #[serde(default = "one")]
    pub scale: f64,
    /// The paper's value.
    pub value: f64,
}

const fn one() -> f64 {
    1.0
}

/// Why a row cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// There is no such paper.
    #[error("there is no paper \"{0}\": they are 000, 001, 002, 003 and 004")]
    NoSuchPaper(String),
    /// A paper has no such figure.
    #[error("paper {paper} has no row \"{item}\": it has {}", known.join(", "))]
    NoSuchRow {
        /// The paper.
        paper: String,
        /// As asked for.
        item: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// No scenario makes it.
    #[error("no scenario makes it: {0}")]
    NothingToRun(String),
    /// It takes long, and has no short form.
    #[error("it has no quick form: run it with --full, which takes {0}")]
    NotQuick(String),
    /// The scenario does not take these settings.
    #[error("{0}")]
    Scenario(#[from] Diagnostics),
}

impl Ledger {
    /// The one that this program was built with.
    ///
    /// # Panics
    /// It is not a ledger, which tests rule out.
    pub fn own() -> Self {
        toml::from_str(LEDGER).expect("docs/study/ledger.toml is a ledger")
    }

    /// The rows of a paper.
    ///
    /// # Errors
    /// There is no such paper.
    pub fn of_paper(&self, paper: &str) -> Result<Vec<&Row>, StudyError> {
        if self.papers.iter().all(|known| known.name != paper) {
            return Err(StudyError::NoSuchPaper(paper.to_owned()));
        }
        Ok(self.rows.iter().filter(|row| row.paper == paper).collect())
    }

    /// The row of a figure, by its number or its row's name.
    ///
    /// # Errors
    /// There is none.
    pub fn find(&self, paper: &str, item: &str) -> Result<&Row, StudyError> {
        let rows = self.of_paper(paper)?;
        let asked = item.strip_prefix("table ").unwrap_or(item);
        let exact = rows.iter().find(|row| row.item.eq_ignore_ascii_case(item));
        let loose = || rows.iter().find(|row| row.has(asked));
        let found = exact.or_else(loose).ok_or_else(|| StudyError::NoSuchRow {
            paper: paper.to_owned(),
            item: item.to_owned(),
            known: rows.iter().map(|row| row.item.clone()).collect(),
        })?;
        Ok(found)
    }

    /// `docs/study/README.md`.
    pub fn page(&self) -> String {
        page::page(self)
    }
}

impl Row {
    /// Whether a number is in the row's range, or a word its name.
    fn has(&self, item: &str) -> bool {
        if self.item.eq_ignore_ascii_case(item) {
            return true;
        }
        let range = self
            .item
            .split_once('-')
            .and_then(|(from, to)| Some(from.parse::<u32>().ok()?..=to.parse::<u32>().ok()?));
        range.zip(item.parse().ok()).is_some_and(|(range, number)| range.contains(&number))
    }

    /// The scenario's text.
    ///
    /// # Errors
    /// None makes the row.
    pub fn text(&self) -> Result<(&str, &'static str), StudyError> {
        let name = self.scenario.as_deref();
        name.and_then(|name| Some((name, scenarios::text(name)?)))
            .ok_or_else(|| StudyError::NothingToRun(self.note.clone()))
    }

    /// What is run, and by which method: the quick form, or all of it by a method.
    ///
    /// # Errors
    /// There is no scenario, or no quick form.
    pub fn scenario(&self, quick: bool) -> Result<(Scenario, String), StudyError> {
        let (name, text) = self.text()?;
        if !quick {
            let method = self.method.as_deref().unwrap_or("sim");
            let method = method.split([',', ' ']).next().unwrap_or("sim");
            return Ok((Scenario::parse(text, name, &[] as &[&str])?, method.to_owned()));
        }
        let time = || self.time.clone().unwrap_or_else(|| "hours".to_owned());
        let quick = self.quick.as_ref().ok_or_else(|| StudyError::NotQuick(time()))?;
        let mut scenario = Scenario::parse(text, name, &quick.set)?;
        if !quick.variants.is_empty() {
            let is_wanted = |name: &str| quick.variants.iter().any(|variant| variant == name);
            scenario.runs.retain(|run| run.variant.as_ref().is_none_or(|it| is_wanted(&it.name)));
        }
        Ok((scenario, quick.method.clone()))
    }
}
