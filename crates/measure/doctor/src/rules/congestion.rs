// SPDX-License-Identifier: GPL-2.0-or-later
//! The congestion control of what this host sends.

use crate::{
    Target,
    change::Change,
    facts::{Facts, KernelVersion},
    finding::{Direction, Finding, Gain, Remedy, Scope},
    limits,
    rule::{Check, Rule, finding},
};

pub const RULES: &[Rule] = &[
    Rule {
        id: "congestion-control",
        about: "a congestion control that is not for long fat networks",
        source: "RFC 9438 section 5; crate model",
        check: Check::Facts(congestion_control),
    },
    Rule {
        id: "loss-and-window",
        about: "CUBIC over a path with losses, where BBR is there",
        source: "RFC 9438; Cardwell et al. 2016; crate model",
        check: Check::Facts(loss_and_window),
    },
    Rule {
        id: "unpaced-bbr",
        about: "BBR without fq before Linux 4.13",
        source: "Linux 4.13, \"tcp: internal implementation for pacing\"",
        check: Check::Facts(unpaced_bbr),
    },
    Rule {
        id: "remembered-threshold",
        about: "a slow-start threshold that the kernel remembers of the peer",
        source: "Linux, tcp_metrics",
        check: Check::Facts(remembered_threshold),
    },
];

const KEY: &str = "net.ipv4.tcp_congestion_control";
/// Those that fill a long fat network or have a reason of their own to be chosen.
const FIT: [&str; 7] = ["cubic", "bbr", "bbr2", "bbr3", "htcp", "bic", "scalable"];
/// Losses above what is assumed of any path.
const LOSSY: f64 = 1.5e-6;

/// The best one that this host may choose.
fn better(facts: &Facts, from: &[&'static str]) -> Option<&'static str> {
    let settings = &facts.host.settings;
    let has = |key: &str, name: &str| {
        settings.get(key).is_some_and(|names| names.split(' ').any(|it| it == name))
    };
    let keys =
        ["net.ipv4.tcp_allowed_congestion_control", "net.ipv4.tcp_available_congestion_control"];
    keys.iter().find_map(|key| from.iter().copied().find(|name| has(key, name)))
}

fn congestion_control(facts: &Facts, _: &Target) -> Option<Finding> {
    let current = limits::congestion(facts, Direction::Send);
    if FIT.contains(&current) || current.starts_with("lh_") && current != "lh_reno" {
        return None;
    }
    let better = better(facts, &["cubic", "bbr"])?;
    let route = facts.host.route.as_ref().filter(|route| route.value("congctl").is_some());
    let change = match route {
        Some(route) => {
            Change::Route { words: route.without("congctl").text, before: route.text.clone() }
        }
        None => Change::setting(KEY, better),
    };
    Some(finding! {
        cause: format!("{current} grows too slowly, or backs off too early, for large windows"),
        evidence: match route {
            Some(route) => format!("the route is \"{}\"", route.text),
            None => format!("{KEY} is {current}"),
        },
        scope: Scope::Always,
        direction: Direction::Send,
        remedy: Remedy::Changes(vec![change]),
        gain: match current {
            "reno" | "lh_reno" => Gain::Modelled,
            _ => Gain::NoForm("no closed form is known for it"),
        },
    })
}

fn loss_and_window(facts: &Facts, target: &Target) -> Option<Finding> {
    let current = limits::congestion(facts, Direction::Send);
    if current != "cubic" || target.loss.get() < LOSSY {
        return None;
    }
    let better = better(facts, &["bbr"])?;
    Some(finding! {
        cause: format!("{current} takes each loss for congestion, and this path loses packets"),
        evidence: format!("{KEY} is {current}, and the path loses {}", target.loss),
        scope: Scope::Always,
        direction: Direction::Send,
        remedy: Remedy::Changes(vec![Change::setting(KEY, better)]),
        gain: Gain::Modelled,
    })
}

fn unpaced_bbr(facts: &Facts, _: &Target) -> Option<Finding> {
    let device = facts.host.device.as_ref()?;
    let is_old = facts.host.kernel? < KernelVersion::new(4, 13, 0);
    let current = limits::congestion(facts, Direction::Send);
    (current == "bbr" && is_old && device.discipline.kind != "fq").then(|| finding! {
        cause: "BBR needs the discipline fq on this kernel, which does not pace by itself".to_owned(),
        evidence: format!("{} has {}", device.name, device.discipline.kind),
        scope: Scope::Always,
        direction: Direction::Send,
        remedy: Remedy::Changes(vec![Change::Discipline { device: device.name.clone(), words: "fq".to_owned() }]),
        gain: Gain::NoForm("no closed form has BBR without pacing"),
    })
}

fn remembered_threshold(facts: &Facts, target: &Target) -> Option<Finding> {
    let ssthresh = facts.host.remembered_ssthresh.filter(|_| limits::remembers(facts))?;
    let payload = limits::segment(facts, Direction::Send).0;
    let product = target.product(Direction::Send).get() / payload.get();
    if u64::from(ssthresh) >= product {
        return None;
    }
    let key = "net.ipv4.tcp_no_ssthresh_metrics_save";
    let old = "net.ipv4.tcp_no_metrics_save";
    let key = if facts.host.settings.contains_key(key) { key } else { old };
    Some(finding! {
        cause: format!("an earlier connection to this peer left a threshold of {ssthresh} segments: slow start ends there"),
        evidence: format!("ip tcp_metrics shows ssthresh {ssthresh}; the path holds {product} segments"),
        scope: Scope::Always,
        direction: Direction::Send,
        remedy: Remedy::Changes(vec![Change::setting(key, 1)]),
        gain: Gain::Modelled,
    })
}
