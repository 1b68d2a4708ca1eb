// SPDX-License-Identifier: GPL-2.0-or-later
//! The daemon: listeners, limits, signals, drain.

use crate::{
    body::{Means, pipe::Pipes},
    buffers,
    config::{Config, ConfigError},
    detours::Detours,
    door::Door,
    handover::{self, Offer},
    identity::Identity,
    limits::Gate,
    listeners::{self, Listeners},
    observe::{self, AccessLogError, Observer, StderrLog, View},
    paced::{NotPaced, Paced, Pacers},
    rates::Rates,
    reserve::Spare,
    settings::Settings,
    siblings::Siblings,
    stripes::Offers,
    trace::Requests,
    trim::{self, Tide, Work},
    trust::Uses,
    tune::{self, TuneError},
    upstream::{Names, Pool, Resolver},
    watched::FileError,
};
use sd_notify::NotifyState;
use session::{DepotId, DepotIdError};
use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock, Weak},
    time::Duration,
};
use tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
    signal::unix::{Signal, SignalKind, signal},
    sync::{mpsc, watch},
};

/// Why a depot does not start or go on. The fault is with the configuration or the host.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A hop's socket settings cannot be had.
    #[error(transparent)]
    Tune(#[from] TuneError),
    /// Packets to a hop's peers are not paced as it says.
    #[error(transparent)]
    NotPaced(#[from] NotPaced),
    /// A file that the configuration names cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The access log cannot be written.
    #[error(transparent)]
    AccessLog(#[from] AccessLogError),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {error} (is another program using it?)")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// The depot that runs here does not hand over, or its successor could not be offered to.
    #[error("cannot take over, or offer to be taken over from, at {}: {error}", path.display())]
    Handover {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// This host's name does not serve as an id.
    #[error("this host's name gives no id for the depot: {0}; set `id`")]
    Id(#[from] DepotIdError),
    /// The runtime or the signal handlers cannot be set up.
    #[error("the system refuses what a daemon needs: {0}")]
    System(#[from] io::Error),
}

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    settings: RwLock<Arc<Settings>>,
    /// The configuration that it was started with: some of it counts until it ends.
    started: Arc<Config>,
    pub id: DepotId,
    /// By which names it is asked.
    pub identity: Identity,
    /// Names of requests.
    pub requests: Requests,
    /// Looks names up.
    pub names: Names,
    /// What bodies move through.
    pub means: Means,
    /// Connections to next hops that wait for work.
    pub pool: Pool,
    /// Who is connected.
    pub gate: Arc<Gate>,
    /// To what rates clients are held.
    pub rates: Rates,
    /// To whom packets are spaced below TCP.
    pub paced: Arc<Paced>,
    /// Other depots that do the same work.
    pub siblings: Siblings,
    /// Which depots have failed lately.
    pub detours: Detours,
    /// How often tickets were used.
    pub uses: Uses,
    /// Transfers that further connections may join.
    pub stripes: Arc<Offers>,
    /// What is told of all requests.
    pub observer: Arc<Observer>,
    /// Descriptors kept to tell clients that there are no others, and to answer operators.
    pub spare: Spare,
    phase: watch::Receiver<Phase>,
}

/// What a depot is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It takes all that comes.
    Serving,
    /// It was told to stop: who has not asked by now is to ask elsewhere.
    Stopping,
    /// Another depot has its listeners: what it has accepted itself it still serves.
    Succeeded,
}

impl Shared {
    /// The settings as they are now; they change when they are read again.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Those of the configuration.
    pub(crate) fn config(&self) -> Arc<Config> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner).config)
    }

    /// Looks names up for this client.
    pub(crate) fn resolver(&self, client: IpAddr) -> Resolver<'_> {
        Resolver { names: &self.names, client }
    }

    /// What the depot is about.
    pub(crate) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Whether it takes no more connections, and none is kept for another request.
    pub(crate) fn is_leaving(&self) -> bool {
        self.phase() != Phase::Serving
    }

    /// Gives back what has lain unused for long, for as long as the depot runs.
    async fn tidy(self: Arc<Self>) {
        let (mut connections, mut transfers) = (Tide::default(), Tide::default());
        let mut work = Work::default();
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.means.pipes.tidy();
            let settings = self.settings();
            self.pool.tidy(&settings.config.reuse);
            settings.refresh();
            self.paced.refresh();
            self.observer.look();
            self.spare.refill();
            let (begun, crest) = self.observer.crest();
            // All three are to know.
            let fewer = [
                connections.has_fallen(self.gate.crest()),
                transfers.has_fallen(crest),
                work.is_over(begun, crest.1),
            ];
            if fewer.contains(&true) {
                // Nobody waits for it, and it needs no second try.
                drop(tokio::task::spawn_blocking(trim::give_back));
            }
        }
    }

    /// Resolves once the depot takes no more connections.
    pub(crate) async fn leaving(&self) {
        self.phase_is(|phase| phase != Phase::Serving).await;
    }

    /// Resolves once the depot is told to stop.
    pub(crate) async fn stopping(&self) {
        self.phase_is(|phase| phase == Phase::Stopping).await;
    }

    /// Resolves once another depot has the listeners; never, if the depot stops without.
    pub(crate) async fn succeeded(&self) {
        self.phase_is(|phase| phase != Phase::Serving).await;
        if self.phase() != Phase::Succeeded {
            std::future::pending::<()>().await;
        }
    }

    async fn phase_is(&self, wanted: impl Fn(Phase) -> bool) {
        // An error means that nobody is left who could tell: then it stops for certain.
        let _ = self.phase.clone().wait_for(|phase| wanted(*phase)).await;
    }

    /// Replaces the settings, and says which of them wait for the next start.
    fn replace(&self, mut settings: Settings) -> Vec<&'static str> {
        let mut current = self.settings.write().unwrap_or_else(PoisonError::into_inner);
        if !self.started.tls.listen.is_empty() && settings.tls.keep_certificate(&current.tls) {
            tracing::warn!(
                "the configuration has no certificate any more: TLS listeners keep the one that was \
                 read last until the next start"
            );
        }
        let settings = Arc::new(settings);
        let waiting = self.started.fixed_differences(&settings.config);
        let client_rate = settings.config.limits.client_rate;
        self.paced.replace(&settings.config);
        // Idle connections were admitted, and set up, by the old ones.
        current.supersede();
        *current = settings;
        self.pool.clear();
        drop(current);
        self.rates.replace(client_rate);
        waiting
    }
}

/// A depot that listens.
#[derive(Debug)]
pub struct Depot {
    listeners: Listeners,
    shared: Arc<Shared>,
    phase: watch::Sender<Phase>,
    offer: Option<Offer>,
}

/// Reads the configuration again; the text says why that failed.
pub type Reread = Box<dyn Fn() -> Result<Config, String> + Send + Sync>;

/// Runs a depot until SIGTERM or SIGINT, or until another one takes over: it then stops accepting and
/// finishes what is under way, up to the drain time. A second signal ends it at once. At SIGHUP it
/// reads its configuration again, and opens its log anew. Call it before any thread is started; it
/// starts `log`, to which `tracing` writes, and finishes it. `pacers` says whether hops are paced as the
/// configuration has it below TCP.
///
/// # Errors
/// The depot cannot start.
pub fn run(config: Config, reread: Reread, pacers: Pacers, log: &StderrLog) -> Result<(), Error> {
    let given = listeners::from_systemd();
    log.start();
    raise_file_limit();
    let runtime = runtime(config.threads)?;
    let result = runtime.block_on(async {
        let (mut term, mut int) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let hangup = signal(SignalKind::hangup())?;
        let depot = Depot::bind(config, given, pacers, log.clone())?;
        let observer = Arc::clone(&depot.shared.observer);
        let (listeners, shared) = (depot.listeners.accepting(), Arc::clone(&depot.shared));
        tokio::spawn(reload(hangup, shared, listeners, reread));
        let mut signals = async || tokio::select! { _ = term.recv() => (), _ = int.recv() => () };
        depot.serve(&mut signals).await;
        Ok(observer)
    });
    // Transfers that outlast the drain are dropped here, which closes their sockets.
    runtime.shutdown_timeout(Duration::from_secs(1));
    let result = result.map(|observer| observer.finish());
    log.finish();
    result
}

/// Reads the configuration again whenever told to. What cannot be used leaves the old one.
async fn reload(
    mut hangup: Signal,
    shared: Arc<Shared>,
    listeners: Vec<Weak<TcpListener>>,
    reread: Reread,
) {
    while hangup.recv().await.is_some() {
        let begun = NotifyState::monotonic_usec_now().ok();
        tell(&[&[NotifyState::Reloading], begun.as_slice()].concat());
        shared.observer.reopen();
        let checked = |config| {
            Settings::new(config, shared.paced.pacers()).map_err(|error| error.to_string())
        };
        let read = reread().and_then(checked);
        match read {
            Ok(settings) => {
                let waiting = shared.replace(settings).join(", ");
                tune::listeners(&listeners, &shared.config());
                shared.observer.counts.reloaded(true);
                tracing::info!(waiting, "configuration read again");
            }
            Err(error) => {
                shared.observer.counts.reloaded(false);
                tracing::warn!(error, "the configuration stays as it was");
            }
        }
        tell(&[NotifyState::Ready]);
    }
}

/// Tells systemd, where that has started the depot.
fn tell(state: &[NotifyState<'_>]) {
    // Without it nobody waits to be told.
    let _ = sd_notify::notify(false, state);
}

/// What the depot runs on. One thread alone need not be woken by another.
fn runtime(threads: usize) -> io::Result<Runtime> {
    let mut builder = match threads {
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    if threads > 1 {
        builder.worker_threads(threads);
    }
    builder.enable_all().build()
}

/// Checks a configuration by itself and against this host, without starting anything.
///
/// # Errors
/// The configuration is wrong, or the host cannot do as it says.
pub fn check(config: Config, pacers: &Pacers) -> Result<(), Error> {
    Settings::new(config, pacers).map(drop)
}

impl Depot {
    /// Checks the configuration against this host and opens the listeners, or takes them of those
    /// that are `given` or from the depot that this one succeeds. Needs a runtime.
    ///
    /// # Errors
    /// The configuration is wrong, or the host cannot do as it says.
    pub(crate) fn bind(
        config: Config,
        mut given: Vec<OwnedFd>,
        pacers: Pacers,
        log: StderrLog,
    ) -> Result<Self, Error> {
        let settings = Settings::new(config, &pacers)?;
        let config = Arc::clone(&settings.config);
        let failed = |path: &PathBuf, error| Error::Handover { path: path.clone(), error };
        let mut predecessor = match &config.handover {
            Some(path) => handover::take(path).map_err(|error| failed(path, error))?,
            None => handover::Taken::default(),
        };
        given.append(&mut predecessor.listeners);
        let listeners = Listeners::new(&config, given)?;
        let id = match &config.id {
            Some(id) => id.parse()?,
            None => default_id(&listeners.addresses())?,
        };
        let (phase, told) = watch::channel(Phase::Serving);
        let paced = Paced::new(&config, pacers);
        let shared = Arc::new(Shared {
            means: Means {
                mode: config.relay,
                pipes: Pipes::new(
                    config.limits.pipe.get() as usize,
                    config.limits.memory.get() as usize,
                ),
                max_trailers: config.limits.head,
            },
            pool: Pool::default(),
            gate: Arc::default(),
            rates: Rates::new(config.limits.client_rate),
            siblings: Siblings::default(),
            detours: Detours::default(),
            uses: Uses::new(&config.trust),
            stripes: Arc::default(),
            observer: Observer::new(&config, Arc::clone(&paced), log)?,
            spare: Spare::new(),
            paced,
            started: Arc::clone(&config),
            settings: RwLock::new(Arc::new(settings)),
            id,
            identity: Identity::new(listeners.for_clients()),
            requests: Requests::default(),
            names: Names::default(),
            phase: told,
        });
        let offer = config
            .handover
            .as_ref()
            .map(|path| Offer::new(path).map_err(|error| failed(path, error)));
        let offer = offer.transpose()?;
        predecessor.confirm();
        Ok(Self { listeners, shared, phase, offer })
    }

    /// Serves until `signal` resolves, or another depot has taken over; then drains until all is done,
    /// the drain time is over, or `signal` resolves (again).
    async fn serve(self, signal: &mut impl AsyncFnMut()) {
        let Self { listeners, shared, phase, offer } = self;
        let (alive, mut all_done) = mpsc::channel::<()>(1);
        let door = Door::new(Arc::clone(&shared), alive);
        let offered = match &offer {
            Some(_) => listeners.copies(),
            None => Ok(Vec::new()),
        };
        // Not before now: until this depot serves, they may be another's.
        tune::listeners(&listeners.accepting(), &shared.config());
        announce(&listeners, &shared);
        tokio::spawn(Arc::clone(&shared).tidy());
        tokio::spawn(Siblings::watch(Arc::clone(&shared)));
        tokio::spawn(buffers::govern(Arc::clone(&shared)));
        if let Some(listener) = listeners.admin {
            let view = View::new(Arc::clone(&shared));
            tokio::spawn(observe::serve(listener, Arc::new(view)));
        }
        for listener in listeners.clients {
            tokio::spawn(door.clone().keep(listener));
        }
        drop(door);
        tell(&[NotifyState::Ready]);
        let taken = async {
            match (&offer, offered) {
                (Some(offer), Ok(listeners)) => offer.taken(&listeners).await,
                (Some(_), Err(error)) => {
                    tracing::warn!(%error, "this depot cannot be taken over from");
                    std::future::pending::<()>().await;
                }
                (None, _) => std::future::pending().await,
            }
        };
        let why = tokio::select! {
            () = signal() => Phase::Stopping,
            () = taken => Phase::Succeeded,
        };
        drop(offer);
        phase.send_replace(why);
        let drain = Duration::from(shared.config().timeouts.drain);
        let seconds = drain.as_secs_f64();
        if why == Phase::Succeeded {
            tracing::info!(seconds, "another depot has taken over: finishing transfers under way");
        } else {
            tell(&[NotifyState::Stopping]);
            tracing::info!(seconds, "stopping: finishing transfers under way");
        }
        tokio::select! {
            // Resolves once every holder of `alive` is gone: listeners and connections.
            _ = all_done.recv() => tracing::info!("stopped: all transfers are finished"),
            () = tokio::time::sleep(drain) => tracing::warn!("stopped: the drain time is over"),
            () = signal() => tracing::warn!("stopped: told so twice"),
        }
    }
}

/// Says where the depot listens.
fn announce(listeners: &Listeners, shared: &Shared) {
    let config = shared.config();
    let listen: Vec<_> = listeners.addresses().iter().map(ToString::to_string).collect();
    let admin = listeners.admin.as_ref().and_then(|listener| listener.local_addr().ok());
    tracing::info!(
        id = shared.id.as_str(),
        listen = listen.join(","),
        admin = admin.map(|address| address.to_string()),
        clients = config.allow.clients.len(),
        upstreams = config.allow.upstreams.len(),
        "ready"
    );
}

/// The host's name and the port, so that two depots on one host differ.
fn default_id(addresses: &[SocketAddr]) -> Result<DepotId, DepotIdError> {
    let name = rustix::system::uname();
    let name = name.nodename().to_string_lossy();
    let port = addresses.first().map_or(0, SocketAddr::port);
    let id = format!("{}-{port}", name.chars().take(50).collect::<String>());
    // A name may begin with a digit, an id may not.
    id.parse().or_else(|_| format!("depot-{id}").parse())
}

/// A transfer takes four files; the usual soft limit of 1024 is soon reached, the hard one not.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit on open files stays as it is");
    }
}
