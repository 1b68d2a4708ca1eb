// SPDX-License-Identifier: GPL-2.0-or-later
//! The tasks, each with what is measured of it.

use crate::{
    measures::{
        Seen, bottleneck_share, bottleneck_use, bulk_goodput_bps, call_arrived, completion_mean_s,
        completion_s, cpu_per_gbit_s, cubic_keeps, cubic_keeps_of_own, deviation_s, fairness,
        file_mean_s, files_p50_s, files_p99_s, files_spread, flows_spread, in_time, loss_ratio,
        lost_beyond_outage_s, own_part, queueing_p99_s, smallest_part, sources_fairness,
    },
    suite::{BESIDE, DEPOTS},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What users do, and what they notice of it.
#[derive(Debug)]
pub struct Task {
    /// For the command line and files.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// Tasks of one group together weigh as much as those of another in the whole.
    pub group: &'static str,
    /// The scenario that is run.
    pub scenario: &'static str,
    /// Its variants that the task is about; all if there are none.
    pub variants: &'static [&'static str],
    /// A variant that measures compare with.
    pub beside: Option<&'static str>,
    /// What is measured; the first counts for the whole.
    pub measures: &'static [Measure],
}

impl Task {
    /// Whether it needs runs of a variant.
    pub(crate) fn looks_at(&self, variant: &str) -> bool {
        self.is_about(Some(variant)) || self.beside == Some(variant)
    }

    /// Whether a run is one of its cells.
    pub(crate) fn is_about(&self, variant: Option<&str>) -> bool {
        self.variants.is_empty() || variant.is_some_and(|variant| self.variants.contains(&variant))
    }
}

/// Something that is measured of a task.
#[derive(Debug)]
pub struct Measure {
    /// For files.
    pub key: &'static str,
    /// For people.
    pub title: &'static str,
    /// Of absolute scores.
    pub unit: Unit,
    /// Which values are better.
    pub better: Better,
    /// The values under one seed, by cell. All are above zero.
    pub(crate) of: fn(&Seen<'_>) -> BTreeMap<String, f64>,
}

/// Which values are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Small ones.
    Less,
    /// Large ones.
    More,
}

/// Unit of a measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Bits a second.
    BitsPerSecond,
    /// A share of one, an index, or a ratio.
    Ratio,
}

const fn less(
    key: &'static str,
    title: &'static str,
    unit: Unit,
    of: fn(&Seen<'_>) -> BTreeMap<String, f64>,
) -> Measure {
    Measure { key, title, unit, better: Better::Less, of }
}

const fn more(
    key: &'static str,
    title: &'static str,
    unit: Unit,
    of: fn(&Seen<'_>) -> BTreeMap<String, f64>,
) -> Measure {
    Measure { key, title, unit, better: Better::More, of }
}

use Unit::{BitsPerSecond, Ratio, Seconds};

const COMPLETION: &[Measure] = &[less("completion_s", "time", Seconds, completion_s)];
const CPU: Measure =
    less("cpu_per_gbit_s", "processor time for a gigabit", Seconds, cpu_per_gbit_s);
const COMPLETION_AND_CPU: &[Measure] = &[less("completion_s", "time", Seconds, completion_s), CPU];
const COMPLETION_AND_QUEUE: &[Measure] = &[
    less("completion_s", "time", Seconds, completion_s),
    less("queueing_p99_s", "wait in the queue, 99 %", Seconds, queueing_p99_s),
    CPU,
];

const ALONE: &str = "alone";
const TOGETHER: &str = "together";
const OTHERS: &str = "others";
const CHAINS: &str = "depots";
const CONDITIONS: &str = "conditions";

const fn of(
    name: &'static str,
    title: &'static str,
    (group, scenario): (&'static str, &'static str),
    variants: &'static [&'static str],
    measures: &'static [Measure],
) -> Task {
    Task { name, title, group, scenario, variants, beside: None, measures }
}

/// A condition of RFC 9743's.
const fn condition(
    name: &'static str,
    title: &'static str,
    variants: &'static [&'static str],
    measures: &'static [Measure],
) -> Task {
    of(name, title, (CONDITIONS, "conditions"), variants, measures)
}

/// All tasks of the suite.
pub const TASKS: &[Task] = &[
    of("bulk", "a file alone", (ALONE, "bulk"), &[], COMPLETION_AND_CPU),
    of("streams", "a file over parallel connections", (ALONE, "streams"), &[], COMPLETION_AND_CPU),
    of("short", "a file of 100 KB", (ALONE, "conditions"), &["short"], COMPLETION),
    of(
        "sources",
        "files from many sources at once",
        (TOGETHER, "sources"),
        &[],
        &[
            less("completion_mean_s", "mean time", Seconds, completion_mean_s),
            less("completion_deviation_s", "deviation of times", Seconds, deviation_s),
            less("completion_p95_p50", "95 % over median", Ratio, flows_spread),
            more("fairness", "Jain index", Ratio, fairness),
            more("efficiency", "goodput over capacity", Ratio, bottleneck_share),
        ],
    ),
    of(
        "on-off",
        "files beside sources that send and pause",
        (TOGETHER, "on-off"),
        &[],
        &[
            less("completion_mean_s", "mean time", Seconds, completion_mean_s),
            less("completion_p95_p50", "95 % over median", Ratio, flows_spread),
            more("others_fairness", "sources' Jain index", Ratio, sources_fairness),
            more("use", "use of the link while the files last", Ratio, bottleneck_use),
        ],
    ),
    of(
        "files",
        "many files of 1 MB",
        (TOGETHER, "files"),
        &[],
        &[
            less("completion_mean_s", "mean time", Seconds, file_mean_s),
            less("completion_p95_p50", "95 % over median", Ratio, files_spread),
            less("completion_p99_s", "time, 99 %", Seconds, files_p99_s),
        ],
    ),
    of(
        "deadlines",
        "files of 1 MB within 2 s",
        (TOGETHER, "files"),
        &[],
        &[more("in_time", "in time", Ratio, in_time)],
    ),
    of(
        "background",
        "files beside paper 002's background",
        (TOGETHER, "background"),
        &[],
        &[
            less("completion_mean_s", "mean time", Seconds, completion_mean_s),
            more("fairness", "Jain index", Ratio, fairness),
            less("others_p99_s", "others' files, 99 %", Seconds, files_p99_s),
        ],
    ),
    of(
        "many",
        "80 transfers",
        (TOGETHER, "many"),
        &["many"],
        &[
            more("fairness", "Jain index", Ratio, fairness),
            less("loss", "packets lost", Ratio, loss_ratio),
            less("queueing_p99_s", "wait in the queue, 99 %", Seconds, queueing_p99_s),
        ],
    ),
    of(
        "round-trips",
        "20 ms beside 120 ms",
        (TOGETHER, "many"),
        &["round-trips"],
        &[more("smallest_part", "the smaller goodput over the mean", Ratio, smallest_part)],
    ),
    of(
        "browser",
        "web pages beside a transfer",
        (OTHERS, "others"),
        &["browser"],
        &[
            less("files_p99_s", "files, 99 %", Seconds, files_p99_s),
            less("files_p50_s", "files, median", Seconds, files_p50_s),
            more("goodput_bps", "the transfer's goodput", BitsPerSecond, bulk_goodput_bps),
        ],
    ),
    of(
        "terminal",
        "a terminal beside a transfer",
        (OTHERS, "others"),
        &["terminal"],
        &[less("answers_p99_s", "answers, 99 %", Seconds, files_p99_s)],
    ),
    of(
        "call",
        "a call beside a transfer",
        (OTHERS, "others"),
        &["call"],
        &[
            less("queueing_p99_s", "wait in the queue, 99 %", Seconds, queueing_p99_s),
            more("arrived", "packets that arrive", Ratio, call_arrived),
        ],
    ),
    Task {
        name: "beside",
        title: "beside a CUBIC transfer",
        group: OTHERS,
        scenario: BESIDE,
        variants: &["two"],
        beside: Some("alone"),
        measures: &[
            more("cubic_keeps", "CUBIC keeps of what it has alone", Ratio, cubic_keeps),
            more(
                "cubic_keeps_of_own",
                "that over what CUBIC leaves to CUBIC",
                Ratio,
                cubic_keeps_of_own,
            ),
            more("own_part", "its own part", Ratio, own_part),
        ],
    },
    of("long-path", "100 ms with losses, direct", (CHAINS, DEPOTS), &["direct"], COMPLETION),
    of("one-depot", "the same by one depot", (CHAINS, DEPOTS), &["one"], COMPLETION),
    of("two-depots", "the same by two depots", (CHAINS, DEPOTS), &["two"], COMPLETION),
    condition("plain", "tail drop", &["plain"], COMPLETION_AND_QUEUE),
    condition("short-queue", "a short queue", &["short-queue"], COMPLETION_AND_QUEUE),
    condition("long-queue", "a long queue", &["long-queue"], COMPLETION_AND_QUEUE),
    condition("red", "RED", &["red"], COMPLETION_AND_QUEUE),
    condition("pie", "PIE", &["pie"], COMPLETION_AND_QUEUE),
    condition("codel", "CoDel", &["codel"], COMPLETION_AND_QUEUE),
    condition("ecn", "CoDel with ECN", &["ecn"], COMPLETION_AND_QUEUE),
    condition("satellite", "600 ms", &["satellite"], COMPLETION),
    condition("jitter", "varying delay", &["jitter"], COMPLETION),
    condition("reordering", "reordering", &["reordering"], COMPLETION),
    condition("wireless", "losses in bursts", &["wireless"], COMPLETION),
    condition("policer", "a policer", &["policer"], COMPLETION),
    Task {
        name: "outage",
        title: "an outage of 2 s",
        group: CONDITIONS,
        scenario: "conditions",
        variants: &["outage"],
        beside: Some("plain"),
        measures: &[
            less("completion_s", "time", Seconds, completion_s),
            less("recovery_s", "time lost beyond the outage", Seconds, lost_beyond_outage_s),
        ],
    },
    condition("path-change", "100 and 20 Mb/s in turn", &["path-change"], COMPLETION_AND_QUEUE),
];
