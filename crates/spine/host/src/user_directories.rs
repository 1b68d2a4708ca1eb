// SPDX-License-Identifier: GPL-2.0-or-later
//! Where a user's programs keep their files (XDG Base Directory Specification 0.8, by which relative paths do not count).

use std::{env, path::PathBuf};

/// The directory for states: `$XDG_STATE_HOME`, or `~/.local/state`; none without a home.
pub fn state_directory() -> Option<PathBuf> {
    directory("XDG_STATE_HOME", ".local/state")
}

/// The directory for settings: `$XDG_CONFIG_HOME`, or `~/.config`; none without a home.
pub fn config_directory() -> Option<PathBuf> {
    directory("XDG_CONFIG_HOME", ".config")
}

fn directory(variable: &str, usual: &str) -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(variable).or_else(|| Some(absolute("HOME")?.join(usual)))
}
