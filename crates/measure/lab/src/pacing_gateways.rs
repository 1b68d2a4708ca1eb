// SPDX-License-Identifier: GPL-2.0-or-later
//! Classes of hosts in an emulated run: a gateway between a host's routes and each device behind which it
//! has bottlenecks, as [`wan::pacing_gateway`] is before a real device.
//!
//! ```text
//! programs ─▶ the host's routes ─▶ TUN device ─▶ gateway ─▶ the link's device ─▶ emulator
//! ```
//!
//! - All that the host sends over that link goes through the gateway: what is for nodes behind no bottleneck
//!   leaves between, as in the simulator.
//! - Gap frames keep packets apart, and the emulated link serialises them. So what the gateway's thread must
//!   do in time is only to be less than a millisecond late.
//! - Classes are not bounded, as in the simulator: senders' windows bound what waits. A packet that is lost
//!   on the way to the wire was on no link, so it makes the run not count.
//! - A gateway is a thread of this process, and its TUN device goes with the process, however that ends.

use crate::{
    error::LabError,
    pacing::{ETHERNET, direction, first_leg},
};
use host::Namespace;
use scenario::{Bottleneck, FlowPacing, Leg, Run};
use std::{
    collections::BTreeMap,
    io,
    net::IpAddr,
    os::{fd::AsFd, unix::net::UnixStream},
    thread::{self, JoinHandle},
};
use units::Bytes;
use wan::{
    Health, Wan,
    pacing_gateway::{Error, Gateway, GatewayClass, NextHop, Options, Summary},
};

/// What has classes: each host that bottlenecks are seen from, by its link that leads to them.
type Hosts<'r> = BTreeMap<(&'r str, usize), Host<'r>>;

struct Host<'r> {
    /// Where its packets leave it.
    first: Leg,
    bottlenecks: Vec<&'r Bottleneck>,
}

/// The gateways of a run, at work. They end when this is dropped.
pub struct Gateways(Vec<Working>);

struct Working {
    node: String,
    /// Closed when the gateway shall end.
    go_on: Option<UnixStream>,
    thread: Option<JoinHandle<Outcome>>,
}

type Outcome = Result<Summary, Error>;

/// A gateway that is no more.
pub struct Ended {
    node: String,
    outcome: Outcome,
}

impl Gateways {
    /// Puts a gateway before every device that needs one, and leads the host's packets into it.
    ///
    /// # Errors
    /// The machine lacks something, or the kernel refused.
    pub fn start(wan: &Wan, run: &Run) -> Result<Self, LabError> {
        let mut gateways = Self(Vec::new());
        for ((node, link), host) in hosts(run) {
            let options = options(wan, run, node, &host)?;
            let tun = options.tun.clone();
            gateways.0.push(Working::start(wan, node, options)?);
            wan.divert(run, node, link, &tun)?;
        }
        Ok(gateways)
    }

    /// Ends them; answers what they did.
    pub fn stop(mut self) -> Vec<Ended> {
        let ended = self.0.iter_mut().filter_map(|working| {
            Some(Ended { node: working.node.clone(), outcome: working.end()? })
        });
        ended.collect()
    }
}

impl Working {
    fn start(wan: &Wan, node: &str, options: Options) -> Result<Self, LabError> {
        let system = |error| LabError::system("start a gateway", error);
        let namespace = &wan.node(node)?.namespace;
        // The device is made where the namespace is, and so is whatever asks for it.
        let opened = namespace.run(|| Ok(Gateway::open(options))).map_err(system)?;
        let gateway = opened.map_err(|error| match error {
            Error::Lacks(what) => LabError::lacks(what),
            Error::Usage(reason) | Error::Failed(reason) => {
                LabError::Server { name: format!("the gateway of node {node}"), reason }
            }
        })?;
        let namespace =
            Namespace::of_process(std::process::id(), namespace.descriptor()).map_err(system)?;
        let (go_on, stop) = UnixStream::pair().map_err(system)?;
        let work = move || carry(&namespace, gateway, &stop);
        let thread = thread::Builder::new().name("gateway".into()).spawn(work).map_err(system)?;
        Ok(Self { node: node.to_owned(), go_on: Some(go_on), thread: Some(thread) })
    }

    fn end(&mut self) -> Option<Outcome> {
        drop(self.go_on.take());
        Some(self.thread.take()?.join().expect("a gateway's thread does not panic"))
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.end();
    }
}

/// Carries packets until the other end of `stop` is closed.
fn carry(namespace: &Namespace, gateway: Gateway, stop: &UnixStream) -> Outcome {
    let entered = namespace.run(|| Ok(gateway.run(stop.as_fd())));
    entered.unwrap_or_else(|error: io::Error| Err(Error::Failed(error.to_string())))
}

fn hosts(run: &Run) -> Hosts<'_> {
    let routes = run.routes();
    let mut hosts = Hosts::new();
    for bottleneck in run.bottlenecks.iter().filter(|_| run.pacing.classes) {
        // Its nodes are reached over one first link.
        let first = first_leg(&routes, &bottleneck.from, &bottleneck.to[0]);
        let new = || Host { first, bottlenecks: Vec::new() };
        let host = hosts.entry((bottleneck.from.as_str(), first.link)).or_insert_with(new);
        host.bottlenecks.push(bottleneck);
    }
    hosts
}

fn options(wan: &Wan, run: &Run, node: &str, host: &Host<'_>) -> Result<Options, LabError> {
    let (link, direction) = (host.first.link, direction(run, host.first));
    let classes = host.bottlenecks.iter().map(|bottleneck| {
        let mut behind = Vec::new();
        for to in &bottleneck.to {
            let to = wan.node(to)?;
            behind.extend([IpAddr::from(to.ipv4), IpAddr::from(to.ipv6)]);
        }
        let prefixes = behind.into_iter().map(Into::into).collect();
        Ok(GatewayClass { name: bottleneck.name.clone(), rate: bottleneck.rate, prefixes })
    });
    let classes = classes.collect::<Result<_, LabError>>()?;
    let ends = &run.links[link];
    let next = if ends.a == node { &ends.b } else { &ends.a };
    let next_hop = NextHop::Neighbour(wan.node(next)?.ipv4.into());
    Ok(Options {
        tun: format!("lhgw{link}"),
        line: direction.rate,
        overhead: Bytes::new(u64::from(direction.overhead) - ETHERNET),
        classes,
        queue: Bytes::new(u64::MAX),
        gap_frames: Some(run.pacing.max_frame),
        ..Options::of(&wan::device_name(link), next_hop)
    })
}

/// What of a run's classes a gateway can't do: whose, and why.
pub fn lacking(run: &Run) -> Vec<(String, String)> {
    let (routes, hosts) = (run.routes(), hosts(run));
    let mut lacking = Vec::new();
    for Host { first, bottlenecks } in hosts.values() {
        let name = &bottlenecks[0].name;
        if u64::from(direction(run, *first).overhead) < ETHERNET {
            let what = format!(
                "classes take an overhead of 14 or more on link \"{}\": gap frames have an Ethernet \
                 header",
                run.links[first.link].name
            );
            lacking.push((format!("bottleneck {name}"), what));
        }
    }
    for flow in &run.flows {
        for hop in flow.hops() {
            let Leg { link, .. } = first_leg(&routes, hop.from, hop.to);
            let paced =
                matches!(hop.pacing, FlowPacing::Gap | FlowPacing::Edt | FlowPacing::Rate(_));
            if paced && hosts.contains_key(&(hop.from, link)) {
                let what = "pacing in addition to classes: a packet that a gateway sends has no socket to \
                            pace it; let its bottleneck's class pace it, or set \
                            pacing.classes=false";
                lacking.push((format!("flow {}, from {}", flow.name, hop.from), what.to_owned()));
            }
        }
    }
    lacking
}

/// Why what they did makes the run not count; empty if it does.
pub fn faults(gateways: &[Ended]) -> Vec<String> {
    let faults = gateways.iter().flat_map(|Ended { node, outcome }| {
        let faults = match outcome {
            Ok(summary) => faults_of(summary),
            Err(error) => vec![format!("the gateway ended before the run did: {error}")],
        };
        faults.into_iter().map(move |fault| format!("node {node}: {fault}"))
    });
    faults.collect()
}

fn faults_of(summary: &Summary) -> Vec<String> {
    let dropped: u64 = summary.classes.iter().map(|class| class.dropped_packets).sum();
    let drops = [
        (dropped, "packets were dropped by the gateway"),
        (summary.tun_dropped.unwrap_or(0), "packets were lost before the gateway could read them"),
    ];
    let mut faults: Vec<String> = (drops.iter().filter(|(count, _)| *count > 0))
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if summary.stalled_s > summary.seconds * Health::MAX_STARVED_SHARE {
        faults.push(format!(
            "the wire ran dry for {:.1} % of {:.1} s because the gateway was late (limit {} %)",
            summary.stalled_s / summary.seconds * 100.0,
            summary.seconds,
            Health::MAX_STARVED_SHARE * 100.0,
        ));
    }
    faults
}

/// What they did, for the record: what `longhaul pace gateway --json` prints, and the node.
pub fn on_record(gateways: &[Ended]) -> serde_json::Value {
    let summaries = gateways.iter().filter_map(|Ended { node, outcome }| {
        let mut figures = serde_json::to_value(outcome.as_ref().ok()?).expect("plain data");
        figures["node"] = node.as_str().into();
        Some(figures)
    });
    summaries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wan::pacing_gateway::ClassSummary;

    const SOUND: Summary = Summary {
        device: String::new(),
        line_bps: 1,
        seconds: 10.0,
        classes: Vec::new(),
        gap_frames: 1,
        gap_link_bytes: 1,
        not_carried: 1,
        tun_dropped: Some(0),
        stalls: 3,
        stalled_s: 0.09,
        device_full: 0,
    };

    #[test]
    fn run_with_gateway_losses_or_stalls_is_invalid() {
        let class = ClassSummary { left_packets: 7, ..ClassSummary::default() };
        let dropped = ClassSummary { dropped_packets: 2, ..class.clone() };
        let of = |outcome| faults(&[Ended { node: "host".to_owned(), outcome }]).join("; ");
        assert_eq!(of(Ok(Summary { classes: vec![class], ..SOUND })), "");
        for (outcome, fault) in [
            (Ok(Summary { classes: vec![dropped], ..SOUND }), "2 packets were dropped"),
            (Ok(Summary { tun_dropped: Some(1), ..SOUND }), "1 packets were lost before"),
            (Ok(Summary { stalled_s: 0.11, ..SOUND }), "ran dry for 1.1 % of 10.0 s"),
            (Err(Error::Failed("wan0: gone".to_owned())), "ended before the run did: wan0: gone"),
        ] {
            let said = of(outcome);
            assert!(said.starts_with("node host: ") && said.contains(fault), "{said}");
        }
    }
}
