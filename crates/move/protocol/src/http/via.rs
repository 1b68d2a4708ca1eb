// SPDX-License-Identifier: GPL-2.0-or-later
//! `Via` (RFC 9110, section 7.6.3): who passed a message on; and so, loops.
//!
//! ```text
//! Via         = #( protocol received-by [ comment ] )
//! protocol    = [ name "/" ] version
//! received-by = host [ ":" port ], or a name instead
//! ```
//! A field is read whole or not at all: a client that could hide an entry behind a malformed one could send
//! a request in circles. So requests with a malformed entry are refused. In answers, where no depot checks for
//! loops, the line is left out. Empty list members and a missing space before a comment are tolerated.

use super::{Fault, Fields, MAX_VIA, ProxyError, fields::is_tchar};
use crate::depot_id::DepotId;
use http::{HeaderValue, StatusCode, Version, header};

/// The comment by which an origin tells a depot's request from a client's.
const COMMENT: &str = "(longhaul)";

/// One of those who passed a message on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry<'v> {
    received_by: &'v [u8],
    /// With its brackets; empty where there is none.
    comment: &'v [u8],
}

/// The field is not a list of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Malformed;

/// Number of depots that a request's field names, if the field can be read.
pub(super) fn read(headers: &Fields) -> Result<usize, Fault> {
    let mut depots = 0;
    for value in headers.get_all(&header::VIA) {
        let read = entries(value.as_bytes(), |entry| depots += usize::from(entry.is_depot()));
        read.map_err(|Malformed| {
            Fault::bad_request("the Via field is malformed, so that loops cannot be detected")
        })?;
    }
    Ok(depots)
}

/// Refuses a request that this depot has passed on before, or that too many have. Its field
/// [can be read](read).
pub(super) fn check_loop(headers: &Fields, id: &DepotId) -> Result<(), Fault> {
    let (mut hops, mut is_own) = (0, false);
    for value in headers.get_all(&header::VIA) {
        let read = entries(value.as_bytes(), |entry| {
            hops += 1;
            is_own |= entry.received_by.eq_ignore_ascii_case(id.as_str().as_bytes());
        });
        if read.is_err() {
            hops = MAX_VIA;
        }
    }
    let fault =
        |reason| Fault::new(StatusCode::LOOP_DETECTED, ProxyError::ProxyLoopDetected, reason);
    if is_own {
        return Err(fault(format!(
            "the route comes back to {id}: it runs in a circle, or two depots share this id"
        )));
    }
    if hops >= MAX_VIA {
        return Err(fault(format!("the request has passed {hops} proxies already")));
    }
    Ok(())
}

/// The field of a message that was received in `version`, after the hops that `came` names. All go
/// into one field, so that a receiver which reads only the first field of that name sees them all.
pub(super) fn with_own_entry(came: &Fields, version: Version, id: &DepotId) -> Vec<u8> {
    let mut value = Vec::with_capacity(64);
    for earlier in came.get_all(&header::VIA) {
        // Behind a comment without an end this depot's own entry would not be seen.
        if entries(earlier.as_bytes(), |_| ()).is_ok() {
            value.extend_from_slice(earlier.as_bytes());
            value.extend_from_slice(b", ");
        }
    }
    let minor = if version == Version::HTTP_10 { "1.0" } else { "1.1" };
    // Each request has two of these: no formatting.
    for part in [minor, " ", id.as_str(), " ", COMMENT] {
        value.extend_from_slice(part.as_bytes());
    }
    value
}

/// Whether a request with these fields `Via` came through a depot, and so is to be answered with the file
/// itself. A client that forges this gets the file directly, which does no harm.
pub fn came_through_depot<'v>(via: impl IntoIterator<Item = &'v HeaderValue>) -> bool {
    via.into_iter().any(|value| {
        let mut by_depot = false;
        entries(value.as_bytes(), |entry| by_depot |= entry.is_depot()).is_ok() && by_depot
    })
}

/// How many depots have passed a message on with these fields `Via`.
pub(super) fn depots<'v>(via: impl IntoIterator<Item = &'v HeaderValue>) -> usize {
    via.into_iter()
        .map(|value| {
            let mut count = 0;
            // A depot did not write a malformed line: depots leave out entries that would spoil their own.
            let read = entries(value.as_bytes(), |entry| count += usize::from(entry.is_depot()));
            read.map_or(0, |()| count)
        })
        .sum()
}

impl Entry<'_> {
    fn is_depot(&self) -> bool {
        self.comment == COMMENT.as_bytes()
    }
}

/// Reads the entries of one line.
fn entries<'v>(mut rest: &'v [u8], mut visit: impl FnMut(Entry<'v>)) -> Result<(), Malformed> {
    loop {
        rest = rest.trim_ascii_start();
        match rest {
            [] => return Ok(()),
            [b',', after @ ..] => rest = after,
            _ => {
                let (protocol, after) = cut(rest, |b| is_tchar(b) || b == b'/');
                let mut parts = protocol.split(|b| *b == b'/');
                if parts.clone().count() > 2 || parts.any(<[u8]>::is_empty) {
                    return Err(Malformed);
                }
                let (space, after) = cut(after, is_space);
                let (received_by, after) = cut(after, |b| is_tchar(b) || b":[]".contains(&b));
                if space.is_empty() || received_by.is_empty() {
                    return Err(Malformed);
                }
                let (_, after) = cut(after, is_space);
                let comment;
                (comment, rest) = after.split_at(comment_length(after)?);
                visit(Entry { received_by, comment });
                rest = cut(rest, is_space).1;
                if !matches!(rest, [] | [b',', ..]) {
                    return Err(Malformed);
                }
            }
        }
    }
}

/// How long the comment is with which `text` begins; 0 where it begins with none.
fn comment_length(text: &[u8]) -> Result<usize, Malformed> {
    let (mut depth, mut escaped) = (0_usize, false);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if depth > 0 => escaped = true,
            b'(' => depth += 1,
            b')' if depth == 1 => return Ok(at + 1),
            b')' if depth > 1 => depth -= 1,
            _ if depth == 0 => return Ok(0),
            _ => {}
        }
    }
    if depth == 0 { Ok(0) } else { Err(Malformed) }
}

/// Splits off what is at the start.
fn cut(text: &[u8], is: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    text.split_at(text.iter().take_while(|b| is(**b)).count())
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sign(headers: &mut Fields, version: Version, id: &str) {
        let value = with_own_entry(headers, version, &id.parse().unwrap());
        *headers = Fields::from_iter([(header::VIA, value.try_into().unwrap())]);
    }

    fn fields(values: &[&[u8]]) -> Fields {
        let field = |value: &&[u8]| (header::VIA, HeaderValue::from_bytes(value).unwrap());
        values.iter().map(field).collect()
    }

    fn hops(value: &[u8]) -> Result<Vec<String>, Malformed> {
        let mut hops = Vec::new();
        let name = |entry: Entry<'_>| hops.push(String::from_utf8_lossy(entry.received_by).into());
        entries(value, name)?;
        Ok(hops)
    }

    #[test]
    fn hops_are_found_among_comments() {
        for (value, expected) in [
            (
                &br"1.1 a (x, 1.1 no, \) (deep, er)), HTTP/1.0 b:80 ,1.1 c(y),,"[..],
                &["a", "b:80", "c"][..],
            ),
            (b"", &[]),
            (b" , ,", &[]),
            (b"1.1 vegur", &["vegur"]),
            (b"1.0 fred, 1.1 p.example.net", &["fred", "p.example.net"]),
            (b"1.1\t[::1]:80\t(nginx)", &["[::1]:80"]),
            (b"1.1 x (\xff\xfe)", &["x"]),
            (b"2 x (()())", &["x"]),
        ] {
            let expected = expected.iter().map(|hop| (*hop).to_owned()).collect();
            assert_eq!(hops(value), Ok(expected), "{}", value.escape_ascii());
        }
    }

    #[test]
    fn malformed_via_that_hides_an_entry_is_refused() {
        let id = "d1".parse().unwrap();
        for value in [
            &b"1.1 x ("[..],
            b"1.1 x (()",
            b"1.1 x (\\)",
            b"1.1 x (\\",
            b"1.1 x )",
            b"1.1 x (a))",
            b"1.1 x (a) (b)",
            b"1.1 x (a) b",
            b"1.1 x y",
            b"1.1",
            b"bad",
            b"1.1 ",
            b"1.1 \"d1\"",
            b"\"1.1 d1",
            b"1.1 (d1)",
            b"(1.1 d1",
            b"/1.1 x",
            b"HTTP/ x",
            b"HTTP/1/1 x",
            b"1.1 x; y",
            b"1.1 x=y",
            b"1.1 d\xe9",
            b"1.1 x <y>",
        ] {
            for (before, behind) in
                [(&b""[..], &b""[..]), (b"1.1 a, ", b""), (b"", b", 1.1 d1 (longhaul)")]
            {
                let value = [before, value, behind].concat();
                let shown = value.escape_ascii().to_string();
                // An entry behind it may be part of a comment then: that is what is to be prevented.
                assert_eq!(hops(&value), Err(Malformed), "{shown}");
                for all in [&[&value[..]][..], &[b"1.1 a", &value], &[&value, b"1.1 d1"]] {
                    assert_eq!(read(&fields(all)).unwrap_err().status, 400, "{shown}");
                    assert!(
                        all.len() > 1 || !came_through_depot(fields(all).get_all(&header::VIA))
                    );
                }
                // Where it goes on all the same, it hides nothing of what follows.
                let mut out = fields(&[&value]);
                sign(&mut out, Version::HTTP_11, "d1");
                assert_eq!(check_loop(&out, &id).unwrap_err().status, StatusCode::LOOP_DETECTED);
            }
        }
    }

    #[test]
    fn a_depot_is_known_by_its_comment_alone() {
        for (value, is) in [
            ("1.1 d1 (longhaul)", true),
            ("1.1 x, 1.0 d1\t(longhaul), 1.1 y", true),
            ("1.1 d1 (Longhaul)", false),
            ("1.1 d1 (longhaul 2)", false),
            ("1.1 d1 ((longhaul))", false),
            ("1.1 x (\\(longhaul\\))", false),
            ("1.1 longhaul", false),
        ] {
            let fields = fields(&[value.as_bytes()]);
            assert_eq!(read(&fields), Ok(usize::from(is)), "{value}");
            assert_eq!(came_through_depot(fields.get_all(&header::VIA)), is, "{value}");
        }
    }

    #[test]
    fn depots_are_counted_in_every_readable_via_line() {
        for (values, count) in [
            (&[][..], 0),
            (&[&b"1.1 x, 1.1 y (nginx)"[..]][..], 0),
            (&[b"1.1 x, 1.1 d2 (longhaul), 1.0 d1 (longhaul)"], 2),
            (&[b"1.1 d2 (longhaul)", b"1.1 x", b"1.1 d1 (longhaul)"], 2),
            (&[b"1.1 x (", b"1.1 d1 (longhaul)"], 1),
        ] {
            assert_eq!(depots(fields(values).get_all(&header::VIA)), count, "{values:?}");
        }
    }

    #[test]
    fn own_entries_count_in_every_line() {
        let id = "d1".parse().unwrap();
        for values in [&[&b"1.1 D1"[..]][..], &[b"1.1 x (a)", b"HTTP/1.1 d1 (b), 1.1 y"]] {
            assert_eq!(check_loop(&fields(values), &id).unwrap_err().status, 508);
        }
        assert_eq!(check_loop(&fields(&[b"1.1 d1:80, 1.1 d11 (d1)"]), &id), Ok(()));
    }
    #[test]
    fn a_loop_is_one_visit_too_many() {
        let id: DepotId = "d1".parse().unwrap();
        let mut headers = Fields::new();
        sign(&mut headers, Version::HTTP_11, "d2");
        assert_eq!(check_loop(&headers, &id), Ok(()));
        sign(&mut headers, Version::HTTP_10, "D1");
        assert!(came_through_depot(headers.get_all(&header::VIA)) && !came_through_depot([]));
        assert_eq!(headers.get(&header::VIA).unwrap(), "1.1 d2 (longhaul), 1.0 D1 (longhaul)");
        assert_eq!(check_loop(&headers, &id).unwrap_err().status, StatusCode::LOOP_DETECTED);
    }

    #[test]
    fn seventeen_hops_are_a_loop() {
        let mut headers = Fields::new();
        let id: DepotId = "me".parse().unwrap();
        for n in 0..MAX_VIA {
            assert_eq!(check_loop(&headers, &id), Ok(()), "{n}");
            sign(&mut headers, Version::HTTP_11, &format!("d{n}"));
        }
        assert!(check_loop(&headers, &id).is_err());
    }
}
