// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul guard`, which an experiment starts on its hosts by ssh.

use crate::failure::Failure;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct GuardArgs {
    /// For its files
    #[arg(long)]
    directory: PathBuf,
    /// It is the worker of this keeper
    #[arg(long)]
    worker: Option<i32>,
}

pub fn run(args: &GuardArgs) -> Result<(), Failure> {
    field::guard::run(&args.directory, args.worker).map_err(Failure::failed)
}
