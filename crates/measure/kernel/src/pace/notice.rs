// SPDX-License-Identifier: GPL-2.0-or-later
//! Notices of pacing for unprivileged processes: a world-readable file for each paced device.
//!
//! A notice is given after pacing has begun and withdrawn before it ends; while rules change there is none. So
//! what a notice says is true, as long as no user detaches the program by other means, or takes fq from a device that
//! is paced by departure times; and a change that was cut
//! short leaves no notice rather than a false one, until the next call looks. A device of that number and name
//! that is there no more makes its notice void.

use super::{Method, Setup, requirements::namespace};
use crate::Error;
use host::{DeviceHandle, RUN_DIRECTORY, RunDirectory};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

#[derive(Debug, Serialize, Deserialize)]
struct Notice {
    device: String,
    /// By which method: `gap` or `edt`.
    by: String,
    /// The networks to which all packets are paced.
    peers: Vec<IpNet>,
}

fn folder() -> PathBuf {
    Path::new(RUN_DIRECTORY).join("paced")
}

/// Whether all packets to a network are kept apart by that method where they leave by one of this network
/// namespace's devices, by rules that stay without a process. It is all one whether super-packets are. Takes no rights. By which device they leave,
/// [`super::devices_towards`] says.
///
/// # Errors
/// The notices cannot be read.
pub fn is_paced(net: &IpNet, method: Method) -> Result<bool, Error> {
    let here = format!("{}-", namespace()?);
    for (name, path) in notices()? {
        let Some(index) = name.strip_prefix(&here) else { continue };
        let notice = match fs::read(&path) {
            // Withdrawn meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            text => text.map_err(failed("read", &path))?,
        };
        let notice: Notice =
            serde_json::from_slice(&notice).map_err(|e| failed("read", &path)(e.into()))?;
        let found = DeviceHandle::find(&notice.device);
        let found = found.map_err(|e| Error::system("look for a device", e))?;
        let is_there = found.is_some_and(|found| found.index.to_string() == index);
        if is_there
            && notice.by == method.word()
            && notice.peers.iter().any(|peers| peers.contains(net))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// All of them: their names, which are those of devices' pins, and paths.
fn notices() -> Result<Vec<(String, PathBuf)>, Error> {
    let folder = folder();
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed("read", &folder))?,
    };
    let path = |entry: io::Result<fs::DirEntry>| Ok(entry.map_err(failed("read", &folder))?.path());
    let paths = entries.map(path).collect::<Result<Vec<_>, Error>>()?;
    let named = |path: PathBuf| Some((path.file_stem()?.to_str()?.to_owned(), path));
    let whole = |path: &PathBuf| path.extension().is_some_and(|end| end == "json");
    Ok(paths.into_iter().filter(whole).filter_map(named).collect())
}

fn path(name: &str) -> PathBuf {
    folder().join(format!("{name}.json"))
}

/// Whether there is one.
pub(super) fn is_published(name: &str) -> Result<bool, Error> {
    let path = path(name);
    path.try_exists().map_err(failed("look for", &path))
}

/// Gives one, whole or not at all.
pub(super) fn publish(name: &str, device: &str, setup: &Setup) -> Result<(), Error> {
    let (device, by) = (device.to_owned(), setup.method.word().to_owned());
    let notice = Notice { device, by, peers: setup.networks_paced_on_every_port().collect() };
    let text = serde_json::to_vec(&notice).expect("plain data");
    // For everybody to read.
    let folder = RunDirectory::open().and_then(|folder| folder.subdirectory("paced"));
    let written = folder.and_then(|folder| folder.write(&format!("{name}.json"), &text, 0o644));
    written.map(drop).map_err(failed("write", &path(name)))
}

/// Withdraws one, if there is one.
pub(super) fn withdraw(name: &str) -> Result<(), Error> {
    for path in [path(name), path(name).with_extension("json.new")] {
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed.map_err(failed("remove", &path))?,
        }
    }
    // Not while there are others.
    let _ = fs::remove_dir(folder());
    Ok(())
}

/// Withdraws those of no device that has pins.
pub(super) fn withdraw_others(names: &BTreeSet<String>) -> Result<(), Error> {
    let mut others = notices()?.into_iter().filter(|(name, _)| !names.contains(name));
    others.try_for_each(|(name, _)| withdraw(&name))
}

fn failed(doing: &str, path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    let doing = format!("{doing} {}", path.display());
    move |error| Error::system(doing, error)
}
