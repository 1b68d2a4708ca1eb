// SPDX-License-Identifier: GPL-2.0-or-later
//! How statistics are declared: each once, as a field of the status document.
//!
//! ```text
//! /// A hop.
//! pub struct HopStatistics {
//!     /// Its side.
//!     side: Side => label,
//!     /// TCP segments retransmitted to the hop.
//!     retransmitted_segments: u64 => counter("hop_retransmitted_segments", page "segments sent again", cli "again"),
//! ```
//!
//! The field's name is its key in `/status.json`, and the name's suffix its unit. Its comment is the help text of the metric.
//!
//! | declared as | is |
//! |---|---|
//! | `label` | a label of all metrics of the struct, which stands before them |
//! | `counter("name")`, `gauge("name")` | a metric; of a map with `by "label"`, a sample for each entry |
//! | `nested` | a struct with statistics, or an option or a list of them |
//! | nothing | in the document alone |
//!
//! Fields with `direction` are samples of one metric, which has the help text of the first. `page` and `cli` are the titles under
//! which the status page and `longhaul depot status` show a statistic of a hop.
//!
//! Statistics of several processes add up. Of a process that has ended, counters remain and gauges do not.

use super::{histogram::Histogram, hops::OTHER};
use relay::Side;
use std::collections::BTreeMap;

/// Maximum number of names that a counter tells apart, and of entries that a list has, in a sum over processes.
pub(super) const MOST_NAMES: usize = 256;

/// What a field of the status document is to the outside.
#[derive(Debug, Clone, Copy)]
pub struct Statistic {
    /// The key in the document.
    pub key: &'static str,
    /// How it changes.
    pub(super) kind: Kind,
    /// The metric, without the depot's prefix, unit and suffix.
    pub(super) metric: &'static str,
    /// The label that tells the entries of a map apart.
    pub(super) by: &'static str,
    /// The value of the label `direction`.
    pub(super) direction: Option<&'static str>,
    /// The title on the status page.
    pub(super) page: Option<&'static str>,
    /// The title in the table of `longhaul depot status`.
    pub cli: Option<&'static str>,
    /// The comment of its field.
    pub(super) comment: &'static str,
}

/// How a value changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "as they are written in declarations")]
pub(super) enum Kind {
    /// It names what others are about.
    label,
    /// It grows.
    counter,
    /// It is a value of the moment.
    gauge,
    /// It holds others.
    nested,
}

impl Statistic {
    /// Of a metric that is not a field.
    pub(super) const fn gauge(metric: &'static str, help: &'static str) -> Self {
        Self {
            key: metric,
            kind: Kind::gauge,
            metric,
            by: "",
            direction: None,
            page: None,
            cli: None,
            comment: help,
        }
    }

    /// The suffix of its key, which is its unit: `bytes`, `bps`, `us` or `s`. Other words are not.
    pub fn unit(&self) -> &'static str {
        self.key.rsplit('_').next().unwrap_or_default()
    }

    /// What it is: its comment as plain text, without the full stop.
    pub(super) fn help(&self) -> String {
        self.comment.trim().trim_end_matches('.').replace('`', "")
    }
}

/// A field that is a statistic, and what is done with its values.
#[derive(Debug)]
pub struct Field<T> {
    /// What it is.
    pub statistic: Statistic,
    pub(super) collect: fn(&T, &Statistic, &mut Labels, &mut Families),
    pub(super) add: fn(&mut T, &T),
    pub(super) end: fn(&mut T),
}

impl<T> Field<T> {
    /// Its value, or the sum over its entries. `None`: not known.
    pub fn value(&self, of: &T) -> Option<f64> {
        let mut families = Families::default();
        (self.collect)(of, &self.statistic, &mut Labels::new(), &mut families);
        let samples = families.0.iter().flat_map(|family| &family.samples);
        let number = |sample: &Sample| if let Sample::Number(n) = sample { Some(*n) } else { None };
        samples.filter_map(|(_, sample)| number(sample)).reduce(|sum, n| sum + n)
    }
}

/// Declares structs of the status document with their statistics.
macro_rules! statistics {
    ($(
        $(#[$about:meta])*
        pub struct $name:ident {$(
            $(#[doc = $comment:literal])+
            $(#[serde($($serde:tt)*)])?
            $field:ident: $type:ty $(=> $kind:ident $(($($metric:tt)*))?)?
        ),* $(,)?}
    )*) => {$(
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        $(#[$about])*
        pub struct $name {$(
            $(#[doc = $comment])+
            $(#[serde($($serde)*)])?
            pub $field: $type,
        )*}

        impl Statistics for $name {
            const FIELDS: &'static [Option<Field<Self>>] =
                &[$(field!([$($comment)+] $field $($kind $(($($metric)*))?)?)),*];
        }
    )*};
}
pub(super) use statistics;

/// Declares one field, if it is a statistic.
macro_rules! field {
    ([$($comment:literal)+] $field:ident) => { None };
    ([$($comment:literal)+] $field:ident $kind:ident $((
        $metric:literal
        $(, by $by:literal)? $(, direction $direction:literal)?
        $(, page $page:literal)? $(, cli $cli:literal)?
    ))?) => {
        Some(Field {
            statistic: Statistic {
                key: stringify!($field),
                kind: Kind::$kind,
                $(
                    $(by: $by,)?
                    $(direction: Some($direction),)?
                    $(page: Some($page),)?
                    $(cli: Some($cli),)?
                )?
                ..Statistic::gauge(concat!("", $($metric)?), concat!($($comment),+))
            },
            collect: |of, statistic, labels, families| of.$field.collect(statistic, labels, families),
            add: |to, other| Value::add(&mut to.$field, &other.$field),
            end: |of| field!(@end $kind of.$field),
        })
    };
    (@end gauge $value:expr) => { $value = Default::default() };
    (@end $kind:ident $value:expr) => { Value::end(&mut $value) };
}
pub(super) use field;

/// A struct with statistics.
pub(crate) trait Statistics: Sized + 'static {
    /// Its fields; `None` for one that is no statistic.
    const FIELDS: &'static [Option<Field<Self>>];

    /// The fields that are statistics.
    fn fields() -> impl Iterator<Item = &'static Field<Self>> {
        Self::FIELDS.iter().flatten()
    }

    /// The values of its labels.
    fn labels(&self) -> Labels {
        let mut labels = Labels::new();
        for field in Self::fields().filter(|field| field.statistic.kind == Kind::label) {
            (field.collect)(self, &field.statistic, &mut labels, &mut Families::default());
        }
        labels
    }
}

/// Names and values of labels.
pub(super) type Labels = Vec<(&'static str, String)>;

/// A value of a metric.
#[derive(Debug, Clone)]
pub(super) enum Sample {
    Number(f64),
    Durations(Histogram),
}

/// All samples of one metric.
#[derive(Debug)]
pub(super) struct Family {
    /// The first of its fields.
    pub statistic: Statistic,
    pub samples: Vec<(Labels, Sample)>,
}

/// All metrics that have samples, in the order of their declarations.
#[derive(Debug, Default)]
pub(super) struct Families(pub Vec<Family>);

impl Families {
    /// Adds a sample to its metric.
    pub(super) fn add(&mut self, statistic: &Statistic, labels: &Labels, sample: Sample) {
        let direction = statistic.direction.map(|direction| ("direction", direction.to_owned()));
        let labels = labels.iter().cloned().chain(direction).collect();
        let same = |family: &&mut Family| family.statistic.metric == statistic.metric;
        match self.0.iter_mut().find(same) {
            Some(family) => family.samples.push((labels, sample)),
            None => self.0.push(Family { statistic: *statistic, samples: vec![(labels, sample)] }),
        }
    }
}

/// A value of a statistic.
pub(crate) trait Value {
    /// Adds its samples to the families, or itself to the labels.
    fn collect(&self, statistic: &Statistic, labels: &mut Labels, families: &mut Families);

    /// Adds the value of another process. Nothing, of what each process has for itself.
    fn add(&mut self, _other: &Self) {}

    /// Leaves the counters in it.
    fn end(&mut self) {}
}

macro_rules! numbers {
    ($($type:ty => $number:expr, $add:expr;)*) => {$(
        impl Value for $type {
            fn collect(&self, statistic: &Statistic, labels: &mut Labels, families: &mut Families) {
                families.add(statistic, labels, Sample::Number($number(*self)));
            }

            fn add(&mut self, other: &Self) {
                *self = $add(*self, *other);
            }
        }
    )*};
}
numbers! {
    u32 => f64::from, Self::saturating_add;
    u64 => |n| n as f64, Self::saturating_add;
    usize => |n| n as f64, Self::saturating_add;
    f64 => |n| n, |own, _| own;
    bool => f64::from, |own, _| own;
}

macro_rules! labels {
    ($($type:ty)*) => {$(
        impl Value for $type {
            fn collect(&self, statistic: &Statistic, labels: &mut Labels, _: &mut Families) {
                labels.push((statistic.key, self.to_string()));
            }
        }
    )*};
}
labels!(String Side u16);

impl Value for Histogram {
    fn collect(&self, statistic: &Statistic, labels: &mut Labels, families: &mut Families) {
        families.add(statistic, labels, Sample::Durations(self.clone()));
    }

    fn add(&mut self, other: &Self) {
        self.merge(other);
    }
}

impl<N: Value + Default> Value for BTreeMap<String, N> {
    fn collect(&self, statistic: &Statistic, labels: &mut Labels, families: &mut Families) {
        for (name, n) in self {
            labels.push((statistic.by, name.clone()));
            n.collect(statistic, labels, families);
            labels.pop();
        }
    }

    fn add(&mut self, other: &Self) {
        for (name, n) in other {
            let is_known = self.contains_key(name) || self.len() < MOST_NAMES;
            self.entry(if is_known { name.clone() } else { OTHER.to_owned() }).or_default().add(n);
        }
    }
}

impl<V: Value + Clone> Value for Option<V> {
    fn collect(&self, statistic: &Statistic, labels: &mut Labels, families: &mut Families) {
        if let Some(value) = self {
            value.collect(statistic, labels, families);
        }
    }

    fn add(&mut self, other: &Self) {
        match (self.as_mut(), other) {
            (Some(own), Some(other)) => own.add(other),
            (Some(_), None) => {}
            (None, other) => self.clone_from(other),
        }
    }
}

impl<S: Statistics + Clone> Value for Vec<S> {
    fn collect(&self, statistic: &Statistic, labels: &mut Labels, families: &mut Families) {
        for one in self {
            one.collect(statistic, labels, families);
        }
    }

    /// Adds those with the same labels to each other.
    fn add(&mut self, other: &Self) {
        for one in other {
            match self.iter().position(|own| own.labels() == one.labels()) {
                Some(at) => self[at].add(one),
                None if self.len() < MOST_NAMES => self.push(one.clone()),
                None => {}
            }
        }
    }

    fn end(&mut self) {
        self.iter_mut().for_each(Value::end);
    }
}

impl<S: Statistics> Value for S {
    fn collect(&self, _: &Statistic, labels: &mut Labels, families: &mut Families) {
        let outer = labels.len();
        S::fields().for_each(|it| (it.collect)(self, &it.statistic, labels, families));
        labels.truncate(outer);
    }

    fn add(&mut self, other: &Self) {
        S::fields().for_each(|field| (field.add)(self, other));
    }

    fn end(&mut self) {
        S::fields().for_each(|field| (field.end)(self));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::{Deserialize, Serialize};

    statistics! {
        /// A port of a switch.
        #[derive(Default)]
        pub struct Port {
            /// Its name.
            name: String => label,
            /// Frames that have `passed`,
            /// by kind.
            frames: BTreeMap<String, u64> => counter("frames", by "kind", cli "frames"),
            /// Bytes moved.
            up_bytes: u64 => counter("moved", direction "up"),
            /// Those downwards.
            down_bytes: u64 => counter("moved", direction "down"),
            /// Delay of the moment.
            delay_us: Option<u32> => gauge("delay"),
            /// What is no statistic.
            note: String,
        }

        /// A switch.
        pub struct Switch {
            /// Its ports.
            ports: Vec<Port> => nested,
        }
    }

    fn port(name: &str, n: u64, delay_us: Option<u32>) -> Port {
        let frames = [("big".to_owned(), n), ("small".to_owned(), 2 * n)].into();
        let note = n.to_string();
        Port { name: name.to_owned(), frames, up_bytes: n, down_bytes: 3 * n, delay_us, note }
    }

    #[test]
    fn declared_fields_are_families_with_labels() {
        let switch = Switch { ports: vec![port("a", 1, None), port("b", 10, Some(5))] };
        let mut families = Families::default();
        switch.collect(&Statistic::gauge("", ""), &mut Labels::new(), &mut families);
        let mut told = Vec::new();
        for Family { statistic, samples } in &families.0 {
            told.push(format!("{}: {}", statistic.metric, statistic.help()));
            told.extend(samples.iter().map(|(labels, sample)| {
                let labels: Vec<&str> = labels.iter().map(|(_, value)| value.as_str()).collect();
                format!("{} {sample:?}", labels.join(" "))
            }));
        }
        let expected = "frames: Frames that have passed, by kind|a big Number(1.0)|a small Number(2.0)|\
            b big Number(10.0)|b small Number(20.0)|moved: Bytes moved|a up Number(1.0)|a down Number(3.0)|\
            b up Number(10.0)|b down Number(30.0)|delay: Delay of the moment|b Number(5.0)";
        assert_eq!(told.join("|"), expected);
        let frames = Port::fields().find(|field| field.statistic.cli == Some("frames")).unwrap();
        assert_eq!(frames.value(&switch.ports[1]), Some(30.0), "the sum of all kinds");
    }

    #[test]
    fn processes_add_up_by_label_and_leave_counters() {
        let mut ports = vec![port("a", 1, Some(7)), port("b", 2, None)];
        ports.add(&vec![port("b", 5, Some(4)), port("c", 6, None)]);
        let of = |ports: &[Port]| {
            let of =
                |port: &Port| (port.name.clone(), port.up_bytes, port.frames["big"], port.delay_us);
            ports.iter().map(of).collect::<Vec<_>>()
        };
        let name = str::to_owned;
        let all = [(name("a"), 1, 1, Some(7)), (name("b"), 7, 7, Some(4)), (name("c"), 6, 6, None)];
        assert_eq!(of(&ports), all);
        assert_eq!(ports[1].note, "2", "what is no statistic stays");
        ports.end();
        assert_eq!(of(&ports), all.map(|(name, up, big, _)| (name, up, big, None)));
    }
}
