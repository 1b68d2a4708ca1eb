// SPDX-License-Identifier: GPL-2.0-or-later
//! The status page: one self-contained document, which loads nothing from other hosts.

use base64::{Engine, prelude::BASE64_STANDARD};
use http::HeaderValue;
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

/// The page, and what it may do.
pub(crate) struct Page {
    /// The document.
    pub html: String,
    /// Its content security policy: its own style and script, known by their sums, and requests to
    /// where it comes from.
    pub policy: HeaderValue,
}

/// The page; it is the same for every depot.
pub(crate) static PAGE: LazyLock<Page> = LazyLock::new(|| {
    let (style, script) = (include_str!("page/status.css"), include_str!("page/status.js"));
    let html =
        include_str!("page/status.html").replace("{style}", style).replace("{script}", script);
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        sum(style),
        sum(script)
    );
    Page { html, policy: HeaderValue::from_str(&policy).expect("a sum is text") }
});

fn sum(text: &str) -> String {
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(text)))
}
