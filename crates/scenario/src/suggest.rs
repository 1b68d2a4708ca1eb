// SPDX-License-Identifier: GPL-2.0-or-later
//! Suggestions for unknown words.

use std::collections::BTreeSet;

/// Longer lists are cut: a list of a thousand nodes does not help a reader.
const MOST: usize = 32;

/// The end of a message about an unknown `word`: the known one that is nearest, or all of them.
pub(crate) fn hint<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    let mut unique = BTreeSet::new();
    let known: Vec<&str> = known.into_iter().filter(|k| unique.insert(*k)).collect();
    // A third of the word may be mistyped; "via" for "vai" is two edits of three letters.
    let tolerance = (word.chars().count() / 3).max(2);
    let nearest = known
        .iter()
        .map(|k| (strsim::osa_distance(word, k), *k))
        .filter(|(distance, k)| *distance <= tolerance && *distance < k.chars().count())
        .min();
    match nearest {
        Some((_, nearest)) => format!("; did you mean \"{nearest}\"?"),
        None if known.is_empty() => "; there is none".to_owned(),
        None if known.len() > MOST => {
            format!("; known: {} and {} more", known[..MOST].join(", "), known.len() - MOST)
        }
        None => format!("; known: {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::hint;

    #[test]
    fn the_nearest_word_or_all() {
        let known = ["rate", "delay", "mtu"];
        assert_eq!(hint("ratee", known), "; did you mean \"rate\"?");
        assert_eq!(hint("dealy", known), "; did you mean \"delay\"?");
        assert_eq!(hint("colour", known), "; known: rate, delay, mtu");
        assert_eq!(hint("x", []), "; there is none");
        let many: Vec<String> = (100..140).map(|n| format!("n{n}")).collect();
        let cut = hint("colour", many.iter().map(String::as_str));
        assert!(cut.starts_with("; known: n100, ") && cut.ends_with(", n131 and 8 more"), "{cut}");
    }
}
