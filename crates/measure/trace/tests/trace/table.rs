// SPDX-License-Identifier: GPL-2.0-or-later
//! Memory of many connections, and shards.

use crate::{
    files::{Order, pcap_header, pcap_packet},
    script::Script,
};
use etherparse::PacketBuilder;
use longhaul_trace::{
    CaptureReader, ConnectionSummary, ConnectionTable, Ending, Endpoint, KeptCurves, Options,
    analyse,
};
use std::net::Ipv4Addr;

/// A million connections that are never closed, each of one packet.
#[test]
fn million_connections_stay_within_the_memory_limit() {
    const LIMIT: usize = 8 << 20;
    let mut table = ConnectionTable::new(LIMIT, ());
    let (mut finished, mut evicted) = (0_u64, 0_u64);
    let mut count = |connection: ConnectionSummary| {
        finished += 1;
        evicted += u64::from(connection.ending == Ending::Evicted);
    };
    let mut template = Script::default();
    template.push(0, 0, 1, 100, 1);
    let mut segment = template.segments[0];
    let mut largest = 0;
    for n in 0..1_000_000_u32 {
        let ip = Ipv4Addr::from_bits(0x0a00_0000 + n / 1000);
        segment.from = Endpoint { ip: ip.into(), port: (1024 + n % 1000) as u16 };
        segment.number += 1;
        segment.unix_ns += 1000;
        table.take(&segment, &mut count);
        largest = largest.max(table.bytes());
    }
    assert!(largest <= LIMIT, "{largest}");
    let known = table.len() as u64;
    assert!(known > 2000, "{known}");
    let ((), given_up) = table.finish_all(&mut count);
    assert_eq!((finished, evicted), (1_000_000, 1_000_000 - known));
    assert_eq!(given_up, evicted);
}

/// The longest idle go first: a connection with packets all along stays whole.
#[test]
fn busy_connection_outlives_idle_ones() {
    let mut table = ConnectionTable::new(1 << 20, ());
    let mut connections = Vec::new();
    let mut script = Script::default();
    for n in 0..20_000 {
        script.segments.clear();
        let busy = *script.data(u64::from(n) * 10, n);
        table.take(&busy, &mut |connection| connections.push(connection));
        let idle = Endpoint { port: 50_000, ip: Ipv4Addr::from_bits(n).into() };
        let idle = longhaul_trace::Segment { from: idle, ..busy };
        table.take(&idle, &mut |connection| connections.push(connection));
        script.segments.clear();
        let ack = *script.ack(u64::from(n) * 10 + 1, n + 1, &[]);
        table.take(&ack, &mut |connection| connections.push(connection));
    }
    table.finish_all(&mut |connection| connections.push(connection));
    let busy = connections.iter().flat_map(|one| &one.directions);
    let busy: Vec<_> = busy.filter(|one| one.from == "10.0.0.2:80" && one.packets > 1).collect();
    assert_eq!(busy.len(), 1);
    assert_eq!(busy[0].unique_bytes, 20_000_000);
}

fn capture_of_many() -> Vec<u8> {
    let mut file = pcap_header(Order::Little, true, 101);
    let mut at_ns = 0;
    for round in 0..40_u32 {
        for n in 0..200_u8 {
            let [from, to] = [[10, 0, 1, n], [10, 0, 2, 1]];
            let mut data = Vec::new();
            let seq = if round == 20 { 500 * 15 } else { 500 * round };
            let packet = PacketBuilder::ipv4(from, to, 9).tcp(1000 + u16::from(n), 80, seq, 900);
            packet.ack(1).write(&mut data, &[0; 500]).unwrap();
            at_ns += 1000;
            file.extend(pcap_packet(Order::Little, 7, at_ns, &data[..40], data.len() as u32));
        }
    }
    file
}

#[test]
fn shards_find_what_one_thread_finds() {
    let file = capture_of_many();
    let run = |shards| {
        let mut capture = CaptureReader::new(&file[..]).unwrap();
        let mut connections = Vec::new();
        let options = Options { shards, memory_bytes: 1 << 28, curves: KeptCurves::None };
        let (totals, error) = analyse(&mut capture, options, |one| connections.push(one));
        assert!(error.is_none());
        connections.sort_by_key(|connection| connection.first_packet);
        (totals, connections)
    };
    let one = run(1);
    assert_eq!((one.0.packets, one.0.tcp_packets, one.0.connections), (8000, 8000, 200));
    assert_eq!(one.1.len(), 200);
    assert!(one.1.iter().all(|connection| connection.directions[0].retransmitted_segments == 1));
    for shards in [2, 3, 8] {
        assert!(run(shards) == one, "{shards}");
    }
}
