// SPDX-License-Identifier: GPL-2.0-or-later
//! The line of a transfer under way.

use super::line;
use indicatif::{HumanBytes, HumanDuration};
use std::{
    io::{self, IsTerminal},
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};
use transfer::Progress;

/// Interval between two updates of the progress line.
const DRAWN: Duration = Duration::from_millis(100);

/// Shows progress on standard error, if that is a terminal and `quiet` is not set.
pub fn show(quiet: bool, name: &str, progress: &Arc<Progress>) -> ProgressLine {
    let shown = !quiet && io::stderr().is_terminal();
    ProgressLine(shown.then(|| drawing(name.to_owned(), Arc::clone(progress))))
}

/// A line of progress, until it is dropped.
pub struct ProgressLine(Option<(mpsc::Sender<()>, JoinHandle<()>)>);

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if let Some((ended, drawing)) = self.0.take() {
            drop(ended);
            // A panic of the drawing thread does not affect the transfer.
            let _ = drawing.join();
        }
    }
}

fn drawing(name: String, progress: Arc<Progress>) -> (mpsc::Sender<()>, JoinHandle<()>) {
    let (ended, end) = mpsc::channel();
    let thread = thread::spawn(move || {
        let line = line();
        let (mut rate, mut before) = (0.0, progress.held());
        while end.recv_timeout(DRAWN) == Err(mpsc::RecvTimeoutError::Timeout) {
            if let Some(note) = progress.take_note() {
                line.suspend(|| errln!("{name}: {note}"));
            }
            let held = progress.held();
            let now = held.saturating_sub(before) as f64 / DRAWN.as_secs_f64();
            before = held;
            rate += (now - rate) * 0.1;
            line.set_message(format!("{name}  {}", progress_text(&progress, rate)));
        }
        line.finish_and_clear();
    });
    (ended, thread)
}

/// Bytes, share, rate in bytes a second, time left, hops.
fn progress_text(progress: &Progress, rate: f64) -> String {
    let held = progress.held();
    let mut text = HumanBytes(held).to_string();
    if let Some(total) = progress.total().filter(|total| *total > 0) {
        let share = held as f64 / total as f64 * 100.0;
        text.push_str(&format!(" of {} ({share:.0} %)", HumanBytes(total)));
    }
    text.push_str(&format!(", {}/s", HumanBytes(rate as u64)));
    let left = progress.total().map(|total| total.saturating_sub(held) as f64 / rate.max(1.0));
    if let Some(left) = left.and_then(|left| Duration::try_from_secs_f64(left).ok()) {
        text.push_str(&format!(", {} left", HumanDuration(left)));
    }
    if progress.connections() > 1 {
        text.push_str(&format!(", {} connections", progress.connections()));
    }
    if progress.hops() > 0 {
        text.push_str(&format!(", {} hops", progress.hops()));
    }
    text
}
