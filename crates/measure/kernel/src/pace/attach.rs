// SPDX-License-Identifier: GPL-2.0-or-later
//! The program at a device, held by this process.

use super::{
    Counts, Method, Options, Refusal, Sender, Setup, fq, layout,
    readings::{self, ONLY},
    requirements,
};
use crate::{Error, Support, objects, support, sys};
use host::Device;
use libbpf_rs::{
    Link, MapCore, MapFlags, MapImpl, Object,
    btf::{Btf, types},
};
use std::{fs::File, path::Path};

/// Paces a device's packets until it is dropped, or the process ends. The device then goes on to be given
/// single segments, if it was: this is for devices that end with it.
#[derive(Debug)]
pub struct DevicePacer {
    // Dropped in this order: detached, then taken down.
    _link: Link,
    object: Object,
}

impl DevicePacer {
    /// Begins.
    ///
    /// # Errors
    /// [`Error::Pacing`], or the machine lacks something ([`Error::is_lack`]).
    pub fn attach(options: &Options) -> Result<Self, Error> {
        require_kernel()?;
        let device = requirements::find(&options.device)?;
        let setup = first_setup(&device, options)?;
        let object = load(&device, &setup)?;
        set_segments(&device, setup.method)?;
        Ok(Self { _link: link(&object, &device)?, object })
    }

    /// Counts of packets that have left.
    ///
    /// # Errors
    /// The kernel refused to tell.
    pub fn counts(&self) -> Result<Counts, Error> {
        readings::counts(&map(&self.object, WORK))
    }

    /// The senders of paced packets.
    ///
    /// # Errors
    /// The kernel refused to tell.
    pub fn senders(&self) -> Result<Vec<Sender>, Error> {
        readings::senders(&map(&self.object, SEEN))
    }
}

/// Names in the object.
pub const SETUP: &str = "setup";
pub const WORK: &str = "work";
pub const SEEN: &str = "seen";
pub const BEFORE: &str = "before";

/// The setup for a device that is not paced yet.
pub fn first_setup(device: &Device, options: &Options) -> Result<Setup, Error> {
    let method = options.method.map_or_else(|| requirements::method_for(device), Ok)?;
    requirements::require(device, method)?;
    let line = match options.frames.line {
        None => device.line_rate().map_err(|e| Error::system("read a device's line rate", e))?,
        line => line,
    };
    if line.is_none() && method == Method::Gap {
        return Err(Refusal::NoLine { name: device.name.clone() }.into());
    }
    Ok(Setup::of(device, method, line).with(device, &options.frames, &options.rules)?)
}

/// Gives the device single segments, if the method needs them.
pub fn set_segments(device: &Device, method: Method) -> Result<(), Error> {
    if method.has_single_segments() {
        device.set_gso_max_segs(1)?;
    }
    Ok(())
}

/// The requirement of a kernel pacing method that this machine, or the device, does not meet. `None`: all are met.
pub fn lacking(method: Method, device: Option<&str>) -> Option<Error> {
    let look = || {
        require_kernel()?;
        if method != Method::Gap {
            fq::require_fq()?;
        }
        device.map_or(Ok(()), |name| requirements::require(&requirements::find(name)?, method))
    };
    look().err()
}

/// Whether the kernel runs such programs, and we may load them.
pub fn require_kernel() -> Result<(), Error> {
    support::require_root()?;
    let path = Path::new(Support::BTF);
    File::open(path).map_err(|source| Error::NoBtf { path: path.to_owned(), source })?;
    let btf = Btf::from_path(path).map_err(Error::bpf(format!("read {}", path.display())))?;
    let tcx = btf.type_by_name::<types::Struct<'_>>("tcx_entry");
    tcx.map(drop).ok_or(Refusal::NoTcx.into())
}

/// The program, with what it is to do, not yet at the device.
pub fn load(device: &Device, setup: &Setup) -> Result<Object, Error> {
    let object = objects::load_plain("pace")?;
    write(&map(&object, SETUP), &layout::setup(setup))?;
    let before = if setup.method.has_single_segments() { device.gso_max_segs } else { 0 };
    write(&map(&object, BEFORE), &before.to_ne_bytes())?;
    Ok(object)
}

pub fn write(map: &impl MapCore, value: &[u8]) -> Result<(), Error> {
    let doing = format!("write {}", map.name().display());
    map.update(&ONLY, value, MapFlags::ANY).map_err(Error::bpf(doing))
}

/// Puts the program where the device's packets leave.
pub fn link(object: &Object, device: &Device) -> Result<Link, Error> {
    let program = object.progs_mut().next().expect("the object has one program");
    sys::attach_tcx(&program, device.index)
        .map_err(|e| Error::system(format!("attach to {}", device.name), e))
}

/// One of the object's maps.
pub fn map<'a>(object: &'a Object, name: &str) -> MapImpl<'a> {
    object.maps().find(|map| map.name() == name).expect("the program has it")
}
