// SPDX-License-Identifier: GPL-2.0-or-later
//! longhaul's own congestion controls, in the kernel for as long as a run asks for them.

use crate::error::LabError;
use congestion::Algorithm;
use kernel::cc::{self, Holder, InForce, Loaded, Options, Provider};
use record::manifest::CongestionControl;
use scenario::Run;
use std::collections::{BTreeMap, BTreeSet};

/// What a run's nodes and flows ask for by names that begin with `lh_`. Those that were not in the
/// kernel yet leave it when this is dropped, or when the process dies.
#[derive(Debug)]
pub struct Controls {
    loaded: Vec<Loaded>,
    on_record: BTreeMap<String, CongestionControl>,
}

impl Controls {
    /// Loads what is missing, with default parameters. What somebody has loaded is used as it is.
    ///
    /// # Errors
    /// There is no such algorithm; the machine or the user's rights lack something.
    pub fn provide(run: &Run) -> Result<Self, LabError> {
        let (mut loaded, mut on_record) = (Vec::new(), BTreeMap::new());
        for name in names(run) {
            let algorithm =
                Algorithm::find(name).map_err(|e| LabError::Unsupported(format!("{name}: {e}")))?;
            let in_force = provide(algorithm, &mut loaded)?;
            on_record.insert(name.to_owned(), recorded(in_force));
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
        Err(LabError::Lacks(format!(
            "before Linux 6.4, {name} can't be left to a process in the background; have it kept in \
             the kernel first: longhaul cc load {name}"
        )))
    }

    /// Each by its name in the kernel, with its parameters.
    pub fn on_record(&self) -> &BTreeMap<String, CongestionControl> {
        &self.on_record
    }
}

/// Loads one unless it is there already. Answers its parameters, where they are known.
fn provide(
    algorithm: &'static Algorithm,
    loaded: &mut Vec<Loaded>,
) -> Result<Option<InForce>, LabError> {
    if let Provider::Pinned(in_force) = cc::provider(algorithm)? {
        return Ok(Some(in_force));
    }
    let params = algorithm.default_set();
    let held = cc::load(params, &Options::default())?;
    // Whoever holds it, be it only since that look.
    let known = held.holder() != Holder::Other;
    loaded.push(held);
    Ok(known.then(|| InForce::of(params)))
}

/// Names with longhaul's prefix, each once.
fn names(run: &Run) -> BTreeSet<&str> {
    let of_flows = run.flows.iter().flat_map(|flow| &flow.cc);
    let all = run.nodes.iter().map(|node| &node.cc).chain(of_flows).map(String::as_str);
    all.filter(|name| name.starts_with(Algorithm::PREFIX)).collect()
}

fn recorded(in_force: Option<InForce>) -> CongestionControl {
    let Some(in_force) = in_force else { return CongestionControl::default() };
    let values = in_force.values.iter().map(|&(name, value)| (name.to_owned(), value));
    CongestionControl {
        parameter_set: in_force.set.map(str::to_owned),
        parameters: values.collect(),
    }
}
