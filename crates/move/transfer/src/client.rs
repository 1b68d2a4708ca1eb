// SPDX-License-Identifier: GPL-2.0-or-later
//! State shared by all transfers of a command.

use crate::{
    Error, Options, Progress, Report,
    get::Transfer,
    http::{Http, Target},
    name::file_name,
    retry_timing::RateLimit,
};
use protocol::digest::Digest;
use route::{AsWritten, Chooser};
use std::{
    fmt,
    future::Future,
    io::Write,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

/// How long a route is tried last after its first depot has failed.
const AVOID: Duration = Duration::from_secs(30);

/// Transfers files.
#[derive(Debug)]
pub struct Client {
    pub(crate) options: Options,
    pub(crate) http: Arc<Http>,
    pub(crate) limit: Option<Arc<RateLimit>>,
    /// Knows depots from earlier attempts, of this file and others.
    pub(crate) chooser: Arc<dyn Chooser>,
}

/// Where a download goes.
pub enum Destination {
    /// A file. Until it is complete, it is `NAME.part` in the same directory.
    File(PathBuf),
    /// Somewhere that takes nothing back: standard output.
    Stream(Box<dyn Write + Send>),
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => f.debug_tuple("File").field(file).finish(),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

/// A download.
#[derive(Debug)]
pub struct GetRequest {
    /// From where.
    pub url: String,
    /// To where.
    pub destination: Destination,
    /// The digest that the file must have.
    pub digest: Option<Digest>,
}

impl Client {
    /// Sets up HTTP and TLS; nothing is asked yet.
    ///
    /// # Errors
    /// Certificates cannot be read, or TLS cannot be set up.
    pub fn new(options: Options) -> Result<Self, Error> {
        let http = Arc::new(Http::new(&options)?);
        let limit = options.limit_rate.map(RateLimit::new).map(Arc::new);
        let chooser = options.chooser.clone();
        let chooser = chooser.unwrap_or_else(|| Arc::new(AsWritten::new(Arc::default(), AVOID)));
        Ok(Self { options, http, limit, chooser })
    }

    /// Downloads a file. When `stop` ends first, what is held is kept and the error is [`Error::Stopped`].
    pub async fn get(
        &self,
        request: GetRequest,
        progress: &Arc<Progress>,
        stop: impl Future<Output = ()>,
    ) -> Report {
        let started = Instant::now();
        let file = match &request.destination {
            Destination::File(file) => Some(file.clone()),
            Destination::Stream(_) => None,
        };
        let mut report = Report { file, ..Report::refused(&request.url, Error::Stopped) };
        let opened = Target::new(&request.url, &self.options, &*self.chooser, None)
            .await
            .and_then(|target| Transfer::open(self, target, request, progress, started));
        match opened {
            Ok(mut transfer) => {
                report.result = transfer.run(stop).await;
                report.seconds = started.elapsed().as_secs_f64();
                transfer.tell(&mut report);
                transfer.tell_limits(&mut report).await;
            }
            Err(error) => {
                report.result = Err(error);
                report.seconds = started.elapsed().as_secs_f64();
            }
        }
        report
    }
}

impl GetRequest {
    /// The name by which the file's coding is known.
    pub(crate) fn name(&self) -> String {
        match &self.destination {
            Destination::File(file) => {
                file.file_name().unwrap_or_default().to_string_lossy().into_owned()
            }
            Destination::Stream(_) => file_name(&self.url).unwrap_or_default(),
        }
    }
}
