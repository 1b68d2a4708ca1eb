// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul depot pace`: what a configuration's `pacing = "gap"` or `"edt"` takes of the kernel, which a depot has no
//! rights to do by itself; and what a depot asks about it.

use crate::{failure::Failure, pace::in_separate_session, print::print_text};
use ::depot::{Config, Pacers, PacingMethod};
use ::kernel::pace::{self, LineRate, Options, Owner, PacedPeer};
use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Have the kernel pace packets to those peers of a configuration whose `pacing` is gap or edt. Takes
/// root.
///
/// Puts rules where `longhaul pace add` puts them, on each device by which packets to such a peer leave, in
/// the place of those that this file had before, and prints them. They stay until this is called again with
/// --off, or the machine restarts. Call it again before a depot reads a changed configuration, and when
/// routes have changed.
#[derive(Debug, clap::Args)]
pub struct PaceArgs {
    /// The depot's configuration file
    file: PathBuf,
    /// Take away what this file has had
    #[arg(long, conflicts_with = "line")]
    off: bool,
    /// The rate of the link of a device, or of all [default: what the device says]
    #[arg(long, value_name = "[DEVICE=]RATE")]
    line: Vec<LineRate>,
    #[arg(long, hide = true)]
    apart: bool,
}

/// What a pacing method is in the kernel.
fn in_kernel(method: PacingMethod) -> pace::Method {
    match method {
        PacingMethod::Gap => pace::Method::Gap,
        PacingMethod::Edt => pace::Method::EDT,
    }
}

/// What a depot asks.
pub fn pacers() -> Pacers {
    Arc::new(|peer, method| match pace::is_paced(&peer, in_kernel(method)) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!(
            "packets to {peer} are not paced by {} here; first, as root: longhaul depot pace FILE, with the \
             depot's configuration file",
            in_kernel(method)
        )),
        Err(error) => Err(error.to_string()),
    })
}

pub fn run(args: &PaceArgs) -> Result<(), Failure> {
    let owner = owner(&args.file)?;
    let wanted = if args.off {
        Vec::new()
    } else {
        pace::plan(&paced_peers(&super::read(&args.file)?), &args.line)?
    };
    in_separate_session(args.apart)?;
    pace::replace(owner, &wanted)?;
    for Options { device, rules, .. } in &wanted {
        for rule in rules {
            let peer = rule.matches.destination.map(|peer| peer.to_string());
            print_text(&format!("{device} {}\n", peer.unwrap_or_default()));
        }
    }
    Ok(())
}

/// The peers of a configuration to which the kernel paces packets.
fn paced_peers(config: &Config) -> Vec<PacedPeer> {
    let peers = config.paced_below().into_iter();
    peers.map(|(peer, method)| PacedPeer { peer, method: in_kernel(method) }).collect()
}

/// The number of a configuration file, by its path: the same whenever it is called, and whatever is in it.
fn owner(file: &Path) -> Result<Owner, Failure> {
    let path = std::path::absolute(file)
        .map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?;
    let hash = scenario::fnv_1a(0, path.as_os_str().as_bytes().iter().copied());
    Ok(Owner::new(hash).unwrap_or(Owner::MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_number_however_it_is_named() {
        let here = std::env::current_dir().unwrap();
        let one = owner(Path::new("depot.toml")).unwrap();
        assert_eq!(owner(&here.join("depot.toml")).unwrap(), one);
        assert_ne!(owner(&here.join("other.toml")).unwrap(), one);
    }
}
