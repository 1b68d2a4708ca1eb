// SPDX-License-Identifier: GPL-2.0-or-later
//! Congestion controls: loading, keeping, listing and unloading them.
//!
//! A congestion control is the machine's: its name is seen in every network namespace. One that is
//! only loaded goes with its [`Loaded`], and with the process, however that ends. A pinned one
//! stays until [`unload`] or a reboot; its files are under `longhaul/lh_NAME` of the machine's BPF
//! file system, or of one that longhaul mounts for the time being. Sockets that use one which is
//! taken away carry on with it until they are closed.
//!
//! Mounts are not the machine's everywhere (`ip netns exec`, sandboxed services). There, what is
//! pinned is seen, and loading works, but pinning and unloading are refused.

mod documents;
mod list;
#[cfg(test)]
mod older_kernels;
mod options;
mod pin;
mod settings;
mod trace;
mod unload;

pub use documents::{
    AlgorithmDescription, CongestionControlList, CongestionControlStatus, ParameterDescription,
    SetDescription, decides,
};
pub use list::{Entry, InForce, Provider, list, provider};
pub use options::Options;
pub use trace::{Call, Hook, Trace};
pub use unload::{DefaultReset, Unloaded, unload};

use crate::{
    Error, ProgramRuns, Support,
    lock::Lock,
    objects::{self, EMPTY, Setup},
    sys,
};
use congestion::{Attach, Params};
use libbpf_rs::{Link, Object};
use pin::{Pin, Registration};
use std::{os::fd::AsFd, time::Duration};

/// The holder that keeps a congestion control in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// The [`Loaded`] at hand.
    This,
    /// Its pin, which was there before.
    Pin,
    /// Another process, or another [`Loaded`]; its parameters are not known here.
    Other,
}

/// A congestion control that the kernel offers by its name.
#[derive(Debug)]
pub struct Loaded {
    name: String,
    /// Only of one that this process loaded.
    ours: Option<Ours>,
    holder: Holder,
}

#[derive(Debug)]
struct Ours {
    // Dropped in this order: withdrawn, then taken down.
    link: Link,
    object: Object,
    links: bool,
    traced: bool,
}

/// Loads an algorithm. One that is loaded already is left as it is, see [`Loaded::holder`].
///
/// # Errors
/// The machine lacks something ([`Error::is_lack`]); it is pinned with other parameters or options;
/// another process holds it and a trace was asked for; the kernel refused it.
pub fn load(params: &Params, options: &Options) -> Result<Loaded, Error> {
    let algorithm = params.algorithm();
    let support = Support::probe()?;
    let name = algorithm.kernel_name();
    let _lock = Lock::take()?;
    if let Some(holder) = find_holder(&name, params, options)? {
        return Ok(Loaded { name, ours: None, holder });
    }
    let params = params.values().iter().flat_map(|value| value.to_ne_bytes()).collect();
    let ops = objects::ops(algorithm.attach, support);
    attach(algorithm.name, name, &Setup { ops, links: support.links, params, options })
}

/// Loads a congestion control of that kind that does nothing, as the base line of a measurement.
///
/// # Errors
/// As [`load`].
pub fn load_empty(attach_as: Attach) -> Result<Loaded, Error> {
    let support = Support::probe()?;
    let name = match attach_as {
        Attach::Window => "lh_empty_window",
        Attach::Rate => "lh_empty_rate",
    };
    let _lock = Lock::take()?;
    let options = Options::default();
    let ops = objects::ops(attach_as, support);
    let setup = Setup { ops, links: support.links, params: Vec::new(), options: &options };
    attach(EMPTY, name.to_owned(), &setup)
}

/// The present holder, if there is one whose parameters and options match.
fn find_holder(name: &str, params: &Params, options: &Options) -> Result<Option<Holder>, Error> {
    if let Some(pin) = Pin::find(name)? {
        let names = params.algorithm().params.iter().map(|param| param.name);
        let values = names.zip(pin.params()?).zip(params.values());
        let others = values.filter(|((_, found), wanted)| found != *wanted);
        let mut with: Vec<_> = others.map(|((name, found), _)| format!("{name}={found}")).collect();
        with.extend(pin.options()?.differences_from(options));
        if with.is_empty() {
            return Ok(Some(Holder::Pin));
        }
        return Err(Error::OtherParameters { name: name.to_owned(), with });
    }
    pin::sweep(name)?;
    if !settings::available()?.iter().any(|other| other == name) {
        return Ok(None);
    }
    if options.trace {
        return Err(Error::HeldElsewhere { name: name.to_owned() });
    }
    Ok(Some(Holder::Other))
}

fn attach(object: &str, name: String, setup: &Setup<'_>) -> Result<Loaded, Error> {
    let mut object = objects::load(object, &name, setup)?;
    let link = objects::struct_ops_map(&mut object, setup.ops)
        .attach_struct_ops()
        .map_err(Error::bpf(format!("register {name}")))?;
    let ours = Ours { link, object, links: setup.links, traced: setup.options.trace };
    Ok(Loaded { name, ours: Some(ours), holder: Holder::This })
}

impl Loaded {
    /// Its name in the kernel, for `TCP_CONGESTION`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The holder that keeps it in the kernel.
    pub fn holder(&self) -> Holder {
        self.holder
    }

    /// Whether it stays for a child that this process forks and leaves behind. Not before Linux
    /// 6.4, unless another process keeps it: there, this process removes what it has registered.
    pub fn is_inherited(&self) -> bool {
        self.ours.as_ref().is_none_or(|ours| ours.links)
    }

    /// Makes it stay after the process has ended.
    ///
    /// # Errors
    /// Another process holds it; there is no BPF file system and none can be mounted; mounts of this
    /// process are not the machine's.
    pub fn pin(self) -> Result<(), Error> {
        let Some(mut ours) = self.ours else {
            return match self.holder {
                Holder::Other => Err(Error::HeldElsewhere { name: self.name }),
                Holder::This | Holder::Pin => Ok(()),
            };
        };
        let _lock = Lock::take()?;
        let registration = Registration { link: &mut ours.link, is_link: ours.links };
        pin::pin(&self.name, &mut ours.object, registration)?;
        if !ours.links {
            // Else libbpf would take the registration back.
            ours.link.disconnect();
        }
        Ok(())
    }

    /// Has each call of the algorithm shown to `on_call`, whenever the [`Trace`] is polled.
    ///
    /// # Errors
    /// It was not loaded with [`Options::trace`] by this process.
    pub fn trace<'a>(&'a self, on_call: impl FnMut(Call) + 'a) -> Result<Trace<'a>, Error> {
        let not_traced = || Error::NotTraced { name: self.name.clone() };
        let ours = self.ours.as_ref().filter(|ours| ours.traced).ok_or_else(not_traced)?;
        Trace::open(&ours.object, on_call)
    }

    /// Run times of its hooks while [`crate::BpfStatistics`] were on. Empty if another process has
    /// loaded it.
    ///
    /// # Errors
    /// The kernel refused to tell.
    pub fn runs(&self) -> Result<Vec<ProgramRuns>, Error> {
        let programs = self.ours.iter().flat_map(|ours| ours.object.progs());
        let loaded = programs.filter(libbpf_rs::ProgramImpl::autoload);
        loaded
            .map(|program| {
                let (count, time_ns) = sys::program_runs(program.as_fd())
                    .map_err(|e| Error::system("read what a BPF program has cost", e))?;
                let section = program.section().to_string_lossy();
                let hook = section.trim_start_matches("struct_ops/").to_owned();
                Ok(ProgramRuns { hook, count, time: Duration::from_nanos(time_ns) })
            })
            .collect()
    }
}
