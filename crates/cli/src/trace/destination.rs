// SPDX-License-Identifier: GPL-2.0-or-later
//! Where connections go as they end.

use ::trace::{ConnectionSummary, JsonDocument, RowWriter, Totals};
use std::io::{self, Write};

/// Takes connections of files.
pub trait Destination {
    /// How many connections of a file may wait to be handed over by their first packets.
    fn max_held(&self) -> usize {
        MAX_HELD
    }

    /// A file begins.
    fn begin_file(&mut self, _: &str) {}

    /// A connection of a file.
    fn add(&mut self, file: &str, connection: &ConnectionSummary) -> io::Result<()>;

    /// A file is done, or ended early by an error. Without totals, nothing could be read.
    fn end_file(&mut self, _: &str, _: Option<Totals>, _: Option<String>) -> io::Result<()> {
        Ok(())
    }
}

impl<W: Write> Destination for JsonDocument<W> {
    fn add(&mut self, file: &str, connection: &ConnectionSummary) -> io::Result<()> {
        self.add(file, connection)
    }

    fn end_file(
        &mut self,
        file: &str,
        totals: Option<Totals>,
        error: Option<String>,
    ) -> io::Result<()> {
        if let Some(totals) = totals {
            self.add_file(file, totals, error);
        }
        Ok(())
    }
}

/// Rows of CSV or Parquet.
pub struct Rows<R>(pub R);

impl<R: RowWriter> Destination for Rows<R> {
    fn add(&mut self, file: &str, connection: &ConnectionSummary) -> io::Result<()> {
        self.0.add(file, connection)
    }
}

/// Hands a file's connections over in the order of their first packets while they can be held. Beyond, in the order in which they end,
/// so that memory stays bounded.
pub struct InOrder<'a, D> {
    file: &'a str,
    destination: &'a mut D,
    held: Vec<ConnectionSummary>,
    /// False as soon as more have come than can be held.
    is_holding: bool,
    error: Option<io::Error>,
}

/// Of most destinations.
const MAX_HELD: usize = 20_000;

impl<'a, D: Destination> InOrder<'a, D> {
    pub fn new(file: &'a str, destination: &'a mut D) -> Self {
        Self { file, destination, held: Vec::new(), is_holding: true, error: None }
    }

    pub fn add(&mut self, connection: ConnectionSummary) {
        if self.is_holding && self.held.len() < self.destination.max_held() {
            self.held.push(connection);
            return;
        }
        self.is_holding = false;
        self.hand_over_held();
        self.hand_over(&connection);
    }

    /// Hands over what is held.
    ///
    /// # Errors
    /// The first of the destination.
    pub fn finish(mut self) -> io::Result<()> {
        self.hand_over_held();
        self.error.map_or(Ok(()), Err)
    }

    fn hand_over_held(&mut self) {
        let mut held = std::mem::take(&mut self.held);
        held.sort_by_key(|connection| connection.first_packet);
        for connection in &held {
            self.hand_over(connection);
        }
    }

    fn hand_over(&mut self, connection: &ConnectionSummary) {
        if self.error.is_none() {
            self.error = self.destination.add(self.file, connection).err();
        }
    }
}
