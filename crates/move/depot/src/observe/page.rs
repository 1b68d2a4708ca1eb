// SPDX-License-Identifier: GPL-2.0-or-later
//! The status page: one self-contained document, which loads nothing from other hosts.

use super::{statistics::Statistics, status::HopStatistics};
use base64::{Engine, prelude::BASE64_STANDARD};
use http::HeaderValue;
use serde_json::{Value, json};
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

/// The land on Earth as an SVG path in half degrees, from 180 degrees west and 90 north: Natural Earth's countries at 1:110 million,
/// which are in the public domain, simplified to 0.7 degrees.
const LAND: &str = include_str!("page/land.path");

/// The page; it is the same for every depot.
pub(crate) static PAGE: LazyLock<Page> = LazyLock::new(|| {
    let style = include_str!("page/status.css");
    let script = include_str!("page/status.js")
        .replace("{hop_facts}", &hop_facts().to_string())
        .replace("{land}", LAND.trim_end());
    let html =
        include_str!("page/status.html").replace("{style}", style).replace("{script}", &script);
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        sum(style),
        sum(&script)
    );
    Page { html, policy: HeaderValue::from_str(&policy).expect("a sum is text") }
});

/// The statistics of hops that have a title for the page.
fn hop_facts() -> Value {
    let statistics = HopStatistics::fields().map(|field| &field.statistic);
    let titled = statistics
        .filter_map(|it| Some(json!({ "key": it.key, "title": it.page?, "help": it.help() })));
    titled.collect()
}

fn sum(text: &str) -> String {
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(text)))
}
