// SPDX-License-Identifier: GPL-2.0-or-later
//! Text of others: nothing that is hidden is printed as itself, whatever the form.

use longhaul_units::text::{Escaped, coloured_lines, is_hidden, json, lines, printable};

/// The classes that reports name, put down by code point rather than by the function that is tried.
const HOSTILE: [char; 24] = [
    '\0',
    '\u{7}',
    '\u{8}',
    '\r',
    '\u{b}',
    '\u{1b}',
    '\u{7f}',
    '\u{80}',
    '\u{85}',
    '\u{9b}',
    '\u{9d}',
    '\u{61c}',
    '\u{200b}',
    '\u{200e}',
    '\u{200f}',
    '\u{2028}',
    '\u{2029}',
    '\u{202a}',
    '\u{202e}',
    '\u{2066}',
    '\u{2069}',
    '\u{feff}',
    '\u{fffb}',
    '\u{e0041}',
];

#[test]
fn hostile_text_is_printed_in_no_form() {
    for c in HOSTILE {
        assert!(is_hidden(c), "{}", c.escape_unicode());
        let text = format!("a{c}b");
        assert_eq!(printable(&text, 80), "a?b");
        assert_eq!(lines(&text), "a?b");
        let coloured = coloured_lines(&text);
        assert_eq!(coloured, "a?b");
        assert_eq!(Escaped(&text).to_string(), format!("a{}b", c.escape_default()));
        let document =
            serde_json::to_string_pretty(&serde_json::json!({ &text: [&text, 1] })).unwrap();
        let escaped = json(&document);
        assert!(!escaped.chars().any(|c| c != '\n' && is_hidden(c)), "{escaped}");
        let read: serde_json::Value = serde_json::from_str(&escaped).unwrap();
        assert_eq!(read[&text][0], text, "nothing is lost");
    }
}

#[test]
fn letters_of_any_script_stay_as_they_are() {
    for text in ["café", "数据", "данные", "دلفین", "🛰️", "a\tb\nc", "\"'<&\\"] {
        assert_eq!(lines(text), text);
        assert_eq!(json(text).replace("\\u0009", "\t"), text);
    }
    assert_eq!(printable("café", 80), "café");
    assert_eq!((printable("abcdef", 3), printable("abc", 3)), ("abc...".into(), "abc".into()));
}

#[test]
fn colours_stay_and_other_sequences_do_not() {
    let coloured = "\u{1b}[2m12:00\u{1b}[0m \u{1b}[1;32mINFO\u{1b}[0m a\n";
    assert_eq!(coloured_lines(coloured), coloured);
    for (text, printed) in [
        ("\u{1b}[2J", "?[2J"),
        ("\u{1b}]0;title\u{7}", "?]0;title?"),
        ("\u{1b}[", "?["),
        ("\u{1b}", "?"),
        ("\u{1b}\u{1b}[m", "?\u{1b}[m"),
        ("\u{9b}31m", "?31m"),
    ] {
        assert_eq!(coloured_lines(text), printed, "{}", Escaped(text));
    }
}
