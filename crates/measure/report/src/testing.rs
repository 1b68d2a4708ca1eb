// SPDX-License-Identifier: GPL-2.0-or-later
//! Scenarios as in records, for the tests.

use serde_json::{Value, json};

/// A link of 1 kb/s between two nodes, and flows of these names over it.
pub fn one_link(flows: &[&str]) -> Value {
    let direction = json!({
        "rate_bps": 1000, "delay_us": 1000, "loss": {"kind": "none"}, "queue_bytes": 1000,
        "mtu_bytes": 1500, "max_burst_us": 0, "monitor_us": 1000, "overhead_bytes": 0,
    });
    let flow = |name: &&str| json!({"name": name, "from": "a", "to": "b", "via": []});
    json!({
        "nodes": [{"name": "a"}, {"name": "b"}],
        "links": [{"name": "haul", "a": "a", "b": "b", "forward": direction, "backward": direction}],
        "flows": flows.iter().map(flow).collect::<Vec<_>>(),
    })
}
