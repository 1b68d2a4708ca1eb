// SPDX-License-Identifier: GPL-2.0-or-later
//! Pacing of an emulated run: the kernel's program for gap frames or departure times at every device that a
//! paced hop's packets leave by, and the one that asks TCP to pace by itself, since stock servers don't.

use crate::{error::LabError, servers::FlowPlan, stage::Stage};
use kernel::pace::{self, DevicePacer, Frames, Match, Method, Options, Rule, SocketPacer, Target};
use scenario::{Direction, FlowPacing, Leg, Routes, Run};
use std::{collections::BTreeMap, io, num::NonZeroU16};
use units::Bytes;

/// An Ethernet header: what a frame has beyond its IP packet.
pub const ETHERNET: u64 = 14;

/// The programs of a run, each with its node. Dropping it takes them down.
pub struct Pacers {
    injectors: Vec<(String, DevicePacer)>,
    sockets: Vec<(String, SocketPacer)>,
}

impl Pacers {
    /// Attaches what a run asks for.
    ///
    /// # Errors
    /// The machine lacks something, or the kernel refused.
    pub fn attach(stage: &dyn Stage, run: &Run, plans: &[FlowPlan]) -> Result<Self, LabError> {
        let routes = run.routes();
        let mut devices: BTreeMap<(&str, usize), Options> = BTreeMap::new();
        let mut senders: BTreeMap<&str, Vec<Match>> = BTreeMap::new();
        for plan in plans {
            let hops = plan.flow.hops().zip(&plan.hops);
            for (hop, place) in hops.filter(|(hop, _)| stage.has(hop.from)) {
                let matches = Match {
                    destination: Some(place.peer.into()),
                    to_port: None,
                    from_port: NonZeroU16::new(place.local.port()),
                };
                let target = match hop.pacing {
                    FlowPacing::None => continue,
                    FlowPacing::Tcp => {
                        senders.entry(hop.from).or_default().push(matches);
                        continue;
                    }
                    FlowPacing::Gap | FlowPacing::Edt => Target::Auto(run.pacing.estimator()),
                    FlowPacing::Rate(rate) => Target::Rate(rate),
                };
                let first = first_leg(&routes, hop.from, hop.to);
                let method = method(hop.pacing);
                let options = devices.entry((hop.from, first.link)).or_insert_with(|| Options {
                    device: wan::device_name(first.link),
                    rules: Vec::new(),
                    frames: frames(run, direction(run, first), method),
                    method: Some(method),
                });
                options.rules.push(Rule { matches, target });
            }
        }
        let devices = devices.into_iter();
        let injectors = devices.map(|((node, _), o)| at(stage, node, || inject(&o)));
        let senders = senders.into_iter();
        let sockets =
            senders.map(|(node, matches)| at(stage, node, || SocketPacer::attach(&matches)));
        Ok(Self {
            injectors: injectors.collect::<Result<_, _>>()?,
            sockets: sockets.collect::<Result<_, _>>()?,
        })
    }

    /// Why what they did makes the run not count; empty if it does.
    ///
    /// # Errors
    /// The kernel doesn't tell.
    pub fn faults(&self) -> Result<Vec<String>, LabError> {
        let mut faults = Vec::new();
        for (node, injector) in &self.injectors {
            let counts = injector.counts()?;
            for (count, what) in [
                (counts.lock_failures, "packets left without their gap"),
                (counts.lost_gap_bytes, "bytes of gaps found no room in the device's queue"),
                (counts.lost_packets, "paced packets found no room in the device's queue"),
                (counts.beyond_horizon, "packets would have left too late and were dropped"),
            ] {
                if count > 0 {
                    faults.push(format!("node {node}: {count} {what}"));
                }
            }
        }
        for (node, sockets) in &self.sockets {
            if sockets.paced_sockets()? == 0 {
                faults.push(format!("node {node}: TCP was asked to pace no socket"));
            }
        }
        Ok(faults)
    }
}

/// The device is the run's own, so it is given what it takes.
fn inject(options: &Options) -> Result<DevicePacer, kernel::Error> {
    if options.method == Some(Method::EDT) {
        pace::install_fq(&options.device)?;
    }
    DevicePacer::attach(options)
}

/// Attaches something in a node: programs are for the devices and sockets of where that is done.
fn at<T: Send>(
    stage: &dyn Stage,
    node: &str,
    attach: impl FnOnce() -> Result<T, kernel::Error> + Send,
) -> Result<(String, T), LabError> {
    let attached = stage.namespace(node)?.run(|| Ok::<_, io::Error>(attach()));
    Ok((node.to_owned(), attached.map_err(|e| LabError::system("enter a node", e))??))
}

/// Where packets for another node leave one.
pub fn first_leg(routes: &Routes, from: &str, to: &str) -> Leg {
    routes.legs(from, to).expect("a checked path")[0]
}

/// That leg's direction of its link.
pub fn direction(run: &Run, leg: Leg) -> &Direction {
    run.links[leg.link].direction(leg.heading)
}

/// What keeps the packets of a hop apart that is not paced by TCP.
fn method(pacing: FlowPacing) -> Method {
    if pacing == FlowPacing::Edt { Method::EDT } else { Method::Gap }
}

fn frames(run: &Run, direction: &Direction, method: Method) -> Frames {
    let overhead = u64::from(direction.overhead).saturating_sub(ETHERNET);
    let of_gaps = method == Method::Gap;
    Frames {
        line: direction.rate,
        overhead: Some(Bytes::new(overhead)),
        max_gap: of_gaps.then_some(run.pacing.max_gap),
        max_frame: of_gaps.then_some(run.pacing.max_frame),
    }
}

/// What of a run's pacing real programs and this kernel can't do: whose, and why.
pub fn lacking(run: &Run) -> Vec<(String, String)> {
    let routes = run.routes();
    let mut lacking = Vec::new();
    let mut methods = BTreeMap::new();
    for flow in &run.flows {
        for hop in flow.hops() {
            let mut refuse = |what: &str| {
                let subject = format!("flow {}, from {}", flow.name, hop.from);
                lacking.push((subject, format!("pacing {what}")));
            };
            if matches!(hop.pacing, FlowPacing::None | FlowPacing::Tcp) {
                continue;
            }
            let (method, first) = (method(hop.pacing), first_leg(&routes, hop.from, hop.to));
            match method {
                Method::Edt { .. } if methods.values().all(|other| *other != method) => {
                    if let Some(lack) = pace::lacking(method, None) {
                        refuse(&format!("edt: {lack}"));
                    }
                }
                Method::Edt { .. } => {}
                Method::Gap => {
                    if u64::from(direction(run, first).overhead) < ETHERNET {
                        refuse(
                            "takes an overhead of 14 or more on the first link: gap frames \
                             have an Ethernet header",
                        );
                    }
                }
            }
            if *methods.entry((hop.from, first.link)).or_insert(method) != method {
                refuse("edt and gap frames cannot share a device");
            }
        }
    }
    lacking
}
