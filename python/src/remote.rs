// SPDX-License-Identifier: GPL-2.0-or-later
//! Files at servers, read through depots with the checks of `longhaul get`. What is asked for is done by threads of a runtime, which
//! call Python once it is there.

use crate::{callable::Callable, errors::Kind};
use pyo3::{
    exceptions::{PyFileNotFoundError, PyPermissionError, PyRuntimeError, PyValueError},
    inspect::PyStaticExpr,
    prelude::*,
    type_hint_identifier,
    types::{PyBytes, PyDict},
};
use route::{Match, RouteTable, read_chain};
use std::{
    future::Future,
    path::PathBuf,
    process,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};
use tokio::{
    runtime::{Builder, Runtime},
    sync::{Semaphore, oneshot},
};
use transfer::{Client, Destination, Error, Found, GetRequest, Options, Progress};
use units::Bytes;

const THREADS: usize = 2;
/// Options of the command that errors name as remedies, and what they are here.
const KEYWORDS: [(&str, &str); 4] = [
    ("--allow-downgrade", "allow_downgrade=True"),
    ("--allow-unknown-length", "allow_unknown_length=True"),
    ("--ca FILE", "ca=FILE"),
    ("--save-encoded", "save_encoded=True"),
];

/// Where files are asked for.
#[pyclass(frozen, module = "longhaul._longhaul")]
pub struct Remote {
    client: Arc<Client>,
    runtime: &'static Runtime,
    /// One permit for each transfer at a time.
    places: Arc<Semaphore>,
}

/// One version of a file at a server.
#[pyclass(frozen, module = "longhaul._longhaul")]
pub struct Version(transfer::Version);

/// Something that is being done.
#[pyclass(frozen, module = "longhaul._longhaul")]
pub struct Job(Mutex<Option<oneshot::Sender<()>>>);

#[pymethods]
impl Job {
    /// Ends it early; its function is still called.
    fn cancel(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// What Python gets.
pub enum Value {
    Found(Found),
    Bytes(Vec<u8>),
    Saved(u64),
}

/// Is called with what was asked for, or with why it did not come.
type Done = Callable<(Option<Value>, Option<PyErr>)>;

#[pymethods]
impl Remote {
    /// `via` is a list of routes, each a text such as `d1.example.net,d2.example.org`; None: those of the user's configuration.
    /// `connections` bounds transfers at a time, times are in seconds.
    #[new]
    #[pyo3(signature = (*, via, ca, retries, connections, connect_timeout, stall_time, allow_downgrade, allow_unknown_length, save_encoded))]
    #[expect(clippy::too_many_arguments, reason = "keywords of the one caller, LonghaulFileSystem")]
    fn new(
        py: Python<'_>,
        via: Option<Vec<String>>,
        ca: Option<PathBuf>,
        retries: u32,
        connections: usize,
        connect_timeout: f64,
        stall_time: f64,
        allow_downgrade: bool,
        allow_unknown_length: bool,
        save_encoded: bool,
    ) -> PyResult<Self> {
        let time = |name: &str, seconds: f64| match Duration::try_from_secs_f64(seconds) {
            Ok(time) if !time.is_zero() => Ok(time),
            _ => Err(PyValueError::new_err(format!("{name}={seconds}: seconds, above 0"))),
        };
        if connections == 0 {
            return Err(PyValueError::new_err("connections=0: at least 1"));
        }
        let options = Options {
            routes: routes(via)?,
            ca,
            retries,
            connect_timeout: time("connect_timeout", connect_timeout)?,
            stall_time: time("stall_time", stall_time)?,
            connections: connections.min(Options::default().connections),
            overwrite: true,
            allow_downgrade,
            allow_unknown_length,
            save_encoded,
            ..Options::default()
        };
        let client = py.detach(|| Client::new(options)).map_err(|error| raised(py, "", &error))?;
        let places = Arc::new(Semaphore::new(connections.min(Semaphore::MAX_PERMITS)));
        Ok(Self { client: Arc::new(client), runtime: runtime()?, places })
    }

    /// Asks what the server has.
    fn find(&self, url: String, done: Done) -> Job {
        let (client, asked) = (Arc::clone(&self.client), url.clone());
        self.start(url, done, async move { client.find(&asked).await.map(Value::Found) })
    }

    /// Reads a whole file of at most `most` bytes.
    fn read(&self, url: String, most: u64, done: Done) -> Job {
        let (client, asked) = (Arc::clone(&self.client), url.clone());
        let read = async move { client.read(&asked, Bytes::new(most)).await.map(Value::Bytes) };
        self.start(url, done, read)
    }

    /// Reads a range of a version.
    fn read_range(&self, url: String, version: &Version, start: u64, end: u64, done: Done) -> Job {
        let (client, asked, version) = (Arc::clone(&self.client), url.clone(), version.0.clone());
        self.start(url, done, async move {
            client.read_range(&asked, &version, start..end).await.map(Value::Bytes)
        })
    }

    /// Copies a file; what was there before is replaced once it is whole. A copy that was not ended goes on.
    fn save(&self, url: String, path: PathBuf, done: Done) -> Job {
        let client = Arc::clone(&self.client);
        let request =
            GetRequest { url: url.clone(), destination: Destination::File(path), digest: None };
        let (stop, stopped) = oneshot::channel();
        let save = async move {
            let progress = Arc::new(Progress::default());
            // Ends also when the sender is dropped.
            let stop = async { stopped.await.unwrap_or_default() };
            let report = client.get(request, &progress, stop).await;
            report.result.map(|_| Value::Saved(report.bytes))
        };
        self.spawn(url, done, save);
        Job(Mutex::new(Some(stop)))
    }
}

impl Remote {
    /// Begins something that can be dropped at any time.
    fn start(
        &self,
        url: String,
        done: Done,
        work: impl Future<Output = Result<Value, Error>> + Send + 'static,
    ) -> Job {
        let (stop, stopped) = oneshot::channel::<()>();
        self.spawn(url, done, async {
            tokio::select! {
                value = work => value,
                _ = stopped => Err(Error::Stopped),
            }
        });
        Job(Mutex::new(Some(stop)))
    }

    fn spawn(
        &self,
        url: String,
        done: Done,
        work: impl Future<Output = Result<Value, Error>> + Send + 'static,
    ) {
        let places = Arc::clone(&self.places);
        self.runtime.spawn(async move {
            // Never closed.
            let place = places.acquire_owned().await;
            let result = work.await;
            drop(place);
            // Not while Python ends.
            Python::try_attach(|py| {
                let (value, error) = match result {
                    Ok(value) => (Some(value), None),
                    Err(error) => (None, Some(raised(py, &url, &error))),
                };
                if let Err(error) = done.call(py, (value, error)) {
                    error.write_unraisable(py, Some(done.function().bind(py)));
                }
            });
        });
    }
}

impl<'py> IntoPyObject<'py> for Value {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    const OUTPUT_TYPE: PyStaticExpr = type_hint_identifier!("typing", "Any");

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        match self {
            Self::Bytes(bytes) => Ok(PyBytes::new(py, &bytes).into_any()),
            Self::Saved(bytes) => Ok(bytes.into_pyobject(py)?.into_any()),
            Self::Found(Found { bytes, modified, etag, version }) => {
                let since = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).ok();
                let modified = modified.and_then(since).map(|since| since.as_secs());
                let found = PyDict::new(py);
                found.set_item("size", bytes)?;
                found.set_item("modified", modified)?;
                found.set_item("etag", etag)?;
                found.set_item("version", version.map(Version))?;
                Ok(found.into_any())
            }
        }
    }
}

fn routes(via: Option<Vec<String>>) -> PyResult<RouteTable> {
    let Some(via) = via else {
        let read = RouteTable::of_user();
        return read.map_err(|error| PyValueError::new_err(error.to_string()));
    };
    if via.is_empty() {
        return Ok(RouteTable::default());
    }
    let chains = via.iter().map(|chain| {
        read_chain(chain).map_err(|error| PyValueError::new_err(format!("via={chain:?}: {error}")))
    });
    // The URLs are named, so one of this machine is meant, too.
    Ok(RouteTable::through(chains.collect::<PyResult<_>>()?, &[Match::ALL]))
}

/// Of this process: threads do not survive a fork.
fn runtime() -> PyResult<&'static Runtime> {
    static RUNTIME: Mutex<Option<(u32, &'static Runtime)>> = Mutex::new(None);
    let mut known = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, runtime)) = known.filter(|(pid, _)| *pid == process::id()) {
        return Ok(runtime);
    }
    let made = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("longhaul")
        .enable_all()
        .build()
        .map_err(|error| PyRuntimeError::new_err(format!("no threads for transfers: {error}")))?;
    let made: &'static Runtime = Box::leak(Box::new(made));
    *known = Some((process::id(), made));
    Ok(made)
}

/// Why a file does not come, as the exception that says it best.
fn raised(py: Python<'_>, url: &str, error: &Error) -> PyErr {
    let of = if url.is_empty() { String::new() } else { format!("{url}: ") };
    let mut text = format!("{of}{error}");
    for (option, keyword) in KEYWORDS {
        text = text.replace(option, keyword);
    }
    match error {
        Error::Status { status, .. } => match status.as_u16() {
            404 | 410 => PyFileNotFoundError::new_err(text),
            401 | 403 => PyPermissionError::new_err(text),
            _ => Kind::Transfer.error(py, text),
        },
        Error::Range(_) => Kind::Version.error(py, text),
        _ => Kind::Transfer.error(py, text),
    }
}
