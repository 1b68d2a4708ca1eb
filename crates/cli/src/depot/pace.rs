// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul depot pace`: what a configuration's `pacing = "gap"` or `"edt"` takes of the kernel, which a depot has no
//! rights to do by itself; and what a depot asks about it.

use crate::{failure::Failure, pace::in_a_process_apart, results::print_text};
use ::depot::{Config, Pacers, Way};
use ::kernel::pace::{self, Aim, Frames, Match, Options, Owner, Rule};
use ipnet::IpNet;
use netmodel::pacing::Estimator;
use std::{
    collections::BTreeMap,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};
use units::Rate;

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
    line: Vec<Line>,
    #[arg(long, hide = true)]
    apart: bool,
}

/// The rate of a device's link, or of every one's.
#[derive(Debug, Clone)]
struct Line {
    device: Option<String>,
    rate: Rate,
}

impl FromStr for Line {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (device, rate) = match text.split_once('=') {
            Some((device, rate)) => (Some(device.to_owned()), rate),
            None => (None, text),
        };
        let rate = rate.parse().map_err(|error: units::ParseError| error.to_string())?;
        Ok(Self { device, rate })
    }
}

/// What a way of pacing is in the kernel.
fn in_kernel(way: Way) -> pace::Way {
    match way {
        Way::Gap => pace::Way::Gap,
        Way::Edt => pace::Way::EDT,
    }
}

/// What a depot asks.
pub fn pacers() -> Pacers {
    Arc::new(|peer, way| match pace::is_paced(&peer, in_kernel(way)) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!(
            "packets to {peer} are not paced by {} here; first, as root: longhaul depot pace FILE, with the \
             depot's configuration file",
            in_kernel(way)
        )),
        Err(error) => Err(error.to_string()),
    })
}

pub fn run(args: &PaceArgs) -> Result<(), Failure> {
    let owner = owner(&args.file)?;
    let wanted = if args.off { Vec::new() } else { wanted(&super::read(&args.file)?, &args.line)? };
    in_a_process_apart(args.apart)?;
    pace::replace(owner, &wanted)?;
    for Options { device, rules, .. } in &wanted {
        for rule in rules {
            let peer = rule.matches.destination.map(|peer| peer.to_string());
            print_text(&format!("{device} {}\n", peer.unwrap_or_default()));
        }
    }
    Ok(())
}

/// Rules, device by device.
fn wanted(config: &Config, lines: &[Line]) -> Result<Vec<Options>, Failure> {
    let mut devices: BTreeMap<String, (Way, Vec<Rule>)> = BTreeMap::new();
    for (peer, way) in config.paced_below() {
        let about = |what: String| format!("[[hop]] peer = \"{peer}\", pacing = \"{way}\": {what}");
        let leading =
            pace::devices_towards(&peer).map_err(|error| Failure::from(error).with(about))?;
        for device in leading {
            let rule = Rule { matches: destination(peer), aim: Aim::Auto(Estimator::LINK) };
            let (first, rules) = devices.entry(device.clone()).or_insert_with(|| (way, Vec::new()));
            if *first != way {
                let what = format!("by {device}, too, and other hops want {first} there");
                return Err(Failure::Usage(about(format!("packets leave {what}"))));
            }
            rules.push(rule);
        }
    }
    let unused = lines.iter().filter_map(|line| line.device.as_ref());
    if let Some(device) = unused.clone().find(|device| !devices.contains_key(*device)) {
        let what = format!("--line {device}: no packets that are to be paced leave by it");
        return Err(Failure::Usage(what));
    }
    let options = devices.into_iter().map(|(device, (way, rules))| {
        let of_device = lines.iter().rfind(|line| line.device.as_ref() == Some(&device));
        let of_all = || lines.iter().rfind(|line| line.device.is_none());
        let line = of_device.or_else(of_all).map(|line| line.rate);
        let frames = Frames { line, ..Frames::default() };
        Options { device, rules, frames, way: Some(in_kernel(way)) }
    });
    Ok(options.collect())
}

fn destination(peer: IpNet) -> Match {
    Match { destination: Some(peer), ..Match::default() }
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
    fn a_line_is_a_devices_or_every_ones() {
        let line: Line = "eth0=1gbit".parse().unwrap();
        assert_eq!((line.device.as_deref(), line.rate.bps()), (Some("eth0"), 1_000_000_000));
        assert_eq!("1gbit".parse::<Line>().unwrap().device, None);
        assert!("eth0=fast".parse::<Line>().is_err());
    }

    #[test]
    fn a_file_has_one_number_however_it_is_named() {
        let here = std::env::current_dir().unwrap();
        let one = owner(Path::new("depot.toml")).unwrap();
        assert_eq!(owner(&here.join("depot.toml")).unwrap(), one);
        assert_ne!(owner(&here.join("other.toml")).unwrap(), one);
    }
}
