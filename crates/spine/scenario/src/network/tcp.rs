// SPDX-License-Identifier: GPL-2.0-or-later
//! `[tcp]` and `[[congestion]]`.

use super::values::{CcName, ParameterName, Parameters, PositiveBytes, PositiveDuration};
use crate::{
    diagnostics::Location,
    fields::{Fields, Whole},
    run::{Congestion, Family, Profile, Tcp},
};
use std::collections::BTreeMap;

/// The profile's TCP, except for the keys that are given.
pub(super) fn tcp(fields: Option<Fields<'_>>, family: Family) -> Tcp {
    let Some(mut fields) = fields else { return Tcp::of(Profile::default(), family) };
    let profile = fields.or("profile", Profile::default());
    let own = Tcp::of(profile, family);
    let tcp = Tcp {
        profile,
        handshake: fields.or("handshake", own.handshake),
        initial_window: fields.or("initial_window", Whole::<1, 10_000>(own.initial_window.into())).0
            as u32,
        initial_ssthresh: fields
            .optional("initial_ssthresh")
            .map(|Whole::<1, 0x7fff_ffff>(segments)| segments as u32)
            .or(own.initial_ssthresh),
        hystart: fields.or("hystart", own.hystart),
        loss_detection: fields.or("loss_detection", own.loss_detection),
        tail_probe: fields.or("tail_probe", own.tail_probe),
        recovery: fields.or("recovery", own.recovery),
        ack_every: fields.or("ack_every", Whole::<1, 1000>(own.ack_every.into())).0 as u32,
        ack_delay: fields.or("ack_delay", own.ack_delay),
        ack_stretch: fields.or("ack_stretch", own.ack_stretch),
        min_rto: fields.or("min_rto", PositiveDuration(own.min_rto)).0,
        autotuning: fields.or("autotuning", own.autotuning),
        rcvbuf: fields.or("rcvbuf", PositiveBytes(own.rcvbuf)).0,
        sndbuf: fields.or("sndbuf", PositiveBytes(own.sndbuf)).0,
        pacing: fields.or("pacing", own.pacing),
        ecn: fields.or("ecn", own.ecn),
        header: fields.or("header", Whole::<20, 120>(own.header.into())).0 as u32,
    };
    fields.finish();
    tcp
}

/// Whether there are such sets and parameters is for those to say who have the algorithms.
pub(super) fn congestion(mut fields: Fields<'_>) -> Option<(Location, Congestion)> {
    let name: Option<CcName> = fields.required("name");
    let set: Option<ParameterName> = fields.optional("set");
    let parameters = fields.optional("parameters").map_or_else(BTreeMap::new, |Parameters(p)| p);
    let location = fields.location().clone();
    fields.finish();
    Some((location, Congestion { name: name?.0, set: set.map(|set| set.0), parameters }))
}
