// SPDX-License-Identifier: GPL-2.0-or-later
//! A [`MedianRange`] in a JSON document: three keys next to the others, `median_X`, `least_X` and `most_X`, which are
//! null without values.

#![allow(clippy::ref_option, reason = "serde gives a reference to the field")]

use crate::stats::MedianRange;
use serde::{Serializer, ser::SerializeMap};

macro_rules! ranges {
    ($($name:ident $median:literal $least:literal $most:literal;)*) => {
        $(pub(super) fn $name<S: Serializer>(
            range: &Option<MedianRange>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            let mut map = serializer.serialize_map(Some(3))?;
            map.serialize_entry($median, &range.map(|range| range.median))?;
            map.serialize_entry($least, &range.map(|range| range.least))?;
            map.serialize_entry($most, &range.map(|range| range.most))?;
            map.end()
        })*
    };
}

ranges! {
    goodput_bps "median_goodput_bps" "least_goodput_bps" "most_goodput_bps";
    bytes "median_bytes" "least_bytes" "most_bytes";
    completion_p50_s "median_completion_p50_s" "least_completion_p50_s" "most_completion_p50_s";
    completion_p99_s "median_completion_p99_s" "least_completion_p99_s" "most_completion_p99_s";
    files_completed "median_files_completed" "least_files_completed" "most_files_completed";
    files_offered "median_files_offered" "least_files_offered" "most_files_offered";
    seconds "median_seconds" "least_seconds" "most_seconds";
    jain_index "median_jain_index" "least_jain_index" "most_jain_index";
    retransmits "median_retransmits" "least_retransmits" "most_retransmits";
    utilisation "median_utilisation" "least_utilisation" "most_utilisation";
}
