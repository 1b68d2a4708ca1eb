// SPDX-License-Identifier: GPL-2.0-or-later
//! Text of others, made fit for a terminal.

/// The text without control characters, cut to `most` characters.
///
/// Everything that can move a cursor, change colours or reorder a line is replaced by `?`: C0 and C1 controls and the
/// bidirectional and invisible characters of Unicode.
pub fn printable(text: &str, most: usize) -> String {
    let mut shown: String = text.chars().take(most).map(shown).collect();
    if text.chars().nth(most).is_some() {
        shown.push_str("...");
    }
    shown
}

fn shown(character: char) -> char {
    let hidden = matches!(character,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}');
    if character.is_control() || hidden { '?' } else { character }
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn printable_replaces_controls_and_cuts_long_text() {
        assert_eq!(printable("a\x1b[31mb\u{9b}2J\r\n\u{202e}c", 80), "a?[31mb?2J???c");
        assert_eq!(printable("caf\u{e9}", 80), "caf\u{e9}");
        assert_eq!(printable("abcdef", 3), "abc...");
        assert_eq!(printable("abc", 3), "abc");
    }
}
