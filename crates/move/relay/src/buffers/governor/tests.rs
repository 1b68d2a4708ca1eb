// SPDX-License-Identifier: GPL-2.0-or-later
//! The governor on paths that are computed: those of figure 12, and what must never happen on any.

use super::*;
use rand_core::{Rng, SeedableRng};

const PIPE: u64 = 1 << 20;

/// A sender in slow start over one bottleneck, a millisecond at a time.
struct Path {
    rate: Rate,
    rtt: Duration,
    /// Up to where the kernel tunes the send buffer.
    tuned: u64,
    /// What the queue before the bottleneck holds.
    queue: u64,
    window: u64,
    seen: Seen,
    raised: bool,
    dropped: u64,
}

impl Path {
    fn new(rate: Rate, rtt_ms: u64, tuned: u64) -> Self {
        let rtt = Duration::from_millis(rtt_ms);
        let seen = Seen {
            at: Duration::ZERO,
            delivery_rate: None,
            min_rtt: Some(rtt),
            unsent: Bytes::new(0),
            sent: Bytes::new(0),
            received: Bytes::new(0),
            sndbuf_limited: Duration::ZERO,
            window: Bytes::new(65_536),
            sndbuf: Bytes::new(87_040),
            rcvbuf: Bytes::new(131_072),
        };
        let queue = in_time(rate, rtt) + PIPE;
        Self { rate, rtt, tuned, queue, window: 14_480, seen, raised: false, dropped: 0 }
    }

    fn product(&self) -> u64 {
        in_time(self.rate, self.rtt)
    }

    /// A millisecond; with the bytes that have passed.
    fn pass(&mut self) -> u64 {
        let step = Duration::from_millis(1);
        if !self.raised {
            let wanted = (6 * self.window).min(self.tuned).max(self.seen.sndbuf.get());
            self.seen.sndbuf = Bytes::new(wanted);
        }
        let under_way = self.window.min(self.seen.sndbuf.get());
        let limited = under_way < self.window;
        let queued = under_way.saturating_sub(self.product());
        self.dropped += queued.saturating_sub(self.queue);
        let rate = rate_of(under_way.min(self.product()), self.rtt).unwrap();
        let passed = in_time(rate, step);
        // As Linux: a window that is not used does not grow.
        if !limited {
            self.window += passed;
        }
        self.seen.at += step;
        self.seen.delivery_rate = Some(rate);
        self.seen.sent = Bytes::new(self.seen.sent.get() + passed);
        self.seen.sndbuf_limited += if limited { step } else { Duration::ZERO };
        passed
    }

    /// So many seconds, under a governor or without; with the bytes of the last one.
    fn run(&mut self, seconds: u64, mut governor: Option<&mut Governor>, memory: u64) -> u64 {
        let mut last = 0;
        for ms in 0..1000 * seconds {
            let passed = self.pass();
            last += if ms >= 1000 * (seconds - 1) { passed } else { 0 };
            let Some(governor) = governor.as_mut().filter(|_| ms % 250 == 0) else { continue };
            let tuned = if self.raised { self.seen.sndbuf } else { Bytes::new(self.tuned) };
            let decision = governor.look(self.seen, &bounds(tuned, memory));
            if let Some(size) = decision.sndbuf {
                assert!(size > self.seen.sndbuf, "raised, never lowered");
                (self.seen.sndbuf, self.raised) = (size, true);
            }
        }
        last
    }
}

fn bounds(tuned: Bytes, memory: u64) -> Bounds {
    Bounds {
        tuned_sndbuf: Some(tuned),
        tuned_rcvbuf: Some(Bytes::new(6 << 20)),
        sndbuf: Bytes::new(memory),
        rcvbuf: Bytes::new(memory),
        window: Bytes::new(0xffff << 10),
        unsent: Bytes::new(PIPE),
    }
}

const GIGABIT: Rate = Rate::bits_per_second(1_000_000_000);

/// Figure 12, on the left: 512 KB over 5, 25 and 50 ms at 1 Gb/s.
#[test]
fn small_buffer_is_raised_to_twice_the_bdp() {
    for rtt_ms in [5, 25, 50, 200] {
        let (full, tuned) = (in_time(GIGABIT, Duration::from_secs(1)), 512 << 10);
        let alone = Path::new(GIGABIT, rtt_ms, tuned).run(8, None, 1 << 30);
        assert!(alone < full / 20 * 19, "{rtt_ms} ms: the buffer was not too small: {alone}");
        let mut path = Path::new(GIGABIT, rtt_ms, tuned);
        let last = path.run(8, Some(&mut Governor::default()), 1 << 30);
        assert!(last > full / 100 * 99, "{rtt_ms} ms: {last} of {full} bytes in a second");
        let (size, product) = (path.seen.sndbuf.get(), path.product());
        // What is worth a change leaves an eighth; the buffer need not be the last one wanted.
        assert!((product..=2 * product + PIPE).contains(&size), "{rtt_ms} ms: {size}");
        assert_eq!(path.dropped, 0, "{rtt_ms} ms: more than twice the BDP was under way");
    }
}

/// Figure 12, on the right: with 8 MB there is nothing to raise, however short the path.
#[test]
fn large_buffer_is_left_to_the_kernel() {
    for rtt_ms in [1, 5, 25] {
        let mut path = Path::new(GIGABIT, rtt_ms, 8 << 20);
        path.run(8, Some(&mut Governor::default()), 1 << 30);
        assert!(!path.raised, "{rtt_ms} ms: {}", path.seen.sndbuf);
    }
}

#[test]
fn buffers_stay_within_memory() {
    let mut path = Path::new(GIGABIT, 200, 512 << 10);
    path.run(8, Some(&mut Governor::default()), 3 << 20);
    assert_eq!(path.seen.sndbuf, Bytes::new(3 << 20));
}

#[test]
fn unsent_limit_is_a_tenth_of_a_second() {
    for (mbits, unsent) in [(1, Some(LEAST_UNSENT)), (40, Some(500_000)), (1000, None)] {
        let mut path = Path::new(Rate::bits_per_second(mbits * 1_000_000), 20, 4 << 20);
        // The windows of slow paths grow for as long as they like.
        let (mut governor, mut last) = (Governor::default(), None);
        for _ in 0..100 {
            for _ in 0..1000 {
                path.pass();
            }
            let decision = governor.look(path.seen, &bounds(Bytes::new(4 << 20), 1 << 30));
            last = decision.unsent.or(last);
        }
        let about = |want: u64| move |got: Bytes| got.get().abs_diff(want) <= want / 4;
        assert_eq!(last.is_some(), unsent.is_some(), "{mbits} Mb/s: {last:?}");
        assert!(last.zip(unsent).is_none_or(|(got, want)| about(want)(got)), "{mbits}: {last:?}");
    }
}

/// A receiver whose window holds the sender back, and one whose sender is slow by itself.
#[test]
fn full_window_grows_to_twice_the_bdp() {
    // Of the buffer one part in `overhead` is window.
    let receive = |most_bps: u64, wscale: u32, overhead: u64| {
        let (mut rcvbuf, mut received, mut governor) = (6_u64 << 20, 0, Governor::default());
        let (rtt, mut tuned) = (Duration::from_millis(200), 6 << 20);
        for look in 1..100_u64 {
            // The sender fills it, as far as it can.
            let window = (rcvbuf / overhead).min(0xffff << wscale);
            let rate = (window * 8 * 5).min(most_bps);
            received += rate / 8 / 4;
            let seen = Seen {
                at: Duration::from_millis(250 * look),
                received: Bytes::new(received),
                rcvbuf: Bytes::new(rcvbuf),
                window: Bytes::new(window),
                min_rtt: Some(rtt),
                ..Path::new(GIGABIT, 200, 0).seen
            };
            let window = Bytes::new(0xffff << wscale);
            let bounds = Bounds {
                tuned_rcvbuf: Some(Bytes::new(tuned)),
                window,
                ..bounds(Bytes::new(1 << 30), 1 << 30)
            };
            if let Some(size) = governor.look(seen, &bounds).rcvbuf {
                assert!(size.get() > rcvbuf);
                (rcvbuf, tuned) = (size.get(), size.get());
            }
        }
        rcvbuf
    };
    let product = in_time(GIGABIT, Duration::from_millis(200));
    for overhead in [2, 5] {
        let grown = receive(GIGABIT.bps(), 14, overhead);
        let windows = overhead * product..=overhead * 2 * product;
        assert!(windows.contains(&grown), "{grown} for {product}, {overhead}");
    }
    assert_eq!(receive(50_000_000, 14, 2), 6 << 20, "a slow sender needs no more");
    let scaled = 0xffff << 7;
    assert_eq!(receive(GIGABIT.bps(), 7, 2), 2 * scaled, "the window cannot grow beyond its scale");
}

#[test]
fn window_not_following_its_buffer_is_left_alone() {
    let (mut governor, mut seen) = (Governor::default(), Path::new(GIGABIT, 200, 0).seen);
    let bounds = Bounds { tuned_rcvbuf: Some(Bytes::new(0)), ..bounds(Bytes::new(0), 1 << 30) };
    seen.window = Bytes::new(1 << 20);
    let mut raised = 0;
    for _ in 0..100 {
        seen.at += Duration::from_millis(250);
        seen.received = Bytes::new(seen.received.get() + (1 << 20) * 5 / 4);
        if let Some(size) = governor.look(seen, &bounds).rcvbuf {
            (seen.rcvbuf, raised) = (size, raised + 1);
        }
    }
    assert_eq!(raised, 1);
}

/// For any input: within the bounds, never less than the current size, and at most twice the largest BDP seen.
#[test]
fn random_decisions_stay_in_bounds() {
    let seed = std::env::var("LONGHAUL_SEED").map_or(5, |seed| seed.parse().unwrap());
    println!("LONGHAUL_SEED={seed}");
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
    for _ in 0..200 {
        let mut governor = Governor::default();
        let (mut path, mut highest) = (Path::new(GIGABIT, 1, 0), 0);
        for _ in 0..100 {
            let mut up_to = |most: u64| random.next_u64() % most.saturating_add(1);
            let seen = &mut path.seen;
            seen.at += Duration::from_micros(up_to(1_000_000));
            let magnitude = up_to(63);
            seen.delivery_rate = Some(Rate::bits_per_second(up_to(u64::MAX >> magnitude)));
            seen.min_rtt = Some(Duration::from_micros(up_to(u32::MAX.into())));
            seen.unsent = Bytes::new(up_to(u32::MAX.into()));
            seen.sent = Bytes::new(seen.sent.get() + up_to(1 << 40));
            seen.received = Bytes::new(seen.received.get() + up_to(1 << 40));
            seen.sndbuf_limited += Duration::from_micros(up_to(1));
            seen.sndbuf = Bytes::new(up_to(1 << 30));
            seen.rcvbuf = Bytes::new(up_to(1 << 30));
            seen.window = Bytes::new(up_to(1 << 30));
            let memory = up_to(1 << 32);
            let bounds =
                Bounds { window: Bytes::new(up_to(1 << 30)), ..bounds(Bytes::new(0), memory) };
            let bounds = Bounds { tuned_rcvbuf: Some(Bytes::new(0)), ..bounds };
            let rate = path.seen.delivery_rate.unwrap();
            highest = highest.max(rate.bps());
            let Decision { sndbuf, rcvbuf, unsent } = governor.look(path.seen, &bounds);
            for (size, now) in [(sndbuf, path.seen.sndbuf), (rcvbuf, path.seen.rcvbuf)] {
                assert!(size.is_none_or(|size| size > now && size.get() <= memory.min(MOST)));
            }
            let product = in_time(Rate::bits_per_second(highest), path.seen.min_rtt.unwrap());
            assert!(sndbuf.is_none_or(|size| size.get() <= 2 * product + PIPE));
            assert!(rcvbuf.is_none_or(|size| size.get() <= MOST_OVERHEAD * bounds.window.get()));
            assert!(unsent.is_none_or(|u| (LEAST_UNSENT..=PIPE).contains(&u.get())));
        }
    }
}
