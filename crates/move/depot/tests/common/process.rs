// SPDX-License-Identifier: GPL-2.0-or-later
//! Depots and origins as real processes.
//!
//! A test program starts itself again with a role in its environment; [`role`], which is a test
//! like any other and does nothing otherwise, then becomes the daemon. So signals, open files and
//! memory are those of a real depot, and no other program has to be built first.

#![expect(unsafe_code, reason = "a system call filter, and rights given up")]

use super::PATIENCE;
use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener},
    os::fd::OwnedFd,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};
use testkit::until;

const ROLE: &str = "LONGHAUL_TEST_ROLE";
const SETTINGS: &str = "LONGHAUL_TEST_SETTINGS";
/// Where there is a file of this name, packets to all peers are paced below TCP, as far as a depot knows.
pub const PACED: &str = "LONGHAUL_TEST_PACED";

/// At which lines of its log a depot with defects panics.
const DEFECTS: [&str; 2] = ["another route", "stalled hop"];

/// Becomes a depot or an origin when asked to by the environment.
#[test]
fn role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    // However the test ends, its daemons do not outlive it.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    let log = longhaul_depot::StderrLog::new();
    let (writer, has_defects) = (log.clone(), role == "depot with defects");
    let writer = move || Logged { log: writer.clone(), has_defects };
    tracing_subscriber::fmt().with_writer(writer).with_ansi(false).init();
    let settings = std::env::var(SETTINGS).unwrap();
    match role.as_str() {
        "depot without splice" => forbid_splice(),
        "depot of a user" => become_a_user(),
        _ => {}
    }
    let result: Result<(), String> = match role.as_str() {
        "depot" | "depot without splice" | "depot of a user" | "depot with defects" => {
            // Again at SIGHUP: from a file, where the settings name one.
            let read = move || {
                let text = match settings.strip_prefix("file:") {
                    Some(file) => std::fs::read_to_string(file).map_err(|e| e.to_string())?,
                    None => settings.clone(),
                };
                longhaul_depot::Config::from_toml(&text, "settings").map_err(|e| e.to_string())
            };
            read().and_then(|config| {
                let run = longhaul_depot::run(config, Box::new(read), Arc::new(paced), &log);
                run.map_err(|e| e.to_string())
            })
        }
        "origin" | "listing origin" => {
            log.start();
            let list = role == "listing origin";
            origin::run(origin::Config { list, ..origin(&settings) }).map_err(|e| e.to_string())
        }
        "lead" => {
            log.start();
            let config = failover::Config::from_toml(&settings, "settings");
            config
                .map_err(|e| e.to_string())
                .and_then(|config| failover::run(config, false).map_err(|e| e.to_string()))
        }
        other => Err(format!("no role {other}")),
    };
    log.finish();
    if let Err(error) = result {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
    std::process::exit(0);
}

/// The log, which a depot with defects panics at instead of writing some lines: in the midst of what it does.
struct Logged {
    log: longhaul_depot::StderrLog,
    has_defects: bool,
}

impl Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        // What was not written because of a panic comes again, before the next line.
        let line = text.lines().last().unwrap_or_default();
        let defect = DEFECTS.iter().find(|defect| self.has_defects && line.contains(**defect));
        assert!(defect.is_none(), "a defect of the test");
        self.log.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.log.flush()
    }
}

/// Stands for the kernel.
fn paced(_: ipnet::IpNet, method: longhaul_depot::PacingMethod) -> Result<(), String> {
    let file = std::env::var_os(PACED).filter(|file| Path::new(file).exists());
    file.map(drop).ok_or_else(|| format!("nothing is paced by {method}"))
}

/// Makes splice(2) fail with ENOSYS in this thread and those that it starts, as some sandboxes do.
fn forbid_splice() {
    let statement = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut filter = [
        // The number of the system call is the first field of what a filter sees.
        statement((libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, 0, 0, 0),
        statement(
            (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
            0,
            1,
            libc::SYS_splice as u32,
        ),
        statement(
            (libc::BPF_RET | libc::BPF_K) as u16,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32,
        ),
        statement((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program and its statements live through the call, which copies them.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
    };
    assert_eq!(result, 0, "the filter is refused: {}", std::io::Error::last_os_error());
}

/// Drops root's rights for a user without other processes, so that user limits apply to this process alone.
fn become_a_user() {
    let user = 2_000_000_000 + std::process::id();
    // SAFETY: changes this process's own rights; the C library does it in all threads.
    let result = unsafe {
        assert_eq!(libc::setgroups(0, std::ptr::null()), 0, "only root can change its user");
        libc::setresgid(user, user, user) | libc::setresuid(user, user, user)
    };
    assert_eq!(result, 0, "no user {user}: {}", std::io::Error::last_os_error());
    // The signal is forgotten when rights change.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
}

/// An origin's settings: directory, form and depots, a word each.
fn origin(settings: &str) -> origin::Config {
    let mut words = settings.split('\n');
    origin::Config {
        dir: words.next().unwrap().into(),
        listen: "127.0.0.1:0".parse().unwrap(),
        form: match words.next() {
            Some("lead") => protocol::Form::Lead,
            _ => protocol::Form::Fetch,
        },
        via: words.map(|depot| depot.parse().unwrap()).collect(),
        public: None,
        list: false,
    }
}

/// Settings that open a depot for loopback, where they say nothing else.
fn opened(settings: &str) -> String {
    let open = if settings.contains("[allow]") {
        ""
    } else {
        "[allow]\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]\n\
         servers = [\"127.0.0.0/8:*\"]\nlocal = true\n"
    };
    format!("{settings}\n{open}")
}

/// A daemon; killed when dropped.
pub struct Daemon {
    child: Child,
    log: Arc<Log>,
    pub address: SocketAddr,
}

#[derive(Default)]
struct Log {
    lines: Mutex<Vec<String>>,
    more: Condvar,
}

impl Daemon {
    /// A depot with these lines of TOML besides `listen`, open for loopback.
    pub fn depot(settings: &str) -> Self {
        Self::depot_as("depot", settings)
    }

    /// The same where the kernel does not splice.
    pub fn depot_without_splice(settings: &str) -> Self {
        Self::depot_as("depot without splice", settings)
    }

    /// The same with defects: it panics where it would log another route or a stalled hop.
    pub fn depot_with_defects(settings: &str) -> Self {
        Self::depot_as("depot with defects", settings)
    }

    /// The same as a user without any rights.
    pub fn depot_of_a_user(settings: &str) -> Self {
        Self::depot_as("depot of a user", settings)
    }

    /// The same, started by a line of shell, as in [`command`](Self::command).
    pub fn depot_by(line: &str, settings: &str) -> Self {
        let settings = format!("listen = [\"127.0.0.1:0\"]\n{}", opened(settings));
        Self::launched(&mut Self::command(line, "depot", &settings))
            .unwrap_or_else(|log| panic!("{line}: the depot did not start:\n{log}"))
    }

    fn depot_as(role: &str, settings: &str) -> Self {
        Self::start(role, &format!("listen = [\"127.0.0.1:0\"]\n{}", opened(settings)))
    }

    /// A depot with these settings alone, open for loopback unless they say otherwise.
    pub fn depot_with(settings: &str) -> Self {
        Self::start("depot", &opened(settings))
    }

    /// An origin that serves `dir`, through `depots`, the one nearest the client first.
    pub fn origin(dir: &Path, form: &str, depots: &[&Daemon]) -> Self {
        let mut words = vec![dir.display().to_string(), form.to_owned()];
        words.extend(depots.iter().map(|depot| depot.authority()));
        Self::start("origin", &words.join("\n"))
    }

    /// The same in short form, with listings of directories.
    pub fn listing_origin(dir: &Path, depots: &[&Daemon]) -> Self {
        let mut words = vec![dir.display().to_string(), "fetch".to_owned()];
        words.extend(depots.iter().map(|depot| depot.authority()));
        Self::start("listing origin", &words.join("\n"))
    }

    /// A depot with this configuration file.
    pub fn of_file(file: &Path, text: &str) -> Self {
        std::fs::write(file, text).unwrap();
        Self::start("depot", &format!("file:{}", file.display()))
    }

    /// Has it read that file again, which says something else now.
    pub fn read_again(&self, file: &Path, text: &str) {
        let times = || self.log_text().matches("configuration read again").count();
        let before = times();
        std::fs::write(file, text).unwrap();
        self.signal(rustix::process::Signal::HUP);
        until("the configuration is read again", || times() > before);
    }

    fn start(role: &str, settings: &str) -> Self {
        Self::launch(role, settings)
            .unwrap_or_else(|log| panic!("the {role} did not start:\n{log}"))
    }

    /// Starts a daemon and awaits its `ready`; its log where it ends instead.
    pub fn launch(role: &str, settings: &str) -> Result<Self, String> {
        Self::launched(&mut Self::command("exec \"$0\" \"$@\"", role, settings))
    }

    /// What starts a daemon by a line of shell, in which `"$0" "$@"` is the daemon.
    pub fn command(line: &str, role: &str, settings: &str) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", line])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "common::process::role", "--nocapture"])
            .env(ROLE, role)
            .env(SETTINGS, settings)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    /// A depot that is handed a listener as systemd does it.
    pub fn activated(listener: &TcpListener, settings: &str) -> Self {
        // By way of its standard input: no other test's program inherits it, and a shell may know no
        // number of a descriptor above 9.
        let line = "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\" 3<&0 </dev/null";
        let mut command = Self::command(line, "depot", settings);
        command.stdin(OwnedFd::from(listener.try_clone().unwrap()));
        Self::launched(&mut command).unwrap()
    }

    /// As [`launch`](Self::launch), by a command.
    pub fn launched(command: &mut Command) -> Result<Self, String> {
        let mut child = command.spawn().unwrap();
        let log = Arc::new(Log::default());
        let (stderr, kept) = (child.stderr.take().unwrap(), Arc::clone(&log));
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                kept.push(line);
            }
            kept.push("(end of log)".to_owned());
        });
        let mut daemon = Self { child, log, address: ([0; 4], 0).into() };
        let line = daemon.await_line(&|line| line.contains(" ready ") || line == "(end of log)");
        let listen = line
            .split("listen=")
            .nth(1)
            .and_then(|l| l.split(['"', ' ', ',']).find(|w| !w.is_empty()));
        match listen.and_then(|listen| listen.parse().ok()) {
            Some(address) => daemon.address = address,
            None => return Err(daemon.log_text()),
        }
        Ok(daemon)
    }

    /// `host:port`.
    pub fn authority(&self) -> String {
        self.address.to_string()
    }

    /// The URL of a path here.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The address of the listener for operators, where there is one.
    pub fn admin(&self) -> SocketAddr {
        let ready = self.await_log(&[" ready "]);
        let address = ready.split("admin=\"").nth(1).and_then(|rest| rest.split('"').next());
        address.and_then(|address| address.parse().ok()).unwrap_or_else(|| panic!("{ready}"))
    }

    /// What that listener says of the depot.
    pub fn status(&self) -> longhaul_depot::status::Status {
        longhaul_depot::fetch_status(&self.admin().to_string()).unwrap().0
    }

    /// Awaits that checks have found these depots of detours up, or down, and name no others. It needs an admin
    /// listener.
    pub fn await_detours(&self, expected: &[(SocketAddr, bool)]) {
        let mut expected: Vec<_> =
            expected.iter().map(|(depot, up)| (depot.to_string(), *up)).collect();
        expected.sort();
        until(&format!("detours are {expected:?}"), || {
            let found = self.status().detours.into_iter();
            found.map(|it| (it.depot, it.up)).eq(expected.iter().cloned())
        });
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Awaits a line of the log that contains all of `parts`; it may have been written already. That a slow transfer has
    /// begun counts only if it is asked for.
    pub fn await_log(&self, parts: &[&str]) -> String {
        let wants_beginnings = parts.iter().any(|part| part.contains("begun"));
        self.await_line(&|line| {
            parts.iter().all(|part| line.contains(part))
                && (wants_beginnings || !is_beginning(line))
        })
    }

    fn await_line(&self, found: &dyn Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        let mut lines = self.log.lines();
        loop {
            if let Some(line) = lines.iter().find(|line| found(line)) {
                return line.clone();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "the line awaited did not come, but:\n{}", lines.join("\n"));
            lines = self.log.more.wait_timeout(lines, left).unwrap().0;
        }
    }

    /// The log so far, without that slow transfers have begun: which those are depends on the machine.
    pub fn log_text(&self) -> String {
        let lines = self.log.lines();
        let lines = lines.iter().filter(|line| !is_beginning(line)).cloned();
        lines.collect::<Vec<_>>().join("\n")
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Awaits the end of the process.
    pub fn wait(&mut self) -> ExitStatus {
        self.await_log(&["(end of log)"]);
        self.child.wait().unwrap()
    }

    /// Processor time used so far, in user and kernel mode together.
    pub fn cpu_time(&self) -> std::time::Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        // The program's name, in brackets, may hold anything; utime and stime are fields 14 and 15.
        let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
        let ticks: u32 = fields[11..13].iter().map(|field| field.parse::<u32>().unwrap()).sum();
        // SAFETY: asks a number of the C library.
        let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        std::time::Duration::from_secs(1) * ticks / per_second as u32
    }

    /// How many descriptors the process has open.
    pub fn open_files(&self) -> usize {
        self.descriptors().len()
    }

    /// What each descriptor of the process stands for. One that was just closed stands for nothing.
    pub fn descriptors(&self) -> Vec<Option<std::path::PathBuf>> {
        let listed = std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap();
        listed.map(|entry| std::fs::read_link(entry.unwrap().path()).ok()).collect()
    }
}

fn is_beginning(line: &str) -> bool {
    line.contains(" INFO begun ")
}

impl Log {
    /// A test that failed elsewhere still wants to show the log.
    fn lines(&self) -> MutexGuard<'_, Vec<String>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: String) {
        self.lines().push(line);
        self.more.notify_all();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let lines = self.log.lines();
            let last = &lines[lines.len().saturating_sub(30)..];
            eprintln!("the last lines of {}:\n{}", self.address, last.join("\n"));
        }
    }
}
