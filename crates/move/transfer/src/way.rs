// SPDX-License-Identifier: GPL-2.0-or-later
//! The ways to a URL: through depots, by each of the routes that lead there, or directly.

use crate::{Error, Progress};
use protocol::{Authority, DepotAddress, Form, OriginUrl, Redirect, Scheme};
use reqwest::Url;
use route::{Attempt, AttemptEnd, Chooser, Destination, Floor, MOST_LEFT, RouteTable, SendOptions};
use std::time::{Duration, Instant};
use units::Bytes;

/// The ways to a URL, and which of them is used.
#[derive(Debug, Clone)]
pub(crate) struct Ways {
    /// Unknown where no table was asked.
    to: Option<Destination>,
    /// The most promising first; at least one.
    all: Vec<Way>,
    at: usize,
    /// When the attempt under way has begun.
    begun: Instant,
    /// How much of the file was there then.
    before: u64,
    /// Whether one that has failed since the first was used may do better later.
    may_help: bool,
    /// Ways that were left since they were slow.
    left: u32,
    /// How slow the way in use may become, and what is watched for that.
    floor: Option<Watched>,
}

/// How slow a way may become.
#[derive(Debug, Clone, Copy)]
struct Watched {
    floor: Floor,
    /// Since when it is watched, and how much of the file was there then.
    since: Instant,
    held: u64,
}

#[derive(Debug, Clone)]
struct Way {
    depots: Vec<DepotAddress>,
    /// Where the first request goes: to a depot, or to the URL itself.
    start: Url,
}

/// What to do after an attempt has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Try the next way, at once.
    Another,
    /// All have failed. Begin again with the first, after a while.
    Again,
    /// All have failed, and will.
    Nothing,
}

impl Ways {
    /// The ways that a table names, in the order in which to try them for so many bytes, if that is known.
    pub(crate) async fn to(
        url: &Url,
        table: &RouteTable,
        chooser: &dyn Chooser,
        bytes: Option<Bytes>,
        allow_downgrade: bool,
    ) -> Result<Self, Error> {
        let directly = || Way { depots: Vec::new(), start: url.clone() };
        if table.rules().is_empty() {
            return Ok(Self::new(None, vec![directly()]));
        }
        let refused = |why: String| Error::Usage(format!("no route through depots: {why}"));
        let port = url.port_or_known_default();
        let to = Destination::Named(
            Authority::parse(url.host_str().unwrap_or_default(), port)
                .map_err(|error| refused(error.to_string()))?,
        );
        let matching = table.matching(&to).await;
        let mut all = Vec::new();
        for route in &matching.routes {
            let start = lead(url, route.depots, allow_downgrade).map_err(refused)?;
            all.push(Some(Way { depots: route.depots.to_vec(), start }));
        }
        if all.is_empty() || matching.is_direct_then {
            all.push(Some(directly()));
        }
        let chains: Vec<&[DepotAddress]> =
            all.iter().flatten().map(|way| way.depots.as_slice()).collect();
        chooser.prepare(&to, &chains).await;
        let plan = chooser.plan(&to, bytes, &chains);
        let all = plan.all().iter().filter_map(|at| all[*at].take()).collect();
        Ok(Self::new(Some(to), all))
    }

    fn new(to: Option<Destination>, all: Vec<Way>) -> Self {
        let (at, before, left, may_help) = (0, 0, 0, false);
        Self { to, all, at, begun: Instant::now(), before, may_help, left, floor: None }
    }

    /// The depots of the way in use.
    pub(crate) fn via(&self) -> Vec<String> {
        self.all[self.at].depots.iter().map(ToString::to_string).collect()
    }

    /// Where the first request goes.
    pub(crate) fn start(&self) -> &Url {
        &self.all[self.at].start
    }

    /// Without the credentials of the URL, which are sent apart from it.
    pub(crate) fn strip_credentials(&mut self) {
        self.all.iter_mut().for_each(|way| strip_credentials(&mut way.start));
    }

    /// An attempt begins by the way in use. So much of the file is there.
    pub(crate) fn begin(&mut self, held: u64) {
        (self.begun, self.before, self.floor) = (Instant::now(), held, None);
    }

    /// The file comes, with so many bytes in all. By the last way it may be as slow as it is.
    pub(crate) fn watch(&mut self, chooser: &dyn Chooser, held: u64, total: Option<u64>) {
        let has_another = self.at + 1 < self.all.len() && self.left < MOST_LEFT;
        let Some(to) = self.to.as_ref().filter(|_| has_another) else { return };
        let depots = &self.all[self.at].depots;
        let floor = chooser.floor(to, depots, &SendOptions::default(), total.map(Bytes::new));
        self.floor = floor.map(|floor| Watched { floor, since: Instant::now(), held });
    }

    /// Whether less has come of late than may.
    pub(crate) fn is_too_slow(&mut self, held: u64) -> bool {
        let Some(watched) = &mut self.floor else { return false };
        let time = watched.since.elapsed();
        if time < watched.floor.over {
            return false;
        }
        let came = held.saturating_sub(watched.held);
        (watched.since, watched.held) = (Instant::now(), held);
        came < watched.floor.rate.times(time.into()).get()
    }

    /// How long to wait for bytes before looking whether it is too slow.
    pub(crate) fn patience(&self, longest: Duration) -> Duration {
        self.floor.map_or(longest, |watched| watched.floor.over.min(longest))
    }

    /// Tells the chooser how the attempt has ended, and what it has moved. Nothing is told of an attempt that failed for
    /// good, whatever its way.
    pub(crate) fn ended(&self, chooser: &dyn Chooser, progress: &Progress, end: AttemptEnd) {
        let Some(to) = &self.to else { return };
        let bytes = Bytes::new(progress.held().saturating_sub(self.before));
        let attempt = Attempt::new(end, self.begun.elapsed(), bytes);
        chooser.ended(to, &self.all[self.at].depots, &attempt);
    }

    /// The way in use has failed; `may_help`: it may do better later.
    pub(crate) fn failed(
        &mut self,
        chooser: &dyn Chooser,
        progress: &Progress,
        error: &Error,
        may_help: bool,
    ) -> Next {
        let end = match error {
            Error::Connection(_) => AttemptEnd::Unreached,
            Error::Stalled(_) => AttemptEnd::Stalled,
            _ => AttemptEnd::Refused,
        };
        self.left += u32::from(end == AttemptEnd::Stalled);
        self.ended(chooser, progress, end);
        self.may_help |= may_help;
        self.at = (self.at + 1) % self.all.len();
        match (self.at, self.may_help) {
            (1.., _) => {
                progress.note(format!("{error}; tries the next route"));
                Next::Another
            }
            (0, true) => {
                self.may_help = false;
                Next::Again
            }
            (0, false) => Next::Nothing,
        }
    }
}

/// Where to ask for a URL so that these depots fetch it.
fn lead(url: &Url, depots: &[DepotAddress], allow_downgrade: bool) -> Result<Url, String> {
    if !url.username().is_empty() || url.password().is_some() {
        return Err("depots pass no credentials on; leave them out of the URL".to_owned());
    }
    let plain = depots.iter().find(|depot| depot.scheme == Scheme::Http);
    if let Some(depot) = plain.filter(|_| url.scheme() == "https" && !allow_downgrade) {
        return Err(format!(
            "{depot} is asked in the clear for an https URL. Use https:HOST, or --allow-downgrade"
        ));
    }
    let origin: OriginUrl = url.as_str().parse().map_err(|error| format!("{error}"))?;
    let redirect = Redirect::new(depots, Form::Fetch, origin).map_err(|error| error.to_string())?;
    redirect.to_string().parse().map_err(|error| format!("{error}"))
}

pub(crate) fn strip_credentials(url: &mut Url) {
    // Both fail only for URLs without a host, which have no credentials.
    let _ = url.set_username("");
    let _ = url.set_password(None);
}

#[cfg(test)]
mod tests {
    use super::*;
    use route::{AsWritten, Match, Plan, Standings, read_chain};
    use std::sync::{Arc, Mutex};

    fn as_written() -> AsWritten {
        AsWritten::new(Arc::new(Standings::default()), Duration::from_secs(30))
    }

    /// Remembers what it is told.
    #[derive(Debug)]
    struct Listening(AsWritten, Mutex<Vec<(String, AttemptEnd, u64)>>);

    impl Chooser for Listening {
        fn plan(&self, to: &Destination, bytes: Option<Bytes>, chains: &[&[DepotAddress]]) -> Plan {
            self.0.plan(to, bytes, chains)
        }

        fn ended(&self, to: &Destination, chain: &[DepotAddress], attempt: &Attempt) {
            let told = (chain[0].authority.host.to_string(), attempt.end, attempt.bytes.get());
            self.1.lock().unwrap().push(told);
            self.0.ended(to, chain, attempt);
        }
    }

    async fn ways(table: &RouteTable, url: &str, downgrade: bool) -> Result<Vec<String>, Error> {
        let ways = Ways::to(&url.parse().unwrap(), table, &as_written(), None, downgrade).await?;
        Ok(ways.all.iter().map(|way| way.start.to_string()).collect())
    }

    fn through(chains: &[&str]) -> RouteTable {
        let chains = chains.iter().map(|text| read_chain(text).unwrap()).collect();
        RouteTable::through(chains, &[Match::ALL])
    }

    #[tokio::test]
    async fn routes_are_alternatives() {
        let table = through(&["d1,d2", "d3"]);
        let expected = [
            "http://d1:3880/lh1/fetch/d2:3880/http:a.example/f?q",
            "http://d3:3880/lh1/fetch/-/http:a.example/f?q",
        ];
        assert_eq!(ways(&table, "http://A.example/f?q", false).await.unwrap(), expected);
        let direct = ["http://127.0.0.1/f"];
        assert_eq!(
            ways(&RouteTable::default(), "http://127.0.0.1/f", false).await.unwrap(),
            direct
        );
    }

    #[tokio::test]
    async fn https_goes_through_plain_depots_only_on_request() {
        let plain = through(&["https:d1,d2"]);
        let refused = ways(&plain, "https://h/f", false).await.unwrap_err();
        assert!(refused.to_string().contains("--allow-downgrade"));
        assert!(ways(&plain, "https://h/f", true).await.is_ok());
        let tls = through(&["https:d1"]);
        let led = ways(&tls, "https://h/f", false).await.unwrap();
        assert_eq!(led, ["https://d1/lh1/fetch/-/https:h/f"]);
        assert!(ways(&tls, "https://u:p@h/f", false).await.is_err());
    }

    #[tokio::test]
    async fn round_ends_after_the_last_way() {
        let (table, chooser) = (through(&["d1", "d2"]), as_written());
        let url: Url = "http://a.example/".parse().unwrap();
        let mut ways = Ways::to(&url, &table, &chooser, None, false).await.unwrap();
        let begins = |ways: &Ways, depot: &str| ways.start().host_str() == Some(depot);
        let (lost, refused) =
            (Error::Connection("lost".to_owned()), Error::Answer("no".to_owned()));
        let progress = Progress::default();
        let failed = |ways: &mut Ways, error: &Error, may_help| {
            ways.failed(&chooser, &progress, error, may_help)
        };
        assert_eq!(failed(&mut ways, &lost, true), Next::Another);
        assert!(begins(&ways, "d2"));
        assert_eq!(failed(&mut ways, &refused, false), Next::Again);
        assert!(begins(&ways, "d1"));
        assert_eq!(failed(&mut ways, &refused, false), Next::Another);
        assert_eq!(failed(&mut ways, &refused, false), Next::Nothing);
        // The next file begins with what works.
        let ways = Ways::to(&url, &table, &chooser, None, false).await.unwrap();
        assert!(begins(&ways, "d2"));
    }

    #[tokio::test]
    async fn chooser_is_told_what_each_attempt_moved() {
        let chooser = Listening(as_written(), Mutex::default());
        let (table, url) = (through(&["d1", "d2"]), "http://a.example/".parse().unwrap());
        let mut ways = Ways::to(&url, &table, &chooser, None, false).await.unwrap();
        let progress = Progress::default();
        progress.set(100, None);
        ways.begin(progress.held());
        progress.set(150, None);
        let lost = Error::Connection("lost".to_owned());
        assert_eq!(ways.failed(&chooser, &progress, &lost, true), Next::Another);
        ways.begin(progress.held());
        progress.set(1000, None);
        ways.ended(&chooser, &progress, AttemptEnd::Done);
        // What was there was discarded.
        ways.begin(progress.held());
        progress.set(10, None);
        ways.ended(&chooser, &progress, AttemptEnd::Doubtful);
        let told = chooser.1.into_inner().unwrap();
        let expected = [
            ("d1".to_owned(), AttemptEnd::Unreached, 50),
            ("d2".to_owned(), AttemptEnd::Done, 850),
            ("d2".to_owned(), AttemptEnd::Doubtful, 0),
        ];
        assert_eq!(told, expected);
    }
}
