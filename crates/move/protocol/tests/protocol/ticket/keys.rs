// SPDX-License-Identifier: GPL-2.0-or-later
//! Keys in files.

use super::{SEED, THUMBPRINT, X, signer};
use base64::Engine;
use longhaul_protocol::ticket::{KeyError, KeySet, Signer};

/// What `openssl genpkey -algorithm ed25519` and `openssl pkey -pubout` wrote (OpenSSL 3.0).
const OPENSSL_PRIVATE: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIDSYOBKEfAFmC0jfaH1FKFccdUWb7HYxMeRtsshNq2/a
-----END PRIVATE KEY-----
";
const OPENSSL_PUBLIC: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAIjoGSzhIYimtCOPZqqH9Z4uw1LXvxjzejM4zN/oB1y0=
-----END PUBLIC KEY-----
";

fn jwk(fields: &str) -> String {
    format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{X}"{fields}}}"#)
}

fn set(keys: &[String]) -> String {
    format!(r#"{{"keys":[{}]}}"#, keys.join(","))
}

fn kids(text: &str) -> Vec<String> {
    KeySet::parse(text).unwrap().kids().map(str::to_owned).collect()
}

#[test]
fn key_and_thumbprint_match_the_rfc_example() {
    assert_eq!(signer().kid(), THUMBPRINT);
    assert!(signer().public_set().contains(X));
    assert_eq!(kids(&signer().public_set()), [THUMBPRINT]);
    assert_eq!(kids(&signer().public_pem()), [THUMBPRINT]);
    assert_eq!(kids(&jwk("")), [THUMBPRINT]);
}

#[test]
fn keys_are_read_and_written_as_openssl_does() {
    let signer = Signer::from_pem(OPENSSL_PRIVATE).unwrap();
    assert_eq!(signer.to_pem(), OPENSSL_PRIVATE);
    assert_eq!(signer.public_pem(), OPENSSL_PUBLIC);
    assert_eq!(KeySet::parse(OPENSSL_PUBLIC), KeySet::parse(&signer.public_set()));
}

#[test]
fn a_private_key_is_not_printed_by_mistake() {
    assert_eq!(format!("{:?}", signer()), format!("Signer {{ kid: {THUMBPRINT:?}, .. }}"));
}

/// PKCS #8 of this version, with something behind the key, its length wrong by `more`.
fn der(version: u8, behind: &[u8], more: u8) -> String {
    let head = [2, 1, version, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
    let inner = [head.as_slice(), &SEED, behind].concat();
    let der = [&[0x30, inner.len() as u8 + more], inner.as_slice()].concat();
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n")
}

#[test]
fn the_newer_form_of_private_keys_is_read_too() {
    // RFC 5958: the public key may follow.
    let behind = [&[0x81, 0x21, 0], [7; 32].as_slice()].concat();
    for text in [der(0, &[], 0), der(1, &[], 0), der(1, &behind, 0)] {
        assert_eq!(Signer::from_pem(&text).unwrap().kid(), THUMBPRINT);
    }
}

#[test]
fn malformed_private_key_is_refused() {
    let pem = signer().to_pem();
    assert_eq!(Signer::from_pem(&pem).unwrap().kid(), THUMBPRINT);
    for bad in [
        der(0, &[0x81, 0x21, 0], 0),
        der(2, &[], 0),
        der(1, &[0x81, 0x21, 0], 1),
        String::new(),
        pem.replace("PRIVATE", "PUBLIC"),
        pem.replace("-----END PRIVATE KEY-----", ""),
        pem.replace("MC4C", "MC8C"),
        pem.replace('\n', "\n!"),
        format!("{pem}{pem}"),
        signer().public_pem(),
    ] {
        assert_eq!(Signer::from_pem(&bad).unwrap_err(), KeyError::Private, "{bad}");
    }
}

#[test]
fn key_set_may_contain_keys_of_other_kinds() {
    let rsa = r#"{"kty":"RSA","n":"AQAB","e":"AQAB","kid":"r"}"#.to_owned();
    let text = set(&[
        jwk(r#","kid":"b""#),
        rsa.clone(),
        jwk(r#","kid":"a","use":"sig","alg":"EdDSA""#),
        jwk(r#","kid":"c","alg":"Ed25519""#),
        jwk(r#","kid":"for another use","use":"enc""#),
        jwk(r#","kid":"for another algorithm","alg":"HS256""#),
        jwk(""),
    ]);
    assert_eq!(kids(&text), ["a", "b", "c", THUMBPRINT]);
    assert_eq!(KeySet::parse(&set(&[rsa])).unwrap_err(), KeyError::None(1));
    // An empty set means that no signer is trusted.
    assert_eq!(KeySet::parse(&set(&[])), Ok(KeySet::default()));
}

#[test]
fn key_set_without_public_keys_is_refused_with_reason() {
    let short = r#"{"kty":"OKP","crv":"Ed25519","x":"AQAB","kid":"s"}"#.to_owned();
    let padded =
        r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo="}"#;
    for (text, reason) in [
        (signer().to_pem(), "private key"),
        (set(&[jwk(r#","d":"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A""#)]), "private key"),
        (set(&[r#"{"kty":"oct","k":"AQAB"}"#.to_owned()]), "private key"),
        (set(&[jwk(r#","kid":"a""#), jwk(r#","kid":"a""#)]), "the key a: its kid occurs twice"),
        (set(&[short]), "the key s: its x is not 32 bytes"),
        (padded.to_owned(), "the key number 1: its x"),
        (signer().public_pem().replace("MCow", "MCox"), "holds no Ed25519 key"),
        (r#"{"keys":{}}"#.to_owned(), "is not a list"),
        ("{}".to_owned(), "no key for tickets"),
        ("[]".to_owned(), "no key for tickets"),
        (String::new(), "no public key"),
        ("ssh-ed25519 AAAA".to_owned(), "no public key"),
    ] {
        let error = KeySet::parse(&text).expect_err(&text).to_string();
        assert!(error.contains(reason), "{text}: {error}");
    }
}

#[test]
fn adding_a_key_keeps_the_others_unchanged() {
    let new = Signer::from_seed([7; 32]).unwrap();
    let other = Signer::from_pem(OPENSSL_PRIVATE).unwrap();
    let rsa = r#"{"kty":"RSA","n":"AQAB","e":"AQAB","kid":"of-another-signer"}"#.to_owned();
    for (others, count) in [
        (other.public_set(), 2),
        (set(&[rsa.clone(), jwk(r#","kid":"a""#)]), 2),
        (set(&[rsa]), 1),
        (set(&[]), 1),
        (jwk(""), 2),
    ] {
        let joined = new.public_set_with(&others).unwrap();
        assert!(kids(&joined).contains(&new.kid().to_owned()), "{joined}");
        assert_eq!(kids(&joined).len(), count, "{joined}");
        assert_eq!(joined.contains("of-another-signer"), others.contains("of-another-signer"));
    }
    let twice = signer().public_set_with(&signer().public_set()).unwrap_err();
    assert!(matches!(twice, KeyError::Key { .. }), "{twice}");
    assert_eq!(new.public_set_with(&jwk(r#","d":"AAAA""#)).unwrap_err(), KeyError::Secret);
    for text in ["", "{\"keys\":7}", OPENSSL_PUBLIC] {
        assert!(new.public_set_with(text).is_err(), "{text}");
    }
}
