// SPDX-License-Identifier: GPL-2.0-or-later
//! What the kernel computed is what the same file computes in a program, bit for bit.

#![expect(unsafe_code, reason = "a signal to one thread")]

use crate::common::{Pair, in_own_network, ip, loaded};
use congestion::{Algorithm, Attach, Event, Params, Set};
use longhaul_kernel::{
    Error,
    cc::{self, Call, Hook, Options},
};
use std::{
    cell::RefCell,
    thread,
    time::{Duration, Instant},
};
use testkit::alone;

const INITIAL_SSTHRESH: u32 = 40;

/// The calls of an algorithm in a transfer that meets everything.
fn record(params: &Params) -> Vec<Call> {
    let options =
        Options { trace: true, initial_ssthresh: Some(INITIAL_SSTHRESH), ..Options::default() };
    let held = cc::load(params, &options).expect("it loads");
    let calls = RefCell::new(Vec::new());
    let trace = held.trace(|call| calls.borrow_mut().push(call)).expect("loaded with a trace");
    let read = || trace.poll(Duration::from_millis(10)).expect("the trace");
    thread::scope(|scope| {
        let transfer = scope.spawn(|| in_own_network(|| disturbed_transfer(held.name())));
        while !transfer.is_finished() {
            read();
        }
    });
    read();
    assert_eq!(trace.lost().expect("the kernel tells"), 0, "the trace was not read fast enough");
    drop(trace);
    calls.into_inner()
}

/// Losses, idle times and a retransmission timeout, with packets as small as on a real path.
fn disturbed_transfer(congestion_control: &str) {
    ip(&["link", "set", "lo", "mtu", "1500", "gso_max_segs", "1"]);
    let pair = Pair::connect(congestion_control);
    for share in [0, 1_000, 0] {
        pair.drop_share(share);
        for _ in 0..5 {
            pair.transfer(500_000);
            thread::sleep(Duration::from_millis(2));
        }
    }
    // Long enough for a retransmission timeout, whose floor is 200 ms; the second is spurious.
    let period = Duration::from_millis(400);
    pair.losing_all(period, || pair.transfer(500_000));
    pair.losing_acknowledgements(period, || pair.transfer(500_000));
}

/// Between calls nothing changes the state, and the rate that was decided holds.
fn assert_chained(attach: Attach, calls: &[Call]) {
    assert_eq!(calls[0].hook, Hook::Init);
    assert_eq!(calls[0].before.ssthresh, INITIAL_SSTHRESH);
    for pair in calls.windows(2) {
        let [first, second] = pair else { unreachable!("windows of two") };
        assert_eq!(first.state_after, second.state_before, "{pair:#?}");
        assert_eq!(first.local_port, second.local_port, "there is one connection");
        assert!(first.ack.now_us <= second.ack.now_us, "the clock went back: {pair:#?}");
        if attach == Attach::Rate {
            assert_eq!(first.after.pacing_rate, second.before.pacing_rate, "{pair:#?}");
        }
    }
}

const EVENTS: [Event; 4] = [Event::Timeout, Event::Recovered, Event::Undo, Event::Restart];

fn count(calls: &[Call], hook: Hook) -> usize {
    calls.iter().filter(|call| call.hook == hook).count()
}

/// The calls follow from each other, and a program comes to the same.
fn assert_replayed(algorithm: &Algorithm, set: &Set, calls: &[Call]) {
    assert_chained(algorithm.attach, calls);
    for call in calls {
        let again = call.replay(&set.params);
        assert_eq!(again, (call.after, call.state_after), "{call:#?}");
    }
    let of = |hook| count(calls, hook);
    println!(
        "{} {}: {} calls, {} of ack, {} of rtt, {} of loss, {} timeouts, {} restarts, {} undone",
        algorithm.name,
        set.name,
        calls.len(),
        of(Hook::Ack),
        of(Hook::Rtt),
        of(Hook::Loss),
        of(Hook::Event(Event::Timeout)),
        of(Hook::Event(Event::Restart)),
        of(Hook::Event(Event::Undo)),
    );
    assert!(of(Hook::Ack) > 50 && of(Hook::Loss) > 3, "too quiet to show anything");
}

#[test]
fn kernel_and_user_space_decisions_are_identical() {
    let _alone = alone();
    let mut hears_events = false;
    for algorithm in Algorithm::all() {
        for set in &algorithm.sets {
            // Some algorithms ask for no events; who does, gets each kind. Whether a timeout turns out to be
            // spurious is a matter of microseconds, so the transfer may have to be made again.
            let mut tries = 0;
            let heard = loop {
                let calls = record(&set.params);
                assert_replayed(algorithm, set, &calls);
                let heard = EVENTS.map(|event| count(&calls, Hook::Event(event)) > 0);
                tries += 1;
                if heard == [false; 4] || heard == [true; 4] {
                    break heard;
                }
                assert!(tries < 4, "{EVENTS:?}: {heard:?}");
            };
            hears_events |= heard[0];
        }
    }
    assert!(hears_events, "no event reached any algorithm");
}

#[test]
fn algorithm_loaded_without_trace_has_none() {
    let _alone = alone();
    let held = loaded("reno", &Options::default());
    assert!(matches!(held.trace(|_| ()), Err(Error::NotTraced { .. })));
}

extern "C" fn hear(_signal: libc::c_int) {}

#[test]
fn a_signal_does_not_end_the_wait_for_calls() {
    let _alone = alone();
    let options = Options { trace: true, ..Options::default() };
    let reno = Algorithm::find("reno").expect("there is reno");
    let held = cc::load(reno.default_set(), &options).expect("it loads");
    let trace = held.trace(|_| ()).expect("loaded with a trace");
    // SAFETY: the handler does nothing, and both structures are whole.
    let reader = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = hear as extern "C" fn(libc::c_int) as usize;
        let set = libc::sigaction(libc::SIGURG, &raw const action, std::ptr::null_mut());
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
        libc::pthread_self()
    };
    let (patience, start) = (Duration::from_millis(200), Instant::now());
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..5 {
                thread::sleep(patience / 10);
                // SAFETY: the reader waits for this thread to end.
                assert_eq!(unsafe { libc::pthread_kill(reader, libc::SIGURG) }, 0);
            }
        });
        trace.poll(patience).expect("it waits on");
    });
    let waited = start.elapsed();
    assert!(waited + Duration::from_millis(1) >= patience, "{waited:?}");
}
