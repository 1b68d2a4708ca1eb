// SPDX-License-Identifier: GPL-2.0-or-later
//! Socket buffers that keep a connection below what its path carries: then they, and not the congestion control, decide its
//! goodput.

use scenario::{Flow, Hop, Routes, Run};
use std::collections::BTreeMap;
use units::Bytes;

/// What a buffer should be, in products of the path: twice that for what the kernel counts beyond the data, and twice for
/// windows that grow into a queue.
const ENOUGH: u64 = 4;

/// A window that is this part of the product costs a connection no more than that.
const NEARLY: f64 = 0.9;

/// One end of a connection.
struct End<'r> {
    node: &'r str,
    key: &'static str,
    buffer: Bytes,
    /// The most data that it lets be under way.
    window: Bytes,
}

/// One line for each buffer of these runs that holds less than the path of a connection that has it to itself.
pub fn small_buffers(runs: &[Run]) -> Vec<String> {
    let mut lines = BTreeMap::new();
    for run in runs {
        let routes = run.routes();
        for flow in &run.flows {
            for (n, hop) in flow.hops().enumerate() {
                look_at(run, &routes, (flow, n, &hop), &mut lines);
            }
        }
    }
    lines.into_values().map(|(_, line)| line).collect()
}

/// Notes the line of the longest path for each node and key.
fn look_at<'r>(
    run: &'r Run,
    routes: &Routes,
    (flow, n, hop): (&Flow, usize, &Hop<'r>),
    lines: &mut BTreeMap<(&'r str, &'static str), (Bytes, String)>,
) {
    let Some(path) = run.path_limits(routes, hop.from, hop.to) else { return };
    let Some(rate) = path.bottleneck.into_iter().chain(flow.app_rate).min() else { return };
    let product = rate.times(path.base_rtt);
    for end in ends(run, flow, n, hop) {
        let is_short = flow.bytes.is_some_and(|bytes| bytes <= end.window);
        if end.window >= product.scale(NEARLY) || is_short {
            continue;
        }
        let End { node, key, buffer, window } = end;
        let enough = (product.get() * ENOUGH).div_ceil(1_000_000);
        let (from, to) = (hop.from, hop.to);
        let (holds, rtt_ms) = (product.get() as f64 / 1e6, path.base_rtt.as_secs_f64() * 1e3);
        let line = format!(
            "node \"{node}\": {key} of {buffer} lets {window} be under way, and the path from \"{from}\" to \"{to}\" holds \
             {holds:.1} MB ({rate}, {rtt_ms:.1} ms): set {key} = \"{enough}MB\""
        );
        let known = lines.entry((node, key)).or_insert_with(|| (product, line.clone()));
        if known.0 < product {
            *known = (product, line);
        }
    }
}

/// Both ends of a hop, except ends whose depot sets a buffer of its own.
fn ends<'r>(run: &Run, flow: &Flow, n: usize, hop: &Hop<'r>) -> Vec<End<'r>> {
    let set_at_sender = n > 0 && flow.sndbuf.is_some();
    let set_at_receiver = n < flow.via.len() && flow.rcvbuf.is_some();
    let most = |node: &str, key: fn(&scenario::Node) -> Option<Bytes>| run.node(node).and_then(key);
    let send = most(hop.from, |node| node.tcp_wmem_max).unwrap_or(run.tcp.sndbuf);
    let receive = most(hop.to, |node| node.tcp_rmem_max).unwrap_or(run.tcp.rcvbuf);
    let sender = End { node: hop.from, key: "tcp_wmem_max", buffer: send, window: send };
    // Linux offers half of a receive buffer as the window.
    let window = receive.scale(0.5);
    let receiver = End { node: hop.to, key: "tcp_rmem_max", buffer: receive, window };
    [(sender, set_at_sender), (receiver, set_at_receiver)]
        .into_iter()
        .filter_map(|(end, is_set)| (!is_set).then_some(end))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use scenario::Scenario;

    fn lines(nodes: &str, flow: &str) -> Vec<String> {
        let text = format!(
            "title = \"t\"\n{nodes}\n[[link]]\nbetween = [\"server\", \"client\"]\nrate = \"1gbit\"\ndelay = \"40ms\"\n\
             [[flow]]\nfrom = \"server\"\nto = \"client\"\n{flow}"
        );
        small_buffers(&Scenario::parse(&text, "test", &[""; 0]).unwrap().runs)
    }

    const DEFAULT: &str =
        "duration = \"9s\"\n[[node]]\nname = \"server\"\n[[node]]\nname = \"client\"";

    #[test]
    fn default_buffers_are_less_than_a_long_fat_path() {
        let lines = lines(DEFAULT, "count = 4");
        assert_eq!(lines.len(), 2, "{lines:#?}");
        assert!(
            lines[0].starts_with("node \"client\": tcp_rmem_max of 6MB lets 3MB be under way"),
            "{lines:#?}"
        );
        let of_server = "holds 10.0 MB (1gbit, 80.0 ms): set tcp_wmem_max = \"41MB\"";
        assert!(lines[1].ends_with(of_server), "{lines:#?}");
    }

    /// Scenarios that people begin with.
    #[test]
    fn templates_cap_no_flow() {
        let page = include_str!("../../../../docs/scenario.md");
        let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
        let demo = include_str!("../../../../scenarios/demo.toml");
        let of = |text: &str, set: &[&str]| {
            small_buffers(&Scenario::parse(text, "template", set).unwrap().runs)
        };
        assert_eq!(of(example.unwrap(), &[]), [""; 0]);
        // The demo shows what a server with default settings is like, and says so.
        let of_demo = of(demo, &[]);
        assert!(
            of_demo.len() == 1 && of_demo[0].contains("node \"server\": tcp_wmem_max"),
            "{of_demo:?}"
        );
        for text in [
            include_str!("../../../../scenarios/parking-lot.toml"),
            include_str!("../../../../scenarios/queue-disciplines.toml"),
        ] {
            assert_eq!(of(text, &[]), [""; 0]);
        }
    }

    #[test]
    fn slow_program_needs_no_buffer_for_the_link() {
        assert_eq!(lines(DEFAULT, "app_rate = \"100mbit\""), [""; 0]);
        assert_eq!(lines(DEFAULT, "app_rate = \"900mbit\"").len(), 2);
    }

    #[test]
    fn sufficient_buffers_are_not_reported() {
        let nodes = "duration = \"9s\"\n[[node]]\nname = \"server\"\ntcp_wmem_max = \"41MB\"\n\
                     [[node]]\nname = \"client\"\ntcp_rmem_max = \"41MB\"";
        assert_eq!(lines(nodes, ""), [""; 0]);
        let timed = DEFAULT.replace("duration = \"9s\"\n", "");
        assert_eq!(
            lines(&timed, "bytes = \"2MB\""),
            [""; 0],
            "a transfer that is shorter than the buffer"
        );
    }
}
