// SPDX-License-Identifier: GPL-2.0-or-later
//! `docs/lsl.md` shows headers byte by byte; they must be what the code reads and prints.

use http::StatusCode;
use longhaul_protocol::{
    DepotAddress,
    session::{
        Answer, Header, Hop, HopReport, JoinToken, Open, Role, SessionId, Target,
        request::{Request, Signed, SigningKey},
    },
};
use units::Rate;

/// The bytes of a block of the document, by the words behind its fence.
pub(super) fn block(kind: &str) -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/lsl.md");
    let text = std::fs::read_to_string(path).unwrap();
    let start = text.split(&format!("```{kind}\n")).nth(1).expect(kind);
    let digits: String = start.split("```").next().unwrap().split_whitespace().collect();
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn session() -> SessionId {
    "000102030405060708090a0b0c0d0e0f".parse().unwrap()
}

#[test]
fn documented_headers_match_the_code() {
    let depot: DepotAddress = "https:d2.example.net:3881".parse().unwrap();
    let hop = Hop {
        pacing: Some(Rate::bits_per_second(500_000_000)),
        congestion: Some("bbr".parse().unwrap()),
        ..Hop::from(depot)
    };
    let server = "[2001:db8::1]:5432".parse().unwrap();
    let tcp = Open {
        passed: vec!["d1".parse().unwrap()],
        ..Open::new(session(), vec![hop], Target::Tcp { server, proxy_protocol: true })
    };
    let meeting = Open::new(session(), Vec::new(), Target::Meeting(Role::Acceptor));
    let store = Open::new(session(), Vec::new(), Target::Store);
    let report = HopReport {
        depot: "d1".parse().unwrap(),
        streams: 1,
        rtt_us: 70_000,
        congestion: Some("bbr".parse().unwrap()),
    };
    let answer = Answer { hops: vec![report], ..Answer::of(StatusCode::OK, "d2".parse().unwrap()) };
    for (kind, header) in [
        ("hex open-tcp", Header::Open(tcp)),
        ("hex open-meeting", Header::Open(meeting)),
        ("hex open-store", Header::Open(store)),
        ("hex answer", Header::Answer(answer)),
        ("hex join", Header::Join(JoinToken(session().0))),
    ] {
        let printed = header.to_bytes().unwrap();
        let hex: Vec<_> = printed.iter().map(|byte| format!("{byte:02x}")).collect();
        let in_document = block(kind);
        assert_eq!(in_document, printed, "{kind}: the code prints {}", hex.concat());
        assert_eq!(Header::parse(&in_document), Ok(Some((header, printed.len()))), "{kind}");
    }
}

/// The document's bytes are from another implementation of Ed25519.
#[test]
fn documented_request_matches_the_code() {
    let signer = SigningKey::from_seed(&std::array::from_fn(|n| n as u8));
    let request = Request::Collect {
        session: "101112131415161718191a1b1c1d1e1f".parse().unwrap(),
        from: 65_536,
    };
    let (note, hello) = (block("hex request"), [0x44; 32]);
    assert_eq!(note, request.note(&signer, session(), &hello));
    let signed = Signed { request, signer: signer.public() };
    assert_eq!(Signed::verify(&note, session(), &hello), Ok(signed));
}
