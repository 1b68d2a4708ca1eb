// SPDX-License-Identifier: GPL-2.0-or-later
//! The file of a node's capture.
//!
//! It is written in pieces of whole blocks, so that the file of a killed run is readable. A capture ends early at its
//! limit, and before it takes the last room of the disk, which the record needs; the run goes on.

use super::{
    interfaces::interfaces,
    pcapng::{self, CapturedPacket},
};
use crate::error::ExperimentError;
use record::manifest;
use scenario::{Capture, Run};
use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};
use units::Bytes;

/// What is gathered before it is written.
const PIECE: usize = 256 << 10;
/// What a capture leaves free on the disk.
const LEFT_FREE: u64 = 64 << 20;
/// For the statistics at the end.
const RESERVE_PER_INTERFACE: u64 = 512;

/// What is captured.
#[derive(Debug)]
pub struct CaptureSource<'a> {
    /// In which run.
    pub run: &'a Run,
    /// By which method.
    pub method: &'a str,
    /// At which node.
    pub node: &'a str,
    /// What is kept.
    pub capture: Capture,
    /// The kernel, where the packets pass one.
    pub os: Option<String>,
    /// The record's time 0, in nanoseconds since 1970.
    pub zero_unix_ns: u64,
}

/// Counts of the packets of a capture.
#[derive(Debug, Clone, Default)]
struct Counts {
    by_interface: Vec<u64>,
    bytes: u64,
    last_unix_ns: u64,
}

/// A capture under way.
#[derive(Debug)]
pub struct CaptureFile {
    path: PathBuf,
    file: File,
    /// Whole blocks that are not in the file yet.
    buffer: Vec<u8>,
    /// Bytes in the file.
    written: u64,
    limit: u64,
    counts: Counts,
    /// Those of the packets that are in the file.
    written_counts: Counts,
    entry: manifest::Capture,
}

impl CaptureFile {
    /// Creates the file in a run's folder.
    ///
    /// # Errors
    /// It can't be created or written.
    pub fn create(folder: &Path, source: &CaptureSource<'_>) -> Result<Self, ExperimentError> {
        let CaptureSource { run, method, node, capture, os, zero_unix_ns } = source;
        let interfaces = interfaces(run, node);
        let name = format!("{node}.pcapng");
        let path = folder.join(&name);
        let file = File::create(&path)
            .map_err(|e| ExperimentError::file("create the capture", &path, e))?;
        let comment = format!(
            "{}: run {}, node {node}, method {method}. Time 0 of its record is {}.{:09} s after 1970",
            run.title,
            run.id,
            zero_unix_ns / 1_000_000_000,
            zero_unix_ns % 1_000_000_000
        );
        let application = concat!("longhaul ", env!("CARGO_PKG_VERSION"));
        let mut buffer = Vec::with_capacity(PIECE * 2);
        pcapng::section_header(&mut buffer, os.as_deref(), application, &comment);
        for interface in &interfaces {
            pcapng::interface(&mut buffer, interface, capture.snap, os.as_deref());
        }
        let reserve = RESERVE_PER_INTERFACE * interfaces.len() as u64;
        let entry = manifest::Capture {
            node: (*node).to_owned(),
            file: name,
            snap_bytes: capture.snap,
            zero_unix_ns: *zero_unix_ns,
            ..manifest::Capture::default()
        };
        let mut capture = Self {
            file,
            buffer,
            written: 0,
            limit: capture.limit.get().saturating_sub(reserve),
            written_counts: Counts::default(),
            counts: Counts {
                by_interface: vec![0; interfaces.len()],
                bytes: 0,
                last_unix_ns: *zero_unix_ns,
            },
            entry,
            path,
        };
        capture
            .write_buffer()
            .map_err(|e| ExperimentError::file("write the capture", &capture.path, e))?;
        Ok(capture)
    }

    /// Whether it takes further packets.
    pub fn is_open(&self) -> bool {
        self.entry.incomplete_reasons.is_empty()
    }

    /// Adds a packet. After the first that could not be kept, none is.
    pub fn packet(&mut self, packet: &CapturedPacket<'_>) {
        if !self.is_open() {
            return;
        }
        let before = self.buffer.len();
        pcapng::packet(&mut self.buffer, packet);
        if self.written + self.buffer.len() as u64 > self.limit {
            self.buffer.truncate(before);
            self.end_early(
                "the file has reached the capture's limit; set a larger one: capture = { limit = \"…\" }"
                    .to_owned(),
            );
            return;
        }
        self.counts.by_interface[packet.interface as usize] += 1;
        self.counts.bytes += u64::from(packet.length);
        self.counts.last_unix_ns = packet.unix_ns;
        if self.buffer.len() >= PIECE {
            self.flush();
        }
    }

    /// Writes what is gathered, so that it is in the file if the process ends.
    pub fn flush(&mut self) {
        let written = match free_space(&self.path) {
            Ok(free) if free < LEFT_FREE + self.buffer.len() as u64 => {
                Err(format!("{} are free", Bytes::new(free)))
            }
            _ => self.write_buffer().map_err(|error| error.to_string()),
        };
        if let Err(why) = written {
            self.buffer.clear();
            self.counts.clone_from(&self.written_counts);
            self.end_early(format!(
                "its disk has no room for more ({why}), and captures leave {} to the record; free some, or capture less",
                Bytes::new(LEFT_FREE)
            ));
        }
    }

    /// Ends it. `dropped`: packets that the system did not keep for it.
    pub fn finish(mut self, dropped: u64) -> manifest::Capture {
        self.entry.dropped = dropped;
        if dropped > 0 {
            let why = format!(
                "the kernel dropped {dropped} packets that passed: the machine was too busy"
            );
            self.entry.incomplete_reasons.push(why);
        }
        if !self.buffer.is_empty() {
            self.flush();
        }
        let comment = self.entry.incomplete_reasons.join("; ");
        let Counts { by_interface, bytes, last_unix_ns } = self.counts.clone();
        self.entry.packets = by_interface.iter().sum();
        self.entry.bytes = bytes;
        for (interface, delivered) in (0..).zip(by_interface) {
            // The system counts its drops for all interfaces together.
            let dropped = if interface == 0 { dropped } else { 0 };
            let counts = (delivered, dropped);
            pcapng::statistics(&mut self.buffer, interface, last_unix_ns, counts, &comment);
        }
        // A file without them can be read as well.
        let _ = self.write_buffer();
        self.entry.complete = self.entry.incomplete_reasons.is_empty();
        self.entry
    }

    fn end_early(&mut self, why: String) {
        self.entry.incomplete_reasons.push(why);
    }

    /// Writes whole blocks, or nothing.
    fn write_buffer(&mut self) -> io::Result<()> {
        let done = self.file.write_all_at(&self.buffer, self.written);
        if done.is_ok() {
            self.written += self.buffer.len() as u64;
            self.written_counts.clone_from(&self.counts);
        } else {
            // What there is of them would be a damaged block.
            let _ = self.file.set_len(self.written);
        }
        self.buffer.clear();
        done
    }
}

fn free_space(path: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(path)?;
    Ok(disk.f_bavail * disk.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Heading;
    use testkit::captured::Captured;

    fn run() -> Run {
        let text = "title = \"t\"\n[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n\
            [[link]]\nbetween = [\"a\", \"b\"]\n[[flow]]\nfrom = \"a\"\nto = \"b\"\nbytes = \"1MB\"\n";
        scenario::Scenario::parse(text, "test", &[""; 0]).unwrap().runs.remove(0)
    }

    fn create(folder: &Path, limit: u64) -> Result<CaptureFile, ExperimentError> {
        let capture = Capture { snap: 96, limit: Bytes::new(limit) };
        let (run, os) = (run(), Some("a system".to_owned()));
        let source =
            CaptureSource { run: &run, method: "emu", node: "a", capture, os, zero_unix_ns: 5 };
        CaptureFile::create(folder, &source)
    }

    /// Adds packets of growing length until there are so many, or it ends.
    fn fill(capture: &mut CaptureFile, packets: u32) {
        for n in 0..packets {
            let data = vec![7; (n % 97) as usize];
            let (unix_ns, length) = ((1 << 40) + u64::from(n), 1000 + n);
            let heading = if n % 2 == 0 { Heading::Inbound } else { Heading::Outbound };
            capture.packet(&CapturedPacket { interface: 0, unix_ns, heading, length, data: &data });
        }
    }

    #[test]
    fn file_has_the_packets_it_was_given() {
        let folder = tempfile::tempdir().unwrap();
        let mut capture = create(folder.path(), 4 << 30).unwrap();
        fill(&mut capture, 10_000);
        let entry = capture.finish(3);
        let file = Captured::open(&folder.path().join("a.pcapng"));
        assert_eq!((file.packets.len() as u64, file.drops), (entry.packets, 3));
        assert_eq!(file.interfaces, ["wan0"]);
        for (n, packet) in (0_u32..).zip(&file.packets) {
            assert_eq!((packet.length, packet.kept as u32), (1000 + n, n % 97));
            assert_eq!(packet.unix_ns, (1 << 40) + u64::from(n));
            assert_eq!(packet.is_outbound, n % 2 == 1);
        }
        assert!(!entry.complete && entry.incomplete_reasons[0].contains("dropped 3 packets"));
    }

    #[test]
    fn full_disk_ends_the_capture_at_a_whole_packet() {
        let folder = tempfile::tempdir().unwrap();
        let mut capture = create(folder.path(), 4 << 30).unwrap();
        fill(&mut capture, 10_000);
        capture.flush();
        let good = std::mem::replace(&mut capture.file, File::create("/dev/full").unwrap());
        fill(&mut capture, 10_000);
        assert!(!capture.is_open());
        capture.file = good;
        let entry = capture.finish(0);
        assert!(entry.incomplete_reasons[0].contains("no room"), "{:?}", entry.incomplete_reasons);
        let file = Captured::open(&folder.path().join("a.pcapng"));
        assert_eq!((file.packets.len() as u64, entry.packets), (10_000, 10_000));
        assert!(!file.is_cut);
    }

    #[test]
    fn file_ends_below_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let mut capture = create(folder.path(), 1 << 20).unwrap();
        fill(&mut capture, 100_000);
        let entry = capture.finish(0);
        assert!(!entry.complete && entry.packets > 5000, "{entry:?}");
        let file = folder.path().join("a.pcapng");
        assert!(std::fs::metadata(&file).unwrap().len() <= 1 << 20);
        assert_eq!(Captured::open(&file).packets.len() as u64, entry.packets);
    }

    #[test]
    fn folder_that_is_not_there_is_named() {
        let error = create(Path::new("/nowhere"), 1 << 20).unwrap_err().to_string();
        assert!(error.starts_with("could not create the capture /nowhere/a.pcapng: "), "{error}");
    }
}
