// SPDX-License-Identifier: GPL-2.0-or-later
//! Pins, which keep a congestion control in the kernel without a process: files in a BPF file system
//! ([`crate::bpffs`]). Called under the lock.

use super::{options::Options, settings::available};
use crate::{
    Error,
    bpffs::{
        self, exists, file_system, pin_directories, remove_empty_directories,
        require_machines_mounts,
    },
    maps::words,
    objects,
};
use libbpf_rs::{Link, MapCore, MapHandle, Object, query::LinkTypeInfo};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The files of a pinned congestion control.
pub struct Pin {
    folder: PathBuf,
    registration: &'static str,
}

/// The registration: a link, or before Linux 6.4 the map of the `struct_ops` itself.
const LINK: &str = "link";
const MAP: &str = "map";
const PARAMS: &str = "params";
const OPTIONS: &str = "options";

impl Pin {
    /// Those of that name, if they keep it in the kernel.
    pub fn find(name: &str) -> Result<Option<Self>, Error> {
        if !available()?.iter().any(|other| other == name) {
            return Ok(None);
        }
        for folder in pin_directories() {
            for registration in [LINK, MAP] {
                let pin = Self { folder: folder.join(name), registration };
                if exists(&pin.registration())? && pin.is_attached()? {
                    return Ok(Some(pin));
                }
            }
        }
        Ok(None)
    }

    fn registration(&self) -> PathBuf {
        self.folder.join(self.registration)
    }

    /// Whether it still has what it was made for: anybody can detach a link (`bpftool link detach`).
    fn is_attached(&self) -> Result<bool, Error> {
        if self.registration == MAP {
            return Ok(true);
        }
        let link = self.registration();
        let info = Link::open(&link).and_then(|link| link.info());
        let info = info.map_err(Error::bpf(format!("open {}", link.display())))?;
        Ok(matches!(info.info, LinkTypeInfo::StructOps(ops) if ops.map_id != 0))
    }

    /// The parameters in force.
    pub fn params(&self) -> Result<Vec<u32>, Error> {
        words(&self.map(PARAMS)?, "its parameters")
    }

    /// The options with which it was loaded.
    pub fn options(&self) -> Result<Options, Error> {
        Ok(Options::of_words(&words(&self.map(OPTIONS)?, "its options")?))
    }

    /// Takes the congestion control out of the kernel.
    pub fn remove(self) -> Result<(), Error> {
        if self.registration == MAP {
            let ops = self.map(MAP)?;
            ops.delete(&0u32.to_ne_bytes()).map_err(Error::bpf("unregister it"))?;
        }
        clear(&self.folder)?;
        remove_empty_directories();
        Ok(())
    }

    fn map(&self, file: &str) -> Result<MapHandle, Error> {
        let path = self.folder.join(file);
        MapHandle::from_pinned_path(&path).map_err(Error::bpf(format!("open {}", path.display())))
    }
}

/// Removes remains of pins of that name that [`Pin::find`] does not find.
pub fn sweep(name: &str) -> Result<(), Error> {
    for folder in pin_directories() {
        clear(&folder.join(name))?;
    }
    remove_empty_directories();
    Ok(())
}

/// Registration of a congestion control that this process holds.
pub struct Registration<'a> {
    /// The link, or before Linux 6.4 the registered map as libbpf's link.
    pub link: &'a mut Link,
    /// Whether it is a link of the kernel's.
    pub is_link: bool,
}

/// Pins a loaded one. The registration comes last: without it the others mean nothing.
pub fn pin(name: &str, object: &mut Object, registration: Registration<'_>) -> Result<(), Error> {
    require_machines_mounts()?;
    let folder = file_system()?.join(name);
    clear(&folder)?;
    fs::create_dir_all(&folder)
        .map_err(|e| Error::system(format!("make {}", folder.display()), e))?;
    let pinned = pin_into(&folder, object, registration);
    if pinned.is_err() {
        // What failed is what gets reported.
        let _ = clear(&folder);
        remove_empty_directories();
    }
    pinned.map_err(Error::bpf(format!("pin into {}", folder.display())))
}

fn pin_into(
    folder: &Path,
    object: &mut Object,
    registration: Registration<'_>,
) -> libbpf_rs::Result<()> {
    for mut map in object.maps_mut() {
        match map.name().to_str() {
            Some(objects::PARAMS) => map.pin(folder.join(PARAMS))?,
            Some(objects::OPTIONS) => map.pin(folder.join(OPTIONS))?,
            _ => {}
        }
    }
    let Registration { link, is_link } = registration;
    link.pin(folder.join(if is_link { LINK } else { MAP }))
}

/// Removes a folder of pins, if it is there: the registration first, so that it never stands alone.
fn clear(folder: &Path) -> Result<(), Error> {
    bpffs::clear(folder, &[LINK, MAP, PARAMS, OPTIONS])
}
