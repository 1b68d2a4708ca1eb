// SPDX-License-Identifier: GPL-2.0-or-later
//! A network that stays up in the background, for a person to try programs on.
//!
//! A process of its own holds it and answers on a Unix socket, `/run/longhaul/wan-NAME.sock`: one
//! request a connection, a word, answered by a line of JSON. When that process ends, for whatever
//! reason, the network is gone. `kill -9` leaves a socket behind on which no process answers;
//! the next `up` replaces it. If several processes want one name, the holder of its lock gets it.

#![expect(unsafe_code, reason = "a network goes into the background by fork(2)")]

use crate::{
    Health, Snapshot, Wan, WanError,
    network::LinkStatus,
    node::NodeAddress,
    run_files::{self, NameLock},
    sys,
};
use host::{Lack, Namespace};
use rustix::event::{PollFd, PollFlags, poll};
use scenario::Run;
use serde::{Deserialize, Serialize};
use std::{
    env,
    ffi::OsString,
    fmt,
    fs::File,
    io::{self, BufRead, BufReader, Read, Write},
    os::{
        fd::OwnedFd,
        unix::{
            net::{UnixListener, UnixStream},
            process::CommandExt,
        },
    },
    path::PathBuf,
    process::Command,
    str::FromStr,
    time::{Duration, Instant},
};

/// Name that identifies a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkName(String);

/// A text that is not a name for a network.
#[derive(Debug, thiserror::Error)]
#[error("\"{0}\" is not a name for a network: use letters, digits, - and _, 40 at most")]
pub struct InvalidName(String);

impl FromStr for NetworkName {
    type Err = InvalidName;

    fn from_str(name: &str) -> Result<Self, InvalidName> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > 40 || !name.chars().all(plain) {
            return Err(InvalidName(name.to_owned()));
        }
        Ok(Self(name.to_owned()))
    }
}

impl fmt::Display for NetworkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Status of a network in the background.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Status {
    /// Its name, as given to `up`.
    pub name: String,
    /// The scenario's title.
    pub title: String,
    /// The process that holds it.
    pub pid: u32,
    /// How long it has been up.
    pub up_s: f64,
    /// The file that commands on the nodes see as `/etc/hosts`.
    pub hosts: PathBuf,
    /// Its nodes.
    pub nodes: Vec<NodeAddress>,
    /// Its links, each direction.
    pub links: Vec<LinkStatus>,
    /// How the emulator keeps up.
    pub emulator: Health,
    /// Why what was measured on it is not to be believed; empty if it is.
    pub faults: Vec<String>,
}

/// Brings a run's network up in a process in the background, and comes back when it is ready.
///
/// # Errors
/// A network of that name is up already, or it could not be brought up.
///
/// # Safety
/// The calling process must have one thread only.
pub unsafe fn up(name: &NetworkName, run: &Run) -> Result<(), WanError> {
    let failed = |e| WanError::system("start a process in the background", e);
    let (mut told, tell) = io::pipe().map_err(failed)?;
    // SAFETY: passed on to our caller.
    if unsafe { sys::fork_into_background() }.map_err(failed)?.is_none() {
        let served = serve(name, run, File::from(OwnedFd::from(tell)));
        std::process::exit(i32::from(served.is_err()));
    }
    drop(tell);
    let mut answer = String::new();
    told.read_to_string(&mut answer).map_err(failed)?;
    outcome(&answer)
}

// What the process in the background says to the one that waits for it.
const READY: &str = "ready";
const LACKS: &str = "lacks: ";

fn outcome(answer: &str) -> Result<(), WanError> {
    match (answer, answer.strip_prefix(LACKS)) {
        (READY, _) => Ok(()),
        (_, Some(what)) => Err(WanError::Lacks(Lack::from_text(what.to_owned()))),
        ("", _) => Err(WanError::State(
            "the process in the background ended before the network was ready".to_owned(),
        )),
        _ => Err(WanError::State(answer.to_owned())),
    }
}

/// Holds the network until asked to take it down, by a request or by SIGTERM or SIGINT.
fn serve(name: &NetworkName, run: &Run, mut tell: File) -> Result<(), WanError> {
    let served = start(name, run);
    let message = match &served {
        Ok(_) => READY.to_owned(),
        Err(WanError::Lacks(what)) => format!("{LACKS}{what}"),
        Err(error) => error.to_string(),
    };
    // If this fails, the caller has gone. The network stays up without it.
    let _ = tell.write_all(message.as_bytes());
    drop(tell);
    let Held { wan, listener, socket, signals, lock } = served?;
    let (client, answer) = loop {
        let mut sources =
            [PollFd::new(&listener, PollFlags::IN), PollFd::new(&signals, PollFlags::IN)];
        if poll(&mut sources, None).is_err() {
            continue;
        }
        let [asked, signalled] = sources.map(|source| !source.revents().is_empty());
        let mut client =
            asked.then(|| listener.accept()).and_then(|accepted| Some(accepted.ok()?.0));
        let request = client.as_mut().and_then(read_request);
        let answer = match wan.status() {
            Ok(snapshot) => serde_json::to_string(&status(name, run, &wan, &snapshot))
                .expect("a status is plain data"),
            Err(error) => error.to_string(),
        };
        if signalled || request.as_deref() == Some("down") {
            break (client, answer);
        }
        reply(client, &answer);
    };
    drop(wan);
    let _ = std::fs::remove_file(&socket);
    drop(lock);
    // Only now, so that who hears of the end can rely on it.
    reply(client, &answer);
    Ok(())
}

fn reply(client: Option<UnixStream>, answer: &str) {
    if let Some(mut client) = client {
        // Who asked may have gone.
        let _ = writeln!(client, "{answer}");
    }
}

/// Resources of the background process.
struct Held {
    wan: Wan,
    listener: UnixListener,
    socket: PathBuf,
    /// Signals that end the process.
    signals: UnixStream,
    lock: NameLock,
}

fn start(name: &NetworkName, run: &Run) -> Result<Held, WanError> {
    let lock = take_name(name)?;
    let wan = Wan::up(run)?;
    let failed = |e| WanError::system("listen on a socket in /run/longhaul", e);
    let socket = socket_path(name);
    // Of one that was killed: we have its lock.
    let _ = std::fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket).map_err(failed)?;
    let signals = host::background_stop_socket().map_err(failed)?;
    Ok(Held { wan, listener, socket, signals, lock })
}

/// Takes the right to a name. Its holder may just be bringing its network up or, if killed, be releasing
/// its devices one by one. So this waits until the holder answers or releases the name.
fn take_name(name: &NetworkName) -> Result<NameLock, WanError> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let started = Instant::now();
    loop {
        match NameLock::take(&name.0) {
            Ok(Some(lock)) => return Ok(lock),
            Ok(None) => {}
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Err(takes_root()),
            Err(e) => return Err(WanError::system("lock the network's name in /run/longhaul", e)),
        }
        if UnixStream::connect(socket_path(name)).is_ok() || started.elapsed() > PATIENCE {
            return Err(WanError::State(format!(
                "a network \"{name}\" is up already; take it down with `longhaul wan down`, or \
                 give this one another --name"
            )));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn takes_root() -> WanError {
    WanError::Lacks(Lack::root("emulated networks belong to root"))
}

fn read_request(client: &mut UnixStream) -> Option<String> {
    // A client that says nothing must not keep the others waiting.
    client.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    let mut line = String::new();
    BufReader::new(client.take(100)).read_line(&mut line).ok()?;
    Some(line.trim().to_owned())
}

fn status(name: &NetworkName, run: &Run, wan: &Wan, snapshot: &Snapshot) -> Status {
    Status {
        name: name.to_string(),
        title: run.title.clone(),
        pid: std::process::id(),
        up_s: snapshot.health.elapsed_s,
        hosts: wan.hosts().to_owned(),
        nodes: wan.nodes().iter().map(NodeAddress::of).collect(),
        links: LinkStatus::all(wan.directed_links(), snapshot),
        emulator: snapshot.health.clone(),
        faults: snapshot.health.faults(),
    }
}

/// The status of the network of that name.
///
/// # Errors
/// None is up, or it doesn't answer.
pub fn status_of(name: &NetworkName) -> Result<Status, WanError> {
    request(name, "status")
}

/// Takes the network of that name down; answers its last status.
///
/// # Errors
/// None is up, or it doesn't answer.
pub fn down(name: &NetworkName) -> Result<Status, WanError> {
    request(name, "down")
}

fn request(name: &NetworkName, word: &str) -> Result<Status, WanError> {
    let mut socket =
        UnixStream::connect(socket_path(name)).map_err(|error| not_reached(name, error))?;
    let failed = |e| WanError::system("talk to the network's process", e);
    writeln!(socket, "{word}").map_err(failed)?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).map_err(failed)?;
    serde_json::from_str(&answer).map_err(|_| match answer.as_str() {
        "" => WanError::State("the network was taken down before it answered".to_owned()),
        said => WanError::State(said.to_owned()),
    })
}

/// Why the socket of a network can't be connected to.
fn not_reached(name: &NetworkName, error: io::Error) -> WanError {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => WanError::State(format!(
            "no network \"{name}\" is up; `longhaul wan up FILE` brings one up"
        )),
        io::ErrorKind::PermissionDenied => takes_root(),
        _ => WanError::system("reach the network's process", error),
    }
}

/// Becomes a command on a node; comes back only if that fails.
pub fn exec(
    name: &NetworkName,
    node: &str,
    program: &OsString,
    arguments: &[OsString],
) -> WanError {
    let prepare = || {
        let status = status_of(name)?;
        let known = || status.nodes.iter().map(|node| node.name.clone()).collect();
        let found = status.nodes.iter().find(|known| known.name == node);
        let found =
            found.ok_or_else(|| WanError::NoSuchNode { name: node.to_owned(), known: known() })?;
        let mut command = Command::new(program);
        command.args(arguments).env("PATH", with_admin_tools(env::var_os("PATH")));
        Namespace::of_process(status.pid, found.descriptor)
            .and_then(|namespace| namespace.enter_on_exec(&mut command, status.hosts))
            .map_err(|e| WanError::system("enter the node", e))?;
        Ok(command)
    };
    match prepare() {
        Ok(mut command) => WanError::Command {
            program: program.to_string_lossy().into_owned(),
            error: command.exec(),
        },
        Err(error) => error,
    }
}

/// A `PATH` that also has the tools of administrators: sysctl, for one. Shells that became root's by `su` lack it. What
/// the user has comes first.
fn with_admin_tools(path: Option<OsString>) -> OsString {
    const ADMIN_TOOLS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];
    // What exec(3) searches where there is no PATH.
    let path = path.unwrap_or_else(|| "/bin:/usr/bin".into());
    let mut directories: Vec<PathBuf> = env::split_paths(&path).collect();
    for more in ADMIN_TOOLS.map(PathBuf::from) {
        if !directories.contains(&more) {
            directories.push(more);
        }
    }
    env::join_paths(directories).unwrap_or(path)
}

fn socket_path(name: &NetworkName) -> PathBuf {
    run_files::path(&format!("wan-{name}.sock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_tools_come_behind_what_the_user_has() {
        for (path, expected) in [
            (Some("/own/bin:/usr/bin"), "/own/bin:/usr/bin:/usr/local/sbin:/usr/sbin:/sbin"),
            (Some("/sbin:/usr/sbin:/bin"), "/sbin:/usr/sbin:/bin:/usr/local/sbin"),
            (None, "/bin:/usr/bin:/usr/local/sbin:/usr/sbin:/sbin"),
        ] {
            assert_eq!(with_admin_tools(path.map(OsString::from)), expected, "{path:?}");
        }
    }

    #[test]
    fn unreachable_network_error_names_the_cause() {
        let name: NetworkName = "x".parse().unwrap();
        let reached = |number| not_reached(&name, io::Error::from_raw_os_error(number));
        for number in [libc::ENOENT, libc::ECONNREFUSED] {
            assert!(matches!(reached(number), WanError::State(said) if said.contains("wan up")));
        }
        assert!(
            matches!(reached(libc::EACCES), WanError::Lacks(said) if said.to_string().contains("root"))
        );
        assert!(matches!(reached(libc::EMFILE), WanError::System { .. }));
    }

    #[test]
    fn background_process_messages_are_passed_on() {
        assert!(outcome(READY).is_ok());
        assert!(
            matches!(outcome("lacks: a thing"), Err(WanError::Lacks(said)) if said.to_string() == "a thing")
        );
        for (answer, expected) in [("", "ended before"), ("it rained", "it rained")] {
            let error = outcome(answer).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn names_stay_in_their_folder() {
        for name in ["default", "a-B_9", &"n".repeat(40)] {
            assert_eq!(name.parse::<NetworkName>().unwrap().to_string(), name);
        }
        for name in ["", "../x", "a b", ".", "é", &"n".repeat(41)] {
            assert!(name.parse::<NetworkName>().is_err(), "{name}");
        }
    }
}
