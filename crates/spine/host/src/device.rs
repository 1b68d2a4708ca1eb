// SPDX-License-Identifier: GPL-2.0-or-later
//! Network devices of the calling thread's network namespace.

use crate::{
    Mac, Namespace,
    iproute::{self, IprouteError},
    private_mount::private_mount,
};
use rustix::{
    fd::OwnedFd,
    fs::{CWD, Dir, Mode, OFlags, openat},
    net::{AddressFamily, SocketType, netdevice, socket},
};
use serde::Deserialize;
use serde_json::Value;
use std::{
    fs::{self, File},
    io::{self, Read},
};
use units::{Duration, Rate};

/// A device, as iproute2 shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Device {
    /// What the kernel calls it.
    pub name: String,
    /// Its number in its network namespace.
    pub index: u32,
    /// The longest packet that it takes.
    pub mtu: u32,
    /// What kind of link it is at: `ether`, `loopback`, `none` and others.
    pub kind: String,
    /// Its Ethernet address, if it has one.
    pub mac: Option<Mac>,
    /// Whether it was set up (`ip link set NAME up`).
    pub is_up: bool,
    /// Its root queueing discipline.
    pub qdisc: String,
    /// How many segments of TCP it takes in one packet.
    pub gso_max_segs: u32,
    /// The bridge or bond that it belongs to.
    pub master: Option<String>,
    /// The device in this namespace that it is upon (a VLAN), or the other end of its pair (veth).
    pub link: Option<String>,
    /// What makes it a device: `vlan`, `veth` and others; none of hardware.
    pub driver: Option<String>,
}

/// As `ip -json -details link show` writes it.
#[derive(Deserialize)]
struct Shown {
    ifindex: u32,
    ifname: String,
    #[serde(default)]
    altnames: Vec<String>,
    mtu: u32,
    link_type: String,
    address: Option<String>,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    qdisc: String,
    gso_max_segs: Option<u32>,
    master: Option<String>,
    link: Option<String>,
    linkinfo: Option<LinkInfo>,
}

#[derive(Deserialize)]
struct LinkInfo {
    info_kind: Option<String>,
}

impl From<Shown> for Device {
    fn from(shown: Shown) -> Self {
        Self {
            mac: shown.address.and_then(|address| address.parse().ok()),
            is_up: shown.flags.iter().any(|flag| flag == "UP"),
            name: shown.ifname,
            index: shown.ifindex,
            mtu: shown.mtu,
            kind: shown.link_type,
            qdisc: shown.qdisc,
            gso_max_segs: shown.gso_max_segs.unwrap_or(65_535),
            master: shown.master,
            link: shown.link,
            driver: shown.linkinfo.and_then(|info| info.info_kind),
        }
    }
}

/// A queueing discipline of a device, as `tc -json qdisc show` writes it.
#[derive(Debug, Clone, Deserialize)]
pub struct Qdisc {
    /// What it is: `fq`, `pfifo` and others.
    pub kind: String,
    #[serde(default)]
    options: Value,
}

impl Qdisc {
    /// How far ahead packets' times of departure may be, for fq, where it says so.
    pub fn horizon(&self) -> Option<Duration> {
        self.options["horizon"].as_u64().map(Duration::from_micros)
    }
}

impl Device {
    /// The device of that name, if there is one.
    ///
    /// # Errors
    /// iproute2 is missing or fails.
    pub fn find(name: &str) -> Result<Option<Self>, IprouteError> {
        let is_it =
            |shown: &Shown| shown.ifname == name || shown.altnames.iter().any(|n| n == name);
        Ok(shown()?.into_iter().find(is_it).map(Self::from))
    }

    /// The device of that number, if there is one.
    ///
    /// # Errors
    /// iproute2 is missing or fails.
    pub fn by_index(index: u32) -> Result<Option<Self>, IprouteError> {
        Ok(shown()?.into_iter().find(|shown| shown.ifindex == index).map(Self::from))
    }

    /// All devices.
    ///
    /// # Errors
    /// iproute2 is missing or fails.
    pub fn all() -> Result<Vec<Self>, IprouteError> {
        Ok(shown()?.into_iter().map(Self::from).collect())
    }

    /// Whether this host uses it as one that it has an address on: addresses that are valid beyond the link, and
    /// the default routes that lead over it.
    ///
    /// # Errors
    /// iproute2 is missing or fails.
    pub fn addresses_and_default_routes(&self) -> Result<Vec<String>, IprouteError> {
        #[derive(Deserialize)]
        struct Addressed {
            #[serde(default)]
            addr_info: Vec<Address>,
        }
        #[derive(Deserialize)]
        struct Address {
            local: Option<String>,
            family: String,
            scope: String,
        }
        #[derive(Deserialize)]
        struct Route {
            dst: String,
        }
        let shown: Vec<Addressed> = iproute::ip_json(&["address", "show", "dev", &self.name])?;
        let addresses = shown.into_iter().flat_map(|device| device.addr_info);
        let mut uses: Vec<String> = addresses
            .filter(|address| address.family == "inet" || address.scope == "global")
            .filter_map(|address| Some(format!("the address {}", address.local?)))
            .collect();
        for family in ["-4", "-6"] {
            let arguments = [family, "route", "show", "default", "dev", &self.name];
            let routes: Vec<Route> = match iproute::ip_json(&arguments) {
                // A kernel without the family.
                Err(IprouteError::Refused { .. }) => Vec::new(),
                routes => routes?,
            };
            let default = routes.iter().any(|route| route.dst == "default");
            uses.extend(default.then(|| format!("the default route of IPv{}", &family[1..])));
        }
        Ok(uses)
    }

    /// Whether it is at an Ethernet link.
    pub fn is_ethernet(&self) -> bool {
        self.kind == "ether"
    }

    /// Its queueing disciplines, the root and those below it.
    ///
    /// # Errors
    /// iproute2 is missing or fails.
    pub fn qdiscs(&self) -> Result<Vec<Qdisc>, IprouteError> {
        iproute::tc_json(&["qdisc", "show", "dev", &self.name])
    }

    /// How many transmit queues are in use, not all that it could have.
    ///
    /// # Errors
    /// Sysfs does not show it.
    pub fn transmit_queues(&self) -> io::Result<usize> {
        let directory = Dir::new(self.open_in_sysfs("queues", OFlags::DIRECTORY)?)?;
        let queues = directory.collect::<Result<Vec<_>, _>>()?;
        Ok(queues.iter().filter(|entry| entry.file_name().to_bytes().starts_with(b"tx-")).count())
    }

    /// The rate of its link, where the driver knows it.
    ///
    /// # Errors
    /// Sysfs does not show the device.
    pub fn line_rate(&self) -> io::Result<Option<Rate>> {
        let mut text = String::new();
        // Where the driver does not know it, the kernel fails to read it, or it is -1.
        if File::from(self.open_in_sysfs("speed", OFlags::empty())?)
            .read_to_string(&mut text)
            .is_err()
        {
            return Ok(None);
        }
        let megabits = text.trim().parse::<u32>().ok().filter(|&megabits| megabits > 0);
        Ok(megabits.map(|megabits| Rate::bits_per_second(u64::from(megabits) * 1_000_000)))
    }

    /// A file of its directory in sysfs, without the line's end. None where there is no such file, or it cannot be read.
    pub fn attribute(&self, name: &str) -> Option<String> {
        let mut text = String::new();
        File::from(self.open_in_sysfs(name, OFlags::empty()).ok()?)
            .read_to_string(&mut text)
            .ok()?;
        Some(text.trim().to_owned())
    }

    /// Has it take so many segments of TCP in one packet at most.
    ///
    /// # Errors
    /// iproute2 is missing or fails.
    pub fn set_gso_max_segs(&self, segments: u32) -> Result<(), IprouteError> {
        let segments = segments.to_string();
        iproute::ip(&["link", "set", "dev", &self.name, "gso_max_segs", &segments]).map(drop)
    }

    /// Opens a file of this device's in sysfs. The one that is mounted may show another network namespace's
    /// devices, so this looks at one of its own where it may mount that.
    fn open_in_sysfs(&self, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | flags;
        let path = format!("class/net/{}/{path}", self.name);
        let private = private_mount("sysfs")
            .and_then(|sysfs| Ok(openat(&sysfs, &path, flags, Mode::empty())?));
        private.or_else(|error| {
            if !self.is_in_mounted_sysfs() {
                return Err(error);
            }
            Ok(openat(CWD, format!("/sys/{path}"), flags, Mode::empty())?)
        })
    }

    /// Whether `/sys` shows this device, and not another one of the same name.
    fn is_in_mounted_sysfs(&self) -> bool {
        let read = |what| {
            let text = fs::read_to_string(format!("/sys/class/net/{}/{what}", self.name)).ok()?;
            Some(text.trim().to_owned())
        };
        let mac = self.mac.map(|mac| mac.to_string());
        read("ifindex") == Some(self.index.to_string()) && read("address") == mac
    }
}

/// Packets that the kernel gave to the device of that name while its queue was full; none where that is not
/// known.
pub fn transmit_drops(name: &str) -> Option<u64> {
    #[derive(Deserialize)]
    struct Link {
        stats64: Statistics,
    }
    #[derive(Deserialize)]
    struct Statistics {
        tx: Transmitted,
    }
    #[derive(Deserialize)]
    struct Transmitted {
        dropped: u64,
    }
    let links = iproute::ip_json::<Link>(&["-statistics", "link", "show", "dev", name]).ok()?;
    Some(links.first()?.stats64.tx.dropped)
}

/// Packets that the device of that name received and the kernel dropped, for want of room or of time.
///
/// # Errors
/// `/proc` does not show it.
pub fn receive_drops(name: &str) -> io::Result<u64> {
    // "eth0: rx bytes packets errs drop …"
    const DROPS: usize = 3;
    let table = fs::read_to_string("/proc/thread-self/net/dev")?;
    let mut lines = table.lines().filter_map(|line| line.split_once(':'));
    let line = lines.find(|(of, _)| of.trim() == name).map(|(_, counts)| counts);
    let drops = line.and_then(|counts| counts.split_whitespace().nth(DROPS)?.parse().ok());
    drops.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// The names of all devices, found without iproute2.
pub fn device_names() -> Vec<String> {
    // The one place that tells without asking by netlink.
    let table = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let lines = table.lines().filter_map(|line| line.split_once(':'));
    lines.map(|(name, _)| name.trim().to_owned()).collect()
}

/// Tells one device from those of the same name or number in other namespaces, and from later ones of the
/// same name. Does without iproute2.
#[derive(Debug)]
pub struct DeviceHandle {
    /// Its number in its network namespace.
    pub index: u32,
    /// The number of the namespace, as in `/proc/PID/ns/net`.
    pub namespace: u64,
    /// Asks in that namespace, whichever thread uses it.
    socket: OwnedFd,
}

impl DeviceHandle {
    /// That of the device of a name, if there is one.
    ///
    /// # Errors
    /// This process is out of descriptors, or sees no `/proc`.
    pub fn find(name: &str) -> io::Result<Option<Self>> {
        let socket = socket(AddressFamily::UNIX, SocketType::DGRAM, None)?;
        let namespace = Namespace::current_inode()?;
        let index = netdevice::name_to_index(&socket, name).ok();
        Ok(index.map(|index| Self { index, namespace, socket }))
    }

    /// Whether the device is still there; one that was made again under the same name is another.
    pub fn is_present(&self) -> bool {
        netdevice::index_to_name(&self.socket, self.index).is_ok()
    }
}

fn shown() -> Result<Vec<Shown>, IprouteError> {
    iproute::ip_json(&["-details", "link", "show"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_read_as_ip_writes_them() {
        let text = r#"[
            {"ifindex":1,"ifname":"lo","flags":["LOOPBACK","UP","LOWER_UP"],"mtu":65536,"qdisc":"noqueue",
             "link_type":"loopback","address":"00:00:00:00:00:00","gso_max_segs":65535},
            {"ifindex":7,"ifname":"eth0","flags":["BROADCAST"],"mtu":1500,"qdisc":"mq",
             "link_type":"ether","address":"02:00:00:00:00:07","altnames":["enp1s0"]},
            {"ifindex":9,"ifname":"tun0","flags":["UP"],"mtu":1400,"link_type":"none"},
            {"ifindex":11,"link":"eth0","ifname":"eth0.5","flags":["UP"],"mtu":1500,"master":"br0",
             "link_type":"ether","address":"02:00:00:00:00:07","linkinfo":{"info_kind":"vlan"}}]"#;
        let devices: Vec<Shown> = iproute::parse(text.as_bytes()).unwrap();
        let devices: Vec<Device> = devices.into_iter().map(Device::from).collect();
        let [lo, eth0, tun0, vlan] = &devices[..] else { panic!("{devices:?}") };
        assert!(lo.is_up && !lo.is_ethernet());
        assert!(!eth0.is_up && eth0.is_ethernet());
        assert_eq!(eth0.mac, Some(Mac([2, 0, 0, 0, 0, 7])));
        assert_eq!((eth0.qdisc.as_str(), eth0.gso_max_segs), ("mq", 65_535));
        assert_eq!((tun0.mac, tun0.mtu), (None, 1400));
        assert_eq!((&eth0.driver, &eth0.link, &eth0.master), (&None, &None, &None));
        let of_vlan = [&vlan.driver, &vlan.link, &vlan.master].map(|value| value.as_deref());
        assert_eq!(of_vlan, [Some("vlan"), Some("eth0"), Some("br0")]);
    }

    #[test]
    fn the_loopback_device_is_found_by_handle() {
        let handle = DeviceHandle::find("lo").unwrap().expect("every namespace has it");
        assert!(handle.index == 1 && handle.is_present());
        assert!(DeviceHandle::find("no-such-device").unwrap().is_none());
        assert!(device_names().iter().any(|name| name == "lo"));
    }
}
