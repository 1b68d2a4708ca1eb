// SPDX-License-Identifier: GPL-2.0-or-later
//! A whole capture: packets are read by one thread and given to shards by their connection's ends, each with a table and a thread
//! of its own.

use crate::{
    connection::Observer,
    curves::KeptCurves,
    reader::{CaptureReader, ReadError},
    segment::{NoSegment, Segment},
    summary::ConnectionSummary,
    table::ConnectionTable,
};
use serde::Serialize;
use std::{
    hash::{Hash, Hasher},
    io::Read,
    sync::mpsc,
    thread,
};
use units::Bytes;

/// Packets that go to a shard at a time, and how many such batches may wait.
const BATCH: usize = 512;
const WAITING: usize = 4;

/// How to analyse.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Shards, each with a thread. With one, the reading thread does all.
    pub shards: usize,
    /// Bytes of memory that all connections may take together, about.
    pub memory_bytes: usize,
    /// What to keep of each direction over time.
    pub curves: KeptCurves,
}

/// What was read.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Packets of all kinds.
    pub packets: u64,
    /// Those of TCP, which were analysed.
    pub tcp_packets: u64,
    /// Those of other protocols.
    pub other_packets: u64,
    /// Fragments of IP packets, which are not put together.
    pub fragments: u64,
    /// Packets of which too little was kept.
    pub unreadable_packets: u64,
    /// Packets of a link type that is not known here.
    pub unknown_link_packets: u64,
    /// Blocks of pcapng that are not known here, or packets without a time.
    pub skipped_blocks: u64,
    /// Connections.
    pub connections: u64,
    /// Connections that were summed up early, because the memory limit was met.
    pub evicted_connections: u64,
}

impl Totals {
    /// What a reader should know of packets and connections that are not in full in the results, a sentence each. `memory` is
    /// the limit that was given.
    pub fn remarks(&self, memory: Bytes) -> Vec<String> {
        let parts = [
            (self.fragments, "fragments of IP packets were left out"),
            (
                self.unreadable_packets,
                "packets have too few bytes: capture more of each (tcpdump -s 128)",
            ),
            (self.unknown_link_packets, "packets have an unknown link type"),
            (self.skipped_blocks, "blocks without a usable packet or time were left out"),
        ];
        let counted = parts.iter().filter(|(count, _)| *count > 0);
        let mut remarks: Vec<_> = counted.map(|(count, what)| format!("{count} {what}")).collect();
        if self.evicted_connections > 0 {
            remarks.push(format!(
                "{} connections were summed up early, because all together exceed {memory} of memory. Raise --memory",
                self.evicted_connections
            ));
        }
        remarks
    }

    fn count(&mut self, reason: NoSegment) {
        *match reason {
            NoSegment::NotIp | NoSegment::NotTcp => &mut self.other_packets,
            NoSegment::Fragment => &mut self.fragments,
            NoSegment::Unreadable => &mut self.unreadable_packets,
            NoSegment::UnknownLink => &mut self.unknown_link_packets,
        } += 1;
    }
}

/// Analyses a capture. Each connection is handed to `finished` when it is over, in no certain order with several shards. Also
/// returns the error that ended the capture early; what was before is analysed.
pub fn analyse<R: Read>(
    capture: &mut CaptureReader<R>,
    options: Options,
    mut finished: impl FnMut(ConnectionSummary),
) -> (Totals, Option<ReadError>) {
    if options.shards <= 1 {
        let (totals, error, ()) = run_here(capture, table(options), finished);
        return (totals, error);
    }
    let mut totals = Totals::default();
    let (summaries, done) = mpsc::channel();
    let mut connections = 0;
    let mut hand_over = |summary| {
        connections += 1;
        finished(summary);
    };
    let error = thread::scope(|scope| {
        let share = Options { memory_bytes: options.memory_bytes / options.shards, ..options };
        let shard = |_| {
            let (batches, waiting) = mpsc::sync_channel::<Vec<Segment>>(WAITING);
            let summaries = summaries.clone();
            let thread = scope.spawn(move || run_shard(share, waiting, &summaries));
            Shard { batch: Vec::with_capacity(BATCH), batches, thread }
        };
        let mut shards: Vec<_> = (0..options.shards).map(shard).collect();
        drop(summaries);
        let error = read_all(capture, &mut totals, |segment| {
            let at = shard_of(segment, shards.len());
            if shards[at].push(*segment) {
                done.try_iter().for_each(&mut hand_over);
            }
        });
        let threads: Vec<_> = shards.into_iter().map(Shard::end).collect();
        done.iter().for_each(&mut hand_over);
        for thread in threads {
            totals.evicted_connections += thread.join().expect("a shard does not panic");
        }
        error
    });
    totals.connections = connections;
    (totals, error)
}

/// Analyses a capture in this thread, with an observer that learns what each packet is. Returns it too.
pub fn observe<R: Read, O: Observer>(
    capture: &mut CaptureReader<R>,
    memory_bytes: usize,
    observer: O,
    finished: impl FnMut(ConnectionSummary),
) -> (Totals, Option<ReadError>, O) {
    run_here(capture, ConnectionTable::new(memory_bytes, observer), finished)
}

fn table(options: Options) -> ConnectionTable<()> {
    ConnectionTable::new(options.memory_bytes, ()).keeping(options.curves)
}

fn run_here<R: Read, O: Observer>(
    capture: &mut CaptureReader<R>,
    mut table: ConnectionTable<O>,
    mut finished: impl FnMut(ConnectionSummary),
) -> (Totals, Option<ReadError>, O) {
    let (mut totals, mut connections) = (Totals::default(), 0);
    let mut hand_over = |summary| {
        connections += 1;
        finished(summary);
    };
    let error = read_all(capture, &mut totals, |segment| table.take(segment, &mut hand_over));
    let (observer, evicted) = table.finish_all(&mut hand_over);
    totals.evicted_connections = evicted;
    totals.connections = connections;
    (totals, error, observer)
}

fn read_all<R: Read>(
    capture: &mut CaptureReader<R>,
    totals: &mut Totals,
    mut take: impl FnMut(&Segment),
) -> Option<ReadError> {
    let error = loop {
        match capture.next_packet() {
            Ok(Some(packet)) => match Segment::of(&packet) {
                Ok(segment) => {
                    totals.tcp_packets += 1;
                    take(&segment);
                }
                Err(reason) => totals.count(reason),
            },
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    totals.packets = capture.packets();
    totals.skipped_blocks = capture.skipped_blocks();
    error
}

/// The reading thread's side of a shard.
struct Shard<'scope> {
    batch: Vec<Segment>,
    batches: mpsc::SyncSender<Vec<Segment>>,
    thread: thread::ScopedJoinHandle<'scope, u64>,
}

impl<'scope> Shard<'scope> {
    /// Adds a packet. Whether a batch is on its way.
    fn push(&mut self, segment: Segment) -> bool {
        self.batch.push(segment);
        let is_full = self.batch.len() == BATCH;
        if is_full {
            self.send();
        }
        is_full
    }

    fn send(&mut self) {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        self.batches.send(batch).expect("a shard runs until its batches end");
    }

    fn end(mut self) -> thread::ScopedJoinHandle<'scope, u64> {
        self.send();
        self.thread
    }
}

/// Takes all batches of a shard. How many connections it had to give up.
fn run_shard(
    options: Options,
    waiting: mpsc::Receiver<Vec<Segment>>,
    summaries: &mpsc::Sender<ConnectionSummary>,
) -> u64 {
    let mut table = table(options);
    // The receiver outlives all shards.
    let mut finished = |summary| drop(summaries.send(summary));
    for batch in waiting {
        for segment in &batch {
            table.take(segment, &mut finished);
        }
    }
    table.finish_all(&mut finished).1
}

/// Both directions of a connection have the same shard. Attackers may choose it, and gain nothing but an idle core.
fn shard_of(segment: &Segment, shards: usize) -> usize {
    let hash = |end| {
        let mut hasher = std::hash::DefaultHasher::new();
        Hash::hash(&end, &mut hasher);
        hasher.finish()
    };
    (hash(segment.from).wrapping_add(hash(segment.to)) % shards as u64) as usize
}
