// SPDX-License-Identifier: GPL-2.0-or-later
//! Tokens: what is signed comes back, and what is altered does not.

use super::{NOW, SEED, THUMBPRINT, X, at, keys, signer, ticket};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use longhaul_protocol::{
    http::{Fault, Method},
    ticket::{KeySet, MAX_ID_LEN, Signer, Ticket, TicketError, UnixTime, Unverified, ticket_id},
};
use serde_json::{Value, json};
use units::{Bytes, Rate};

fn base64(text: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(text)
}

/// PKCS #8 of the key, put together here once more.
fn key() -> EncodingKey {
    let mut der = vec![0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
    der.extend(SEED);
    EncodingKey::from_ed_der(&der)
}

/// Any claims, signed as a ticket is, by another program as it were.
fn signed(claims: &Value) -> String {
    let header = Header { kid: Some(THUMBPRINT.to_owned()), ..Header::new(Algorithm::EdDSA) };
    jsonwebtoken::encode(&header, claims, &key()).unwrap()
}

/// The same with any header.
fn signed_with(header: &Value, claims: &Value) -> String {
    let text = format!("{}.{}", base64(header.to_string()), base64(claims.to_string()));
    let signature = jsonwebtoken::crypto::sign(text.as_bytes(), &key(), Algorithm::EdDSA).unwrap();
    format!("{text}.{signature}")
}

fn claims() -> Value {
    json!({ "exp": NOW + 600, "jti": "t1", "lh": { "url": "http://o/f", "via": ["d1:3880", "d2:3880"] } })
}

fn refusal(token: &str) -> TicketError {
    keys().verify(token, at(NOW)).expect_err(token)
}

#[test]
fn signed_ticket_verifies_unchanged() {
    let full = Ticket {
        id: ticket_id([0xa5; 16]),
        issuer: Some("https://portal.example".to_owned()),
        issued: Some(at(NOW - 5)),
        not_before: Some(at(NOW)),
        methods: vec![Method::Put, Method::Options],
        bytes: Some(Bytes::new(1 << 40)),
        rate: Some(Rate::bits_per_second(10_000_000_000)),
        clients: vec!["10.0.0.0/8".parse().unwrap(), "2001:db8::/32".parse().unwrap()],
        uses: 3.try_into().ok(),
        ..ticket("https://o.example:8443/dir/")
    };
    assert_eq!(full.id, "a5".repeat(16));
    for ticket in [full, ticket("http://o/f?q=1")] {
        let token = signer().sign(&ticket).unwrap();
        let verified = keys().verify(&token, at(NOW)).unwrap();
        assert_eq!((verified.ticket, verified.key.as_str()), (ticket, THUMBPRINT));
    }
}

#[test]
fn claims_by_other_programs_are_understood() {
    let mut claims = claims();
    claims["sub"] = json!("ignored");
    claims["lh"]["clients"] = json!(["10.1.2.3/8", "192.0.2.1"]);
    let verified = keys().verify(&signed(&claims), at(NOW)).unwrap();
    let expected = Ticket { clients: verified.ticket.clients.clone(), ..ticket("http://o/f") };
    assert_eq!(verified.ticket, expected, "GET and HEAD where no method is named");
    let nets: Vec<String> = verified.ticket.clients.iter().map(ToString::to_string).collect();
    assert_eq!(nets, ["10.0.0.0/8", "192.0.2.1/32"]);
}

#[test]
fn no_bit_of_a_token_can_be_changed() {
    let token = signer().sign(&ticket("http://o/f")).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for place in 0..token.len() {
        for bit in 0..7 {
            let mut bytes = token.clone().into_bytes();
            bytes[place] ^= 1 << bit;
            let altered = String::from_utf8(bytes).unwrap();
            let error = refusal(&altered).to_string();
            seen.insert(error.split(['"', ':']).next().unwrap_or_default().to_owned());
        }
    }
    assert!(seen.contains("the ticket's signature is not of the key "), "{seen:?}");
}

#[test]
fn a_token_does_not_choose_how_it_is_checked() {
    let body = base64(claims().to_string());
    let bare = |header: Value, signature: &str| {
        format!("{}.{body}.{signature}", base64(header.to_string()))
    };
    let named = |alg: &str| json!({ "alg": alg, "kid": THUMBPRINT });
    for alg in ["none", "None", "", "HS256", "RS256", "ES256", "Ed25519", "eddsa"] {
        let error = refusal(&bare(named(alg), "AAAA"));
        assert_eq!(error, TicketError::Algorithm(alg.to_owned()));
    }
    // The public key, in every form it is known, as the secret of an HMAC.
    let raw = URL_SAFE_NO_PAD.decode(X).unwrap();
    let (pem, set) = (signer().public_pem(), signer().public_set());
    for secret in [raw.as_slice(), X.as_bytes(), pem.as_bytes(), set.as_bytes()] {
        let header = Header { kid: Some(THUMBPRINT.to_owned()), ..Header::new(Algorithm::HS256) };
        let token =
            jsonwebtoken::encode(&header, &claims(), &EncodingKey::from_secret(secret)).unwrap();
        assert_eq!(refusal(&token), TicketError::Algorithm("HS256".to_owned()));
    }
    assert_eq!(refusal(&bare(named("EdDSA"), "")), TicketError::Altered(THUMBPRINT.to_owned()));
}

/// A key, or a place to get one from, in a header that a trusted key has signed: another checker might use it.
#[test]
fn header_that_brings_keys_or_extends_is_refused() {
    let key = json!({ "kty": "OKP", "crv": "Ed25519", "x": X });
    for (name, value) in [
        ("jwk", key.clone()),
        ("jwk", Value::Null),
        ("JWK", key.clone()),
        ("jku", json!("https://a.example/keys")),
        ("jwks", json!({ "keys": [key] })),
        ("jwks_uri", json!("https://a.example/keys")),
        ("x5c", json!(["MIIB"])),
        ("x5u", json!("https://a.example/chain")),
        ("x5t", json!("AAAA")),
        ("x5t#S256", json!("AAAA")),
        ("epk", key.clone()),
        ("trust_chain", json!(["AAAA"])),
        ("crit", json!([])),
        ("crit", json!(["exp"])),
        ("b64", json!(false)),
        ("enc", json!("A256GCM")),
        ("zip", json!("DEF")),
        ("cty", json!("JWT")),
    ] {
        let header = json!({ "alg": "EdDSA", "kid": THUMBPRINT, name: value });
        let error = refusal(&signed_with(&header, &claims()));
        assert!(
            matches!(&error, TicketError::Malformed(why) if why.contains(&format!("{name:?}"))),
            "{header}: {error}"
        );
    }
    for twice in [
        r#"{"alg":"EdDSA","kid":"mine","kid":"other"}"#,
        r#"{"alg":"none","alg":"EdDSA"}"#,
        r#"{"alg":"EdDSA","x":1,"x":2}"#,
        r#"["EdDSA"]"#,
        r#"{"kid":"mine"}"#,
        r#"{"alg":["EdDSA"]}"#,
        r#"{"alg":"EdDSA","kid":1}"#,
    ] {
        let error = refusal(&format!("{}.{}.AAAA", base64(twice), base64(claims().to_string())));
        assert!(matches!(&error, TicketError::Malformed(_)), "{twice}: {error}");
    }
    // What means nothing to a depot does no harm (RFC 7515, section 4).
    let harmless = json!({ "alg": "EdDSA", "kid": THUMBPRINT, "typ": "JWT", "made_by": "portal" });
    assert!(keys().verify(&signed_with(&harmless, &claims()), at(NOW)).is_ok());
}

#[test]
fn malformed_token_is_refused() {
    let token = signed(&claims());
    let parts: Vec<&str> = token.split('.').collect();
    for text in [
        String::new(),
        "..".to_owned(),
        "x".to_owned(),
        parts[..2].join("."),
        format!("{token}."),
        format!("{token}.x"),
        format!(".{token}"),
        format!("{token}="),
        token.replace('.', ".\n"),
        format!("{}.{}.{}", base64("[]"), parts[1], parts[2]),
    ] {
        assert!(
            matches!(refusal(&text), TicketError::Malformed(_)),
            "{text}: {:?}",
            refusal(&text)
        );
    }
}

#[test]
fn the_key_is_found_by_its_name() {
    let other = Signer::from_seed([7; 32]).unwrap();
    let token = other.sign(&ticket("http://o/f")).unwrap();
    assert_eq!(refusal(&token), TicketError::UnknownKey(other.kid().to_owned()));
    let jwk = |kid: &str, x: &str| format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{x}"{kid}}}"#);
    // A key of another name, a token without one: no guessing among several.
    let nameless = jsonwebtoken::encode(&Header::new(Algorithm::EdDSA), &claims(), &key()).unwrap();
    assert!(keys().verify(&nameless, at(NOW)).is_ok(), "there is only one");
    let two = format!(r#"{{"keys":[{},{}]}}"#, jwk("", X), jwk(r#","kid":"x""#, X));
    let two = KeySet::parse(&two).unwrap();
    assert_eq!(two.verify(&nameless, at(NOW)), Err(TicketError::NoKeyNamed));
    assert!(two.verify(&signed(&claims()), at(NOW)).is_ok());
    let none = KeySet::default();
    assert_eq!(none.verify(&nameless, at(NOW)), Err(TicketError::NoKeyNamed));
    // The right name, another key.
    let other_x = other.public_set();
    let other_x = other_x.split("\"x\": \"").nth(1).unwrap().split('"').next().unwrap();
    let wrong = KeySet::parse(&jwk(&format!(r#","kid":"{THUMBPRINT}""#), other_x)).unwrap();
    let error = wrong.verify(&signed(&claims()), at(NOW)).unwrap_err();
    assert_eq!(error, TicketError::Altered(THUMBPRINT.to_owned()));
}

#[test]
fn ticket_is_valid_in_its_time_plus_leeway() {
    let timed = Ticket { not_before: Some(at(NOW)), ..ticket("http://o/f") };
    let token = signer().sign(&timed).unwrap();
    for (now, reason) in [
        (
            NOW - 31,
            "is valid from 2027-01-15T08:00:00Z: it is 2027-01-15T07:59:29Z, and the leeway is 30 s",
        ),
        (NOW - 30, ""),
        (NOW, ""),
        (NOW + 630, ""),
        (
            NOW + 631,
            "has expired at 2027-01-15T08:10:00Z: it is 2027-01-15T08:10:31Z, and the leeway is 30 s",
        ),
    ] {
        match keys().verify(&token, at(now)) {
            Ok(_) => assert_eq!(reason, "", "{now}"),
            Err(error) => {
                assert!(!reason.is_empty() && error.to_string().contains(reason), "{now}: {error}");
                assert_eq!(Fault::from(error).status, 403);
            }
        }
        assert!(keys().verify_signature(&token).is_ok(), "to be shown at any time");
    }
}

#[test]
fn signed_nonsense_is_refused_with_a_reason() {
    let long = "x".repeat(MAX_ID_LEN + 1);
    for (path, value, reason) in [
        ("/exp", json!(null), "exp"),
        ("/exp", json!("tomorrow"), "expected u64"),
        ("/exp", json!(-1), "expected u64"),
        ("/exp", json!(253_402_300_800_u64), "before the year 10000"),
        ("/exp", json!(u64::MAX), "before the year 10000"),
        ("/nbf", json!(NOW + 601), "expires before"),
        ("/aud", json!("someone"), "audience"),
        ("/iss", json!("a\nb"), "issuer"),
        ("/jti", json!(""), "jti"),
        ("/jti", json!("a b"), "jti"),
        ("/jti", json!(long), "jti"),
        ("/lh/url", json!("ftp://o/"), "its url"),
        ("/lh/url", json!("http://o/a/../b"), "its url"),
        ("/lh/via", json!([]), "no depot"),
        ("/lh/via", json!(["d1:0"]), "its depots"),
        ("/lh/via", json!(["d1:1", "D1:1"]), "twice"),
        ("/lh/via", json!(vec!["d:1"; 17]), "at most 16"),
        ("/lh/methods", json!([]), "no method"),
        ("/lh/methods", json!(["CONNECT"]), "its methods"),
        ("/lh/methods", json!(["get"]), "its methods"),
        ("/lh/bytes", json!(0), "nonzero"),
        ("/lh/rate_bps", json!(0), "nonzero"),
        ("/lh/uses", json!(0), "nonzero"),
        ("/lh/clients", json!([]), "no client"),
        ("/lh/clients", json!(["10.0.0.0/33"]), "its clients"),
        // A restriction from the future must not be overlooked.
        ("/lh/hours", json!("9-17"), "unknown field"),
    ] {
        let mut claims = claims();
        let (parent, name) = path.rsplit_once('/').unwrap();
        claims.pointer_mut(parent).unwrap()[name] = value;
        let error = refusal(&signed(&claims));
        assert!(error.to_string().contains(reason), "{path}: {error}");
        assert!(matches!(error, TicketError::Claims { .. }), "{path}: {error:?}");
        assert!(!error.to_string().contains(char::is_control), "{path}: {error}");
    }
    let nothing = Ticket { via: Vec::new(), ..ticket("http://o/f") };
    assert!(signer().sign(&nothing).is_err(), "a signer does not make what depots refuse");
}

#[test]
fn a_ticket_can_be_read_without_its_key() {
    let ticket = ticket("http://o/dir/");
    let token = signer().sign(&ticket).unwrap();
    let (claims, _) = token.rsplit_once('.').unwrap();
    let forged = format!("{claims}.{}", "A".repeat(86));
    for token in [&token, &forged] {
        let read = Unverified::read(token).unwrap();
        assert_eq!((&read.ticket, read.key.as_deref()), (&ticket, Some(THUMBPRINT)));
    }
    for token in ["", "a.b.c", "eyJhbGciOiJub25lIn0.e30.", "eyJhbGciOiJFZERTQSJ9.e30.x"] {
        assert!(Unverified::read(token).is_err(), "{token}");
    }
}

#[test]
fn times_are_read_as_they_are_printed() {
    for (text, printed) in [
        ("2030-01-31T12:00:00Z", "2030-01-31T12:00:00Z"),
        ("2030-01-31T12:00:00.999Z", "2030-01-31T12:00:00Z"),
        ("0", "1970-01-01T00:00:00Z"),
        ("253402300799", "9999-12-31T23:59:59Z"),
    ] {
        assert_eq!(text.parse::<UnixTime>().unwrap().to_string(), printed);
    }
    for text in ["", "now", "-1", "1.5", "253402300800", "2030-01-31", "99999999999999999999"] {
        let error = text.parse::<UnixTime>().expect_err(text).to_string();
        assert!(error.contains("RFC 3339"), "{error}");
    }
}
