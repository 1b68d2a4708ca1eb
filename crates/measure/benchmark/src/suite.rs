// SPDX-License-Identifier: GPL-2.0-or-later
//! What is run: scenarios of `scenarios/benchmark`, for each candidate.

use crate::{BenchmarkError, TASKS, Task};
use scenario::{Run, Scenario};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The version of the suite. Another one has other scenarios or measures, and its scores are not to be compared.
pub const VERSION: u32 = 2;

/// What all are compared with, as in paper 004.
pub const REFERENCE: &str = "lh_reno";
/// What the harm of all is compared with.
pub(crate) const COMMON: &str = "lh_cubic";

/// A scenario of the suite, by its name.
macro_rules! scenarios {
    ($($name:literal),+) => {
        &[$(($name, include_str!(concat!("../../../../scenarios/benchmark/", $name, ".toml")))),+]
    };
}

/// The scenarios, by their names.
const SCENARIOS: &[(&str, &str)] = scenarios!(
    "bulk",
    "sources",
    "on-off",
    "files",
    "others",
    "streams",
    "beside",
    "depots",
    "background",
    "many",
    "conditions"
);

/// The scenario in which candidates meet each other.
pub(crate) const BESIDE: &str = "beside";
/// The scenario with chains of depots, whose variants these are.
pub(crate) const DEPOTS: &str = "depots";
const CHAINS: [&str; 3] = ["direct", "one", "two"];

/// How much is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// Four seeds, and a part of the points.
    Quick,
    /// Ten seeds, and all points.
    Full,
}

impl Extent {
    /// How many seeds each run has.
    pub const fn seeds(self) -> u32 {
        match self {
            Self::Quick => 4,
            Self::Full => 10,
        }
    }

    /// Points of a quick benchmark, by scenario; all of the others.
    fn settings(self, scenario: &str) -> &'static [&'static str] {
        match (self, scenario) {
            (Self::Quick, "bulk") => &["sweep.vars.rtt=[\"10ms\", \"100ms\"]"],
            (Self::Quick, "sources") => &["sweep.vars.sources=[10, 20]"],
            (Self::Quick, "on-off") => &["sweep.vars.sources=[20]"],
            (Self::Quick, "files") => &["sweep.vars.load=[\"80mbit\"]", "duration=40s"],
            (Self::Quick, "background") => &["sweep.vars.share=[\"50%\"]", "vars.size=20MB"],
            (Self::Quick, "many") => &["duration=30s"],
            (Self::Quick, "beside") => &["duration=40s"],
            _ => &[],
        }
    }
}

/// What is to be run.
#[derive(Debug, Clone)]
pub struct Plan {
    candidates: Vec<String>,
    tasks: Vec<&'static Task>,
    chains: BTreeSet<&'static str>,
    extent: Extent,
    seeds: u32,
    first_seed: u64,
}

/// Runs of one scenario for one candidate, for a folder of their own.
#[derive(Debug)]
pub struct Batch {
    /// Below the benchmark's folder.
    pub folder: String,
    /// The candidate.
    pub candidate: String,
    /// The scenario.
    pub scenario: &'static str,
    /// The candidate beside it, in the scenario where two meet.
    pub other: Option<String>,
    /// What is to be run.
    pub runs: Vec<Run>,
}

impl Plan {
    /// These congestion controls, which begin with the reference whether it is among them or not; the tasks of these names, all if
    /// there are none; these numbers of depots in chains, all if there are none.
    ///
    /// # Errors
    /// A candidate is named twice, or there is no such task or chain.
    pub fn new(
        candidates: &[String],
        tasks: &[String],
        chains: &[u32],
        extent: Extent,
    ) -> Result<Self, BenchmarkError> {
        let (mut all, mut named) = (vec![REFERENCE.to_owned()], BTreeSet::new());
        for candidate in candidates {
            if !named.insert(candidate) {
                return Err(BenchmarkError::Twice(candidate.clone()));
            }
            if candidate != REFERENCE {
                all.push(candidate.clone());
            }
        }
        let chain = |depots: &u32| {
            CHAINS.get(*depots as usize).copied().ok_or(BenchmarkError::NoSuchChain(*depots))
        };
        let chains: BTreeSet<_> = chains.iter().map(chain).collect::<Result<_, _>>()?;
        let chains = if chains.is_empty() { CHAINS.into() } else { chains };
        let task = |name: &String| {
            let found = TASKS.iter().find(|task| task.name == *name);
            found.ok_or_else(|| BenchmarkError::NoSuchTask {
                name: name.clone(),
                known: TASKS.iter().map(|task| task.name.to_owned()).collect(),
            })
        };
        let mut tasks: Vec<&Task> = tasks.iter().map(task).collect::<Result<_, _>>()?;
        if tasks.is_empty() {
            let is_asked_for = |task: &&Task| {
                task.scenario != DEPOTS || task.variants.iter().any(|it| chains.contains(it))
            };
            tasks = TASKS.iter().filter(is_asked_for).collect();
        }
        let (seeds, first_seed) = (extent.seeds(), 1);
        Ok(Self { candidates: all, tasks, chains, extent, seeds, first_seed })
    }

    /// With other seeds than usual: the first one, and how many.
    #[must_use]
    pub fn with_seeds(self, first: Option<u64>, seeds: Option<u32>) -> Self {
        let (first_seed, seeds) = (first.unwrap_or(self.first_seed), seeds.unwrap_or(self.seeds));
        Self { seeds, first_seed, ..self }
    }

    /// The candidates; first the reference.
    pub fn candidates(&self) -> &[String] {
        &self.candidates
    }

    /// The tasks.
    pub fn tasks(&self) -> &[&'static Task] {
        &self.tasks
    }

    /// How much is run.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// The scenarios' first seed.
    pub fn first_seed(&self) -> u64 {
        self.first_seed
    }

    /// How many seeds.
    pub fn seeds(&self) -> u32 {
        self.seeds
    }

    /// All runs.
    ///
    /// # Errors
    /// A scenario does not take a candidate.
    pub fn batches(&self) -> Result<Vec<Batch>, BenchmarkError> {
        let wanted: BTreeSet<&str> = self.tasks.iter().map(|task| task.scenario).collect();
        let mut all = Vec::new();
        for (name, text) in SCENARIOS.iter().filter(|(name, _)| wanted.contains(name)) {
            for candidate in &self.candidates {
                if *name == BESIDE {
                    for other in self.opponents() {
                        all.push(self.batch((name, text), candidate, Some(other))?);
                    }
                } else {
                    all.push(self.batch((name, text), candidate, None)?);
                }
            }
        }
        if wanted.contains(BESIDE) && !self.candidates.iter().any(|it| it == COMMON) {
            // What it does to itself is what others are compared with.
            let scenario = SCENARIOS.iter().find(|(name, _)| *name == BESIDE);
            let (name, text) = scenario.expect("it is one of them");
            all.push(self.batch((name, text), COMMON, Some(COMMON))?);
        }
        Ok(all)
    }

    /// Whom each candidate meets: all candidates, and the usual one.
    fn opponents(&self) -> impl Iterator<Item = &str> {
        let own = self.candidates.iter().map(String::as_str);
        own.filter(|name| *name != COMMON).chain([COMMON])
    }

    fn batch(
        &self,
        (name, text): (&'static str, &str),
        candidate: &str,
        other: Option<&str>,
    ) -> Result<Batch, BenchmarkError> {
        let mut set = vec![
            format!("vars.cc={candidate}"),
            format!("repeat={}", self.seeds),
            format!("seed={}", self.first_seed),
        ];
        set.extend(other.map(|other| format!("vars.other={other}")));
        set.extend(self.extent.settings(name).iter().map(|setting| (*setting).to_owned()));
        let parsed = Scenario::parse(text, name, &set);
        let mut runs = parsed
            .map_err(|problems| BenchmarkError::Candidate {
                candidate: candidate.to_owned(),
                problems,
            })?
            .runs;
        runs.retain(|run| self.is_wanted(name, run.variant.as_ref().map(|it| it.name.as_str())));
        let folder = match other {
            None => format!("{candidate}/{name}"),
            Some(other) => format!("{candidate}/{name}-{other}"),
        };
        let (candidate, other) = (candidate.to_owned(), other.map(str::to_owned));
        Ok(Batch { folder, candidate, scenario: name, other, runs })
    }

    /// Whether a task looks at a variant of a scenario.
    fn is_wanted(&self, scenario: &str, variant: Option<&str>) -> bool {
        let Some(variant) = variant else { return true };
        if scenario == DEPOTS && !self.chains.contains(variant) {
            return false;
        }
        let mut tasks = self.tasks.iter().filter(|task| task.scenario == scenario);
        tasks.any(|task| task.looks_at(variant))
    }
}
