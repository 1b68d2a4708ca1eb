// SPDX-License-Identifier: GPL-2.0-or-later
//! What the values of a network's keys may be.

use crate::{
    document::{Data, Entry, Value},
    fields::{Field, Located, Mismatch, Name, Pattern, Whole, from_quantity, from_text, mismatch},
    run::{Burst, Client, Family, Heading, LossDetection, Profile, Queue, Recovery, Signalling},
};
use std::collections::BTreeMap;
use units::{Bytes, Duration, Probability};

/// The congestion control of a flow's hops.
#[derive(Debug, Clone)]
pub(crate) enum HopCc {
    EveryHop(String),
    EachHop(Vec<String>),
}

/// A buffer's size, given outright, as a multiple of the bandwidth-delay product, or as what the paths need.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Size {
    Bytes(Bytes),
    Bdp(f64),
    Auto,
}

/// The length of a queue, given outright or as a multiple of the bandwidth-delay product.
#[derive(Debug, Clone, Copy)]
pub(crate) enum QueueSize {
    Given(Queue),
    Bdp(f64),
}

/// The two ends of a link.
pub(super) struct NodePair(pub [Located<Pattern>; 2]);

impl Field for NodePair {
    const EXPECTED: &'static str = "a list of the two nodes, as in [\"client\", \"server\"]";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        match &value.data {
            Data::List(ends) if ends.len() == 2 => {
                Ok(Self([Located::read(&ends[0])?, Located::read(&ends[1])?]))
            }
            _ => Err(mismatch(value, Self::EXPECTED)),
        }
    }
}

/// A time above zero.
pub(super) struct PositiveDuration(pub Duration);

impl Field for PositiveDuration {
    const EXPECTED: &'static str = "a time above zero with its unit, as in 90s or 500us";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        from_text(value, Self::EXPECTED, |text| {
            text.parse().ok().filter(|d| *d > Duration::ZERO).map(Self)
        })
    }
}

/// A size above zero.
pub(super) struct PositiveBytes(pub Bytes);

impl Field for PositiveBytes {
    const EXPECTED: &'static str = "a size above zero, as in 1500, 128KB or 100MB (k = 1024)";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        from_quantity::<Bytes, _>(value, Self::EXPECTED, |text| {
            text.parse().ok().filter(|b| *b > Bytes::ZERO).map(Self)
        })
    }
}

/// One name, or a list of them.
pub(super) struct Names(pub Vec<Located<Name>>);

impl Field for Names {
    const EXPECTED: &'static str = "the name of a node, or a list of names";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        match &value.data {
            Data::List(names) if names.is_empty() => Err(mismatch(value, Self::EXPECTED)),
            Data::List(_) => Vec::read(value).map(Self),
            _ => Located::read(value).map(|name| Self(vec![name])),
        }
    }
}

/// A part of a whole, from nothing to all of it.
pub(super) struct Fraction(pub f64);

impl Field for Fraction {
    const EXPECTED: &'static str = "a share from 0 to 100 %, as in 20% or 0.2";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        from_text(value, Self::EXPECTED, |text| {
            let text = text.trim();
            let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |n| (n, 100.0));
            let share = number.trim().parse::<f64>().ok()? / unit;
            (0.0..=1.0).contains(&share).then_some(Self(share))
        })
    }
}

/// A part of a whole that is more than nothing.
pub(super) struct PositiveFraction(pub f64);

impl Field for PositiveFraction {
    const EXPECTED: &'static str = "a share above 0 and up to 100 %, as in 10% or 0.1";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        match Fraction::read(value) {
            Ok(Fraction(share)) if share > 0.0 => Ok(Self(share)),
            _ => Err(mismatch(value, Self::EXPECTED)),
        }
    }
}

/// A time between two updates of a control.
pub(super) struct UpdateInterval(pub Duration);

impl Field for UpdateInterval {
    const EXPECTED: &'static str = "a time from 1ms to 1s, as in 15ms";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        let fits = |d: &Duration| (Duration::from_millis(1)..=Duration::from_secs(1)).contains(d);
        from_text(value, Self::EXPECTED, |text| text.parse().ok().filter(fits).map(Self))
    }
}

/// How strongly a control answers.
pub(super) struct Gain(pub f64);

impl Field for Gain {
    const EXPECTED: &'static str = "a number above 0 and up to 100, as in 0.125";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        number(value, Self::EXPECTED, |n| n > 0.0 && n <= 100.0).map(Self)
    }
}

/// A number below 10^9, far from where arithmetic ends.
fn number(value: &Value, expected: &str, fits: impl Fn(f64) -> bool) -> Result<f64, Mismatch> {
    from_text(value, expected, |text| {
        text.trim().parse().ok().filter(|n: &f64| *n < 1e9 && fits(*n))
    })
}

/// How many in a second.
pub(super) struct PerSecond(pub f64);

impl Field for PerSecond {
    const EXPECTED: &'static str = "a number a second, above zero, as in 20 or 0.5";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        number(value, Self::EXPECTED, |n| n > 0.0).map(Self)
    }
}

/// The exponent of a Pareto distribution that has a mean.
pub(super) struct ParetoShape(pub f64);

impl Field for ParetoShape {
    const EXPECTED: &'static str = "a number above 1, as in 1.2";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        number(value, Self::EXPECTED, |n| n > 1.0).map(Self)
    }
}

/// The name of a parameter or of a set of them.
pub(super) struct ParameterName(pub String);

impl Field for ParameterName {
    const EXPECTED: &'static str = "a name of small letters, digits, _ and -, at most 63 in all";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        let name = |text: &str| Self::is_one(text).then(|| Self(text.to_owned()));
        from_text(value, Self::EXPECTED, name)
    }
}

impl ParameterName {
    fn is_one(text: &str) -> bool {
        (1..=63).contains(&text.len())
            && text.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '_' | '-'))
    }
}

/// Parameters of a congestion control.
pub(super) struct Parameters(pub BTreeMap<String, u32>);

impl Field for Parameters {
    const EXPECTED: &'static str = "a table of whole numbers, as in { low_window = 38 }";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        let table = value.as_table().ok_or_else(|| mismatch(value, Self::EXPECTED))?;
        let parameter = |e: &Entry| {
            if !ParameterName::is_one(&e.key) {
                let expected = ParameterName::EXPECTED;
                return Err((e.location.clone(), format!("\"{}\" is not {expected}", e.key)));
            }
            let value = Whole::<0, { u32::MAX as u64 }>::read(&e.value)
                .map_err(|(location, message)| (location, format!("{}: {message}", e.key)))?;
            Ok((e.key.clone(), value.0 as u32))
        };
        table.entries().map(parameter).collect::<Result<_, _>>().map(Self)
    }
}

/// A congestion control's name as the kernel takes it (at most 15 characters, `TCP_CA_NAME_MAX`).
pub(super) struct CcName(pub String);

impl Field for CcName {
    const EXPECTED: &'static str = CC_NAME;
    fn read(value: &Value) -> Result<Self, Mismatch> {
        from_text(value, Self::EXPECTED, |text| is_cc_name(text).then(|| Self(text.to_owned())))
    }
}

/// What is expected where [`is_cc_name`] is not true.
pub(crate) const CC_NAME: &str = "the name of a congestion control, as in cubic or bbr";

pub(crate) fn is_cc_name(text: &str) -> bool {
    (1..=15).contains(&text.len())
        && text.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '_' | '-'))
}

impl Field for HopCc {
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
pub(super) struct Sysctls(pub BTreeMap<String, String>);

impl Field for Sysctls {
    const EXPECTED: &'static str = "a table, as in { \"net.ipv4.tcp_sack\" = \"0\" }";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        let table = value.as_table().ok_or_else(|| mismatch(value, Self::EXPECTED))?;
        let setting = |e: &Entry| {
            if !is_sysctl(&e.key) {
                let message = format!("\"{}\" is not a kernel setting under net.", e.key);
                return Err((e.location.clone(), message));
            }
            let text = e.value.as_text().ok_or_else(|| {
                let (location, message) = mismatch(&e.value, "a text or a number");
                (location, format!("{}: {message}", e.key))
            })?;
            Ok((e.key.clone(), text.to_owned()))
        };
        table.entries().map(setting).collect::<Result<_, _>>().map(Self)
    }
}

/// Only what a network namespace has of its own; anything else is the machine's.
pub(crate) fn is_sysctl(key: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
    };
    key.starts_with("net.") && key.split('.').all(is_part)
}

fn bdp(text: &str) -> Option<f64> {
    let factor: f64 = text.trim().strip_suffix("bdp")?.trim().parse().ok()?;
    (factor.is_finite() && factor > 0.0).then_some(factor)
}

impl Field for Size {
    const EXPECTED: &'static str =
        "auto, a size, as in 4MB, or a multiple of the bandwidth-delay product, as in 8bdp";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        from_quantity::<Bytes, _>(value, Self::EXPECTED, |text| match bdp(text) {
            Some(factor) => Some(Self::Bdp(factor)),
            None if text.trim() == "auto" => Some(Self::Auto),
            None => text.parse().ok().filter(|b| *b > Bytes::ZERO).map(Self::Bytes),
        })
    }
}

impl Field for QueueSize {
    const EXPECTED: &'static str = "a queue's limit, as in 1bdp (bandwidth-delay product), 500p \
                                    (packets) or 128KB";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        // The tools that scenarios are translated from count packets (ns-2, tc) or bytes (mahimahi).
        if let Some(number) = value.as_text().map(str::trim)
            && number.parse::<f64>().is_ok_and(|n| n > 0.0)
        {
            let expected = format!("clear: write {number}p for packets or {number}B for bytes");
            return Err(mismatch(value, &expected));
        }
        let given = |text: &str| match text.trim().strip_suffix('p') {
            Some(packets) => packets.trim().parse().ok().filter(|n| *n > 0).map(Queue::Packets),
            None => text.parse().ok().filter(|b| *b > Bytes::ZERO).map(Queue::Bytes),
        };
        from_quantity::<Bytes, _>(value, Self::EXPECTED, |text| match bdp(text) {
            Some(factor) => Some(Self::Bdp(factor)),
            None => given(text).map(Self::Given),
        })
    }
}

/// The probability that a packet is lost, where some arrive.
pub(super) struct LossProbability(pub Probability);

impl Field for LossProbability {
    const EXPECTED: &'static str =
        "a probability below 1, as in 0.02%, 0.0002 or 0.1% over 3 (segments in series)";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        let percent = value
            .as_text()
            .map(str::trim)
            .filter(|text| text.parse::<f64>().is_ok_and(|n| (1.0..100.0).contains(&n)));
        if let Some(number) = percent {
            let expected = format!("a probability below 1; write {number}% for a percentage");
            return Err(mismatch(value, &expected));
        }
        match Probability::read(value) {
            Ok(probability) if probability.get() < 1.0 => Ok(Self(probability)),
            _ => Err(mismatch(value, Self::EXPECTED)),
        }
    }
}

/// What traffic is like.
#[derive(Debug, Clone, Copy)]
pub(super) enum SourceKind {
    Cbr,
    OnOff,
    Web,
    Ftp,
}

/// A queue discipline.
#[derive(Debug, Clone, Copy)]
pub(super) enum DisciplineName {
    Taildrop,
    Red,
    Pie,
    Codel,
    FqCodel,
}

/// In which directions.
pub(super) struct Headings(pub &'static [Heading]);

impl Headings {
    pub const BOTH: Self = Self(&[Heading::Forward, Heading::Backward]);
}

/// A time, or else a size.
impl Field for Burst {
    const EXPECTED: &'static str = "a time or a size above zero, as in 10s or 10MB";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        from_quantity::<Bytes, _>(value, Self::EXPECTED, |_| {
            let time = PositiveDuration::read(value).map(|PositiveDuration(time)| Self::Time(time));
            time.or_else(|_| {
                PositiveBytes::read(value).map(|PositiveBytes(bytes)| Self::Bytes(bytes))
            })
            .ok()
        })
    }
}

/// One of a few words.
macro_rules! keyword {
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
keyword!(Family, "ipv4 or ipv6", "ipv4" => Self::Ipv4, "ipv6" => Self::Ipv6);
keyword!(Client, "curl, wget or aria2", "curl" => Self::Curl, "wget" => Self::Wget, "aria2" => Self::Aria2);
keyword!(Signalling, "fetch or lead", "fetch" => Self::Fetch, "lead" => Self::Lead);
keyword!(Profile, "linux or ns2", "linux" => Self::Linux, "ns2" => Self::Ns2);
keyword!(LossDetection, "rack or dupack", "rack" => Self::Rack, "dupack" => Self::Dupack);
keyword!(
    Recovery, "prr, pipe or halving",
    "prr" => Self::Prr, "pipe" => Self::Pipe, "halving" => Self::Halving
);
keyword!(SourceKind, "cbr, on-off, web or ftp",
    "cbr" => Self::Cbr, "on-off" => Self::OnOff, "web" => Self::Web, "ftp" => Self::Ftp);
keyword!(DisciplineName, "taildrop, red, pie, codel or fq_codel",
    "taildrop" => Self::Taildrop, "red" => Self::Red, "pie" => Self::Pie, "codel" => Self::Codel,
    "fq_codel" => Self::FqCodel);
keyword!(Headings, "both, forward or backward",
    "both" => Self::BOTH,
    "forward" => Self(&[Heading::Forward]),
    "backward" => Self(&[Heading::Backward]));
