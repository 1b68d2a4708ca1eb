// SPDX-License-Identifier: GPL-2.0-or-later
//! Options of `longhaul send --follow`: a file that is still written.

use crate::failure::Failure;
use clap::Args;
use std::path::{Path, PathBuf};
use transfer::parcel::{Follow, Parcel, Until};
use units::Bytes;

/// How a file is followed.
#[derive(Debug, Args)]
pub struct FollowArgs {
    /// The file is still written: send what it has and what is added, until a rule of --until ends it
    #[arg(long, requires = "until", conflicts_with = "detach")]
    follow: bool,
    /// With --follow: what ends the file; repeat it for further rules. idle:TIME without a change, closed or closed:TIME by a
    /// program of this machine, renamed, marker:FILE that appears, size:BYTES
    #[arg(long, value_name = "RULE", requires = "follow")]
    until: Vec<Until>,
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
        let Self { follow, until, no_compare, header_last } = self;
        if follow {
            Parcel::Growing(what, Follow { until, compares: !no_compare, header_last })
        } else {
            Parcel::Path(what)
        }
    }

    /// Refuses to follow what does not grow.
    pub fn check(&self, what: &Path) -> Result<(), Failure> {
        if self.follow && what == Path::new("-") {
            let text = "--follow is for files: standard input is sent as it comes";
            return Err(Failure::usage(text));
        }
        Ok(())
    }
}
