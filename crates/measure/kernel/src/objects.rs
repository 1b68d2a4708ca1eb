// SPDX-License-Identifier: GPL-2.0-or-later
//! The compiled programs, and opening one for the kernel that runs.

use crate::{CongControl, Error, Restart, Support, cc::Options};
use congestion::Attach;
use libbpf_rs::{MapCore, MapMut, MapType, Object, ObjectBuilder, OpenObject, PrintLevel};
use std::{cell::RefCell, sync::Once};

/// libelf reads structures in place.
#[repr(C, align(8))]
struct Aligned<const N: usize>([u8; N]);

include!(concat!(env!("OUT_DIR"), "/objects.rs"));

/// Name of the object with the adapters that do nothing.
pub const EMPTY: &str = "empty";

/// Name of the object that times packets.
pub const MONITOR: &str = "monitor";

/// Names in the objects, see `src/bpf/adapter.h` and `src/bpf/monitor.bpf.c`.
pub const PARAMS: &str = ".rodata.params";
pub const OPTIONS: &str = ".rodata.options";
pub const TRACE: &str = "trace";
pub const TRACE_LOST: &str = ".data.lost";

/// linux/bpf.h: the registration is held by a link.
const BPF_F_LINK: u32 = 1 << 13;

/// Which `struct tcp_congestion_ops` of an object this kernel takes.
pub fn ops(attach: Attach, support: Support) -> &'static str {
    match (attach, support.cong_control, support.restart) {
        (Attach::Window, _, Restart::Own) => "window",
        (Attach::Window, _, Restart::CwndEvent) => "window_before_7_1",
        (Attach::Rate, CongControl::Two, _) => "rate_before_6_10",
        (Attach::Rate, CongControl::Four, Restart::CwndEvent) => "rate_before_7_1",
        (Attach::Rate, CongControl::Four, Restart::Own) => "rate",
    }
}

/// Settings of an object before it is loaded.
pub struct Setup<'a> {
    pub ops: &'static str,
    pub links: bool,
    /// In bytes; none in the empty adapters.
    pub params: Vec<u8>,
    pub options: &'a Options,
}

/// Loads the programs of an object; nothing is registered yet.
pub fn load(object: &str, name: &str, setup: &Setup<'_>) -> Result<Object, Error> {
    load_with(object, name, |open| set_up(open, setup))
}

/// The same for an object other than a congestion control.
pub fn load_with(
    object: &str,
    name: &str,
    set_up: impl FnOnce(&mut OpenObject) -> libbpf_rs::Result<()>,
) -> Result<Object, Error> {
    let (loaded, log) = with_libbpf_log(|| {
        let mut open = ObjectBuilder::default().open_memory(bytes(object))?;
        set_up(&mut open)?;
        open.load()
    });
    loaded.map_err(|source| refusal(name, source, log))
}

/// Loads an object that needs nothing set up.
pub fn load_plain(object: &str) -> Result<Object, Error> {
    let (loaded, log) =
        with_libbpf_log(|| ObjectBuilder::default().open_memory(bytes(object))?.load());
    loaded.map_err(|source| refusal(object, source, log))
}

/// The `struct_ops` of a loaded object.
pub fn struct_ops_map<'a>(object: &'a mut Object, ops: &str) -> MapMut<'a> {
    object.maps_mut().find(|map| map.name() == ops).expect("every adapter has its struct_ops")
}

/// An object as it was compiled.
pub fn bytes(object: &str) -> &'static [u8] {
    let found = OBJECTS.iter().find(|(name, _)| *name == object);
    found.expect("both crates are built from the same cc/algorithms.h").1
}

fn set_up(open: &mut OpenObject, setup: &Setup<'_>) -> libbpf_rs::Result<()> {
    for mut map in open.maps_mut() {
        let name = map.name().to_str().unwrap_or_default();
        match name {
            PARAMS => map.set_initial_value(&setup.params)?,
            OPTIONS => map.set_initial_value(&setup.options.bytes())?,
            TRACE | TRACE_LOST => map.set_autocreate(setup.options.trace)?,
            _ if name == setup.ops => {
                map.set_map_flags(if setup.links { BPF_F_LINK } else { 0 })?;
                let ops = map.initial_value_mut().expect("libbpf keeps what it will register");
                // `flags` comes first in our declaration, see src/bpf/kernel.h.
                ops[..4].copy_from_slice(&u32::from(!setup.options.restricted).to_ne_bytes());
            }
            _ if map.map_type() == MapType::StructOps => map.set_autocreate(false)?,
            _ => {}
        }
    }
    Ok(())
}

fn refusal(name: &str, source: libbpf_rs::Error, log: String) -> Error {
    // As libbpf prints it: no libc knows ENOTSUPP, the answer where programs can't be compiled.
    if log.contains("-ENOTSUPP") {
        return Error::NoJit;
    }
    // EACCES is the verifier's, of a program that does what it may not. This is not: and that the
    // caller has the capabilities is known.
    if log.contains("-EPERM") {
        return Error::Forbidden;
    }
    Error::Refused { name: name.to_owned(), source, log }
}

thread_local! {
    static HEARD: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `work` and gathers what libbpf says meanwhile, which else would be printed.
fn with_libbpf_log<T>(work: impl FnOnce() -> T) -> (T, String) {
    static LISTEN: Once = Once::new();
    LISTEN.call_once(|| {
        libbpf_rs::set_print(Some((PrintLevel::Warn, |_, message| {
            HEARD.with_borrow_mut(|heard| {
                if let Some(heard) = heard {
                    heard.push_str(&message);
                }
            });
        })));
    });
    HEARD.set(Some(String::new()));
    let result = work();
    (result, HEARD.take().unwrap_or_default())
}
