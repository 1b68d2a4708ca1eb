// SPDX-License-Identifier: GPL-2.0-or-later
//! The nodes, links and flows of one variant as the file gives them: each value read, none yet
//! compared with another.

use crate::{
    diagnostics::{Place, Problems},
    document::{Data, Entry, Table, Value},
    fields::{Field, Fields, Mismatch, Name, Placed, Whole, from_text, mismatch},
    run::{Client, Family, Loss, Queue, Signalling},
};
use std::collections::BTreeMap;
use units::{Bytes, Duration, Probability, Rate};

/// What a run consists of, before names are checked and sizes computed.
#[derive(Debug)]
pub(crate) struct NetworkSpec {
    pub timeout: Duration,
    pub family: Family,
    pub seed: u64,
    pub nodes: Vec<NodeSpec>,
    pub links: Vec<LinkSpec>,
    pub flows: Vec<FlowSpec>,
}

#[derive(Debug)]
pub(crate) struct NodeSpec {
    pub place: Place,
    pub name: String,
    pub cc: String,
    pub tcp_rmem_max: Option<Placed<Size>>,
    pub tcp_wmem_max: Option<Placed<Size>>,
    pub sysctl: BTreeMap<String, String>,
}

#[derive(Debug)]
pub(crate) struct LinkSpec {
    pub place: Place,
    pub name: String,
    pub ends: [Placed<Name>; 2],
    pub forward: DirectionSpec,
    pub backward: DirectionSpec,
}

#[derive(Debug)]
pub(crate) struct DirectionSpec {
    pub rate: Option<Rate>,
    pub delay: Duration,
    pub loss: Loss,
    pub queue: QueueSize,
    pub mtu: Placed<u32>,
    pub max_burst: Duration,
    pub monitor: Duration,
    pub overhead: u32,
}

#[derive(Debug)]
pub(crate) struct FlowSpec {
    pub place: Place,
    pub name: String,
    pub from: Placed<Name>,
    pub to: Placed<Name>,
    pub via: Vec<Placed<Name>>,
    pub cc: Option<Placed<Congestion>>,
    pub bytes: Bytes,
    pub start: Duration,
    pub client: Client,
    pub signalling: Signalling,
    pub sndbuf: Option<Bytes>,
    pub rcvbuf: Option<Bytes>,
}

/// The congestion control of a flow's hops.
#[derive(Debug, Clone)]
pub(crate) enum Congestion {
    EveryHop(String),
    EachHop(Vec<String>),
}

/// A size, given outright or as a multiple of the bandwidth-delay product.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Size {
    Bytes(Bytes),
    Bdp(f64),
}

/// The limit of a queue, given outright or as a multiple of the bandwidth-delay product.
#[derive(Debug, Clone, Copy)]
pub(crate) enum QueueSize {
    Given(Queue),
    Bdp(f64),
}

/// Reads one variant's tree. None after a problem that leaves a hole in it.
pub(crate) fn read(root: &Table, file: &Place, problems: &Problems) -> Option<NetworkSpec> {
    let mut top = Fields::new(root, file.clone(), String::new(), problems);
    let nodes: Vec<_> = top.sections("node").into_iter().map(node).collect();
    let links: Vec<_> = top.sections("link").into_iter().map(link).collect();
    let flows: Vec<_> = top.sections("flow").into_iter().map(flow).collect();
    Some(NetworkSpec {
        timeout: top.or("timeout", Span(Duration::from_secs(120))).0,
        family: top.or("family", Family::default()),
        seed: top.or("seed", Whole::<0, { u64::MAX }>(1)).0,
        nodes: nodes.into_iter().collect::<Option<_>>()?,
        links: links.into_iter().collect::<Option<_>>()?,
        flows: flows.into_iter().collect::<Option<_>>()?,
    })
}

fn node(mut fields: Fields<'_>) -> Option<NodeSpec> {
    let name: Option<Name> = fields.required("name");
    let cc = fields.or("cc", CcName("cubic".to_owned())).0;
    let tcp_rmem_max = fields.optional("tcp_rmem_max");
    let tcp_wmem_max = fields.optional("tcp_wmem_max");
    let sysctl = fields.optional("sysctl").map_or_else(BTreeMap::new, |Sysctls(s)| s);
    let place = fields.place().clone();
    fields.finish();
    Some(NodeSpec { place, name: name?.0, cc, tcp_rmem_max, tcp_wmem_max, sysctl })
}

fn link(mut fields: Fields<'_>) -> Option<LinkSpec> {
    let ends: Option<Pair> = fields.required("between");
    // Without `between` there is no default name either, and saying so too would not help.
    let name: Option<Name> =
        if ends.is_some() { fields.required("name") } else { fields.optional("name") };
    let forward = fields.section("forward");
    let backward = fields.section("backward");
    let spec = |fields: &Fields<'_>, own: Option<&Fields<'_>>| {
        let mut merged = fields.table().clone();
        for entry in own.iter().flat_map(|own| own.table().entries()) {
            merged.set(&entry.key, entry.value.clone());
        }
        direction(&mut fields.over(&merged))
    };
    let place = fields.place().clone();
    let specs = [spec(&fields, forward.as_ref()), spec(&fields, backward.as_ref())];
    for mut own in forward.into_iter().chain(backward) {
        own.allow(&DIRECTION_KEYS);
        own.finish();
    }
    fields.allow(&DIRECTION_KEYS);
    fields.finish();
    let [forward, backward] = specs;
    Some(LinkSpec { place, name: name?.0, ends: ends?.0, forward, backward })
}

/// The top-level arrays of tables that [`read`] reads, next to the keys of a run.
pub(crate) const SECTIONS: [&str; 3] = ["node", "link", "flow"];

/// What `forward` and `backward` may override.
const DIRECTION_KEYS: [&str; 8] =
    ["rate", "delay", "loss", "queue", "mtu", "max_burst", "monitor", "overhead"];

/// Bytes of an IP packet: the least that IPv4 hosts must take, and the most that a TAP device
/// does (65535 less an Ethernet header).
type Mtu = Whole<576, 65_521>;

fn direction(fields: &mut Fields<'_>) -> DirectionSpec {
    let mtu = fields.optional::<Placed<Mtu>>("mtu");
    DirectionSpec {
        rate: fields.optional("rate"),
        delay: fields.or("delay", Duration::ZERO),
        loss: loss(fields),
        queue: fields.or("queue", QueueSize::Bdp(1.0)),
        mtu: mtu.map_or_else(
            || Placed { place: fields.place().clone(), value: 1500 },
            |mtu| Placed { place: mtu.place, value: mtu.value.0 as u32 },
        ),
        max_burst: fields.or("max_burst", Duration::from_micros(250)),
        monitor: fields.or("monitor", Span(Duration::from_micros(500))).0,
        overhead: fields.or("overhead", Whole::<0, 1000>(14)).0 as u32,
    }
}

/// `loss = "0.02%"`, or a table with exactly one process.
fn loss(fields: &mut Fields<'_>) -> Loss {
    let uniform = |probability| match probability {
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
        kinds
            .report(kinds.place(), "exactly one of uniform, periodic, gilbert_elliott is expected");
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

fn flow(mut fields: Fields<'_>) -> Option<FlowSpec> {
    let name: Option<Name> = fields.required("name");
    let from = fields.required("from");
    let to = fields.required("to");
    let bytes = fields.required("bytes");
    let via = fields.or("via", Vec::new());
    let cc = fields.optional("cc");
    let start = fields.or("start", Duration::ZERO);
    let client = fields.or("client", Client::default());
    let signalling = fields.or("signalling", Signalling::default());
    let sndbuf = fields.optional("sndbuf");
    let rcvbuf = fields.optional("rcvbuf");
    let place = fields.place().clone();
    fields.finish();
    Some(FlowSpec {
        place,
        name: name?.0,
        from: from?,
        to: to?,
        via,
        cc,
        bytes: bytes?,
        start,
        client,
        signalling,
        sndbuf,
        rcvbuf,
    })
}

/// The two ends of a link.
struct Pair([Placed<Name>; 2]);

impl Field for Pair {
    const EXPECTED: &'static str = "a list of the two nodes, as in [\"client\", \"server\"]";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        match &value.data {
            Data::List(ends) if ends.len() == 2 => {
                Ok(Self([Placed::read(&ends[0])?, Placed::read(&ends[1])?]))
            }
            _ => Err(mismatch(value, Self::EXPECTED)),
        }
    }
}

/// A time above zero.
struct Span(Duration);

impl Field for Span {
    const EXPECTED: &'static str = "a time above zero with its unit, as in 90s or 500us";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        from_text(value, Self::EXPECTED, |text| {
            text.parse().ok().filter(|d| *d > Duration::ZERO).map(Self)
        })
    }
}

/// A congestion control's name as the kernel takes it (at most 15 characters, `TCP_CA_NAME_MAX`).
struct CcName(String);

impl Field for CcName {
    const EXPECTED: &'static str = "the name of a congestion control, as in cubic or bbr";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        let is_name = |text: &str| {
            (1..=15).contains(&text.len())
                && text.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '_' | '-'))
        };
        from_text(value, Self::EXPECTED, |text| is_name(text).then(|| Self(text.to_owned())))
    }
}

impl Field for Congestion {
    const EXPECTED: &'static str = CcName::EXPECTED;
    fn read(value: &Value) -> Result<Self, Mismatch> {
        match &value.data {
            Data::List(_) => {
                let names = Vec::<CcName>::read(value)?;
                Ok(Self::EachHop(names.into_iter().map(|n| n.0).collect()))
            }
            _ => CcName::read(value).map(|name| Self::EveryHop(name.0)),
        }
    }
}

/// Kernel settings.
struct Sysctls(BTreeMap<String, String>);

impl Field for Sysctls {
    const EXPECTED: &'static str = "a table, as in { \"net.ipv4.tcp_sack\" = \"0\" }";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        let table = value.as_table().ok_or_else(|| mismatch(value, Self::EXPECTED))?;
        let setting = |e: &Entry| {
            // Only what a network namespace has of its own; anything else is the machine's.
            let is_own = e.key.starts_with("net.")
                && e.key.split('.').all(|part| {
                    !part.is_empty()
                        && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
                });
            if !is_own {
                let message = format!("\"{}\" is not a kernel setting under net.", e.key);
                return Err((e.place.clone(), message));
            }
            let text = e.value.as_text().ok_or_else(|| {
                let (place, message) = mismatch(&e.value, "a text or a number");
                (place, format!("{}: {message}", e.key))
            })?;
            Ok((e.key.clone(), text.to_owned()))
        };
        table.entries().map(setting).collect::<Result<_, _>>().map(Self)
    }
}

fn bdp(text: &str) -> Option<f64> {
    let factor: f64 = text.trim().strip_suffix("bdp")?.trim().parse().ok()?;
    (factor.is_finite() && factor > 0.0).then_some(factor)
}

impl Field for Size {
    const EXPECTED: &'static str =
        "a size, as in 4MB, or a multiple of the bandwidth-delay product, as in 4bdp";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        from_text(value, Self::EXPECTED, |text| match bdp(text) {
            Some(factor) => Some(Self::Bdp(factor)),
            None => text.parse().ok().filter(|b| *b > Bytes::ZERO).map(Self::Bytes),
        })
    }
}

impl Field for QueueSize {
    const EXPECTED: &'static str = "a queue's limit, as in 1bdp (bandwidth-delay product), 500p \
                                    (packets) or 128KB";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        let given = |text: &str| match text.trim().strip_suffix('p') {
            Some(packets) => packets.trim().parse().ok().filter(|n| *n > 0).map(Queue::Packets),
            None => text.parse().ok().filter(|b| *b > Bytes::ZERO).map(Queue::Bytes),
        };
        from_text(value, Self::EXPECTED, |text| match bdp(text) {
            Some(factor) => Some(Self::Bdp(factor)),
            None => given(text).map(Self::Given),
        })
    }
}

/// One of a few words.
macro_rules! word {
    ($type:ty, $expected:literal, $($word:literal => $value:expr),+) => {
        impl Field for $type {
            const EXPECTED: &'static str = $expected;
            fn read(value: &Value) -> Result<Self, Mismatch> {
                from_text(value, Self::EXPECTED, |text| match text {
                    $($word => Some($value),)+
                    _ => None,
                })
            }
        }
    };
}
word!(Family, "ipv4 or ipv6", "ipv4" => Self::Ipv4, "ipv6" => Self::Ipv6);
word!(Client, "curl or wget", "curl" => Self::Curl, "wget" => Self::Wget);
word!(Signalling, "fetch or lead", "fetch" => Self::Fetch, "lead" => Self::Lead);
