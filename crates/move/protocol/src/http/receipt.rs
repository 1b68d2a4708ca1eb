// SPDX-License-Identifier: GPL-2.0-or-later
//! Request of a client or depot for a receipt: what limited its transfer at this depot and at those behind it.
//!
//! ```text
//! GET ...                             Longhaul-Receipt: <32 hexadecimal digits>     the client's choice, by chance
//! 200, as always                      Longhaul-Receipt: kept
//! GET /lh1/receipt/<the same>         then or soon afterwards: the receipts, as JSON
//! ```
//! The token goes to depots only. It is all that the second request needs, so it is as secret as what it opens: times and
//! round trips, and no addresses. A session's receipt is asked for by the session's name.

use super::{Fields, Method, RequestHead, stripes::Token};
use http::{HeaderName, HeaderValue};

/// In a request: the token. In a response: that there will be a receipt.
pub static RECEIPT: HeaderName = HeaderName::from_static("longhaul-receipt");
/// Path of the request for it, without the token.
pub const RECEIPTS: &str = "/lh1/receipt/";
/// The maximum length of the answer's body, in bytes: of the most depots with the most rows.
pub const MAX_RECEIPT_BODY: usize = 2 << 20;
const KEPT: &str = "kept";

/// The token of a request that wants a receipt of its transfer. `None` for invalid ones, too: the transfer goes on without.
pub fn wanted(request: &RequestHead) -> Option<Token> {
    let mut values = request.headers.get_all(&RECEIPT);
    let value = values.next()?;
    value.to_str().ok()?.parse().ok().filter(|_| values.next().is_none())
}

/// The field that wants one.
pub fn want(token: Token) -> (HeaderName, HeaderValue) {
    let value = HeaderValue::from_str(&token.to_string());
    (RECEIPT.clone(), value.expect("hexadecimal digits"))
}

/// The field that promises one.
pub fn promise() -> (HeaderName, HeaderValue) {
    (RECEIPT.clone(), HeaderValue::from_static(KEPT))
}

/// Whether a response promises one.
pub fn is_promised(headers: &Fields) -> bool {
    headers.get(&RECEIPT).is_some_and(|value| value.as_bytes() == KEPT.as_bytes())
}

/// The token of a request that asks for a receipt: the inner `None` is a path without one.
pub fn asked(request: &RequestHead) -> Option<Option<Token>> {
    let token = request.target.strip_prefix(RECEIPTS)?;
    matches!(request.method, Method::Get | Method::Head).then(|| token.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(line: &str, fields: &str) -> RequestHead {
        let text = format!("{line} HTTP/1.1\r\nHost: d\r\n{fields}\r\n");
        RequestHead::parse(text.as_bytes()).unwrap().unwrap().0
    }

    #[test]
    fn token_is_read_in_one_form_only() {
        let token = Token([0xab; 16]);
        let (name, value) = want(token);
        let digits = value.to_str().unwrap().to_owned();
        let field = |value: &str| wanted(&head("GET /", &format!("{name}: {value}\r\n")));
        assert_eq!(field(&digits), Some(token));
        let twice = format!("{digits}\r\n{name}: {digits}");
        for bad in ["", "kept", &digits[1..], &digits.to_uppercase(), &twice] {
            assert_eq!(field(bad), None, "{bad}");
        }
        let path = |target: &str| asked(&head(&format!("GET {RECEIPTS}{target}"), ""));
        assert_eq!(path(&digits), Some(Some(token)));
        assert_eq!((path(""), path(&format!("{digits}/"))), (Some(None), Some(None)));
        assert_eq!(asked(&head("GET /lh1/receipt", "")), None);
        assert_eq!(asked(&head(&format!("PUT {RECEIPTS}{digits}"), "Content-Length: 0\r\n")), None);
    }

    #[test]
    fn promise_is_one_word() {
        assert!(is_promised(&Fields::from_iter([promise()])));
        let other = (RECEIPT.clone(), HeaderValue::from_static("perhaps"));
        assert!(!is_promised(&Fields::from_iter([other])));
        assert!(!is_promised(&Fields::new()));
    }
}
