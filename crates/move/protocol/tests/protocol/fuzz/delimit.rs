// SPDX-License-Identifier: GPL-2.0-or-later
//! Where messages end, for a reader that takes whatever it can make sense of. It shares no code with
//! the library: a message that the strict reader takes must end for this one in the same place.

/// What the body is, to the lenient reader.
#[derive(Debug, PartialEq, Eq)]
pub enum Body {
    Nothing,
    Length(u64),
    Chunked,
}

/// Splits lines at LF, whatever precedes it: their text and where the next line begins.
fn lines(bytes: &[u8]) -> impl Iterator<Item = (&[u8], usize)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let length = bytes[start..].iter().position(|b| *b == b'\n')?;
        let line = &bytes[start..start + length];
        start += length + 1;
        Some((line.strip_suffix(b"\r").unwrap_or(line), start))
    })
}

/// The length of a head, empty lines before it included, and what its fields say of the body.
pub fn head(bytes: &[u8]) -> Option<(usize, Body)> {
    let (mut first, mut end) = (true, None);
    let (mut length, mut chunked) = (None, false);
    for (line, next) in lines(bytes) {
        match (line.is_empty(), first) {
            (true, true) => {}
            (true, false) => {
                end = Some(next);
                break;
            }
            (false, true) => first = false,
            (false, false) => {
                let text = String::from_utf8_lossy(line).to_ascii_lowercase();
                let (name, value) = text.split_once(':').unwrap_or((&text, ""));
                match name.trim() {
                    "content-length" => {
                        // The last one counts, and of it the last number.
                        let digits = value.rsplit(',').next().unwrap_or_default().trim();
                        length = digits.trim_start_matches('+').parse().ok();
                    }
                    // Wherever the word stands.
                    "transfer-encoding" => chunked |= value.contains("chunked"),
                    _ => {}
                }
            }
        }
    }
    let body = match (chunked, length) {
        (true, _) => Body::Chunked,
        (false, Some(length)) if length > 0 => Body::Length(length),
        _ => Body::Nothing,
    };
    Some((end?, body))
}

/// The data of a chunked body and its length with all framing.
pub fn chunked(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut at, mut data) = (0, Vec::new());
    loop {
        let (line, length) = lines(&bytes[at..]).next()?;
        at += length;
        let line = String::from_utf8_lossy(line);
        let digits = line.split(';').next().unwrap_or_default().trim();
        let size = u128::from_str_radix(digits.trim_start_matches("0x"), 16).ok()? as usize;
        if size == 0 {
            for (line, next) in lines(&bytes[at..]) {
                if line.is_empty() {
                    return Some((data, at + next));
                }
            }
            return None;
        }
        data.extend_from_slice(bytes.get(at..at.checked_add(size)?)?);
        at += size;
        at += bytes[at..].iter().position(|b| *b == b'\n')? + 1;
    }
}
