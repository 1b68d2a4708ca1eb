// SPDX-License-Identifier: GPL-2.0-or-later
//! The congestion controls that a run names: with which parameters they work, and longhaul's own in
//! the kernel for as long as a run asks for them.

use crate::error::LabError;
use congestion::{Algorithm, Params};
use host::Lack;
use kernel::cc::{self, Holder, InForce, Loaded, Options, Provider};
use record::manifest::{AlgorithmFile, CongestionControl};
use scenario::{Run, Source};
use std::collections::{BTreeMap, BTreeSet};

/// The parameters that a run's congestion control of that name works with, whatever the method:
/// those of its `[[congestion]]`, or else the algorithm's default ones.
///
/// # Errors
/// There is no such algorithm, parameter set or parameter; the text names those there are.
pub fn params(run: &Run, name: &str) -> Result<Params, LabError> {
    sim::params(run, name).map_err(|unknown| LabError::Unsupported(unknown.to_string()))
}

/// What a run's nodes and flows ask for by names with longhaul's prefix, each once.
pub fn ours(run: &Run) -> BTreeSet<&str> {
    of_nodes_and_flows(run).filter(|name| name.starts_with(Algorithm::PREFIX)).collect()
}

fn of_nodes_and_flows(run: &Run) -> impl Iterator<Item = &str> {
    let of_flows = run.flows.iter().flat_map(|flow| &flow.cc);
    run.nodes.iter().map(|node| &node.cc).chain(of_flows).map(String::as_str)
}

/// Names, parameter sets and parameters of a run that no method can have: names that are neither
/// longhaul's, nor in the kernel's list `available`, nor among those `allowed`. Each with what there is.
pub fn unknown_everywhere(run: &Run, available: &str, allowed: &[String]) -> Vec<String> {
    let entries: BTreeSet<&str> = run.congestion.iter().map(|entry| entry.name.as_str()).collect();
    let of_traffic = run.traffic.iter().map(|traffic| traffic.cc.as_str());
    let named: BTreeSet<&str> =
        of_nodes_and_flows(run).chain(of_traffic).chain(entries.iter().copied()).collect();
    let unknown = named.into_iter().filter_map(|name| {
        let error = params(run, name).err()?;
        // Only longhaul's have parameters.
        if name.starts_with(Algorithm::PREFIX) || entries.contains(name) {
            return Some(error.to_string());
        }
        let mut known = available.split_whitespace().chain(allowed.iter().map(String::as_str));
        let advice = format!(
            "{error}. This machine's kernel has: {available}. If the kernel that will run it has {name}: \
             longhaul lab check --allow-cc {name}"
        );
        (!known.any(|known| known == name)).then_some(advice)
    });
    unknown.collect()
}

/// Those that take part in a simulated run but can't, each with what there is.
pub fn unknown_in_simulation(run: &Run) -> Vec<String> {
    let unknown = |name: &String| params(run, name).err().map(|error| error.to_string());
    in_simulation(run).into_iter().filter_map(unknown).collect()
}

/// Every congestion control that takes part in a simulated run, each with its parameters.
///
/// # Errors
/// As [`params`].
pub fn simulated(run: &Run) -> Result<BTreeMap<String, CongestionControl>, LabError> {
    let on_record = |name: &String| {
        let params = params(run, name)?;
        let file = params.algorithm().file.as_ref();
        let file =
            file.map(|file| AlgorithmFile { name: file.name.clone(), sha256: file.sha256.clone() });
        Ok((name.clone(), CongestionControl { file, ..recorded(&InForce::of(&params)) }))
    };
    in_simulation(run).into_iter().map(on_record).collect()
}

fn in_simulation(run: &Run) -> BTreeSet<&String> {
    let of_flows = run.flows.iter().flat_map(|flow| &flow.cc);
    let with_tcp = run.traffic.iter().filter(|t| !matches!(t.source, Source::Cbr { .. }));
    of_flows.chain(with_tcp.map(|traffic| &traffic.cc)).collect()
}

/// What a run's nodes and flows ask for by names that begin with `lh_`. Those that were not in the
/// kernel yet leave it when this is dropped, or when the process dies.
#[derive(Debug)]
pub struct LoadedControls {
    loaded: Vec<Loaded>,
    on_record: BTreeMap<String, CongestionControl>,
}

impl LoadedControls {
    /// Loads missing algorithms. An algorithm that is already loaded is used as it is, unless the run asks for
    /// parameters of its own.
    ///
    /// # Errors
    /// There is no such algorithm, parameter set or parameter; what is loaded has others; the
    /// machine or the user's rights lack something.
    pub fn provide(run: &Run) -> Result<Self, LabError> {
        let (mut loaded, mut on_record) = (Vec::new(), BTreeMap::new());
        for name in ours(run) {
            let params = params(run, name)?;
            let asked = run.congestion.iter().any(|entry| entry.name == name);
            let in_force = if asked {
                Some(provide_with(&params, &mut loaded)?)
            } else {
                provide(&params, &mut loaded)?
            };
            on_record.insert(name.to_owned(), in_force.as_ref().map(recorded).unwrap_or_default());
        }
        Ok(Self { loaded, on_record })
    }

    /// Makes sure that a child which is forked and left behind goes on having them.
    ///
    /// # Errors
    /// This kernel can't do that.
    pub fn require_inherited(&self) -> Result<(), LabError> {
        let Some(lost) = self.loaded.iter().find(|loaded| !loaded.is_inherited()) else {
            return Ok(());
        };
        let name = lost.name();
        Err(LabError::Lacks(Lack::new(
            format_args!(
                "before Linux 6.4, {name} can't be left to a process in the background; have it kept \
                 in the kernel first"
            ),
            format_args!("longhaul cc load {name}"),
        )))
    }

    /// Each by its name in the kernel, with its parameters.
    pub fn on_record(&self) -> &BTreeMap<String, CongestionControl> {
        &self.on_record
    }
}

/// Loads one unless it is there already. Answers its parameters, where they are known.
fn provide(params: &Params, loaded: &mut Vec<Loaded>) -> Result<Option<InForce>, LabError> {
    if let Provider::Pinned(in_force) = cc::provider(params.algorithm())? {
        return Ok(Some(in_force));
    }
    let held = cc::load(params, &Options::default())?;
    // The current holder, which may be new since the check above.
    let known = held.holder() != Holder::Other;
    loaded.push(held);
    Ok(known.then(|| InForce::of(params)))
}

/// Loads one with these parameters and no others.
fn provide_with(params: &Params, loaded: &mut Vec<Loaded>) -> Result<InForce, LabError> {
    let held = cc::load(params, &Options::default())?;
    if held.holder() == Holder::Other {
        return Err(kernel::Error::HeldElsewhere { name: held.name().to_owned() }.into());
    }
    loaded.push(held);
    Ok(InForce::of(params))
}

fn recorded(in_force: &InForce) -> CongestionControl {
    let values = in_force.values.iter().map(|&(name, value)| (name.to_owned(), value));
    CongestionControl {
        parameter_set: in_force.set.map(str::to_owned),
        parameters: values.collect(),
        file: None,
    }
}
