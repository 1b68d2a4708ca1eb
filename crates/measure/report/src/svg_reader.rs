// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads drawings back, for the tests: what stands where in the panels of a figure.

use crate::chart::LETTER_WIDTH;
use roxmltree::{Document, Node};
use std::collections::HashMap;

/// A parsed drawing: for each panel, and the legend, the elements by their class.
pub struct Drawing {
    width: f64,
    groups: Vec<Group>,
    /// Every text with where it begins, ends, and its own.
    texts: Vec<(f64, f64, String)>,
}

struct Group {
    class: String,
    elements: Vec<Element>,
}

struct Element {
    class: String,
    attributes: HashMap<String, String>,
    text: String,
}

impl Element {
    fn of(node: Node<'_, '_>) -> Self {
        let attribute =
            |one: roxmltree::Attribute<'_, '_>| (one.name().to_owned(), one.value().to_owned());
        let text = node.text().filter(|_| node.tag_name().name() == "text");
        Self {
            class: node.attribute("class").unwrap_or_default().to_owned(),
            attributes: node.attributes().map(attribute).collect(),
            text: text.unwrap_or_default().to_owned(),
        }
    }

    fn get(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }

    fn number(&self, name: &str) -> f64 {
        self.get(name).parse().unwrap()
    }
}

/// From how far left a group moves what is in it.
fn moved(node: Node<'_, '_>) -> f64 {
    let translations = node.ancestors().filter_map(|one| {
        one.attribute("transform")?.strip_prefix("translate(")?.split([' ', ')']).next()
    });
    translations.map(|x| x.parse::<f64>().unwrap()).sum()
}

impl Drawing {
    pub fn parse(svg: &str) -> Self {
        let document = Document::parse(svg).unwrap_or_else(|e| panic!("{e}: {svg}"));
        let classes = ["panel", "legend"];
        let group = |node: Node<'_, '_>| {
            let class = node.attribute("class").filter(|class| classes.contains(class))?;
            let elements = node.descendants().filter(Node::is_element).map(Element::of).collect();
            Some(Group { class: class.to_owned(), elements })
        };
        let level = |node: &Node<'_, '_>| {
            node.tag_name().name() == "text"
                && node.attribute("transform").is_none_or(|turn| !turn.contains("rotate"))
        };
        let text = |node: Node<'_, '_>| {
            let text: String =
                node.descendants().filter(Node::is_text).filter_map(|t| t.text()).collect();
            let size = node.attribute("font-size").map_or(12.0, |size| size.parse().unwrap());
            let width = text.trim_end().chars().count() as f64 * LETTER_WIDTH * size / 12.0;
            let x: f64 = node.attribute("x").unwrap_or("0").parse().unwrap();
            let left = match node.attribute("text-anchor") {
                Some("middle") => x - width / 2.0,
                Some("end") => x - width,
                _ => x,
            } + moved(node);
            (left, left + width, text)
        };
        Self {
            width: document.root_element().attribute("width").unwrap().parse().unwrap(),
            groups: document.descendants().filter_map(group).collect(),
            texts: document.descendants().filter(level).map(text).collect(),
        }
    }

    fn of_class(&self, panel: usize, class: &str) -> impl Iterator<Item = &Element> {
        let panel = self.groups.iter().filter(|group| group.class == "panel").nth(panel).unwrap();
        panel.elements.iter().filter(move |element| element.class == class)
    }

    /// The paths of that class in a panel.
    pub fn paths(&self, panel: usize, class: &str) -> Vec<String> {
        self.of_class(panel, class).map(|element| element.get("d").to_owned()).collect()
    }

    /// The colours of the lines of a panel.
    pub fn colours(&self, panel: usize, class: &str) -> Vec<String> {
        self.of_class(panel, class).map(|element| element.get("stroke").to_owned()).collect()
    }

    /// The upper edge and the height of a rectangle.
    pub fn rect(&self, panel: usize, class: &str, n: usize) -> (f64, f64) {
        let rect = self.of_class(panel, class).nth(n).unwrap();
        (rect.number("y"), rect.number("height"))
    }

    /// How far down circles stand.
    pub fn circles(&self, panel: usize, class: &str) -> Vec<f64> {
        self.of_class(panel, class).map(|circle| circle.number("cy")).collect()
    }

    /// The texts in groups of that class.
    pub fn texts(&self, class: &str) -> Vec<String> {
        let groups = self.groups.iter().filter(|group| group.class == class);
        let texts = groups.flat_map(|group| &group.elements).map(|element| element.text.clone());
        texts.filter(|text| !text.is_empty()).collect()
    }

    /// That a line goes through these points.
    pub fn assert_points(&self, panel: usize, line: usize, expected: &[(f64, f64)]) {
        let path = &self.paths(panel, "line")[line];
        let points: Vec<(f64, f64)> = path
            .split(['M', 'L'])
            .filter_map(|point| point.split_once(' '))
            .map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()))
            .collect();
        assert_eq!(points.len(), expected.len(), "{path}: {expected:?}");
        for (found, by_hand) in points.iter().zip(expected) {
            let near = (found.0 - by_hand.0).abs() < 0.06 && (found.1 - by_hand.1).abs() < 0.06;
            assert!(near, "{path}: {expected:?}");
        }
    }

    /// That no title along an upright axis covers a label of that axis: fonts have digits up to 7.6 pixels wide, and
    /// letters from 10 above their line to 3 below it, which here are to its left and right.
    pub fn assert_titles_clear_of_labels(&self) {
        let width = |label: &Element| label.text.chars().count() as f64 * 7.6;
        for panel in self.groups.iter().filter(|group| group.class == "panel") {
            let (turned, level): (Vec<&Element>, Vec<&Element>) = panel
                .elements
                .iter()
                .filter(|element| !element.text.is_empty() && element.class.is_empty())
                .partition(|element| element.get("transform").contains("rotate"));
            for title in turned {
                let x = title.get("transform").trim_start_matches("translate(");
                let x: f64 = x.split(' ').next().unwrap().parse().unwrap();
                let labels = level.iter().filter(|label| match label.get("text-anchor") {
                    "end" => label.number("x") - width(label) < x + 3.0 && x < 0.0,
                    "" => label.number("x") + width(label) > x - 10.0 && x > 0.0,
                    _ => false,
                });
                let covered: Vec<_> = labels.map(|label| &label.text).collect();
                assert!(covered.is_empty(), "{} over {covered:?}", title.text);
            }
        }
    }

    /// That no text leaves the page.
    pub fn assert_texts_inside(&self) {
        for (left, right, text) in &self.texts {
            assert!(*left >= -0.5 && *right <= self.width + 0.5, "{left} {right} {text}");
        }
    }
}
