// SPDX-License-Identifier: GPL-2.0-or-later
//! Congestion controls that are Python classes.

use crate::{callable::Callable, errors::Kind};
use congestion::{
    Ack as CongestionAck, AlgorithmFile, Attach, Decision as CongestionDecision, Event,
    program::{self, Description, Functions, Hook},
};
use pyo3::{ffi, intern, prelude::*, types::PyType};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

/// One acknowledgement event: `struct cc_ack` of `cc/cc.h`.
#[pyclass(frozen, module = "longhaul._longhaul")]
pub struct Ack(CongestionAck);

#[pymethods]
impl Ack {
    #[getter]
    fn now_us(&self) -> u64 {
        self.0.now_us
    }
    #[getter]
    fn delivery_rate(&self) -> u64 {
        self.0.delivery_rate
    }
    #[getter]
    fn acked(&self) -> u32 {
        self.0.acked
    }
    #[getter]
    fn lost(&self) -> u32 {
        self.0.lost
    }
    #[getter]
    fn rtt_us(&self) -> u32 {
        self.0.rtt_us
    }
    #[getter]
    fn min_rtt_us(&self) -> u32 {
        self.0.min_rtt_us
    }
    #[getter]
    fn in_flight(&self) -> u32 {
        self.0.in_flight
    }
    #[getter]
    fn prior_in_flight(&self) -> u32 {
        self.0.prior_in_flight
    }
    #[getter]
    fn delivered(&self) -> u32 {
        self.0.delivered
    }
    #[getter]
    fn prior_delivered(&self) -> u32 {
        self.0.prior_delivered
    }
    #[getter]
    fn delivered_ce(&self) -> u32 {
        self.0.delivered_ce
    }
    #[getter]
    fn mss(&self) -> u32 {
        self.0.mss
    }
    #[getter]
    fn paced_us(&self) -> u32 {
        self.0.paced_us
    }
    #[getter]
    fn is_app_limited(&self) -> bool {
        self.0.flags & CongestionAck::APP_LIMITED != 0
    }
    #[getter]
    fn is_cwnd_limited(&self) -> bool {
        self.0.flags & CongestionAck::CWND_LIMITED != 0
    }
    #[getter]
    fn in_recovery(&self) -> bool {
        self.0.flags & CongestionAck::RECOVERY != 0
    }
    #[getter]
    fn is_paced(&self) -> bool {
        self.0.flags & CongestionAck::PACED != 0
    }
}

/// What shall be in force: `struct cc_decision`.
#[pyclass(module = "longhaul._longhaul", get_all, set_all)]
pub struct Decision {
    cwnd: u32,
    ssthresh: u32,
    pacing_rate: u64,
}

/// Python's state of this thread, kept between calls: making it takes longer than most calls.
struct ThreadState {
    gil: ffi::PyGILState_STATE,
    state: *mut ffi::PyThreadState,
}

thread_local! {
    static THREAD: ThreadState = ThreadState::new();
}

#[expect(unsafe_code, reason = "PyO3 has no safe form of it")]
impl ThreadState {
    fn new() -> Self {
        // SAFETY: the interpreter runs, as it has called what made this thread, and this thread does not hold it.
        unsafe {
            let gil = ffi::PyGILState_Ensure();
            Self { gil, state: ffi::PyEval_SaveThread() }
        }
    }
}

#[expect(unsafe_code, reason = "as for `new`")]
impl Drop for ThreadState {
    fn drop(&mut self) {
        // SAFETY: what `new` has got, on the same thread; the caller of the simulation waits for its threads.
        unsafe {
            ffi::PyEval_RestoreThread(self.state);
            ffi::PyGILState_Release(self.gil);
        }
    }
}

/// A class, and an object of it for each connection.
struct OfClass {
    class: Py<PyType>,
    connections: Mutex<HashMap<u64, Py<PyAny>>>,
    /// The last exception, with its place in the program.
    raised: Callable<(PyErr,)>,
}

impl Functions for OfClass {
    fn call(
        &self,
        connection: u64,
        hook: Hook,
        ack: &CongestionAck,
        decision: &mut CongestionDecision,
    ) -> Result<(), String> {
        THREAD.with(|_| ());
        Python::attach(|py| {
            self.call_method(py, connection, hook, *ack, decision).map_err(|error| {
                let text = format!("raised {error}");
                // The simulation's error has no room for it.
                let _ = self.raised.call(py, (error,));
                text
            })
        })
    }

    fn forget_connections(&self) {
        let forgotten = std::mem::take(&mut *self.connections());
        Python::attach(|_| drop(forgotten));
    }
}

/// Lets go of the objects of all connections. No simulation may be under way with them.
#[pyfunction]
pub fn forget_connections(py: Python<'_>) {
    py.detach(program::forget_connections);
}

impl OfClass {
    fn call_method(
        &self,
        py: Python<'_>,
        connection: u64,
        hook: Hook,
        ack: CongestionAck,
        decision: &mut CongestionDecision,
    ) -> PyResult<()> {
        let object = if hook == Hook::Init {
            let object = self.class.bind(py).call0()?;
            self.connections().insert(connection, object.clone().unbind());
            object
        } else {
            let known = self.connections();
            known.get(&connection).expect("a connection begins with init").bind(py).clone()
        };
        let CongestionDecision { cwnd, ssthresh, pacing_rate } = *decision;
        let changed = Bound::new(py, Decision { cwnd, ssthresh, pacing_rate })?;
        let ack = Bound::new(py, Ack(ack))?;
        match hook {
            Hook::Init => object.call_method1(intern!(py, "init"), (ack, &changed)),
            Hook::Rtt => object.call_method1(intern!(py, "rtt"), (ack, &changed)),
            Hook::Ack => object.call_method1(intern!(py, "ack"), (ack, &changed)),
            Hook::Loss => object.call_method1(intern!(py, "loss"), (ack, &changed)),
            Hook::Event(event) => {
                let name = match event {
                    Event::Timeout => "timeout",
                    Event::Recovered => "recovered",
                    Event::Undo => "undo",
                    Event::Restart => "restart",
                };
                object.call_method1(intern!(py, "event"), (ack, &changed, name))
            }
        }?;
        let Decision { cwnd, ssthresh, pacing_rate } = *changed.borrow();
        *decision = CongestionDecision { pacing_rate, cwnd, ssthresh };
        Ok(())
    }

    fn connections(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Py<PyAny>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes up a class, `control`, under a name; `raised` is called with what a call raises.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "of the one caller, load_congestion_control()")]
pub fn add_control(
    py: Python<'_>,
    name: String,
    is_rate: bool,
    rule: String,
    place: String,
    sha256: String,
    control: Py<PyType>,
    raised: Callable<(PyErr,)>,
) -> PyResult<String> {
    let attach = if is_rate { Attach::Rate } else { Attach::Window };
    let file = AlgorithmFile { name: place, sha256 };
    let functions = OfClass { class: control, connections: Mutex::default(), raised };
    let added = program::add(Description { name, rule, attach, file }, Arc::new(functions));
    match added {
        Ok(algorithm) => Ok(algorithm.kernel_name()),
        Err(taken) => Err(Kind::CongestionControl.error(
            py,
            format!(
                "{:?} is the name of another congestion control: choose another one",
                taken.name
            ),
        )),
    }
}
