// SPDX-License-Identifier: GPL-2.0-or-later
//! `Via` (RFC 9110, section 7.6.3): who passed a message on; and so, loops.

use super::{Fault, Fields, MAX_VIA, ProxyError};
use crate::depot_id::DepotId;
use http::{HeaderValue, StatusCode, Version, header};

/// The comment by which an origin tells a depot's request from a client's.
const COMMENT: &str = "(longhaul)";

/// Refuses a request that this depot has passed on before, or that too many have.
pub(super) fn check_loop(headers: &Fields, id: &DepotId) -> Result<(), Fault> {
    let hops: Vec<String> = headers
        .get_all(&header::VIA)
        .flat_map(|value| received_by(&String::from_utf8_lossy(value.as_bytes())))
        .collect();
    let fault =
        |reason| Fault::new(StatusCode::LOOP_DETECTED, ProxyError::ProxyLoopDetected, reason);
    if hops.iter().any(|hop| hop.eq_ignore_ascii_case(id.as_str())) {
        return Err(fault(format!(
            "the route comes back to {id}: it runs in a circle, or two depots share this id"
        )));
    }
    if hops.len() >= MAX_VIA {
        return Err(fault(format!("the request has passed {} proxies already", hops.len())));
    }
    Ok(())
}

/// The field of a message that was received in `version`, after the hops that `came` names. All go
/// into one field, so that a receiver which reads only the first field of that name sees them all.
pub(super) fn signed(came: &Fields, version: Version, id: &DepotId) -> Vec<u8> {
    let mut value = Vec::with_capacity(64);
    for earlier in came.get_all(&header::VIA) {
        value.extend_from_slice(earlier.as_bytes());
        value.extend_from_slice(b", ");
    }
    let minor = if version == Version::HTTP_10 { "1.0" } else { "1.1" };
    // Each request has two of these: no formatting.
    for part in [minor, " ", id.as_str(), " ", COMMENT] {
        value.extend_from_slice(part.as_bytes());
    }
    value
}

/// Whether a request with these fields `Via` came through a depot, and so is to be answered with the file
/// itself. Who forges this gets the file directly, which is no loss.
pub fn came_through_depot<'v>(via: impl IntoIterator<Item = &'v HeaderValue>) -> bool {
    via.into_iter().any(|v| v.to_str().is_ok_and(|v| v.contains(COMMENT)))
}

/// The `received-by` of each entry. Comments may hold commas, so they are taken out first.
fn received_by(value: &str) -> Vec<String> {
    let (mut depth, mut escaped) = (0_usize, false);
    let mut plain = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if depth > 0 => escaped = true,
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    plain
        .split(',')
        .filter_map(|entry| entry.split_ascii_whitespace().nth(1).map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sign(headers: &mut Fields, version: Version, id: &str) {
        let value = signed(headers, version, &id.parse().unwrap());
        *headers = Fields::from_iter([(header::VIA, value.try_into().unwrap())]);
    }

    #[test]
    fn hops_are_found_among_comments() {
        assert_eq!(
            received_by(r"1.1 a (x, 1.1 no, \) (deep, er)), HTTP/1.0 b:80 ,1.1 c(y),, bad"),
            ["a", "b:80", "c"]
        );
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
