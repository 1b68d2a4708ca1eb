// SPDX-License-Identifier: GPL-2.0-or-later
//! Files of both formats, both byte orders, all resolutions, compressed and cut.

use crate::{
    files::{Order, block, enhanced, interface, pcap_header, pcap_packet, section},
    script::packets,
};
use longhaul_trace::{CaptureReader, Heading, ReadError, decompressed};
use std::io::{self, Read, Write};

const DATA: &[u8] = b"twenty-one bytes here";

#[test]
fn pcap_is_read_in_both_orders_and_resolutions() {
    for order in [Order::Little, Order::Big] {
        for (is_nano, unit) in [(false, 1000), (true, 1)] {
            let mut file = pcap_header(order, is_nano, 1);
            file.extend(pcap_packet(order, 5, 7, DATA, 1500));
            file.extend(pcap_packet(order, 6, 999, &DATA[..4], 4));
            let expected = vec![
                (1, 5_000_000_000 + 7 * unit, DATA.to_vec(), 1500),
                (2, 6_000_000_000 + 999 * unit, DATA[..4].to_vec(), 4),
            ];
            assert_eq!(packets(&file), expected, "{order:?}, {is_nano}");
        }
    }
}

#[test]
fn pcapng_times_are_nanoseconds_whatever_the_interface_has() {
    let cases = [
        (None, None, 1_500_000, 1_500_000_000),
        (Some(9), None, 1_500_000_000, 1_500_000_000),
        (Some(3), None, 1500, 1_500_000_000),
        (Some(0), None, 3, 3_000_000_000),
        (Some(12), None, 1_500_000_000_000, 1_500_000_000),
        (Some(0x8a), None, 1536, 1_500_000_000),
        (Some(9), Some(100), 5, 100_000_000_005),
        (Some(6), Some(-1), 1_500_000, 500_000_000),
        // Before 1970 and after 2554.
        (Some(6), Some(-2), 1_500_000, 0),
        (Some(0), None, u64::MAX, u64::MAX),
        (Some(0x7f), None, u64::MAX, 0),
        (Some(0xff), None, u64::MAX, 0),
    ];
    for order in [Order::Little, Order::Big] {
        for (resolution, offset, units, expected) in cases {
            let mut file = section(order);
            file.extend(interface(order, 1, resolution, offset));
            file.extend(enhanced(order, 0, units, DATA, 90, 2));
            let read = packets(&file);
            assert_eq!(read, vec![(1, expected, DATA.to_vec(), 90)], "{order:?} {resolution:?}");
        }
    }
}

/// A section may have the other byte order, and numbers interfaces from 0 again.
#[test]
fn sections_of_pcapng_are_independent() {
    let mut file = section(Order::Little);
    file.extend(interface(Order::Little, 1, Some(9), None));
    file.extend(enhanced(Order::Little, 0, 1, DATA, 21, 1));
    file.extend(section(Order::Big));
    file.extend(block(Order::Big, 0xbad_f00d, b"unknown"));
    file.extend(interface(Order::Big, 101, Some(9), None));
    file.extend(enhanced(Order::Big, 0, 2, DATA, 21, 2));
    file.extend(block(Order::Big, 3, &[0, 0, 0, 21, 1, 2, 3, 4]));
    let mut reader = CaptureReader::new(&file[..]).unwrap();
    let first = reader.next_packet().unwrap().unwrap();
    assert_eq!((first.link.0, first.heading, first.unix_ns), (1, Heading::Inbound, 1));
    let second = reader.next_packet().unwrap().unwrap();
    assert_eq!((second.link.0, second.heading, second.unix_ns), (101, Heading::Outbound, 2));
    assert!(reader.next_packet().unwrap().is_none());
    assert_eq!(reader.skipped_blocks(), 2, "an unknown block, and a packet without a time");
}

/// Some files in one byte at a time, as a pipe may deliver them.
struct Trickle<'a>(&'a [u8]);

impl Read for Trickle<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
        into[0] = *first;
        self.0 = rest;
        Ok(1)
    }
}

fn several_packets() -> Vec<u8> {
    let mut file = section(Order::Little);
    file.extend(interface(Order::Little, 1, Some(9), None));
    for n in 0..2000_u64 {
        let data = vec![n as u8; 40 + (n * 7 % 1400) as usize];
        file.extend(enhanced(Order::Little, 0, n, &data, 1500, 0));
    }
    file
}

#[test]
fn file_is_the_same_compressed_and_in_single_bytes() {
    let file = several_packets();
    let expected = packets(&file);
    assert_eq!(expected.len(), 2000);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&file[..file.len() / 2]).unwrap();
    let mut gzip = gzip.finish().unwrap();
    // A second member.
    let mut second = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    second.write_all(&file[file.len() / 2..]).unwrap();
    gzip.extend(second.finish().unwrap());
    let zstd = zstd::stream::encode_all(&file[..], 3).unwrap();
    for compressed in [&file, &gzip, &zstd] {
        let mut reader = decompressed(Box::new(&compressed[..])).unwrap();
        let mut plain = Vec::new();
        reader.read_to_end(&mut plain).unwrap();
        assert!(plain == file);
    }
    let mut reader = CaptureReader::new(Trickle(&file)).unwrap();
    let mut read = 0;
    while let Some(packet) = reader.next_packet().unwrap() {
        assert_eq!(packet.data, expected[read].2);
        read += 1;
    }
    assert_eq!(read, 2000);
}

#[test]
fn cut_file_gives_what_is_before_the_cut() {
    let file = several_packets();
    let (mut cut, mut whole) = (0, 0);
    for length in (28..file.len()).step_by(997) {
        let mut reader = CaptureReader::new(&file[..length]).unwrap();
        let error = loop {
            match reader.next_packet() {
                Ok(Some(_)) => {}
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        match error {
            None => whole += 1,
            Some(ReadError::Truncated { at }) => {
                assert!(at <= length as u64);
                cut += 1;
            }
            Some(other) => panic!("{other}"),
        }
    }
    println!("{cut} cut, {whole} whole");
    assert!(cut > 1000);
    // A compressed file that ends early is an error of the decompressor.
    let zstd = zstd::stream::encode_all(&file[..], 3).unwrap();
    let half = &zstd[..zstd.len() / 2];
    let mut reader = CaptureReader::new(decompressed(Box::new(half)).unwrap()).unwrap();
    let error = loop {
        match reader.next_packet() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the end of half a file"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ReadError::Io { .. }), "{error}");
}

#[test]
fn other_files_are_no_captures() {
    let long_section = [&section(Order::Little)[..4], &[0; 30]].concat();
    for file in
        [&b""[..], b"GET / HTTP/1.1\r\nHost: longhaul", &[0; 100], &section(Order::Big)[..12]]
    {
        assert!(matches!(CaptureReader::new(file), Err(ReadError::Unrecognised)));
    }
    let mut damaged = CaptureReader::new(&long_section[..]).unwrap();
    assert!(matches!(damaged.next_packet(), Err(ReadError::Damaged { at: 0, .. })));
}
