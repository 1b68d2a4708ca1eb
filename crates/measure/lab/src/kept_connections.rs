// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections that a scenario expects to be grown when a flow takes them over, and that are not: their sender lets the
//! window fall while they idle, or nothing keeps them.

use scenario::{Flow, Run};
use std::collections::BTreeSet;

/// Whether a sender that was idle for a timeout begins at its initial window again; Linux's default is "1".
const RESTART: &str = "net.ipv4.tcp_slow_start_after_idle";

/// A line for each node that lets windows of warm connections fall, and for each flow after one that leaves no connections.
pub fn ungrown_connections(runs: &[Run]) -> Vec<String> {
    let mut lines = BTreeSet::new();
    for run in runs {
        for flow in &run.flows {
            lines.extend(without_depot(flow));
            if flow.warm > 0 {
                lines.extend(
                    kept_senders(flow).filter(|node| restarts(run, node)).map(fallen_window),
                );
            }
        }
    }
    lines.into_iter().collect()
}

/// The senders of connections that depots keep, which are all but the last one, the client's. BBR's windows do not fall.
fn kept_senders(flow: &Flow) -> impl Iterator<Item = &str> {
    let kept = flow.hops().take(flow.via.len());
    kept.filter(|hop| hop.cc.trim_start_matches("lh_") != "bbr").map(|hop| hop.from)
}

fn restarts(run: &Run, node: &str) -> bool {
    run.node(node).and_then(|node| node.sysctl.get(RESTART)).is_none_or(|value| value != "0")
}

fn fallen_window(node: &str) -> String {
    format!(
        "node \"{node}\" sends over warm connections, and {RESTART} is on: their windows fall to the initial one while \
         they idle. To keep them: sysctl = {{ \"{RESTART}\" = \"0\" }}"
    )
}

fn without_depot(flow: &Flow) -> Option<String> {
    let before = flow.after.as_ref().filter(|_| flow.via.is_empty())?;
    Some(format!(
        "flow \"{}\" comes after \"{before}\" without a depot, and only depots keep connections: it opens new ones. To take \
         over grown ones, give both flows the same via",
        flow.name
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use scenario::Scenario;

    /// Two flows over a depot, or without one, with this table of the depot and these keys of the second flow.
    fn lines(depot: &str, via: &str, second: &str) -> Vec<String> {
        let flow =
            format!("[[flow]]\nfrom = \"server\"\nto = \"client\"\nbytes = \"1MB\"\n{via}\n");
        let text = format!(
            "title = \"t\"\n[[node]]\nname = \"server\"\n[[node]]\nname = \"depot\"\n{depot}\n[[node]]\nname = \"client\"\n\
             [[link]]\nbetween = [\"server\", \"depot\"]\nrate = \"1gbit\"\ndelay = \"40ms\"\n\
             [[link]]\nbetween = [\"depot\", \"client\"]\nrate = \"1gbit\"\ndelay = \"1ms\"\n\
             {flow}name = \"first\"\n{flow}name = \"second\"\n{second}"
        );
        ungrown_connections(&Scenario::parse(&text, "test", &[""; 0]).unwrap().runs)
    }

    const VIA: &str = "via = [\"depot\"]";

    #[test]
    fn warm_connections_of_senders_that_restart_are_named() {
        let warm = format!("{VIA}\nwarm = 2");
        let found = lines("", &warm, "");
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].starts_with("node \"server\" sends over warm connections"), "{found:#?}");
        assert_eq!(lines("", VIA, ""), [""; 0]);
        let bbr = format!("{warm}\ncc = \"bbr\"");
        assert_eq!(lines("", &bbr, ""), [""; 0]);
        let off = format!("sysctl = {{ \"{RESTART}\" = \"0\" }}");
        assert_eq!(lines(&off, &warm, "").len(), 1, "the depot's last hop is the client's");
    }

    #[test]
    fn flow_after_another_without_depot_is_named() {
        let found = lines("", "", "after = \"first\"");
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].starts_with("flow \"second\" comes after \"first\" without a depot"));
        assert_eq!(lines("", VIA, "after = \"first\""), [""; 0]);
    }
}
