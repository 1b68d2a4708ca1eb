// SPDX-License-Identifier: GPL-2.0-or-later
//! What is kept over time: growth, windows, round trips; and which directions are transfers.

use crate::{
    script::{AMPLE, MSS, Script},
    truth::{draft, simulated},
};
use longhaul_trace::{
    CaptureReader, ConnectionSummary, ConnectionTable, DirectionSummary, KeptCurves, MAX_TRANSFERS,
    Options, Slice, TransferCollector, TransferFilter, analyse,
};
use std::{fs::File, path::Path};

fn data_of(script: &Script, kept: KeptCurves) -> DirectionSummary {
    let mut connections = Vec::new();
    let mut finished = |connection: ConnectionSummary| connections.push(connection);
    let mut table = ConnectionTable::new(AMPLE, ()).keeping(kept);
    script.segments.iter().for_each(|segment| table.take(segment, &mut finished));
    table.finish_all(&mut finished);
    assert_eq!(connections.len(), 1);
    connections[0].directions[1].clone()
}

#[test]
fn windows_and_round_trips_are_those_of_the_packets() {
    let mut script = Script::opened(10, 20_000);
    script.data(40_000, 0);
    script.data(42_000, 1);
    script.data(44_000, 2);
    // After 22 ms, all but one, with a window of 500 << 7 bytes.
    script.ack(64_000, 2, &[]).window = 500;
    script.ack(70_000, 3, &[]);
    let direction = data_of(&script, KeptCurves::All);
    let windows = direction.windows.expect("kept");
    let values = |course: &longhaul_trace::Course| -> Vec<(u64, u64)> {
        course.slices().map(|Slice { lowest, highest, .. }| (lowest, highest)).collect()
    };
    let mss = u64::from(MSS);
    let flat = |values: [u64; 5]| values.map(|value| (value, value));
    assert_eq!(values(&windows.outstanding_bytes), flat([mss, 2 * mss, 3 * mss, mss, 0]));
    let (wide, narrow) = (1000 << 7, 500 << 7);
    assert_eq!(values(&windows.window_bytes), flat([wide, wide, wide, narrow, wide]));
    // Each acknowledgement is for its last segment: 64 - 42 and 70 - 44 ms.
    assert_eq!(values(&windows.rtt_ns), [(22_000_000, 22_000_000), (26_000_000, 26_000_000)]);
    let growth = direction.growth.expect("kept");
    let times: Vec<u64> = growth.points().iter().map(|point| point.1).collect();
    assert_eq!(times, [mss, 2 * mss, 3 * mss]);
    let less = data_of(&script, KeptCurves::Growth);
    assert!(less.growth == Some(growth) && less.windows.is_none());
    let none = data_of(&script, KeptCurves::None);
    assert!(none.growth.is_none() && none.windows.is_none());
}

/// The simulated capture's curves agree with its sums.
#[test]
fn curves_end_where_sums_do() {
    let draft = draft("rate=50mbit queue=1bdp delay=20ms loss=0.3%", "bytes=4MB cc=cubic");
    let (_, [source, _], _directory) = simulated(&draft);
    let direction =
        traced(&source).remove(0).directions.into_iter().max_by_key(|one| one.unique_bytes);
    let direction = direction.expect("two");
    let windows = direction.windows.expect("kept");
    let highest =
        |course: &longhaul_trace::Course| course.slices().map(|slice| slice.highest).max();
    assert_eq!(highest(&windows.outstanding_bytes), Some(direction.outstanding_max_bytes));
    assert_eq!(highest(&windows.window_bytes), direction.window_max_bytes);
    let longest = highest(&windows.rtt_ns).expect("samples") as f64 / 1e3;
    assert_eq!(Some(longest), direction.rtt_max_us);
    let lowest = windows.rtt_ns.slices().map(|slice| slice.lowest).min().expect("samples");
    assert_eq!(Some(lowest as f64 / 1e3), direction.rtt_min_us);
    let growth = direction.growth.expect("kept");
    assert_eq!(growth.points().last().expect("data").1, direction.unique_bytes);
}

fn traced(file: &Path) -> Vec<ConnectionSummary> {
    let mut capture = CaptureReader::new(File::open(file).expect("a capture")).expect("pcapng");
    let mut connections = Vec::new();
    let options = Options { shards: 1, memory_bytes: 1 << 28, curves: KeptCurves::All };
    analyse(&mut capture, options, |one| connections.push(one));
    connections
}

fn collected(
    files: &[Vec<ConnectionSummary>],
    filter: TransferFilter,
) -> longhaul_trace::Transfers {
    let mut collector = TransferCollector::new(filter);
    for (n, connections) in files.iter().enumerate() {
        collector.begin_file(&format!("{n}.pcap"));
        for connection in connections {
            collector.add(connection);
        }
    }
    collector.finish()
}

const ALL: TransferFilter = TransferFilter { most_files: 9, at_sender: false };

/// A capture at a depot has a sublink at its receiver and the next one at its sender.
#[test]
fn transfers_at_the_sender_are_told_from_those_at_the_receiver() {
    let draft = draft("rate=50mbit queue=1bdp delay=20ms", "bytes=1MB");
    let (_, captures, _directory) = simulated(&draft);
    let files = captures.map(|file| traced(&file));
    let both = collected(&files, ALL);
    assert_eq!(both.files.iter().map(|file| file.transfers.len()).collect::<Vec<_>>(), [1, 1]);
    let at_sender = collected(&files, TransferFilter { at_sender: true, ..ALL });
    // The sink sends a request alone, from which its own data is a transfer.
    let bytes = |n: usize| at_sender.files[n].transfers[0].direction.unique_bytes;
    assert!(bytes(0) >= 1_000_000 && bytes(1) < 1000, "{}, {}", bytes(0), bytes(1));
    let one = collected(&files, TransferFilter { most_files: 1, ..ALL });
    assert_eq!((one.files.len(), one.files_left_out), (1, 1));
    assert_eq!(one.files[0].transfers.len(), 1);
}

#[test]
fn transfers_are_bounded_and_the_largest_stay() {
    let sized = |n: u32| {
        let mut script = Script::opened(10, 20_000);
        for at in 0..=n % 50 {
            script.data(40_000 + u64::from(n), at);
        }
        let mut connections = Vec::new();
        let mut finished = |connection: ConnectionSummary| connections.push(connection);
        let mut table = ConnectionTable::new(AMPLE, ()).keeping(KeptCurves::Growth);
        script.segments.iter().for_each(|segment| table.take(segment, &mut finished));
        table.finish_all(&mut finished);
        connections.remove(0)
    };
    let connections: Vec<_> = (0..1000).map(sized).collect();
    let transfers = collected(&[connections], ALL);
    let file = &transfers.files[0];
    assert_eq!(file.transfers.len(), MAX_TRANSFERS);
    let least = file.transfers.iter().map(|one| one.direction.unique_bytes).min().unwrap();
    // 20 connections of each size from 1 to 50 segments: the 10 largest sizes stay.
    assert_eq!(least, u64::from(41 * MSS));
    assert!(file.transfers.is_sorted_by_key(|one| one.growth.start_ns()));
    // Of those that went, at least a tenth of the largest: 5 to 40 segments.
    assert_eq!(file.left_out, 36 * 20);
}
