// SPDX-License-Identifier: GPL-2.0-or-later
//! Scenarios.

use crate::errors::{Kind, of_experiment, of_scenario, of_system};
use ::scenario::Run;
use experiment::{Method, prepare_all};
use pyo3::prelude::*;
use serde_json::Value;
use std::{fs, path::PathBuf};

/// A scenario whose runs are expanded.
#[pyclass(frozen, module = "longhaul._longhaul")]
pub struct Scenario {
    inner: ::scenario::Scenario,
}

impl Scenario {
    pub fn runs(&self) -> &[Run] {
        &self.inner.runs
    }
}

#[pymethods]
impl Scenario {
    /// The text of a scenario file.
    #[staticmethod]
    fn read(path: PathBuf) -> PyResult<String> {
        fs::read_to_string(&path).map_err(|error| of_system(&path, &error))
    }

    /// Reads a scenario from its text, changed by settings such as `vars.rtt=20ms`; `name` is for messages.
    #[staticmethod]
    fn parse(py: Python<'_>, text: &str, name: &str, set: Vec<String>) -> PyResult<Self> {
        let inner = ::scenario::Scenario::parse(text, name, &set)
            .map_err(|refused| of_scenario(py, &refused))?;
        Ok(Self { inner })
    }

    /// A scenario of runs that were expanded elsewhere.
    #[staticmethod]
    fn of_runs(py: Python<'_>, runs: Vec<String>) -> PyResult<Self> {
        let runs = runs.iter().map(|run| serde_json::from_str(run)).collect::<Result<_, _>>();
        let runs = runs.map_err(|error| Kind::Scenario.error(py, error))?;
        let inner = ::scenario::Scenario::of_runs(runs);
        Ok(Self { inner: inner.map_err(|error| Kind::Scenario.error(py, error))? })
    }

    /// The text of a scenario that is written as JSON.
    #[staticmethod]
    fn text_of_json(py: Python<'_>, json: &str) -> PyResult<String> {
        let refused = |why: String| Kind::Scenario.error(py, why);
        let value: Value =
            serde_json::from_str(json).map_err(|error| refused(error.to_string()))?;
        if let Some(key) = null(&value, String::new()) {
            return Err(refused(format!("{key} is None: leave it out, or give it a value")));
        }
        toml::to_string(&value).map_err(|error| refused(error.to_string()))
    }

    /// The same with these variants alone.
    fn with_variants(&self, py: Python<'_>, names: Vec<String>) -> PyResult<Self> {
        let mut inner = self.inner.clone();
        inner.keep_variants(&names).map_err(|error| Kind::Scenario.error(py, error))?;
        Ok(Self { inner })
    }

    #[getter]
    fn title(&self) -> &str {
        &self.inner.title
    }

    /// Names and labels.
    #[getter]
    fn variants(&self) -> Vec<(String, String)> {
        self.inner.variants.iter().map(|it| (it.name.clone(), it.label.clone())).collect()
    }

    /// Swept keys and their values.
    #[getter]
    fn axes(&self) -> Vec<(String, Vec<String>)> {
        self.inner.axes.iter().map(|it| (it.key.clone(), it.values.clone())).collect()
    }

    /// Refuses runs that a method cannot do. Without one, only names of congestion controls are looked at.
    fn check(&self, py: Python<'_>, method: Option<&str>) -> PyResult<()> {
        let checked = match method {
            Some(name) => prepare_all(&*of_name(py, name)?, self.runs()).map(drop),
            None => experiment::check_congestion_controls(self.runs(), &[]),
        };
        checked.map_err(|error| of_experiment(py, &error))
    }

    /// Each run as JSON, with all values filled in.
    fn runs_as_json(&self) -> Vec<String> {
        self.runs().iter().map(|run| serde_json::to_string(run).expect("plain data")).collect()
    }

    fn __len__(&self) -> usize {
        self.runs().len()
    }
}

/// The methods that run in this process.
pub fn of_name(py: Python<'_>, name: &str) -> PyResult<Box<dyn Method>> {
    match name {
        "sim" => Ok(Box::new(sim::Simulated)),
        "model" => Ok(Box::new(model::Modelled)),
        other => Err(Kind::Unsupported.error(
            py,
            format!(
                "method {other:?} does not run in this process; \"sim\" and \"model\" do. For others: longhaul lab run --method {other}"
            ),
        )),
    }
}

/// The first key whose value is null.
fn null(value: &Value, key: String) -> Option<String> {
    let join = |name: &str| if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") };
    match value {
        Value::Null => Some(key),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(n, item)| null(item, format!("{key}[{n}]")))
        }
        Value::Object(items) => items.iter().find_map(|(name, item)| null(item, join(name))),
        _ => None,
    }
}
