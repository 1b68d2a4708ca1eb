// SPDX-License-Identifier: GPL-2.0-or-later
//! Cells of tables: quantities with their units, and untrusted texts.

use units::text::shown;

/// Untrusted text without hidden characters, cut to `most` characters.
pub fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.chars().map(shown).collect();
    }
    text.chars().take(most - 1).map(shown).chain(['…']).collect()
}

/// The same, but cut at the front, for texts that differ at their end.
pub fn shorten_front(text: &str, most: usize) -> String {
    let reversed: String = text.chars().rev().collect();
    shorten(&reversed, most).chars().rev().collect()
}

/// A rate in bit/s.
pub fn rate(bps: u64) -> String {
    scaled(bps, 1000.0, &["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"])
}

/// A number of bytes.
pub fn size(bytes: u64) -> String {
    scaled(bytes, 1024.0, &["B", "KB", "MB", "GB", "TB", "PB"])
}

fn scaled(value: u64, step: f64, units: &[&str]) -> String {
    let (mut value, mut at) = (value as f64, 0);
    while value >= step * 0.9995 && at + 1 < units.len() {
        value /= step;
        at += 1;
    }
    let digits = match value {
        _ if at == 0 => 0,
        v if v < 10.0 => 2,
        v if v < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {}", units[at])
}

/// A round trip in microseconds.
pub fn time(us: Option<u32>) -> String {
    match us {
        None => "-".to_owned(),
        Some(us) if us < 1000 => format!("{us} us"),
        Some(us) if us < 1_000_000 => format!("{:.1} ms", f64::from(us) / 1e3),
        Some(us) => format!("{:.2} s", f64::from(us) / 1e6),
    }
}

/// A time in seconds as a whole number of s, min, h or d.
pub fn age(seconds: f64) -> String {
    match seconds as u64 {
        s if s < 120 => format!("{s} s"),
        s if s < 7200 => format!("{} min", s / 60),
        s if s < 172_800 => format!("{} h", s / 3600),
        s => format!("{} d", s / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_three_digits_and_a_unit() {
        assert_eq!(
            [0, 999, 1000, 999_600, 12_345_678].map(rate),
            ["0 b/s", "999 b/s", "1.00 kb/s", "1.00 Mb/s", "12.3 Mb/s"]
        );
        assert_eq!([1023, 1024, 1 << 30].map(size), ["1023 B", "1.00 KB", "1.00 GB"]);
        assert_eq!([None, Some(80), Some(78_021)].map(time), ["-", "80 us", "78.0 ms"]);
    }

    #[test]
    fn nothing_that_others_wrote_moves_the_cursor() {
        assert_eq!(shorten("a\x1b[2Jb\u{9b}\n\u{202e}\u{2028}", 20), "a?[2Jb????");
        assert_eq!(shorten("abcdef", 4), "abc…");
        assert_eq!(shorten_front("abcdef", 4), "…def");
    }
}
