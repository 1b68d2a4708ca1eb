// SPDX-License-Identifier: GPL-2.0-or-later
//! A ticket as `longhaul ticket show --json` and `longhaul ticket verify --json` print it.

use super::{LEEWAY_S, Opens, Ticket, UnixTime};
use serde::Serialize;
use std::{fmt::Display, num::NonZeroU32};

/// A readable description of a ticket: target, clients and validity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TicketDescription {
    /// Whether its signature was checked and is good.
    pub verified: bool,
    /// The name of the key that signed it, as the ticket says; null for a key without a name.
    pub key: Option<String>,
    /// Its name.
    pub id: String,
    /// The issuer (`iss`); null without the claim.
    pub issuer: Option<String>,
    /// The time of issue (`iat`); null without the claim.
    pub issued_unix_s: Option<u64>,
    /// When it becomes valid; null for always.
    pub not_before_unix_s: Option<u64>,
    /// When it expires.
    pub expires_unix_s: u64,
    /// How long before and after these times depots accept it, because clocks differ.
    pub leeway_s: u32,
    /// The URL that it opens; null if it opens sessions.
    pub url: Option<String>,
    /// The target of the sessions that it opens; null if it opens URLs.
    pub session: Option<String>,
    /// Whether it opens all URLs that begin so.
    pub prefix: bool,
    /// The depots, the one nearest the client first.
    pub via: Vec<String>,
    /// The methods of requests; empty if it opens sessions.
    pub methods: Vec<String>,
    /// The maximum of one transfer's body; null for any.
    pub bytes: Option<u64>,
    /// The maximum rate of one transfer; null for any.
    pub rate_bps: Option<u64>,
    /// The maximum rate of all its transfers together, at each depot; null for any.
    pub total_rate_bps: Option<u64>,
    /// The clients' networks; empty for any.
    pub clients: Vec<String>,
    /// The maximum number of requests per depot; null for any.
    pub uses: Option<NonZeroU32>,
}

impl TicketDescription {
    /// The document of a ticket signed by that key.
    pub fn new(ticket: &Ticket, key: Option<&str>, verified: bool) -> Self {
        let (url, session) = match &ticket.opens {
            Opens::Url(url) => (Some(url.to_string()), None),
            Opens::Session(target) => (None, Some(target.to_string())),
        };
        Self {
            verified,
            key: key.map(str::to_owned),
            id: ticket.id.clone(),
            issuer: ticket.issuer.clone(),
            issued_unix_s: ticket.issued.map(UnixTime::seconds),
            not_before_unix_s: ticket.not_before.map(UnixTime::seconds),
            expires_unix_s: ticket.expires.seconds(),
            leeway_s: LEEWAY_S,
            url,
            session,
            prefix: ticket.is_prefix(),
            via: texts(&ticket.via),
            methods: texts(&ticket.methods),
            bytes: ticket.bytes.map(units::Bytes::get),
            rate_bps: ticket.rate.map(units::Rate::bps),
            total_rate_bps: ticket.total_rate.map(units::Rate::bps),
            clients: texts(&ticket.clients),
            uses: ticket.uses,
        }
    }
}

fn texts(list: &[impl Display]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn description_has_every_key_in_order() {
        let ticket = Ticket {
            id: "t1".to_owned(),
            issuer: None,
            issued: None,
            not_before: UnixTime::try_from(5).ok(),
            expires: UnixTime::try_from(9).unwrap(),
            opens: "http://origin.example/folder/".parse().unwrap(),
            via: vec!["depot.example:3880".parse().unwrap()],
            methods: vec![crate::http::Method::Get],
            bytes: Some(units::Bytes::new(7)),
            rate: None,
            total_rate: None,
            clients: vec!["192.0.2.0/24".parse().unwrap()],
            uses: NonZeroU32::new(3),
        };
        let expected = r#"{"verified":false,"key":"k","id":"t1","issuer":null,"issued_unix_s":null,"not_before_unix_s":5,"expires_unix_s":9,"leeway_s":30,"url":"http://origin.example/folder/","session":null,"prefix":true,"via":["depot.example:3880"],"methods":["GET"],"bytes":7,"rate_bps":null,"total_rate_bps":null,"clients":["192.0.2.0/24"],"uses":3}"#;
        let text = serde_json::to_string(&TicketDescription::new(&ticket, Some("k"), false));
        assert_eq!(text.unwrap(), expected);
    }
}
