// SPDX-License-Identifier: GPL-2.0-or-later
//! Quantities as JSON numbers, for keys that carry the unit (`rate_bps`, `delay_us`).
//!
//! A number without a fraction is written without a point, so that equal runs are equal text.

use serde::{Deserialize, Deserializer, Serializer};
use units::{Bytes, Duration, Probability, Rate};

/// What a switch was before records had it.
pub(crate) fn yes() -> bool {
    true
}

fn time<S: Serializer>(d: Duration, unit_nanos: u64, s: S) -> Result<S::Ok, S::Error> {
    let nanos = d.as_nanos();
    if nanos.is_multiple_of(unit_nanos) {
        s.serialize_u64(nanos / unit_nanos)
    } else {
        s.serialize_f64(nanos as f64 / unit_nanos as f64)
    }
}

fn parse_time<'de, D: Deserializer<'de>>(unit_nanos: u64, d: D) -> Result<Duration, D::Error> {
    Ok(from_number(f64::deserialize(d)?, unit_nanos))
}

fn from_number(n: f64, unit_nanos: u64) -> Duration {
    // Exact up to 104 days: 2^53 ns.
    Duration::from_nanos((n * unit_nanos as f64).round() as u64)
}

/// Defines a module for `#[serde(with = ...)]`.
macro_rules! number {
    ($name:ident, $type:ty, $write:expr, $read:expr) => {
        pub(crate) mod $name {
            use super::*;
            pub fn serialize<S: Serializer>(v: &$type, s: S) -> Result<S::Ok, S::Error> {
                let write: fn(&$type, S) -> Result<S::Ok, S::Error> = $write;
                write(v, s)
            }
            pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<$type, D::Error> {
                let read: fn(D) -> Result<$type, D::Error> = $read;
                read(d)
            }
        }
    };
}

number!(seconds, Duration, |v, s| time(*v, 1_000_000_000, s), |d| parse_time(1_000_000_000, d));
number!(
    some_seconds,
    Option<Duration>,
    |v, s| match v {
        Some(v) => seconds::serialize(v, s),
        None => s.serialize_none(),
    },
    |d| Ok(Option::<f64>::deserialize(d)?.map(|n| from_number(n, 1_000_000_000)))
);
number!(micros, Duration, |v, s| time(*v, 1000, s), |d| parse_time(1000, d));
number!(
    some_micros,
    Option<Duration>,
    |v, s| match v {
        Some(v) => micros::serialize(v, s),
        None => s.serialize_none(),
    },
    |d| Ok(Option::<f64>::deserialize(d)?.map(|n| from_number(n, 1000)))
);
number!(bytes, Bytes, |v, s| s.serialize_u64(v.get()), |d| Ok(Bytes::new(u64::deserialize(d)?)));
number!(
    some_bytes,
    Option<Bytes>,
    |v, s| match v {
        Some(v) => s.serialize_u64(v.get()),
        None => s.serialize_none(),
    },
    |d| Ok(Option::<u64>::deserialize(d)?.map(Bytes::new))
);
number!(rate, Rate, |v, s| s.serialize_u64(v.bps()), |d| {
    Ok(Rate::bits_per_second(u64::deserialize(d)?))
});
number!(
    some_rate,
    Option<Rate>,
    |v, s| match v {
        Some(v) => s.serialize_u64(v.bps()),
        None => s.serialize_none(),
    },
    |d| Ok(Option::<u64>::deserialize(d)?.map(Rate::bits_per_second))
);
number!(probability, Probability, |v, s| s.serialize_f64(v.get()), |d| {
    let p = f64::deserialize(d)?;
    Probability::new(p).ok_or_else(|| serde::de::Error::custom(format!("{p} is not a probability")))
});
