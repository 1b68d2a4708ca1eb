// SPDX-License-Identifier: GPL-2.0-or-later
//! Congestion controls of `cc/` in the running kernel, over the emulated WAN: each decision is what
//! `cc/` computes for the same sample, each is applied, and the window under periodic loss is that
//! of the response function. Takes root.

mod side_by_side;
mod trace;
mod traffic;
mod windows;

use scenario::Scenario;
use testkit::draft::Draft;
use wan::Wan;

/// A link between two nodes of its own, with these settings.
struct Path {
    name: &'static str,
    settings: String,
}

impl Path {
    fn sender(&self) -> String {
        format!("{}-from", self.name)
    }

    fn receiver(&self) -> String {
        format!("{}-to", self.name)
    }
}

/// Paths that have nothing to do with one another, in one emulator.
fn paths_of_their_own<'p>(paths: impl Iterator<Item = &'p Path>) -> Wan {
    let mut draft = Draft::new("congestion controls", "");
    for path in paths {
        let (from, to) = (path.sender(), path.receiver());
        for node in [&from, &to] {
            draft = draft.node(node, "cc=reno tcp_rmem_max=32MB tcp_wmem_max=32MB");
        }
        draft = draft.link(&from, &to, "").line(&path.settings);
    }
    let text = draft.to_string();
    let scenario = Scenario::parse(&text, "test", &[] as &[&str]).unwrap_or_else(|e| panic!("{e}"));
    let wan = Wan::up(&scenario.runs[0]).unwrap_or_else(|error| panic!("{error}"));
    for node in wan.nodes() {
        // One connection must not learn from another.
        node.namespace.set_sysctl("net.ipv4.tcp_no_metrics_save", "1").unwrap();
        // Nor have its window cut because the machine held its program up (RFC 2861).
        node.namespace.set_sysctl("net.ipv4.tcp_slow_start_after_idle", "0").unwrap();
    }
    wan
}
