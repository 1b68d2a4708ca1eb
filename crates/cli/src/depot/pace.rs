// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul depot pace`: loads the kernel pacing for a configuration's `pacing = "gap"` or `"edt"`, which a depot
//! has no rights to do itself; and the check by which a depot finds out whether that pacing is loaded.

use crate::{failure::Failure, pace::in_separate_session, print::print_text};
use ::depot::{Config, Pacers, PacingMethod};
use ::kernel::pace::{self, LineRate, Options, Owner, PacedPeer};
use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

const EXAMPLES: &str = "\
Examples:
  sudo longhaul depot pace /etc/longhaul/depot.toml --line eth0=1gbit
  sudo longhaul depot pace /etc/longhaul/depot.toml --off";

/// Pace packets in the kernel to a configuration's peers with `pacing` gap or edt. Needs root.
///
/// Adds rules as `longhaul pace add` does, on each device by which packets to such a peer leave. They replace the
/// earlier rules of this file, and are printed. They stay until this command runs with --off or the machine restarts.
/// Run it again before a depot reads a changed configuration, and after routes have changed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct PaceArgs {
    /// The depot's configuration file (TOML)
    file: PathBuf,
    /// Remove the rules of this file
    #[arg(long, conflicts_with = "line")]
    off: bool,
    /// Link rate of a device, or of all devices, as in eth0=1gbit [default: the rate that the driver reports]
    #[arg(long, value_name = "[DEVICE=]RATE")]
    line: Vec<LineRate>,
    #[arg(long, hide = true)]
    apart: bool,
}

/// The kernel's pacing method for one of a depot's.
fn in_kernel(method: PacingMethod) -> pace::Method {
    match method {
        PacingMethod::Gap => pace::Method::Gap,
        PacingMethod::Edt => pace::Method::EDT,
    }
}

/// The check that a depot makes: whether packets to a peer are paced.
pub fn pacers() -> Pacers {
    Arc::new(|peer, method| match pace::is_paced(&peer, in_kernel(method)) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!(
            "packets to {peer} are not paced by {} on this host. Load the rules, with the depot's configuration \
             file: sudo longhaul depot pace FILE",
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

/// The number of a configuration file, a hash of its absolute path: its content does not matter.
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
    fn owner_of_relative_and_absolute_path_is_equal() {
        let here = std::env::current_dir().unwrap();
        let one = owner(Path::new("depot.toml")).unwrap();
        assert_eq!(owner(&here.join("depot.toml")).unwrap(), one);
        assert_ne!(owner(&here.join("other.toml")).unwrap(), one);
    }
}
