// SPDX-License-Identifier: GPL-2.0-or-later
//! Progress on standard error, as lines that are drawn again while a terminal shows them.

mod runs;
mod transfers;

pub use runs::ProgressDisplay;
pub use transfers::{ProgressLine, show};

use indicatif::{ProgressBar, ProgressStyle};

/// A line of text that is cut where the terminal ends. It shows nothing if standard error is not a terminal.
pub fn line() -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_msg}").expect("a template of one word");
    ProgressBar::new_spinner().with_style(style)
}
