// SPDX-License-Identifier: GPL-2.0-or-later
//! Growth and decrease of windows, an algorithm alone.

use longhaul_congestion::{Ack, Algorithm, Control, Decision, Params};

fn close(what: &str, found: f64, target: f64, tolerance: f64) {
    println!("{what}: {found:.3}, target {target:.3}: {:+.2} %", 100.0 * (found / target - 1.0));
    assert!((found / target - 1.0).abs() < tolerance, "{what}: {found}, target {target}");
}

fn set(algorithm: &str, name: &str) -> Params {
    Algorithm::find(algorithm).unwrap().set(name).unwrap().params.clone()
}

/// An algorithm in congestion avoidance, with constant or given round trips.
struct Path {
    control: Control,
    decision: Decision,
    now_us: f64,
    delivered: u32,
    rtt_us: f64,
    min_rtt_us: f64,
}

impl Path {
    fn new(params: &Params, window: u32, rtt_us: f64) -> Self {
        let mut decision = Decision { cwnd: window, ssthresh: window, ..Decision::default() };
        let ack = Ack { now_us: 1, mss: 1448, ..Ack::default() };
        let control = Control::new(params, &ack, &mut decision);
        Self { control, decision, now_us: 1e6, delivered: 0, rtt_us, min_rtt_us: rtt_us }
    }

    /// A loss, and the window at once at what the algorithm says. The share that it keeps.
    fn lose(&mut self) -> f64 {
        let before = self.decision.cwnd;
        let ack = Ack { lost: 1, flags: Ack::CWND_LIMITED | Ack::RECOVERY, ..self.ack(before) };
        self.control.loss(&ack, &mut self.decision);
        self.decision.cwnd = self.decision.ssthresh;
        f64::from(self.decision.cwnd) / f64::from(before)
    }

    /// A round trip: the window that was in flight is acknowledged.
    fn round_trip(&mut self) {
        let (flight, start_us) = (self.decision.cwnd, self.now_us);
        for passed in 1..=flight {
            self.now_us = start_us + self.rtt_us * f64::from(passed) / f64::from(flight);
            self.acknowledge(flight);
        }
    }

    fn acknowledge(&mut self, flight: u32) {
        self.delivered = self.delivered.wrapping_add(1);
        let ack = self.ack(flight);
        self.control.rtt(&ack, &mut self.decision);
        self.control.ack(&ack, &mut self.decision);
    }

    fn ack(&self, flight: u32) -> Ack {
        Ack {
            now_us: self.now_us as u64,
            delivery_rate: (f64::from(flight) * 1448e6 / self.rtt_us) as u64,
            acked: 1,
            lost: 0,
            rtt_us: self.rtt_us as u32,
            min_rtt_us: self.min_rtt_us as u32,
            in_flight: flight - 1,
            prior_in_flight: flight,
            delivered: self.delivered,
            prior_delivered: self.delivered.wrapping_sub(flight),
            mss: 1448,
            paced_us: 0,
            delivered_ce: 0,
            flags: Ack::CWND_LIMITED,
        }
    }

    /// Growth a round trip at `window`, which is held: the mean of many round trips.
    fn growth(&mut self, window: u32, round_trips: u32) -> f64 {
        let mut grown = 0;
        for _ in 0..round_trips * window {
            self.set_window(window);
            self.acknowledge(window);
            grown += self.decision.cwnd - window;
        }
        f64::from(grown) / f64::from(round_trips)
    }

    /// When the window has grown to `window`.
    fn reaches(&mut self, window: u32) -> f64 {
        loop {
            let (before, start_us) = (self.decision.cwnd, self.now_us);
            self.round_trip();
            let after = self.decision.cwnd;
            if after >= window {
                let share = f64::from(window - before) / f64::from(after - before);
                return start_us + share * self.rtt_us;
            }
        }
    }

    fn set_window(&mut self, window: u32) {
        self.decision = Decision { cwnd: window, ssthresh: window, ..self.decision };
    }
}

/// Paper 002, section 1: 10 Gb/s, 100 ms, 1500 bytes is a window of 83 333, half of which takes 41 667
/// round trips. Those would be 2.6e9 acknowledgements: here the first and the last thousand.
#[test]
fn reno_recovers_in_41_667_round_trips() {
    let (window, rtt_us) = (83_333, 1e5);
    let mut path = Path::new(&set("reno", "paper"), window, rtt_us);
    let lost = 1.0 - path.lose();
    let mut grown_in = |from: u32| {
        path.set_window(from);
        let start_us = path.now_us;
        (path.reaches(from + 1_000) - start_us) / rtt_us / 1_000.0
    };
    let each = f64::midpoint(grown_in(window / 2), grown_in(window - 1_000));
    close("round trips", lost * f64::from(window) * each, 41_667.0, 0.02);
}

/// RFC 3649 appendix B, table 2: the rows of a and w with the b that is printed next to them.
#[test]
fn highspeed_has_the_rows_of_rfc_3649() {
    let params = set("highspeed", "rfc3649");
    // a(w) is rounded up there: each row's w is the first for which a whole a is reached.
    let rows = [
        (1.0, 38, 0.50),
        (2.0, 118, 0.44),
        (3.0, 221, 0.41),
        (4.0, 347, 0.38),
        (5.0, 495, 0.37),
        (8.0, 1058, 0.33),
        (30.0, 10_661, 0.21),
        (71.0, 84_035, 0.10),
    ];
    for (a, window, b) in rows {
        let mut path = Path::new(&params, window, 1e5);
        close(&format!("a({window})"), path.growth(window, 200), a, 0.02);
        let lost = 1.0 - path.lose();
        // Two decimals are printed, and the window falls to a whole segment.
        let printed = 0.005 + 1.0 / f64::from(window);
        println!("b({window}): {lost:.4}, printed {b}");
        assert!((lost - b).abs() <= printed, "b({window}): {lost}, printed {b}");
    }
    let mut path = Path::new(&params, 83_981, 1e5);
    close("a(83 981)", path.growth(83_981, 20), 71.0, 0.02);
}

/// Paper 002 section 3.4: p(w) log-linear between (38, 1e-3) and (83 000, 1e-7).
#[test]
fn highspeed_of_paper_002() {
    for (window, a) in [(10_661, 30.6), (83_981, 72.7)] {
        let mut path = Path::new(&set("highspeed", "paper"), window, 1e5);
        close(&format!("paper's a({window})"), path.growth(window, 20), a, 0.03);
    }
}

/// Kelly 2003: ln(8/7) / ln(1.01) = 13.4 round trips from 7/8 back, at any window.
#[test]
fn scalable_recovers_in_13_4_round_trips() {
    for window in [1_000, 10_000, 83_333] {
        let mut path = Path::new(&set("scalable", "paper"), window, 1e5);
        close("kept", path.lose(), 0.875, 0.002);
        let lost_us = path.now_us;
        let round_trips = (path.reaches(window) - lost_us) / path.rtt_us;
        close(&format!("round trips to {window}"), round_trips, 13.42, 0.02);
    }
}

/// RFC 9438 section 4.2: `K = cbrt(W_max (1 - beta) / C)`, the time until `W_max` is reached again. The
/// curve is flat there, and symmetric: K is half-way between 2 % below and 2 % above `W_max`.
#[test]
fn cubic_is_back_after_k() {
    for (window, k) in [(1_000, 9.09), (10_000, 19.57), (83_333, 39.68)] {
        let params = set("cubic", "rfc9438").with("fast_convergence", 0).unwrap();
        let mut path = Path::new(&params, window, 1e5);
        path.round_trip(); // so that it knows the RTT
        path.set_window(window);
        close("kept", path.lose(), 0.7, 0.002);
        let lost_us = path.now_us;
        let below_us = path.reaches(window - window / 50);
        let above_us = path.reaches(window + window / 50);
        let k_s = (f64::midpoint(below_us, above_us) - lost_us) / 1e6;
        close(&format!("K at {window}"), k_s, k, 0.02);
    }
}

/// H-TCP's growth a round trip `t` seconds after a loss.
fn htcp_alpha(t: f64, beta: f64) -> f64 {
    let high = t - 1.0;
    let polynomial = if high > 0.0 { 1.0 + 10.0 * high + 0.25 * high * high } else { 1.0 };
    (2.0 * (1.0 - beta) * polynomial).max(1.0)
}

/// H-TCP at `window` after some epochs that are all alike.
fn settled_htcp(window: u32, queued_us: f64) -> (Path, f64) {
    let mut path = Path::new(&set("htcp", "paper"), window, 1e5);
    let mut kept = 0.0;
    for _ in 0..3 {
        path.set_window(window);
        for rtt_us in [1e5, 1e5, 1e5, 1e5 + queued_us] {
            path.rtt_us = rtt_us;
            path.round_trip();
        }
        path.set_window(window);
        kept = path.lose();
    }
    path.rtt_us = 1e5;
    (path, kept)
}

#[test]
fn htcp_keeps_rtt_min_over_rtt_max() {
    for (queued_us, beta) in [(0.0, 0.8), (1e4, 0.8), (5e4, 2.0 / 3.0), (8e4, 0.5556), (2e5, 0.5)] {
        let (mut path, kept) = settled_htcp(10_000, queued_us);
        close(&format!("beta at {queued_us} us of queue"), kept, beta, 0.005);
        // Half of the throughput: more than 20 % away, so half is kept.
        path.set_window(5_000);
        for _ in 0..4 {
            path.round_trip();
        }
        path.set_window(5_000);
        close("beta once throughput moved", path.lose(), 0.5, 0.002);
    }
}

#[test]
fn htcp_grows_by_its_polynomial() {
    for t in [0.5, 0.99, 2.0, 5.0, 10.0, 30.0] {
        for (queued_us, beta) in [(0.0, 0.8), (2e5, 0.5)] {
            let (mut path, _) = settled_htcp(2_000, queued_us);
            path.now_us += t * 1e6; // the clock stands still while growth is measured
            close(&format!("alpha({t})"), path.growth(2_000, 50), htcp_alpha(t, beta), 0.02);
        }
    }
}

/// Time from beta W back to W, against the integral of alpha over the round trips.
#[test]
fn htcp_recovers_by_its_polynomial() {
    for window in [1_000, 10_000, 83_333] {
        let (mut path, beta) = settled_htcp(window, 0.0);
        let lost_us = path.now_us;
        let found_s = (path.reaches(window) - lost_us) / 1e6;
        let (step_s, rtt_s, mut at_s, mut climbed) = (1e-3, 0.1, 0.0, 0.0);
        while climbed < (1.0 - beta) * f64::from(window) {
            climbed += htcp_alpha(at_s + step_s / 2.0, beta) * step_s / rtt_s;
            at_s += step_s;
        }
        close(&format!("H-TCP back at {window}, s"), found_s, at_s, 0.02);
    }
}

/// Additive increase by smax, search by a share of the gap, the flat top, and probing above it.
#[test]
fn bic_has_its_phases() {
    // Growth a round trip at a distance from the window of the last loss, 10 000.
    let linux = [
        ("additive", -2_000, 16.0),
        ("additive", -64, 16.0),
        ("search by a quarter", -40, 10.0),
        ("smooth part", -4, 4.0 / 20.0),
        ("smooth part", 2, 4.0 / 20.0),
        ("probing", 30, 10.0),
        ("probing at most", 200, 16.0),
    ];
    let paper = [
        ("additive", -1_000, 32.0),
        ("search by half", -40, 20.0),
        // 1 segment to 20/1024, where half of it is smin, takes 2 ln 51.2 round trips, the rest 2.
        ("search down to smin", -1, 1.0 / (2.0 * 51.2_f64.ln() + 2.0)),
        ("probing by 1, 2, 4", 0, 1.0),
        ("probing by 1, 2, 4", 10, 8.0),
        ("probing at most", 40, 32.0),
    ];
    for (name, kept, rows) in [("linux", 0.8, &linux[..]), ("paper", 0.875, &paper[..])] {
        let mut path = Path::new(&set("bic", name), 10_000, 1e5);
        close("kept", path.lose(), kept, 0.002);
        for (phase, distance, growth) in rows {
            let window = 10_000_u32.checked_add_signed(*distance).unwrap();
            let found = path.growth(window, 500); // to 1/500 of a segment
            close(&format!("{name}: {phase} at {distance}"), found, *growth, 0.02);
        }
    }
}

/// Xu et al. 2004 section III-C: a loss below the last maximum puts it half-way down.
#[test]
fn bic_converges_fast() {
    let mut path = Path::new(&set("bic", "linux"), 10_000, 1e5);
    path.lose();
    path.set_window(9_000);
    path.lose();
    // 9000 (1 + 0.8) / 2 = 8100: growth just below it is the smooth part's.
    close("near the new maximum", path.growth(8_096, 500), 0.2, 0.02);
}
