// SPDX-License-Identifier: GPL-2.0-or-later
//! Ed25519 keys as files hold them: PEM (RFC 7468) of PKCS #8 and of public keys (RFC 8410),
//! as `openssl genpkey -algorithm ed25519` and `openssl pkey -pubout` write them.

use base64::{Engine, engine::general_purpose::STANDARD};

/// DER prefix of the 32 bytes of a private key: version 1, the algorithm 1.3.101.112, and an
/// octet string within an octet string.
const PRIVATE: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
/// DER prefix of the 32 bytes of a public key: the algorithm and a bit string.
const PUBLIC: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The private key as PKCS #8.
pub(super) fn private_der(seed: &[u8; 32]) -> Vec<u8> {
    [PRIVATE.as_slice(), seed].concat()
}

/// The private key in a PEM text. The newer form of PKCS #8 (RFC 5958), in which the public key
/// follows, is read too.
pub(super) fn read_private(text: &str) -> Option<[u8; 32]> {
    let der = block(text, "PRIVATE KEY")?;
    let (head, rest) = der.split_at_checked(PRIVATE.len())?;
    let length_fits = head[0] == PRIVATE[0] && usize::from(head[1]) == der.len() - 2;
    // The last of the version's bytes tells the forms apart.
    let known = length_fits && head[2..4] == PRIVATE[2..4] && head[4] <= 1;
    let seed = rest.first_chunk().filter(|_| known && head[5..] == PRIVATE[5..])?;
    (head[4] == 1 || rest.len() == seed.len()).then_some(*seed)
}

/// The public key in a PEM text.
pub(super) fn read_public(text: &str) -> Option<[u8; 32]> {
    block(text, "PUBLIC KEY")?.strip_prefix(&PUBLIC)?.try_into().ok()
}

/// Prints a private key.
pub(super) fn print_private(seed: &[u8; 32]) -> String {
    print("PRIVATE KEY", &private_der(seed))
}

/// Prints a public key.
pub(super) fn print_public(key: &[u8; 32]) -> String {
    print("PUBLIC KEY", &[PUBLIC.as_slice(), key].concat())
}

fn print(label: &str, der: &[u8]) -> String {
    // Both kinds fit on one line of the 64 characters that RFC 7468 allows.
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}

/// The bytes of the only block, which has this label.
fn block(text: &str, label: &str) -> Option<Vec<u8>> {
    let (_, rest) = text.split_once(&format!("-----BEGIN {label}-----"))?;
    let (inner, after) = rest.split_once(&format!("-----END {label}-----"))?;
    if after.contains("-----BEGIN") {
        return None;
    }
    let base64: String = inner.split_ascii_whitespace().collect();
    STANDARD.decode(base64).ok()
}
