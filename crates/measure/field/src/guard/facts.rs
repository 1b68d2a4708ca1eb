// SPDX-License-Identifier: GPL-2.0-or-later
//! What kind of host this is.

use crate::message::Facts;
use host::Machine;
use std::{env, ffi::OsString, fs, path::Path};

/// Programs that experiments use.
const PROGRAMS: [&str; 5] = ["curl", "wget", "aria2c", "nginx", "tc"];

/// Of this host, with room in a directory.
pub fn of_this_host(directory: &Path) -> Facts {
    let Machine { kernel, cpu, cores, memory_bytes } = Machine::this();
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let uname = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    let controls = host::sysctl::available_congestion_controls().unwrap_or_default();
    let room = rustix::fs::statvfs(directory).ok();
    let found = |name: &&str| Some(((*name).to_owned(), program(name)?));
    Facts {
        name: text(uname.nodename()),
        kernel,
        architecture: text(uname.machine()),
        cpu,
        cores,
        memory_bytes,
        boot_id: boot_id.trim().to_owned(),
        is_root: rustix::process::geteuid().is_root(),
        congestion_controls: controls.split_whitespace().map(str::to_owned).collect(),
        programs: PROGRAMS.iter().filter_map(found).collect(),
        free_bytes: room.map_or(0, |room| room.f_bavail.saturating_mul(room.f_frsize)),
    }
}

/// Where programs are. Users' paths lack the folders of root's programs.
pub fn search_path() -> OsString {
    let paths = env::var_os("PATH").unwrap_or_default();
    let all = env::split_paths(&paths).chain(["/usr/sbin".into(), "/sbin".into()]);
    env::join_paths(all).unwrap_or(paths)
}

/// Where a program is.
fn program(name: &str) -> Option<String> {
    let paths = search_path();
    let file =
        env::split_paths(&paths).map(|folder| folder.join(name)).find(|file| file.is_file())?;
    Some(file.to_string_lossy().into_owned())
}
