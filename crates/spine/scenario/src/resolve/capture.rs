// SPDX-License-Identifier: GPL-2.0-or-later
//! Captures of nodes: whether there is anything to capture, and how much of it is kept.

use super::names::first_faults;
use crate::{
    diagnostics::Problems,
    network::{CaptureSpec, NetworkSpec},
    run::{Capture, Family},
};

/// Each capture of an emulated run has a ring of packets in the kernel and a thread.
const MOST_CAPTURES: usize = 16;

pub(super) fn check(spec: &NetworkSpec, problems: &Problems) {
    first_faults(&spec.nodes, problems, |node| {
        let Some(capture) = &node.capture else { return };
        let name = node.name.as_str();
        let has_link =
            spec.links.iter().flat_map(|link| &link.ends).any(|end| end.value.as_str() == name);
        if !has_link {
            let message = format!(
                "node \"{name}\", capture: no [[link]] leads to this node, so no packet passes it; leave capture out"
            );
            problems.report(&capture.location, message);
        }
    });
    let mut captures = spec.nodes.iter().filter_map(|node| node.capture.as_ref());
    if let Some(capture) = captures.nth(MOST_CAPTURES) {
        let message = format!("capture: more than {MOST_CAPTURES} nodes; capture fewer");
        problems.report(&capture.location, message);
    }
}

pub(super) fn of_node(spec: &CaptureSpec, family: Family) -> Capture {
    Capture {
        snap: spec.snap.unwrap_or_else(|| Capture::default_snap(family)),
        limit: spec.limit.unwrap_or(Capture::DEFAULT_LIMIT),
    }
}
