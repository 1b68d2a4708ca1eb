// SPDX-License-Identifier: GPL-2.0-or-later
//! An HTML document that makes no request.

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The style of all pages.
pub const STYLE: &str = include_str!("../assets/report.css");

/// A page with all that it needs in it.
pub struct Document<'a> {
    pub title: &'a str,
    /// Its content security policy: nothing may be fetched, from anywhere.
    pub policy: &'static str,
    /// Style sheets, in the order in which they apply.
    pub styles: &'a [&'a str],
    pub body: Markup,
}

impl Document<'_> {
    /// The document's text.
    pub fn into_string(self) -> String {
        let Self { title, policy, styles, body } = self;
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta http-equiv="Content-Security-Policy" content=(policy);
                    title { (title) " – longhaul" }
                    // An icon of nothing: browsers ask the server for one where none is given.
                    link rel="icon" href="data:,";
                    style { @for style in styles { (PreEscaped(style)) } }
                }
                body { (body) }
            }
        };
        page.into_string()
    }
}
