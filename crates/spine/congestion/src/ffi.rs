// SPDX-License-Identifier: GPL-2.0-or-later
//! `cc/` through the C table that `build.rs` makes of it, and the same entries of users' files (`file`), whose
//! functions may unwind. Every other `unsafe` of this crate is in `file/library.rs` and `file/fault.rs`.

#![expect(unsafe_code, reason = "calls into cc/")]

use std::{
    ffi::{CStr, c_char, c_void},
    fmt, ptr,
    sync::{LazyLock, PoisonError, RwLock},
};

/// One acknowledgement event: `struct cc_ack` of `cc/cc.h`. Counts are of segments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Ack {
    /// A monotonic clock.
    pub now_us: u64,
    /// Bytes a second between sending and acknowledging the newest; 0: not known.
    pub delivery_rate: u64,
    /// Newly acknowledged, cumulatively or selectively.
    pub acked: u32,
    /// Newly marked lost.
    pub lost: u32,
    /// RTT sample; 0: this event gave none.
    pub rtt_us: u32,
    /// Smallest RTT of the connection; 0: not known.
    pub min_rtt_us: u32,
    /// Sent and neither acknowledged nor lost, after this event.
    pub in_flight: u32,
    /// The same, before it.
    pub prior_in_flight: u32,
    /// Acknowledged in all; wraps.
    pub delivered: u32,
    /// [`Ack::delivered`] when the newest of [`Ack::acked`] was sent; wraps.
    pub prior_delivered: u32,
    /// Bytes of payload in a full segment.
    pub mss: u32,
    /// Until pacing lets the next segment out; 0: at once.
    pub paced_us: u32,
    /// Of [`Ack::delivered`], what was acknowledged with an echo of a mark (ECN's ECE); wraps.
    pub delivered_ce: u32,
    /// [`Ack::CWND_LIMITED`] and the others, or'ed.
    pub flags: u32,
}

impl Ack {
    /// The delivery rate is what the application offered, not what the path carries.
    pub const APP_LIMITED: u32 = 1;
    /// The window was all used: only then may it grow.
    pub const CWND_LIMITED: u32 = 2;
    /// In fast recovery, or after a timeout and not yet past it.
    pub const RECOVERY: u32 = 4;
    /// The sender spaces its packets.
    pub const PACED: u32 = 8;
}

/// A decision of an algorithm: `struct cc_decision`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Decision {
    /// Bytes a second; 0: the caller's own.
    pub pacing_rate: u64,
    /// Segments, at least 1.
    pub cwnd: u32,
    /// Segments; slow start while [`Decision::cwnd`] is smaller.
    pub ssthresh: u32,
}

impl Decision {
    /// `ssthresh` before the first loss.
    pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;
}

impl Default for Decision {
    /// A connection that has just been established: the initial window of RFC 6928.
    fn default() -> Self {
        Self { pacing_rate: 0, cwnd: 10, ssthresh: Self::INFINITE_SSTHRESH }
    }
}

/// Further events for an algorithm: `enum cc_event`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Event {
    /// Retransmission timeout. [`Control::loss`] comes first unless recovery was on already; the
    /// caller makes cwnd what is in flight and 1 more, so mostly 1.
    Timeout = 0,
    /// Recovery is over; cwnd may not be ssthresh yet, but will be.
    Recovered = 1,
    /// The last loss was spurious; the caller has restored cwnd.
    Undo = 2,
    /// The first transmission after an idle time.
    Restart = 3,
}

/// How an algorithm attaches to a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attach {
    /// It decides the window outside of recovery; the sender does the recovery.
    Window,
    /// It decides window and pacing rate at every acknowledgement, recovery included.
    Rate,
}

/// A parameter of an algorithm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    /// As in the file in `cc/`.
    pub name: &'static str,
    /// The unit of its value, as `1/1024`.
    pub unit: &'static str,
    /// Its meaning.
    pub what: &'static str,
}

/// Values of one algorithm's parameters. They come from its sets only, so they fit it.
#[derive(Clone)]
pub struct Params {
    entry: &'static FfiAlgorithm,
    values: Vec<u32>,
}

impl Params {
    /// The algorithm that they are for.
    pub fn algorithm(&self) -> &'static Algorithm {
        let ours = |algorithm: &&Algorithm| {
            // Those of programs share their entry, which has no name, and their values tell them apart.
            let is_one =
                !self.entry.name.is_null() || algorithm.default_set().values == self.values;
            std::ptr::eq(algorithm.entry, self.entry) && is_one
        };
        let known = Algorithm::all().iter().find(ours);
        known
            .or_else(|| Algorithm::from_files().into_iter().find(ours))
            .expect("every entry that parameters are for is an algorithm's")
    }

    /// In the order of [`Algorithm::params`].
    pub fn values(&self) -> &[u32] {
        &self.values
    }

    /// The same with one parameter changed.
    ///
    /// # Errors
    /// The algorithm has no such parameter.
    pub fn with(mut self, name: &str, value: u32) -> Result<Self, UnknownName> {
        let params = &self.algorithm().params;
        let at = params.iter().position(|param| param.name == name).ok_or_else(|| {
            let known: Vec<&str> = params.iter().map(|param| param.name).collect();
            UnknownName::new("parameter", name, &known)
        })?;
        self.values[at] = value;
        Ok(self)
    }
}

impl PartialEq for Params {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.entry, other.entry) && self.values == other.values
    }
}

impl Eq for Params {}

impl fmt::Debug for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = self.algorithm().params.iter().map(|param| param.name).zip(&self.values);
        f.debug_map().entries(named).finish()
    }
}

/// A named set of parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set {
    /// `paper`, `linux` ...
    pub name: &'static str,
    /// Where its values are from.
    pub source: &'static str,
    /// The values.
    pub params: Params,
}

/// An algorithm of `cc/`, or of a user's file.
#[derive(Debug)]
pub struct Algorithm {
    /// The file's name, and the kernel's name without `lh_`.
    pub name: &'static str,
    /// As people write it.
    pub title: &'static str,
    /// The algorithm in a line.
    pub rule: &'static str,
    /// Paper and section.
    pub source: &'static str,
    /// How it attaches.
    pub attach: Attach,
    /// Size of its state per connection.
    pub state_bytes: usize,
    /// Its parameters.
    pub params: Vec<Param>,
    /// Its parameter sets, the default first.
    pub sets: Vec<Set>,
    /// The file of a user that it was compiled from; none for those of `cc/`.
    pub file: Option<AlgorithmFile>,
    entry: &'static FfiAlgorithm,
}

/// Which file an algorithm was compiled from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlgorithmFile {
    /// Its name without directories.
    pub name: String,
    /// SHA-256 of its contents, in hexadecimal digits.
    pub sha256: String,
}

/// Algorithms of users' files, in the order in which they were loaded. They stay until the process ends.
static FROM_FILES: RwLock<Vec<&'static Algorithm>> = RwLock::new(Vec::new());

/// There is no such algorithm, parameter set or parameter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no {what} \"{name}\"; there are: {known}{}", .meant.as_ref().map_or(String::new(), |meant| format!(" (did you mean \"{meant}\"?)")))]
pub struct UnknownName {
    what: &'static str,
    name: String,
    known: String,
    meant: Option<String>,
}

impl UnknownName {
    fn new(what: &'static str, name: &str, known: &[&str]) -> Self {
        let close = |known: &&&str| strsim::damerau_levenshtein(name, known) <= 2;
        Self {
            what,
            name: name.to_owned(),
            known: known.join(", "),
            meant: known.iter().find(close).map(|&known| known.to_owned()),
        }
    }
}

impl Algorithm {
    /// Prefix of the names of algorithms in the kernel.
    pub const PREFIX: &str = "lh_";

    /// Every algorithm of `cc/algorithms.h`, in its order. Those of users' files are not among them.
    pub fn all() -> &'static [Algorithm] {
        static ALL: LazyLock<Vec<Algorithm>> = LazyLock::new(|| {
            // SAFETY: build.rs generates the table and its count together, as constants.
            let entries = unsafe {
                std::slice::from_raw_parts(
                    (&raw const longhaul_cc_algorithms).cast(),
                    longhaul_cc_count as usize,
                )
            };
            // SAFETY: build.rs makes the table of string literals and of arrays with their counts.
            entries.iter().map(|entry| unsafe { Algorithm::read(entry, None) }).collect()
        });
        &ALL
    }

    /// Those of the files that were loaded.
    pub fn from_files() -> Vec<&'static Algorithm> {
        FROM_FILES.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes up an algorithm of a file, unless one of its name is there.
    pub(crate) fn add(self) -> Result<&'static Algorithm, &'static Algorithm> {
        let mut from_files = FROM_FILES.write().unwrap_or_else(PoisonError::into_inner);
        let mut known = Self::all().iter().chain(from_files.iter().copied());
        if let Some(same) = known.find(|known| known.name == self.name) {
            return Err(same);
        }
        let algorithm: &'static Algorithm = Box::leak(Box::new(self));
        from_files.push(algorithm);
        Ok(algorithm)
    }

    /// Takes up an algorithm in place of the one of its name, if there is one.
    pub(crate) fn replace(self) -> &'static Algorithm {
        let mut from_files = FROM_FILES.write().unwrap_or_else(PoisonError::into_inner);
        from_files.retain(|known| known.name != self.name);
        let algorithm: &'static Algorithm = Box::leak(Box::new(self));
        from_files.push(algorithm);
        algorithm
    }

    /// An algorithm whose functions are told apart by `index`, which users cannot set.
    pub(crate) fn of_functions(
        name: String,
        rule: String,
        attach: Attach,
        file: AlgorithmFile,
        entry: &'static FfiAlgorithm,
        index: u32,
    ) -> Self {
        let name: &'static str = name.leak();
        let params = Params { entry, values: vec![index] };
        let set = Set { name: "program", source: "the program that added it", params };
        Self {
            name,
            title: name,
            rule: rule.leak(),
            source: "the program that added it",
            attach,
            state_bytes: size_of::<u64>(),
            params: Vec::new(),
            sets: vec![set],
            file: Some(file),
            entry,
        }
    }

    /// The algorithm of that name, with or without `lh_`: of `cc/`, or of a file that was loaded.
    ///
    /// # Errors
    /// There is none.
    pub fn find(name: &str) -> Result<&'static Algorithm, UnknownName> {
        let bare = name.strip_prefix(Self::PREFIX).unwrap_or(name);
        let all: Vec<_> = Self::all().iter().chain(Self::from_files()).collect();
        all.iter().copied().find(|algorithm| algorithm.name == bare).ok_or_else(|| {
            let known: Vec<&str> = all.iter().map(|algorithm| algorithm.name).collect();
            UnknownName::new("congestion control", bare, &known)
        })
    }

    /// Its name in the kernel, which never shadows one of the kernel's own.
    pub fn kernel_name(&self) -> String {
        format!("{}{}", Self::PREFIX, self.name)
    }

    /// The parameters in force unless others are asked for.
    pub fn default_set(&self) -> &Params {
        &self.sets[0].params
    }

    /// The parameter set of that name.
    ///
    /// # Errors
    /// The algorithm has none.
    pub fn set(&self, name: &str) -> Result<&Set, UnknownName> {
        self.sets.iter().find(|set| set.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.sets.iter().map(|set| set.name).collect();
            UnknownName::new("parameter set", name, &known)
        })
    }

    /// The name of the parameter set with these values, if there is one.
    pub fn set_name(&self, values: &[u32]) -> Option<&'static str> {
        self.sets.iter().find(|set| set.params.values() == values).map(|set| set.name)
    }

    /// # Safety
    /// The entry is made by `FFI_ENTRY` of ffi.h: of string literals and of arrays with their counts, which
    /// stay as long as the process. Its functions are those of the algorithm.
    pub(crate) unsafe fn read(entry: &'static FfiAlgorithm, file: Option<AlgorithmFile>) -> Self {
        // SAFETY: the caller promises the same.
        unsafe {
            let params = std::slice::from_raw_parts(entry.params, entry.param_count as usize);
            let sets = std::slice::from_raw_parts(entry.sets, entry.set_count as usize);
            Self {
                name: text(entry.name),
                title: text(entry.title),
                rule: text(entry.rule),
                source: text(entry.source),
                attach: if entry.rate == 0 { Attach::Window } else { Attach::Rate },
                state_bytes: entry.state_bytes as usize,
                params: params
                    .iter()
                    .map(|param| Param {
                        name: text(param.name),
                        unit: text(param.unit),
                        what: text(param.what),
                    })
                    .collect(),
                sets: sets
                    .iter()
                    .map(|set| Set {
                        name: text(set.name),
                        source: text(set.source),
                        params: Params {
                            entry,
                            values: std::slice::from_raw_parts(
                                set.values,
                                entry.param_count as usize,
                            )
                            .to_vec(),
                        },
                    })
                    .collect(),
                file,
                entry,
            }
        }
    }
}

/// An algorithm at work on one connection.
#[derive(Debug, Clone)]
pub struct Control {
    params: Params,
    state: State,
}

/// State of an algorithm per connection, in C's layout: `CC_STATE_MAX` bytes.
pub type State = [u64; 13];

impl Control {
    /// A connection that has just been established, with an algorithm by its parameters.
    pub fn new(params: &Params, ack: &Ack, decision: &mut Decision) -> Self {
        let mut control = Self::resume(params, State::default());
        control.call(params.entry.init, ack, decision);
        control
    }

    /// A control with a state that was read elsewhere, as from the kernel.
    pub fn resume(params: &Params, state: State) -> Self {
        Self { params: params.clone(), state }
    }

    /// The algorithm and its parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The bytes of its state, as C lays them out.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// An acknowledgement gave an RTT sample. Comes before [`Control::ack`], in any phase.
    pub fn rtt(&mut self, ack: &Ack, decision: &mut Decision) {
        self.call(self.params.entry.rtt, ack, decision);
    }

    /// The window may change. An [`Attach::Window`] algorithm is not asked while the caller brings
    /// the window down after a loss.
    pub fn ack(&mut self, ack: &Ack, decision: &mut Decision) {
        self.call(self.params.entry.ack, ack, decision);
    }

    /// Congestion, at most once a window of data: sets `ssthresh`.
    pub fn loss(&mut self, ack: &Ack, decision: &mut Decision) {
        self.call(self.params.entry.loss, ack, decision);
    }

    /// Something else happened.
    pub fn event(&mut self, ack: &Ack, decision: &mut Decision, event: Event) {
        // SAFETY: as in `call`.
        unsafe {
            (self.params.entry.event)(
                self.state.as_mut_ptr().cast(),
                self.params.values.as_ptr(),
                ack,
                decision,
                event as u32,
            );
        }
    }

    fn call(&mut self, hook: Hook, ack: &Ack, decision: &mut Decision) {
        // SAFETY: the state is as large and as aligned as any algorithm's (asserted when it is
        // compiled), the parameters are those of this algorithm (`Params` come from nowhere else
        // than its sets), and the functions keep no pointer.
        unsafe { hook(self.state.as_mut_ptr().cast(), self.params.values.as_ptr(), ack, decision) }
    }
}

/// Of a text that is not UTF-8, as a file may have one by escapes, what is.
unsafe fn text(literal: *const c_char) -> &'static str {
    // SAFETY: the caller passes a string literal of C.
    let literal = unsafe { CStr::from_ptr(literal) };
    literal.to_str().unwrap_or_else(|_| String::leak(literal.to_string_lossy().into_owned()))
}

/// The first rule of `contract.h` that a call of `hook` (its number there) has broken.
pub(crate) fn broken_rule(
    attach: Attach,
    hook: u32,
    before: &Decision,
    after: &Decision,
) -> Option<u32> {
    // SAFETY: a function of two numbers and two decisions, which it only reads.
    let rule =
        unsafe { longhaul_cc_broken_rule((attach == Attach::Rate).into(), hook, before, after) };
    (rule != 0).then_some(rule)
}

/// Functions of users' files unwind where they do what they may not; those of `cc/` never do.
type Hook = unsafe extern "C-unwind" fn(*mut c_void, *const u32, *const Ack, *mut Decision);

/// `struct ffi_param` of ffi.h.
#[repr(C)]
struct FfiParam {
    name: *const c_char,
    unit: *const c_char,
    what: *const c_char,
}

/// `struct ffi_set` of ffi.h.
#[repr(C)]
struct FfiSet {
    name: *const c_char,
    source: *const c_char,
    values: *const u32,
}

/// `struct ffi_algorithm` of ffi.h.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct FfiAlgorithm {
    name: *const c_char,
    title: *const c_char,
    rule: *const c_char,
    source: *const c_char,
    params: *const FfiParam,
    sets: *const FfiSet,
    param_count: u64,
    set_count: u64,
    state_bytes: u64,
    rate: u32,
    init: Hook,
    rtt: Hook,
    ack: Hook,
    loss: Hook,
    event: unsafe extern "C-unwind" fn(*mut c_void, *const u32, *const Ack, *mut Decision, u32),
}

impl FfiAlgorithm {
    /// Functions alone, for an algorithm that is described elsewhere.
    pub(crate) const fn of_functions(
        init: Hook,
        rtt: Hook,
        ack: Hook,
        loss: Hook,
        event: unsafe extern "C-unwind" fn(*mut c_void, *const u32, *const Ack, *mut Decision, u32),
    ) -> Self {
        Self {
            name: ptr::null(),
            title: ptr::null(),
            rule: ptr::null(),
            source: ptr::null(),
            params: ptr::null(),
            sets: ptr::null(),
            param_count: 0,
            set_count: 0,
            state_bytes: 0,
            rate: 0,
            init,
            rtt,
            ack,
            loss,
            event,
        }
    }
}

// SAFETY: the table is constant.
unsafe impl Sync for FfiAlgorithm {}
// SAFETY: the same.
unsafe impl Send for FfiAlgorithm {}

unsafe extern "C" {
    static longhaul_cc_algorithms: [FfiAlgorithm; 0];
    static longhaul_cc_count: u64;
    fn longhaul_cc_broken_rule(
        rate: u32,
        hook: u32,
        before: *const Decision,
        after: *const Decision,
    ) -> u32;
}
