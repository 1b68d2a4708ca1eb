// SPDX-License-Identifier: GPL-2.0-or-later
//! Longhaul's own congestion controls in the kernel, for as long as a run asks for them.

use crate::error::LabError;
use congestion::Params;
use experiment::congestion_controls::{ours, params};
use host::Lack;
use kernel::cc::{self, Holder, InForce, Loaded, Options, Provider};
use record::manifest::CongestionControl;
use scenario::Run;
use std::collections::BTreeMap;

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
        Err(LabError::lacks(Lack::new(
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
