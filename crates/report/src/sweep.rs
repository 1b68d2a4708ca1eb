// SPDX-License-Identifier: GPL-2.0-or-later
//! The axis of a sweep: texts such as "90ms" or "0.1%" put in order and in place.

use crate::group::Group;
use serde::Serialize;
use units::{Bytes, Duration, Probability, Rate};

/// A value of a scenario's key: ordered as a number where all are numbers of a kind.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
pub enum Value {
    Number(f64),
    Text(String),
}

impl Value {
    /// Reads a value with its unit. Values of one key share a unit, so it does not matter here
    /// which one it is.
    pub fn parse(text: &str) -> Self {
        // A loss is shown as it is end to end, whatever it is spread over.
        let quantity = text.split(" over ").next().unwrap_or(text);
        let number = quantity.parse::<f64>().ok().filter(|n| n.is_finite());
        number
            .or_else(|| quantity.parse::<Duration>().ok().map(Duration::as_secs_f64))
            .or_else(|| quantity.parse::<Probability>().ok().map(Probability::get))
            .or_else(|| quantity.parse::<Rate>().ok().map(|rate| rate.bps() as f64))
            .or_else(|| quantity.parse::<Bytes>().ok().map(|bytes| bytes.get() as f64))
            // A queue's limit in packets.
            .or_else(|| quantity.strip_suffix('p')?.parse::<u32>().ok().map(f64::from))
            .map_or_else(|| Self::Text(text.to_owned()), Self::Number)
    }
}

/// One chart: goodput against one key, all others being fixed.
#[derive(Debug, Serialize)]
pub struct Panel {
    /// The swept key.
    pub key: String,
    /// The values of the other keys: "loss 0.1%"; empty without others.
    pub fixed: String,
    /// The values of the swept key, as written in the scenario.
    pub labels: Vec<String>,
    /// Where each value stands on the axis.
    pub positions: Vec<f64>,
    /// Whether the positions are logarithms.
    pub logarithmic: bool,
    /// The group's point at each value.
    pub points: Vec<usize>,
}

/// The charts of a group's sweep: against its first key that takes several values, one chart for
/// each combination of the others. Empty without a sweep.
pub fn panels(group: &Group) -> Vec<Panel> {
    let Some(key) = swept_key(group) else { return Vec::new() };
    let mut panels: Vec<Panel> = Vec::new();
    for (index, point) in group.points.iter().enumerate() {
        let others = point.iter().filter(|(k, _)| *k != key);
        let fixed = others.map(|(k, v)| format!("{k} {v}")).collect::<Vec<_>>().join(", ");
        let Some((_, value)) = point.iter().find(|(k, _)| *k == key) else { continue };
        let at = panels.iter().position(|panel| panel.fixed == fixed).unwrap_or_else(|| {
            panels.push(Panel::empty(&key, fixed));
            panels.len() - 1
        });
        panels[at].labels.push(value.clone());
        panels[at].points.push(index);
    }
    for panel in &mut panels {
        panel.place();
    }
    panels
}

fn swept_key(group: &Group) -> Option<String> {
    let first = group.points.first()?;
    let varies = |(key, value): &&(String, String)| {
        group.points.iter().any(|point| point.iter().any(|(k, v)| k == key && v != value))
    };
    first.iter().find(varies).map(|(key, _)| key.clone())
}

impl Panel {
    fn empty(key: &str, fixed: String) -> Self {
        Self {
            key: key.to_owned(),
            fixed,
            labels: Vec::new(),
            positions: Vec::new(),
            logarithmic: false,
            points: Vec::new(),
        }
    }

    /// Sets the positions.
    fn place(&mut self) {
        (self.positions, self.logarithmic) = positions(&self.labels);
    }
}

/// Where values stand on an axis, and whether by their logarithms: as numbers, as logarithms where the
/// numbers span more than a factor of 30, or evenly where they are no numbers or a logarithm cannot
/// take them.
pub fn positions(labels: &[String]) -> (Vec<f64>, bool) {
    let evenly = || (0..labels.len()).map(|i| i as f64).collect();
    let numbers: Option<Vec<f64>> = labels
        .iter()
        .map(|label| match Value::parse(label) {
            Value::Number(number) => Some(number),
            Value::Text(_) => None,
        })
        .collect();
    let Some(numbers) = numbers else { return (evenly(), false) };
    let smallest = numbers.iter().copied().filter(|n| *n > 0.0).reduce(f64::min);
    let largest = numbers.iter().copied().fold(0.0, f64::max);
    let wide = smallest.is_some_and(|smallest| largest > 30.0 * smallest);
    match (wide, numbers.iter().all(|n| *n > 0.0)) {
        (true, true) => (numbers.iter().map(|n| n.log10()).collect(), true),
        (true, false) => (evenly(), false),
        (false, _) => (numbers, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(labels: &[&str]) -> Panel {
        let mut panel = Panel::empty("key", String::new());
        panel.labels = labels.iter().map(ToString::to_string).collect();
        panel.place();
        panel
    }

    #[test]
    fn numbers_with_units_stand_where_they_belong() {
        assert_eq!(placed(&["10ms", "0.05s", "90ms"]).positions, [0.01, 0.05, 0.09]);
        assert_eq!(placed(&["8", "16"]).positions, [8.0, 16.0]);
        assert_eq!(placed(&["170p", "250p"]).positions, [170.0, 250.0]);
        let loss = placed(&["0.001% over 3", "0.01% over 3", "0.1% over 3"]);
        assert!(loss.logarithmic);
        assert!((loss.positions[2] - loss.positions[0] - 2.0).abs() < 1e-9, "{loss:?}");
        // A zero has no logarithm, a name no number.
        assert_eq!(placed(&["0%", "0.001%", "1%"]).positions, [0.0, 1.0, 2.0]);
        assert_eq!(placed(&["cubic", "bbr"]).positions, [0.0, 1.0]);
    }

    #[test]
    fn order_is_by_size_not_by_spelling() {
        let mut values = ["100ms", "20ms", "3ms"].map(Value::parse);
        values.sort_by(|a, b| a.partial_cmp(b).unwrap());
        assert_eq!(values, ["3ms", "20ms", "100ms"].map(Value::parse));
    }
}
