// SPDX-License-Identifier: GPL-2.0-or-later
//! Networks as settings and arguments write them: `10.0.0.0/8`, or one address.

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, de::Error};
use std::net::IpAddr;

/// Reads a network, or one address as the network that holds it alone.
///
/// # Errors
/// The text is neither; the message says what is expected.
pub fn parse_network(text: &str) -> Result<IpNet, String> {
    let net = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    net.map_err(|_| {
        format!("\"{text}\" is not a network: expected one as in 10.0.0.0/8 or 2001:db8::/32, or one address")
    })
}

/// One network.
pub(super) fn one<'de, D: Deserializer<'de>>(from: D) -> Result<IpNet, D::Error> {
    parse_network(&String::deserialize(from)?).map_err(D::Error::custom)
}

/// A list of networks.
pub(super) fn list<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<IpNet>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    texts.iter().map(|text| parse_network(text).map_err(D::Error::custom)).collect()
}
