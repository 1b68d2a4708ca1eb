// SPDX-License-Identifier: GPL-2.0-or-later
//! The congestion controls that a run names, and with which parameters they work.

use crate::{
    error::ExperimentError,
    obstacles::{Obstacle, Obstacles},
};
use congestion::{Algorithm, Params};
use record::manifest::{AlgorithmFile, CongestionControl};
use scenario::{Profile, Run, Source};
use std::collections::{BTreeMap, BTreeSet};

fn default_set<'a>(run: &Run, name: &str, algorithm: &'a Algorithm) -> &'a Params {
    let kernels = run.tcp.profile == Profile::Linux && !name.starts_with("lh_");
    let linux = algorithm.set("linux").ok().filter(|_| kernels);
    linux.map_or(algorithm.default_set(), |set| &set.params)
}

/// The parameters of a congestion control as a scenario names it: `bbr` has what the kernel's has, with
/// profile `linux`, and `lh_bbr` what longhaul's is loaded with. Often they are the same.
///
/// # Errors
/// There is no such algorithm, parameter set or parameter; the text names those there are.
pub fn params(run: &Run, name: &str) -> Result<Params, ExperimentError> {
    let refuse = |error: congestion::UnknownName| {
        ExperimentError::Unsupported(format!("congestion control {name}: {error}"))
    };
    let algorithm = Algorithm::find(name).map_err(|error| match name.strip_prefix(Algorithm::PREFIX) {
        Some(bare) => ExperimentError::Unsupported(format!(
            "congestion control {name}: {error}. One of your own is given by its file: longhaul sim FILE --cc {bare}.h"
        )),
        None => refuse(error),
    })?;
    let chosen = run.congestion.iter().find(|chosen| chosen.name == name);
    let mut params = match chosen.and_then(|chosen| chosen.set.as_deref()) {
        Some(set) => algorithm.set(set).map_err(refuse)?.params.clone(),
        None => default_set(run, name, algorithm).clone(),
    };
    if !run.tcp.hystart && algorithm.params.iter().any(|param| param.name == "hystart") {
        params = params.with("hystart", 0).map_err(refuse)?;
    }
    for (parameter, value) in chosen.into_iter().flat_map(|chosen| &chosen.parameters) {
        params = params.with(parameter, *value).map_err(refuse)?;
    }
    Ok(params)
}

/// What a run's nodes, flows and traffic ask for by names with longhaul's prefix, each once.
pub fn ours(run: &Run) -> BTreeSet<&str> {
    of_senders(run).filter(|name| name.starts_with(Algorithm::PREFIX)).collect()
}

fn of_senders(run: &Run) -> impl Iterator<Item = &str> {
    let of_flows = run.flows.iter().flat_map(|flow| &flow.cc);
    let of_traffic = run.traffic.iter().map(|traffic| &traffic.cc);
    run.nodes.iter().map(|node| &node.cc).chain(of_flows).chain(of_traffic).map(String::as_str)
}

/// Names, parameter sets and parameters of a run that no method can have: names that are neither
/// longhaul's, nor in the kernel's list `available`, nor among those `allowed`. Each with what there is.
pub fn unknown_everywhere(run: &Run, available: &str, allowed: &[String]) -> Vec<String> {
    let entries: BTreeSet<&str> = run.congestion.iter().map(|entry| entry.name.as_str()).collect();
    let named: BTreeSet<&str> = of_senders(run).chain(entries.iter().copied()).collect();
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
pub fn simulated(run: &Run) -> Result<BTreeMap<String, CongestionControl>, ExperimentError> {
    let on_record = |name: &String| {
        let params = params(run, name)?;
        let file = params.algorithm().file.as_ref();
        let file =
            file.map(|file| AlgorithmFile { name: file.name.clone(), sha256: file.sha256.clone() });
        Ok((name.clone(), CongestionControl { file, ..recorded(&params) }))
    };
    in_simulation(run).into_iter().map(on_record).collect()
}

fn in_simulation(run: &Run) -> BTreeSet<&String> {
    let of_flows = run.flows.iter().flat_map(|flow| &flow.cc);
    let with_tcp = run.traffic.iter().filter(|t| !matches!(t.source, Source::Cbr { .. }));
    of_flows.chain(with_tcp.map(|traffic| &traffic.cc)).collect()
}

/// The record of parameters, with the name of their set if they are one.
fn recorded(params: &Params) -> CongestionControl {
    let algorithm = params.algorithm();
    let names = algorithm.params.iter().map(|param| param.name.to_owned());
    CongestionControl {
        parameter_set: algorithm.set_name(params.values()).map(str::to_owned),
        parameters: names.zip(params.values().iter().copied()).collect(),
        file: None,
    }
}

/// The parameter sets, parameters and algorithms with longhaul's prefix that there are not.
pub fn unknown_names(run: &Run) -> Vec<String> {
    let entries = run.congestion.iter().map(|entry| entry.name.as_str());
    let unknown = |name| params(run, name).err().map(|error| error.to_string());
    entries.chain(ours(run)).filter_map(unknown).collect()
}

/// Whether each congestion control of these runs is longhaul's, or one that this kernel has now, or one of
/// `allowed`, which another machine's kernel has.
///
/// # Errors
/// One is none of these, or its parameter set or a parameter does not exist; each line of the text
/// names one.
pub fn check_congestion_controls(runs: &[Run], allowed: &[String]) -> Result<(), ExperimentError> {
    // A kernel that does not tell has none for certain.
    let available = host::sysctl::available_congestion_controls().unwrap_or_default();
    let mut obstacles = Obstacles::default();
    for run in runs {
        let unknown = unknown_everywhere(run, &available, allowed);
        obstacles.unsupported(run, unknown.into_iter().map(Obstacle::from));
    }
    obstacles.of_all(runs.len())
}
