// SPDX-License-Identifier: GPL-2.0-or-later
//! The output directory of the monitor: the JSON document, and bins and a picture of each direction.
//! It appears complete, and is not written again.

use super::{observation::Observation, text::method_text};
use crate::failure::Failure;
use ::kernel::monitor::{Bins, Direction, DirectionStatistics, Histogram};
use ::report::{HistogramBar, MonitorPicture};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Refuses a directory with files in it, or one that cannot be made, before the monitor runs for an hour.
pub fn require_new(folder: &Path) -> Result<(), Failure> {
    let taken = match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    if taken {
        let name = folder.display();
        return Err(Failure::usage(format!(
            "--out {name}: it exists already. Name a new directory"
        )));
    }
    // An unwritable place fails now and not after the measurement.
    let partial = partial(folder);
    fs::create_dir_all(&partial)
        .and_then(|()| fs::remove_dir(&partial))
        .map_err(|e| Failure::usage(format!("--out {}: cannot write there: {e}", folder.display())))
}

/// The temporary directory next to the final one, until it is complete.
fn partial(folder: &Path) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    folder.with_file_name(format!(".{name}.{}.partial", std::process::id()))
}

pub fn write(folder: &Path, observation: &Observation<'_>) -> Result<(), Failure> {
    let partial = partial(folder);
    let written = files(&partial, observation).and_then(|()| fs::rename(&partial, folder));
    written.map_err(|error| {
        // An incomplete directory is of no use.
        let _ = fs::remove_dir_all(&partial);
        Failure::failed(format!("cannot write {}: {error}", folder.display()))
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

/// Bins as CSV. After a long time they are wider than `--bin`.
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
