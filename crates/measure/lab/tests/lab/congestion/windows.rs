// SPDX-License-Identifier: GPL-2.0-or-later
//! Every algorithm under periodic loss, all at the same time on paths of their own.

use crate::{
    common::{Measured, alone, credible},
    congestion::{Path, paths_of_their_own, trace::Replay, traffic},
};
use congestion::{Algorithm, Params, response};
use kernel::cc::{self, Call, Options};
use std::{
    cell::RefCell,
    io,
    net::Shutdown,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};
use units::Probability;
use wan::Wan;

/// Loss epochs that count, after those left out.
const COUNT: usize = 10;

/// Bytes of payload in a packet of 1500.
const SEGMENT: u64 = 1448;

/// However slow the machine is, it ends.
const LIMIT: Duration = Duration::from_secs(240);

/// An algorithm's path and what it shall reach there.
struct Case {
    params: Params,
    path: Path,
    /// Number of packets per loss.
    every: u32,
    /// Loss epochs that are left out: windows have settled within eight, except with BIC.
    left_out: usize,
    /// The average window of the response function, where it has one that applies.
    window: Option<f64>,
}

/// Epochs of a second or less where the algorithm allows: `every` x RTT / window.
fn cases() -> Vec<Case> {
    let plain = |name: &'static str, rate, rtt_ms, every| {
        case(Algorithm::find(name).unwrap().default_set().clone(), rate, rtt_ms, every)
    };
    // Without fast convergence, as the closed forms are.
    let steady = |name: &'static str, rtt_ms, every| {
        let params = Algorithm::find(name).unwrap().default_set().clone();
        case(params.with("fast_convergence", 0).unwrap(), "500mbit", rtt_ms, every)
    };
    vec![
        plain("reno", "500mbit", 20, 2_000),
        plain("scalable", "500mbit", 100, 2_000),
        plain("highspeed", "500mbit", 20, 10_000),
        htcp(),
        // It starts without a maximum, overshoots, and comes down by a few percent a loss.
        Case { left_out: 40, ..steady("bic", 20, 5_000) },
        steady("cubic", 200, 1_000),
        libra(),
        // They have no response function: FAST answers to delay, BBR to the rate.
        plain("fast", "50mbit", 40, 2_000),
        plain("bbr", "50mbit", 40, 2_000),
    ]
}

fn one_in(every: u32) -> Probability {
    Probability::new(1.0 / f64::from(every)).unwrap()
}

fn case(params: Params, rate: &str, rtt_ms: u32, every: u32) -> Case {
    let name = params.algorithm().name;
    let window =
        response::average_window(name, one_in(every), units::Duration::from_millis(rtt_ms.into()));
    let settings = format!(
        "rate = \"{rate}\"\ndelay = \"{rtt_ms}ms / 2\"\nforward.loss = {{ periodic = {every} }}"
    );
    Case { params, path: Path { name, settings }, every, left_out: 10, window }
}

/// Without adaptive backoff: over an empty queue the share kept would answer to the jitter of the
/// machine, of which the largest RTT counts.
fn htcp() -> Case {
    let params = Algorithm::find("htcp").unwrap().default_set().clone();
    let mut case = case(params.with("adaptive_backoff", 0).unwrap(), "500mbit", 50, 4_000);
    case.window = Some(response::htcp(0.5, one_in(4_000), units::Duration::from_millis(50)));
    case
}

/// Libra's closed form holds over an empty queue and for a known capacity. Its penalty for queueing
/// is switched off: on a path without a queue it would answer to the jitter of the machine.
fn libra() -> Case {
    const CAPACITY_KBYTES_PER_S: u32 = 62_500; // 500 Mb/s, so alpha = 2 x 500 segments/s^2
    let params = Algorithm::find("libra").unwrap().default_set().clone();
    let params = params.with("capacity", CAPACITY_KBYTES_PER_S).unwrap().with("k2", 0).unwrap();
    let mut case = case(params, "500mbit", 50, 2_000);
    let one = units::Duration::from_secs(1);
    let with = response::Libra { alpha: 1000.0, t0: one, t1: one };
    case.window = Some(response::libra(with, one_in(case.every), units::Duration::from_millis(50)));
    case
}

#[test]
fn kernel_algorithms_match_cc_and_response_functions() {
    let _alone = alone();
    let cases = cases();
    let mut listed: Vec<&str> = cases.iter().map(|case| case.path.name).collect();
    listed.sort_unstable();
    let all: Vec<&str> = Algorithm::all().iter().map(|algorithm| algorithm.name).collect();
    assert_eq!(listed, all, "every algorithm has its case");

    credible(|| {
        let wan = paths_of_their_own(cases.iter().map(|case| &case.path));
        let replays: Vec<_> = thread::scope(|scope| {
            let running: Vec<_> =
                cases.iter().map(|case| scope.spawn(|| run(&wan, case))).collect();
            running.into_iter().map(|case| case.join().expect("it says why")).collect()
        });
        let mut faults = wan.down().unwrap().health.faults();
        let mut wrong = Vec::new();
        for (case, replay) in cases.iter().zip(replays) {
            let name = case.path.name;
            match replay {
                Ok(replay) => {
                    wrong.extend(verdict(case, &replay).err().map(|why| format!("{name}: {why}")));
                }
                Err(lost) => {
                    wrong.push(format!("{name}: not all calls were seen"));
                    faults.push(format!("{name}: {lost} calls were not read in time"));
                }
            }
        }
        Measured { wrong, faults }
    });
}

/// Sends over a case's path until enough epochs are over, and checks every call meanwhile: that
/// holds however late the emulator is. Where calls came faster than they were read: how many.
fn run(wan: &Wan, case: &Case) -> Result<Replay, u64> {
    let options = Options {
        trace: true,
        initial_ssthresh: case.window.map(|window| window as u32),
        ..Options::default()
    };
    let loaded = cc::load(&case.params, &options).unwrap_or_else(|error| panic!("{error}"));
    // Checked outside: a panic can't pass the library that calls back.
    let calls = RefCell::new(Vec::new());
    let trace = loaded.trace(|call| calls.borrow_mut().push(call)).unwrap();
    lead_in(wan, case).unwrap();
    let (sender, receiver) = traffic::connect(wan, &case.path, loaded.name()).unwrap();
    let port = sender.local_addr().unwrap().port();
    let stop = AtomicBool::new(false);
    let started = Instant::now();
    let mut replay = Replay::default();
    let checked = thread::scope(|scope| {
        scope.spawn(|| traffic::send_until(&sender, &stop));
        scope.spawn(|| traffic::receive(&receiver));
        let mut checked = Ok(());
        while checked.is_ok()
            && replay.losses.len() <= case.left_out + COUNT
            && started.elapsed() < LIMIT
        {
            checked = trace.poll(Duration::from_millis(50)).map_err(|error| error.to_string());
            // The name is the machine's: others may use it too.
            let mut ours = calls.take().into_iter().filter(|call: &Call| call.local_port == port);
            checked =
                checked.and_then(|()| ours.try_for_each(|call| replay.check(&case.params, &call)));
        }
        stop.store(true, Ordering::Relaxed);
        let _ = sender.shutdown(Shutdown::Both);
        let _ = receiver.shutdown(Shutdown::Both);
        checked
    });
    assert_eq!(traffic::in_force(&sender), loaded.name());
    match trace.lost().unwrap() {
        0 => checked.map(|()| replay).map_err(|why| panic!("{}: {why}", case.path.name)),
        lost => Err(lost),
    }
}

/// Sends over the path until the first loss is near, so that it comes while the window still is
/// where it starts: two round trips after slow start has ended.
fn lead_in(wan: &Wan, case: &Case) -> io::Result<()> {
    let Some(window) = case.window else { return Ok(()) };
    let segments = (f64::from(case.every) - 3.0 * window).max(0.0) as u64;
    traffic::time_of(wan, &case.path, "reno", segments * SEGMENT).map(drop)
}

/// Whether a case came out as it should, and how.
fn verdict(case: &Case, replay: &Replay) -> Result<(), String> {
    let (name, losses) = (case.path.name, &replay.losses);
    if losses.len() <= case.left_out + COUNT || replay.applied * 4 < replay.calls {
        return Err(format!(
            "{} epochs, {} calls, {} applied",
            losses.len(),
            replay.calls,
            replay.applied
        ));
    }
    let counted = &losses[case.left_out..];
    let (from, to) = (counted[0], counted[counted.len() - 1]);
    let seconds = (to.at_us - from.at_us) as f64 / 1e6;
    // Goodput is window / RTT (Little's law), and the RTT is also the machine's, which may stall.
    let window = (to.flight_s - from.flight_s) / seconds;
    println!(
        "{name:<10} {} calls, {} epochs in {seconds:.1} s, window {window:.1}, expected {:.1?}; \
         first loss at {}, last at {} down to {}",
        replay.calls,
        counted.len() - 1,
        case.window,
        losses[0].cwnd,
        to.cwnd,
        to.ssthresh
    );
    match case.window {
        Some(expected) if (window / expected - 1.0).abs() > 0.15 => {
            Err(format!("a window of {window:.1} segments, expected {expected:.1}"))
        }
        _ => Ok(()),
    }
}
