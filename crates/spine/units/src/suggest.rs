// SPDX-License-Identifier: GPL-2.0-or-later
//! Suggestions for unknown words: keys of configuration files, names in scenarios.

use std::collections::BTreeSet;

/// Longer lists are cut: a list of a thousand nodes does not help a reader.
const MOST: usize = 32;
/// A longer word is not compared, which takes time that grows with its length.
const LONGEST: usize = 64;

/// The end of a message about an unknown `word`: the known one that is nearest, or all of them.
pub fn hint<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    let mut unique = BTreeSet::new();
    let known: Vec<&str> = known.into_iter().filter(|k| unique.insert(*k)).collect();
    match nearest(word, known.iter().copied()) {
        Some(nearest) => format!("; did you mean \"{nearest}\"?"),
        None if known.is_empty() => "; there is none".to_owned(),
        None if known.len() > MOST => {
            format!("; known: {} and {} more", known[..MOST].join(", "), known.len() - MOST)
        }
        None => format!("; known: {}", known.join(", ")),
    }
}

/// The known word that is nearest to `word`, if one is near enough to be meant.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let length = word.chars().count();
    if length > LONGEST {
        return None;
    }
    // A third of the word may be mistyped; "via" for "vai" is two edits of three letters.
    let tolerance = (length / 3).max(2);
    let distances = known.into_iter().map(|known| (strsim::osa_distance(word, known), known));
    let near = distances
        .filter(|(distance, known)| *distance <= tolerance && *distance < known.chars().count());
    near.min().map(|(_, known)| known)
}

/// The end of a message of serde: a suggestion if the message is about an unknown key or value, otherwise nothing.
pub fn of_message(message: &str) -> String {
    let starts = ["unknown field `", "unknown variant `"];
    let unknown = starts.iter().find_map(|start| message.strip_prefix(start));
    let Some((word, expected)) = unknown.and_then(|rest| rest.rsplit_once("`, expected ")) else {
        return String::new();
    };
    let known = expected.split('`').skip(1).step_by(2);
    nearest(word, known).map_or(String::new(), |known| format!("; did you mean `{known}`?"))
}

#[cfg(test)]
mod tests {
    use super::{hint, of_message};
    use serde::Deserialize;

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
    #[test]
    fn serde_messages_get_the_nearest_key_or_value() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Two {
            #[serde(rename = "listen")]
            _listen: Option<String>,
            #[serde(rename = "buffers")]
            _buffers: Option<Buffers>,
        }
        #[derive(Debug, Deserialize)]
        #[serde(rename_all = "lowercase")]
        enum Buffers {
            Auto,
            Kernel,
        }
        for (text, hint) in [
            ("lisen = 1", "; did you mean `listen`?"),
            ("bufers = \"auto\"", "; did you mean `buffers`?"),
            ("buffers = \"kernal\"", "; did you mean `kernel`?"),
            ("colour = 1", ""),
            ("\"a`, expected `b\" = 1", ""),
            ("listen = 1", ""),
        ] {
            let error = toml::from_str::<Two>(text).unwrap_err();
            assert_eq!(of_message(error.message()), hint, "{text}: {error}");
        }
        // One key alone is expected in other words.
        assert_eq!(of_message("unknown field `too`, expected `to`"), "; did you mean `to`?");
        let long = "x".repeat(1_000_000);
        assert_eq!(of_message(&format!("unknown field `{long}`, expected `to`")), "");
    }
}
