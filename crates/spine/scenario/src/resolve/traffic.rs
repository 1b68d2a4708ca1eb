// SPDX-License-Identifier: GPL-2.0-or-later
//! Traffic along its paths, and background as the traffic that it stands for.

use super::{
    context::{NetworkContext, cc_of},
    jittered::Jittered,
};
use crate::{
    fields::Located,
    network::{BackgroundSpec, SourceSpec, TrafficSpec, arrivals},
    routes::Leg,
    run::{Family, Heading, Source, Traffic},
};
use units::Rate;

/// An IP packet of constant-bit-rate traffic, where the path carries it.
const PACKET: u32 = 1000;
/// IPv6's and UDP's headers.
const LEAST_IPV6_PACKET: u32 = 48;

impl NetworkContext<'_> {
    /// The way from one node to another; none, and reported, where there is none.
    fn legs(&self, what: &str, from: &str, to: &Located<impl AsRef<str>>) -> Option<Vec<Leg>> {
        let legs = self.routes.legs(from, to.value.as_ref());
        if legs.is_none() {
            let to_name = to.value.as_ref();
            let message = format!("{what}: no links lead from \"{from}\" to \"{to_name}\"");
            self.problems.report(&to.location, message);
        }
        legs
    }

    /// The packets of constant-bit-rate traffic: as given, or what fits the path.
    fn packet(&self, what: &str, legs: &[Leg], given: Option<&Located<u32>>) -> u32 {
        let mtu = legs.iter().map(|leg| self.links[leg.link].direction(leg.heading).mtu).min();
        let mtu = mtu.unwrap_or(PACKET);
        let Some(Located { location, value: packet }) = given else { return PACKET.min(mtu) };
        if *packet > mtu {
            let message =
                format!("{what}, packet: {packet} bytes are more than the path's MTU, {mtu}");
            self.problems.report(location, message);
        }
        if self.family == Family::Ipv6 && *packet < LEAST_IPV6_PACKET {
            let message =
                format!("{what}, packet: with IPv6 it has at least {LEAST_IPV6_PACKET} bytes");
            self.problems.report(location, message);
        }
        *packet
    }
}

pub(super) fn traffic(
    spec: &TrafficSpec,
    context: &NetworkContext<'_>,
) -> Option<Jittered<Traffic>> {
    let what = format!("traffic \"{}\"", spec.name.as_str());
    let from = spec.from.value.as_str();
    let legs = context.legs(&what, from, &spec.to)?;
    let source = match &spec.source {
        SourceSpec::Cbr { rate, packet } => {
            Source::Cbr { rate: *rate, packet: context.packet(&what, &legs, packet.as_ref()) }
        }
        SourceSpec::OverTcp(source) => *source,
    };
    let traffic = Traffic {
        name: spec.name.as_str().to_owned(),
        from: from.to_owned(),
        to: spec.to.value.as_str().to_owned(),
        cc: spec.cc.clone().unwrap_or_else(|| cc_of(from, context.nodes)),
        start: spec.start,
        source,
    };
    let variation = context.round_trip(&traffic.from, &traffic.to);
    Some(Jittered { thing: traffic, jitter: spec.jitter, variation })
}

/// All traffic that a `[[background]]` stands for.
pub(super) fn background(
    spec: &BackgroundSpec,
    context: &NetworkContext<'_>,
) -> Vec<Jittered<Traffic>> {
    let mut found = Vec::new();
    for &heading in spec.headings {
        for number in 0..spec.sources {
            let before = context.problems.reports();
            found.extend(one_of_each(spec, heading, number, context));
            // Where one source can't be, others of this direction most likely can't be either.
            if context.problems.reports() > before {
                break;
            }
        }
    }
    found
}

/// One source of each kind in one direction.
fn one_of_each(
    spec: &BackgroundSpec,
    heading: Heading,
    number: u32,
    context: &NetworkContext<'_>,
) -> Vec<Jittered<Traffic>> {
    let what = format!("background \"{}\"", spec.name);
    let (from, to, word) = match heading {
        Heading::Forward => (&spec.from, &spec.to, "forward"),
        Heading::Backward => (&spec.to, &spec.from, "backward"),
    };
    let at = |side: &[Located<_>]| -> usize { number as usize % side.len() };
    let (from, to) = (&from[at(from)], &to[at(to)]);
    let Some(legs) = context.legs(&what, &from.value.0, to) else { return Vec::new() };
    let Some(capacity) = capacity(spec, &from.value.0, &to.value.0, &legs, context) else {
        return Vec::new();
    };
    // Of one source, in bits a second.
    let load = |part: f64| capacity.bps() as f64 * spec.share * part / f64::from(spec.sources);
    let cbr = Source::Cbr {
        rate: Rate::bits_per_second((load(spec.mix.cbr).round() as u64).max(1)),
        packet: context.packet(&what, &legs, spec.packet.as_ref()),
    };
    let files = |part, size| Source::Files { per_second: arrivals(load(part), size), size };
    let kinds = [
        ("cbr", spec.mix.cbr, cbr),
        ("ftp", spec.mix.ftp, files(spec.mix.ftp, spec.ftp)),
        ("web", spec.mix.web, files(spec.mix.web, spec.web)),
    ];
    let suffix = if spec.sources == 1 { String::new() } else { (number + 1).to_string() };
    let traffic = |(kind, _, source)| Traffic {
        name: format!("{}-{word}-{kind}{suffix}", spec.name),
        from: from.value.0.clone(),
        to: to.value.0.clone(),
        cc: spec.cc.clone().unwrap_or_else(|| cc_of(&from.value.0, context.nodes)),
        start: spec.start,
        source,
    };
    let present = kinds.into_iter().filter(|(_, part, _)| load(*part) > 0.0);
    let variation = context.round_trip(&from.value.0, &to.value.0);
    let source = |kind| Jittered { thing: traffic(kind), jitter: spec.jitter, variation };
    present.map(source).collect()
}

/// The rate of the link's direction that the path crosses.
fn capacity(
    spec: &BackgroundSpec,
    from: &str,
    to: &str,
    legs: &[Leg],
    context: &NetworkContext<'_>,
) -> Option<Rate> {
    let name = &spec.link.value.0;
    let crossed = legs.iter().find(|leg| context.links[leg.link].name == *name);
    let rate = crossed.map(|leg| context.links[leg.link].direction(leg.heading).rate);
    let fault = match rate {
        Some(Some(rate)) => return Some(rate),
        Some(None) => format!("link \"{name}\" has no rate to take a share of"),
        None => format!("the path from \"{from}\" to \"{to}\" does not cross link \"{name}\""),
    };
    let message = format!("background \"{}\": {fault}", spec.name);
    context.problems.report(&spec.link.location, message);
    None
}
