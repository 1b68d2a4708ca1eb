// SPDX-License-Identifier: GPL-2.0-or-later
//! The same captures by tshark, packet by packet, and by tcptrace, connection by connection. Each difference has to follow from a
//! rule of `docs/trace.md`, where the table of differences is.

use crate::{
    files::{Order, pcap_header, pcap_packet},
    truth::{LINKS, draft, simulated},
};
use longhaul_trace::{
    CaptureReader, Cause, ConnectionSummary, Event, Kind, Observer, Segment, observe,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// What tshark says of packets.
const FLAGS: [&str; 10] = [
    "retransmission",
    "fast_retransmission",
    "spurious_retransmission",
    "out_of_order",
    "lost_segment",
    "duplicate_ack",
    "keep_alive",
    "zero_window",
    "zero_window_probe",
    "window_full",
];

/// By packet, the flags that tshark gives it.
fn by_tshark(file: &Path) -> BTreeMap<u64, BTreeSet<&'static str>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-T", "fields", "-Y", "tcp.analysis.flags", "-e", "frame.number"]);
    for flag in FLAGS {
        command.args(["-e", &format!("tcp.analysis.{flag}")]);
    }
    let output = command.arg("-r").arg(file).output().expect("tshark, which make deps-test installs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("a text");
    let row = |line: &str| {
        let (number, flags) = line.split_once('\t').expect("a number, and flags");
        let set = FLAGS.iter().copied().zip(flags.split('\t'));
        let set = set.filter(|(_, value)| !value.is_empty()).map(|(flag, _)| flag).collect();
        (number.parse().expect("a number"), set)
    };
    text.lines().map(row).collect()
}

/// Events by packet.
#[derive(Default)]
struct ByPacket(BTreeMap<u64, BTreeSet<Kind>>);

impl Observer for ByPacket {
    fn event(&mut self, event: Event) {
        if event.kind != Kind::NewData {
            self.0.entry(event.packet).or_default().insert(event.kind);
        }
    }
}

fn by_us(file: &Path) -> (BTreeMap<u64, BTreeSet<Kind>>, Vec<ConnectionSummary>) {
    let mut capture = CaptureReader::new(fs::File::open(file).expect("a capture")).expect("a capture");
    let mut connections = Vec::new();
    let (_, error, events) =
        observe(&mut capture, 1 << 28, ByPacket::default(), |one| connections.push(one));
    assert!(error.is_none(), "{error:?}");
    connections.sort_by_key(|connection| connection.first_packet);
    (events.0, connections)
}

/// What both can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    SentAgain,
    Late,
    Copy,
    Gap,
    DuplicateAck,
    KeepAlive,
    Probe,
    ZeroWindow,
    WindowFull,
}

fn ours(kind: &Kind) -> Option<Verdict> {
    Some(match kind {
        Kind::Retransmission(_) | Kind::ControlRetransmission => Verdict::SentAgain,
        Kind::Reordered => Verdict::Late,
        Kind::Copy => Verdict::Copy,
        Kind::Gap => Verdict::Gap,
        Kind::DuplicateAck => Verdict::DuplicateAck,
        Kind::KeepAlive => Verdict::KeepAlive,
        Kind::ZeroWindowProbe => Verdict::Probe,
        Kind::ZeroWindow => Verdict::ZeroWindow,
        Kind::WindowFull => Verdict::WindowFull,
        Kind::NewData | Kind::DuplicateSack | Kind::Stray => return None,
    })
}

fn theirs(flag: &str) -> Verdict {
    match flag {
        "retransmission" | "fast_retransmission" | "spurious_retransmission" => Verdict::SentAgain,
        "out_of_order" => Verdict::Late,
        "lost_segment" => Verdict::Gap,
        "duplicate_ack" => Verdict::DuplicateAck,
        "keep_alive" => Verdict::KeepAlive,
        "zero_window" => Verdict::ZeroWindow,
        "zero_window_probe" => Verdict::Probe,
        "window_full" => Verdict::WindowFull,
        other => panic!("an unexpected flag: {other}"),
    }
}

/// What one of the two says of a packet and the other does not.
type Difference = (Vec<Verdict>, Vec<Verdict>);

/// Packets on which both agree, and the differences with their packets.
fn compared(file: &Path) -> (u64, BTreeMap<Difference, Vec<u64>>) {
    let (ours_of, theirs_of) = (by_us(file).0, by_tshark(file));
    let packets: BTreeSet<u64> = ours_of.keys().chain(theirs_of.keys()).copied().collect();
    let (mut agreed, mut differences) = (0, BTreeMap::<Difference, Vec<u64>>::new());
    for packet in packets {
        let mine: BTreeSet<Verdict> =
            ours_of.get(&packet).into_iter().flatten().filter_map(ours).collect();
        let other: BTreeSet<Verdict> =
            theirs_of.get(&packet).into_iter().flatten().map(|flag| theirs(flag)).collect();
        if mine == other {
            agreed += u64::from(!mine.is_empty());
            continue;
        }
        let only = |a: &BTreeSet<Verdict>, b: &BTreeSet<Verdict>| a.difference(b).copied().collect();
        let difference = (only(&mine, &other), only(&other, &mine));
        differences.entry(difference).or_default().push(packet);
    }
    (agreed, differences)
}

#[test]
fn differences_from_tshark_follow_from_rules() {
    let (mut agreed, mut all) = (0, BTreeMap::<Difference, u64>::new());
    for (n, link) in LINKS.iter().enumerate() {
        let cc = ["reno", "cubic", "bbr"][n % 3];
        let (_, captures, _directory) = simulated(&draft(link, &format!("bytes=2MB cc={cc}")));
        for capture in captures {
            let (both, differences) = compared(&capture);
            agreed += both;
            for (difference, packets) in differences {
                println!("{link}, {cc}, {}: {difference:?}: {packets:?}", capture.file_stem().unwrap().display());
                *all.entry(difference).or_default() += packets.len() as u64;
            }
        }
    }
    println!("{agreed} agree; {all:#?}");
}
