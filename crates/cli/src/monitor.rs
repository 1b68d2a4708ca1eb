// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul monitor`: every packet of a device, timed in the kernel.

mod live;
mod observation;
mod output_directory;
mod text;

use crate::{
    failure::Failure,
    print::{print_json, print_text},
};
use ::kernel::monitor::{Direction, EndReason, Monitor, Options};
use live::LiveDisplay;
use observation::Observation;
use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Instant,
};
use units::Duration;

/// Time every packet of a network device: its rate in bins, gaps between packets, bursts. Ends by
/// Ctrl-C, after `--duration`, or when the device goes, and then prints what it saw.
#[derive(clap::Args)]
pub struct MonitorArgs {
    /// The device, as `ip link` calls it; that of a node: `longhaul wan exec NODE -- longhaul
    /// monitor wan0`.
    device: String,
    /// Width of the bins of time.
    #[arg(long, value_name = "TIME", default_value = "500us")]
    bin: Duration,
    /// Packets that follow each other within this time are a burst.
    #[arg(long, value_name = "TIME", default_value = "10us")]
    burst_gap: Duration,
    /// Which packets.
    #[arg(long, value_name = "DIRECTION", value_enum, default_value = "out")]
    direction: DirectionChoice,
    /// Count each flow (protocol, addresses, ports), too.
    #[arg(long)]
    per_flow: bool,
    /// End after this time.
    #[arg(long, value_name = "TIME")]
    duration: Option<Duration>,
    /// Write figures, bins and a picture into a new folder.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum DirectionChoice {
    /// What this host sends.
    Out,
    /// What it receives.
    In,
    /// Both, apart from each other.
    Both,
}

impl DirectionChoice {
    fn directions(self) -> Vec<Direction> {
        match self {
            Self::Out => vec![Direction::Out],
            Self::In => vec![Direction::In],
            Self::Both => vec![Direction::Out, Direction::In],
        }
    }
}

/// Between two looks at whether it is to end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Between two pictures of the state of affairs.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

pub fn run(args: &MonitorArgs) -> Result<(), Failure> {
    if let Some(folder) = &args.out {
        output_directory::require_new(folder)?;
    }
    let options = Options {
        bin: args.bin,
        burst_gap: args.burst_gap,
        directions: args.direction.directions(),
        per_flow: args.per_flow,
        ..Options::of(&args.device)
    };
    let interrupted =
        host::stop_flag().map_err(|e| Failure::failed(format!("can't watch for signals: {e}")))?;
    let mut monitor = Monitor::attach(&options)?;
    eprintln!("watching {}; Ctrl-C ends it", args.device);
    let ended = watch(&mut monitor, &options, args.duration, &interrupted)?;
    let snapshot = monitor.stop()?;
    if ended == EndReason::DeviceGone {
        eprintln!("{} is gone", args.device);
    }
    let observation =
        Observation { options: &options, monitor: &monitor, snapshot: &snapshot, ended };
    if let Some(folder) = &args.out {
        output_directory::write(folder, &observation)?;
    }
    if args.json {
        print_json(&observation.report());
    } else {
        print_text(&text::report_text(&observation));
    }
    Ok(())
}

fn watch(
    monitor: &mut Monitor,
    options: &Options,
    duration: Option<Duration>,
    interrupted: &AtomicBool,
) -> Result<EndReason, Failure> {
    let started = Instant::now();
    let (mut live, mut shown) = (LiveDisplay::new(&options.device), Duration::ZERO);
    let mut read = Duration::ZERO;
    loop {
        let now = Duration::from(started.elapsed());
        if interrupted.load(Ordering::Relaxed) {
            return Ok(EndReason::Interrupted);
        }
        if duration.is_some_and(|duration| now >= duration) {
            return Ok(EndReason::Duration);
        }
        if now.saturating_sub(shown) >= REFRESH_INTERVAL {
            let snapshot = monitor.read()?;
            live.show(monitor, options, snapshot);
            (shown, read) = (now, now);
            if !monitor.is_device_there() {
                return Ok(EndReason::DeviceGone);
            }
        } else if now.saturating_sub(read) + POLL_INTERVAL >= monitor.read_within() {
            live.note_peaks(&monitor.read()?);
            read = now;
        }
        let left = duration.map_or(POLL_INTERVAL, |duration| duration.saturating_sub(now));
        thread::sleep(POLL_INTERVAL.min(left).into());
    }
}
