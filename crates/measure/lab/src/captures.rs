// SPDX-License-Identifier: GPL-2.0-or-later
//! Captures of nodes: for each, a ring of packets in the kernel and a thread of ordinary priority that writes them to a
//! file. The run does not wait for either.

use crate::error::LabError;
use experiment::capture::{CaptureFile, CaptureSource, CapturedPacket, Heading, links_of};
use record::manifest;
use scenario::{Node, Run};
use std::{
    collections::BTreeMap,
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime},
};
use wan::{
    Wan, device_name,
    packet_ring::{PacketRing, RETIRE_AFTER, RingPacket},
};

/// Memory of all rings of a run together, and the most that one gets.
const ALL_RINGS: usize = 256 << 20;
const ONE_RING: usize = 64 << 20;
/// What is under way when the capture ends has this long to come.
const LAST_PACKETS: Duration = Duration::from_secs(1);

/// The captures of a run under way.
pub struct Captures {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<manifest::Capture>>>,
}

impl Captures {
    /// Starts those that the run asks for, with their files in `folder`.
    ///
    /// # Errors
    /// A file can't be created, or the kernel makes no ring.
    pub fn start(wan: &Wan, run: &Run, folder: &Path) -> Result<Self, LabError> {
        let mut captures = Self { stop: Arc::default(), threads: Vec::new() };
        let count = run.nodes.iter().filter(|node| node.capture.is_some()).count();
        let ring = (ALL_RINGS / count.max(1)).min(ONE_RING);
        for node in &run.nodes {
            captures.threads.extend(captures.start_one(wan, run, node, (folder, ring))?);
        }
        Ok(captures)
    }

    fn start_one(
        &self,
        wan: &Wan,
        run: &Run,
        node: &Node,
        (folder, ring_size): (&Path, usize),
    ) -> Result<Option<JoinHandle<io::Result<manifest::Capture>>>, LabError> {
        let Some(capture) = node.capture else { return Ok(None) };
        let failed = |e| LabError::system("capture a node's packets", e);
        let namespace = &wan.node(&node.name)?.namespace;
        let ring = namespace.run(|| PacketRing::open(ring_size, capture.snap)).map_err(failed)?;
        let numbers: io::Result<BTreeMap<u32, u32>> = (0..)
            .zip(links_of(run, &node.name))
            .map(|(number, link)| Ok((ring.interface(&device_name(link))?, number)))
            .collect();
        let numbers = numbers.map_err(failed)?;
        let file = CaptureFile::create(
            folder,
            &CaptureSource {
                run,
                method: "emu",
                node: &node.name,
                capture,
                os: Some(kernel()),
                zero_unix_ns: zero_unix_ns(wan),
            },
        )?;
        let stop = Arc::clone(&self.stop);
        let thread = thread::Builder::new()
            .name(format!("capture {}", node.name))
            .spawn(move || write(ring, file, &numbers, &stop))
            .map_err(|e| LabError::system("start a thread for a capture", e))?;
        Ok(Some(thread))
    }

    /// Ends them once what passes now is in their files.
    ///
    /// # Errors
    /// The kernel does not tell how many packets it dropped.
    pub fn stop(mut self) -> Result<Vec<manifest::Capture>, LabError> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = std::mem::take(&mut self.threads).into_iter().map(|thread| {
            let ended = thread.join().expect("a capture's thread does not panic");
            ended.map_err(|e| LabError::system("capture a node's packets", e))
        });
        ended.collect()
    }
}

impl Drop for Captures {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Takes packets from the ring to the file until it is to stop or the file is full.
fn write(
    mut ring: PacketRing,
    mut file: CaptureFile,
    numbers: &BTreeMap<u32, u32>,
    stop: &AtomicBool,
) -> io::Result<manifest::Capture> {
    let mut last_call = None;
    let keep = |file: &mut CaptureFile, packet: &RingPacket<'_>| {
        // A device that is not a link's is none of the file's.
        let Some(&interface) = numbers.get(&packet.interface) else { return };
        let RingPacket { unix_ns, length, data, is_outbound, .. } = *packet;
        let heading = if is_outbound { Heading::Outbound } else { Heading::Inbound };
        file.packet(&CapturedPacket { interface, unix_ns, heading, length, data });
    };
    while file.is_open() {
        if last_call.is_none() && stop.load(Ordering::Relaxed) {
            last_call = Some(Instant::now());
        }
        // Longer than the kernel keeps a block that is not full.
        let any = ring.read(2 * RETIRE_AFTER, |packet| keep(&mut file, packet))?;
        file.flush();
        let is_over = |since: Instant| !any || since.elapsed() > LAST_PACKETS;
        if last_call.is_some_and(is_over) {
            break;
        }
    }
    let dropped = ring.dropped()?;
    Ok(file.finish(dropped))
}

fn kernel() -> String {
    format!("Linux {}", host::sysctl::read("kernel.osrelease").unwrap_or_default())
}

/// When the links' time began, by the calendar.
fn zero_unix_ns(wan: &Wan) -> u64 {
    let zero = SystemTime::now() - wan.started().elapsed();
    zero.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
