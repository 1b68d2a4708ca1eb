// SPDX-License-Identifier: GPL-2.0-or-later
//! `[pacing]`, `[[bottleneck]]`, and the `pacing` of a flow.

use super::values::{Names, PositiveBytes};
use crate::{
    diagnostics::Location,
    document::{Data, Value},
    fields::{Field, Fields, Located, Mismatch, Name, from_quantity, from_text},
    run::{FlowPacing, PacingRtt, PacingSettings},
};
use netmodel::pacing::Estimator;
use units::Rate;

/// How a flow's hops are paced.
#[derive(Debug, Clone)]
pub(crate) enum HopPacing {
    EveryHop(FlowPacing),
    EachHop(Vec<FlowPacing>),
}

impl Field for FlowPacing {
    const EXPECTED: &'static str = "none, gap, edt, tcp or a rate with its unit, as in 500mbit";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        from_quantity::<Rate, _>(value, Self::EXPECTED, |text| match text {
            "none" => Some(Self::None),
            "gap" => Some(Self::Gap),
            "edt" => Some(Self::Edt),
            "tcp" => Some(Self::Tcp),
            _ => text.parse().ok().map(Self::Rate),
        })
    }
}

impl Field for HopPacing {
    const EXPECTED: &'static str = FlowPacing::EXPECTED;
    fn read(value: &Value) -> Result<Self, Mismatch> {
        match &value.data {
            Data::List(_) => Vec::read(value).map(Self::EachHop),
            _ => FlowPacing::read(value).map(Self::EveryHop),
        }
    }
}

impl Field for PacingRtt {
    const EXPECTED: &'static str = "smallest or smoothed";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        from_text(value, Self::EXPECTED, |text| match text {
            "smallest" => Some(Self::Smallest),
            "smoothed" => Some(Self::Smoothed),
            _ => None,
        })
    }
}

/// A named estimator.
struct EstimatorName(Estimator);

impl Field for EstimatorName {
    const EXPECTED: &'static str = "link or paper";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        from_text(value, Self::EXPECTED, |text| match text {
            "link" => Some(Self(Estimator::LINK)),
            "paper" => Some(Self(Estimator::PAPER)),
            _ => None,
        })
    }
}

/// The estimator's settings, except for the keys that are given.
pub(super) fn settings(fields: Option<Fields<'_>>) -> PacingSettings {
    let Some(mut fields) = fields else { return PacingSettings::default() };
    let own = PacingSettings::of(fields.or("estimator", EstimatorName(Estimator::LINK)).0);
    let settings = PacingSettings {
        rtt: fields.or("rtt", own.rtt),
        headers: fields.or("headers", own.headers),
        recovery: fields.or("recovery", own.recovery),
        max_rate: fields.optional("max_rate"),
        find_cap: fields.or("find_cap", own.find_cap),
        max_gap: fields.or("max_gap", PositiveBytes(own.max_gap)).0,
        max_frame: fields.or("max_frame", PositiveBytes(own.max_frame)).0,
        classes: fields.or("classes", own.classes),
    };
    fields.finish();
    settings
}

#[derive(Debug, Clone)]
pub(crate) struct BottleneckSpec {
    pub location: Location,
    pub name: Name,
    pub from: Located<Name>,
    pub to: Vec<Located<Name>>,
    pub rate: Rate,
}

pub(super) fn bottleneck(mut fields: Fields<'_>) -> Option<BottleneckSpec> {
    let name = fields.required("name");
    let from = fields.required("from");
    let to = fields.required("to").map(|Names(names)| names);
    let rate = fields.required("rate");
    let location = fields.location().clone();
    fields.finish();
    Some(BottleneckSpec { location, name: name?, from: from?, to: to?, rate: rate? })
}
