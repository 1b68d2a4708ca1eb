// SPDX-License-Identifier: GPL-2.0-or-later
//! An HTML document that makes no request.

use crate::chart::{COLOURS_OF_PAGE, palette::MUTED};
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// A content security policy for pages without scripts.
pub const WITHOUT_SCRIPTS: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";

/// The style of all pages.
pub const STYLE: &str = include_str!("../assets/report.css");
const DRAWING_STYLE: &str = include_str!("../assets/drawing.css");

/// A page with all that it needs in it.
pub struct Document<'a> {
    pub title: &'a str,
    /// Its content security policy: nothing may be fetched, from anywhere.
    pub policy: &'static str,
    /// Style sheets, in the order in which they apply.
    pub styles: &'a [&'a str],
    pub body: Markup,
}

/// A drawing of `chart` on a page with [`drawing_style`].
pub fn drawing(svg: &str) -> Markup {
    html! { div.drawing { (PreEscaped(svg)) } }
}

/// Rules that give drawings the colours of the page, light or dark. They are drawn once, in light colours.
pub fn drawing_style() -> String {
    let series = MUTED.iter().enumerate().map(|(n, colour)| (*colour, format!("series-{n}")));
    let page = COLOURS_OF_PAGE.iter().map(|(colour, name)| (*colour, (*name).to_owned()));
    let rules = series.chain(page).map(|(colour, name)| {
        format!(
            ".drawing [fill=\"{colour}\"] {{ fill: var(--{name}) }} .drawing [stroke=\"{colour}\"] {{ stroke: var(--{name}) }}\n"
        )
    });
    DRAWING_STYLE.to_owned() + &rules.collect::<String>()
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
