// SPDX-License-Identifier: GPL-2.0-or-later
//! Numbers by hand, from papers, and limits.

use crate::{assert_close, flow, summary};
use testkit::draft::Draft;

/// Payload of a segment in bits.
const PAYLOAD: f64 = 1448.0 * 8.0;

/// A chain of hops with the same delay and link, over which one flow goes.
fn chain(hops: usize, delay_ms: f64, link: &str, keys: &str, file: &str) -> String {
    let names: Vec<String> = (0..=hops).map(|n| format!("n{n}")).collect();
    let mut draft = Draft::new("Chain", file);
    for name in &names {
        draft = draft.node(name, "tcp_rmem_max=1GB tcp_wmem_max=1GB cc=reno");
    }
    for pair in names.windows(2) {
        draft = draft.link(&pair[0], &pair[1], &format!("delay={delay_ms}ms {link}"));
    }
    let via: Vec<String> = names[1..hops].iter().map(|name| format!("{name:?}")).collect();
    let keys = format!("name=flow via=[{}] {keys}", via.join(","));
    draft.flow(&names[0], &names[hops], &keys).to_string()
}

/// Figures 5 and 10 of paper 000: three hops with a third of the delay, and of the loss by equation 4
/// (`1 - 0.999^(1/3)` is 0.000333444), carry `3 sqrt 3` times as much.
#[test]
fn chain_of_three_gains_three_root_three() {
    let of = |hops: usize, loss: &str| {
        let link = format!("rate=10gbit loss={loss}");
        let text = chain(hops, 45.0 / hops as f64, &link, "bytes=4GB", "timeout=20000s");
        flow(&text).goodput_bps.unwrap()
    };
    let [direct, three] = [of(1, "0.1%"), of(3, "0.000333444")];
    // Mathis for random losses, by hand: 1.31 / sqrt(0.001) segments in 90 ms.
    assert_close(direct, 1.31 / 0.001_f64.sqrt() * PAYLOAD / 0.09, 0.02);
    assert_close(three / direct, 27.0_f64.sqrt(), 0.03);
}

/// 10, 20 and 40 segments leave in three round trips; 1.5 before them, half a one after; the last 30 take 30 segments' time.
#[test]
fn small_file_takes_its_round_trips() {
    let text = chain(1, 50.0, "rate=100mbit", &format!("bytes={}", 100 * 1448), "timeout=60s");
    let segment_s = 1514.0 * 8.0 / 100e6;
    // The path's round trip includes a segment's and an acknowledgement's serialisation.
    let rtt_s = 0.1 + segment_s + 66.0 * 8.0 / 100e6;
    let found = flow(&text);
    assert_close(
        found.seconds.unwrap(),
        1.5 * rtt_s + 3.0 * rtt_s + 30.0 * segment_s + rtt_s / 2.0,
        0.001,
    );
    assert_eq!(found.outcome, "complete");
    assert_eq!(found.bytes, 100 * 1448);
}

/// A window of 64 segments each 40 ms, and a program of 5 Mb/s.
#[test]
fn buffers_and_programs_limit() {
    let of = |keys: &str, tcp: &str| {
        let text = Draft::new("Limits", "duration=100s")
            .line(&format!("[tcp]\nautotuning = false\n{tcp}"))
            .nodes(&["a", "b"])
            .link("a", "b", "rate=1gbit delay=20ms")
            .flow("a", "b", &format!("cc=reno {keys}"));
        flow(&text.to_string()).goodput_bps.unwrap()
    };
    let window = format!("sndbuf = \"1GB\"\nrcvbuf = {}", 64 * 1448);
    assert_close(of("", &window), 64.0 * PAYLOAD / 0.04, 0.01);
    assert_close(of("app_rate=5mbit", "sndbuf = \"1GB\"\nrcvbuf = \"1GB\""), 5e6, 0.01);
}

/// Losses that never come and losses that always do: with `p` to 0 the link, and more loss never gives more.
#[test]
fn goodput_falls_with_loss_from_the_links_rate() {
    let of = |cc: &str, loss: &str| {
        let text = Draft::new("Loss", "duration=100s")
            .line("[tcp]\nhystart = false")
            .node("a", "tcp_wmem_max=1GB")
            .node("b", "tcp_rmem_max=1GB")
            .link("a", "b", &format!("rate=50mbit delay=20ms loss={loss}"))
            .flow("a", "b", &format!("cc={cc}"));
        flow(&text.to_string()).goodput_bps.unwrap()
    };
    for cc in ["reno", "cubic", "lh_highspeed", "lh_scalable", "lh_bic", "bbr"] {
        let rates = ["0.000001%", "0.01%", "0.1%", "1%", "2%"].map(|loss| of(cc, loss));
        println!("{cc}: {rates:?}");
        assert_close(rates[0], 50e6 * 1448.0 / 1514.0, 0.04);
        // Averages over sequences of losses scatter by a percent.
        assert!(rates.windows(2).all(|pair| pair[1] < pair[0] * 1.01), "{cc}: {rates:?}");
    }
}

/// 95 of 100 runs lie in the interval, which holds the mean and grows narrower with time.
#[test]
fn random_losses_have_an_interval() {
    let of = |seconds: u32| {
        let text = chain(1, 20.0, "rate=1gbit loss=0.3%", "", &format!("duration={seconds}s"));
        let found = flow(&text);
        let prediction = found.prediction.unwrap();
        let [low, high] = [prediction.low_bps, prediction.high_bps].map(Option::unwrap);
        assert!(low < found.goodput_bps.unwrap() && found.goodput_bps.unwrap() < high);
        (high - low) / found.goodput_bps.unwrap()
    };
    let [short, long] = [of(20), of(320)];
    // Sixteen times the time, a quarter of the width.
    assert!(long < 0.4 * short && long > 0.1 * short, "{short} {long}");
    let quiet = flow(&chain(1, 20.0, "rate=1gbit", "", "duration=20s")).prediction.unwrap();
    assert_eq!((quiet.low_bps, quiet.high_bps), (None, None));
}

/// Two alike share evenly, and with a third that takes 5 Mb/s they share the rest.
#[test]
fn flows_share_a_link() {
    let of = |slow: bool| {
        let mut draft = Draft::new("Shares", "duration=100s")
            .node("left", "tcp_wmem_max=1GB")
            .node("right", "tcp_rmem_max=1GB")
            .link("left", "right", "rate=50mbit delay=10ms");
        for _ in 0..2 {
            draft = draft.flow("left", "right", "cc=reno");
        }
        if slow {
            draft = draft.flow("left", "right", "cc=reno app_rate=5mbit");
        }
        let text = draft.to_string();
        // Flows need names of their own.
        let named = text.split("[[flow]]").enumerate().map(|(n, part)| {
            if n == 0 { part.to_owned() } else { format!("[[flow]]\nname = \"f{n}\"{part}") }
        });
        let flows = summary(&named.collect::<String>()).flows;
        flows.into_iter().map(|flow| flow.goodput_bps.unwrap()).collect::<Vec<_>>()
    };
    let link = 50e6 * 1448.0 / 1514.0;
    for bps in of(false) {
        assert_close(bps, link / 2.0, 0.02);
    }
    let three = of(true);
    assert_close(three[2], 5e6, 0.02);
    assert_close(three[0], (link - 5e6) / 2.0, 0.02);
}
