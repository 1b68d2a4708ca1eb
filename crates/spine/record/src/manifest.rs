// SPDX-License-Identifier: GPL-2.0-or-later
//! `manifest.json`: what was run, where, with which settings, and whether the result counts.

use crate::parquet_table::ColumnValues;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the record's format that is written, and the newest that is read.
///
/// It grows when a key changes its meaning or goes away; a new key does not raise it.
pub const SCHEMA: u32 = 3;

/// A point of a sweep: keys of the scenario and the values they had, in sweep order.
pub type Point = Vec<(String, String)>;

/// The run, its machine, its settings, and whether the result is valid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`SCHEMA`] when it was written.
    pub schema: u32,
    /// The run's name, unique among the records that lie together.
    pub id: String,
    /// The scenario's title; runs of the same title are compared with one another.
    pub title: String,
    /// Where the scenario comes from: the paper and figure, or a sentence of its own.
    #[serde(default)]
    pub source: Option<String>,
    /// Which of the scenario's variants of moving the data this run took.
    #[serde(default)]
    pub variant: Option<Variant>,
    /// The name of the variant that the others are compared with.
    #[serde(default)]
    pub baseline: Option<String>,
    /// The point of the sweep.
    #[serde(default)]
    pub point: Point,
    /// Counts the repetitions of the same variant and point, from 1.
    pub repeat: u32,
    /// Seed of the run's random numbers.
    pub seed: u64,
    /// `model`, `sim`, `emu` or `field`.
    pub method: String,
    /// The command, word by word, that makes this record again.
    #[serde(default)]
    pub command: Vec<String>,
    /// When the run started: RFC 3339, UTC.
    pub started: String,
    /// Programs that took part, and their versions: `longhaul`, `curl`, `nginx`, …
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    /// SHA-256 over the sources of longhaul that bear on a run by this method, `cc/` among them: records
    /// with the same one are of the same program. Older records have none.
    #[serde(default)]
    pub sources: Option<String>,
    /// The machine it ran on.
    #[serde(default)]
    pub machine: Option<Machine>,
    /// The settings of each node.
    #[serde(default)]
    pub nodes: BTreeMap<String, NodeSettings>,
    /// longhaul's congestion controls that the run asked for, by their names in the kernel; of a
    /// simulated run, every one that took part. One whose parameters are not known, because another
    /// process held it, has none here.
    #[serde(default)]
    pub congestion_controls: BTreeMap<String, CongestionControl>,
    /// The data-carrying sockets, as the kernel described them while they were in use.
    #[serde(default)]
    pub sockets: Vec<HopSocket>,
    /// The offloads that each device offers to the kernel.
    #[serde(default)]
    pub offloads: BTreeMap<String, Vec<String>>,
    /// Values that the source reports for this variant and point.
    #[serde(default)]
    pub references: Vec<ReportedGain>,
    /// Predictions of closed forms for this variant and point.
    #[serde(default)]
    pub predicted: Option<Prediction>,
    /// Whether the run counts. A run that does not stays on record, with its reasons.
    pub valid: bool,
    /// Why the run does not count; empty when it does.
    #[serde(default)]
    pub invalid_reasons: Vec<String>,
    /// How well the emulator kept up; null for other methods.
    #[serde(default)]
    pub emulator: Option<EmulatorHealth>,
    /// The events of the scenario, in the order in which they happened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<HappenedEvent>,
    /// The real hosts of a run, by node; none for other methods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, FieldHost>,
    /// The paths between them, as measured before the run and as the scenario asks for; none for other methods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<MeasuredPath>,
    /// Work and speed of the simulator; null for other methods.
    #[serde(default)]
    pub simulator: Option<SimulatorSpeed>,
    /// The captures of nodes, which lie with the record.
    #[serde(default)]
    pub captures: Vec<Capture>,
    /// The scenario as run: expanded, with every default filled in.
    #[serde(default)]
    pub scenario: serde_json::Value,
}

impl Manifest {
    /// The point of the sweep as one text.
    pub fn point_text(&self) -> String {
        point_text(&self.point)
    }

    /// The columns that tell a run's rows from those of others: `run`, `variant`, `point`.
    pub(crate) fn columns(&self, rows: usize) -> Vec<ColumnValues> {
        let variant = self.variant.as_ref().map_or("", |variant| &variant.name);
        let texts = [self.id.clone(), variant.to_owned(), self.point_text()];
        texts.map(|text| ColumnValues::Texts(vec![(text, rows)])).into()
    }
}

/// A point of a sweep as one text, `rtt=90ms,loss=0.1%`; empty without a sweep.
pub fn point_text(point: &[(String, String)]) -> String {
    let settings = point.iter().map(|(key, value)| format!("{}={value}", short_key(key)));
    settings.collect::<Vec<_>>().join(",")
}

/// A swept key for display, without the prefix of a scenario's variables.
pub fn short_key(key: &str) -> &str {
    key.strip_prefix("vars.").unwrap_or(key)
}

/// One of the variants of moving the data that a scenario compares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    /// The short name by which results are grouped: `depots-bbr`.
    pub name: String,
    /// The name for people: "two depots, BBR on the long haul".
    pub label: String,
}

/// The machine a run took place on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The kernel's release, as `uname -r` prints it.
    pub kernel: String,
    /// The processor's model.
    pub cpu: String,
    /// Processors available to the run.
    pub cores: u32,
    /// Main memory in bytes.
    pub memory_bytes: u64,
}

/// The settings of one node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSettings {
    /// Kernel settings that bear on transport, as read back.
    #[serde(default)]
    pub sysctls: BTreeMap<String, String>,
}

/// A congestion control of longhaul's, as it was in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CongestionControl {
    /// The named set that its parameters are; null if they are none of them.
    #[serde(default)]
    pub parameter_set: Option<String>,
    /// Its parameters. `longhaul cc show` gives their units.
    #[serde(default)]
    pub parameters: BTreeMap<String, u32>,
    /// The user's file that it was compiled from (`longhaul sim --cc`); null for longhaul's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<AlgorithmFile>,
}

/// A user's file with a congestion control.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlgorithmFile {
    /// Its name without directories.
    pub name: String,
    /// SHA-256 of its contents, in hexadecimal digits.
    pub sha256: String,
}

/// The sending socket of one hop, as read back while it carried data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopSocket {
    /// The flow it belongs to.
    pub flow: String,
    /// Counted in the direction of the data; 0 leaves the source.
    pub hop: u32,
    /// The node that the socket is on.
    pub node: String,
    /// Its address and port.
    pub local: String,
    /// The other end's address and port.
    pub peer: String,
    /// The congestion control that the scenario asked for.
    #[serde(default)]
    pub congestion_control_asked: Option<String>,
    /// The congestion control in force.
    pub congestion_control: String,
    /// The send buffer's limit in bytes.
    #[serde(default)]
    pub sndbuf_bytes: Option<u64>,
    /// The receive buffer's limit in bytes.
    #[serde(default)]
    pub rcvbuf_bytes: Option<u64>,
}

/// A gain over the baseline that the scenario's source reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportedGain {
    /// Goodput as a multiple of the baseline's.
    pub gain: f64,
    /// Where it stands, and how it was read.
    pub note: String,
}

/// Prediction of a closed form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Goodput in bits a second.
    pub goodput_bps: f64,
    /// The equations and what was put into them.
    pub source: String,
}

/// How well the emulator kept up with the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EmulatorHealth {
    /// Frames that it delivered.
    pub deliveries: u64,
    /// Of those, the ones delivered later than a run may have them.
    pub late: u64,
    /// How late they were against the time that the link's model set: the median, in microseconds.
    pub lateness_p50_us: f64,
    /// 99 of 100 were no later, in microseconds.
    pub lateness_p99_us: f64,
    /// The latest, in microseconds.
    pub lateness_max_us: f64,
    /// Frames that the devices dropped, which no link's model accounts for.
    pub device_drops: u64,
    /// Further figures, as the emulator names them.
    #[serde(flatten)]
    pub more: serde_json::Map<String, serde_json::Value>,
}

/// An event of the scenario that has happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HappenedEvent {
    /// Its name.
    pub name: String,
    /// When, in the record's time.
    pub at_s: f64,
}

/// A real host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldHost {
    /// Its own name.
    pub name: String,
    /// What machine it is.
    pub machine: Machine,
    /// The processor's architecture, as `uname -m` has it.
    pub architecture: String,
    /// How far its clock was ahead of the engine's before the run, in nanoseconds; negative if it was behind. Times in the
    /// record do not depend on it.
    pub clock_ahead_ns: i64,
    /// How far off that is at most, and how far hosts' times in the record are apart from each other, in nanoseconds.
    pub clock_error_ns: u64,
}

/// A path between two hosts, and what a scenario asks of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredPath {
    /// The node that sends.
    pub from: String,
    /// The node that receives.
    pub to: String,
    /// The shortest round trip in the scenario, in microseconds.
    pub asked_rtt_us: f64,
    /// The shortest that was measured.
    pub rtt_us: f64,
    /// The rate of the slowest link in the scenario, in bit/s; null where none has one.
    pub asked_rate_bps: Option<u64>,
    /// The rate at which datagrams arrived that were sent faster than that, in bit/s of IP packets; null where they could not be.
    pub rate_bps: Option<u64>,
    /// The share of packets that the scenario's links lose at random.
    pub asked_loss: f64,
    /// The share of datagrams that was lost a little below the rate.
    pub loss: Option<f64>,
}

/// A capture of the packets of one node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capture {
    /// The node.
    pub node: String,
    /// The file's name in the record's folder (pcapng).
    pub file: String,
    /// Bytes kept of each packet.
    pub snap_bytes: u32,
    /// Packets in the file.
    pub packets: u64,
    /// Their bytes on the device, whole.
    pub bytes: u64,
    /// Packets that passed and that the kernel did not keep for the capture.
    pub dropped: u64,
    /// The timestamp that is the record's time 0, in nanoseconds since 1970.
    pub zero_unix_ns: u64,
    /// Whether every packet of the run is in it.
    pub complete: bool,
    /// Why not.
    #[serde(default)]
    pub incomplete_reasons: Vec<String>,
}

/// Work of the simulator, and its speed on this machine. Records of equal runs differ only here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SimulatorSpeed {
    /// Events in virtual time.
    pub events: u64,
    /// Their duration in seconds of real time.
    pub wall_s: f64,
    /// The one over the other.
    pub events_per_s: f64,
    /// How far virtual time went, in seconds.
    pub simulated_s: f64,
}
