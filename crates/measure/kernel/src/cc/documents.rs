// SPDX-License-Identifier: GPL-2.0-or-later
//! Congestion controls as `longhaul cc list --json` and `longhaul cc show --json` print them.

use super::list::{Entry, Provider};
use congestion::{Algorithm, Attach};
use serde::Serialize;
use serde_json::Map;

/// Output of `longhaul cc list --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CongestionControlList {
    /// The kernel's own first, then longhaul's.
    pub congestion_controls: Vec<CongestionControlStatus>,
}

impl CongestionControlList {
    /// The document of some entries.
    pub fn new(entries: &[Entry]) -> Self {
        Self { congestion_controls: entries.iter().map(CongestionControlStatus::new).collect() }
    }
}

/// A congestion control, loaded or not.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CongestionControlStatus {
    /// Its name in the kernel.
    pub name: String,
    /// Its name for people; null where it is not one of longhaul's.
    pub title: Option<&'static str>,
    /// `kernel`, `longhaul` (pinned), `process` (loaded by a running one), `withdrawn` (unloaded, still in use) or
    /// `none` (it can be loaded).
    pub provider: &'static str,
    /// The named set that its parameters are; null where they are none or not known.
    pub parameter_set: Option<&'static str>,
    /// Its parameters by name; null where they are not known.
    pub parameters: Option<Map<String, serde_json::Value>>,
    /// Whether programs need `CAP_NET_ADMIN` to choose it; null where that is not known.
    pub restricted: Option<bool>,
    /// Whether sockets of this network namespace use it that did not choose.
    pub default: bool,
    /// TCP sockets that use it, in all network namespaces that can be reached.
    pub sockets: u64,
}

impl CongestionControlStatus {
    fn new(entry: &Entry) -> Self {
        let (provider, in_force) = match &entry.provider {
            Provider::Kernel => ("kernel", None),
            Provider::Pinned(in_force) => ("longhaul", Some(in_force)),
            Provider::Process => ("process", None),
            Provider::Withdrawn => ("withdrawn", None),
            Provider::None => ("none", None),
        };
        Self {
            name: entry.name.clone(),
            title: entry.algorithm.map(|algorithm| algorithm.title),
            provider,
            parameter_set: in_force.and_then(|in_force| in_force.set),
            parameters: in_force.map(|in_force| by_name(in_force.values.iter().copied())),
            restricted: entry.restricted,
            default: entry.default,
            sockets: entry.sockets,
        }
    }
}

/// Output of `longhaul cc show --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AlgorithmDescription {
    /// Its name.
    pub name: &'static str,
    /// Its name in the kernel.
    pub kernel_name: String,
    /// Its name for people.
    pub title: &'static str,
    /// Its rule in a line.
    pub rule: &'static str,
    /// The paper or RFC that it is from.
    pub source: &'static str,
    /// `window`, or `window and pacing rate`.
    pub decides: &'static str,
    /// State that it needs for each connection.
    pub state_bytes: usize,
    /// The name of the parameter set that it has by default.
    pub default_set: &'static str,
    /// Its parameter sets, the default first.
    pub sets: Vec<SetDescription>,
    /// Its parameters.
    pub parameters: Vec<ParameterDescription>,
}

/// A parameter set of an algorithm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SetDescription {
    /// Its name.
    pub name: &'static str,
    /// Where its values are from.
    pub source: &'static str,
}

/// A parameter of an algorithm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ParameterDescription {
    /// Its name.
    pub name: &'static str,
    /// The unit of its values, as `1/1024`.
    pub unit: &'static str,
    /// Its meaning.
    pub what: &'static str,
    /// Its value in each parameter set.
    pub values: Map<String, serde_json::Value>,
}

impl AlgorithmDescription {
    /// The document of an algorithm.
    pub fn new(algorithm: &Algorithm) -> Self {
        let sets = algorithm.sets.iter();
        let parameters = algorithm.params.iter().enumerate().map(|(n, param)| {
            let sets = algorithm.sets.iter();
            let values = by_name(sets.map(|set| (set.name, set.params.values()[n])));
            ParameterDescription { name: param.name, unit: param.unit, what: param.what, values }
        });
        Self {
            name: algorithm.name,
            kernel_name: algorithm.kernel_name(),
            title: algorithm.title,
            rule: algorithm.rule,
            source: algorithm.source,
            decides: decides(algorithm.attach),
            state_bytes: algorithm.state_bytes,
            default_set: algorithm.sets[0].name,
            sets: sets.map(|set| SetDescription { name: set.name, source: set.source }).collect(),
            parameters: parameters.collect(),
        }
    }
}

/// In words, the values that an algorithm of this kind decides.
pub fn decides(attach: Attach) -> &'static str {
    match attach {
        Attach::Window => "window",
        Attach::Rate => "window and pacing rate",
    }
}

fn by_name(values: impl Iterator<Item = (&'static str, u32)>) -> Map<String, serde_json::Value> {
    values.map(|(name, value)| (name.to_owned(), value.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::list::InForce, *};

    fn text(document: &impl Serialize) -> String {
        serde_json::to_string(document).unwrap()
    }

    #[test]
    fn list_has_every_key_in_order() {
        let reno = Algorithm::find("reno").unwrap();
        let values = InForce { set: Some("paper"), values: vec![("beta", 512)] };
        let entry = |name: &str, algorithm, provider| Entry {
            name: name.to_owned(),
            algorithm,
            provider,
            restricted: None,
            default: true,
            sockets: 3,
        };
        let entries = [
            entry("cubic", None, Provider::Kernel),
            entry("lh_reno", Some(reno), Provider::Pinned(values)),
        ];
        let expected = format!(
            r#"{{"congestion_controls":[{{"name":"cubic","title":null,"provider":"kernel","parameter_set":null,"parameters":null,"restricted":null,"default":true,"sockets":3}},{{"name":"lh_reno","title":"{}","provider":"longhaul","parameter_set":"paper","parameters":{{"beta":512}},"restricted":null,"default":true,"sockets":3}}]}}"#,
            reno.title
        );
        assert_eq!(text(&CongestionControlList::new(&entries)), expected);
    }

    #[test]
    fn description_has_every_key_in_order() {
        let keys = |value: &serde_json::Value| -> Vec<String> {
            value.as_object().unwrap().keys().cloned().collect()
        };
        for algorithm in Algorithm::all() {
            let shown: serde_json::Value =
                serde_json::from_str(&text(&AlgorithmDescription::new(algorithm))).unwrap();
            let expected = [
                "name",
                "kernel_name",
                "title",
                "rule",
                "source",
                "decides",
                "state_bytes",
                "default_set",
                "sets",
                "parameters",
            ];
            assert_eq!(keys(&shown), expected, "{}", algorithm.name);
            assert_eq!(keys(&shown["sets"][0]), ["name", "source"], "{}", algorithm.name);
            let sets: Vec<_> = algorithm.sets.iter().map(|set| set.name).collect();
            for parameter in shown["parameters"].as_array().unwrap() {
                assert_eq!(keys(parameter), ["name", "unit", "what", "values"]);
                assert_eq!(keys(&parameter["values"]), sets, "{}", algorithm.name);
            }
        }
    }
}
