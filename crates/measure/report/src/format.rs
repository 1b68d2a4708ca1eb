// SPDX-License-Identifier: GPL-2.0-or-later
//! Numbers for people: three digits and a unit. Multiples of bytes are powers of 1000 here.

use record::stats::MedianRange;

/// A rate: `612 Mb/s`.
pub fn rate(bps: f64) -> String {
    scaled(bps, "b/s")
}

/// A size: `105 MB`.
pub fn size(bytes: f64) -> String {
    scaled(bytes, "B")
}

/// A length of time: `4.31 s`.
pub fn seconds(seconds: f64) -> String {
    format!("{} s", digits(seconds))
}

/// A length of time in the unit that suits it: `12.3 us`.
pub fn duration(seconds: f64) -> String {
    let units = [(1.0, "s"), (1e-3, "ms"), (1e-6, "us")];
    let found = units.into_iter().find(|(size, _)| seconds >= size * 0.9995);
    let (size, unit) = found.unwrap_or((1e-9, "ns"));
    format!("{} {unit}", digits(seconds / size))
}

/// Microseconds as milliseconds: `21.1 ms`.
pub fn milliseconds(us: f64) -> String {
    format!("{} ms", digits(us / 1000.0))
}

/// A share of one, with two digits: `61 %`, `0.02 %`.
pub fn percent(share: f64) -> String {
    format!("{} %", significant(share * 100.0, 2))
}

/// An index of which 1 is the best: three digits, or as many as tell it from 1, up to nine: `0.9997`.
pub fn index(value: f64) -> String {
    let mut texts = (3..=9).map(|digits| significant(value, digits));
    texts.find(|text| value >= 1.0 || text != "1").unwrap_or_else(|| "1".to_owned())
}

/// A multiple: `5.4`, `0.87`, `12`.
pub fn times(factor: f64) -> String {
    if factor >= 9.95 {
        format!("{factor:.0}")
    } else if factor >= 0.995 {
        format!("{factor:.1}")
    } else {
        format!("{factor:.2}")
    }
}

/// The smallest and the largest of some values as written, with the unit once where they share it:
/// `12 – 13 ms`.
pub fn range(least: &str, most: &str) -> String {
    let unit = |text: &str| text.split_once(' ').map(|(_, unit)| unit.to_owned());
    let number = least.split(' ').next().filter(|_| unit(least) == unit(most));
    format!("{} – {most}", number.unwrap_or(least))
}

/// A value and half the width of its interval as written, with the unit once where they share it: `12 ± 0.5 ms`.
pub fn plus_minus(value: &str, half: &str) -> String {
    let parts = value.split_once(' ').zip(half.split_once(' '));
    match parts.filter(|((_, a), (_, b))| a == b) {
        Some(((value, unit), (half, _))) => format!("{value} ± {half} {unit}"),
        None => format!("{value} ± {half}"),
    }
}

/// A median with minimum and maximum: `4.5 (3.9–5.1)`. The median alone where these two
/// are written alike, as those of one value are.
pub fn spread(range: &MedianRange, write: impl Fn(f64) -> String) -> String {
    let (least, most) = (write(range.least), write(range.most));
    let median = write(range.median);
    if least == most { median } else { format!("{median} ({least}–{most})") }
}

/// Pads the cells of a column so that medians are aligned if only some have a range.
pub fn align_ranges<'a>(column: impl Iterator<Item = &'a mut String>) {
    let mut cells: Vec<_> = column.collect();
    let range_at = |cell: &String| cell.find(" (");
    let of = |cell: &String| range_at(cell).map_or(0, |at| cell[at..].chars().count());
    let widest = cells.iter().map(|cell| of(cell)).max().unwrap_or(0);
    for cell in &mut cells {
        let blanks = widest - of(cell);
        cell.push_str(&" ".repeat(blanks));
    }
}

/// Three digits, without an exponent.
pub fn digits(value: f64) -> String {
    significant(value, 3)
}

/// So many digits, or more before the point; no zeros that only fill up behind it.
pub fn significant(value: f64, digits: i32) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let before_point = value.abs().log10().floor() as i32 + 1;
    let text = format!("{value:.*}", usize::try_from(digits - before_point).unwrap_or(0));
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

fn scaled(value: f64, unit: &str) -> String {
    let steps = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    // 999.6 of a unit is printed as 1 of the next.
    let (size, prefix) =
        steps.into_iter().find(|(size, _)| value.abs() >= size * 0.9995).unwrap_or((1.0, ""));
    format!("{} {prefix}{unit}", digits(value / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        for (bps, text) in [
            (0.0, "0 b/s"),
            (999.0, "999 b/s"),
            (1e6, "1 Mb/s"),
            (999_700_000.0, "1 Gb/s"),
            (612_345_678.0, "612 Mb/s"),
            (1_050_000_000.0, "1.05 Gb/s"),
            (5e15, "5000 Tb/s"),
        ] {
            assert_eq!(rate(bps), text);
        }
        assert_eq!(size(104_857_600.0), "105 MB");
        assert_eq!(
            [0.0, 0.000_2, 0.0562, 0.61, 1.0].map(percent),
            ["0 %", "0.02 %", "5.6 %", "61 %", "100 %"]
        );
        assert_eq!(
            [0.75, 0.9994, 0.9997, 0.999_96, 1.0, 1.0 - 1e-12, 1.0 + 1e-12, 0.0004].map(index),
            ["0.75", "0.999", "0.9997", "0.99996", "1", "1", "1", "0.0004"]
        );
        assert_eq!([0.874, 1.0, 5.42, 11.6].map(times), ["0.87", "1.0", "5.4", "12"]);
        let of = |sample: &[f64]| spread(&MedianRange::of(sample).unwrap(), digits);
        assert_eq!(of(&[4.0, 5.0, 3.5]), "4 (3.5–5)");
        assert_eq!([of(&[4.0]), of(&[4.0, 4.0]), of(&[4.0001, 4.0])], ["4", "4", "4"]);
        let mut column = ["4".to_owned(), "12 (3–20)".to_owned(), "4 (3–5)".to_owned()];
        align_ranges(column.iter_mut());
        assert_eq!(column, ["4       ", "12 (3–20)", "4 (3–5) "]);
        assert_eq!(range("12 ms", "13 ms"), "12 – 13 ms");
        assert_eq!(plus_minus("12 ms", "0.5 ms"), "12 ± 0.5 ms");
        assert_eq!(plus_minus("1.2 Mb/s", "800 kb/s"), "1.2 Mb/s ± 800 kb/s");
        assert_eq!(plus_minus("0.9", "0.1"), "0.9 ± 0.1");
        assert_eq!(range("200 kb/s", "1 Mb/s"), "200 kb/s – 1 Mb/s");
        assert_eq!(range("0.1", "0.25"), "0.1 – 0.25");
        assert_eq!(
            [0.0, 7e-9, 1e-6, 12.34e-6, 0.9999, 61.0].map(duration),
            ["0 ns", "7 ns", "1 us", "12.3 us", "1 s", "61 s"]
        );
        assert_eq!([4.307, 39.0, 0.05].map(seconds), ["4.31 s", "39 s", "0.05 s"]);
    }
}
