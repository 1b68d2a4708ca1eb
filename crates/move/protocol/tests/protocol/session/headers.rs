// SPDX-License-Identifier: GPL-2.0-or-later
//! `docs/lsl.md` shows headers byte by byte; they must be what the code reads and prints.

use http::StatusCode;
use longhaul_protocol::{
    DepotAddress,
    session::{Answer, Header, Hop, HopReport, JoinToken, Open, Role, SessionId, Target},
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
