// SPDX-License-Identifier: GPL-2.0-or-later
//! Response functions over measured points: what a congestion control is predicted to reach at each loss and round
//! trip of the swept key, by the closed forms of [`congestion::response`].
//!
//! Loss is the mean of all links in the direction of the data, the round trip that of empty queues, and goodput is bounded by
//! the slowest link. Between two measured points the conditions are interpolated as the axis is, linearly or by logarithms.
//! A chain of connections carries what the worst of them does.

use super::{FigureForm, FigureQuery, Run};
use crate::{Error, capacity::Paths, swept_value::Positions};
use congestion::response;
use record::{HopSummary, Manifest, RunResults};
use scenario::Routes;
use serde::{Deserialize, Serialize};
use units::{Bytes, Duration, Probability};

/// The overlay that has the function of each line's own congestion control.
const OF_LINES: &str = "response";
/// Those that have a function of loss and round trip alone.
pub const KNOWN: [&str; 6] = ["reno", "cubic", "highspeed", "scalable", "htcp", "bic"];
/// Points of a curve from one measured value to the next.
const STEPS: usize = 24;
/// The metrics that the functions are of.
const GOODPUT: &str = "goodput_bps";
const WINDOW: &str = "cwnd_mean_segments";

/// A response function in a panel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Overlay {
    /// "reno, response function".
    pub name: String,
    /// The congestion control.
    pub algorithm: String,
    /// Its value at each value of the swept key.
    pub values: Vec<Option<f64>>,
    /// The same in between: places along the axis, as positions are, and values.
    #[serde(skip)]
    pub curve: Vec<(f64, f64)>,
}

/// The connections under a run's flows, or under one of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Chains {
    /// Of each flow its connections.
    flows: Vec<Vec<Connection>>,
    /// What all flows can have together, of payload, in bits a second.
    together_bps: f64,
}

/// What decides how fast one connection is.
#[derive(Debug, Clone, PartialEq)]
struct Connection {
    algorithm: String,
    loss: f64,
    round_trip_s: f64,
    payload_bytes: f64,
    /// Which part of what it takes on a link that is.
    payload_share: f64,
    /// What the slowest link carries of payload, in bits a second.
    carries_bps: f64,
}

/// Of a scenario as run, what tells the loss of a path.
#[derive(Deserialize)]
struct Network {
    nodes: Vec<Node>,
    links: Vec<scenario::Link>,
    #[serde(default)]
    tcp: Tcp,
}

#[derive(Deserialize)]
struct Node {
    name: String,
}

#[derive(Deserialize)]
struct Tcp {
    header_bytes: u32,
}

impl Default for Tcp {
    /// IPv4 and TCP with time stamps.
    fn default() -> Self {
        Self { header_bytes: 52 }
    }
}

impl Chains {
    /// Of all flows that are compared, or of one; none where a path is not known.
    pub fn of(results: &RunResults, flow: Option<&str>) -> Option<Self> {
        let RunResults { manifest, summary } = results;
        let path = Path::of(manifest)?;
        let flows =
            || summary.compared_flows().filter(|one| flow.is_none_or(|flow| one.name == flow));
        let chains = flows().map(|flow| {
            let hops = flow.hops.iter().map(|hop| path.connection(hop));
            hops.collect::<Option<Vec<_>>>()
        });
        let chains = chains.collect::<Option<Vec<Vec<Connection>>>>()?;
        let capacity = Paths::of(manifest).capacity(flows().map(|flow| flow.name.as_str()));
        let of_payload = chains.iter().flatten().map(|one| one.payload_share).fold(1.0, f64::min);
        let together_bps = capacity.map_or(f64::INFINITY, |capacity| capacity.bps * of_payload);
        Some(Self { flows: chains, together_bps })
    }

    fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.flows.iter().flatten()
    }

    /// What the metric is with this congestion control everywhere, or each connection's own.
    fn value(&self, algorithm: Option<&str>, y: &str) -> Option<f64> {
        let window = |connection: &Connection| {
            let loss = Probability::new(connection.loss)?;
            let round_trip = Duration::from_nanos((connection.round_trip_s * 1e9).round() as u64);
            let name = algorithm.unwrap_or(&connection.algorithm);
            Some((response::average_window(name, loss, round_trip)?, round_trip))
        };
        if y == WINDOW {
            let [chain] = &self.flows[..] else { return None };
            let [connection] = &chain[..] else { return None };
            return Some(window(connection)?.0);
        }
        let goodput = |connection: &Connection| {
            let (window, round_trip) = window(connection)?;
            let payload = Bytes::new(connection.payload_bytes as u64);
            let bps = response::goodput_bps(window, payload, round_trip);
            Some(bps.min(connection.carries_bps))
        };
        let chain = |chain: &Vec<Connection>| {
            let all: Option<Vec<f64>> = chain.iter().map(goodput).collect();
            Some(response::chain_bps(all?))
        };
        let sum = self.flows.iter().map(chain).sum::<Option<f64>>()?;
        // Flows that share a link do not have more than it together.
        Some(sum.min(self.together_bps))
    }

    /// The conditions between those of two points.
    fn between(&self, other: &Self, share: f64, by_logarithm: bool) -> Option<Self> {
        // Of two that are equal, infinite ones too, that one.
        let mix = |a: f64, b: f64| {
            if a.total_cmp(&b).is_eq() {
                return a;
            }
            if by_logarithm && a > 0.0 && b > 0.0 {
                a * (b / a).powf(share)
            } else {
                a + (b - a) * share
            }
        };
        let connection = |(a, b): (&Connection, &Connection)| Connection {
            algorithm: a.algorithm.clone(),
            loss: mix(a.loss, b.loss),
            round_trip_s: mix(a.round_trip_s, b.round_trip_s),
            payload_bytes: a.payload_bytes,
            payload_share: a.payload_share,
            carries_bps: mix(a.carries_bps, b.carries_bps),
        };
        let alike = self.flows.len() == other.flows.len()
            && self.flows.iter().zip(&other.flows).all(|(a, b)| a.len() == b.len());
        let chains = self.flows.iter().zip(&other.flows);
        let mixed = chains.map(|(a, b)| a.iter().zip(b).map(connection).collect());
        let together_bps = mix(self.together_bps, other.together_bps);
        alike.then(|| Self { flows: mixed.collect(), together_bps })
    }
}

/// A scenario's links, to be walked along.
struct Path {
    network: Network,
    routes: Routes,
}

impl Path {
    fn of(manifest: &Manifest) -> Option<Self> {
        let network = Network::deserialize(&manifest.scenario).ok()?;
        let nodes = network.nodes.iter().map(|node| node.name.as_str());
        let routes = Routes::new(nodes, &network.links);
        Some(Self { network, routes })
    }

    fn connection(&self, hop: &HopSummary) -> Option<Connection> {
        let legs = self.routes.legs(&hop.from, &hop.to)?;
        let directions =
            || legs.iter().map(|leg| self.network.links[leg.link].direction(leg.heading));
        let losses = directions().map(|direction| Probability::new(direction.loss.model().mean()));
        let loss = response::in_series(losses.collect::<Option<Vec<_>>>()?);
        let mtu = directions().map(|direction| direction.mtu).min()?;
        let payload_bytes = f64::from(mtu.saturating_sub(self.network.tcp.header_bytes));
        let segment_bytes = hop.segment_bytes.filter(|bytes| *bytes > 0)? as f64;
        let payload_share = payload_bytes / segment_bytes;
        Some(Connection {
            algorithm: hop.congestion_control.clone()?,
            loss: loss.get(),
            round_trip_s: hop.base_rtt_us? / 1e6,
            payload_bytes,
            payload_share,
            carries_bps: hop.bottleneck_bps.map_or(f64::INFINITY, |bps| bps as f64 * payload_share),
        })
    }
}

/// Whether overlays were asked for as they can be drawn.
pub(super) fn check(asked: &FigureQuery<'_>) -> Result<(), Error> {
    let refuse = |text: String| Err(Error::Figure(text));
    if asked.overlay.is_empty() {
        return Ok(());
    }
    let of_window = asked.y == WINDOW && asked.by_flow;
    if asked.form != FigureForm::Lines || !(asked.y == GOODPUT || of_window) {
        return refuse(format!(
            "--overlay goes with lines of {GOODPUT}, or with --by flow of {WINDOW}"
        ));
    }
    let names = |name: &&String| *name != OF_LINES && !KNOWN.contains(&bare(name));
    if let Some(unknown) = asked.overlay.iter().find(names) {
        return refuse(format!(
            "there is no response function of \"{unknown}\" by loss and round trip alone; there are {}, and \
             {OF_LINES} for those of the lines",
            KNOWN.join(", ")
        ));
    }
    Ok(())
}

fn bare(name: &str) -> &str {
    name.strip_prefix("lh_").unwrap_or(name)
}

/// The overlays of a panel. A function that several lines share, over the same path, is drawn once.
pub(super) fn of_panel(
    runs: &[&Run],
    lines: &[String],
    labels: &[String],
    positions: &Positions,
    asked: &FigureQuery<'_>,
) -> Vec<Overlay> {
    let mut overlays: Vec<Overlay> = Vec::new();
    let chains = |line: &String| -> Vec<Option<&Chains>> {
        let at =
            |x: &String| runs.iter().find(|run| run.line == *line && run.x == *x)?.chains.as_ref();
        labels.iter().map(at).collect()
    };
    for name in &asked.overlay {
        let of_lines = name == OF_LINES;
        for line in lines.iter().take(if of_lines { lines.len() } else { 1 }) {
            let chains = chains(line);
            let own = runs.iter().find(|run| run.line == *line).map(|run| &run.key.algorithm);
            let algorithm =
                if of_lines { own.cloned().unwrap_or_default() } else { bare(name).to_owned() };
            let forced = (!of_lines).then_some(algorithm.as_str());
            let value = |chains: &Chains| chains.value(forced, asked.y);
            let values: Vec<Option<f64>> = chains.iter().map(|one| one.and_then(value)).collect();
            let is_known =
                overlays.iter().any(|other| other.algorithm == algorithm && other.values == values);
            if values.iter().flatten().count() == 0 || is_known {
                continue;
            }
            let same_name = overlays.iter().filter(|other| other.algorithm == algorithm).count();
            let of_line =
                if same_name > 0 { format!(" over the path of {line}") } else { String::new() };
            let name = format!("{algorithm}{of_line}, response function");
            let curve = curve(&chains, positions, value);
            overlays.push(Overlay { name, algorithm, values, curve });
        }
    }
    overlays
}

fn curve(
    chains: &[Option<&Chains>],
    (positions, by_logarithm): &Positions,
    value: impl Fn(&Chains) -> Option<f64>,
) -> Vec<(f64, f64)> {
    let mut curve = Vec::new();
    for (ends, places) in chains.windows(2).zip(positions.windows(2)) {
        let [Some(from), Some(to)] = ends else { continue };
        for step in 0..=STEPS {
            let share = step as f64 / STEPS as f64;
            let between = from.between(to, share, *by_logarithm);
            if let Some(value) = between.as_ref().and_then(&value) {
                curve.push((places[0] + (places[1] - places[0]) * share, value));
            }
        }
    }
    curve
}

/// Why nothing is drawn, where nothing is: no loss or round trip that moves along the panels, or no function.
pub(super) fn check_drawn(runs: &[Run], x: &str, drawn: usize) -> Result<(), Error> {
    let refuse = |text: String| Err(Error::Figure(text));
    let all = || runs.iter().filter_map(|run| run.chains.as_ref()).flat_map(Chains::connections);
    if all().next().is_none() {
        return refuse(
            "--overlay: the records do not tell the loss and round trip of the path".to_owned(),
        );
    }
    if all().all(|connection| connection.loss <= 0.0) {
        return refuse(
            "--overlay: response functions are of random loss, and no link of these paths has any"
                .to_owned(),
        );
    }
    let moves = runs.iter().any(|a| {
        let others = runs.iter().filter(|b| a.line == b.line && a.others == b.others && a.x != b.x);
        others.into_iter().any(|b| differ(&conditions(a), &conditions(b)))
    });
    if !moves {
        return refuse(format!(
            "--overlay: response functions are of loss and round trip, and {x} moves neither; \
             choose a key that does by --x"
        ));
    }
    if drawn == 0 {
        return refuse(format!(
            "--overlay: none of the lines' congestion controls has a response function; there are {}",
            KNOWN.join(", ")
        ));
    }
    Ok(())
}

/// Loss and round trip of each connection.
fn conditions(run: &Run) -> Vec<[f64; 2]> {
    let connections = run.chains.iter().flat_map(Chains::connections);
    connections.map(|one| [one.loss, one.round_trip_s]).collect()
}

/// Whether they differ by more than repeats do, whose links are some microseconds longer.
fn differ(one: &[[f64; 2]], other: &[[f64; 2]]) -> bool {
    const VARIATION: f64 = 0.02;
    let pairs = one.iter().flatten().zip(other.iter().flatten());
    pairs.into_iter().any(|(a, b)| (a - b).abs() > VARIATION * a.max(*b))
}
