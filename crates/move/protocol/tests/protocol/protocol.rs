// SPDX-License-Identifier: GPL-2.0-or-later
//! `docs/protocol.md` shows two whole exchanges and a ticket; they must be what the code does.

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use longhaul_protocol::{
    DepotAddress, Form, OriginUrl, Redirect, Route, Step,
    ticket::{KeySet, Signer, UnixTime},
};
use serde_json::Value;

/// A block of the document, by the words behind its fence.
fn block(kind: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/protocol.md");
    let text = std::fs::read_to_string(path).unwrap();
    let start = text.split(&format!("```{kind}\n")).nth(1).expect(kind);
    start.split("```").next().unwrap().to_owned()
}

/// The exchange that the code makes of a route through these depots.
fn exchange(form: Form) -> String {
    let url: OriginUrl = "http://o.example.org/data/set.tar?v=2".parse().unwrap();
    let depots: Vec<DepotAddress> =
        ["d1.example.com", "d2.example.net", "d3.example.org"].map(|d| d.parse().unwrap()).into();
    let mut lines = Vec::new();
    let mut line = |from: &str, to: &str, target: &str| {
        lines.push(format!("{from:6} -> {to:20} GET {target}"));
    };
    line("client", "o.example.org", url.target());
    let mut to = Redirect::new(&depots, form, url).unwrap();
    let mut redirects = vec![to.to_string()];
    let mut fetch = loop {
        line("client", &to.depot.to_string(), &to.route.to_string());
        match to.route.clone().step() {
            Step::Lead(next) => to = next,
            Step::Fetch(fetch) => break fetch,
        }
        redirects.push(to.to_string());
    };
    let mut from = to.depot.authority;
    loop {
        let name = from.host.to_string();
        line(name.split('.').next().unwrap(), &fetch.next.to_string(), &fetch.target);
        if fetch.origin.is_some() {
            break;
        }
        from = fetch.next.clone();
        let Step::Fetch(next) = fetch.target.parse::<Route>().unwrap().step() else {
            panic!("a fetch is never a redirect");
        };
        fetch = next;
    }
    // Each redirect stands under the request that it answers.
    for (n, location) in redirects.iter().enumerate() {
        lines.insert(2 * n + 1, format!("          302 {location}"));
    }
    lines.iter().map(|line| line.trim_end().to_owned() + "\n").collect()
}

#[test]
fn documented_exchanges_match_the_code() {
    for (form, name) in [(Form::Lead, "lead"), (Form::Fetch, "fetch")] {
        let made = exchange(form);
        assert_eq!(block(&format!("exchange {name}")), made, "the code makes:\n{made}");
    }
}

#[test]
fn documented_ticket_matches_the_code() {
    let claims: Value = serde_json::from_str(&block("json ticket")).unwrap();
    let signer = Signer::from_seed([1; 32]).unwrap();
    let keys = KeySet::parse(&signer.public_set()).unwrap();
    // As another program would sign it: PKCS #8 from the PEM file, any claims.
    let pem: String = signer.to_pem().lines().filter(|line| !line.starts_with('-')).collect();
    let key = EncodingKey::from_ed_der(&STANDARD.decode(pem).unwrap());
    let token = jsonwebtoken::encode(&Header::new(Algorithm::EdDSA), &claims, &key).unwrap();
    let now = UnixTime::try_from(claims["iat"].as_u64().unwrap()).unwrap();
    let verified = keys.verify(&token, now).unwrap();
    // As longhaul prints it.
    let printed = signer.sign(&verified.ticket).unwrap();
    let body = URL_SAFE_NO_PAD.decode(printed.split('.').nth(1).unwrap()).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), claims);
}
