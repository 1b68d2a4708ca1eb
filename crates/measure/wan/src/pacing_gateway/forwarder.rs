// SPDX-License-Identifier: GPL-2.0-or-later
//! The gateway's loop: reads packets, asks the pacer what is next, and hands frames to the device.

use super::{
    Error, Options,
    classes::{Classifier, OTHER},
    frame::{ETHERNET_LEN, Framing, GapFrame, Header},
    pacer::{Pacer, Step},
    summary::{ClassSummary, Summary},
};
use crate::poll_policy::PollPolicy;
use host::Mac;
use netmodel::pacing::Packet;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{SendFlags, send},
};
use std::{
    fs::File,
    io::{self, Read},
    os::fd::BorrowedFd,
    time::Instant,
};
use units::{Duration, Timestamp};

/// Packets read before due packets are sent.
const READ_BATCH: usize = 64;
/// Frames handed over before packets are read again.
const SEND_BATCH: usize = 64;
/// Between two tries where the device's queue is full.
const FULL: Duration = Duration::from_micros(100);
/// The largest IP packet.
const MAX_PACKET: usize = 65_535;

/// The addresses of the Ethernet headers.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    pub from: Mac,
    pub next_hop: Mac,
}

pub struct Forwarder<'a> {
    tun: &'a File,
    socket: BorrowedFd<'a>,
    addresses: Addresses,
    classifier: Classifier,
    pacer: Pacer<Box<[u8]>>,
    framing: Framing,
    gap_frame: GapFrame,
    started: Instant,
    /// A frame that the device had no room for. It is sent first.
    held: Option<Step<Box<[u8]>>>,
    counts: Counts,
    buffer: Box<[u8]>,
}

#[derive(Debug, Default)]
struct Counts {
    classes: Vec<ClassSummary>,
    read: Vec<u64>,
    gap_frames: u64,
    gap_link_bytes: u64,
    not_carried: u64,
    device_full: u64,
}

/// The result of sending a frame.
enum Sent {
    Yes,
    Full,
    Refused,
}

/// When there is something to do again.
enum Rest {
    Until(Timestamp),
    UntilPacket,
}

impl<'a> Forwarder<'a> {
    pub fn new(
        tun: &'a File,
        socket: BorrowedFd<'a>,
        addresses: Addresses,
        classifier: Classifier,
        pacer: Pacer<Box<[u8]>>,
        framing: Framing,
        gap_frame: GapFrame,
    ) -> Self {
        Self {
            tun,
            socket,
            addresses,
            classifier,
            pacer,
            framing,
            gap_frame,
            started: Instant::now(),
            held: None,
            counts: Counts::default(),
            buffer: vec![0; ETHERNET_LEN + MAX_PACKET].into(),
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.started.elapsed().into()
    }

    pub fn until_stopped(
        &mut self,
        stop: BorrowedFd<'_>,
        device: &str,
        tun: &str,
    ) -> Result<(), Error> {
        let lost = |name: &str, error: Errno| Error::Failed(format!("{name}: {error}"));
        host::request_real_time(crate::REAL_TIME_PRIORITY);
        let mut poll_policy = PollPolicy::default();
        loop {
            self.read().map_err(|error| lost(tun, error))?;
            let rest = self.send_due().map_err(|error| lost(device, error))?;
            let next = match rest {
                Rest::Until(next) => Some(next),
                Rest::UntilPacket => None,
            };
            let now = self.now();
            // With gap frames the device has enough to do for the time that waking up takes.
            let sleep = match next {
                Some(next) if self.pacer.has_gap_frames() => Some(next.since(now)),
                next => poll_policy.sleep_until(next, now),
            };
            let sleep = sleep.map(std::time::Duration::from);
            let timeout = sleep.and_then(|sleep| Timespec::try_from(sleep).ok());
            let readable = PollFlags::IN;
            let mut fds =
                [PollFd::from_borrowed_fd(stop, readable), PollFd::new(self.tun, readable)];
            match poll(&mut fds, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(lost("poll", error)),
            }
            poll_policy.woke(self.now());
            if !fds[0].revents().is_empty() {
                return Ok(());
            }
        }
    }

    /// Takes in what the host sent.
    fn read(&mut self) -> Result<(), Errno> {
        for _ in 0..READ_BATCH {
            let length = match self.tun.read(&mut self.buffer[ETHERNET_LEN..]) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
            };
            self.take_in(length);
        }
        Ok(())
    }

    fn take_in(&mut self, length: usize) {
        let frame = &mut self.buffer[..ETHERNET_LEN + length];
        let Some(header) = Header::parse(&frame[ETHERNET_LEN..]) else {
            self.counts.not_carried += 1;
            return;
        };
        header.write_ethernet(frame, self.addresses.next_hop, self.addresses.from);
        let item: Box<[u8]> = (&*frame).into();
        let class = self.classifier.class_of(header.destination);
        let length = self.framing.link_bytes(item.len());
        let packet = Packet { flow: header.flow, length, item };
        let now = self.now();
        let dropped = self.pacer.offer(now, class, packet).len() as u64;
        *self.counts.read_of(class) += 1;
        self.counts.class(class).dropped_packets += dropped;
    }

    /// Hands over due packets, at most [`SEND_BATCH`].
    fn send_due(&mut self) -> Result<Rest, Errno> {
        for _ in 0..SEND_BATCH {
            let now = self.now();
            let step = self.held.take().unwrap_or_else(|| self.pacer.step(now));
            let sent = match &step {
                Step::Sleep(until) => return Ok(Rest::Until(*until)),
                Step::Idle => return Ok(Rest::UntilPacket),
                Step::Packet(_, frame) => hand_over(self.socket, frame)?,
                Step::Gap(link) => hand_over(self.socket, self.gap_frame.of(*link))?,
            };
            match sent {
                Sent::Full => {
                    self.held = Some(step);
                    self.counts.device_full += 1;
                    return Ok(Rest::Until(now + FULL));
                }
                Sent::Yes => self.counts.note(self.framing, &step),
                Sent::Refused => self.counts.note_refused(&step),
            }
        }
        Ok(Rest::Until(self.now()))
    }

    pub fn summary(&mut self, options: &Options, line: units::Rate) -> Summary {
        let stalls = self.pacer.stalls();
        for (class, named) in options.classes.iter().enumerate() {
            let counts = self.counts.class(class);
            counts.name.clone_from(&named.name);
            counts.rate_bps = Some(named.rate.bps());
        }
        OTHER.clone_into(&mut self.counts.class(options.classes.len()).name);
        for class in 0..=options.classes.len() {
            let read = *self.counts.read_of(class);
            let counts = self.counts.class(class);
            counts.left_packets = read - counts.packets - counts.dropped_packets;
        }
        Summary {
            device: options.device.clone(),
            line_bps: line.bps(),
            seconds: self.now().as_secs_f64(),
            classes: self.counts.classes.clone(),
            gap_frames: self.counts.gap_frames,
            gap_link_bytes: self.counts.gap_link_bytes,
            not_carried: self.counts.not_carried,
            tun_dropped: host::transmit_drops(&options.tun),
            stalls: stalls.count,
            stalled_s: stalls.time.as_secs_f64(),
            device_full: self.counts.device_full,
        }
    }
}

impl Counts {
    fn class(&mut self, class: usize) -> &mut ClassSummary {
        if self.classes.len() <= class {
            self.classes.resize_with(class + 1, ClassSummary::default);
        }
        &mut self.classes[class]
    }

    fn read_of(&mut self, class: usize) -> &mut u64 {
        if self.read.len() <= class {
            self.read.resize(class + 1, 0);
        }
        &mut self.read[class]
    }

    fn note(&mut self, framing: Framing, step: &Step<Box<[u8]>>) {
        match step {
            Step::Packet(class, frame) => {
                let counts = self.class(*class);
                counts.packets += 1;
                counts.link_bytes += framing.link_bytes(frame.len()).get();
            }
            Step::Gap(link) => {
                self.gap_frames += 1;
                self.gap_link_bytes += link.get();
            }
            Step::Sleep(_) | Step::Idle => {}
        }
    }

    fn note_refused(&mut self, step: &Step<Box<[u8]>>) {
        if let Step::Packet(class, _) = step {
            self.class(*class).dropped_packets += 1;
        }
    }
}

/// Hands a frame to the device.
fn hand_over(socket: BorrowedFd<'_>, frame: &[u8]) -> Result<Sent, Errno> {
    match send(socket, frame, SendFlags::empty()) {
        Ok(_) => Ok(Sent::Yes),
        Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => Ok(Sent::Full),
        // The device takes shorter packets than when the gateway began.
        Err(Errno::MSGSIZE) => Ok(Sent::Refused),
        Err(error) => Err(error),
    }
}
