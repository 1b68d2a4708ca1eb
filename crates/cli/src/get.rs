// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul get`: downloads.

use crate::{
    failure::Failure,
    print::print_error,
    receipt,
    transfer::{TransferArgs, one_by_one, plain_stdout, shown_name},
};
use clap::Args;
use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};
use transfer::{
    Client, Destination, DigestArg, Error, GetRequest, Options, Progress, Stop, file_name,
    printable, read_list,
};
use units::Bytes;

const EXAMPLES: &str = "\
Examples:
  longhaul get https://data.example.org/set.tar
  longhaul get --via d1.example.net,d2.example.org --list urls.txt -d sets";

/// Maximum size of a list, in bytes.
const MAX_LIST: u64 = 64 * 1024 * 1024;

/// Download files, with resumption and verification. See docs/get.md.
///
/// Bytes are written to NAME.part, which is renamed to NAME when it is complete. Run the same command again to
/// continue. Exit codes: 0 done, 1 failed, 2 wrong usage, 4 wrong digest, 130 and 143 stopped.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option")]
pub struct GetArgs {
    /// URLs to download (http or https)
    #[arg(value_name = "URL", required_unless_present = "list")]
    urls: Vec<String>,
    /// Write to this file; - for standard output [default: the URL's last path segment]
    #[arg(short, long, value_name = "FILE", conflicts_with = "list")]
    output: Option<PathBuf>,
    /// Write files to this directory [default: the current one]
    #[arg(short, long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Read URLs from a file, - for standard input; each line has a URL, or a URL, a tab and an output name
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// Expected digest of the file: sha-256= or sha-512=, then hexadecimal or Base64
    #[arg(long, value_name = "sha-256=VALUE", conflicts_with = "list")]
    digest: Option<DigestArg>,
    /// Maximum number of connections for one file, 1 to 64
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    connections: u16,
    /// Replace existing files
    #[arg(long, conflicts_with = "skip_existing")]
    overwrite: bool,
    /// Treat existing files as complete, without asking the server
    #[arg(long)]
    skip_existing: bool,
    /// Start from the beginning instead of continuing an earlier download
    #[arg(long)]
    no_resume: bool,
    /// Accept a response without a length, whose end cannot be verified
    #[arg(long)]
    allow_unknown_length: bool,
    /// Save a response with Content-Encoding without decoding it
    #[arg(long)]
    save_encoded: bool,
    /// Maximum size of a file, as in 10GB [default: no limit]
    #[arg(long, value_name = "SIZE")]
    max_size: Option<Bytes>,
    /// Print what limited the transfer, by hop and second, to standard error
    #[arg(long)]
    receipt: bool,
    #[command(flatten)]
    transfer: TransferArgs,
}

/// A file to download, or the error that prevents it.
struct Job {
    url: String,
    destination: Result<Destination, Error>,
}

pub fn run(args: &GetArgs) -> Result<(), Failure> {
    let options = Options {
        connections: args.connections.into(),
        overwrite: args.overwrite,
        skip_existing: args.skip_existing,
        resume: !args.no_resume,
        allow_unknown_length: args.allow_unknown_length,
        save_encoded: args.save_encoded,
        max_size: args.max_size,
        receipts: args.receipt || args.transfer.is_reported(),
        ..args.transfer.options()?
    };
    let jobs = jobs(args)?;
    let client = Client::new(options)?;
    let again = "stopped. To continue, run the same command again";
    one_by_one(jobs, again, async |job, stop| download(&client, job, args, stop).await)
}

async fn download(client: &Client, job: Job, args: &GetArgs, stop: &Stop) -> Result<(), Failure> {
    let progress = Arc::new(Progress::default());
    let shown = match &job.destination {
        Ok(Destination::File(file)) => shown_name(Some(file), ""),
        _ => "standard output".to_owned(),
    };
    let digest = args.digest.clone().map(|digest| digest.0);
    let report = match job.destination {
        Ok(destination) => {
            let line = args.transfer.show(&shown, &progress);
            let request = GetRequest { url: job.url, destination, digest };
            let report = client.get(request, &progress, stop.wait()).await;
            drop(line);
            report
        }
        Err(error) => transfer::Report::refused(&job.url, error),
    };
    if args.receipt
        && let Some(limits) = &report.limits
    {
        print_error(&receipt::table(limits));
    }
    args.transfer.report(report)
}

/// The files to download. A list's file without a usable name is an error of its own.
fn jobs(args: &GetArgs) -> Result<Vec<Job>, Failure> {
    let usage = |text: &str| Err(Failure::usage(text));
    let to_stdout = args.output.as_deref() == Some(Path::new("-"));
    let several = args.urls.len() > 1;
    if several && args.output.is_some() {
        return usage(
            "-o names one file, but several URLs are given. Use -d DIR, or --list FILE with names",
        );
    }
    if several && args.digest.is_some() {
        return usage(
            "--digest describes one file, but several URLs are given. Run one command per URL",
        );
    }
    if to_stdout && args.transfer.json {
        return usage("--json and -o - both write to standard output. Use only one of them");
    }
    if to_stdout && args.directory.is_some() {
        return usage(
            "-d names a directory, but -o - writes to standard output. Use only one of them",
        );
    }
    let directory = args.directory.clone().unwrap_or_default();
    let mut jobs = Vec::new();
    for url in &args.urls {
        let destination = match &args.output {
            Some(_) if to_stdout => Destination::Stream(plain_stdout()?),
            Some(file) => Destination::File(directory.join(file)),
            None => match file_name(url) {
                Ok(name) => Destination::File(directory.join(name)),
                Err(error) => return Err(error.into()),
            },
        };
        jobs.push(Job { url: url.clone(), destination: Ok(destination) });
    }
    if let Some(list) = &args.list {
        let entries = read_list(&read(list)?);
        jobs.extend(entries.into_iter().map(|entry| Job {
            url: entry.url,
            destination: entry.file.and_then(|file| within(&directory, &file)),
        }));
    }
    Ok(jobs)
}

/// A listed file in its directory, which is created.
fn within(directory: &Path, file: &Path) -> Result<Destination, Error> {
    let file = directory.join(file);
    if let Some(parent) = file.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).map_err(|error| Error::File {
            doing: "create",
            path: parent.to_owned(),
            error,
        })?;
    }
    Ok(Destination::File(file))
}

fn read(list: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if list == Path::new("-") {
        io::stdin().take(MAX_LIST).read_to_string(&mut text)
    } else {
        fs::File::open(list).and_then(|file| file.take(MAX_LIST).read_to_string(&mut text))
    };
    match read {
        Ok(length) if length as u64 == MAX_LIST => {
            Err(Failure::usage("the list is longer than 64 MB. Split it"))
        }
        Ok(_) => Ok(text),
        Err(error) => {
            let name = printable(&list.to_string_lossy(), 200);
            Err(Failure::usage(format!("cannot read the list {name}: {error}")))
        }
    }
}
