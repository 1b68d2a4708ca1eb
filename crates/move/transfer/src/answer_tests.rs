// SPDX-License-Identifier: GPL-2.0-or-later

use super::*;

fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    let field = |(name, value): &(&str, &str)| {
        (HeaderName::try_from(*name).unwrap(), value.parse().unwrap())
    };
    lines.iter().map(field).collect()
}

fn answer(lines: &[(&str, &str)]) -> Answer {
    Answer::read(StatusCode::OK, &headers(lines), SystemTime::UNIX_EPOCH).unwrap()
}

#[test]
fn ambiguous_framing_is_refused() {
    let refused = |lines: &[(&str, &str)]| framing(&headers(lines)).is_err();
    assert!(refused(&[("content-length", "1"), ("content-length", "1")]));
    assert!(refused(&[("content-length", "1, 1")]));
    assert!(refused(&[("content-length", "+1")]));
    assert!(refused(&[("content-length", "")]));
    assert!(refused(&[("content-length", "18446744073709551616")]));
    assert!(refused(&[("content-length", "1"), ("transfer-encoding", "chunked")]));
    assert!(refused(&[("transfer-encoding", "gzip, chunked")]));
    assert!(refused(&[("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")]));
    assert_eq!(framing(&headers(&[("content-length", "7")])), Ok(Framing::Length(7)));
    assert_eq!(framing(&headers(&[("transfer-encoding", "Chunked")])), Ok(Framing::Chunked));
    assert_eq!(framing(&headers(&[])), Ok(Framing::UntilClose));
}

#[test]
fn content_range_is_read_strictly() {
    let range = |text: &str| answer(&[("content-range", text)]).range;
    let whole = ContentRange { start: 5, end: 10, total: Some(10) };
    assert_eq!(range("bytes 5-9/10"), RangeField::Bytes(whole));
    assert_eq!(range("bytes 5-9/*"), RangeField::Bytes(ContentRange { total: None, ..whole }));
    for text in
        ["bytes 9-5/10", "bytes 5-10/10", "bytes=5-9/10", "5-9/10", "bytes -5/10", "bytes 5-/10"]
    {
        assert_eq!(range(text), RangeField::Unusable, "{text}");
    }
    assert_eq!(range("bytes */10"), RangeField::Unsatisfied(10));
    let twice = [("content-range", "bytes 5-9/10"), ("content-range", "bytes 5-9/10")];
    assert_eq!(answer(&twice).range, RangeField::Unusable);
    assert_eq!(answer(&[]).range, RangeField::None);
}

#[test]
fn several_ranges_are_recognised_by_their_type() {
    let multipart = |kind: &str| answer(&[("content-type", kind)]).multipart;
    assert!(multipart("multipart/byteranges; boundary=x"));
    assert!(multipart("Multipart/ByteRanges;boundary=x"));
    assert!(!multipart("application/octet-stream"));
    assert!(answer(&[("content-type", "a/b"), ("content-type", "multipart/byteranges")]).multipart);
}

#[test]
fn only_strong_validators_allow_a_resume() {
    let strong = |lines: &[(&str, &str)]| answer(lines).validators.strong().map(str::to_owned);
    let old = ("last-modified", "Tue, 01 Jan 2030 00:00:00 GMT");
    assert_eq!(strong(&[("etag", "\"a\"")]).as_deref(), Some("\"a\""));
    assert_eq!(
        strong(&[("etag", "W/\"a\""), old, ("date", "Wed, 02 Jan 2030 00:00:00 GMT")]),
        None
    );
    assert_eq!(strong(&[("etag", "a")]), None);
    assert_eq!(strong(&[("etag", "\"a\""), ("etag", "\"b\"")]), None);
    assert_eq!(strong(&[old, ("date", "Tue, 01 Jan 2030 00:00:59 GMT")]), None);
    assert_eq!(strong(&[old]), None);
    let settled = strong(&[old, ("date", "Tue, 01 Jan 2030 00:01:00 GMT")]);
    assert_eq!(settled.as_deref(), Some(old.1));
}

#[test]
fn versions_are_the_same_only_by_the_strong_validator() {
    let of = |etag: Option<&str>, date: Option<&str>| Validators {
        etag: etag.map(str::to_owned),
        last_modified: date.map(str::to_owned),
        settled: true,
    };
    assert!(of(Some("\"a\""), None).same_version(&of(Some("\"a\""), Some("later"))));
    assert!(!of(Some("\"a\""), Some("d")).same_version(&of(None, Some("d"))));
    assert!(!of(Some("\"a\""), None).same_version(&of(Some("\"b\""), None)));
    assert!(!of(Some("W/\"a\""), None).same_version(&of(Some("W/\"a\""), None)));
    assert!(of(None, Some("d")).same_version(&of(None, Some("d"))));
    assert!(!of(None, Some("d")).same_version(&of(None, Some("e"))));
    assert!(!of(None, Some("d")).same_version(&of(Some("\"a\""), Some("d"))));
    assert!(!of(None, None).same_version(&of(None, None)));
}

#[test]
fn hops_and_depots_are_read_from_via() {
    let read = answer(&[("via", "1.1 d1 (longhaul), 1.1 d2 (a, (b), c)"), ("via", "1.0 x")]);
    assert_eq!((read.hops, read.may_be_split), (3, false));
    assert_eq!(answer(&[]).hops, 0);
    assert!(answer(&[("via", "1.1 x (squid)")]).may_be_split);
    assert!(!answer(&[("accept-ranges", "none")]).may_be_split);
    assert_eq!(answer(&[("via", " , ,1.1 x")]).hops, 1);
}

#[test]
fn digest_of_a_part_is_not_that_of_the_file() {
    let digest = Digest::new(Algorithm::Sha256, &[7; 32]).unwrap();
    let text = digest.to_value();
    let text = text.to_str().unwrap();
    let both = headers(&[("content-digest", text)]);
    assert_eq!(promised(&both, true), Some(digest.clone()));
    assert_eq!(promised(&both, false), None);
    assert_eq!(promised(&headers(&[("repr-digest", text)]), false), Some(digest));
    assert_eq!(promised(&headers(&[("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg==")]), true), None);
}

#[test]
fn encodings_and_waits_are_read() {
    assert_eq!(answer(&[("content-encoding", "identity")]).encoding, None);
    let two = answer(&[("content-encoding", "GZIP"), ("content-encoding", "br, identity")]);
    assert_eq!(two.encoding.as_deref(), Some("gzip, br"));
    let wait = |text| answer(&[("retry-after", text)]).retry_after;
    assert_eq!(wait("3"), Some(Duration::from_secs(3)));
    assert_eq!(wait("3000"), Some(LONGEST_WAIT));
    assert_eq!(wait("Thu, 01 Jan 1970 00:00:07 GMT"), Some(Duration::from_secs(7)));
    assert_eq!(wait("-3"), None);
}
