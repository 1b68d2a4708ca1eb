// SPDX-License-Identifier: GPL-2.0-or-later
//! The monitor: every packet of one network device, timed in software as the hardware monitor GtrcNET-1
//! does it (Takano et al., section 4.1). Bytes in bins of time, gaps between packets, lengths of bursts.
//!
//! `src/bpf/monitor.bpf.c` counts in the kernel; it sends nothing per packet to user space, except with
//! [`Options::trace`]. [`Monitor::read`] fetches the counts. Call it as often as needed, but at least
//! once per [`Monitor::read_within`]. It may be called on another thread and in
//! another network namespace than the one that [`Monitor::attach`] was called in, which decides what
//! device is meant.
//!
//! ```no_run
//! use longhaul_kernel::monitor::{Direction, Monitor, Options};
//!
//! let mut monitor = Monitor::attach(&Options::of("eth0"))?;
//! std::thread::sleep(std::time::Duration::from_secs(1));
//! let snapshot = monitor.stop()?;
//! let out = snapshot.statistics(Direction::Out).expect("watched by default");
//! println!("{} packets, gaps of {:?} ns", out.packets, out.gaps.mean_ns());
//! println!("{:?} bytes in each 500 us", monitor.bins(Direction::Out).map(|b| b.data().bins()));
//! # Ok::<(), longhaul_kernel::Error>(())
//! ```
//!
//! # Limits
//! - What is timed is the hand-over to the driver. A device with a queue of its own sends later.
//! - A packet that the driver sends back because it is busy is handed over again, and counted again.
//! - Not seen: what bypasses queueing disciplines (`PACKET_QDISC_BYPASS`, `AF_XDP`, XDP's own sending).
//! - Gaps inside a super-packet can't be seen; how many there were is in the figures.
//! - A VLAN tag that the device puts in by itself is not counted.
//!
//! Programs are held by the process: they go when it ends, however it ends.

mod bins;
mod flow;
mod report;
mod statistics;
mod trace;

pub use bins::Bins;
pub use flow::Flow;
pub use netmodel::{Histogram, HistogramBin};
pub use report::{
    BurstBin, BurstReport, DirectionReport, EndReason, FlowReport, GapBin, GapReport, MonitorReport,
};
pub use statistics::{Bin, Bursts, DirectionStatistics, FlowStatistics, Gaps};
pub use trace::{Entry, Trace};

use crate::{
    Error, Support,
    objects::{self, MONITOR, OPTIONS, TRACE, TRACE_LOST},
    support,
};
use bins::RING_BINS;
use host::DeviceHandle;
use libbpf_rs::{Link, MapCore, MapFlags, Object, OpenObject};
use rustix::time::{ClockId, clock_gettime};
use statistics::KernelStatistics;
use std::path::Path;
use units::{Duration, Timestamp};

/// Narrower, the ring would have to be read several times in a second.
const LEAST_BIN: Duration = Duration::from_micros(10);
const MOST_BIN: Duration = Duration::from_secs(60);

const FIGURES: &str = "figures";
const RINGS: &str = "rings";
const FLOWS: &str = "flows";

/// Which way packets go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From this host into the device.
    Out,
    /// From the device into this host.
    In,
}

impl Direction {
    /// Its name in documents and file names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Out => "out",
            Self::In => "in",
        }
    }
}

/// Device, direction and resolution of a monitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The device, by its name in the calling thread's network namespace.
    pub device: String,
    /// Width of the bins.
    pub bin: Duration,
    /// Packets whose gap is no longer belong to one burst.
    pub burst_gap: Duration,
    /// Which ways to watch.
    pub directions: Vec<Direction>,
    /// Count each flow, up to some thousand; those that sent least lately are forgotten first.
    pub per_flow: bool,
    /// Record every packet, see [`Monitor::trace`].
    pub trace: bool,
}

impl Options {
    /// Outgoing packets of a device, in bins of 500 us as in the paper. Packets within 10 us are a
    /// burst: less than a full packet takes at 1 Gb/s.
    pub fn of(device: &str) -> Self {
        Self {
            device: device.to_owned(),
            bin: Duration::from_micros(500),
            burst_gap: Duration::from_micros(10),
            directions: vec![Direction::Out],
            per_flow: false,
            trace: false,
        }
    }
}

/// A monitor at work.
#[derive(Debug)]
pub struct Monitor {
    // Dropped in this order: detached, then taken down.
    links: Vec<Link>,
    object: Object,
    device: DeviceHandle,
    /// Where the time of this monitor begins, in that of the programs.
    origin: Duration,
    /// The kernel's clock where the programs' time begins.
    start: Duration,
    bins: Vec<(Direction, Bins)>,
    bin: Duration,
    per_flow: bool,
    traced: bool,
    /// The final counts, once it is stopped.
    ended: Option<Snapshot>,
}

/// The counts of a monitor at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// How long it has watched.
    pub elapsed: Duration,
    figures: Vec<(Direction, DirectionStatistics)>,
}

impl Snapshot {
    /// Those of a direction, if it is watched.
    pub fn statistics(&self, direction: Direction) -> Option<&DirectionStatistics> {
        self.figures.iter().find(|(of, _)| *of == direction).map(|(_, figures)| figures)
    }
}

impl Monitor {
    /// Begins to watch a device of the calling thread's network namespace.
    ///
    /// # Errors
    /// The machine lacks something ([`Error::is_lack`]); there is no such device, or bins can't be of
    /// that width ([`Error::is_usage`]); the kernel refused it.
    pub fn attach(options: &Options) -> Result<Self, Error> {
        let bin = options.bin;
        if bin < LEAST_BIN || bin > MOST_BIN {
            return Err(Error::BinWidth { bin, least: LEAST_BIN, most: MOST_BIN });
        }
        support::require_root()?;
        let device = DeviceHandle::find(&options.device)
            .map_err(|e| Error::system("ask for network devices", e))?
            .ok_or_else(|| Error::NoDevice {
                device: options.device.clone(),
                there: host::device_names(),
            })?;
        let tracepoints = options.directions.iter().map(|direction| direction.tracepoint());
        let tracepoints: Vec<_> = tracepoints.collect();
        support::require_tracepoints(Path::new(Support::BTF), &tracepoints)?;

        let start = now();
        let object = objects::load_with(MONITOR, "the monitor", |open| {
            set_up(open, options, &device, start)
        })?;
        // Bins count from the last edge before the programs are attached.
        let first = now().saturating_sub(start).as_nanos() / bin.as_nanos();
        let origin = bin.saturating_mul(first);
        let links = attach(&object, options)?;
        let bins = options.directions.iter().map(|of| (*of, Bins::new(bin, first))).collect();
        let (per_flow, traced) = (options.per_flow, options.trace);
        Ok(Self { links, object, device, origin, start, bins, bin, per_flow, traced, ended: None })
    }

    /// How long after another one has to be read at the latest, or bins are missed.
    pub fn read_within(&self) -> Duration {
        // Half of what the kernel keeps, for a reader who is late.
        self.bin.saturating_mul(RING_BINS / 2)
    }

    /// Whether the device is still there. A new device under the same name does not count.
    pub fn is_device_there(&self) -> bool {
        self.device.is_present()
    }

    /// The number of the device's network namespace, as in `/proc/PID/ns/net`.
    pub fn namespace(&self) -> u32 {
        self.device.namespace as u32
    }

    /// The bins of a direction that were full when last read, if it is watched.
    pub fn bins(&self, direction: Direction) -> Option<&Bins> {
        self.bins.iter().find(|(of, _)| *of == direction).map(|(_, bins)| bins)
    }

    /// The counts so far.
    ///
    /// # Errors
    /// The kernel refused to tell.
    pub fn read(&mut self) -> Result<Snapshot, Error> {
        self.snapshot(false)
    }

    /// Ends the watching, and says what was counted: with the bin that was being filled and the burst
    /// that went on. Whatever is asked later, the answer is the same.
    ///
    /// # Errors
    /// The kernel refused to tell.
    pub fn stop(&mut self) -> Result<Snapshot, Error> {
        self.links.clear();
        self.snapshot(true)
    }

    fn snapshot(&mut self, ends: bool) -> Result<Snapshot, Error> {
        if let Some(ended) = &self.ended {
            return Ok(ended.clone());
        }
        let now = now().saturating_sub(self.start).saturating_sub(self.origin);
        let mut all = Vec::new();
        let mut flows = self.flows()?;
        for n in 0..self.bins.len() {
            let direction = self.bins[n].0;
            let value = self.value(FIGURES, direction.key(), MapFlags::LOCK)?;
            let ring = self.value(RINGS, direction.key(), MapFlags::ANY)?;
            let mut kernel = KernelStatistics::read(&value, self.origin);
            let bins = &mut self.bins[n].1;
            bins.take(&kernel, &ring, Timestamp::ZERO + now);
            if ends {
                bins.close(&kernel);
                kernel.end_burst();
            }
            bins.complete(&mut kernel, !ends);
            let of_direction = flows.extract_if(.., |(of, _)| *of == direction);
            kernel.figures.flows = of_direction.map(|(_, flow)| flow).collect();
            kernel.figures.flows.sort_by_key(|flow| std::cmp::Reverse(flow.bytes));
            all.push((direction, kernel.figures));
        }
        let snapshot = Snapshot { elapsed: now, figures: all };
        self.ended = ends.then(|| snapshot.clone());
        Ok(snapshot)
    }

    fn flows(&self) -> Result<Vec<(Direction, FlowStatistics)>, Error> {
        let mut flows = Vec::new();
        if !self.per_flow {
            return Ok(flows);
        }
        let map = self.map(FLOWS);
        for key in map.keys() {
            let value = map.lookup(&key, MapFlags::ANY).map_err(Error::bpf("read flows"))?;
            // One that is forgotten meanwhile has none.
            let Some(value) = value else { continue };
            let word =
                |n: usize| u64::from_ne_bytes(value[8 * n..8 * (n + 1)].try_into().expect("8"));
            let time = |n: usize| Timestamp::from_nanos(word(n)) - self.origin;
            let (flow, direction) = key.split_first_chunk().expect("a struct flow_key");
            let direction = if direction == [0; 4] { Direction::Out } else { Direction::In };
            let (packets, bytes, span) = (word(0), word(1), (time(2), time(3)));
            flows
                .push((direction, FlowStatistics { flow: Flow::read(flow), packets, bytes, span }));
        }
        Ok(flows)
    }

    fn map(&self, name: &str) -> libbpf_rs::Map<'_> {
        self.object.maps().find(|map| map.name() == name).expect("a map of the monitor's")
    }

    fn value(&self, map: &str, key: u32, flags: MapFlags) -> Result<Vec<u8>, Error> {
        let value = self.map(map).lookup(&key.to_ne_bytes(), flags);
        let value = value.map_err(Error::bpf(format!("read the monitor's {map}")))?;
        Ok(value.expect("an array has all its values"))
    }
}

impl Direction {
    /// As in `src/bpf/monitor.bpf.c`.
    fn key(self) -> u32 {
        match self {
            Self::Out => 0,
            Self::In => 1,
        }
    }

    fn program(self) -> &'static str {
        match self {
            Self::Out => "transmit",
            Self::In => "receive",
        }
    }

    fn tracepoint(self) -> &'static str {
        match self {
            Self::Out => "net_dev_start_xmit",
            Self::In => "netif_receive_skb",
        }
    }
}

/// The clock by which the programs time packets.
fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::from_secs(time.tv_sec as u64) + Duration::from_nanos(time.tv_nsec as u64)
}

fn set_up(
    open: &mut OpenObject,
    options: &Options,
    device: &DeviceHandle,
    start: Duration,
) -> libbpf_rs::Result<()> {
    let longs = [start, options.bin, options.burst_gap].map(Duration::as_nanos);
    let words =
        [device.index, device.namespace as u32, options.per_flow.into(), options.trace.into()];
    let longs = longs.into_iter().flat_map(u64::to_ne_bytes);
    let bytes: Vec<u8> = longs.chain(words.into_iter().flat_map(u32::to_ne_bytes)).collect();
    for mut map in open.maps_mut() {
        match map.name().to_str().unwrap_or_default() {
            OPTIONS => map.set_initial_value(&bytes)?,
            TRACE | TRACE_LOST => map.set_autocreate(options.trace)?,
            FLOWS => map.set_autocreate(options.per_flow)?,
            _ => {}
        }
    }
    for mut program in open.progs_mut() {
        let wanted = options.directions.iter().any(|of| program.name() == of.program());
        program.set_autoload(wanted);
    }
    Ok(())
}

fn attach(object: &Object, options: &Options) -> Result<Vec<Link>, Error> {
    let wanted = options.directions.iter().map(|direction| {
        let mut programs = object.progs_mut();
        let program = programs.find(|program| program.name() == direction.program());
        let attached = program.expect("a program of the monitor's").attach();
        attached.map_err(Error::bpf(format!("watch at {}", direction.tracepoint())))
    });
    wanted.collect()
}
