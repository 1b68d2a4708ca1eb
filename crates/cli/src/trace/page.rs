// SPDX-License-Identifier: GPL-2.0-or-later
//! What the HTML page is made of.

use super::destination::Destination;
use ::report::{CapturePage, CapturedFile, GrowthForm, MOST_GROUPS};
use ::trace::{ConnectionSummary, LargestDirections, Totals, TransferCollector, TransferFilter};
use std::io;
use units::Bytes;

/// Collects what the page shows, within its bounds.
pub struct PageContents {
    files: Vec<CapturedFile>,
    largest: LargestDirections,
    transfers: TransferCollector,
    memory: Bytes,
}

impl PageContents {
    /// Transfers are those captured at their sender, if `at_sender`. `memory` is the limit of the analysis.
    pub fn new(at_sender: bool, memory: Bytes) -> Self {
        let filter = TransferFilter { most_files: MOST_GROUPS, at_sender };
        Self {
            files: Vec::new(),
            largest: LargestDirections::default(),
            transfers: TransferCollector::new(filter),
            memory,
        }
    }

    /// Whether no file could be read.
    pub fn is_empty(&self) -> bool {
        self.files.iter().all(|file| file.totals.is_none())
    }

    /// The page.
    pub fn html(self, growth: GrowthForm) -> String {
        let transfers = self.transfers.finish();
        CapturePage { files: &self.files, largest: &self.largest, transfers: &transfers, growth }
            .html()
    }
}

impl Destination for PageContents {
    /// Curves take memory.
    fn max_held(&self) -> usize {
        0
    }

    fn begin_file(&mut self, file: &str) {
        let name = file.to_owned();
        self.files.push(CapturedFile { name, totals: None, remarks: Vec::new() });
        self.transfers.begin_file(file);
    }

    fn add(&mut self, file: &str, connection: &ConnectionSummary) -> io::Result<()> {
        self.largest.add(file, connection);
        self.transfers.add(connection);
        Ok(())
    }

    fn end_file(
        &mut self,
        _: &str,
        totals: Option<Totals>,
        error: Option<String>,
    ) -> io::Result<()> {
        if let Some(file) = self.files.last_mut() {
            file.remarks.extend(error);
            file.remarks.extend(totals.iter().flat_map(|totals| totals.remarks(self.memory)));
            file.totals = totals;
        }
        Ok(())
    }
}
