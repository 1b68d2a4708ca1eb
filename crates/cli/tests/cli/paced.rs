// SPDX-License-Identifier: GPL-2.0-or-later
//! Paced flows, emulated and simulated from one file: the kernel's gap frames on the emulated wire.

use crate::common::{alone, measured, refused};
use ::kernel::pace::{self, Method};
use record::{LinkSummary, Record};
use std::path::Path;

/// A set rate on the first hop; on the second what its window and round trip give, at most 30 Mb/s.
const PACED: &str = r#"
title = "paced"
timeout = "30s"
[[node]]
name = "client"
[[node]]
name = "depot"
[[node]]
name = "server"
[[link]]
name = "near"
between = ["client", "depot"]
rate = "100mbit"
delay = "5ms"
overhead = 38
[[link]]
name = "far"
between = ["depot", "server"]
rate = "100mbit"
delay = "10ms"
overhead = 38
[[flow]]
name = "transfer"
from = "server"
to = "client"
via = ["depot"]
bytes = "8MB"
pacing = ["20mbit", "gap"]
"#;

fn lane<'r>(record: &'r Record, link: &str) -> &'r LinkSummary {
    let found = record.summary.links.iter().find(|l| l.name == link && l.direction == "backward");
    found.expect("the scenario's")
}

/// Runs [`PACED`] by a method, with one more setting.
fn run(method: &str, set: &str) -> Record {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("paced.toml");
    std::fs::write(&file, PACED).unwrap();
    let (file, out) = (file.to_str().unwrap(), folder.path().join("out"));
    let to = out.to_str().unwrap();
    let run =
        measured(&["lab", "run", file, "--method", method, "--set", set, "--json", "--out", to]);
    assert!(run["runs"][0]["sha256_ok"] != false, "{run}");
    let at = if method == "emu" { out.join("r01") } else { out.join("sim/r01") };
    Record::open(Path::new(&at)).unwrap()
}

#[test]
fn flow_is_paced_per_hop_in_kernel_and_simulator() {
    let _alone = alone();
    for method in ["emu", "sim"] {
        let record = run(method, "pacing.max_rate=30mbit");
        let far = lane(&record, "far");
        // Full packets of 1538 bytes at 20 Mb/s of the 100: four times as much gap.
        let ratio = far.gap_bytes as f64 / far.bytes as f64;
        assert!((3.8..4.05).contains(&ratio), "{method}: {far:?}");
        let seconds = record.summary.flows[0].seconds.unwrap();
        let rate = far.bytes as f64 * 8.0 / seconds;
        // Handshakes, and on a busy machine more, come on top.
        assert!(rate < 20.1e6, "{method}: {rate}");
        // The depot sends on at only 20 Mb/s, so its window is rarely full.
        assert!(lane(&record, "near").gap_frames > 0, "{method}");
        let acknowledgements = record.summary.links.iter().filter(|l| l.direction == "forward");
        assert_eq!(acknowledgements.map(|l| l.gap_frames).sum::<u64>(), 0, "{method}");
    }
}

/// Paces both hops by departure times, at up to 30 Mb/s, if the kernel has fq. Otherwise the command reports that fq
/// is missing.
#[test]
fn departure_times_pace_where_the_kernel_has_fq() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("paced.toml");
    std::fs::write(&file, PACED).unwrap();
    let out = folder.path().join("out");
    let (path, out_path) = (file.to_str().unwrap(), out.to_str().unwrap());
    let run = ["lab", "run", path, "--set", "flow.transfer.pacing=edt"];
    if let Some(lack) = pace::lacking(Method::EDT, None) {
        let (code, said) = refused(&run);
        let expected = format!("flow transfer, from server: pacing edt: {lack}");
        assert!(code == 2 && said.contains(&expected), "{said}");
        return;
    }
    measured(&[&run[..], &["--json", "--out", out_path]].concat());
    let record = Record::open(&out.join("r01")).unwrap();
    for link in ["far", "near"] {
        let lane = lane(&record, link);
        assert_eq!(lane.gap_frames, 0, "{lane:?}");
        let rate = lane.bytes as f64 * 8.0 / record.summary.flows[0].seconds.unwrap();
        assert!(rate < 30.2e6, "{rate}");
    }
    let both = PACED.replace("[\"20mbit\", \"gap\"]", "\"gap\"");
    let second =
        "[[flow]]\nfrom = \"server\"\nto = \"client\"\nbytes = \"1MB\"\npacing = \"edt\"\n";
    std::fs::write(&file, both + second).unwrap();
    let (code, said) = refused(&["lab", "run", path]);
    assert!(code == 2 && said.contains("edt and gap frames cannot share a device"), "{said}");
}

#[test]
fn tcp_is_asked_to_pace_the_sockets_of_stock_servers() {
    let _alone = alone();
    let record = run("emu", "flow.transfer.pacing=tcp");
    // It would say here that no socket was found to be asked.
    let reasons = &record.manifest.invalid_reasons;
    assert!(!reasons.iter().any(|reason| reason.contains("no socket")), "{reasons:?}");
    assert_eq!(lane(&record, "far").gap_frames, 0);
}

#[test]
fn unsupported_pacing_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("paced.toml");
    std::fs::write(&file, PACED).unwrap();
    let file = file.to_str().unwrap();
    let (code, said) = refused(&["lab", "run", file, "--set", "link.far.overhead=0"]);
    let expected = "takes an overhead of 14 or more on the first link";
    assert!(code == 2 && said.contains(expected), "{said}");
}
