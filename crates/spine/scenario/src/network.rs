// SPDX-License-Identifier: GPL-2.0-or-later
//! The nodes, links and flows of one variant as the file gives them: each value read, none yet
//! compared with another.

use crate::{
    diagnostics::{Location, Problems},
    document::{Data, Table},
    fields::{Fields, Located, Pattern, Whole},
    run::{
        ChangingRate, Client, Congestion, Family, LinkImpairments, Loss, PacingSettings, Queue,
        Signalling, Tcp,
    },
};
use count::{Copies, Numbered};
use std::collections::BTreeMap;
use units::{Bytes, Duration, Probability, Rate};
use values::{CcName, LossProbability, NodePair, PositiveDuration, Sysctls};

mod capture;
mod changing_rate;
mod count;
mod discipline;
mod event;
mod impairments;
mod pacing;
mod tcp;
mod traffic;
mod values;

pub(crate) use capture::CaptureSpec;
pub(crate) use discipline::{DisciplineSpec, RedSpec};
pub(crate) use event::EventSpec;
pub(crate) use pacing::{BottleneckSpec, HopPacing};
pub(crate) use traffic::{BackgroundSpec, SourceSpec, TrafficSpec, arrivals};
pub(crate) use values::{CC_NAME, HopCc, QueueSize, Size, is_cc_name, is_sysctl};

/// Paths between all nodes are computed for every variant: a thousand nodes take a fraction of a
/// second, and as many megabytes as the square of that.
pub(crate) const MOST_NODES: usize = 1024;
/// Enough for a full mesh of 90 nodes; and as many flows and as much traffic.
pub(crate) const MOST_OTHERS: usize = 4096;
/// Each waits in a thread of its own.
const MOST_EVENTS: usize = 256;

/// What a run consists of, before names are checked and sizes computed.
#[derive(Debug)]
pub(crate) struct NetworkSpec {
    pub timeout: Duration,
    pub duration: Option<Duration>,
    pub sample: Duration,
    pub family: Family,
    pub seed: u64,
    pub tcp: Tcp,
    pub congestion: Vec<(Location, Congestion)>,
    pub pacing: PacingSettings,
    pub bottlenecks: Vec<BottleneckSpec>,
    pub nodes: Vec<NodeSpec>,
    pub links: Vec<LinkSpec>,
    pub flows: Vec<FlowSpec>,
    pub traffic: Vec<TrafficSpec>,
    pub backgrounds: Vec<BackgroundSpec>,
    pub events: Vec<EventSpec>,
}

#[derive(Debug, Clone)]
pub(crate) struct NodeSpec {
    pub location: Location,
    pub name: Pattern,
    pub cc: String,
    pub tcp_rmem_max: Option<Located<Size>>,
    pub tcp_wmem_max: Option<Located<Size>>,
    pub sysctl: BTreeMap<String, String>,
    pub capture: Option<CaptureSpec>,
}

#[derive(Debug, Clone)]
pub(crate) struct LinkSpec {
    pub location: Location,
    pub name: Pattern,
    pub ends: [Located<Pattern>; 2],
    pub delay_spread: Duration,
    pub forward: DirectionSpec,
    pub backward: DirectionSpec,
}

#[derive(Debug, Clone)]
pub(crate) struct DirectionSpec {
    pub rate: Option<Rate>,
    pub rate_over_time: Option<ChangingRate>,
    pub delay: Duration,
    pub loss: Loss,
    pub impairments: LinkImpairments,
    pub queue: QueueSize,
    pub discipline: Located<DisciplineSpec>,
    pub mark: Option<Located<QueueSize>>,
    pub mtu: Located<u32>,
    pub max_burst: Duration,
    pub monitor: Duration,
    pub spacing: bool,
    pub overhead: u32,
}

#[derive(Debug, Clone)]
pub(crate) struct FlowSpec {
    pub location: Location,
    pub name: Pattern,
    pub from: Located<Pattern>,
    pub to: Located<Pattern>,
    pub via: Vec<Located<Pattern>>,
    pub cc: Option<Located<HopCc>>,
    pub pacing: Option<Located<HopPacing>>,
    pub bytes: Option<Bytes>,
    pub app_rate: Option<Rate>,
    pub streams: u32,
    pub start: Duration,
    pub jitter: Duration,
    pub client: Option<Client>,
    pub signalling: Signalling,
    pub after: Option<Located<Pattern>>,
    pub prepares: bool,
    pub reverse: Option<bool>,
    pub warm: u16,
    pub site: bool,
    pub sndbuf: Option<Bytes>,
    pub rcvbuf: Option<Bytes>,
}

/// What a table of the file stands for.
pub(crate) trait HasLocation {
    fn location(&self) -> &Location;
}

macro_rules! has_location {
    ($($spec:ty),+) => {$(
        impl HasLocation for $spec {
            fn location(&self) -> &Location {
                &self.location
            }
        }
    )+};
}
has_location!(NodeSpec, LinkSpec, FlowSpec, TrafficSpec);

impl Numbered for NodeSpec {
    fn number(&mut self, number: &str) {
        self.name.number(number);
    }
}

impl Numbered for LinkSpec {
    fn number(&mut self, number: &str) {
        self.name.number(number);
        self.ends.iter_mut().for_each(|end| end.number(number));
    }
}

impl Numbered for FlowSpec {
    fn number(&mut self, number: &str) {
        self.name.number(number);
        self.from.number(number);
        self.to.number(number);
        self.via.iter_mut().for_each(|depot| depot.number(number));
        self.after.iter_mut().for_each(|flow| flow.number(number));
    }
}

/// Reads one variant's tree. None after a problem that leaves a hole in it.
pub(crate) fn read(root: &Table, file: &Location, problems: &Problems) -> Option<NetworkSpec> {
    let mut top = Fields::new(root, file.clone(), String::new(), problems);
    // For an unreadable duration, only that error is reported, not that flows need a duration.
    let ends = top.raw("duration").is_some();
    let duration = top.optional("duration").map(|PositiveDuration(d)| d);
    let family = top.or("family", Family::default());
    let nodes = all(&mut top, "node", MOST_NODES, node);
    let links = all(&mut top, "link", MOST_OTHERS, link);
    let flows = all(&mut top, "flow", MOST_OTHERS, |fields| flow(fields, ends));
    let traffic = all(&mut top, "traffic", MOST_OTHERS, traffic::traffic);
    let backgrounds = top.sections("background").into_iter().map(traffic::background);
    let backgrounds: Vec<_> = backgrounds.collect();
    let congestion: Vec<_> = top.sections("congestion").into_iter().map(tcp::congestion).collect();
    let events: Vec<_> = top.sections("event").into_iter().map(event::event).collect();
    if events.len() > MOST_EVENTS {
        top.report(top.location(), &format!("more than {MOST_EVENTS} of [[event]]"));
    }
    let tcp = tcp::tcp(top.section("tcp"), family);
    let pacing = pacing::settings(top.section("pacing"));
    let bottlenecks: Vec<_> =
        top.sections("bottleneck").into_iter().map(pacing::bottleneck).collect();
    if !ends && root.sections("flow").next().is_none() {
        for kind in ["traffic", "background"] {
            for fields in top.sections(kind) {
                let message =
                    "it never ends: give the run a \"duration\", or a flow with \"bytes\"";
                fields.report(fields.location(), message);
            }
        }
    }
    Some(NetworkSpec {
        timeout: top.or("timeout", PositiveDuration(Duration::from_secs(120))).0,
        duration,
        sample: top.or("sample", PositiveDuration(Duration::from_millis(100))).0,
        family,
        seed: top.or("seed", Whole::<0, { u64::MAX }>(1)).0,
        tcp,
        congestion: congestion.into_iter().collect::<Option<_>>()?,
        pacing,
        bottlenecks: bottlenecks.into_iter().collect::<Option<_>>()?,
        nodes: nodes?,
        links: links?,
        flows: flows?,
        traffic: traffic?,
        backgrounds: backgrounds.into_iter().collect::<Option<_>>()?,
        events: events.into_iter().collect::<Option<_>>()?,
    })
}

/// Everything that the tables of `[[kind]]` stand for.
fn all<T>(
    top: &mut Fields<'_>,
    kind: &'static str,
    most: usize,
    read: impl Fn(Fields<'_>) -> Option<Vec<T>>,
) -> Option<Vec<T>> {
    let mut all = Some(Vec::new());
    let mut count = 0;
    for table in top.sections(kind) {
        let copies = read(table);
        count += copies.as_ref().map_or(0, Vec::len);
        if count > most {
            top.report(
                top.location(),
                &format!("more than {most} of [[{kind}]], every \"count\" included"),
            );
            return None;
        }
        all = all.zip(copies).map(|(mut all, copies)| {
            all.extend(copies);
            all
        });
    }
    all
}

fn node(mut fields: Fields<'_>) -> Option<Vec<NodeSpec>> {
    let name: Option<Pattern> = fields.required("name");
    let copies = Copies::read(&mut fields, name.as_ref());
    let cc = fields.or("cc", CcName("cubic".to_owned())).0;
    let tcp_rmem_max = fields.optional("tcp_rmem_max");
    let tcp_wmem_max = fields.optional("tcp_wmem_max");
    let sysctl = fields.optional("sysctl").map_or_else(BTreeMap::new, |Sysctls(s)| s);
    let capture = capture::capture(&mut fields);
    let location = fields.location().clone();
    fields.finish();
    let name = name?;
    let spec = NodeSpec { location, name, cc, tcp_rmem_max, tcp_wmem_max, sysctl, capture };
    Some(copies?.of(spec))
}

fn link(mut fields: Fields<'_>) -> Option<Vec<LinkSpec>> {
    let ends: Option<NodePair> = fields.required("between");
    // Without `between` there is no default name either, and saying so too would not help.
    let name: Option<Pattern> =
        if ends.is_some() { fields.required("name") } else { fields.optional("name") };
    let copies = Copies::read(&mut fields, name.as_ref());
    let delay_spread = fields.or("delay_spread", Duration::ZERO);
    let forward = fields.section("forward");
    let backward = fields.section("backward");
    let spec = |fields: &Fields<'_>, own: Option<&Fields<'_>>| {
        let mut merged = fields.table().clone();
        for entry in own.iter().flat_map(|own| own.table().entries()) {
            merged.set(&entry.key, entry.value.clone());
        }
        direction(&mut fields.over(&merged))
    };
    let location = fields.location().clone();
    let specs = [spec(&fields, forward.as_ref()), spec(&fields, backward.as_ref())];
    for mut own in forward.into_iter().chain(backward) {
        own.allow(&DIRECTION_KEYS);
        own.finish();
    }
    fields.allow(&DIRECTION_KEYS);
    fields.finish();
    let [forward, backward] = specs;
    let (name, ends) = (name?, ends?.0);
    Some(copies?.of(LinkSpec { location, name, ends, delay_spread, forward, backward }))
}

/// The top-level tables that [`read`] reads, next to the keys of a run.
pub(crate) const SECTIONS: [&str; 10] = [
    "node",
    "link",
    "flow",
    "traffic",
    "background",
    "congestion",
    "tcp",
    "pacing",
    "bottleneck",
    "event",
];

/// What `forward` and `backward` may override.
const DIRECTION_KEYS: [&str; 16] = [
    "rate",
    "delay",
    "loss",
    "reorder",
    "duplicate",
    "jitter",
    "outages",
    "policer",
    "queue",
    "discipline",
    "mark",
    "mtu",
    "max_burst",
    "monitor",
    "spacing",
    "overhead",
];

/// Bytes of an IP packet: the least that IPv4 hosts must take, and the most that a TAP device
/// does (65535 less an Ethernet header).
type Mtu = Whole<576, 65_521>;

fn direction(fields: &mut Fields<'_>) -> DirectionSpec {
    let mtu = fields.optional::<Located<Mtu>>("mtu");
    let mtu = mtu.map_or_else(
        || Located { location: fields.location().clone(), value: 1500 },
        |mtu| Located { location: mtu.location, value: mtu.value.0 as u32 },
    );
    let overhead = fields.or("overhead", Whole::<0, 1000>(14)).0 as u32;
    let location =
        fields.raw("discipline").map_or_else(|| fields.location().clone(), |v| v.location.clone());
    let discipline = discipline::discipline(fields, u64::from(mtu.value + overhead));
    let queue = if discipline.is_fq_codel() {
        // RFC 8290 section 5.2.3.
        QueueSize::Given(Queue::Packets(10_240))
    } else {
        QueueSize::Bdp(1.0)
    };
    let (rate, rate_over_time) = changing_rate::rate(fields);
    DirectionSpec {
        rate,
        rate_over_time,
        delay: fields.or("delay", Duration::ZERO),
        loss: loss(fields),
        impairments: impairments::impairments(fields, u64::from(mtu.value + overhead)),
        queue: fields.or("queue", queue),
        discipline: Located { location, value: discipline },
        mark: fields.optional("mark"),
        mtu,
        max_burst: fields.or("max_burst", Duration::from_micros(250)),
        monitor: fields.or("monitor", PositiveDuration(Duration::from_micros(500))).0,
        spacing: fields.or("spacing", true),
        overhead,
    }
}

/// `loss = "0.02%"`, or a table with exactly one process.
fn loss(fields: &mut Fields<'_>) -> Loss {
    let uniform = |LossProbability(probability)| match probability {
        Probability::ZERO => Loss::None,
        probability => Loss::Uniform { probability },
    };
    if fields.raw("loss").is_none_or(|v| !matches!(v.data, Data::Table(_))) {
        return fields.optional("loss").map_or(Loss::None, uniform);
    }
    let Some(mut kinds) = fields.section("loss") else { return Loss::None };
    let found = [
        kinds.optional("uniform").map(uniform),
        kinds.optional("periodic").map(|Whole::<1, { u64::MAX }>(every)| Loss::Periodic { every }),
        kinds.section("gilbert_elliott").map(gilbert_elliott),
    ];
    if kinds.table().entries().count() != 1 {
        kinds.report(
            kinds.location(),
            "exactly one of uniform, periodic, gilbert_elliott is expected",
        );
    }
    kinds.finish();
    found.into_iter().flatten().next().unwrap_or(Loss::None)
}

fn gilbert_elliott(mut fields: Fields<'_>) -> Loss {
    let loss = Loss::GilbertElliott {
        p: fields.required("p").unwrap_or_default(),
        r: fields.required("r").unwrap_or_default(),
        loss_bad: fields.or("loss_bad", Probability::new(1.0).unwrap_or_default()),
        loss_good: fields.or("loss_good", Probability::ZERO),
    };
    fields.finish();
    loss
}

fn flow(mut fields: Fields<'_>, run_ends: bool) -> Option<Vec<FlowSpec>> {
    let name: Option<Pattern> = fields.required("name");
    let copies = Copies::read(&mut fields, name.as_ref());
    let from = fields.required("from");
    let to = fields.required("to");
    if !run_ends && fields.raw("bytes").is_none() {
        fields.report(fields.location(), "give \"bytes\", or the run a \"duration\"");
    }
    let bytes = fields.optional("bytes");
    let app_rate = fields.optional::<Located<Rate>>("app_rate");
    let streams = fields.or("streams", Whole::<1, 256>(1)).0 as u32;
    let via = fields.or("via", Vec::new());
    let cc = fields.optional("cc");
    let pacing = fields.optional("pacing");
    let start = fields.or("start", Duration::ZERO);
    let jitter = fields.or("jitter", Duration::ZERO);
    let client = fields.optional("client");
    let signalling = fields.or("signalling", Signalling::default());
    let after = fields.optional("after");
    let prepares = fields.or("prepares", false);
    if let Some(rate) = app_rate.as_ref().filter(|_| prepares) {
        let message =
            "app_rate: a flow that prepares connections fills them; leave one of the two out";
        fields.report(&rate.location, message);
    }
    let reverse = fields.optional("reverse");
    let warm = fields.or("warm", Whole::<0, 16>(0)).0 as u16;
    let site = fields.or("site", false);
    if via.is_empty() && (warm > 0 || site) {
        fields.report(fields.location(), "warm and site are for depots: name some in \"via\"");
    }
    let sndbuf = fields.optional("sndbuf");
    let rcvbuf = fields.optional("rcvbuf");
    let location = fields.location().clone();
    fields.finish();
    Some(copies?.of(FlowSpec {
        location,
        name: name?,
        from: from?,
        to: to?,
        via,
        cc,
        pacing,
        bytes,
        app_rate: app_rate.map(|rate| rate.value),
        streams,
        start,
        jitter,
        client,
        signalling,
        after,
        prepares,
        reverse,
        warm,
        site,
        sndbuf,
        rcvbuf,
    }))
}
