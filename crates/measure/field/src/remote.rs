// SPDX-License-Identifier: GPL-2.0-or-later
//! A host as the engine sees it: reached by ssh, given this program, and asked through its guard.

use crate::{
    clock::{ClockOffset, Clocks, Exchange, monotonic_ns},
    error::FieldError,
    hosts::{Host, Hosts},
    message::{
        Answer, Ask, Facts, GREETING, Hello, LONGEST, PathMeasured, Reservation, Setting, VERSION,
        line,
    },
    pack,
};
use openssh::{
    Child, ChildStdin, ChildStdout, ControlPersist, KnownHosts, Session, SessionBuilder, Stdio,
};
use std::{
    collections::BTreeMap,
    env, fs, io,
    net::{IpAddr, SocketAddr},
    num::NonZeroUsize,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    time::timeout,
};
use units::text::{hexadecimal, printable};

/// How long ssh may take to connect.
const CONNECT: Duration = Duration::from_secs(15);
/// How long ssh stays without anything to do, in seconds.
const IDLE: NonZeroUsize = NonZeroUsize::new(30).expect("it is not zero");
/// How long a guard may take to answer.
const ANSWER: Duration = Duration::from_secs(30);
/// How long a guard may take to end.
const ENDING: Duration = Duration::from_secs(15);
/// How long this program may take to get there.
const COPY: Duration = Duration::from_secs(600);
/// What a shell's start-up files may print before the guard, in bytes.
const NOISE: u64 = 64 << 10;
/// Exchanges by which a clock is compared.
const EXCHANGES: usize = 8;
/// The longest text of a host that is shown, in characters.
const SHOWN: usize = 400;

/// This program, for the processors of hosts.
#[derive(Debug)]
pub struct Program {
    /// By architecture: where it is, and its SHA-256.
    by_architecture: BTreeMap<String, (PathBuf, String)>,
}

impl Program {
    /// This program itself, and those that `hosts` names for other processors.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn of(hosts: &Hosts, own: PathBuf) -> Result<Self, FieldError> {
        let own_architecture = rustix::system::uname().machine().to_string_lossy().into_owned();
        let own = [(own_architecture, own)];
        let all = hosts.binaries.iter().map(|(name, file)| (name.clone(), file.clone())).chain(own);
        let with_digest = |(name, file): (String, PathBuf)| {
            let failed = |e: io::Error| FieldError::Own(format!("{}: {e}", file.display()));
            let (_, digest) = pack::sha256_of(&file).map_err(failed)?;
            Ok((name, (file, digest)))
        };
        Ok(Self { by_architecture: all.map(with_digest).collect::<Result<_, FieldError>>()? })
    }
}

/// A host whose guard is at work.
#[derive(Debug)]
pub struct Remote {
    host: Host,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Settings that its guard has put back after an earlier one.
    put_back: usize,
    /// The guard ends with it, and the connection.
    guard: Child<Arc<Session>>,
}

impl Remote {
    /// Goes there, brings the program if it is not there yet, and starts the guard.
    ///
    /// # Errors
    /// It is not reached, or lacks something.
    pub async fn reach(host: &Host, hosts: &Hosts, program: &Program) -> Result<Self, FieldError> {
        let session = Arc::new(connect(host, hosts).await?);
        let file = deploy(&session, host, program).await?;
        let mut command = Arc::clone(&session).arc_raw_command("exec");
        if host.sudo {
            command.raw_arg("sudo -n");
        }
        command.arg(&file).args(["guard", "--directory"]).arg(host.directory.to_string_lossy());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            command.spawn().await.map_err(|error| unreached(host, &error.to_string()))?;
        let pipe = "it is piped";
        let (input, output) =
            (child.stdin().take().expect(pipe), child.stdout().take().expect(pipe));
        let mut errors = child.stderr().take().expect(pipe);
        let mut remote = Self {
            host: host.clone(),
            input,
            output: BufReader::new(output),
            put_back: 0,
            guard: child,
        };
        match timeout(ANSWER, remote.hello()).await {
            Ok(Ok(hello)) if hello.longhaul_guard == VERSION => remote.put_back = hello.put_back,
            Ok(Ok(hello)) => {
                return Err(remote.unexpected(&format!("version {}", hello.longhaul_guard)));
            }
            // What it says on standard error is the reason.
            Ok(Err(_)) | Err(_) => {
                let mut said = String::new();
                let mut errors = errors.take(NOISE);
                let _ = timeout(Duration::from_secs(2), errors.read_to_string(&mut said)).await;
                return Err(no_guard(host, &said));
            }
        }
        // Further text is discarded, so that it does not block.
        tokio::spawn(async move { tokio::io::copy(&mut errors, &mut tokio::io::sink()).await });
        Ok(remote)
    }

    /// The host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Settings that its guard has put back after an earlier one, that was killed together with its keeper.
    pub fn put_back(&self) -> usize {
        self.put_back
    }

    /// What kind of host it is.
    ///
    /// # Errors
    /// The guard is gone.
    pub async fn facts(&mut self) -> Result<Facts, FieldError> {
        match self.ask(&Ask::Facts).await? {
            Answer::Facts(facts) => Ok(*facts),
            other => Err(self.unexpected(&format!("{other:?}"))),
        }
    }

    /// How far its clocks are ahead of this host's.
    ///
    /// # Errors
    /// The guard is gone.
    pub async fn clocks(&mut self) -> Result<Clocks, FieldError> {
        let mut exchanges = [const { Vec::new() }; 2];
        for _ in 0..EXCHANGES {
            let (realtime, monotonic) = (now_ns(), monotonic_ns());
            let answer = self.ask(&Ask::Clock).await?;
            let took_ns = monotonic_ns() - monotonic;
            let Answer::Clock { realtime_ns, monotonic_ns } = answer else {
                return Err(self.unexpected(&format!("{answer:?}")));
            };
            let there = [(realtime, realtime_ns), (monotonic, monotonic_ns)];
            for (all, (asked, there)) in exchanges.iter_mut().zip(there) {
                let answered = asked.saturating_add(took_ns);
                all.push(Exchange { asked, there, answered });
            }
        }
        let [realtime, monotonic] =
            exchanges.map(|exchanges| ClockOffset::of(&exchanges).expect("there were exchanges"));
        Ok(Clocks { realtime, monotonic })
    }

    /// Takes it for an experiment. If nothing is asked for the lease, the guard puts everything back and ends.
    ///
    /// # Errors
    /// Another experiment has it, or the guard is gone.
    pub async fn reserve(
        &mut self,
        reservation: &Reservation,
        lease: Duration,
    ) -> Result<(), FieldError> {
        let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        let node = self.host.node.clone();
        match self.ask(&Ask::Reserve { reservation: reservation.clone(), lease_ms }).await? {
            Answer::Done => Ok(()),
            Answer::Busy { by } => Err(FieldError::Busy { node, by: shown(&by) }),
            Answer::Failed { why } => Err(FieldError::Lacks { node, lacks: one_line(&why) }),
            other => Err(self.unexpected(&format!("{other:?}"))),
        }
    }

    /// Makes settings, and reads them back.
    ///
    /// # Errors
    /// One is not made, or the guard is gone.
    pub async fn set(
        &mut self,
        settings: Vec<(String, String)>,
    ) -> Result<Vec<Setting>, FieldError> {
        let node = self.host.node.clone();
        match self.ask(&Ask::Set { settings }).await? {
            Answer::Settings { settings } => Ok(settings),
            Answer::Failed { why } => Err(FieldError::Setting { node, what: one_line(&why) }),
            other => Err(self.unexpected(&format!("{other:?}"))),
        }
    }

    /// The engine is still there.
    ///
    /// # Errors
    /// The guard is gone.
    pub async fn ping(&mut self) -> Result<(), FieldError> {
        match self.ask(&Ask::Ping).await? {
            Answer::Done => Ok(()),
            other => Err(self.unexpected(&format!("{other:?}"))),
        }
    }

    /// Has it answer the datagrams of an address that have a token; with the port.
    ///
    /// # Errors
    /// It cannot listen, or the guard is gone.
    pub async fn serve(&mut self, from: IpAddr, token: u64) -> Result<u16, FieldError> {
        match self.ask(&Ask::Serve { from, token }).await? {
            Answer::Serves { port } => Ok(port),
            other => Err(self.path_fails(&other)),
        }
    }

    /// Has it measure the path to a host that serves.
    ///
    /// # Errors
    /// The host does not answer, or the guard is gone.
    pub async fn measure(
        &mut self,
        (to, token): (SocketAddr, u64),
        rate_bps: Option<u64>,
        time: Duration,
    ) -> Result<PathMeasured, FieldError> {
        let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        match self.ask(&Ask::Measure { to, token, rate_bps, time_ms }).await? {
            Answer::Path(measured) => Ok(measured),
            other => Err(self.path_fails(&other)),
        }
    }

    fn path_fails(&self, answer: &Answer) -> FieldError {
        match answer {
            Answer::Failed { why } => {
                FieldError::Path { node: self.host.node.clone(), why: one_line(why) }
            }
            other => self.unexpected(&format!("{other:?}")),
        }
    }

    /// Has it do something of which there is nothing to tell.
    pub(crate) async fn order(&mut self, ask: &Ask) -> Result<(), FieldError> {
        match self.part(ask).await? {
            Answer::Done => Ok(()),
            other => Err(self.unexpected(&format!("{other:?}"))),
        }
    }

    /// Asks for something of a part of a run.
    pub(crate) async fn part(&mut self, ask: &Ask) -> Result<Answer, FieldError> {
        match self.ask(ask).await? {
            Answer::Failed { why } => {
                Err(FieldError::Part { node: self.host.node.clone(), why: one_line(&why) })
            }
            other => Ok(other),
        }
    }

    /// Has everything put back, and the host free.
    ///
    /// # Errors
    /// A setting is not put back, or the guard is gone.
    pub async fn release(&mut self) -> Result<(), FieldError> {
        let node = self.host.node.clone();
        match self.ask(&Ask::Release).await? {
            Answer::Done => Ok(()),
            Answer::Failed { why } => Err(FieldError::Setting { node, what: one_line(&why) }),
            other => Err(self.unexpected(&format!("{other:?}"))),
        }
    }

    /// Releases the host, and waits until its guard has ended.
    ///
    /// # Errors
    /// As of [`release`](Self::release).
    pub async fn end(mut self) -> Result<(), FieldError> {
        let released = self.release().await;
        drop(self.input);
        // How it ended does not matter any more.
        let _ = timeout(ENDING, self.guard.wait()).await;
        released
    }

    async fn ask(&mut self, ask: &Ask) -> Result<Answer, FieldError> {
        let node = self.host.node.clone();
        let gone = |why: String| FieldError::Gone { node: node.clone(), why: one_line(&why) };
        let exchange = async {
            self.input.write_all(&line(ask)).await?;
            self.input.flush().await?;
            read_line(&mut self.output).await
        };
        let answer = timeout(ANSWER, exchange).await;
        let text = answer.map_err(|_| gone("it does not answer".to_owned()))?;
        let text = text.map_err(|error| gone(error.to_string()))?;
        serde_json::from_slice(&text).map_err(|error| self.unexpected(&error.to_string()))
    }

    /// The guard's first line, behind what start-up files of the shell print.
    async fn hello(&mut self) -> io::Result<Hello> {
        let mut noise = 0;
        loop {
            let text = read_line(&mut self.output).await?;
            if text.starts_with(GREETING.as_bytes()) {
                return serde_json::from_slice(&text).map_err(io::Error::from);
            }
            noise += text.len() as u64;
            if noise > NOISE {
                return Err(io::Error::other("it prints too much"));
            }
        }
    }

    /// Its part of a run fails.
    pub(crate) fn fails(&self, why: &str) -> FieldError {
        FieldError::Part { node: self.host.node.clone(), why: why.to_owned() }
    }

    pub(crate) fn unexpected(&self, what: &str) -> FieldError {
        FieldError::Answer { node: self.host.node.clone(), what: one_line(what) }
    }
}

fn one_line(text: &str) -> String {
    printable(&text.replace('\n', " "), SHOWN)
}

async fn read_line(from: &mut BufReader<ChildStdout>) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    (&mut *from).take(LONGEST).read_until(b'\n', &mut text).await?;
    if text.ends_with(b"\n") { Ok(text) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn now_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

/// A text of another host may hold anything.
fn shown(by: &Reservation) -> Reservation {
    Reservation { owner: one_line(&by.owner), title: one_line(&by.title), until_s: by.until_s }
}

fn unreached(host: &Host, why: &str) -> FieldError {
    let (node, ssh) = (host.node.clone(), host.ssh.clone());
    FieldError::Unreached { node, ssh, why: one_line(why) }
}

/// Where sockets of ssh are: their paths must be short, which a home directory may not be. Folders of engines that were killed are
/// removed.
fn control_directory() -> PathBuf {
    let base = env::var_os("XDG_RUNTIME_DIR").map_or_else(env::temp_dir, PathBuf::from);
    let own = rustix::process::getuid().as_raw();
    for entry in fs::read_dir(&base).into_iter().flatten().flatten() {
        let is_one = entry.file_name().as_encoded_bytes().starts_with(b".ssh-connection");
        let Some(metadata) = entry.metadata().ok().filter(|it| is_one && it.is_dir()) else {
            continue;
        };
        let is_old =
            metadata.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > CONNECT));
        if metadata.uid() == own && is_old && !entry.path().join("master").exists() {
            // Another engine may be at it.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    base
}

async fn connect(host: &Host, hosts: &Hosts) -> Result<Session, FieldError> {
    let mut builder = SessionBuilder::default();
    builder.known_hosts_check(KnownHosts::Strict).connect_timeout(CONNECT);
    // Without the engine, the process of ssh that others share ends too.
    builder.control_persist(ControlPersist::IdleFor(IDLE));
    builder.control_directory(control_directory());
    if let Some(config) = &hosts.ssh_config {
        builder.config_file(config);
    }
    let connected = builder.connect(&host.ssh).await;
    connected.map_err(|error| {
        let mut why = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            why += &format!(": {cause}");
            source = cause.source();
        }
        unreached(host, &why)
    })
}

/// Brings the program there unless it is there already; with its path. It appears under its name when it is whole.
async fn deploy(
    session: &Arc<Session>,
    host: &Host,
    program: &Program,
) -> Result<String, FieldError> {
    let (status, architecture) = shell(session, host, "uname -m", None).await?;
    // Start-up files of the shell may have printed something before.
    let architecture = architecture.lines().last().unwrap_or_default().trim().to_owned();
    let lacks =
        |lacks: String| FieldError::Lacks { node: host.node.clone(), lacks: one_line(&lacks) };
    if !status {
        return Err(unreached(host, "there is no uname: is it a Linux host?"));
    }
    let (file, digest) = program.by_architecture.get(&architecture).ok_or_else(|| {
        lacks(format!(
            "its processor is {architecture}, and this program is not for that: name one in hosts.toml: binaries.{architecture} = \"FILE\""
        ))
    })?;
    let directory = quoted(&host.directory.to_string_lossy());
    let name = format!("{directory}/longhaul-{}", &digest[..16]);
    // Another user could exchange the program in a directory of theirs.
    let own = format!("[ -O {directory} ]");
    let check = format!("{own} && echo '{digest}  '{name} | sha256sum -c --status");
    if shell(session, host, &check, None).await?.0 {
        return Ok(unquoted(host, digest));
    }
    let content =
        fs::read(file).map_err(|e| FieldError::Own(format!("{}: {e}", file.display())))?;
    // Hosts may share the directory: a program that runs on another one must stay where it is.
    let token = host::random::<8>().map_err(|error| FieldError::Own(error.to_string()))?;
    let new = format!("{name}.{}", hexadecimal(&token));
    let take = format!(
        "umask 077 && mkdir -p {directory} && {{ {own} || {{ echo it is another user\\'s; exit 1; }}; }} && \
         cat > {new} && chmod 755 {new} && \
         echo '{digest}  '{new} | sha256sum -c --status || {{ rm -f {new}; exit 1; }}; \
         ln {new} {name} 2>/dev/null || echo '{digest}  '{name} | sha256sum -c --status || mv -f {new} {name}; \
         rm -f {new}; [ -e {name} ]"
    );
    let (is_there, said) = shell(session, host, &take, Some(&content)).await?;
    if is_there {
        return Ok(unquoted(host, digest));
    }
    let said = if said.trim().is_empty() { "it does not arrive whole".to_owned() } else { said };
    Err(lacks(format!("this program cannot be brought to {}: {said}", host.directory.display())))
}

fn unquoted(host: &Host, digest: &str) -> String {
    format!("{}/longhaul-{}", host.directory.to_string_lossy(), &digest[..16])
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Runs a line of a shell there; whether it succeeded, and what it printed, on standard error if that is all.
async fn shell(
    session: &Arc<Session>,
    host: &Host,
    script: &str,
    content: Option<&[u8]>,
) -> Result<(bool, String), FieldError> {
    let failed = |error: &dyn std::fmt::Display| unreached(host, &error.to_string());
    let mut command = Arc::clone(session).arc_command("sh");
    command
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let run = async {
        let mut child = command.spawn().await.map_err(|error| failed(&error))?;
        let mut input = child.stdin().take().expect("it is piped");
        let written = async move {
            // A program that ends before it has read all says why.
            let _ = input.write_all(content.unwrap_or_default()).await;
        };
        let (output, ()) = tokio::join!(child.wait_with_output(), written);
        let output = output.map_err(|error| failed(&error))?;
        let text =
            |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]).into_owned();
        let said = if output.stdout.is_empty() { &output.stderr } else { &output.stdout };
        Ok((output.status.success(), text(said)))
    };
    timeout(COPY, run).await.map_err(|_| failed(&"it takes too long"))?
}

/// Why no guard answers.
fn no_guard(host: &Host, said: &str) -> FieldError {
    let said = one_line(said.trim());
    if host.sudo && said.contains("password") {
        let lacks = "sudo asks for a password: allow it without for this user (NOPASSWD in sudoers), or leave out sudo";
        return FieldError::Lacks { node: host.node.clone(), lacks: lacks.to_owned() };
    }
    if said.contains("Permission denied") {
        let directory = host.directory.display();
        let lacks = format!(
            "programs do not run from {directory} (mounted noexec?): name another directory"
        );
        return FieldError::Lacks { node: host.node.clone(), lacks };
    }
    let why = if said.is_empty() { "it says nothing".to_owned() } else { said };
    FieldError::Gone { node: host.node.clone(), why }
}
