// SPDX-License-Identifier: GPL-2.0-or-later
//! Times of departure that the program gives to packets, against a model in floating point. The kernel runs
//! the program for packets of no device's, so neither device nor fq is needed.

use super::{
    Counts, Match, Method, Rule, Setup, Target,
    attach::{self, SETUP, WORK},
    layout, readings,
    rules::HORIZON,
};
use host::{Device, Mac};
use libbpf_rs::{Object, ProgramInput};
use rustix::time::{ClockId, clock_gettime};
use std::{
    env,
    hash::{BuildHasher, Hasher, RandomState},
    num::NonZeroU16,
    thread,
};
use units::{Bytes, Rate};

const OVERHEAD: u64 = 24;
/// Return values of the program for a packet that is passed on, and for one that is dropped (linux/bpf.h).
const NEXT: i32 = -1;
const DROP: i32 = 2;

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// Numbers that who reads of a failure can draw again.
struct Numbers(u64);

impl Numbers {
    fn new() -> Self {
        let seed = env::var("SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| RandomState::new().build_hasher().finish());
        println!("SEED={seed}");
        Self(seed)
    }

    fn between(&mut self, least: u64, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        least + (self.0 >> 33) % (most - least + 1)
    }
}

/// A datagram as it is about to leave.
#[derive(Clone, Copy)]
struct Sent {
    to_port: u16,
    /// Without check sequence, of all segments.
    length: u64,
    segments: u64,
    /// The time that it has already; 0: none.
    tstamp: u64,
}

impl Sent {
    fn of(length: u64) -> Self {
        Self { to_port: 9000, length, segments: 1, tstamp: 0 }
    }

    fn on_link(&self) -> u64 {
        self.length.max(60) + self.segments * OVERHEAD
    }

    fn frame(&self) -> Vec<u8> {
        let mut frame = vec![0; self.length.min(1514) as usize];
        frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
        frame[23] = 17;
        frame[26..34].copy_from_slice(&[10, 9, 0, 1, 10, 9, 0, 2]);
        frame[36..38].copy_from_slice(&self.to_port.to_be_bytes());
        frame
    }
}

/// The program, at no device.
struct Program(Object);

/// Of `struct __sk_buff` in linux/bpf.h.
const CONTEXT: usize = 192;
const TSTAMP: usize = 152;
const WIRE_LEN: usize = 160;
const GSO_SEGS: usize = 164;

impl Program {
    fn new(line: Option<Rate>, rates: &[Rate]) -> Self {
        let setup = setup(line, rates);
        Self(attach::load(&device(), &setup).unwrap_or_else(|error| panic!("{error}")))
    }

    fn change(&self, line: Option<Rate>, rates: &[Rate]) {
        let map = attach::map(&self.0, SETUP);
        attach::write(&map, &layout::setup(&setup(line, rates))).expect("the kernel takes it");
    }

    /// Runs the program on a packet. Returns its verdict and the packet's departure time.
    fn run(&self, sent: &Sent) -> (i32, u64) {
        let mut context = [0; CONTEXT];
        context[TSTAMP..TSTAMP + 8].copy_from_slice(&sent.tstamp.to_ne_bytes());
        if sent.segments > 1 {
            let (length, segments) = (sent.length as u32, sent.segments as u32);
            context[WIRE_LEN..WIRE_LEN + 4].copy_from_slice(&length.to_ne_bytes());
            context[GSO_SEGS..GSO_SEGS + 4].copy_from_slice(&segments.to_ne_bytes());
        }
        let mut after = [0; CONTEXT];
        let frame = sent.frame();
        let input = ProgramInput {
            context_in: Some(&mut context),
            context_out: Some(&mut after),
            data_in: Some(&frame),
            ..ProgramInput::default()
        };
        let program = self.0.progs_mut().next().expect("the object has one program");
        let result = program.test_run(input).expect("the kernel runs it").return_value;
        let tstamp = after[TSTAMP..].first_chunk().expect("eight bytes");
        (result.cast_signed(), u64::from_ne_bytes(*tstamp))
    }

    fn counts(&self) -> Counts {
        readings::counts(&attach::map(&self.0, WORK)).expect("the kernel tells")
    }
}

fn device() -> Device {
    let mac = Some(Mac([2, 0, 0, 0, 0, 1]));
    Device { mac, mtu: 1500, gso_max_segs: 65_535, ..Device::default() }
}

/// A rule for each rate, for consecutive ports starting at 9000.
fn setup(line: Option<Rate>, rates: &[Rate]) -> Setup {
    let rules = rates.iter().zip(0u16..).map(|(rate, n)| {
        let matches = Match { to_port: NonZeroU16::new(9000 + n), ..Match::default() };
        (u32::from(n) + 1, Rule { matches, target: Target::Rate(*rate) })
    });
    Setup {
        overhead: Bytes::new(OVERHEAD),
        rules: rules.collect(),
        ..Setup::of(&device(), Method::EDT, line)
    }
}

fn bytes_per_second(bytes: u64) -> Rate {
    Rate::bits_per_second(bytes * 8)
}

/// The same by fluid in floating point.
struct Model {
    /// When it began, by the clock. All other times are relative to it: absolute clock values have so many digits
    /// that the fractions of thousands of packets would get lost.
    start: u64,
    /// Of the whole queue, in nanoseconds.
    next: f64,
    /// Each packet is compared with the one before it alone.
    follows: bool,
    counts: Counts,
}

impl Model {
    fn new() -> Self {
        Self { start: now_ns(), next: 0.0, follows: false, counts: Counts::default() }
    }

    fn since_start(&self, ns: u64) -> f64 {
        // The kernel reads a clock of its own, which may be some nanoseconds behind.
        (i128::from(ns) - i128::from(self.start)) as f64
    }

    /// Sends a packet at that rate, in bytes/s, and compares. The clock that the program read is between two
    /// readings here.
    fn compare(&mut self, program: &Program, sent: &Sent, rate: f64) {
        let before = self.since_start(now_ns());
        let (result, tstamp) = program.run(sent);
        let (at, after) = (self.since_start(tstamp), self.since_start(now_ns()));
        let horizon = HORIZON.as_nanos() as f64;
        if result == DROP {
            assert!(self.next - before > horizon - 1.0, "dropped, {} ahead", self.next - before);
            self.counts.beyond_horizon += 1;
            return;
        }
        assert_eq!(result, NEXT);
        assert!(self.next - after <= horizon + 1.0, "sent, {} ahead", self.next - after);
        // Less than a nanosecond is rounded down, and not lost.
        let (least, most) = (self.next.max(before) - 1.5, self.next.max(after) + 1.5);
        assert!((least..=most).contains(&at), "{at}, not {least} to {most} at {rate} B/s");
        let begins = if self.next > after && !self.follows { self.next } else { at };
        self.next = begins + sent.on_link() as f64 * 1e9 / rate;
        self.counts.packets += 1;
        self.counts.bytes += sent.on_link();
        self.counts.super_packets += u64::from(sent.segments > 1);
    }
}

#[test]
fn packets_leave_at_the_rates_distance() {
    let mut numbers = Numbers::new();
    let (mut ahead, mut dropped) = (0, 0);
    for _ in 0..12 {
        // From 80 kb/s to 80 Gb/s, as likely in each decade.
        let rate = 10u64.pow(numbers.between(4, 9) as u32) * numbers.between(1, 10)
            + numbers.between(0, 999);
        let program = Program::new(None, &[bytes_per_second(rate)]);
        let mut model = Model::new();
        for _ in 0..2000 {
            let mut sent = Sent::of(numbers.between(42, 1514));
            if numbers.between(0, 9) == 0 {
                sent.segments = numbers.between(2, 40);
                sent.length = 1514 * sent.segments;
            }
            if numbers.between(0, 499) == 0 {
                thread::sleep(std::time::Duration::from_micros(numbers.between(1, 3000)));
            }
            ahead += u64::from(model.next > model.since_start(now_ns()));
            model.compare(&program, &sent, rate as f64);
        }
        assert_eq!(program.counts(), model.counts, "at {rate} B/s");
        dropped += model.counts.beyond_horizon;
    }
    println!("{ahead} packets met a queue, {dropped} were dropped");
}

#[test]
fn a_new_rate_holds_from_the_next_packet_on() {
    let mut numbers = Numbers::new();
    let program = Program::new(None, &[bytes_per_second(1_000_000_000)]);
    // A change of rate may round up or down by a nanosecond.
    let mut model = Model { follows: true, ..Model::new() };
    // Always ahead, so that every difference is the rates'.
    for _ in 0..200 {
        let rate = 10u64.pow(numbers.between(5, 10) as u32) + numbers.between(0, 99);
        program.change(None, &[bytes_per_second(rate)]);
        for _ in 0..3 {
            model.compare(&program, &Sent::of(numbers.between(42, 1514)), rate as f64);
        }
    }
}

/// Rates at which each stays in the sum for a second.
#[test]
fn paced_flows_leave_at_the_sum_of_rates_up_to_line_rate() {
    for (line, sum, at_line_rate) in
        [(None, 5000.0 + 3000.0, 0), (Some(6000), 6000.0, 7), (Some(8001), 8000.0, 0)]
    {
        let line = line.map(bytes_per_second);
        let program = Program::new(line, &[bytes_per_second(5000), bytes_per_second(3000)]);
        let mut model = Model::new();
        for n in 0..8 {
            let mut sent = Sent::of(1476);
            sent.to_port += n % 2;
            // The first is alone yet.
            model.compare(&program, &sent, if n == 0 { 5000.0 } else { sum });
        }
        let counts = program.counts();
        assert_eq!(counts, Counts { at_line_rate, ..model.counts });
    }
}

#[test]
fn packets_own_later_time_is_kept_and_delays_no_other() {
    let program = Program::new(None, &[bytes_per_second(12_500)]);
    let first = program.run(&Sent::of(1226)).1;
    let later = first + 5_000_000_000;
    assert_eq!(program.run(&Sent { tstamp: later, ..Sent::of(1226) }), (NEXT, later));
    // Each takes a tenth of a second, that one too.
    assert_eq!(program.run(&Sent { tstamp: first, ..Sent::of(1226) }), (NEXT, first + 200_000_000));
    assert_eq!(program.run(&Sent::of(1226)), (NEXT, first + 300_000_000));
}

#[test]
fn packet_without_rule_keeps_its_departure_time() {
    let program = Program::new(None, &[bytes_per_second(12_500)]);
    for tstamp in [0, 17] {
        let other = Sent { to_port: 8999, tstamp, ..Sent::of(1000) };
        assert_eq!(program.run(&other), (NEXT, tstamp));
    }
    assert_eq!(program.counts(), Counts::default());
}
