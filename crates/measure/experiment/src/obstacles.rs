// SPDX-License-Identifier: GPL-2.0-or-later
//! What is in the way of runs. A run is checked before anything starts: what a method leaves out without a word would make a
//! record of something else.

use crate::error::ExperimentError;
use host::Lack;
use scenario::Run;

/// What is in the way of a scenario's runs, all of which is reported at once.
#[derive(Debug, Default)]
pub struct Obstacles {
    unsupported: Lines,
    lacks: Lines,
}

impl Obstacles {
    /// What a run asks for that its method can't do.
    pub fn unsupported(&mut self, run: &Run, obstacles: impl IntoIterator<Item = Obstacle>) {
        self.unsupported.add(&run.id, obstacles);
    }

    /// What a run needs that the machine lacks.
    pub fn lacks(&mut self, run: &Run, what: impl IntoIterator<Item = String>) {
        self.lacks.add(&run.id, what.into_iter().map(Obstacle::from));
    }

    /// An error that names all of it, if there is any; `runs` is the number of runs.
    ///
    /// # Errors
    /// Each line of the text names one thing and says what to do.
    pub fn of_all(self, runs: usize) -> Result<(), ExperimentError> {
        let (unsupported, lacks) = (self.unsupported.text(runs), self.lacks.text(runs));
        match (unsupported.is_empty(), lacks.is_empty()) {
            (true, true) => Ok(()),
            (true, false) => Err(ExperimentError::Lacks(Lack::from_text(lacks))),
            (false, true) => Err(ExperimentError::Unsupported(unsupported)),
            (false, false) => Err(ExperimentError::Unsupported(format!("{unsupported}\n{lacks}"))),
        }
    }
}

/// One obstacle. Obstacles that differ only in their subject are reported in one line.
#[derive(Debug, Clone)]
pub struct Obstacle {
    /// What is said before the subject.
    pub before: &'static str,
    /// What it is about, as "flow transfer"; empty where the rest says it.
    pub subject: String,
    /// What is said after it.
    pub after: String,
}

impl From<String> for Obstacle {
    fn from(text: String) -> Self {
        Self { before: "", subject: String::new(), after: text }
    }
}

/// Obstacles in the order in which they were first said.
#[derive(Debug, Default)]
struct Lines(Vec<Line>);

/// An obstacle, with all that it is about and the runs that have it.
#[derive(Debug)]
struct Line {
    before: &'static str,
    after: String,
    subjects: Vec<String>,
    runs: Vec<String>,
}

impl Lines {
    fn add(&mut self, run: &str, obstacles: impl IntoIterator<Item = Obstacle>) {
        for Obstacle { before, subject, after } in obstacles {
            let known =
                self.0.iter().position(|line| (line.before, &line.after) == (before, &after));
            let at = known.unwrap_or_else(|| {
                self.0.push(Line { before, after, subjects: Vec::new(), runs: Vec::new() });
                self.0.len() - 1
            });
            let line = &mut self.0[at];
            if !line.subjects.contains(&subject) {
                line.subjects.push(subject);
            }
            if line.runs.last().is_none_or(|last| last != run) {
                line.runs.push(run.to_owned());
            }
        }
    }

    /// Names a run where it is not all of them.
    fn text(&self, runs: usize) -> String {
        let lines = self.0.iter().map(|line| {
            let of_run = match first_of(&line.runs) {
                _ if line.runs.len() == runs => String::new(),
                some => format!("{some}: "),
            };
            format!("{of_run}{}{}{}", line.before, first_of(&line.subjects), line.after)
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// The first, and how many more there are.
fn first_of(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [first, more @ ..] => format!("{first} and {} more", more.len()),
    }
}
