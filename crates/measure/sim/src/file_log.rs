// SPDX-License-Identifier: GPL-2.0-or-later
//! The files that traffic offered, for the record: all of them up to a number, and beyond it a sample in
//! which each file has the same chance to be (Vitter's algorithm R, 1985), so memory is bounded.
//!
//! The sample has random numbers of its own: what traffic does is the same with and without it.

use crate::{connection_table::ConnectionTable, tcp::Connection};
use record::{OfferedFile, OfferedFiles};
use scenario::{Random, Run};
use std::sync::Arc;
use units::{Bytes, Duration, Timestamp};

/// Files of all sources together.
#[derive(Debug)]
pub(crate) struct FileLog {
    rows: Vec<Row>,
    most: usize,
    offered: u64,
    random: Random,
    /// Files that have not arrived whole, by their connections' numbers, which are used again.
    under_way: Vec<Option<UnderWay>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Name {
    source: u32,
    /// Counts the source's files, from 1.
    number: u64,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    name: Name,
    start: Timestamp,
    size: Option<Bytes>,
    completion: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
struct UnderWay {
    name: Name,
    start: Timestamp,
    size: Bytes,
    /// Its place among the rows, where another file may be by now.
    row: Option<usize>,
}

impl FileLog {
    pub(crate) fn new(seed: u64, most: usize) -> Self {
        Self {
            rows: Vec::new(),
            most,
            offered: 0,
            random: Random::new(seed, "files on record"),
            under_way: Vec::new(),
        }
    }

    /// A client has started to get a file of that size, over that connection.
    pub(crate) fn offered(
        &mut self,
        (source, number): (u32, u64),
        size: Bytes,
        connection: u32,
        now: Timestamp,
    ) {
        let name = Name { source, number };
        let row = Row { name, start: now, size: None, completion: None };
        self.offered += 1;
        let place = if self.rows.len() < self.most {
            self.rows.push(row);
            Some(self.rows.len() - 1)
        } else {
            let place = self.random.below(self.offered) as usize;
            let kept = self.rows.get_mut(place);
            kept.map(|kept| {
                *kept = row;
                place
            })
        };
        let at = connection as usize;
        if at >= self.under_way.len() {
            self.under_way.resize(at + 1, None);
        }
        self.under_way[at] = Some(UnderWay { name, start: now, size, row: place });
    }

    /// The file on that connection has been asked for: its size.
    pub(crate) fn asked_for(&mut self, connection: u32) -> Option<Bytes> {
        let file = self.under_way[connection as usize]?;
        if let Some(row) = self.row(file) {
            row.size = Some(file.size);
        }
        Some(file.size)
    }

    /// The client has all of the file on that connection: the time that it took, if it is news.
    pub(crate) fn completed(&mut self, connection: u32, now: Timestamp) -> Option<Duration> {
        let file = self.under_way[connection as usize].take()?;
        let took = now.since(file.start);
        if let Some(row) = self.row(file) {
            row.completion = Some(took);
        }
        Some(took)
    }

    fn row(&mut self, file: UnderWay) -> Option<&mut Row> {
        self.rows.get_mut(file.row?).filter(|row| row.name == file.name)
    }

    /// Bytes that have arrived of files that are not whole, source by source.
    pub(crate) fn arrived(&self, connections: &ConnectionTable, sources: usize) -> Vec<u64> {
        let mut arrived = vec![0; sources];
        for (number, file) in (0..).zip(&self.under_way) {
            let Some(file) = file else { continue };
            arrived[file.name.source as usize] +=
                connections.get(number).map_or(0, Connection::arrived_bytes);
        }
        arrived
    }

    /// The files on record.
    pub(crate) fn files(&self, run: &Run) -> OfferedFiles {
        let names: Vec<Arc<str>> =
            run.traffic.iter().map(|traffic| traffic.name.as_str().into()).collect();
        let file = |row: &Row| OfferedFile {
            source: Arc::clone(&names[row.name.source as usize]),
            number: row.name.number,
            start_s: row.start.as_secs_f64(),
            size_bytes: row.size.map(Bytes::get),
            completion_s: row.completion.map(Duration::as_secs_f64),
        };
        let mut rows: Vec<OfferedFile> = self.rows.iter().map(file).collect();
        rows.sort_unstable_by(|a, b| (&a.source, a.number).cmp(&(&b.source, b.number)));
        OfferedFiles { rows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(most: usize, files: u64) -> FileLog {
        let mut log = FileLog::new(7, most);
        for number in 1..=files {
            let at = |seconds| Timestamp::ZERO + Duration::from_nanos(seconds * 1_000_000_000);
            // Two under way at any time, so that a file may leave the sample before it has ended.
            log.offered((0, number), Bytes::new(number), number as u32 % 3, at(number));
            log.asked_for(number as u32 % 3);
            if number > 1 {
                log.completed((number - 1) as u32 % 3, at(number + 1));
            }
        }
        log
    }

    #[test]
    fn log_keeps_all_files_up_to_the_bound() {
        let log = log(100, 100);
        assert_eq!(log.rows.len(), 100);
        assert!(log.rows.iter().zip(1..).all(|(row, number)| {
            let whole = row.completion == Some(Duration::from_nanos(2_000_000_000));
            row.name.number == number
                && row.size == Some(Bytes::new(number))
                && whole == (number < 100)
        }));
    }

    #[test]
    fn sample_above_bound_gives_files_equal_chances() {
        let (most, files) = (1000, 50_000);
        let log = log(most, files);
        assert_eq!(log.rows.len(), most);
        let mut numbers: Vec<u64> = log.rows.iter().map(|row| row.name.number).collect();
        numbers.sort_unstable();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "none is there twice");
        // The mean of a uniform sample of 1 to n: (n + 1) / 2, with a deviation of n / sqrt(12 k).
        let mean = numbers.iter().sum::<u64>() as f64 / most as f64;
        let deviation = files as f64 / (12.0 * most as f64).sqrt();
        assert!((mean - files as f64 / 2.0).abs() < 4.0 * deviation, "{mean}");
        // What is there belongs together.
        for row in &log.rows {
            assert_eq!(row.size, Some(Bytes::new(row.name.number)));
            assert_eq!(row.start.as_secs_f64() as u64, row.name.number);
            assert_eq!(row.completion.is_some(), row.name.number < files);
        }
    }
}
