// SPDX-License-Identifier: GPL-2.0-or-later
//! All runs of a scenario by a method, in this process. A thread of its own runs them, so Python's thread stays free for progress and
//! Ctrl-C.

use crate::{
    callable::Callable,
    commanded::Commanded,
    elsewhere::{Elsewhere, Fetch},
    errors::{Kind, of_experiment},
    scenario::{Scenario, of_name},
};
use experiment::{Event, Method, Options, ReusePolicy, RunEvent, run_all};
use pyo3::prelude::*;
use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

/// Between two looks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);

/// News of a run: its index, what happened, how far it is, and a word about it.
type News = (usize, &'static str, f64, String);

/// Runs what is not on record in `out` yet. `tell` is called with the index of a run, what happened to it, the share of it that
/// is done, and a reason or remark. `prepared` is for methods that the command `longhaul` carries out: the hash of their sources, and the
/// runs as that command makes them.
#[pyfunction]
#[pyo3(signature = (scenario, method, out, *, jobs, again, any_program, keep, until, command, tell, fetch, prepared))]
#[expect(clippy::too_many_arguments, reason = "keywords of the one caller, simulate()")]
pub fn run(
    py: Python<'_>,
    scenario: &Scenario,
    method: &str,
    out: PathBuf,
    jobs: usize,
    again: bool,
    any_program: bool,
    keep: bool,
    until: Option<f64>,
    command: Vec<String>,
    tell: Callable<News>,
    fetch: Option<Fetch>,
    prepared: Option<(String, String)>,
) -> PyResult<()> {
    let inner: Box<dyn Method> = match commanded(py, method, prepared)? {
        Some(commanded) => Box::new(commanded),
        None => of_name(py, method)?,
    };
    let known = match (again, any_program) {
        (true, _) => ReusePolicy::Nothing,
        (false, true) => ReusePolicy::AnyProgram,
        (false, false) => ReusePolicy::SameProgram,
    };
    let predict = model::predicted;
    let options = Options { jobs, known, keep, command, predict, until, ..Options::new(out) };
    let stop = Arc::clone(&options.stop);
    let raised = Arc::new(Mutex::new(None));
    let method: Box<dyn Method> = match fetch {
        None => inner,
        Some(fetch) => {
            let (stop, raised) = (Arc::clone(&stop), Arc::clone(&raised));
            Box::new(Elsewhere { inner, fetch, stop, raised })
        }
    };
    let runs = scenario.runs();
    let (say, mut heard) = mpsc::channel::<News>();
    let (method, options) = (&*method, &options);
    let (result, interrupted) = thread::scope(|scope| {
        let engine = scope.spawn(move || {
            let watch = |event: Event<'_>| {
                // Python's thread listens until the engine has ended.
                let _ = news(&event).map(|news| say.send(news));
            };
            run_all(runs, method, options, watch).map(drop)
        });
        let interrupted = listen(py, &mut heard, &stop, &tell);
        (py.detach(|| engine.join()), interrupted)
    });
    interrupted?;
    if let Some(error) = raised.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(error);
    }
    match result {
        Ok(done) => done.map_err(|error| of_experiment(py, &error)),
        Err(_) => Err(Kind::Longhaul.error(py, "the simulation stopped by a fault of longhaul")),
    }
}

fn commanded(
    py: Python<'_>,
    method: &str,
    prepared: Option<(String, String)>,
) -> PyResult<Option<Commanded>> {
    let Some((sources, runs)) = prepared else { return Ok(None) };
    Commanded::new(method, sources, &runs).map_err(|error| Kind::Longhaul.error(py, error))
}

/// Passes on what the engine says until it ends. What Python raises meanwhile, Ctrl-C above all, stops the engine, and is raised once it
/// has ended.
fn listen(
    py: Python<'_>,
    heard: &mut mpsc::Receiver<News>,
    stop: &AtomicBool,
    tell: &Callable<News>,
) -> PyResult<()> {
    let mut raised = None;
    loop {
        let heard = &mut *heard;
        let next = py.detach(move || heard.recv_timeout(LOOK));
        let ended = matches!(next, Err(RecvTimeoutError::Disconnected));
        if raised.is_none() {
            let told = next.map_or(Ok(()), |news| tell.call(py, news));
            raised = told.and_then(|()| py.check_signals()).err();
            if raised.is_some() {
                stop.store(true, Ordering::Relaxed);
            }
        }
        if ended {
            return raised.map_or(Ok(()), Err);
        }
    }
}

fn news(event: &Event<'_>) -> Option<News> {
    let none = String::new();
    let (what, share, text) = match &event.what {
        RunEvent::Known(_) => ("known", 1.0, none),
        RunEvent::Outdated => ("outdated", 0.0, none),
        RunEvent::Changed(differences) => ("changed", 0.0, differences.join("; ")),
        RunEvent::LeftOut(why) => ("left out", 1.0, (*why).to_owned()),
        RunEvent::Begins => ("begins", 0.0, none),
        RunEvent::Step(_) => return None,
        RunEvent::Goes(progress) => ("goes", progress.share, none),
        RunEvent::Ended(results) => ("ended", 1.0, results.manifest.invalid_reasons.join("; ")),
    };
    Some((event.index, what, share, text))
}

/// SHA-256 over the sources that decide a method's figures: longhauls with the same one make the same records.
#[pyfunction]
pub fn source_hash(py: Python<'_>, method: &str) -> PyResult<&'static str> {
    of_name(py, method).map(|method| method.source_hash())
}

/// Compiles a congestion control from a C file; its name in scenarios, and the compiler's warnings.
#[pyfunction]
pub fn load_congestion_control(py: Python<'_>, path: PathBuf) -> PyResult<(String, String)> {
    let loaded = py
        .detach(|| congestion::file::load(&path))
        .map_err(|error| Kind::CongestionControl.error(py, error))?;
    Ok((loaded.algorithm.kernel_name(), loaded.warnings))
}
