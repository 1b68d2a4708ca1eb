// SPDX-License-Identifier: GPL-2.0-or-later
//! Error responses of a depot that cannot pass a request on, and their causes.

use super::{Connection, Fields, Method, MethodError, ResponseHead, print::HeadWriter, via};
use crate::depot_id::DepotId;
use http::{HeaderName, HeaderValue, StatusCode, Version, header};
use sfv::{BareItem, Item, List, ListEntry, Parser};
use units::text::Escaped;

/// Field with a proxy's report about a response (RFC 9209).
pub static PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

/// The error types of RFC 9209, section 2.3, that a depot reports in `Proxy-Status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the RFC")]
pub enum ProxyError {
    DnsTimeout,
    DnsError,
    DestinationIpProhibited,
    DestinationIpUnroutable,
    ConnectionRefused,
    ConnectionTerminated,
    ConnectionTimeout,
    ConnectionLimitReached,
    HttpRequestError,
    HttpRequestDenied,
    HttpResponseIncomplete,
    HttpProtocolError,
    HttpResponseTimeout,
    ProxyInternalError,
    ProxyLoopDetected,
    TlsAlertReceived,
    TlsCertificateError,
    TlsProtocolError,
}

impl ProxyError {
    const ALL: [Self; 18] = [
        Self::DnsTimeout,
        Self::DnsError,
        Self::DestinationIpProhibited,
        Self::DestinationIpUnroutable,
        Self::ConnectionRefused,
        Self::ConnectionTerminated,
        Self::ConnectionTimeout,
        Self::ConnectionLimitReached,
        Self::HttpRequestError,
        Self::HttpRequestDenied,
        Self::HttpResponseIncomplete,
        Self::HttpProtocolError,
        Self::HttpResponseTimeout,
        Self::ProxyInternalError,
        Self::ProxyLoopDetected,
        Self::TlsAlertReceived,
        Self::TlsCertificateError,
        Self::TlsProtocolError,
    ];

    /// The error type with this token, of those that depots report.
    pub fn of_token(token: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|error| error.token() == token)
    }

    /// The token of RFC 9209.
    pub const fn token(self) -> &'static str {
        match self {
            Self::DnsTimeout => "dns_timeout",
            Self::DnsError => "dns_error",
            Self::DestinationIpProhibited => "destination_ip_prohibited",
            Self::DestinationIpUnroutable => "destination_ip_unroutable",
            Self::ConnectionRefused => "connection_refused",
            Self::ConnectionTerminated => "connection_terminated",
            Self::ConnectionTimeout => "connection_timeout",
            Self::ConnectionLimitReached => "connection_limit_reached",
            Self::HttpRequestError => "http_request_error",
            Self::HttpRequestDenied => "http_request_denied",
            Self::HttpResponseIncomplete => "http_response_incomplete",
            Self::HttpProtocolError => "http_protocol_error",
            Self::HttpResponseTimeout => "http_response_timeout",
            Self::ProxyInternalError => "proxy_internal_error",
            Self::ProxyLoopDetected => "proxy_loop_detected",
            Self::TlsAlertReceived => "tls_alert_received",
            Self::TlsCertificateError => "tls_certificate_error",
            Self::TlsProtocolError => "tls_protocol_error",
        }
    }
}

/// An answer of the depot's own making.
///
/// The status says whose fault it is: 4xx the client's (or of who built the URL), 502 and 504 the next hop's
/// (504: it was reached, and then did not answer in time), 500 and 503 the depot's own, 508 that of who laid
/// the route in a circle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Fault {
    /// The status of the answer.
    pub status: StatusCode,
    /// The error type in `Proxy-Status`.
    pub error: ProxyError,
    /// Cause and remedy in one line, for the body and the log.
    pub reason: String,
    /// Details only for the operator's log, such as the address of a name.
    pub detail: Option<String>,
    /// Allowed methods, if the method is at fault. Empty: any method.
    allow: Vec<Method>,
}

impl Fault {
    /// A fault; `reason` should name who is at fault and what to do. Hidden characters in it are
    /// printed as escapes: others wrote parts of it, and they are not to write lines of the log.
    pub fn new(status: StatusCode, error: ProxyError, reason: impl AsRef<str>) -> Self {
        let reason = Escaped(reason.as_ref()).to_string();
        Self { status, error, reason, detail: None, allow: Vec::new() }
    }

    /// The depot itself, or its host, is at fault (500).
    pub fn internal(reason: impl AsRef<str>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, ProxyError::ProxyInternalError, reason)
    }

    /// The request breaks the rules of HTTP or of routes (400).
    pub fn bad_request(reason: impl AsRef<str>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, ProxyError::HttpRequestError, reason)
    }

    /// The method is not allowed; the methods in `allow` are (405).
    pub fn method_not_allowed(allow: &[Method], reason: impl AsRef<str>) -> Self {
        let (status, error) = (StatusCode::METHOD_NOT_ALLOWED, ProxyError::HttpRequestDenied);
        Self { allow: allow.to_vec(), ..Self::new(status, error, reason) }
    }

    /// The next hop's answer breaks the rules of HTTP (502).
    pub fn bad_response(reason: impl AsRef<str>) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, ProxyError::HttpProtocolError, reason)
    }

    /// The same with what only the operator may know.
    #[must_use]
    pub fn with_detail(self, detail: Option<impl ToString>) -> Self {
        Self { detail: detail.map(|detail| detail.to_string()), ..self }
    }

    /// All that is known of it, for the log.
    pub fn in_full(&self) -> String {
        match &self.detail {
            Some(detail) => format!("{} ({detail})", self.reason),
            None => self.reason.clone(),
        }
    }

    /// The value of `Proxy-Status` (RFC 9209), in an answer's head or, where a body that is under
    /// way cannot be brought to its end, in its trailers.
    pub fn proxy_status(&self, id: &DepotId) -> HeaderValue {
        let text =
            format!("{id}; error={}; details={}", self.error.token(), sf_string(&self.reason));
        HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
    }

    /// The whole answer: head and, unless the request was HEAD, a short text. The connection can be
    /// kept only where the request has been read to its end.
    pub fn answer(&self, id: &DepotId, with_body: bool, connection: Connection) -> Vec<u8> {
        let text = format!("longhaul depot {id}: {}\n", self.reason);
        let mut head = HeadWriter::start(&["HTTP/1.1 ", &self.status.to_string()]);
        head.field(&header::CONTENT_TYPE, "text/plain; charset=utf-8");
        head.number(&header::CONTENT_LENGTH, text.len() as u64);
        head.field(&header::CACHE_CONTROL, "no-store");
        head.field(&header::REFERRER_POLICY, "no-referrer");
        match self.status {
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
                let some = Some(self.allow.as_slice()).filter(|some| !some.is_empty());
                head.field(&header::ALLOW, Method::list(some.unwrap_or(&Method::ALL)));
            }
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                head.field(&header::RETRY_AFTER, "5");
            }
            StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                head.field(&header::PROXY_AUTHENTICATE, proxy_challenge("longhaul depot"));
            }
            _ => {}
        }
        head.field(&PROXY_STATUS, self.proxy_status(id));
        connection.write_to(&mut head, Version::HTTP_11);
        let mut out = head.end();
        if with_body {
            out.extend_from_slice(text.as_bytes());
        }
        out
    }
}

/// The value of `Proxy-Authenticate` by which a proxy of this name asks for a user and a password.
pub fn proxy_challenge(name: &str) -> String {
    format!("Basic realm=\"{name}\", charset=\"UTF-8\"")
}

impl From<MethodError> for Fault {
    /// Known methods are not allowed (405), unknown ones not implemented (501).
    fn from(error: MethodError) -> Self {
        let status = match error.0.as_str() {
            "TRACE" | "CONNECT" => StatusCode::METHOD_NOT_ALLOWED,
            _ => StatusCode::NOT_IMPLEMENTED,
        };
        Self::new(status, ProxyError::HttpRequestError, error.to_string())
    }
}

/// The error that an upstream hop reports for a body that seems to end well: the first error in the
/// `Proxy-Status` of its trailers (RFC 9209, section 2).
pub fn reported(trailers: &Fields) -> Option<Fault> {
    let reported = ReportedError::first(trailers)?;
    Some(Fault::bad_response(reported.in_words()))
}

/// Why a depot answered by itself in place of passing a response on: the error that it names in
/// `Proxy-Status`. `depots` is how many depots lie between here and the origin.
///
/// An origin may send `Proxy-Status` as well, and depots pass it on. Each depot that passes a response on adds
/// itself to `Via`, and no origin can take an entry out, so a response with fewer entries of depots than there are
/// depots was made by one of them. Where a depot has gone around another one (`[[detour]]`), the
/// response of an origin that names an error of its own looks the same.
pub fn refusal_by_depot(head: &ResponseHead, depots: usize) -> Option<Fault> {
    let is_error = head.status.is_client_error() || head.status.is_server_error();
    if !is_error || via::depots(head.headers.get_all(&header::VIA)) >= depots {
        return None;
    }
    let reported = ReportedError::first(&head.headers)?;
    let error = ProxyError::of_token(&reported.error).unwrap_or(ProxyError::HttpProtocolError);
    Some(Fault::new(head.status, error, reported.in_words()))
}

/// The most characters of another's `details` that are repeated.
const MAX_DETAILS: usize = 512;

/// An error that a proxy reports in `Proxy-Status`.
struct ReportedError {
    proxy: String,
    error: String,
    details: String,
}

impl ReportedError {
    /// The first one, which is that of the proxy nearest to the origin.
    fn first(fields: &Fields) -> Option<Self> {
        let list: List = Parser::new(&fields.joined(&PROXY_STATUS)).parse().ok()?;
        list.iter().find_map(|entry| {
            let ListEntry::Item(Item { bare_item, params }) = entry else { return None };
            let text = |item: &BareItem| match item {
                BareItem::Token(token) => token.as_str().to_owned(),
                BareItem::String(string) => string.as_str().to_owned(),
                _ => String::new(),
            };
            let details = params.get("details").map(text).unwrap_or_default();
            Some(Self {
                proxy: text(bare_item),
                error: text(params.get("error")?),
                details: details.chars().take(MAX_DETAILS).collect(),
            })
        })
    }

    fn in_words(&self) -> String {
        let Self { proxy, error, details } = self;
        format!("{proxy} reports {error}: {details}")
    }
}

/// A string of RFC 8941: quoted, visible ASCII.
fn sf_string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            _ => out.push('?'),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(fields: &str) -> ResponseHead {
        let text = format!("HTTP/1.1 503 Service Unavailable\r\n{fields}Content-Length: 0\r\n\r\n");
        ResponseHead::parse(text.as_bytes()).unwrap().unwrap().0
    }

    #[test]
    fn depot_refusal_and_origin_error_are_distinguished() {
        let status =
            "Proxy-Status: far; error=connection_limit_reached; details=\"it is full\"\r\n";
        let (far, middle) = ("Via: 1.1 far (longhaul)\r\n", "Via: 1.1 middle (longhaul)\r\n");
        for (fields, depots, is_refusal) in [
            (status.to_owned(), 1, true),
            // The depot between here and the one that refused has passed it on.
            (format!("{status}{middle}"), 2, true),
            // All depots have passed it on, so that it is the origin's, whatever that one adds.
            (format!("{status}{far}"), 1, false),
            (format!("{status}{far}{middle}"), 2, false),
            (format!("{status}Via: 1.1 x (longhaul), 1.1 far (longhaul)\r\n"), 1, false),
            // The next hop is the origin.
            (status.to_owned(), 0, false),
            (String::new(), 1, false),
            ("Proxy-Status: cdn; received-status=503\r\n".to_owned(), 1, false),
        ] {
            let fault = refusal_by_depot(&response(&fields), depots);
            assert_eq!(fault.is_some(), is_refusal, "{fields}");
            let Some(fault) = fault else { continue };
            assert_eq!(fault.status, 503);
            assert_eq!(fault.error, ProxyError::ConnectionLimitReached);
            assert_eq!(fault.reason, "far reports connection_limit_reached: it is full");
        }
        let mut served = response(status);
        served.status = StatusCode::OK;
        assert_eq!(refusal_by_depot(&served, 1), None);
    }

    #[test]
    fn upstream_error_details_are_cut_to_a_length() {
        let details = "x".repeat(5000);
        let status = format!("Proxy-Status: far; error=made_up; details=\"{details}\"\r\n");
        let fault = refusal_by_depot(&response(&status), 1).unwrap();
        assert_eq!(fault.error, ProxyError::HttpProtocolError, "no error of depots");
        assert!(fault.reason.len() < 600, "{}", fault.reason.len());
    }

    #[test]
    fn error_response_names_the_cause_and_cannot_be_split() {
        let id = "d1".parse().unwrap();
        let fault = Fault::bad_request("a \"bad\"\r\nSet-Cookie: x\u{e9}");
        let text = String::from_utf8(fault.answer(&id, true, Connection::Close)).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{head}");
        assert!(
            head.contains(
                r#"Proxy-Status: d1; error=http_request_error; details="a \"bad\"\\r\\nSet"#
            ),
            "{head}"
        );
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        assert!(!head.contains("\nSet-Cookie"), "{head}");
        assert_eq!(fault.to_string(), "a \"bad\"\\r\\nSet-Cookie: x\u{e9}");
        let hidden = fault.clone().with_detail(Some("10.0.0.1"));
        assert_eq!(hidden.in_full(), format!("{fault} (10.0.0.1)"));
        assert!(
            !String::from_utf8(hidden.answer(&id, true, Connection::Close))
                .unwrap()
                .contains("10.0.")
        );
        assert!(fault.answer(&id, false, Connection::Keep).ends_with(b"\r\n\r\n"));
    }
}
