// SPDX-License-Identifier: GPL-2.0-or-later
//! Congestion controls that a program has as functions of its own, in whatever language: for prototypes, before there is a C file.
//!
//! They keep the contract of `cc/cc.h` as a file's do: what they may not is a [`Fault`], which unwinds up to [`catch_fault`].
//!
//! [`catch_fault`]: crate::catch_fault

#![expect(unsafe_code, reason = "is called through the table of C functions")]

use crate::{
    ffi::{self, Ack, Algorithm, AlgorithmFile, Attach, Decision, Event, FfiAlgorithm},
    file::{Fault, HOOKS, rule_text, told},
};
use std::{
    ffi::c_void,
    panic,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// Which function is called: those of `cc/cc.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// A connection is established.
    Init,
    /// An acknowledgement gave a round trip.
    Rtt,
    /// The window may change.
    Ack,
    /// Congestion.
    Loss,
    /// Something else happened.
    Event(Event),
}

impl Hook {
    /// The number in `enum ffi_hook`.
    fn number(self) -> u32 {
        match self {
            Self::Init => 0,
            Self::Rtt => 1,
            Self::Ack => 2,
            Self::Loss => 3,
            Self::Event(_) => 4,
        }
    }
}

/// The functions of an algorithm. Connections may call them from several threads at once.
pub trait Functions: Send + Sync {
    /// A call for the connection of this number, which begins with [`Hook::Init`].
    ///
    /// # Errors
    /// What went wrong, for people. The run ends.
    fn call(
        &self,
        connection: u64,
        hook: Hook,
        ack: &Ack,
        decision: &mut Decision,
    ) -> Result<(), String>;

    /// All connections so far have ended.
    fn forget_connections(&self);
}

/// All connections so far, of all algorithms that were added, have ended.
pub fn forget_connections() {
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    let functions: Vec<_> = added.iter().map(|added| Arc::clone(&added.functions)).collect();
    drop(added);
    for functions in functions {
        functions.forget_connections();
    }
}

/// What an algorithm is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Its name in scenarios, without `lh_`.
    pub name: String,
    /// The algorithm in a line.
    pub rule: String,
    /// How it attaches.
    pub attach: Attach,
    /// Where it is written, and SHA-256 of its text.
    pub file: AlgorithmFile,
}

/// One that was added.
struct Added {
    name: String,
    attach: Attach,
    place: String,
    functions: Arc<dyn Functions>,
}

/// All that were added, by the one value in their parameters.
static ADDED: RwLock<Vec<Added>> = RwLock::new(Vec::new());
static NEXT_CONNECTION: AtomicU64 = AtomicU64::new(0);

/// Takes up an algorithm, in place of an earlier one of that name that was added here. No run may be under way with that.
///
/// # Errors
/// The algorithm of `cc/` or of a file that has the name.
pub fn add(
    description: Description,
    functions: Arc<dyn Functions>,
) -> Result<&'static Algorithm, &'static Algorithm> {
    let Description { name, rule, attach, file } = description;
    let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    let index = u32::try_from(added.len()).expect("fewer algorithms than that");
    let is_own = added.iter().any(|other| other.name == name);
    let algorithm =
        Algorithm::of_functions(name.clone(), rule, attach, file.clone(), &ENTRY, index);
    let algorithm = if is_own { algorithm.replace() } else { algorithm.add()? };
    added.push(Added { name, attach, place: file.name, functions });
    Ok(algorithm)
}

/// The same functions for all: the value tells them apart.
static ENTRY: FfiAlgorithm = FfiAlgorithm::of_functions(init, rtt, ack, loss, event);

unsafe extern "C-unwind" fn init(
    state: *mut c_void,
    params: *const u32,
    ack: *const Ack,
    decision: *mut Decision,
) {
    let connection = NEXT_CONNECTION.fetch_add(1, Ordering::Relaxed);
    // SAFETY: as in `call`. The state of a connection is `ffi::State`, whose first word holds its number.
    unsafe {
        state.cast::<u64>().write(connection);
        call(state, params, ack, decision, Hook::Init);
    }
}

unsafe extern "C-unwind" fn rtt(
    state: *mut c_void,
    params: *const u32,
    ack: *const Ack,
    decision: *mut Decision,
) {
    // SAFETY: as in `call`.
    unsafe { call(state, params, ack, decision, Hook::Rtt) }
}

unsafe extern "C-unwind" fn ack(
    state: *mut c_void,
    params: *const u32,
    ack: *const Ack,
    decision: *mut Decision,
) {
    // SAFETY: as in `call`.
    unsafe { call(state, params, ack, decision, Hook::Ack) }
}

unsafe extern "C-unwind" fn loss(
    state: *mut c_void,
    params: *const u32,
    ack: *const Ack,
    decision: *mut Decision,
) {
    // SAFETY: as in `call`.
    unsafe { call(state, params, ack, decision, Hook::Loss) }
}

unsafe extern "C-unwind" fn event(
    state: *mut c_void,
    params: *const u32,
    ack: *const Ack,
    decision: *mut Decision,
    event: u32,
) {
    let event = match event {
        0 => Event::Timeout,
        1 => Event::Recovered,
        2 => Event::Undo,
        _ => Event::Restart,
    };
    // SAFETY: as in `call`.
    unsafe { call(state, params, ack, decision, Hook::Event(event)) }
}

/// # Safety
/// The pointers are those that [`ffi::Control`] gives to the functions of an algorithm.
unsafe fn call(
    state: *mut c_void,
    params: *const u32,
    ack: *const Ack,
    decision: *mut Decision,
    hook: Hook,
) {
    // SAFETY: `Control` passes its own state, parameters and decision, and keeps none of them meanwhile.
    let (connection, index, ack, decision) =
        unsafe { (*state.cast::<u64>(), *params, &*ack, &mut *decision) };
    let (functions, attach) = {
        let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
        let added = &added[index as usize];
        (Arc::clone(&added.functions), added.attach)
    };
    let before = *decision;
    let failed = match functions.call(connection, hook, ack, decision) {
        Err(what) => what,
        Ok(()) => match ffi::broken_rule(attach, hook.number(), &before, decision) {
            None => return,
            Some(rule) => rule_text(rule, &named(index).0, &before, decision),
        },
    };
    let (algorithm, place) = named(index);
    panic::resume_unwind(Box::new(Fault {
        place,
        algorithm,
        hook: HOOKS[hook.number() as usize],
        what: failed,
        told: told(ack, &before),
    }));
}

/// Name and place of an algorithm.
fn named(index: u32) -> (String, String) {
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    let added = &added[index as usize];
    (added.name.clone(), added.place.clone())
}
