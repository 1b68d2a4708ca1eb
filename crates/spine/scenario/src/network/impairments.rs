// SPDX-License-Identifier: GPL-2.0-or-later
//! `reorder`, `duplicate`, `jitter`, `outages`, `policer`: what a link does beyond queue and loss.

use super::values::PositiveDuration;
use crate::{
    document::{Data, Value},
    fields::{Field, Fields, Mismatch, mismatch},
    run::{
        JitterDistribution, LatePackets, LinkImpairments, LinkOutage, LinkPolicer, PacketJitter,
    },
};
use units::{Bytes, Duration, Probability};

/// Of a direction whose full packets take `full_packet` bytes on the link.
pub(super) fn impairments(fields: &mut Fields<'_>, full_packet: u64) -> LinkImpairments {
    let impairments = LinkImpairments {
        reorder: fields.section("reorder").and_then(late_packets),
        duplicate: fields.or("duplicate", Probability::ZERO),
        jitter: jitter(fields),
        outages: outages(fields),
        policer: fields.section("policer").and_then(policer),
    };
    if let Err(error) = impairments.model().check(Bytes::new(full_packet)) {
        let key = if impairments.policer.is_some() { "policer" } else { "outages" };
        let location =
            fields.raw(key).map_or_else(|| fields.location().clone(), |v| v.location.clone());
        fields.report(&location, &error.to_string());
        return LinkImpairments::default();
    }
    impairments
}

fn late_packets(mut fields: Fields<'_>) -> Option<LatePackets> {
    let probability = fields.required("probability");
    let by = fields.required::<PositiveDuration>("by");
    fields.finish();
    Some(LatePackets { probability: probability?, by: by?.0 })
}

/// `jitter = "2ms"`, or a table with a distribution.
fn jitter(fields: &mut Fields<'_>) -> Option<PacketJitter> {
    if fields.raw("jitter").is_none_or(|v| !matches!(v.data, Data::Table(_))) {
        let most = fields.optional::<Duration>("jitter").filter(|most| *most > Duration::ZERO)?;
        let distribution = JitterDistribution::Uniform { most };
        return Some(PacketJitter { distribution, reorders: false });
    }
    let mut keys = fields.section("jitter")?;
    let distribution = match keys.or("distribution", DistributionName::Uniform) {
        DistributionName::Uniform => keys
            .required::<PositiveDuration>("most")
            .map(|most| JitterDistribution::Uniform { most: most.0 }),
        DistributionName::Exponential => keys
            .required::<PositiveDuration>("mean")
            .map(|mean| JitterDistribution::Exponential { mean: mean.0 }),
        DistributionName::Normal => {
            let mean = keys.required::<PositiveDuration>("mean");
            let deviation = keys.required::<PositiveDuration>("deviation");
            mean.zip(deviation).map(|(mean, deviation)| JitterDistribution::Normal {
                mean: mean.0,
                deviation: deviation.0,
            })
        }
    };
    let reorders = keys.or("reorders", false);
    keys.finish();
    Some(PacketJitter { distribution: distribution?, reorders })
}

enum DistributionName {
    Uniform,
    Exponential,
    Normal,
}

impl Field for DistributionName {
    const EXPECTED: &'static str = "\"uniform\", \"exponential\" or \"normal\"";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        match value.as_text() {
            Some("uniform") => Ok(Self::Uniform),
            Some("exponential") => Ok(Self::Exponential),
            Some("normal") => Ok(Self::Normal),
            _ => Err(mismatch(value, Self::EXPECTED)),
        }
    }
}

/// What becomes of packets in an outage.
struct PacketsWait(bool);

impl Field for PacketsWait {
    const EXPECTED: &'static str = "\"wait\" (in the queue) or \"lost\"";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        match value.as_text() {
            Some("wait") => Ok(Self(true)),
            Some("lost") => Ok(Self(false)),
            _ => Err(mismatch(value, Self::EXPECTED)),
        }
    }
}

/// The most outages of one direction: each packet is compared with all of them.
const MOST_OUTAGES: usize = 100;

/// A list of tables.
fn outages(fields: &mut Fields<'_>) -> Vec<LinkOutage> {
    let outages = fields.sections("outages");
    if outages.len() > MOST_OUTAGES {
        let message =
            format!("more than {MOST_OUTAGES} outages: use \"every\" for those that repeat");
        fields.report(fields.location(), &message);
        return Vec::new();
    }
    let outage = |mut fields: Fields<'_>| {
        let from = fields.or("from", Duration::ZERO);
        let lasts = fields.required::<PositiveDuration>("for");
        let every = fields.optional::<PositiveDuration>("every").map(|every| every.0);
        let packets_wait = fields.or("packets", PacketsWait(false)).0;
        fields.finish();
        Some(LinkOutage { from, lasts: lasts?.0, every, packets_wait })
    };
    outages.into_iter().filter_map(outage).collect()
}

fn policer(mut fields: Fields<'_>) -> Option<LinkPolicer> {
    let rate = fields.required("rate");
    let burst = fields.required("burst");
    fields.finish();
    Some(LinkPolicer { rate: rate?, burst: burst? })
}
