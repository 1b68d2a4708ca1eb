// SPDX-License-Identifier: GPL-2.0-or-later
//! A node's `capture`: `true`, or a table with what differs from the defaults.

use crate::{
    diagnostics::Location,
    document::{Data, Value},
    fields::{Field, Fields, Mismatch, Whole, from_quantity},
};
use units::Bytes;

/// What the file gives of a capture.
#[derive(Debug, Clone)]
pub(crate) struct CaptureSpec {
    pub location: Location,
    /// Depends on the run's family where it is none.
    pub snap: Option<u32>,
    pub limit: Option<Bytes>,
}

/// Ethernet, IPv6 and UDP; and the longest frame of a TAP device.
type Snap = Whole<62, 65_535>;

/// The size of a file that has room for packets.
struct Limit(Bytes);

impl Limit {
    const LEAST: Bytes = Bytes::new(64 << 10);
}

impl Field for Limit {
    const EXPECTED: &'static str = "a size of at least 64KB, as in 100MB or 4GB (k = 1024)";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        from_quantity::<Bytes, _>(value, Self::EXPECTED, |text| {
            text.parse().ok().filter(|bytes| *bytes >= Self::LEAST).map(Self)
        })
    }
}

/// Reads the key; none where it is absent, false or wrong.
pub(super) fn capture(fields: &mut Fields<'_>) -> Option<CaptureSpec> {
    let value = fields.raw("capture")?;
    let location = value.location.clone();
    if !matches!(value.data, Data::Table(_)) {
        let is_wanted = fields.or("capture", false);
        return is_wanted.then_some(CaptureSpec { location, snap: None, limit: None });
    }
    let mut table = fields.section("capture")?;
    let snap = table.optional("snap").map(|snap: Snap| snap.0 as u32);
    let limit = table.optional("limit").map(|Limit(bytes)| bytes);
    table.finish();
    Some(CaptureSpec { location, snap, limit })
}
