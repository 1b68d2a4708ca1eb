// SPDX-License-Identifier: GPL-2.0-or-later
//! The netmodel in real time: one thread that reads frames from devices, offers their segments to
//! links, and writes what survives to the other end's device when its time has come.
//!
//! - A segment's arrival is the moment its frame was read. Its release is computed by the link and
//!   never early: a frame is written when the last of its segments has arrived.
//! - A frame delivered spans no more than `max_burst` of link time, so that what a receiver sees
//!   in one piece is bounded at any rate.
//! - Gap frames are serialised, as a wire does, and end there.
//! - **The links' time stands still while the thread does** ([`LinkClock`]). A machine that stops for some
//!   milliseconds would otherwise deliver all packets that are due in one burst, which no link does, and a short queue
//!   behind it would overflow. So the rest comes as much later, and in its order of time.
//! - Sleeping is by `epoll_pwait2` with nanoseconds and a timer slack of one. Waking up takes some
//!   tens of microseconds more, so the last part of a wait is spent polling ([`PollPolicy`]).

use crate::{
    directed_link::{DirectedLink, Outlet, Running},
    gso_frame::{Frame, MAX_FRAME},
    health::{Health, Lateness},
    link_clock::{Absence, LinkClock},
    poll_policy::PollPolicy,
};
use netmodel::{Counters, GapStatistics, LinkChange, MeanAndDeviation};
use rustix::{
    event::{EventfdFlags, Timespec, epoll},
    io::Errno,
};
use std::{
    io::{self, ErrorKind, IoSlice},
    os::fd::OwnedFd,
    sync::{Arc, mpsc},
    thread::JoinHandle,
};
use units::{Duration, Timestamp};

/// Frames read from one device before the others and the releases get their turn.
const READ_BATCH: usize = 32;

/// Statistics of one directed link so far.
#[derive(Debug, Clone)]
pub struct LinkState {
    /// The link's counts.
    pub counters: Counters,
    /// The width of the monitor's bins.
    pub monitor_width: Duration,
    /// Bytes on the link in each bin since the emulator's start; empty while it runs.
    pub monitor: Vec<u64>,
    /// Gaps and bursts on the link; none while the emulator runs.
    pub spacing: Option<GapStatistics>,
    /// The gaps' mean and deviation, also while it runs.
    pub gap: Option<MeanAndDeviation>,
    /// Bytes that wait in the queue.
    pub queue_bytes: u64,
    /// Frames that were too long for the device that they came out at.
    pub too_long_at_end: u64,
}

/// Statistics of the emulator so far.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// When this was taken, since the emulator's start.
    pub at: Timestamp,
    /// The directed links, in the order they were given.
    pub directed_links: Vec<LinkState>,
    /// How it kept up.
    pub health: Health,
}

enum Request {
    Begin,
    Change(usize, LinkChange),
    Status(mpsc::SyncSender<Snapshot>),
    Finish(mpsc::SyncSender<Snapshot>),
    Stop,
}

/// A running emulator. Dropping it stops the thread.
pub struct Emulator {
    requests: mpsc::Sender<Request>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    started: std::time::Instant,
}

impl Emulator {
    /// Starts the thread.
    ///
    /// # Errors
    /// The kernel has no room for an epoll set, an eventfd or a thread.
    pub fn start(directed_links: Vec<DirectedLink>) -> io::Result<Self> {
        let (requests, inbox) = mpsc::channel();
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let wake = Arc::new(rustix::event::eventfd(0, flags)?);
        let started = std::time::Instant::now();
        let epoll = watch(&directed_links, &wake)?;
        let thread = std::thread::Builder::new().name("wan-emulator".into()).spawn({
            let wake = Arc::clone(&wake);
            move || Loop::new(directed_links, inbox, wake, epoll, started).until_stopped()
        })?;
        Ok(Self { requests, wake, thread: Some(thread), started })
    }

    /// When time zero of the directed links was.
    pub fn started(&self) -> std::time::Instant {
        self.started
    }

    /// Has what links do over time (rates that change, outages) begin now.
    pub fn begin_schedules(&self) {
        self.request(Request::Begin);
    }

    /// Changes a directed link from now on.
    pub fn change(&self, directed_link: usize, change: LinkChange) {
        self.request(Request::Change(directed_link, change));
    }

    /// Statistics so far, without the monitors' bins: copying those would hold packets up.
    pub fn status(&self) -> Snapshot {
        self.ask(Request::Status)
    }

    /// Stops moving packets, for good; answers what it did, with the monitors' bins.
    pub fn finish(self) -> Snapshot {
        self.ask(Request::Finish)
    }

    fn ask(&self, request: impl FnOnce(mpsc::SyncSender<Snapshot>) -> Request) -> Snapshot {
        let (answer, state) = mpsc::sync_channel(1);
        self.request(request(answer));
        state.recv().expect("the emulator's thread runs until it is finished or dropped")
    }

    fn request(&self, request: Request) {
        if self.requests.send(request).is_ok() {
            // Can only fail when 2^64 wake-ups are pending.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.request(Request::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Loop {
    directed_links: Vec<Running>,
    inbox: mpsc::Receiver<Request>,
    wake: Arc<OwnedFd>,
    epoll: OwnedFd,
    clock: LinkClock,
    lateness: Lateness,
    write_errors: u64,
    malformed: u64,
    devices_lost: u64,
    real_time: bool,
    poll_policy: PollPolicy,
    absence: Absence,
    buffer: Box<[u8]>,
}

/// What is to be known of a moment at which the thread woke.
#[derive(Debug, Clone, Copy)]
struct Wake {
    /// How long frames may have waited.
    waited: Duration,
    /// For how long the links' time had stood still before.
    stood_still: Duration,
}

/// Tells the wake-up descriptor from the directed links' devices.
const WAKE: u64 = u64::MAX;

/// An epoll set of the directed links' devices and the wake-up descriptor.
fn watch(directed_links: &[DirectedLink], wake: &OwnedFd) -> io::Result<OwnedFd> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let readable = epoll::EventFlags::IN;
    epoll::add(&epoll, wake, epoll::EventData::new_u64(WAKE), readable)?;
    for (n, directed_link) in directed_links.iter().enumerate() {
        if let Some(from) = &directed_link.from {
            epoll::add(&epoll, from, epoll::EventData::new_u64(n as u64), readable)?;
        }
    }
    Ok(epoll)
}

impl Loop {
    fn new(
        directed_links: Vec<DirectedLink>,
        inbox: mpsc::Receiver<Request>,
        wake: Arc<OwnedFd>,
        epoll: OwnedFd,
        started: std::time::Instant,
    ) -> Self {
        let directed_links = directed_links.into_iter().map(Running::new).collect();
        Self {
            directed_links,
            inbox,
            wake,
            epoll,
            clock: LinkClock::new(started),
            lateness: Lateness::new(),
            write_errors: 0,
            malformed: 0,
            devices_lost: 0,
            real_time: false,
            poll_policy: PollPolicy::default(),
            absence: Absence::new(started),
            buffer: vec![0; MAX_FRAME].into(),
        }
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn until_stopped(&mut self) {
        self.real_time = host::request_real_time(crate::REAL_TIME_PRIORITY);
        let mut events = Vec::with_capacity(self.directed_links.len() + 1);
        loop {
            let next = self.release_due();
            let timeout = self.sleep_before(next);
            events.clear();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                timeout.as_ref(),
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => panic!("epoll_pwait2 on the emulator's own descriptors: {error}"),
            }
            let now = self.now();
            self.poll_policy.woke(now);
            let wake = Wake {
                waited: self.absence.look(std::time::Instant::now()),
                stood_still: self.clock.stood_still(),
            };
            // What comes after a halt comes when the links' time goes on, not before what was due.
            if next.is_some_and(|release| now.since(release) > LinkClock::TOLERATED) {
                self.release_due();
            }
            for event in &events {
                match event.data.u64() {
                    WAKE => {
                        if self.answer().is_break() {
                            return;
                        }
                    }
                    directed_link => self.read(directed_link as usize, wake),
                }
            }
        }
    }

    /// Writes every frame whose time has come, and asks links that decide at departure what they have
    /// decided, in order of time over all directed links; answers when the next is due.
    ///
    /// A link is asked for no more than is due, so that it is not ahead of the links' time where that turns
    /// out to have stood still.
    fn release_due(&mut self) -> Option<Timestamp> {
        loop {
            let directed_links = self.directed_links.iter().enumerate();
            // At one time a decision comes first: what it sends may go with the frame that is due.
            let next = directed_links
                .flat_map(|(n, directed_link)| {
                    let decision = directed_link.next_decision().map(|at| (at, false, n));
                    [decision, directed_link.next_release().map(|at| (at, true, n))]
                })
                .flatten();
            let (release, is_release, n) = next.min()?;
            let now = self.now();
            if release > now {
                return Some(release);
            }
            let directed_link = &mut self.directed_links[n];
            if !is_release {
                let decides_at = directed_link.link.decides_at().unwrap_or(release);
                directed_link.decide(decides_at);
                continue;
            }
            self.deliver(n, now);
        }
    }

    /// Takes the frame that is due from a directed link to where it comes out.
    fn deliver(&mut self, n: usize, now: Timestamp) {
        let directed_link = &mut self.directed_links[n];
        let due = directed_link.take_due().expect("the directed_link has a frame due");
        let port = match &directed_link.to {
            Outlet::Port(port) => port,
            // It arrived when it was due, so lateness adds up nowhere on the way.
            &Outlet::Link(next) => {
                match due.frame.to_frame() {
                    Ok(frame) => {
                        let next = &mut self.directed_links[next];
                        next.catch_up(due.release);
                        next.accept(due.release, &frame, due.read);
                    }
                    Err(_) => self.malformed += 1,
                }
                return;
            }
        };
        let [headers, payload] = due.frame.parts();
        if !port.takes(&due.frame) {
            directed_link.too_long += 1;
        } else if let Err(error) = port.write(&[IoSlice::new(headers), IoSlice::new(payload)]) {
            if error.raw_os_error() == Some(Errno::MSGSIZE.raw_os_error()) {
                directed_link.too_long += 1;
            } else {
                self.write_errors += 1;
            }
        }
        let late = now.since(due.release);
        let lateness = self.clock.lateness(due.read, late);
        self.lateness.add(lateness);
        directed_link.punctuality.add(due.packets, lateness);
        self.clock.was_late(late);
    }

    /// How long epoll may sleep: until just before the next release, and no longer than the devices may go unseen.
    fn sleep_before(&mut self, next: Option<Timestamp>) -> Option<Timespec> {
        let now = self.now();
        let sleep = self.absence.sleep(self.poll_policy.sleep_until(next, now));
        let sleep: std::time::Duration = sleep?.into();
        Some(Timespec::try_from(sleep).expect("a release is years away at most"))
    }

    /// Reads what a directed link's device has and puts it onto the link.
    fn read(&mut self, n: usize, wake: Wake) {
        let stood_still = self.clock.stood_still().saturating_sub(wake.stood_still);
        for _ in 0..READ_BATCH {
            let now = self.now();
            let directed_link = &mut self.directed_links[n];
            let Some(from) = &directed_link.from else { return };
            let frame = match from.read(&mut self.buffer) {
                Ok(frame) => frame,
                // So it says too while it is set down.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return directed_link.backlog.is_gone();
                }
                // The kernel could not describe a frame, and has dropped it.
                Err(error)
                    if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::InvalidData) =>
                {
                    self.malformed += 1;
                    continue;
                }
                Err(_) => return self.lose(n),
            };
            self.absence.found();
            directed_link.catch_up(now);
            let free_at = directed_link.link.free_at();
            directed_link.backlog.frame_read(now, free_at);
            // It would have had to wait for the packets before it.
            let waited = wake.waited.min((now + stood_still).since(free_at));
            match Frame::parse(&self.buffer[frame]) {
                Ok(frame) => directed_link.accept(now, &frame, self.clock.reading(waited)),
                Err(_) => self.malformed += 1,
            }
        }
        let now = self.now();
        let directed_link = &mut self.directed_links[n];
        if directed_link.has_unread() {
            directed_link.backlog.remains(now);
        } else {
            directed_link.backlog.is_gone();
        }
    }

    /// Watches a device no longer: someone deleted it, and it would be ready for ever to say so.
    fn lose(&mut self, n: usize) {
        let directed_link = &mut self.directed_links[n];
        directed_link.backlog.is_gone();
        let Some(from) = &directed_link.from else { return };
        self.devices_lost += u64::from(epoll::delete(&self.epoll, from).is_ok());
    }

    fn answer(&mut self) -> std::ops::ControlFlow<()> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.wake, &mut count);
        while let Ok(request) = self.inbox.try_recv() {
            match request {
                Request::Begin => {
                    let now = self.now();
                    self.directed_links.iter_mut().for_each(|link| link.begin_schedule(now));
                }
                Request::Change(n, change) => {
                    let now = self.now();
                    self.directed_links[n].change(now, change);
                }
                // The client may have gone; that is not an error.
                Request::Status(answer) => drop(answer.try_send(self.snapshot(false))),
                Request::Finish(answer) => {
                    let _ = answer.try_send(self.snapshot(true));
                    return std::ops::ControlFlow::Break(());
                }
                Request::Stop => return std::ops::ControlFlow::Break(()),
            }
        }
        std::ops::ControlFlow::Continue(())
    }

    fn snapshot(&mut self, with_bins: bool) -> Snapshot {
        let at = self.now();
        let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let starved =
            self.directed_links.iter().map(|directed_link| directed_link.backlog.starved()).max();
        let stood_still_s = self.clock.stood_still().as_secs_f64();
        let health = Health {
            write_errors: self.write_errors,
            malformed: self.malformed,
            devices_lost: self.devices_lost,
            starved_s: starved.map_or(0.0, Duration::as_secs_f64),
            stood_still_s,
            elapsed_s: at.as_secs_f64() + stood_still_s,
            cpu_s: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
            real_time: self.real_time,
            ..Health::new(&self.lateness, self.directed_links.iter().map(|link| link.punctuality))
        };
        let directed_links = self.directed_links.iter_mut().map(|directed_link| {
            directed_link.catch_up(at);
            LinkState {
                queue_bytes: directed_link.link.queue(at).bytes,
                counters: *directed_link.link.counters(),
                monitor_width: directed_link.link.monitor().width(),
                monitor: if with_bins {
                    directed_link.link.monitor().bins().to_vec()
                } else {
                    Vec::new()
                },
                gap: directed_link.link.spacing().and_then(GapStatistics::gap),
                spacing: directed_link.link.spacing().filter(|_| with_bins).cloned(),
                too_long_at_end: directed_link.too_long,
            }
        });
        Snapshot { at, directed_links: directed_links.collect(), health }
    }
}
