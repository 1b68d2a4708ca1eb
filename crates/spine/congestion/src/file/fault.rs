// SPDX-License-Identifier: GPL-2.0-or-later
//! Faults of a user's algorithm, with file and line, and the unwinding from there.

#![expect(unsafe_code, reason = "is called by guard.c")]

use super::source::Source;
use crate::ffi::{Ack, Decision};
use addr2line::{Context, gimli};
use object::{Object, ObjectSection};
use std::{
    ffi::c_void,
    fs::{self, File},
    os::fd::AsRawFd,
    panic::{self, AssertUnwindSafe},
};

/// A mistake of an algorithm that was compiled from a file. The call that made it did not come to an end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: cc_{algorithm}_{hook} {what}\n  {told}")]
pub struct Fault {
    /// File and line.
    pub place: String,
    /// The algorithm's name.
    pub algorithm: String,
    /// Which of its functions was called: `ack`.
    pub hook: &'static str,
    /// The fault and its remedy.
    pub what: String,
    /// Its input and its decision.
    pub told: String,
}

/// Runs a function that may call algorithms of files, until it returns or one of them fails. After a failure the
/// state that the function used is incomplete: drop it.
///
/// # Errors
/// The first mistake.
pub fn catch_fault<T>(run: impl FnOnce() -> T) -> Result<T, Box<Fault>> {
    panic::catch_unwind(AssertUnwindSafe(run)).map_err(|payload| match payload.downcast() {
        Ok(fault) => fault,
        Err(other) => panic::resume_unwind(other),
    })
}

/// Where faults of a library come from: the context that guard.c hands back.
#[derive(Debug)]
pub(super) struct Origin {
    file: String,
    name: String,
    library: File,
}

impl Origin {
    pub fn new(source: &Source, library: File) -> Self {
        Self { file: source.path.clone(), name: source.name.clone(), library }
    }
}

/// `struct guard_fault` of guard.c.
#[repr(C)]
pub(super) struct GuardFault {
    origin: *const c_void,
    ack: *const Ack,
    place: u64,
    address: u64,
    size: u64,
    state: u64,
    state_bytes: u64,
    params: u64,
    params_bytes: u64,
    before: Decision,
    after: Decision,
    kind: u32,
    hook: u32,
    is_static: u32,
}

/// The function that guard.c calls.
pub(super) type Raise = unsafe extern "C-unwind" fn(*const GuardFault) -> !;

/// Makes a [`Fault`] of it, and unwinds. Panics are not reported: nothing of longhaul has failed.
pub(super) unsafe extern "C-unwind" fn raise(fault: *const GuardFault) -> ! {
    // SAFETY: guard.c passes one on its stack, which stays until this has unwound it. Origin and
    // acknowledgement are what it was given itself.
    let (fault, origin, ack) = unsafe {
        let fault = &*fault;
        (fault, &*fault.origin.cast::<Origin>(), &*fault.ack)
    };
    let described = Fault {
        place: place(origin, fault.place),
        algorithm: origin.name.clone(),
        hook: HOOKS[fault.hook as usize],
        what: what(origin, fault),
        told: told(ack, &fault.before),
    };
    panic::resume_unwind(Box::new(described))
}

/// In the order of `enum ffi_hook`.
pub(crate) const HOOKS: [&str; 5] = ["init", "rtt", "ack", "loss", "event"];

/// File and line of an instruction: of the user's file, and if it is a function of `cc/` that was called from there, of
/// that too.
fn place(origin: &Origin, address: u64) -> String {
    // What is known is the address that a call comes back to, which may be of the next line.
    let frames = lines(&origin.library, address.saturating_sub(1)).unwrap_or_default();
    let in_header = |file: &str| file.contains("/longhaul-cc-");
    match (frames.iter().find(|(file, _)| !in_header(file)), frames.first()) {
        (Some((_, line)), Some((inner, inner_line))) if in_header(inner) => {
            let header = inner.rsplit('/').next().unwrap_or(inner);
            format!("{}:{line} (cc/{header}:{inner_line})", origin.file)
        }
        (Some((_, line)), _) => format!("{}:{line}", origin.file),
        _ => origin.file.clone(),
    }
}

/// File and line of an address by the library's debug information: where the instruction is from, and where each
/// function that was inlined was called.
fn lines(library: &File, address: u64) -> Option<Vec<(String, u32)>> {
    let bytes = fs::read(format!("/proc/self/fd/{}", library.as_raw_fd())).ok()?;
    let object = object::File::parse(&*bytes).ok()?;
    let section = |id: gimli::SectionId| -> Result<_, gimli::Error> {
        let section = object.section_by_name(id.name()).and_then(|section| section.data().ok());
        Ok(gimli::EndianSlice::new(section.unwrap_or_default(), gimli::NativeEndian))
    };
    let context = Context::from_dwarf(gimli::Dwarf::load(section).ok()?).ok()?;
    let mut frames = context.find_frames(address).skip_all_loads().ok()?;
    let mut lines = Vec::new();
    while let Ok(Some(frame)) = frames.next() {
        if let Some((Some(file), Some(line))) = frame.location.map(|at| (at.file, at.line)) {
            lines.push((file.to_owned(), line));
        }
    }
    Some(lines)
}

fn what(origin: &Origin, fault: &GuardFault) -> String {
    let name = &origin.name;
    // `enum guard_kind`, which begins behind the rules.
    match fault.kind {
        rule @ 0..16 => rule_text(rule, name, &fault.before, &fault.after),
        16 => access("reads", name, fault),
        17 => access("writes", name, fault),
        18 => "does not end: it has gone through 1000000 blocks of code".to_owned(),
        19 => "takes more than 64 KiB of stack".to_owned(),
        20 => "divides by zero, or the smallest number by -1".to_owned(),
        21 => {
            "shifts by a negative number, or by as many bits as the number has or more".to_owned()
        }
        22 => "exceeds what a signed number holds".to_owned(),
        23 => "goes beyond the end of an array".to_owned(),
        _ => "comes to __builtin_unreachable()".to_owned(),
    }
}

/// Text for an algorithm's breach of a rule: `enum ffi_rule` of contract.h.
pub(crate) fn rule_text(rule: u32, name: &str, before: &Decision, after: &Decision) -> String {
    let Decision { cwnd: before, .. } = before;
    let Decision { cwnd: after, ssthresh, .. } = after;
    match rule {
        1 => "leaves cwnd 0; it is at least 1".to_owned(),
        2 => format!(
            "makes cwnd smaller, {before} to {after}; a window algorithm only lets it grow there. \
             One that may shrink it says #define cc_{name}_kind rate"
        ),
        3 => format!(
            "changes cwnd, {before} to {after}; a window algorithm sets ssthresh alone, and the sender brings cwnd \
             down to it. One that sets cwnd itself says #define cc_{name}_kind rate"
        ),
        _ => format!("sets ssthresh to {ssthresh}; it is at least CC_MIN_CWND, 2"),
    }
}

/// An access to memory that is not the algorithm's.
fn access(does: &str, name: &str, fault: &GuardFault) -> String {
    let GuardFault { address, size, state, state_bytes, params, .. } = *fault;
    // So near to an object it is most likely an index that went too far.
    let near = |start: u64| {
        let distance = address.wrapping_sub(start).cast_signed();
        (distance.unsigned_abs() < 65_536).then_some(distance)
    };
    let is_in = |start: u64, length: u64| address.wrapping_sub(start) < length;
    if address < 65_536 {
        return format!("{does} {size} bytes through a null pointer (address {address:#x})");
    }
    if fault.is_static != 0 {
        return format!(
            "{does} a variable of the file; what it remembers belongs into struct cc_{name}, since connections and \
             simulations share the file's variables"
        );
    }
    let place = near(state).map_or(format!(", at address {address:#x}"), |at| {
        format!(": at byte {at} of struct cc_{name}, which has {state_bytes}")
    });
    let readable = if is_in(fault.ack as u64, size_of::<Ack>() as u64) {
        "; there is the acknowledgement, which is only to be read"
    } else if is_in(params, fault.params_bytes) {
        "; there are its parameters, which are only to be read"
    } else {
        ""
    };
    format!("{does} {size} bytes outside of its state{place}{readable}")
}

/// What an algorithm was told, and what was in force.
pub(crate) fn told(ack: &Ack, before: &Decision) -> String {
    let Ack { now_us, acked, lost, rtt_us, min_rtt_us, in_flight, flags, .. } = ack;
    let Decision { cwnd, ssthresh, pacing_rate } = before;
    format!(
        "told: now_us {now_us}, acked {acked}, lost {lost}, rtt_us {rtt_us}, min_rtt_us {min_rtt_us}, in_flight \
         {in_flight}, flags {flags}; in force: cwnd {cwnd}, ssthresh {ssthresh}, pacing_rate {pacing_rate}"
    )
}
