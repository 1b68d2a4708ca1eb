// SPDX-License-Identifier: GPL-2.0-or-later
//! Colours, dashes and marks that tell the lines of a figure apart.
//!
//! The colours are Paul Tol's scheme "muted" (Colour Schemes, SRON/EPS/TN/09-002, issue 3.2, 2021), made
//! for every kind of colour vision. It has nine, as many as `cc/` has congestion controls, each of which
//! has its own in every figure. Colours may look alike in print, so lines differ in dashes and marks as well.

use crate::distinct::distinct;
use serde::Serialize;

/// The scheme, those that stand out most on white first.
pub(crate) const MUTED: [&str; 9] = [
    "#332288", "#CC6677", "#44AA99", "#882255", "#117733", "#999933", "#AA4499", "#88CCEE",
    "#DDCC77",
];

/// Each algorithm's place in the scheme, whether the kernel's or longhaul's own.
const ALGORITHMS: [(&str, usize); 9] = [
    ("cubic", 0),
    ("reno", 1),
    ("bbr", 2),
    ("highspeed", 3),
    ("scalable", 4),
    ("bic", 5),
    ("htcp", 6),
    ("fast", 7),
    ("libra", 8),
];

/// Each method's place.
const METHODS: [(&str, usize); 4] = [("emu", 0), ("sim", 1), ("field", 2), ("model", 5)];

/// Patterns of a line: drawn through, dashed, dotted, and mixtures.
const DASHES: [&str; 6] = ["", "7 3", "2 2.5", "9 3 2 3", "12 4", "6 2.5 2 2.5 2 2.5"];
/// Shapes of a mark.
const MARKS: [&str; 7] = [
    "m-3.4 0a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0 -6.8 0z",
    "m-3 -3h6v6h-6z",
    "m0 -4.4l4.4 4.4l-4.4 4.4l-4.4 -4.4z",
    "m0 -4l4 7h-8z",
    "m0 4l4 -7h-8z",
    "m-1.3 -4h2.6v2.7h2.7v2.6h-2.7v2.7h-2.6v-2.7h-2.7v-2.6h2.7z",
    "m-4.2 -1.6h8.4v3.2h-8.4z",
];
/// More lines than this cannot be told apart: each has a pair of dash and mark of its own.
pub const MOST_LINES: usize = DASHES.len() * MARKS.len() - 2;

/// What the colour of a line stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ColourBy {
    /// The congestion control, the same in every figure.
    Algorithm,
    /// `emu`, `sim`, …, the same in every figure.
    Method,
    /// The flow.
    Flow,
    /// The scenario's variant.
    Variant,
}

/// What a line is of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LineKey {
    /// The variant's label.
    pub variant: String,
    /// The congestion control in force, without the `lh_` of longhaul's own; of several, all of them.
    pub algorithm: String,
    /// The method.
    pub method: String,
    /// The flow, where a line is of one.
    pub flow: Option<String>,
}

impl LineKey {
    fn of(&self, by: ColourBy) -> &str {
        match by {
            ColourBy::Algorithm => &self.algorithm,
            ColourBy::Method => &self.method,
            ColourBy::Flow => self.flow.as_deref().unwrap_or_default(),
            ColourBy::Variant => &self.variant,
        }
    }
}

/// The names of some congestion controls as a line's [`LineKey::algorithm`].
pub fn algorithms<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let bare: Vec<&str> = names.map(|name| name.strip_prefix("lh_").unwrap_or(name)).collect();
    distinct(bare.iter()).join(" and ")
}

impl ColourBy {
    /// What gives these lines the most colours; of those that give as many, the first here.
    pub fn for_lines(lines: &[LineKey]) -> Self {
        let all = [Self::Variant, Self::Method, Self::Flow, Self::Algorithm];
        let colours = |by: &Self| {
            let keys: Vec<&str> = lines.iter().map(|line| line.of(*by)).collect();
            distinct(keys.iter()).len()
        };
        // The last of several equal ones is taken.
        all.into_iter().max_by_key(colours).expect("there are four")
    }

    /// The name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Algorithm => "congestion control",
            Self::Method => "method",
            Self::Flow => "flow",
            Self::Variant => "variant",
        }
    }
}

/// How a series looks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Style {
    /// As SVG writes it.
    pub colour: &'static str,
    /// Width of a line, in CSS pixels.
    pub width: f64,
    /// Pattern of a line; empty where it is drawn through.
    pub dash: &'static str,
    /// Outline of a mark from its middle.
    pub mark: &'static str,
    /// How dense areas and boxes are filled.
    pub fill_opacity: &'static str,
}

impl Style {
    /// Without a pattern.
    pub const fn plain(colour: &'static str, width: f64) -> Self {
        Self { colour, width, dash: "", mark: MARKS[0], fill_opacity: "0.4" }
    }
}

/// The place of each line's colour in the scheme, by what it stands for.
pub fn places(lines: &[LineKey], by: ColourBy) -> Vec<usize> {
    let keys: Vec<&str> = lines.iter().map(|line| line.of(by)).collect();
    let named = |table: &[(&str, usize)], name: &str| {
        table.iter().find(|(known, _)| *known == name).map(|(_, place)| *place)
    };
    // The first flow or variant of an algorithm has that one's colour, as in a figure by algorithms.
    let algorithm_of_first = |key: &str| {
        let algorithm = &lines.iter().find(|line| line.of(by) == key)?.algorithm;
        let first = lines.iter().find(|line| line.algorithm == *algorithm)?;
        named(&ALGORITHMS, algorithm).filter(|_| first.of(by) == key)
    };
    let own = |key: &str| match by {
        ColourBy::Algorithm => named(&ALGORITHMS, key),
        ColourBy::Method => named(&METHODS, key),
        ColourBy::Flow | ColourBy::Variant => algorithm_of_first(key),
    };
    let taken: Vec<usize> = keys.iter().filter_map(|key| own(key)).collect();
    let others = distinct(keys.iter().filter(|key| own(key).is_none()));
    let free: Vec<usize> = (0..MUTED.len()).filter(|place| !taken.contains(place)).collect();
    let place = |key: &&str| {
        own(key).or_else(|| {
            let at = others.iter().position(|other| other == key)?;
            free.get(at % free.len().max(1)).copied()
        })
    };
    keys.iter().map(|key| place(key).unwrap_or(0)).collect()
}

/// The look of each line: the colour by what it stands for, dash and mark by the line's place, so that no
/// two look alike without colours.
pub fn styles(lines: &[LineKey], by: ColourBy) -> Vec<Style> {
    let colours: Vec<&str> = places(lines, by).into_iter().map(|place| MUTED[place]).collect();
    let same_before = |n: usize| colours[..n].iter().filter(|one| **one == colours[n]).count();
    let style = |n: usize| Style {
        colour: colours[n],
        width: 1.6,
        dash: DASHES[n % DASHES.len()],
        mark: MARKS[n % MARKS.len()],
        // A box that shares its colour with another is hollow or dense.
        fill_opacity: ["0.35", "0", "0.8"][same_before(n) % 3],
    };
    (0..lines.len()).map(style).collect()
}

/// The colour of an algorithm, as in a figure by algorithms.
pub fn algorithm_colour(name: &str) -> &'static str {
    let place = ALGORITHMS.iter().find(|(known, _)| *known == name).map_or(0, |(_, place)| *place);
    MUTED[place]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(variant: &str, algorithm: &str, method: &str, flow: Option<&str>) -> LineKey {
        let text = str::to_owned;
        LineKey {
            variant: text(variant),
            algorithm: text(algorithm),
            method: text(method),
            flow: flow.map(text),
        }
    }

    fn of(variant: &str, algorithm: &str) -> LineKey {
        line(variant, algorithm, "sim", None)
    }

    #[test]
    fn algorithm_colour_is_independent_of_the_others() {
        let one = styles(&[of("a", "cubic"), of("b", "reno")], ColourBy::Algorithm);
        let other = styles(
            &[of("x", "dctcp"), of("b", "reno"), of("c", "bbr"), of("a", "cubic")],
            ColourBy::Algorithm,
        );
        assert_eq!((one[0].colour, one[1].colour), (other[3].colour, other[1].colour));
        let colours: Vec<&str> = other.iter().map(|style| style.colour).collect();
        assert_eq!(distinct(colours.iter()).len(), 4, "an unknown one takes none of theirs");
        assert_eq!(algorithms(["lh_cubic", "cubic", "bbr"].into_iter()), "cubic and bbr");
        let nine: Vec<LineKey> = ALGORITHMS.iter().map(|(name, _)| of("v", name)).collect();
        let nine: Vec<&str> =
            styles(&nine, ColourBy::Algorithm).iter().map(|style| style.colour).collect();
        assert_eq!(distinct(nine.iter()).len(), 9);
    }

    #[test]
    fn first_flow_of_an_algorithm_has_its_colour_and_others_do_not() {
        let flows = [("a", "reno"), ("b", "cubic"), ("c", "cubic"), ("d", "reno and cubic")];
        let flows = flows.map(|(flow, algorithm)| line("v", algorithm, "sim", Some(flow)));
        let colours: Vec<&str> =
            styles(&flows, ColourBy::Flow).iter().map(|style| style.colour).collect();
        assert_eq!(distinct(colours.iter()).len(), 4, "{colours:?}");
        let of = |name| styles(&[of("v", name)], ColourBy::Algorithm)[0].colour;
        assert_eq!(colours[..2], [of("reno"), of("cubic")]);
    }

    #[test]
    fn most_colours_are_chosen_and_algorithms_where_equal() {
        let by = |lines: &[LineKey]| ColourBy::for_lines(lines);
        assert_eq!(by(&[of("a", "cubic"), of("b", "reno")]), ColourBy::Algorithm);
        assert_eq!(by(&[of("a", "cubic"), of("b", "cubic")]), ColourBy::Variant);
        let methods = ["emu", "sim"].map(|method| line("a", "cubic", method, None));
        assert_eq!(by(&methods), ColourBy::Method);
        let flows = ["f", "g"].map(|flow| line("a", "cubic", "sim", Some(flow)));
        assert_eq!(by(&flows), ColourBy::Flow);
        assert_eq!(by(&[of("a", "cubic")]), ColourBy::Algorithm);
    }

    #[test]
    fn no_two_lines_look_alike_without_colours() {
        let lines = vec![of("a", "cubic"); MOST_LINES];
        let all = styles(&lines, ColourBy::Variant);
        for (n, one) in all.iter().enumerate() {
            assert!(all[..n].iter().all(|two| (one.dash, one.mark) != (two.dash, two.mark)));
        }
    }
}
