// SPDX-License-Identifier: GPL-2.0-or-later
//! Tickets: what a signer and the depots do with them, and what opens nothing.

mod keys;
mod replays;
mod route;
mod tokens;

use longhaul_protocol::{
    http::Method,
    ticket::{KeySet, Signer, Ticket, UnixTime},
};

/// The private key of RFC 8037, appendix A.1.
const SEED: [u8; 32] = [
    0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4,
    0x44, 0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60,
];
/// Its public part, appendix A.2.
const X: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
/// Its thumbprint, appendix A.3.
const THUMBPRINT: &str = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k";

const NOW: u64 = 1_800_000_000;

fn at(seconds: u64) -> UnixTime {
    UnixTime::try_from(seconds).unwrap()
}

fn signer() -> Signer {
    Signer::from_seed(SEED).unwrap()
}

fn keys() -> KeySet {
    KeySet::parse(&signer().public_set()).unwrap()
}

/// A ticket that says only what it must.
fn ticket(url: &str) -> Ticket {
    Ticket {
        id: "t1".to_owned(),
        issuer: None,
        issued: None,
        not_before: None,
        expires: at(NOW + 600),
        opens: url.parse().unwrap(),
        via: vec!["d1:3880".parse().unwrap(), "d2:3880".parse().unwrap()],
        methods: vec![Method::Get, Method::Head],
        bytes: None,
        rate: None,
        total_rate: None,
        clients: Vec::new(),
        uses: None,
    }
}
