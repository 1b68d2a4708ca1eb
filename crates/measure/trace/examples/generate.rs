// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes a capture of TCP connections with known losses, the same each time: for `bench/trace`.
//!
//! ```text
//! cargo run --release -p longhaul-trace --example generate -- FILE PACKETS CONNECTIONS
//! ```
//!
//! Prints how many segments are sent again in it. Connections take turns of eight segments, captured at the sender: each
//! segment of 1448 bytes with 96 bytes kept, an acknowledgement for two of them. Of every hundredth turn, one segment is
//! lost, told by selective blocks, and sent again.

use std::{
    env,
    fs::File,
    io::{self, BufWriter, Write},
    process::ExitCode,
};

const SEGMENT: u32 = 1448;
const KEPT: usize = 96;
const IN_TURN: u32 = 8;
/// A turn in which a segment is lost.
const LOSSY_TURN: u64 = 100;
/// Time between packets; round trips are of as many connections' turns as there are.
const STEP_US: u64 = 1;

/// A capture that is being written.
struct Capture<W> {
    into: W,
    packets: u64,
    now_us: u64,
    id: u16,
    resent: u64,
}

/// A packet of a connection.
#[derive(Clone, Copy)]
struct Sketch<'a> {
    connection: u32,
    from_server: bool,
    flags: u8,
    seq: u32,
    ack: u32,
    payload: u32,
    options: &'a [u8],
}

const SYN: u8 = 2;
const ACK: u8 = 16;

impl<W: Write> Capture<W> {
    fn write(&mut self, sketch: Sketch<'_>) -> io::Result<()> {
        let Sketch { connection, from_server, flags, seq, ack, payload, options } = sketch;
        let client = [10, 1, (connection >> 14) as u8, 1];
        let port = 1024 + (connection & 0x3fff) as u16;
        let server = [10, 2, 0, 1];
        let (from, to) = if from_server { (server, client) } else { (client, server) };
        let ports = if from_server { [80, port] } else { [port, 80] };
        let header = 20 + options.len();
        let length = 20 + header as u32 + payload;
        self.id = self.id.wrapping_add(1);
        let mut frame = Vec::with_capacity(KEPT);
        frame.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0]);
        frame.extend((length as u16).to_be_bytes());
        frame.extend(self.id.to_be_bytes());
        frame.extend([0x40, 0, 64, 6, 0, 0]);
        frame.extend(from);
        frame.extend(to);
        frame.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        frame.extend(seq.to_be_bytes());
        frame.extend(ack.to_be_bytes());
        frame.extend([(header as u8 / 4) << 4, flags, 0xff, 0, 0, 0, 0, 0]);
        frame.extend(options);
        let on_link = 14 + length;
        frame.resize(KEPT.min(on_link as usize), 0);
        self.now_us += STEP_US;
        self.packets += 1;
        let numbers = [
            (self.now_us / 1_000_000) as u32,
            (self.now_us % 1_000_000) as u32,
            frame.len() as u32,
            on_link,
        ];
        for number in numbers {
            self.into.write_all(&number.to_le_bytes())?;
        }
        self.into.write_all(&frame)
    }

    fn timestamps(&self, echo: u32) -> [u8; 12] {
        let value = (self.now_us / 1000) as u32;
        let mut options = [1, 1, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0];
        options[4..8].copy_from_slice(&value.to_be_bytes());
        options[8..].copy_from_slice(&echo.to_be_bytes());
        options
    }

    fn open(&mut self, connection: u32) -> io::Result<()> {
        let options = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7];
        let opens = Sketch {
            connection,
            from_server: false,
            flags: SYN,
            seq: 0,
            ack: 0,
            payload: 0,
            options: &options,
        };
        self.write(opens)?;
        self.write(Sketch { from_server: true, flags: SYN | ACK, ack: 1, ..opens })?;
        let options = self.timestamps(0);
        self.write(Sketch { flags: ACK, seq: 1, ack: 1, options: &options, ..opens })
    }

    fn data(&mut self, connection: u32, seq: u32) -> io::Result<()> {
        let options = self.timestamps(0);
        self.write(Sketch {
            connection,
            from_server: true,
            flags: ACK,
            seq,
            ack: 1,
            payload: SEGMENT,
            options: &options,
        })
    }

    fn acknowledge(
        &mut self,
        connection: u32,
        ack: u32,
        block: Option<(u32, u32)>,
    ) -> io::Result<()> {
        let mut options = self.timestamps(0).to_vec();
        if let Some((left, right)) = block {
            options.extend([1, 1, 5, 10]);
            options.extend(left.to_be_bytes());
            options.extend(right.to_be_bytes());
        }
        self.write(Sketch {
            connection,
            from_server: false,
            flags: ACK,
            seq: 1,
            ack,
            payload: 0,
            options: &options,
        })
    }

    /// Eight segments from a number on, and what acknowledges them.
    fn turn(&mut self, connection: u32, begin: u32, is_lossy: bool) -> io::Result<()> {
        let at = |n: u32| begin.wrapping_add(n * SEGMENT);
        for n in 0..IN_TURN {
            self.data(connection, at(n))?;
        }
        let lost = 2;
        let whole = if is_lossy { lost } else { IN_TURN };
        for n in (2..=whole).step_by(2) {
            self.acknowledge(connection, at(n), None)?;
        }
        if is_lossy {
            for n in lost + 2..=IN_TURN {
                self.acknowledge(connection, at(lost), Some((at(lost + 1), at(n))))?;
            }
            self.data(connection, at(lost))?;
            self.resent += 1;
            self.acknowledge(connection, at(IN_TURN), None)?;
        }
        Ok(())
    }
}

fn generate(file: &str, packets: u64, connections: u32) -> io::Result<u64> {
    let mut into = BufWriter::with_capacity(1 << 20, File::create(file)?);
    into.write_all(&0xa1b2_c3d4_u32.to_le_bytes())?;
    into.write_all(&[2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, KEPT as u8, 0, 0, 0, 1, 0, 0, 0])?;
    let mut capture = Capture { into, packets: 0, now_us: 1_700_000_000_000_000, id: 0, resent: 0 };
    for connection in 0..connections {
        capture.open(connection)?;
    }
    let (mut begin, mut turns) = (1_u32, 0);
    while capture.packets < packets {
        for connection in 0..connections {
            turns += 1;
            capture.turn(connection, begin, turns % LOSSY_TURN == 0)?;
            if capture.packets >= packets {
                break;
            }
        }
        begin = begin.wrapping_add(IN_TURN * SEGMENT);
    }
    capture.into.flush()?;
    Ok(capture.resent)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at)?.parse::<u32>().ok();
    let (Some(file), Some(packets), Some(connections)) = (arguments.first(), number(1), number(2))
    else {
        eprintln!("generate FILE PACKETS CONNECTIONS");
        return ExitCode::from(2);
    };
    match generate(file, packets.into(), connections.max(1)) {
        Ok(resent) => {
            println!("{resent}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{file}: {error}");
            ExitCode::FAILURE
        }
    }
}
