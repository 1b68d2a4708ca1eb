// SPDX-License-Identifier: GPL-2.0-or-later
//! Figure 9 of paper 000 at one of its delays: between the depots, HSTCP is faster than CUBIC, and
//! CUBIC than Reno.

use crate::common::{Kernel, measured, scenario};
use record::Record;

#[test]
fn highspeed_is_faster_than_cubic_and_cubic_than_reno() {
    let _kernel = Kernel::without_ours();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let file = scenario("000-figure-09.toml");
    // All three meet the same losses, packet by packet: one repeat tells them apart. But it takes
    // the whole transfer, or there are no losses that tell.
    let cell = ["--set", "sweep.vars.rtt=[\"90ms\"]", "--repeat", "1"];
    let run = ["lab", "run", &file, "--json", "--out", out];
    let document = measured(&[&run[..], &cell].concat());
    let goodput = |variant: &str| {
        let runs = document["runs"].as_array().unwrap();
        let run = runs.iter().find(|run| run["variant"] == variant).expect("each variant has run");
        assert_eq!(run["sha256_ok"], true, "{run}");
        run["goodput_bps"].as_f64().unwrap()
    };
    let [reno, cubic, highspeed] = ["reno", "cubic", "highspeed"].map(goodput);
    assert!(highspeed > cubic && cubic > reno, "{highspeed} {cubic} {reno}");

    let record = Record::open(&folder.path().join("highspeed,rtt=90ms,r01")).unwrap();
    for socket in &record.manifest.sockets {
        let expected = if socket.hop == 1 { "lh_highspeed" } else { "reno" };
        assert_eq!(socket.congestion_control, expected, "{socket:?}");
    }
    assert!(record.manifest.sockets.iter().any(|socket| socket.hop == 1));
}
