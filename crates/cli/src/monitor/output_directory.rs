// SPDX-License-Identifier: GPL-2.0-or-later
//! What the monitor saw, kept: a folder with the document, the bins and a picture of each direction.
//! It appears whole, and is never written into again.

use super::{observation::Observation, text::method_text};
use crate::failure::Failure;
use ::kernel::monitor::{Bins, Direction, DirectionStatistics, Histogram};
use ::report::{HistogramBar, MonitorPicture};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// What is there already is left alone, and somebody who has watched for an hour wants it kept.
pub fn require_new(folder: &Path) -> Result<(), Failure> {
    let taken = match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    if taken {
        let name = folder.display();
        return Err(Failure::usage(format!(
            "--out {name}: it is there already; name a new folder"
        )));
    }
    // Fails now rather than in the end.
    let partial = partial(folder);
    fs::create_dir_all(&partial)
        .and_then(|()| fs::remove_dir(&partial))
        .map_err(|e| Failure::usage(format!("--out {}: can't write there: {e}", folder.display())))
}

/// Beside the folder, until it is whole.
fn partial(folder: &Path) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    folder.with_file_name(format!(".{name}.{}.partial", std::process::id()))
}

pub fn write(folder: &Path, observation: &Observation<'_>) -> Result<(), Failure> {
    let partial = partial(folder);
    let written = files(&partial, observation).and_then(|()| fs::rename(&partial, folder));
    written.map_err(|error| {
        // What there is of it is of no use.
        let _ = fs::remove_dir_all(&partial);
        Failure::failed(format!("can't write {}: {error}", folder.display()))
    })
}

fn files(folder: &Path, observation: &Observation<'_>) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let document = serde_json::to_string_pretty(&observation.report()).expect("plain data");
    fs::write(folder.join("monitor.json"), document + "\n")?;
    for &direction in &observation.options.directions {
        let (Some(bins), Some(figures)) =
            (observation.monitor.bins(direction), observation.snapshot.statistics(direction))
        else {
            continue;
        };
        let name = direction.name();
        fs::write(folder.join(format!("{name}-bins.csv")), table(bins))?;
        fs::write(
            folder.join(format!("{name}.svg")),
            picture(observation, direction, bins, figures),
        )?;
    }
    Ok(())
}

/// Bins as they are kept: after a long time wider than they were asked for.
fn table(bins: &Bins) -> String {
    let width_s = bins.data().width().as_secs_f64();
    let gaps = bins.gap_frames().bins().iter().copied().chain(std::iter::repeat(0));
    let mut text = "time_s,data_bytes,gap_frame_bytes\n".to_owned();
    for (n, (data, gap)) in bins.data().bins().iter().zip(gaps).enumerate() {
        text += &format!("{:.6},{data},{gap}\n", n as f64 * width_s);
    }
    text
}

fn picture(
    observation: &Observation<'_>,
    direction: Direction,
    bins: &Bins,
    figures: &DirectionStatistics,
) -> String {
    let gap_frame_bytes: &[u64] =
        if figures.gap_frames > 0 { bins.gap_frames().bins() } else { &[] };
    let title = format!("{} {}", observation.options.device, direction.name());
    MonitorPicture {
        title: &title,
        about: &method_text(observation, direction),
        bin_s: bins.data().width().as_secs_f64(),
        data_bytes: bins.data().bins(),
        gap_frame_bytes,
        gaps_ns: histogram_bars(&figures.gaps.histogram),
        burst_packets: histogram_bars(&figures.bursts.histogram),
    }
    .svg()
}

fn histogram_bars(histogram: &Histogram) -> Vec<HistogramBar> {
    histogram
        .bins()
        .map(|slot| HistogramBar { values: slot.from..slot.to, count: slot.count })
        .collect()
}
