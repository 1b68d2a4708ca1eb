// SPDX-License-Identifier: GPL-2.0-or-later
//! Network devices as `ip` and sysfs tell of them.

use super::{Refusal, Way, fq, rules::HORIZON};
use crate::{Error, private_mount};
use host::Namespace;
use rustix::{
    fd::OwnedFd,
    fs::{Dir, Mode, OFlags, openat},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use std::{
    fs::File,
    io::{self, Read},
    process::Command,
};
use units::{Duration, Rate};

/// What is to be known of one.
#[derive(Debug)]
pub struct Device {
    pub name: String,
    pub index: u32,
    pub mac: [u8; 6],
    pub mtu: u64,
    pub gso_max_segs: u32,
}

/// As `ip -json -details link show` writes it.
#[derive(Deserialize)]
struct Shown {
    ifindex: u32,
    ifname: String,
    mtu: u64,
    link_type: String,
    address: Option<String>,
    gso_max_segs: Option<u32>,
}

/// As `tc -json qdisc show` writes it.
#[derive(Deserialize)]
struct Discipline {
    kind: String,
    #[serde(default)]
    options: Value,
}

impl Discipline {
    /// Whether it lets packets wait for their time, or has others below it for that.
    fn keeps_times(&self) -> bool {
        matches!(self.kind.as_str(), "fq" | "mq" | "clsact" | "ingress")
    }

    /// How far ahead that time may be for fq, where it says so.
    fn horizon(&self) -> Option<Duration> {
        self.options["horizon"].as_u64().map(Duration::from_micros)
    }
}

/// Disciplines that send packets in the order in which they came, of one transmit queue. `pfifo_fast` does so
/// within a band, and the program puts all that it paces into one. "noop" is what a device has that is down.
const IN_ORDER: [&str; 9] =
    ["noqueue", "noop", "pfifo_fast", "pfifo", "bfifo", "tbf", "mq", "clsact", "ingress"];

impl Device {
    /// One that might be paced.
    pub fn find(name: &str) -> Result<Self, Error> {
        let absent = || Refusal::NoDevice { name: name.to_owned() };
        let shown = all()?.into_iter().find(|shown| shown.ifname == name).ok_or_else(absent)?;
        if shown.link_type != "ether" {
            let kind = shown.link_type;
            return Err(Refusal::NotEthernet { name: name.to_owned(), kind }.into());
        }
        Ok(Self {
            name: shown.ifname,
            index: shown.ifindex,
            mac: mac(shown.address.as_deref().unwrap_or_default()),
            mtu: shown.mtu,
            gso_max_segs: shown.gso_max_segs.unwrap_or(65_535),
        })
    }

    /// The way of pacing that goes with how it queues packets.
    pub fn way(&self) -> Result<Way, Error> {
        let has_fq = disciplines(&self.name)?.iter().any(|one| one.kind == "fq");
        Ok(if has_fq { Way::EDT } else { Way::Gap })
    }

    /// Refuses a way of pacing that does not go with how it queues packets.
    pub fn require(&self, way: Way) -> Result<(), Error> {
        match way {
            Way::Gap => self.require_order(),
            Way::Edt { .. } => self.require_times(),
        }
    }

    fn require_order(&self) -> Result<(), Error> {
        let name = || self.name.clone();
        let queues = transmit_queues(&self.name)?;
        if queues > 1 {
            return Err(Refusal::Queues { name: name(), queues }.into());
        }
        for Discipline { kind, .. } in disciplines(&self.name)? {
            if !IN_ORDER.contains(&kind.as_str()) {
                return Err(Refusal::Discipline { name: name(), kind }.into());
            }
        }
        Ok(())
    }

    /// Several transmit queues do no harm: each flow keeps to one, and all have their times from one program.
    fn require_times(&self) -> Result<(), Error> {
        let name = || self.name.clone();
        let disciplines = disciplines(&self.name)?;
        let other = disciplines.iter().find(|one| !one.keeps_times());
        if other.is_some() || !disciplines.iter().any(|one| one.kind == "fq") {
            fq::require_fq()?;
            let kind = other.map_or("none", |one| &one.kind).to_owned();
            return Err(Refusal::NotFq { name: name(), kind }.into());
        }
        match disciplines.iter().filter_map(Discipline::horizon).min() {
            Some(horizon) if horizon < HORIZON => {
                Err(Refusal::Horizon { name: name(), horizon, least: HORIZON }.into())
            }
            _ => Ok(()),
        }
    }

    /// The rate that it says it sends at.
    pub fn speed(&self) -> Result<Option<Rate>, Error> {
        // Not said, the kernel fails to read it, or it is -1.
        let mut text = String::new();
        let file = open(&format!("{}/speed", self.name), OFlags::RDONLY)?;
        if File::from(file).read_to_string(&mut text).is_err() {
            return Ok(None);
        }
        let megabits = text.trim().parse::<u32>().ok().filter(|&megabits| megabits > 0);
        Ok(megabits.map(|megabits| Rate::bits_per_second(u64::from(megabits) * 1_000_000)))
    }

    /// Its name and how many segments it takes, if there is one of that number.
    pub fn by_index(index: u32) -> Result<Option<(String, u32)>, Error> {
        let shown = all()?.into_iter().find(|shown| shown.ifindex == index);
        Ok(shown.map(|shown| (shown.ifname, shown.gso_max_segs.unwrap_or(65_535))))
    }
}

/// Has a device take so many segments at most.
pub fn set_gso_max_segs(name: &str, segments: u32) -> Result<(), Error> {
    let segments = segments.to_string();
    run("ip", &["link", "set", "dev", name, "gso_max_segs", &segments]).map(drop)
}

/// A device's number, whatever it is.
pub fn index(name: &str) -> Result<u32, Error> {
    let absent = || Refusal::NoDevice { name: name.to_owned() };
    let shown = all()?.into_iter().find(|shown| shown.ifname == name);
    Ok(shown.ok_or_else(absent)?.ifindex)
}

/// The calling thread's network namespace.
pub fn namespace() -> Result<u64, Error> {
    Namespace::current_inode().map_err(|e| Error::system("look at the network namespace", e))
}

fn all() -> Result<Vec<Shown>, Error> {
    parsed(&run("ip", &["-json", "-details", "link", "show"])?)
}

fn disciplines(name: &str) -> Result<Vec<Discipline>, Error> {
    parsed(&run("tc", &["-json", "qdisc", "show", "dev", name])?)
}

pub fn parsed<T: DeserializeOwned>(text: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(text)
        .map_err(|e| Error::system("understand what iproute2 says", io::Error::from(e)))
}

pub fn run(program: &str, arguments: &[&str]) -> Result<Vec<u8>, Error> {
    let doing = || format!("run {program} {}", arguments.join(" "));
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => Refusal::NoIproute.into(),
        _ => Error::system(doing(), e),
    })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::system(doing(), io::Error::other(said)))
}

fn mac(text: &str) -> [u8; 6] {
    let mut mac = [0; 6];
    for (byte, digits) in mac.iter_mut().zip(text.split(':')) {
        *byte = u8::from_str_radix(digits, 16).unwrap_or(0);
    }
    mac
}

/// Those in use, not all that it could have.
fn transmit_queues(name: &str) -> Result<usize, Error> {
    let failed = |e: rustix::io::Errno| Error::system("read a device's queues", e);
    let folder = open(&format!("{name}/queues"), OFlags::RDONLY | OFlags::DIRECTORY)?;
    let entries = Dir::new(folder).map_err(failed)?.collect::<Result<Vec<_>, _>>();
    let queues = entries.map_err(failed)?;
    Ok(queues.iter().filter(|entry| entry.file_name().to_bytes().starts_with(b"tx-")).count())
}

/// Opens a file of a device's in sysfs. The one that is mounted may show another network namespace's
/// devices; so this looks at one of its own.
fn open(path: &str, flags: OFlags) -> Result<OwnedFd, Error> {
    let opened = private_mount::root("sysfs").and_then(|sysfs| {
        openat(&sysfs, format!("class/net/{path}"), flags | OFlags::CLOEXEC, Mode::empty())
    });
    opened.map_err(|e| Error::system(format!("read {path} of sysfs"), e))
}
