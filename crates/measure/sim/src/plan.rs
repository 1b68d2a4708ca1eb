// SPDX-License-Identifier: GPL-2.0-or-later
//! From a run to what the simulator needs of it: link directions, paths, each connection's settings. What it
//! can't do is refused here, by name.

use crate::network::Network;
use congestion::Params;
use experiment::congestion_controls::params;
use netmodel::{Link, pacing};
use scenario::{Flow, FlowPacing, PathLimits, Profile, Routes, Run, Traffic};
use std::{collections::BTreeMap, num::NonZeroU64};
use units::{Bytes, Duration, Rate};

/// Why a scenario can't be simulated: everything that is in the way, each named with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct Unsupported(Vec<String>);

impl Unsupported {
    fn one(problem: String) -> Self {
        Self(vec![problem])
    }

    /// Each by itself.
    pub fn problems(&self) -> &[String] {
        &self.0
    }

    /// All results, or all that is in the way of any of them.
    pub(crate) fn gather<T>(
        results: impl IntoIterator<Item = Result<T, Self>>,
    ) -> Result<Vec<T>, Self> {
        let (mut all, mut problems) = (Vec::new(), Vec::new());
        for result in results {
            match result {
                Ok(one) => all.push(one),
                Err(Self(more)) => problems.extend(more),
            }
        }
        if problems.is_empty() { Ok(all) } else { Err(Self(problems)) }
    }
}

/// A kernel setting that changes nothing for one connection on its own.
const NO_METRICS_SAVE: &str = "net.ipv4.tcp_no_metrics_save";
/// Whether an algorithm that does not set the window at each acknowledgement restarts slow start after an idle time:
/// "0" or "1".
const SLOW_START_AFTER_IDLE: &str = "net.ipv4.tcp_slow_start_after_idle";

/// Settings of a connection.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionPlan {
    pub(crate) from: String,
    pub(crate) to: String,
    /// The congestion control as the scenario names it.
    pub(crate) cc: String,
    pub(crate) params: Params,
    pub(crate) forward: u32,
    pub(crate) backward: u32,
    /// Bytes of payload in a full segment.
    pub(crate) mss: u32,
    pub(crate) sndbuf: Bytes,
    pub(crate) rcvbuf: Bytes,
    /// What the path gives at best.
    pub(crate) limits: PathLimits,
    /// Segments of one GSO packet that its receiver gets in one frame.
    pub(crate) frame: u32,
    pub(crate) pace: SenderPacing,
    pub(crate) slow_start_after_idle: bool,
}

/// What spaces a sender's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SenderPacing {
    /// Nothing but its congestion control.
    None,
    /// TCP itself.
    Tcp,
    /// Gap frames at an estimated rate; what a packet takes on the link beyond its IP length; bytes a
    /// second of that link.
    Gap(pacing::Params, u32, u64),
    /// Times of departure at an estimated rate; and the same.
    Edt(pacing::Params, u32, u64),
    /// Gap frames at this many bytes a second, which it shares with others of that number.
    Fixed(u64, NonZeroU64),
}

/// Makes link directions and paths.
pub(crate) struct Planner<'r> {
    run: &'r Run,
    routes: Routes,
    pub(crate) network: Network,
    /// By their ends, and whether what they carry is background.
    paths: BTreeMap<(String, String, bool), u32>,
}

impl<'r> Planner<'r> {
    pub(crate) fn new(run: &'r Run) -> Self {
        let network = Network::new(run.directed_links().map(|direction| {
            let (rate, overhead) = (direction.config.nominal_rate(), direction.config.overhead);
            let frames = rate.map(|rate| run.pacing.frames(rate, overhead));
            (Link::new(direction.config), frames)
        }));
        Self { run, routes: run.routes(), network, paths: BTreeMap::new() }
    }

    /// The hops of a flow in the direction of the data, each with what its connections are like.
    pub(crate) fn hops(&mut self, flow: &Flow) -> Result<Vec<ConnectionPlan>, Unsupported> {
        let last = flow.via.len();
        let hops = flow.hops().enumerate();
        Unsupported::gather(hops.map(|(n, hop)| {
            let mut plan = self.hop(hop.from, hop.to, hop.cc, flow.reverse)?;
            plan.pace = self.pace(flow, &hop, plan.forward);
            // The kernel doubles what a program asks for, to allow for its own overhead.
            if let (1.., Some(size)) = (n, flow.sndbuf) {
                plan.sndbuf = size.scale(2.0);
            }
            if n < last
                && let Some(size) = flow.rcvbuf
            {
                plan.rcvbuf = size.scale(2.0);
            }
            Ok(plan)
        }))
    }

    /// What spaces the packets of a flow's hop.
    fn pace(&self, flow: &Flow, hop: &scenario::Hop<'_>, path: u32) -> SenderPacing {
        let params = self.run.pacing.estimator().params();
        let link = self.network.first_link(path).config();
        let overhead = link.overhead.get() as u32;
        let line = link.nominal_rate().map_or(0, |rate| rate.bps() / 8);
        match hop.pacing {
            FlowPacing::None => SenderPacing::None,
            FlowPacing::Tcp => SenderPacing::Tcp,
            FlowPacing::Gap => SenderPacing::Gap(params, overhead, line),
            FlowPacing::Edt => SenderPacing::Edt(params, overhead, line),
            FlowPacing::Rate(rate) => SenderPacing::Fixed(rate.bps() / 8, self.number(flow)),
        }
    }

    /// Once all paths are known: gives hosts their classes.
    pub(crate) fn set_classes(&mut self) {
        let mut hosts = BTreeMap::<u32, (Vec<Rate>, Vec<(u32, u16)>)>::new();
        for bottleneck in self.run.bottlenecks.iter().filter(|_| self.run.pacing.classes) {
            let of = |to: &String| {
                [false, true].map(|background| {
                    self.paths.get(&(bottleneck.from.clone(), to.clone(), background)).copied()
                })
            };
            let paths: Vec<u32> = bottleneck.to.iter().flat_map(of).flatten().collect();
            // Without a path, no flow sends to it.
            let Some(first) = paths.first() else { continue };
            let (rates, classes) = hosts.entry(self.network.first_direction(*first)).or_default();
            classes.extend(paths.iter().map(|path| (*path, rates.len() as u16)));
            rates.push(bottleneck.rate);
        }
        for (direction, (rates, paths)) in hosts {
            self.network.set_classes(direction, &rates, &paths);
        }
    }

    /// What the gaps of a flow's streams are told from others' by: connections have smaller numbers.
    fn number(&self, flow: &Flow) -> NonZeroU64 {
        let at = self.run.flows.iter().position(|other| other.name == flow.name);
        let number = (1 << 32) + at.expect("it is one of the run's") as u64;
        NonZeroU64::new(number).expect("above 2^32")
    }

    /// The connection of a traffic source.
    pub(crate) fn traffic(&mut self, traffic: &Traffic) -> Result<ConnectionPlan, Unsupported> {
        self.hop(&traffic.from, &traffic.to, &traffic.cc, true)
    }

    /// A connection that carries data from one node to another; background is counted apart.
    pub(crate) fn hop(
        &mut self,
        from: &str,
        to: &str,
        cc: &str,
        is_background: bool,
    ) -> Result<ConnectionPlan, Unsupported> {
        let forward = self.path(from, to, is_background)?;
        let backward = self.path(to, from, is_background)?;
        let limits =
            self.run.path_limits(&self.routes, from, to).expect("there are paths both ways");
        let (mtu, header) = (limits.mtu.get() as u32, self.run.tcp.header);
        if mtu <= header {
            return Err(Unsupported::one(format!(
                "from {from} to {to}: a segment with headers of {header} bytes does not fit an MTU of {mtu}"
            )));
        }
        let node = |name| self.run.node(name).expect("a checked scenario's flows join its nodes");
        let tcp = &self.run.tcp;
        Ok(ConnectionPlan {
            from: from.to_owned(),
            to: to.to_owned(),
            cc: cc.to_owned(),
            params: params(self.run, cc).map_err(|error| Unsupported::one(error.to_string()))?,
            forward,
            backward,
            mss: mtu - header,
            sndbuf: node(from).tcp_wmem_max.unwrap_or(tcp.sndbuf),
            rcvbuf: node(to).tcp_rmem_max.unwrap_or(tcp.rcvbuf),
            limits,
            frame: self.frame(forward),
            pace: if tcp.pacing { SenderPacing::Tcp } else { SenderPacing::None },
            slow_start_after_idle: node(from)
                .sysctl
                .get(SLOW_START_AFTER_IDLE)
                .is_none_or(|value| value != "0"),
        })
    }

    /// How many segments of a GSO packet arrive in one frame at the end of a path, as by the emulator: those
    /// that each link serialises within its `max_burst`.
    fn frame(&self, path: u32) -> u32 {
        if self.run.tcp.profile == Profile::Ns2 {
            return 1;
        }
        let of_direction = |&number: &u32| {
            let link = &self.run.links[(number / 2) as usize];
            let direction = if number.is_multiple_of(2) { &link.forward } else { &link.backward };
            let segment = u64::from(direction.mtu + direction.overhead) * 8;
            match (direction.max_burst, direction.rate) {
                (Duration::ZERO, _) => 1,
                (_, None) => u32::MAX,
                (burst, Some(rate)) => {
                    let bits =
                        u128::from(burst.as_nanos()) * u128::from(rate.bps()) / 1_000_000_000;
                    u32::try_from(bits / u128::from(segment)).unwrap_or(u32::MAX).max(1)
                }
            }
        };
        self.network.directions_of(path).iter().map(of_direction).min().unwrap_or(1)
    }

    /// The path from one node to another.
    fn path(&mut self, from: &str, to: &str, is_background: bool) -> Result<u32, Unsupported> {
        let key = (from.to_owned(), to.to_owned(), is_background);
        if let Some(path) = self.paths.get(&key) {
            return Ok(*path);
        }
        let links = self.routes.path(from, to).ok_or_else(|| {
            Unsupported::one(format!(
                "no links lead from {from} to {to}, but connections need both ways"
            ))
        })?;
        let mut at = from;
        let mut directions = Vec::with_capacity(links.len());
        for link in links {
            let Some(ends) = self.run.links.get(link) else { continue };
            let forward = ends.a == at;
            at = if forward { &ends.b } else { &ends.a };
            directions.push((2 * link + usize::from(!forward)) as u32);
        }
        let path = self.network.add_path(&directions);
        if is_background {
            self.network.background_paths.push(path);
        }
        self.paths.insert(key, path);
        Ok(path)
    }
}

/// What a run's nodes ask for that is not simulated.
pub(crate) fn check(run: &Run) -> Result<(), Unsupported> {
    let settings =
        run.nodes.iter().flat_map(|node| node.sysctl.keys().map(move |name| (node, name)));
    let unknown = settings.filter_map(|(node, name)| {
        let value = node.sysctl[name].as_str();
        let what = match (name.as_str(), value) {
            (NO_METRICS_SAVE, _) | (SLOW_START_AFTER_IDLE, "0" | "1") => return None,
            (SLOW_START_AFTER_IDLE, _) => {
                format!("{name} = \"{value}\" is neither \"0\" nor \"1\"")
            }
            _ => format!("{name} is not simulated; [tcp] has what is, or use --method emu"),
        };
        Some(Err(Unsupported::one(format!("node \"{}\": the kernel setting {what}", node.name))))
    });
    Unsupported::gather(unknown.chain(others_control(run).into_iter().map(Err)))
        .map(|_: Vec<()>| ())
}

/// Flows that ask for something else than what the connections that they take over have.
fn others_control(run: &Run) -> Vec<Unsupported> {
    let of_flow = |flow: &Flow| {
        let earlier = run.flows.iter().find(|other| flow.after.as_ref() == Some(&other.name))?;
        let mut kept = flow.hops().zip(earlier.hops()).take(flow.via.len());
        let (hop, has) = kept.find(|(hop, has)| (hop.cc, hop.pacing) != (has.cc, has.pacing))?;
        let what = if hop.cc == has.cc { "pacing" } else { "congestion control" };
        Some(Unsupported::one(format!(
            "flow {}: from {} to {} it takes over connections of flow {}, whose {what} is another",
            flow.name, hop.from, hop.to, earlier.name
        )))
    };
    run.flows.iter().filter_map(of_flow).collect()
}
