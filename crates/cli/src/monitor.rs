// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul monitor`: times every packet of a device in the kernel.

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

const EXAMPLES: &str = "\
Examples:
  sudo longhaul monitor eth0 --duration 10s --per-flow
  sudo longhaul monitor eth0 --bin 100us --direction both --out slow-start";

/// Measure rates, gaps and bursts of a network device's packets, timed in the kernel. Needs root.
///
/// Ends at Ctrl-C, after `--duration`, or when the device is removed, and then prints the results.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct MonitorArgs {
    /// Network device, as `ip link` names it. For a device of a node: `longhaul wan exec NODE -- longhaul monitor
    /// wan0`.
    device: String,
    /// Width of the time bins in which bytes are counted.
    #[arg(long, value_name = "TIME", default_value = "500us")]
    bin: Duration,
    /// Maximum gap between packets of one burst.
    #[arg(long, value_name = "TIME", default_value = "10us")]
    burst_gap: Duration,
    /// Packets to measure.
    #[arg(long, value_name = "DIRECTION", value_enum, default_value = "out")]
    direction: DirectionChoice,
    /// Also count each flow (protocol, addresses, ports).
    #[arg(long)]
    per_flow: bool,
    /// End after this time, as in 10s [default: at Ctrl-C].
    #[arg(long, value_name = "TIME")]
    duration: Option<Duration>,
    /// Write statistics, bins and a picture to a new directory.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum DirectionChoice {
    /// Packets that this host sends.
    Out,
    /// Packets that this host receives.
    In,
    /// Both, measured separately.
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

/// Interval between two checks for the end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Interval between two updates of the display.
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
        host::stop_flag().map_err(|e| Failure::failed(format!("cannot watch for signals: {e}")))?;
    let mut monitor = Monitor::attach(&options)?;
    errln!("watching {}: end it with Ctrl-C", args.device);
    let ended = watch(&mut monitor, &options, args.duration, &interrupted)?;
    let snapshot = monitor.stop()?;
    if ended == EndReason::DeviceGone {
        errln!("{} was removed", args.device);
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
