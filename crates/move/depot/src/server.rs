// SPDX-License-Identifier: GPL-2.0-or-later
//! The daemon: listeners, limits, signals, drain.

use crate::{
    acceptor::Acceptor,
    admission::{Admission, identity::Identity},
    announcing, buffers,
    config::Config,
    control::{
        self, Origin,
        kept::{Decisions, Kept},
    },
    detour_checks,
    error::Error,
    file_rights,
    handover::{self, Offer},
    hop_sockets::{self},
    host_findings,
    inheritance::Inheritance,
    lifecycle::{Lifecycle, Phase},
    listeners::{self, Listeners},
    next_hops::NextHops,
    observe::{self, Observer, StderrLog, View},
    packet_pacing::{Paced, Pacers},
    peer_load,
    private_socket::PrivateSocket,
    session::Meetings,
    settings::Settings,
    state::Shared,
    stored, takeover,
    transfers::Transfers,
    upkeep, warm,
};
use protocol::{DepotId, DepotIdError};
use relay::{
    buffers::KernelMemory,
    copy::{RelayResources, pipe::Pipes},
};
use sd_notify::NotifyState;
use std::{
    io,
    net::SocketAddr,
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{Arc, RwLock, Weak},
    time::{Duration, Instant},
};
use tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
    signal::unix::{Signal, SignalKind, signal},
    sync::{mpsc, watch},
};

/// Depots that do not say what number their last transfer has are taken to have had fewer.
const LAST_NUMBER_OF_EARLIER_VERSIONS: u64 = 1_000_000_000;

/// A depot that listens.
#[derive(Debug)]
pub struct Depot {
    listeners: Listeners,
    shared: Arc<Shared>,
    phase: watch::Sender<Phase>,
    offer: Option<Offer>,
    control: Option<PrivateSocket>,
}

/// Reads the configuration again; the text says why that failed.
pub type Reread = Box<dyn Fn() -> Result<Config, String> + Send + Sync>;

/// Runs a depot until SIGTERM or SIGINT, or until a successor takes over. It then stops accepting and finishes
/// requests under way, up to the drain time. A second signal ends it immediately. SIGHUP makes it reload its
/// configuration and reopen its log. Call it before any thread is started. It starts `log`, to which `tracing`
/// writes, and finishes it. `pacers` checks whether hops are paced below TCP as configured.
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

/// Reloads the configuration at each signal. An unusable one leaves the old one in force.
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
            Settings::new(config, shared.next_hops.paced.pacers())
                .map_err(|error| error.to_string())
        };
        let read = reread().and_then(checked);
        match read {
            Ok(settings) => {
                host_findings::warn_of_new(&shared.config(), &settings.config);
                let waiting = shared.replace(settings).join(", ");
                hop_sockets::listeners(&listeners, &shared.config());
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

/// Notifies systemd, if it started the depot.
fn tell(state: &[NotifyState<'_>]) {
    // Without a service manager there is no socket, and no error matters.
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

/// Checks a configuration by itself and against this host, with the rights of this process, without starting or
/// changing anything.
///
/// # Errors
/// The configuration is wrong, or the host cannot do as it says.
pub fn check(config: Config, pacers: &Pacers) -> Result<(), Error> {
    file_rights::check_access_log(&config)?;
    stored::check(config.store.as_ref())?;
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
        given: Vec<OwnedFd>,
        pacers: Pacers,
        log: StderrLog,
    ) -> Result<Self, Error> {
        let settings = Settings::new(config, &pacers)?;
        let config = Arc::clone(&settings.config);
        host_findings::warn_of_host_settings(&config);
        let failed = |path: &PathBuf, error| Error::Handover { path: path.clone(), error };
        let mut predecessor = match &config.handover {
            Some(path) => handover::take(path).map_err(|error| failed(path, error))?,
            None => handover::Taken::default(),
        };
        let listeners = Listeners::new(&config, given, std::mem::take(&mut predecessor.listeners))?;
        let id = match &config.id {
            Some(id) => id.parse()?,
            None => default_id(&listeners.addresses())?,
        };
        let (phase, told) = watch::channel(Phase::Serving);
        let (kept, decisions) = Kept::new(config.control.state_file());
        let paced = Paced::new(&config, pacers);
        let memory = config.limits.memory.get() as usize;
        let pipes = Pipes::new(config.limits.pipe.get() as usize, memory);
        let identity = Identity::new(listeners.for_clients());
        let stored = stored::open(config.store.as_ref())?;
        let listeners_stay = listeners.clients.iter().any(|it| it.is_kept);
        let shared = Arc::new(Shared {
            started: Arc::clone(&config),
            settings: RwLock::new(Arc::new(settings)),
            id,
            admission: Admission::new(identity, &config),
            transfers: Transfers {
                kernel_memory: KernelMemory::new(memory, Arc::clone(&pipes)),
                resources: RelayResources { mode: config.copy, pipes },
                stripes: Arc::default(),
                meetings: Meetings::default(),
            },
            stored,
            observer: Observer::new(&config, Arc::clone(&paced), log)?,
            next_hops: NextHops::new(paced),
            lifecycle: Lifecycle::new(told, kept, listeners_stay),
        });
        let offer = config
            .handover
            .as_ref()
            .map(|path| Offer::new(path).map_err(|error| failed(path, error)));
        let mut offer = offer.transpose()?;
        let refused = |path: &PathBuf, error| Error::Control { path: path.clone(), error };
        let control = config
            .control
            .socket
            .as_ref()
            .map(|path| PrivateSocket::unpublished(path).map_err(|error| refused(path, error)));
        let mut control = control.transpose()?;
        // From here on the predecessor accepts nothing, so that what may fail comes before.
        if let Some(path) = &config.handover {
            let inherited = predecessor.inherit().map_err(|error| failed(path, error))?;
            Self::begin(inherited, decisions, predecessor.is_of_earlier_version(), &shared);
        } else {
            Self::begin(None, decisions, false, &shared);
        }
        if let (Some(offer), Some(path)) = (&mut offer, &config.handover) {
            offer.publish().map_err(|error| failed(path, error))?;
        }
        if let (Some(control), Some(path)) = (&mut control, &config.control.socket) {
            control.publish().map_err(|error| refused(path, error))?;
        }
        predecessor.confirm();
        Ok(Self { listeners, shared, phase, offer, control })
    }

    /// Applies what is inherited, or else what was kept, and counts what depots before this one have.
    fn begin(
        inherited: Option<Inheritance>,
        kept: Decisions,
        from_earlier_version: bool,
        shared: &Shared,
    ) {
        let writes = inherited.is_some() || shared.lifecycle.kept.is_bad();
        match inherited {
            Some(inherited) => inherited.apply(shared),
            None => control::decide(kept, &shared.admission),
        }
        if from_earlier_version {
            control::sharing::number_after(LAST_NUMBER_OF_EARLIER_VERSIONS, 0, &shared.observer);
        }
        if writes
            && let Err(error) = shared.lifecycle.kept.write(|| control::decided(&shared.admission))
        {
            tracing::error!(error, "denials and limits apply, and cannot be kept");
        }
        control::sharing::begin(shared);
    }

    /// Serves until `signal` resolves, or another depot has taken over; then drains until all is done,
    /// the drain time is over, or `signal` resolves (again).
    async fn serve(self, signal: &mut impl AsyncFnMut()) {
        let Self { listeners, shared, phase, offer, control } = self;
        let (alive, mut all_done) = mpsc::channel::<()>(1);
        let while_alive = alive.downgrade();
        let door = Acceptor::new(Arc::clone(&shared), alive);
        let offered = match &offer {
            Some(_) => listeners.copies(),
            None => Ok(Vec::new()),
        };
        // Not before now: until this depot serves, they may be another's.
        hop_sockets::listeners(&listeners.accepting(), &shared.config());
        announce(&listeners, &shared);
        tokio::spawn(upkeep::keep(Arc::clone(&shared)));
        tokio::spawn(upkeep::note_limits(Arc::clone(&shared)));
        tokio::spawn(warm::keep(Arc::clone(&shared)));
        tokio::spawn(peer_load::watch(Arc::clone(&shared)));
        tokio::spawn(detour_checks::run(Arc::clone(&shared)));
        tokio::spawn(announcing::keep(Arc::clone(&shared)));
        tokio::spawn(buffers::govern(Arc::clone(&shared)));
        tokio::spawn(control::sharing::keep(Arc::clone(&shared)));
        tokio::spawn(stored::keep(Arc::clone(&shared.stored)));
        if let Some(socket) = control {
            let (shared, alive) = (Arc::clone(&shared), while_alive.clone());
            tokio::spawn(control::serve(socket, Origin::Operator, shared, alive));
        }
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
                (Some(offer), Ok(listeners)) => {
                    takeover::succeeded(offer, &listeners, (&shared, &phase), &while_alive).await
                }
                (Some(_), Err(error)) => {
                    tracing::warn!(%error, "this depot cannot be taken over from");
                    std::future::pending().await
                }
                (None, _) => std::future::pending().await,
            }
        };
        let (why, _asked) = tokio::select! {
            () = signal() => (Phase::Stopping, None),
            asked = taken => (Phase::Succeeded, asked),
        };
        drop(offer);
        phase.send_replace(why);
        let drain = Duration::from(shared.config().timeouts.drain);
        let seconds = drain.as_secs_f64();
        let _ = shared.lifecycle.drains_until.set(Instant::now() + drain);
        if why == Phase::Succeeded {
            tracing::info!(seconds, "another depot has taken over: finishing transfers under way");
            shared.stored.hand_over().await;
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
        if why == Phase::Succeeded {
            shared.lifecycle.sharing.say_over().await;
        }
    }
}

/// Logs the listening addresses.
fn announce(listeners: &Listeners, shared: &Shared) {
    let config = shared.config();
    let listen: Vec<_> = listeners.addresses().iter().map(ToString::to_string).collect();
    let ports: Vec<_> = listeners.ports().iter().map(ToString::to_string).collect();
    let ports = Some(ports.join(",")).filter(|ports| !ports.is_empty());
    let admin = listeners.admin.as_ref().and_then(|listener| listener.local_addr().ok());
    tracing::info!(
        id = shared.id.as_str(),
        listen = listen.join(","),
        ports = ports.as_deref(),
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
