// SPDX-License-Identifier: GPL-2.0-or-later
//! To whom the space of a session is charged: the issuer of the ticket, or the client as the depot's other limits count it.

use protocol::ticket::Verified;
use relay::client_key::host_key;
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use store::AccessKey;

/// The account of a client at this address, or of its ticket. Addresses and names are not kept on disk as they are.
pub(super) fn account(client: IpAddr, ticket: Option<&Verified>) -> AccessKey {
    let mut hasher = Sha256::new();
    hasher.update(b"longhaul store account ");
    match ticket {
        Some(Verified { ticket, key, .. }) => {
            // One key may sign for several issuers, and two keys for one.
            match &ticket.issuer {
                Some(issuer) => hasher.update([b"issuer ", issuer.as_bytes()].concat()),
                None => hasher.update([b"key ", key.as_bytes()].concat()),
            }
        }
        None => hasher.update(format!("client {}", host_key(client))),
    }
    AccessKey(hasher.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_host_have_one_account() {
        let of = |ip: &str| account(ip.parse().unwrap(), None);
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff"));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_ne!(of("2001:db8:0:1::1"), of("2001:db8::1"));
    }
}
