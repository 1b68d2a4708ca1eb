// SPDX-License-Identifier: GPL-2.0-or-later
//! The demo, small: real nginx, curl and aria2 over the emulated path, six ways.

use crate::common::{call, measured, one_of_two, processes_with, text};
use serde_json::Value;
use std::path::Path;

#[test]
fn every_variant_delivers_the_file_and_records_its_route() {
    let _turn = one_of_two();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("records");
    let out_text = out.to_str().unwrap();
    let document = measured(&[
        "demo",
        "--json",
        "--size",
        "3MB",
        "--rate",
        "100mbit",
        "--rtt",
        "30ms",
        "--repeat",
        "1",
        "--timeout",
        "30s",
        "--out",
        out_text,
    ]);
    let runs = document["runs"].as_array().unwrap();
    let hops = |variant: &str| -> &[&str] {
        match variant {
            "direct" | "aria2" => &["cubic"],
            "cold" | "warm" | "site" => &["cubic", "bbr", "cubic"],
            "direct-bbr" => &["bbr"],
            other => panic!("unknown variant {other}"),
        }
    };
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for run in runs {
        let (variant, client) = (run["variant"].as_str().unwrap(), run["client"].as_str().unwrap());
        seen.push((variant, client));
        assert_eq!(run["sha256_ok"], true, "{run}");
        assert_eq!(run["bytes"], 3 * 1024 * 1024, "{run}");
        let (bytes, seconds) = (run["bytes"].as_f64().unwrap(), run["seconds"].as_f64().unwrap());
        let goodput_bps = run["goodput_bps"].as_f64().unwrap();
        assert!((goodput_bps * seconds / (bytes * 8.0) - 1.0).abs() < 1e-9, "{run}");
        assert!(run["valid"].is_boolean());
        assert_eq!(run["congestion_control"], serde_json::json!(hops(variant)), "{run}");
    }
    seen.sort_unstable();
    let variants = ["aria2", "cold", "direct", "direct-bbr", "site", "warm"];
    let client = |variant: &str| if variant == "aria2" { "aria2c" } else { "curl" };
    assert_eq!(seen, variants.map(|variant| (variant, client(variant))));
    let page = document["report"].as_str().unwrap();
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("two depots, BBR between them, new connections"));
    check_bytes_on_the_links(&out.join("direct,size=3MB,r01"), 3);
    let left = processes_with(out_text);
    assert!(left.is_empty(), "processes are left: {left:?}");
    assert_eq!(names_in(folder.path()), ["records"], "a working folder is left");
}

/// Each link carried the file once, with 66 bytes of headers a segment, besides what was lost; and
/// the monitor's bins add up to the link's count.
fn check_bytes_on_the_links(record: &Path, links: usize) {
    let summary: Value =
        serde_json::from_slice(&std::fs::read(record.join("summary.json")).unwrap()).unwrap();
    let backward: Vec<&Value> = summary["links"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|link| link["direction"] == "backward")
        .collect();
    assert_eq!(backward.len(), links);
    let file = 3.0 * 1024.0 * 1024.0 * 1514.0 / 1448.0;
    for link in backward {
        let bytes = link["bytes"].as_f64().unwrap();
        // Handshake, response head, and what was sent again: a few dozen segments.
        assert!((file..file + 100.0 * 1514.0).contains(&bytes), "{link}");
        assert!(link["utilisation"].as_f64().unwrap() <= 1.001, "{link}");
    }
    let record = record::Record::open(record).unwrap();
    for link in &record.summary.links {
        let entity = record::Entity::parse(&format!("link:{}/{}", link.name, link.direction));
        let curve = record.series.curve(&entity.unwrap(), record::Quantity::ThroughputBps).unwrap();
        let bytes: f64 = curve.value.iter().map(|bps| bps / 8.0 * 500e-6).sum();
        assert!((bytes - link.bytes as f64).abs() < 1.0, "{} of {}", bytes, link.bytes);
    }
}

#[test]
fn download_at_its_time_limit_is_reported_with_its_bytes() {
    let _turn = one_of_two();
    let folder = tempfile::tempdir().unwrap();
    let document = measured(&[
        "demo",
        "--json",
        "--size",
        "50MB",
        "--rate",
        "20mbit",
        "--rtt",
        "30ms",
        "--repeat",
        "1",
        "--timeout",
        "1s",
        "--client",
        "curl",
        "--out",
        folder.path().to_str().unwrap(),
    ]);
    for run in document["runs"].as_array().unwrap() {
        assert_eq!(run["timed_out"], true, "{run}");
        assert_eq!(run["sha256_ok"], Value::Null, "{run}");
        let bytes = run["bytes"].as_u64().unwrap();
        assert!(bytes < 5 * 1024 * 1024, "{run}");
        // aria2 keeps what comes in memory at first, and what is to be warm is not yet.
        let begins_at_once = ["direct", "direct-bbr", "cold"].contains(&&*variant(run));
        assert!(bytes > 0 || !begins_at_once, "{run}");
        assert!(run["outcome"].as_str().unwrap().contains("time limit of 1s"), "{run}");
    }
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for (arguments, expected) in [
        (["demo", "--rate", "fast"], "a rate with its unit"),
        (["demo", "--rtt", "90"], "a time with its unit"),
        (["demo", "--loss", "120%"], "a probability"),
        (["demo", "--size", "big"], "a size"),
        (["demo", "--rtt", "1ms"], "rtt"),
        (["demo", "--client", "firefox"], "curl, wget or aria2"),
    ] {
        let output = call(&arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
}

fn variant(run: &Value) -> String {
    run["variant"].as_str().unwrap().to_owned()
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
