// SPDX-License-Identifier: GPL-2.0-or-later
//! What keeps a congestion control in the kernel without a process: files in a BPF file system.
//!
//! `/sys/fs/bpf` where one is mounted, as systemd does; else one of longhaul's own in
//! `/run/longhaul/bpf`, unmounted when its last congestion control is unloaded. Called under the
//! lock.
//!
//! A process may have mounts of its own, without either. Then pins are looked for with the eyes of
//! process 1, but none is made: that would go with those mounts.

use super::{Options, Ours, list::available, lock::FOLDER, words};
use crate::{Error, objects};
use libbpf_rs::{Link, MapCore, MapHandle, query::LinkTypeInfo};
use rustix::{
    fs::statfs,
    mount::{MountFlags, UnmountFlags, mount, unmount},
};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

const MACHINES: &str = "/sys/fs/bpf";

fn own() -> PathBuf {
    Path::new(FOLDER).join("bpf")
}

/// Where pins may be.
fn roots() -> impl Iterator<Item = PathBuf> {
    let machine = if has_own_mounts() { "/proc/1/root" } else { "" };
    // Not `join`, which an absolute path would replace.
    let seen = move |path: PathBuf| PathBuf::from(format!("{machine}{}", path.display()));
    [MACHINES.into(), own()].into_iter().map(seen).filter(|root| mounted(root))
}

/// Whether the calling thread sees other mounts than process 1; not if that can't be told.
fn has_own_mounts() -> bool {
    let mounts_of = |who| fs::read_link(format!("/proc/{who}/ns/mnt")).ok();
    mounts_of("1").is_some_and(|machines| mounts_of("thread-self") != Some(machines))
}

/// Refuses to work with pins that would not be the machine's.
pub fn require_machines_mounts() -> Result<(), Error> {
    if has_own_mounts() { Err(Error::OwnMounts) } else { Ok(()) }
}

/// linux/magic.h: `BPF_FS_MAGIC`.
const BPF_FS: u64 = 0xcafe_4a11;

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
        for root in roots() {
            for registration in [LINK, MAP] {
                let pin = Self { folder: root.join("longhaul").join(name), registration };
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

    /// What it was loaded with.
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
        tidy();
        Ok(())
    }

    fn map(&self, file: &str) -> Result<MapHandle, Error> {
        let path = self.folder.join(file);
        MapHandle::from_pinned_path(&path).map_err(Error::bpf(format!("open {}", path.display())))
    }
}

/// Removes what is left of pins of that name that [`Pin::find`] does not find.
pub fn sweep(name: &str) -> Result<(), Error> {
    for root in roots() {
        clear(&root.join("longhaul").join(name))?;
    }
    tidy();
    Ok(())
}

/// Pins a loaded one. The registration comes last: without it the others mean nothing.
pub fn pin(name: &str, ours: &mut Ours) -> Result<(), Error> {
    require_machines_mounts()?;
    let folder = file_system()?.join("longhaul").join(name);
    clear(&folder)?;
    fs::create_dir_all(&folder)
        .map_err(|e| Error::system(format!("make {}", folder.display()), e))?;
    let pinned = pin_into(&folder, ours);
    if pinned.is_err() {
        // What failed is what gets reported.
        let _ = clear(&folder);
        tidy();
    }
    pinned.map_err(Error::bpf(format!("pin into {}", folder.display())))
}

fn pin_into(folder: &Path, ours: &mut Ours) -> libbpf_rs::Result<()> {
    for mut map in ours.object.maps_mut() {
        match map.name().to_str() {
            Some(objects::PARAMS) => map.pin(folder.join(PARAMS))?,
            Some(objects::OPTIONS) => map.pin(folder.join(OPTIONS))?,
            _ => {}
        }
    }
    ours.link.pin(folder.join(if ours.links { LINK } else { MAP }))
}

/// The BPF file system to use, mounted if there is none.
fn file_system() -> Result<PathBuf, Error> {
    let machines = PathBuf::from(MACHINES);
    if mounted(&machines) {
        return Ok(machines);
    }
    let own = own();
    if !mounted(&own) {
        let failed = |e| Error::system(format!("mount a BPF file system at {}", own.display()), e);
        fs::create_dir_all(&own).map_err(failed)?;
        mount("bpf", &own, "bpf", MountFlags::empty(), c"mode=0700")
            .map_err(|e| failed(e.into()))?;
    }
    Ok(own)
}

/// Removes what is empty: our folder, and the file system if it was ours.
fn tidy() {
    let own = own();
    for root in [Path::new(MACHINES), &own] {
        if mounted(root) {
            // Not while others are in it.
            let _ = fs::remove_dir(root.join("longhaul"));
        }
    }
    if mounted(&own) && !own.join("longhaul").exists() {
        // Somebody may be looking at it; the next unload tries again.
        let _ = unmount(&own, UnmountFlags::empty());
        let _ = fs::remove_dir(&own);
    }
}

/// Removes a folder of pins, if it is there: the registration first, so that it never stands alone.
fn clear(folder: &Path) -> Result<(), Error> {
    let failed = |e| Error::system(format!("remove {}", folder.display()), e);
    for file in [LINK, MAP, PARAMS, OPTIONS] {
        absent_is_fine(fs::remove_file(folder.join(file))).map_err(failed)?;
    }
    absent_is_fine(fs::remove_dir(folder)).map_err(failed)
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|e| if e.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(e) })
}

fn exists(path: &Path) -> Result<bool, Error> {
    path.try_exists().map_err(|e| Error::system(format!("look for {}", path.display()), e))
}

fn mounted(path: &Path) -> bool {
    statfs(path).is_ok_and(|found| found.f_type as u64 & 0xffff_ffff == BPF_FS)
}
