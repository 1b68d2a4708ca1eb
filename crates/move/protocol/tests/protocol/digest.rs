// SPDX-License-Identifier: GPL-2.0-or-later
//! Digests in fields: which are read, which of them are of a message's own bytes, which is taken.

use http::{HeaderName, HeaderValue};
use longhaul_protocol::{
    digest::{Algorithm, CONTENT_DIGEST, Digest, of_request, of_response, wanted},
    http::{Fields, RequestHead, ResponseHead},
};

/// Of `{"hello": "world"}` and a line feed: RFC 9530, appendix A and B.1.
const SHA256: &str = "RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=";
/// RFC 9530, appendix B.1, of the same in `sha-512`.
const SHA512: &str =
    "YMAam51Jz/jOATT6/zvHrLVgOYTGFy1d6GJiOHTohq4yP+pgk4vf2aCsyRZOtw8MjkM7iw7yZ/WkppmM44T3qg==";
/// RFC 1864's example.
const MD5: &str = "Q2hlY2sgSW50ZWdyaXR5IQ==";

fn request(line: &str) -> RequestHead {
    let text = format!("{line} HTTP/1.1\r\nHost: d\r\n\r\n");
    RequestHead::parse(text.as_bytes()).unwrap().unwrap().0
}

fn response(status: u16, fields: &str) -> ResponseHead {
    let fields = if fields.is_empty() { String::new() } else { format!("{fields}\r\n") };
    let text = format!("HTTP/1.1 {status} X\r\n{fields}\r\n");
    ResponseHead::parse(text.as_bytes()).unwrap().unwrap().0
}

/// The digest of an answer to GET.
fn of(status: u16, fields: &str) -> Option<Algorithm> {
    let head = response(status, fields);
    of_response(&head, &request("GET /x"), &head.headers).map(|digest| digest.algorithm())
}

#[test]
fn strongest_digest_of_the_transferred_bytes_is_used() {
    let (sha256, sha512) = (Some(Algorithm::Sha256), Some(Algorithm::Sha512));
    let md5 = Some(Algorithm::Md5);
    for (status, fields, expected) in [
        (200, String::new(), None),
        (200, format!("Content-Digest: sha-256=:{SHA256}:"), sha256),
        (206, format!("Content-Digest: sha-256=:{SHA256}:"), sha256),
        (200, format!("Repr-Digest: sha-256=:{SHA256}:, sha-512=:{SHA512}:"), sha512),
        (
            200,
            format!("Repr-Digest: sha-256=:{SHA256}:\r\nRepr-Digest: sha-512=:{SHA512}:"),
            sha512,
        ),
        (200, format!("Repr-Digest: unixsum=:MQ==:, sha-256=:{SHA256}:;p=1"), sha256),
        // A part is not the whole, nor is a page that says why not.
        (206, format!("Repr-Digest: sha-256=:{SHA256}:"), None),
        (404, format!("Repr-Digest: sha-256=:{SHA256}:"), None),
        (206, format!("Repr-Digest: sha-512=:{SHA512}:\r\nContent-Digest: md5=:{MD5}:"), md5),
        (204, format!("Content-Digest: sha-256=:{SHA256}:"), None),
        (304, format!("Content-Digest: sha-256=:{SHA256}:"), None),
        // Before RFC 9530.
        (200, format!("Digest: SHA-256={SHA256}, unixsum=30637"), sha256),
        (200, format!("Digest: md5={MD5},\tsha-512={SHA512}"), sha512),
        (206, format!("Digest: sha-256={SHA256}"), None),
        (200, format!("Content-MD5: {MD5}"), md5),
        (206, format!("Content-MD5: {MD5}"), None),
        (200, format!("Content-MD5: {MD5}\r\nRepr-Digest: sha-256=:{SHA256}:"), sha256),
        (200, format!("Transfer-Encoding: chunked\r\nContent-Digest: sha-256=:{SHA256}:"), sha256),
        // No digests.
        (200, format!("Content-Digest: sha-256={SHA256}"), None),
        (200, format!("Content-Digest: sha-256=\"{SHA256}\""), None),
        (200, format!("Content-Digest: SHA-256=:{SHA256}:"), None),
        (200, format!("Content-Digest: sha-256=:{MD5}:"), None),
        (200, format!("Content-Digest: sha-256=(:{SHA256}:)"), None),
        (200, format!("Content-Digest: sha-256=:{SHA256}:, sha-512=:x"), None),
        (200, "Digest: sha-256=*".to_owned(), None),
        (200, "Content-MD5: x".to_owned(), None),
    ] {
        assert_eq!(of(status, &fields), expected, "{status} {fields}");
    }
    let head = response(200, &format!("Content-Digest: sha-256=:{SHA256}:"));
    assert_eq!(of_response(&head, &request("HEAD /x"), &head.headers), None);
    let repr = response(200, &format!("Repr-Digest: sha-256=:{SHA256}:"));
    let post = request("POST /x");
    assert_eq!(of_response(&repr, &post, &repr.headers), None, "of the resource, not the answer");
}

#[test]
fn trailers_are_read_as_heads_are() {
    let mut trailers = Fields::new();
    let value = HeaderValue::try_from(format!("sha-256=:{SHA256}:")).unwrap();
    trailers.append(CONTENT_DIGEST.clone(), value.clone());
    let digest = of_response(&response(200, ""), &request("GET /x"), &trailers).unwrap();
    assert_eq!(digest.to_value(), value, "printed as it was read");
    assert_eq!(
        digest.to_string(),
        "sha-256:44aff4ab2d7c3250525675a08f0cfa9591168cffe51791c5f5bbc417c15a6c38"
    );
    assert_eq!(Digest::new(Algorithm::Sha256, digest.bytes()), Some(digest));
    assert_eq!(Digest::new(Algorithm::Sha256, &[0; 31]), None);
}

#[test]
fn partial_upload_has_no_digest_of_the_whole() {
    let request = |line: &str, field: &str| {
        let text = format!("{line} /x HTTP/1.1\r\nHost: d\r\nContent-Length: 5\r\n{field}\r\n");
        RequestHead::parse(text.as_bytes()).unwrap().unwrap().0
    };
    let fields = |name: &str| {
        let value = HeaderValue::try_from(format!("sha-256=:{SHA256}:")).unwrap();
        Fields::from_iter([(name.parse::<HeaderName>().unwrap(), value)])
    };
    let (content, repr) = (fields("content-digest"), fields("repr-digest"));
    assert!(of_request(&request("PUT", ""), &repr).is_some());
    assert!(of_request(&request("POST", ""), &repr).is_none());
    assert!(of_request(&request("POST", ""), &content).is_some());
    let part = request("PUT", "Content-Range: bytes 0-4/10\r\n");
    assert!(of_request(&part, &repr).is_none());
    assert!(of_request(&part, &content).is_some());
}

#[test]
fn preferred_digest_algorithm_is_selected() {
    for (value, expected) in [
        ("sha-256=1", Some(Algorithm::Sha256)),
        ("sha-512=3, sha-256=10, unixsum=9", Some(Algorithm::Sha256)),
        ("sha-512=3, sha-256=3, md5=3", Some(Algorithm::Sha512)),
        ("sha-512=0, md5=1", Some(Algorithm::Md5)),
        ("sha-256=0", None),
        ("sha-256=11", None),
        ("sha-256=-1", None),
        ("sha-256", None),
        ("sha-256=1.0", None),
        ("unixsum=3", None),
        ("sha-256=1,,", None),
        ("", None),
    ] {
        let name = "want-repr-digest".parse::<HeaderName>().unwrap();
        let headers = Fields::from_iter([(name, HeaderValue::from_static(value))]);
        assert_eq!(wanted(&headers), expected, "{value}");
    }
}
