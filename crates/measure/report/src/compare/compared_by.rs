// SPDX-License-Identifier: GPL-2.0-or-later
//! What a comparison tells apart, and the name that each run has by it.

use crate::distinct::distinct;
use record::{Manifest, RunResults};
use serde::Serialize;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparedBy {
    /// The directories that are named.
    Directory,
    /// Variants of the scenario.
    Variant,
    /// The congestion controls in force.
    CongestionControl,
    /// Emulation, simulation, model.
    Method,
    /// Versions of longhaul, and builds of one version.
    Version,
}

impl ComparedBy {
    /// In the order in which one is chosen if none is asked for.
    pub(super) const OF_RUNS: [Self; 4] =
        [Self::Variant, Self::CongestionControl, Self::Method, Self::Version];

    /// The name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::Variant => "variant",
            Self::CongestionControl => "congestion control",
            Self::Method => "method",
            Self::Version => "version",
        }
    }

    /// The value of the option `--by`.
    pub const fn option(self) -> &'static str {
        match self {
            Self::Directory => "dir",
            Self::CongestionControl => "cc",
            other => other.name(),
        }
    }

    /// The name of a run by this; `directory` is that of the directory that it is from.
    pub(super) fn name_of(self, run: &RunResults, directory: &str) -> String {
        let manifest = &run.manifest;
        match self {
            Self::Directory => directory.to_owned(),
            Self::Variant => variant(manifest).to_owned(),
            Self::CongestionControl => congestion_controls(run),
            Self::Method => manifest.method.clone(),
            Self::Version => version(manifest),
        }
    }
}

pub(super) fn variant(manifest: &Manifest) -> &str {
    manifest.variant.as_ref().map_or("none", |variant| &variant.name)
}

/// The controls of all senders of the flows that are compared, with the `lh_` of longhaul's own: the kernel's are others.
pub(super) fn congestion_controls(run: &RunResults) -> String {
    let hops = run.summary.compared_flows().flat_map(|flow| &flow.hops);
    let names: Vec<&str> = hops.filter_map(|hop| hop.congestion_control.as_deref()).collect();
    let names = distinct(names.iter());
    if names.is_empty() { "not read".to_owned() } else { names.join(" and ") }
}

/// The version, and the beginning of the hash of its sources, which tells builds apart.
fn version(manifest: &Manifest) -> String {
    let version = manifest.versions.get("longhaul").map_or("unknown", String::as_str);
    let sources = manifest.sources.as_deref().and_then(|hash| hash.get(..8));
    sources.map_or_else(|| version.to_owned(), |hash| format!("{version} ({hash})"))
}
