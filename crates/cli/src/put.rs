// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul put`: uploads.

use crate::{
    failure::Failure,
    transfer::{TransferArgs, one_by_one, shown_name},
};
use clap::Args;
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
use transfer::{Client, Progress, PutRequest, Source, Stop, upload_url};

const EXAMPLES: &str = "\
Examples:
  longhaul put set.tar https://data.example.org/upload/
  tar c sets | longhaul put - https://data.example.org/upload/sets.tar";

/// Upload files by HTTP PUT, each with a digest. See docs/get.md.
///
/// A URL that ends in / gets the file's name appended. Exit codes: 0 done, 1 failed, 2 wrong usage,
/// 130 and 143 stopped.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PutArgs {
    /// Files to upload, - for standard input; then the URL
    #[arg(value_name = "FILE... URL", num_args = 2.., required = true)]
    arguments: Vec<PathBuf>,
    /// Fail if the server already has a file at that URL
    #[arg(long)]
    no_overwrite: bool,
    #[command(flatten)]
    transfer: TransferArgs,
}

/// A file to upload.
struct Job {
    url: String,
    /// `None` for standard input.
    file: Option<PathBuf>,
}

pub fn run(args: &PutArgs) -> Result<(), Failure> {
    let jobs = jobs(&args.arguments)?;
    let client = Client::new(args.transfer.options()?)?;
    let again = "stopped. To send what is missing, run the command again";
    one_by_one(jobs, again, async |job, stop| upload(&client, job, args, stop).await)
}

async fn upload(client: &Client, job: Job, args: &PutArgs, stop: &Stop) -> Result<(), Failure> {
    let progress = Arc::new(Progress::default());
    let line = args.transfer.show(&shown_name(job.file.as_deref(), "standard input"), &progress);
    let source = match job.file {
        Some(file) => Source::File(file),
        None => Source::Stream(Box::new(io::stdin())),
    };
    let request = PutRequest { url: job.url, source, no_overwrite: args.no_overwrite };
    let report = client.put(request, &progress, stop.wait()).await;
    drop(line);
    args.transfer.report(report)
}

fn jobs(arguments: &[PathBuf]) -> Result<Vec<Job>, Failure> {
    let (url, files) = arguments
        .split_last()
        .ok_or_else(|| Failure::usage("no URL given: name it after the files"))?;
    let url = url.to_str().ok_or_else(|| Failure::usage("the URL is not UTF-8"))?;
    if files.len() > 1 && !url.ends_with('/') {
        return Err(Failure::usage(
            "several files need a URL that ends in /, which gets each file's name appended",
        ));
    }
    let job = |file: &PathBuf| {
        let file = (file != Path::new("-")).then(|| file.clone());
        Ok(Job { url: upload_url(url, file.as_deref())?, file })
    };
    files.iter().map(job).collect()
}
