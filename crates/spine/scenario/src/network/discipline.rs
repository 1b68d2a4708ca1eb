// SPDX-License-Identifier: GPL-2.0-or-later
//! `discipline = "red"`, or a table with a `kind` and its parameters, named as by tc(8).

use super::values::{
    DisciplineName, Fraction, Gain, PositiveDuration, PositiveFraction, QueueSize, UpdateInterval,
};
use crate::{
    document::{Data, Table},
    fields::{Fields, Located, Whole},
    run::Discipline,
};
use units::{Bytes, Duration};

/// A discipline whose thresholds may have to be sized.
#[derive(Debug, Clone)]
pub(crate) enum DisciplineSpec {
    Red(RedSpec),
    Known(Discipline),
}

/// RED, with thresholds as they are given.
#[derive(Debug, Clone)]
pub(crate) struct RedSpec {
    pub min: Option<Located<QueueSize>>,
    pub max: Option<Located<QueueSize>>,
    pub probability: f64,
    pub weight: f64,
    pub avpkt: Bytes,
    pub gentle: bool,
    pub ecn: bool,
}

impl DisciplineSpec {
    pub fn is_taildrop(&self) -> bool {
        matches!(self, Self::Known(Discipline::Taildrop))
    }

    pub fn is_fq_codel(&self) -> bool {
        matches!(self, Self::Known(Discipline::FqCodel { .. }))
    }
}

/// The discipline of a direction whose full packets take `full_packet` bytes on the link.
pub(super) fn discipline(fields: &mut Fields<'_>, full_packet: u64) -> DisciplineSpec {
    let none = Table::default();
    let is_table = fields.raw("discipline").is_some_and(|v| matches!(v.data, Data::Table(_)));
    let (kind, mut keys) = if is_table {
        let Some(mut keys) = fields.section("discipline") else {
            return DisciplineSpec::Known(Discipline::Taildrop);
        };
        (keys.required("kind"), keys)
    } else {
        (fields.optional("discipline"), fields.over(&none))
    };
    let Some(kind) = kind else {
        // For an unreadable kind, only that error is reported, not its unknown keys.
        return DisciplineSpec::Known(Discipline::Taildrop);
    };
    let spec = match kind {
        DisciplineName::Taildrop => DisciplineSpec::Known(Discipline::Taildrop),
        DisciplineName::Red => DisciplineSpec::Red(red(&mut keys)),
        DisciplineName::Pie => DisciplineSpec::Known(pie(&mut keys)),
        DisciplineName::Codel => {
            let (target, interval) = delays(&mut keys);
            let ecn = keys.or("ecn", false);
            DisciplineSpec::Known(Discipline::Codel { target, interval, ecn })
        }
        DisciplineName::FqCodel => {
            let (target, interval) = delays(&mut keys);
            DisciplineSpec::Known(Discipline::FqCodel {
                target,
                interval,
                flows: keys.or("flows", Whole::<1, 65_536>(1024)).0 as u32,
                quantum: Bytes::new(keys.or("quantum", Whole::<256, 65_535>(full_packet)).0),
                ecn: keys.or("ecn", true),
            })
        }
    };
    if is_table {
        keys.finish();
    }
    spec
}

fn red(keys: &mut Fields<'_>) -> RedSpec {
    RedSpec {
        min: keys.optional("min"),
        max: keys.optional("max"),
        probability: keys.or("probability", PositiveFraction(0.1)).0,
        weight: keys.or("weight", PositiveFraction(0.002)).0,
        avpkt: Bytes::new(keys.or("avpkt", Whole::<64, 65_535>(1000)).0),
        gentle: keys.or("gentle", true),
        ecn: keys.or("ecn", false),
    }
}

fn pie(keys: &mut Fields<'_>) -> Discipline {
    Discipline::Pie {
        target: keys.or("target", PositiveDuration(Duration::from_millis(15))).0,
        tupdate: keys.or("tupdate", UpdateInterval(Duration::from_millis(15))).0,
        alpha: keys.or("alpha", Gain(0.125)).0,
        beta: keys.or("beta", Gain(1.25)).0,
        burst: keys.or("burst", Duration::from_millis(150)),
        ecn: keys.or("ecn", false),
        ecn_limit: keys.or("ecn_limit", Fraction(0.1)).0,
    }
}

/// CoDel's target and interval.
fn delays(keys: &mut Fields<'_>) -> (Duration, Duration) {
    let target = keys.optional::<Located<PositiveDuration>>("target");
    let interval = keys.or("interval", PositiveDuration(Duration::from_millis(100))).0;
    let Some(Located { location, value: PositiveDuration(target) }) = target else {
        return (Duration::from_millis(5), interval);
    };
    if target >= interval {
        keys.report(
            &location,
            &format!("target: {target} is not below the interval of {interval}"),
        );
    }
    (target, interval)
}
