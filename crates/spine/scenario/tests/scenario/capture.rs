// SPDX-License-Identifier: GPL-2.0-or-later
//! Captures of nodes.

use longhaul_scenario::{Capture, Scenario};
use testkit::draft::Draft;
use units::Bytes;

fn captures(keys: &str, node: &str) -> Vec<Option<Capture>> {
    let draft = Draft::new("Captures", keys)
        .node("a", node)
        .node("b", "")
        .link("a", "b", "rate=10mbit delay=1ms")
        .flow("a", "b", "bytes=1MB");
    let scenario = Scenario::parse(&draft.to_string(), "test", &[""; 0]).expect("a sound scenario");
    scenario.runs[0].nodes.iter().map(|node| node.capture).collect()
}

#[test]
fn capture_has_defaults_by_family() {
    let limit = Capture::DEFAULT_LIMIT;
    assert_eq!(captures("", "capture=true"), [Some(Capture { snap: 96, limit }), None]);
    let ipv6 = captures("family=ipv6", "capture=true");
    assert_eq!(ipv6, [Some(Capture { snap: 114, limit }), None]);
    assert_eq!(captures("", "capture=false"), [None, None]);
}

#[test]
fn capture_table_sets_snap_length_and_limit() {
    let limit = Bytes::new(1 << 20);
    let text = "title = \"t\"\n[[node]]\nname = \"n#\"\ncount = 2\ncapture = { snap = 200, limit = \"1MB\" }\n\
        [[link]]\nbetween = [\"n1\", \"n2\"]\n[[flow]]\nfrom = \"n1\"\nto = \"n2\"\nbytes = \"1MB\"\n";
    let scenario = Scenario::parse(text, "test", &[""; 0]).expect("a sound scenario");
    for node in &scenario.runs[0].nodes {
        assert_eq!(node.capture, Some(Capture { snap: 200, limit }));
    }
}

/// A record from before there were captures is of the same run as one of the same scenario now.
#[test]
fn node_without_capture_is_written_as_before() {
    let text = "title = \"t\"\n[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[link]]\nbetween = [\"a\", \"b\"]\n\
        [[flow]]\nfrom = \"a\"\nto = \"b\"\nbytes = \"1MB\"\n";
    let run = |set: &[&str]| Scenario::parse(text, "t", set).expect("sound").runs.remove(0);
    let written = |set: &[&str]| serde_json::to_value(run(set)).expect("plain data");
    assert_eq!(written(&[])["nodes"][0].get("capture"), None);
    let captured = written(&["node.a.capture=true"]);
    assert_eq!(captured["nodes"][0]["capture"]["snap_bytes"], 96);
    assert_ne!(written(&[]), captured);
    // The same chance meets both.
    assert_eq!(written(&[])["seed"], captured["seed"]);
}
