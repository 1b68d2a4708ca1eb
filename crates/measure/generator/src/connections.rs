// SPDX-License-Identifier: GPL-2.0-or-later
//! TCP traffic: files that arrive over connections of their own, and connections that are on and off by turns.
//!
//! Each namespace has one thread, which has entered it, with a runtime for all its connections. A client asks for a number of
//! bytes, and the server at the other end sends as many zeros, or goes on and off without end. Clients let the kernel discard
//! what arrives (`MSG_TRUNC`, tcp(7)), and close by a reset when they have everything, so that no port stays in TIME-WAIT.
//!
//! Limits: the runtime's timers have a resolution of 1 ms. A file whose client starts more than [`LATE`] after its time is counted
//! as late.

mod ends;

use crate::sys;
use host::Namespace;
use std::{
    cell::RefCell,
    collections::BTreeMap,
    io,
    net::{SocketAddr, TcpListener},
    rc::Rc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use tokio::{runtime::Builder, sync::oneshot, task::LocalSet};

/// A client that starts later than this after its file's time is late.
pub const LATE: Duration = Duration::from_millis(10);

/// What a source does.
pub enum Pattern {
    /// Files: the size of each, and the time until the next one's client starts.
    Files(Box<dyn Iterator<Item = (u64, Duration)> + Send>),
    /// One connection: how long it is on, and then off.
    OnOff(Box<dyn Iterator<Item = (Burst, Duration)> + Send>),
}

/// How long a connection is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Burst {
    /// As much as goes in this time.
    Time(Duration),
    /// Until this number of bytes is acknowledged.
    Bytes(u64),
}

/// A source: which namespace sends to which, from which address, and when.
pub struct Source<'a> {
    /// The namespace that sends, with the address that it serves at; none where another machine sends. Port 0 is one of the
    /// kernel's choice, where both ends are here.
    pub from: (Option<&'a Namespace>, SocketAddr),
    /// The namespace that receives; none where another machine receives.
    pub to: Option<&'a Namespace>,
    /// Congestion control of the sender.
    pub cc: &'a str,
    /// When it begins, counted from the start of all sources.
    pub start: Duration,
    /// What it does.
    pub pattern: Pattern,
}

/// What became of a source.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Bytes that arrived, also of incomplete files.
    pub bytes: u64,
    /// The files whose clients started.
    pub files: Vec<File>,
    /// Of those, the ones whose clients started more than [`LATE`] after their time.
    pub late: u64,
    /// The longest that one started after its time.
    pub lateness_max: Duration,
    /// Connections that failed, and why the first did.
    pub failed: u64,
    /// The first failure.
    pub first_failure: Option<String>,
}

/// A file that was offered.
#[derive(Debug, Clone, Copy)]
pub struct File {
    /// When its client started.
    pub start: Instant,
    /// Its size.
    pub size: u64,
    /// Whether it was asked for before the end.
    pub was_asked_for: bool,
    /// From the start until the client had all of it; `None` if the end came before.
    pub completion: Option<Duration>,
}

/// What tasks of one thread share.
type Shared = Rc<RefCell<Report>>;

/// A task of a namespace's thread.
enum Task {
    Serve(TcpListener, ends::Server),
    Receive { source: usize, client: ends::Client },
}

/// Sources whose sockets are open.
#[derive(Default)]
pub struct Connections {
    /// By the namespaces' numbers.
    threads: BTreeMap<u64, (Option<Namespace>, Vec<Task>)>,
    sources: usize,
}

impl Connections {
    /// Adds a source, and listens for it.
    ///
    /// # Errors
    /// The namespaces can't be entered, the port is taken, or there are no more descriptors.
    pub fn add(&mut self, source: Source<'_>) -> io::Result<()> {
        let Source { from: (from, address), to, cc, start, pattern } = source;
        let mut server = address;
        let (arrivals, bursts) = match pattern {
            Pattern::Files(arrivals) => (Some(arrivals), None),
            Pattern::OnOff(bursts) => (None, Some(bursts)),
        };
        if let Some(from) = from {
            let listener = from.run(|| TcpListener::bind(address))?;
            listener.set_nonblocking(true)?;
            server = listener.local_addr()?;
            let serve = Task::Serve(listener, ends::Server { cc: cc.to_owned(), bursts });
            self.tasks(from)?.push(serve);
        }
        if let Some(to) = to {
            let client = ends::Client { server, start, arrivals };
            let receive = Task::Receive { source: self.sources, client };
            self.tasks(to)?.push(receive);
        }
        self.sources += 1;
        Ok(())
    }

    fn tasks(&mut self, namespace: &Namespace) -> io::Result<&mut Vec<Task>> {
        let (own, tasks) = self.threads.entry(namespace.inode()?).or_default();
        if own.is_none() {
            *own = Some(Namespace::of_process(std::process::id(), namespace.descriptor())?);
        }
        Ok(tasks)
    }

    /// Starts all sources, which count their time from `begun`.
    ///
    /// # Errors
    /// No more threads.
    pub fn start(self, begun: Instant) -> io::Result<Running> {
        let mut running = Running { threads: Vec::new(), sources: self.sources };
        sys::allow_all_descriptors()?;
        for (namespace, tasks) in self.threads.into_values() {
            let namespace = namespace.expect("opened with its first task");
            let (stop, stopped) = oneshot::channel();
            let work = move || namespace.run(|| run(tasks, begun, stopped));
            let handle = thread::Builder::new().name("connections".into()).spawn(work)?;
            running.threads.push(Thread { stop, handle });
        }
        Ok(running)
    }
}

/// The reports of a thread's sources, by their numbers.
type Reports = Vec<(usize, Report)>;

/// Sources at work. Dropping it ends them.
pub struct Running {
    threads: Vec<Thread>,
    sources: usize,
}

/// A namespace's thread, which ends when `stop` is dropped.
struct Thread {
    stop: oneshot::Sender<()>,
    handle: JoinHandle<io::Result<Reports>>,
}

impl Running {
    /// Ends all sources. Answers a report for each, in the order in which they were added.
    ///
    /// # Errors
    /// A thread could not enter its namespace.
    pub fn finish(mut self) -> io::Result<Vec<Report>> {
        let mut reports = vec![Report::default(); self.sources];
        for ended in self.join() {
            for (source, report) in ended? {
                reports[source] = report;
            }
        }
        Ok(reports)
    }

    fn join(&mut self) -> Vec<io::Result<Reports>> {
        let stopped = |Thread { stop, handle }| {
            drop(stop);
            handle
        };
        let handles: Vec<_> = self.threads.drain(..).map(stopped).collect();
        let joined = handles.into_iter().map(JoinHandle::join);
        joined.map(|ended| ended.expect("a thread of traffic does not panic")).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Their errors were for `finish`.
        self.join();
    }
}

/// A namespace's thread, until `stopped`.
fn run(tasks: Vec<Task>, begun: Instant, stopped: oneshot::Receiver<()>) -> io::Result<Reports> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    let mut reports: Vec<(usize, Shared)> = Vec::new();
    local.block_on(&runtime, async {
        for task in tasks {
            match task {
                Task::Serve(listener, server) => {
                    tokio::task::spawn_local(
                        server.serve(tokio::net::TcpListener::from_std(listener)?),
                    );
                }
                Task::Receive { source, client } => {
                    let report = Shared::default();
                    reports.push((source, Rc::clone(&report)));
                    tokio::task::spawn_local(client.receive(begun, report));
                }
            }
        }
        // The sender is dropped, not used.
        let _ = stopped.await;
        Ok::<_, io::Error>(())
    })?;
    // With its tasks, which hold the reports too.
    drop(local);
    Ok(reports.into_iter().map(|(source, report)| (source, report.take())).collect())
}
