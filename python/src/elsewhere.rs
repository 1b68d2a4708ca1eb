// SPDX-License-Identifier: GPL-2.0-or-later
//! A method whose runs take place in other processes or on other machines, as Python arranges it. The engine is the same as for runs in
//! this process: its journal says what happened, its records decide what is run.

use crate::callable::Callable;
use experiment::{ExperimentError, Method, Obstacles, RunContext, Step};
use pyo3::{exceptions::PyKeyboardInterrupt, prelude::*};
use record::{Manifest, Record};
use scenario::Run;
use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// Whether runs shall end early.
#[pyclass(frozen, module = "longhaul._longhaul")]
pub struct StopFlag(Arc<AtomicBool>);

#[pymethods]
impl StopFlag {
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Is called with a run as JSON, a directory that the record shall be put into, and a [`StopFlag`]. Returns when it is there.
pub type Fetch = Callable<(String, PathBuf, StopFlag)>;

/// A method and where its runs take place.
pub struct Elsewhere {
    pub inner: Box<dyn Method>,
    pub fetch: Fetch,
    pub stop: Arc<AtomicBool>,
    /// What Python raised first, which the engine's errors have no room for.
    pub raised: Arc<Mutex<Option<PyErr>>>,
}

impl fmt::Debug for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elsewhere").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Method for Elsewhere {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn source_hash(&self) -> &'static str {
        self.inner.source_hash()
    }

    fn folder(&self, out: &Path) -> PathBuf {
        self.inner.folder(out)
    }

    /// The executor decides where they take place.
    fn runs_side_by_side(&self) -> bool {
        true
    }

    fn attempts(&self) -> u32 {
        self.inner.attempts()
    }

    fn has_events(&self) -> bool {
        self.inner.has_events()
    }

    fn ignored(&self, runs: &[Run]) -> Vec<String> {
        self.inner.ignored(runs)
    }

    fn prepare(&self, run: &Run, obstacles: &mut Obstacles) -> Run {
        self.inner.prepare(run, obstacles)
    }

    fn has_same_inputs(&self, run: &Run, recorded: &Manifest) -> bool {
        self.inner.has_same_inputs(run, recorded)
    }

    fn run(&self, run: &Run, context: &mut RunContext<'_>) -> Result<Record, ExperimentError> {
        context.step(Step::Execution);
        let folder = context.folder.join("record");
        let text = serde_json::to_string(run).expect("a run is plain data");
        let fetched = Python::attach(|py| {
            let flag = StopFlag(Arc::clone(&self.stop));
            self.fetch.call(py, (text, folder.clone(), flag))
        });
        if let Err(error) = fetched {
            return Err(self.keep(error));
        }
        context.step(Step::Collection);
        let record = Record::open(&folder)?;
        for capture in &record.manifest.captures {
            take(&folder, &capture.file, context.folder)?;
        }
        // The engine keeps them with the record, as it does for runs of its own.
        let logs = folder.join("logs");
        for log in fs::read_dir(&logs).into_iter().flatten().flatten() {
            take(&logs, log.file_name(), context.folder)?;
        }
        Ok(record)
    }
}

/// Moves a file of a record to where the engine looks for it. The worker has named it.
fn take(from: &Path, name: impl AsRef<Path>, to: &Path) -> Result<(), ExperimentError> {
    let name = name.as_ref();
    if name.file_name() != Some(name.as_os_str()) {
        let text = format!("a worker's record has a file {}: not a plain name", name.display());
        return Err(ExperimentError::OfMethod(text.into()));
    }
    let file = from.join(name);
    fs::rename(&file, to.join(name)).map_err(|error| ExperimentError::file("take", file, error))
}

impl Elsewhere {
    /// The first error is the reason; later ones follow from it.
    fn keep(&self, error: PyErr) -> ExperimentError {
        let is_interrupted = self.stop.load(Ordering::Relaxed)
            || Python::attach(|py| error.is_instance_of::<PyKeyboardInterrupt>(py));
        if is_interrupted {
            return ExperimentError::Interrupted;
        }
        let text = error.to_string();
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        ExperimentError::OfMethod(text.into())
    }
}
