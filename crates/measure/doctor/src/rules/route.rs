// SPDX-License-Identifier: GPL-2.0-or-later
//! Metrics of the route that hold connections down (ip-route(8)).

use crate::{
    Target,
    change::Change,
    facts::Facts,
    finding::{Direction, Finding, Gain, Remedy, Scope},
    limits,
    rule::{Check, Rule, finding},
};

pub const RULES: &[Rule] = &[
    Rule {
        id: "route-window",
        about: "a window on the route",
        source: SOURCE,
        check: Check::Facts(window),
    },
    Rule {
        id: "route-cwnd",
        about: "a locked congestion window on the route",
        source: "ip-route(8); Linux, tcp_metrics; crate model",
        check: Check::Facts(cwnd),
    },
    Rule {
        id: "route-initcwnd",
        about: "a first window below ten segments",
        source: "RFC 6928; ip-route(8)",
        check: Check::Facts(initcwnd),
    },
    Rule {
        id: "route-mtu",
        about: "small packets on the route",
        source: SOURCE,
        check: Check::Facts(mtu),
    },
    Rule {
        id: "route-advmss",
        about: "small segments that the route announces",
        source: SOURCE,
        check: Check::Facts(advmss),
    },
];

const SOURCE: &str = "ip-route(8); crate model";
/// The first window of RFC 6928.
const INITIAL: u64 = 10;
/// Packets and segments that a tunnel leaves of usual ones.
const LEAST_MTU: u64 = 1280;
const LEAST_SEGMENT: u64 = 1220;

/// A finding about the route's metric of that name, if its value is wrong.
fn metric(
    facts: &Facts,
    name: &str,
    is_wrong: impl Fn(u64) -> bool,
    direction: Direction,
    cause: impl Fn(u64) -> String,
) -> Option<Finding> {
    let route = facts.host.route.as_ref()?;
    let value = route.number(name).filter(|value| is_wrong(*value))?;
    Some(finding! {
        cause: cause(value),
        evidence: format!("the route is \"{}\"", route.text),
        scope: Scope::Always,
        direction: direction,
        remedy: Remedy::Changes(vec![Change::Route { words: route.without(name).text, before: route.text.clone() }]),
        gain: Gain::Modelled,
    })
}

fn window(facts: &Facts, _: &Target) -> Option<Finding> {
    let window = limits::route_window(facts)?;
    let cause = |_| format!("the route holds the receive window to {window}");
    metric(facts, "window", |_| true, Direction::Receive, cause)
}

fn cwnd(facts: &Facts, _: &Target) -> Option<Finding> {
    limits::locked_window(facts)?;
    let cause = |value| {
        format!(
            "the route holds the congestion window to {value} segments, in all connections to a peer but the first"
        )
    };
    metric(facts, "cwnd", |_| true, Direction::Send, cause)
}

fn initcwnd(facts: &Facts, _: &Target) -> Option<Finding> {
    let cause = |value| format!("connections begin with {value} segments instead of {INITIAL}");
    metric(facts, "initcwnd", |value| (1..INITIAL).contains(&value), Direction::Send, cause)
}

fn mtu(facts: &Facts, _: &Target) -> Option<Finding> {
    let cause = |value| {
        format!(
            "the route has packets of {value} bytes: headers take more of each, and each loss costs more of the window"
        )
    };
    metric(facts, "mtu", |value| (1..LEAST_MTU).contains(&value), Direction::Both, cause)
}

fn advmss(facts: &Facts, _: &Target) -> Option<Finding> {
    let cause = |value| format!("this host asks for segments of {value} bytes at most");
    // One that is there because larger packets vanish is right.
    metric(facts, "advmss", |value| (1..LEAST_SEGMENT).contains(&value), Direction::Receive, cause)
}
