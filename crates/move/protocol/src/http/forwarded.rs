// SPDX-License-Identifier: GPL-2.0-or-later
//! `Forwarded` (RFC 7239) between two depots: the client for which the sender asks.
//!
//! ```text
//! Forwarded: for=192.0.2.7
//! Forwarded: for="[2001:db8::7]"
//! ```
//! A depot takes this field out of whatever comes from a client and sends its own, so a depot that knows
//! the sender to be a depot may believe it. It reads only the part of the RFC's grammar
//! that depots write: one element, one parameter, an address without a port.

use super::Fields;
use http::{HeaderName, HeaderValue, header};
use std::net::IpAddr;

/// The field that names `client`.
pub fn forwarded_for(client: IpAddr) -> (HeaderName, HeaderValue) {
    let value = match client.to_canonical() {
        IpAddr::V4(v4) => format!("for={v4}"),
        IpAddr::V6(v6) => format!("for=\"[{v6}]\""),
    };
    (header::FORWARDED, HeaderValue::try_from(value).expect("an address is visible ASCII"))
}

/// The client that the sender names; none where it names none, or several, or in another form.
pub fn forwarded_client(fields: &Fields) -> Option<IpAddr> {
    let mut values = fields.get_all(&header::FORWARDED);
    let value = values.next().filter(|_| values.next().is_none())?.to_str().ok()?;
    let node = value.strip_prefix("for=")?;
    match node.strip_prefix("\"[").and_then(|rest| rest.strip_suffix("]\"")) {
        Some(v6) => v6.parse().ok().map(IpAddr::V6),
        None => node.parse().ok().map(IpAddr::V4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&str]) -> Option<IpAddr> {
        let field = |v: &&str| (header::FORWARDED, HeaderValue::from_str(v).unwrap());
        forwarded_client(&values.iter().map(field).collect())
    }

    #[test]
    fn depot_field_round_trips() {
        for (client, value) in [
            ("192.0.2.7", "for=192.0.2.7"),
            ("::ffff:192.0.2.7", "for=192.0.2.7"),
            ("2001:db8::7", "for=\"[2001:db8::7]\""),
        ] {
            let client: IpAddr = client.parse().unwrap();
            let (name, written) = forwarded_for(client);
            assert_eq!((name, written.to_str().unwrap()), (header::FORWARDED, value));
            assert_eq!(read(&[value]), Some(client.to_canonical()));
        }
    }

    #[test]
    fn no_other_form_names_a_client() {
        for values in [
            &[][..],
            &[""],
            &["for="],
            &["for=192.0.2.7, for=192.0.2.8"],
            &["for=192.0.2.7", "for=192.0.2.7"],
            &["for=192.0.2.7;by=d1"],
            &["For=192.0.2.7"],
            &["for=192.0.2.7:80"],
            &["for=2001:db8::7"],
            &["for=[2001:db8::7]"],
            &["for=\"192.0.2.7\""],
            &["for=\"[192.0.2.7]\""],
            &["for=unknown"],
            &["for=192.0.2.07"],
        ] {
            assert_eq!(read(values), None, "{values:?}");
        }
    }
}
