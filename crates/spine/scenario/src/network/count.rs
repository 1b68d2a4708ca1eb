// SPDX-License-Identifier: GPL-2.0-or-later
//! `count`: one table that defines many things, whose names have its numbers from 1 on.

use crate::{
    document::Value,
    fields::{Fields, Located, Name, Pattern, Whole},
};

/// How many things a table stands for; none, where a sweep goes down to nothing.
pub(super) struct Copies(Option<u64>);

/// A thing with names that have a `#` for its number.
pub(super) trait Numbered: Clone {
    fn number(&mut self, number: &str);
}

impl Copies {
    /// Reads `count` and compares it with the name. None after a problem.
    pub fn read(fields: &mut Fields<'_>, name: Option<&Pattern>) -> Option<Self> {
        let given = fields.raw("count").is_some();
        let count = fields.optional::<Located<Whole<0, 1000>>>("count");
        let Pattern(name) = name?;
        let location =
            fields.table().get("name").map_or(fields.location(), |v: &Value| &v.location);
        match count {
            None if given => return None,
            None if name.contains('#') => {
                let message = "the \"#\" in its name stands for numbers: give a \"count\" of them";
                fields.report(location, message);
                return None;
            }
            None => {}
            Some(count) if !name.contains('#') => {
                let message = "a \"count\" needs a \"#\" in the name, for the numbers";
                fields.report(&count.location, message);
                return None;
            }
            Some(Located { value: Whole(last), .. }) => {
                let longest = name.replace('#', &last.to_string());
                if longest.len() > Name::LONGEST {
                    let most = Name::LONGEST;
                    fields
                        .report(location, &format!("\"{longest}\" is longer than {most} letters"));
                    return None;
                }
            }
        }
        Some(Self(count.map(|count| count.value.0)))
    }

    /// As many as the table stands for.
    pub fn of<T: Numbered>(self, thing: T) -> Vec<T> {
        let Some(count) = self.0 else { return vec![thing] };
        let copy = |number: u64| {
            let mut copy = thing.clone();
            copy.number(&number.to_string());
            copy
        };
        (1..=count).map(copy).collect()
    }
}

impl Numbered for Pattern {
    fn number(&mut self, number: &str) {
        self.0 = self.0.replace('#', number);
    }
}

impl<T: Numbered> Numbered for Located<T> {
    fn number(&mut self, number: &str) {
        self.value.number(number);
    }
}
