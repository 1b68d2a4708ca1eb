// SPDX-License-Identifier: GPL-2.0-or-later
//! The same captures by tshark, packet by packet, and by tcptrace, connection by connection. Each difference has to follow from a
//! rule of `docs/trace.md`, where the table of differences is.

use crate::{
    files::{Order, pcap_header, pcap_packet},
    truth::{LINKS, draft, simulated},
};
use longhaul_trace::{CaptureReader, ConnectionSummary, Event, Kind, Observer, observe};
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
    let output =
        command.arg("-r").arg(file).output().expect("tshark, which make deps-test installs");
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
    let mut capture =
        CaptureReader::new(fs::File::open(file).expect("a capture")).expect("a capture");
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

fn ours(kind: Kind) -> Option<Verdict> {
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
            ours_of.get(&packet).into_iter().flatten().copied().filter_map(ours).collect();
        let other: BTreeSet<Verdict> =
            theirs_of.get(&packet).into_iter().flatten().map(|flag| theirs(flag)).collect();
        if mine == other {
            agreed += u64::from(!mine.is_empty());
            continue;
        }
        let only =
            |a: &BTreeSet<Verdict>, b: &BTreeSet<Verdict>| a.difference(b).copied().collect();
        let difference = (only(&mine, &other), only(&other, &mine));
        differences.entry(difference).or_default().push(packet);
    }
    (agreed, differences)
}

/// Why the two may differ, as `docs/trace.md` has it. `None`: no rule explains it.
fn rule(difference: &Difference) -> Option<&'static str> {
    use Verdict::{Copy, DuplicateAck, Late, SentAgain, WindowFull};
    Some(match (&difference.0[..], &difference.1[..]) {
        ([SentAgain], [Late]) => {
            "T1: tshark takes data for late by the time since the highest number alone"
        }
        ([Late], [SentAgain]) => "T2: tshark takes all that comes later for a retransmission",
        ([Copy], [SentAgain | Late]) => "T3: tshark knows no copies",
        ([Copy], [DuplicateAck] | [SentAgain, DuplicateAck]) => "T3",
        ([], [DuplicateAck]) => {
            "T4: tshark takes an acknowledgement for a duplicate with nothing under way"
        }
        ([DuplicateAck], []) => {
            "T5: tshark compares with the last acknowledgement, which may be a late one"
        }
        ([WindowFull], []) => "T6: tshark needs the window's exact end",
        _ => return None,
    })
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
                let name = capture.file_stem().unwrap().display();
                println!("{link}, {cc}, {name}: {difference:?}: {packets:?}");
                assert!(rule(&difference).is_some(), "no rule explains {difference:?}");
                *all.entry(difference).or_default() += packets.len() as u64;
            }
        }
    }
    println!("both say the same of {agreed} packets");
    for (difference, packets) in &all {
        println!("{packets} packets: {difference:?}: {}", rule(difference).expect("checked above"));
    }
    assert!(agreed > 3000 && all.len() > 2, "{agreed}, {all:?}");
}

/// A capture as tcptrace reads it: pcap in microseconds.
fn as_pcap(file: &Path) -> PathBuf {
    let mut capture =
        CaptureReader::new(fs::File::open(file).expect("a capture")).expect("a capture");
    let mut pcap = pcap_header(Order::Little, false, 1);
    while let Some(packet) = capture.next_packet().expect("whole packets") {
        let us = packet.unix_ns / 1000;
        let (seconds, fraction) = ((us / 1_000_000) as u32, (us % 1_000_000) as u32);
        pcap.extend(pcap_packet(Order::Little, seconds, fraction, packet.data, packet.length));
    }
    let to = file.with_extension("pcap");
    fs::write(&to, pcap).expect("a writable directory");
    to
}

/// The columns of the only connection by their names.
fn by_tcptrace(file: &Path) -> BTreeMap<String, String> {
    let mut command = Command::new("tcptrace");
    let output = command.args(["-n", "-l", "-r", "--csv"]).arg(file).output();
    let output = output.expect("tcptrace, which make deps-test installs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let lines: Vec<&str> = lines.into_iter().filter(|line| line.contains(',')).collect();
    let [names, values] = lines[..] else { panic!("one connection: {text}") };
    let cells = |line: &str| line.split(',').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    cells(names).into_iter().zip(cells(values)).collect()
}

/// Numbers of the direction from server to client.
fn numbers<const N: usize>(row: &BTreeMap<String, String>, names: [&str; N]) -> [u64; N] {
    names.map(|name| {
        row[&format!("{name}_b2a")].parse().unwrap_or_else(|_| panic!("{name}: {row:?}"))
    })
}

#[test]
fn differences_from_tcptrace_follow_from_rules() {
    let mut told_apart = 0;
    for (n, link) in LINKS.iter().enumerate() {
        let cc = ["cubic", "bbr", "reno"][n % 3];
        let (_, [source, sink], _directory) =
            simulated(&draft(link, &format!("bytes=2MB cc={cc}")));
        for (is_sender, capture) in [(true, source), (false, sink)] {
            let connection = by_us(&capture).1.remove(0);
            let ours = &connection.directions[1];
            let row = by_tcptrace(&as_pcap(&capture));
            let [unique, packets, again, again_bytes, late] = numbers(
                &row,
                [
                    "unique_bytes_sent",
                    "actual_data_pkts",
                    "rexmt_data_pkts",
                    "rexmt_data_bytes",
                    "outoforder_pkts",
                ],
            );
            let what = format!("{link}, {cc}, at the sender: {is_sender}");
            println!(
                "{what}: sent again {again}, ours {}; out of order {late}, ours {}; copies {}",
                ours.retransmitted_packets, ours.reordered_packets, ours.copies
            );
            assert_eq!(unique, ours.unique_bytes, "{what}");
            // P1: tcptrace counts copies as data that was sent again.
            assert_eq!(packets, ours.data_packets + ours.copies, "{what}");
            if is_sender {
                assert_eq!(
                    (again, again_bytes),
                    (ours.retransmitted_packets, ours.retransmitted_bytes),
                    "{what}"
                );
                assert_eq!(late, 0, "{what}");
            } else {
                // P2: what fills a gap is out of order for tcptrace, whether late or sent again.
                let both = ours.retransmitted_packets + ours.reordered_packets + ours.copies;
                assert_eq!(again + late, both, "{what}");
                told_apart += ours.retransmitted_packets.saturating_sub(again);
            }
        }
    }
    assert!(told_apart > 100, "{told_apart}");
}
