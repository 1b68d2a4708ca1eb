// SPDX-License-Identifier: GPL-2.0-or-later
//! Sequence growth of the transfers of each file, as a picture or for xplot.

use super::destination::Destination;
use ::trace::{ConnectionSummary, TransferCollector, Transfers};
use std::{fmt::Write as _, io};

impl Destination for TransferCollector {
    /// Curves take memory, and are put in order later.
    fn max_held(&self) -> usize {
        0
    }

    fn begin_file(&mut self, file: &str) {
        self.begin_file(file);
    }

    fn add(&mut self, _: &str, connection: &ConnectionSummary) -> io::Result<()> {
        self.add(connection);
        Ok(())
    }
}

/// A graph in the format of xplot, as tcptrace writes them: a line for each transfer.
pub fn xplot(transfers: &Transfers, is_chain: bool) -> String {
    const COLOURS: [&str; 7] = ["green", "red", "blue", "yellow", "purple", "orange", "magenta"];
    let mut text =
        "double double\ntitle\nsequence growth\nxlabel\ntime, s\nylabel\nsequence number\n"
            .to_owned();
    let sessions = transfers.sessions(is_chain);
    for ((file, sessions), colour) in
        transfers.files.iter().zip(sessions).zip(COLOURS.iter().cycle())
    {
        for (transfer, session) in file.transfers.iter().zip(sessions) {
            let _ = writeln!(text, "{colour}");
            for pair in transfer.growth.points().windows(2) {
                let [from, to] = [pair[0], pair[1]];
                let [from_s, to_s] =
                    [from, to].map(|at| at.0.saturating_sub(session.origin_ns) as f64 / 1e9);
                let _ = writeln!(text, "line {from_s:.9} {} {to_s:.9} {}", from.1, to.1);
            }
        }
    }
    text + "go\n"
}
