// SPDX-License-Identifier: GPL-2.0-or-later
//! Transfers of files: the directions that carried most data, whose growth is compared.
//!
//! A file's transfers are those with at least a tenth of the data of its largest one, in the order in which they begin. Files may
//! be sublinks of a chain, captured by one clock: their n-th transfers that overlap in time are a *session*.
//! Limits: [`MAX_TRANSFERS`] a file, and as many files as the caller allows.

use crate::{
    growth::Growth,
    summary::{CapturePoint, ConnectionSummary, DirectionSummary},
};
use std::{cmp::Reverse, ops::Range};

/// Transfers of a file. Those with most data stay.
pub const MAX_TRANSFERS: usize = 200;
/// What carries less than this share of the file's largest direction is another thing than the transfers.
const LEAST_SHARE: f64 = 0.1;

/// A direction with its growth.
#[derive(Debug, Clone)]
pub struct Transfer {
    /// What it was. Its windows are not kept here.
    pub direction: DirectionSummary,
    /// How its high-water mark rose.
    pub growth: Growth,
}

/// The transfers of a file.
#[derive(Debug, Clone)]
pub struct FileTransfers {
    /// The file.
    pub file: String,
    /// The first of them first.
    pub transfers: Vec<Transfer>,
    /// Directions with as much data that are left out.
    pub left_out: u64,
}

/// Which directions are transfers.
#[derive(Debug, Clone, Copy)]
pub struct TransferFilter {
    /// Files that are looked at. Later ones are left out.
    pub most_files: usize,
    /// Only those that were captured at their sender, as for technical report 2002-24.
    pub at_sender: bool,
}

/// Collects transfers.
#[derive(Debug)]
pub struct TransferCollector {
    filter: TransferFilter,
    files: Vec<FileTransfers>,
    files_left_out: usize,
}

impl TransferCollector {
    /// Without files yet.
    pub fn new(filter: TransferFilter) -> Self {
        Self { filter, files: Vec::new(), files_left_out: 0 }
    }

    /// The next file. Connections that follow are of it.
    pub fn begin_file(&mut self, file: &str) {
        if self.files.len() == self.filter.most_files {
            self.files_left_out += 1;
            return;
        }
        let file = file.to_owned();
        self.files.push(FileTransfers { file, transfers: Vec::new(), left_out: 0 });
    }

    /// A connection of the file.
    pub fn add(&mut self, connection: &ConnectionSummary) {
        let Some(file) = self.files.last_mut().filter(|_| self.files_left_out == 0) else { return };
        let is_taken = |one: &&DirectionSummary| {
            !self.filter.at_sender || one.capture_point == Some(CapturePoint::Sender)
        };
        let directions = connection.directions.iter().filter(is_taken);
        let with_growth = directions.filter_map(|one| Some((one, one.growth.as_ref()?)));
        let larger = with_growth.max_by_key(|(one, _)| one.unique_bytes);
        let Some((direction, growth)) = larger else { return };
        let direction = DirectionSummary { growth: None, windows: None, ..direction.clone() };
        file.transfers.push(Transfer { direction, growth: growth.clone() });
        // Twice as many, so that sorting is rare.
        if file.transfers.len() == 2 * MAX_TRANSFERS {
            file.keep_largest();
        }
    }

    /// The transfers of all files.
    pub fn finish(mut self) -> Transfers {
        self.files.iter_mut().for_each(FileTransfers::finish);
        Transfers { files: self.files, files_left_out: self.files_left_out }
    }
}

impl FileTransfers {
    fn least_bytes(&self) -> u64 {
        let largest = self.transfers.iter().map(|one| one.direction.unique_bytes).max();
        (largest.unwrap_or(0) as f64 * LEAST_SHARE) as u64
    }

    fn keep_largest(&mut self) {
        let least = self.least_bytes();
        self.transfers.sort_by_key(|one| Reverse(one.direction.unique_bytes));
        let beyond = self.transfers.drain(self.transfers.len().min(MAX_TRANSFERS)..);
        self.left_out += beyond.filter(|one| one.direction.unique_bytes >= least).count() as u64;
    }

    fn finish(&mut self) {
        self.keep_largest();
        let least = self.least_bytes();
        self.transfers.retain(|one| one.direction.unique_bytes >= least);
        self.transfers.sort_by_key(|one| one.growth.start_ns());
    }
}

/// The transfers of files.
#[derive(Debug, Clone)]
pub struct Transfers {
    /// In the order in which they were given.
    pub files: Vec<FileTransfers>,
    /// Files beyond those.
    pub files_left_out: usize,
}

impl Transfers {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.files.iter().all(|file| file.transfers.is_empty())
    }

    /// Of each file, the sessions of its transfers. Without a chain, each transfer is one of its own.
    pub fn sessions(&self, is_chain: bool) -> Vec<Vec<Session>> {
        let session = |n: usize, own: &Transfer| {
            let alone = Session {
                origin_ns: span(own).start,
                retransmitted_segments: own.direction.retransmitted_segments,
            };
            let others = self.files.iter().filter_map(|file| file.transfers.get(n));
            let parts = others.filter(|other| is_chain && overlap(&span(own), &span(other)));
            let together = parts.map(|part| Session {
                origin_ns: span(part).start,
                retransmitted_segments: part.direction.retransmitted_segments,
            });
            together.reduce(Session::with).unwrap_or(alone)
        };
        let of_file = |file: &FileTransfers| {
            file.transfers.iter().enumerate().map(|(n, own)| session(n, own)).collect()
        };
        self.files.iter().map(of_file).collect()
    }
}

/// What a transfer is a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session {
    /// When its clock begins: with its earliest part, in nanoseconds since 1970.
    pub origin_ns: u64,
    /// Segments sent again in all of its parts.
    pub retransmitted_segments: u64,
}

impl Session {
    fn with(self, other: Self) -> Self {
        Self {
            origin_ns: self.origin_ns.min(other.origin_ns),
            retransmitted_segments: self.retransmitted_segments + other.retransmitted_segments,
        }
    }
}

/// From when to when, in nanoseconds since 1970.
fn span(transfer: &Transfer) -> Range<u64> {
    let points = transfer.growth.points();
    points.first().map_or(0, |point| point.0)..points.last().map_or(0, |point| point.0)
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start <= b.end && b.start <= a.end
}
