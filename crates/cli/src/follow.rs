// SPDX-License-Identifier: GPL-2.0-or-later
//! Options of `longhaul send --follow` and `--watch`: what is still written.

use crate::failure::Failure;
use clap::Args;
use session::Options;
use std::path::{Path, PathBuf};
use transfer::parcel::{Follow, Goal, Parcel, Until, WatchRequest, default_watch_state};
use units::Bytes;

/// How a file is followed.
#[derive(Debug, Args)]
pub struct FollowArgs {
    /// The file is still written: send what it has and what is added, until a rule of --until ends it
    #[arg(long, requires = "until", conflicts_with = "detach", group = "written")]
    follow: bool,
    /// Send each file of the folder DIR once a rule of --until says that it is complete, to longhaul recv --many, until stopped
    #[arg(long, requires = "until", conflicts_with_all = ["detach", "follow", "name", "receipt"], group = "written")]
    watch: bool,
    /// With --follow: what ends the file; repeat it for further rules. idle:TIME without a change, closed or closed:TIME by a
    /// program of this machine, renamed, marker:FILE that appears, size:BYTES. With --watch: idle or closed for each file, and
    /// marker:FILE to send what is there and end
    #[arg(long, value_name = "RULE", requires = "written")]
    until: Vec<Until>,
    /// With --watch: where to note what was sent [default: a file in longhaul/watch in the user's state directory]
    #[arg(long, value_name = "FILE", requires = "watch")]
    state: Option<PathBuf>,
    /// With --follow: do not read the file again at its end to compare it with what was sent
    #[arg(long, requires = "follow")]
    no_compare: bool,
    /// With --follow: send this much of the file's beginning at the end, for programs that complete a header there
    #[arg(long, value_name = "SIZE", requires = "follow", conflicts_with = "digest")]
    header_last: Option<Bytes>,
}

impl FollowArgs {
    /// What is sent: a file or directory as it is, or a file that grows.
    pub fn parcel(self, what: PathBuf) -> Parcel {
        let Self { follow, until, no_compare, header_last, .. } = self;
        if follow {
            Parcel::Growing(what, Follow { until, compares: !no_compare, header_last })
        } else {
            Parcel::Path(what)
        }
    }

    /// Whether a folder is watched.
    pub fn watches(&self) -> bool {
        self.watch
    }

    /// The watch of a folder for the receiver at this address.
    pub fn watch(
        self,
        folder: PathBuf,
        address: &str,
        goal: Goal,
        options: Options,
    ) -> Result<WatchRequest, Failure> {
        let state = match self.state {
            Some(state) => state,
            None => default_watch_state(&folder, address)?,
        };
        Ok(WatchRequest { folder, goal, options, until: self.until, state })
    }

    /// Refuses to follow what does not grow.
    pub fn check(&self, what: &Path) -> Result<(), Failure> {
        if what == Path::new("-") && (self.follow || self.watch) {
            let text = "--follow is for files, and --watch for folders: standard input is sent as it comes";
            return Err(Failure::usage(text));
        }
        Ok(())
    }
}
