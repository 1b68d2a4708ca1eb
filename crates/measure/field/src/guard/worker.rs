// SPDX-License-Identifier: GPL-2.0-or-later
//! Answers the engine, and changes the host.

use super::{
    State, facts,
    lock::{Lock, Taken},
    parts::Parts,
    path,
    settings::Settings,
};
use crate::clock;
use crate::message::{Answer, Ask, Hello, Reservation, VERSION, line, read_line};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use std::{
    io::{self, BufReader, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// How long it waits for orders before it is reserved, and the longest lease.
const IDLE: Duration = Duration::from_secs(120);

struct Worker<'s> {
    state: &'s State,
    directory: &'s Path,
    parts: Parts,
    settings: Settings,
    lock: Option<Lock>,
    lease: Duration,
}

/// Works until standard input ends, or nothing comes for the lease.
pub fn run(state: &State, directory: &Path, keeper: i32) -> io::Result<()> {
    let mut settings = Settings::open(state)?;
    // Only whoever has the host may put back: another guard may be at work.
    let own = Reservation { owner: String::new(), title: String::new(), until_s: 0 };
    let put_back = match Lock::take(state, &own)? {
        Taken::Own(_lock) => settings.put_back().count,
        Taken::Others(_) => 0,
    };
    let parts = Parts::new(directory, keeper);
    let mut worker = Worker { state, directory, parts, settings, lock: None, lease: IDLE };
    let worked = worker.until_the_end(put_back);
    // Its keeper does the same, unless that was killed.
    worker.put_back().and(worked)
}

/// What came first.
enum Awaited {
    Input,
    Stop,
    Nothing,
}

/// Waits so long at most.
fn awaited(stop: &UnixStream, time: Duration) -> io::Result<Awaited> {
    let input = io::stdin();
    let begun = Instant::now();
    loop {
        let left = time.saturating_sub(begun.elapsed());
        let timeout = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 120, tv_nsec: 0 });
        let mut sources = [PollFd::new(stop, PollFlags::IN), PollFd::new(&input, PollFlags::IN)];
        match poll(&mut sources, Some(&timeout)) {
            Ok(0) => return Ok(Awaited::Nothing),
            Ok(_) if !sources[0].revents().is_empty() => return Ok(Awaited::Stop),
            Ok(_) => return Ok(Awaited::Input),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

impl Worker<'_> {
    fn until_the_end(&mut self, put_back: usize) -> io::Result<()> {
        // If its keeper is killed, it is told by a signal.
        let stop = host::background_stop_socket()?;
        let mut out = io::stdout().lock();
        out.write_all(&line(&Hello { longhaul_guard: VERSION, put_back }))?;
        out.flush()?;
        let mut input = BufReader::new(io::stdin().lock());
        loop {
            if input.buffer().is_empty() {
                match awaited(&stop, self.lease)? {
                    Awaited::Input => {}
                    Awaited::Stop => return Ok(()),
                    Awaited::Nothing => {
                        let text = "the engine has gone silent";
                        return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                    }
                }
            }
            let Some(ask) = read_line::<Ask>(&mut input)? else { return Ok(()) };
            out.write_all(&line(&self.answer(ask)))?;
            out.flush()?;
        }
    }

    fn answer(&mut self, ask: Ask) -> Answer {
        match ask {
            Ask::Ping => Answer::Done,
            Ask::Facts => Answer::Facts(Box::new(facts::of_this_host(self.directory))),
            Ask::Clock => clock(),
            Ask::Reserve { reservation, lease_ms } => self.reserve(&reservation, lease_ms),
            Ask::Serve { from, token } => match path::serve(from, token) {
                Ok(port) => Answer::Serves { port },
                Err(error) => failed(&format!("it cannot listen: {error}")),
            },
            Ask::Measure { to, token, rate_bps, time_ms } => {
                match path::measure(to, token, rate_bps, Duration::from_millis(time_ms)) {
                    Ok(measured) => Answer::Path(measured),
                    Err(error) => failed(&format!("the path to {to}: {error}")),
                }
            }
            Ask::PutBack => self.put_all_back(),
            Ask::Release => self.release(),
            _ if self.lock.is_none() => failed("it is not reserved"),
            Ask::Set { settings } => self.set(&settings),
            Ask::Load { run } => done(self.parts.load(&run)),
            Ask::Prepare(order) => done(self.parts.prepare(*order)),
            Ask::Stand { ended, is_over } => answer(self.parts.stand(&ended, is_over)),
            Ask::Begin { at_ns, hashes } => done(self.parts.begin(at_ns, &hashes)),
            Ask::Collect { token } => answer(self.parts.collect(&token)),
            Ask::Fetch { token, offset } => answer(self.parts.fetch(&token, offset)),
            Ask::Discard { token } => done(self.parts.discard(&token)),
        }
    }

    fn reserve(&mut self, reservation: &Reservation, lease_ms: u64) -> Answer {
        if self.lock.is_some() {
            return failed("it is reserved already");
        }
        match Lock::take(self.state, reservation) {
            Ok(Taken::Own(lock)) => {
                self.lock = Some(lock);
                self.parts.clean();
                self.lease = Duration::from_millis(lease_ms).clamp(Duration::from_secs(1), IDLE);
                Answer::Done
            }
            Ok(Taken::Others(by)) => Answer::Busy { by },
            Err(error) => failed(&format!("it cannot be reserved: {error}")),
        }
    }

    fn set(&mut self, settings: &[(String, String)]) -> Answer {
        let make = |(key, value): &(String, String)| self.settings.make(key, value);
        match settings.iter().map(make).collect() {
            Ok(settings) => Answer::Settings { settings },
            Err(why) => Answer::Failed { why },
        }
    }

    /// A part that is at work ends first, and congestion controls leave the kernel last.
    fn put_back(&mut self) -> io::Result<()> {
        self.parts.end();
        match self.settings.put_back().failures.first() {
            Some(why) => Err(io::Error::other(why.clone())),
            None => Ok(()),
        }
    }

    fn release(&mut self) -> Answer {
        let answer = self.put_all_back();
        self.lock = None;
        answer
    }

    fn put_all_back(&mut self) -> Answer {
        self.parts.end();
        let result = self.settings.put_back();
        self.parts.unload();
        if result.failures.is_empty() { Answer::Done } else { failed(&result.failures.join("; ")) }
    }
}

fn failed(why: &str) -> Answer {
    Answer::Failed { why: why.to_owned() }
}

fn answer(result: Result<Answer, String>) -> Answer {
    result.unwrap_or_else(|why| Answer::Failed { why })
}

fn done(result: Result<(), String>) -> Answer {
    answer(result.map(|()| Answer::Done))
}

fn clock() -> Answer {
    let realtime = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Answer::Clock {
        realtime_ns: i64::try_from(realtime.as_nanos()).unwrap_or(i64::MAX),
        monotonic_ns: clock::monotonic_ns(),
    }
}
