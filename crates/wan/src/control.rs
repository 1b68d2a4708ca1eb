// SPDX-License-Identifier: GPL-2.0-or-later
//! A network that stays up in the background, for a person to try programs on.
//!
//! A process of its own holds it and answers on a Unix socket, `/run/longhaul/wan-NAME.sock`: one
//! request a connection, a word, answered by a line of JSON. When that process ends, by whatever
//! cause, the network is gone; a socket left behind by `kill -9` is recognised by nobody answering
//! and replaced by the next `up`.

use crate::{
    Health, Namespace, Snapshot, Wan, WanError,
    network::{Counted, NodeAddress},
    sys,
};
use rustix::event::{PollFd, PollFlags, poll};
use scenario::Run;
use serde::{Deserialize, Serialize};
use std::{
    ffi::OsString,
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
};

const FOLDER: &str = "/run/longhaul";

/// What a network in the background says of itself.
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
    pub links: Vec<Counted>,
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
pub unsafe fn up(name: &str, run: &Run) -> Result<(), WanError> {
    let socket = socket_path(name)?;
    if UnixStream::connect(&socket).is_ok() {
        return Err(WanError::State(format!(
            "a network \"{name}\" is up already; take it down with `longhaul wan down`, or give \
             this one another --name"
        )));
    }
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
    match answer.strip_prefix(READY) {
        Some(_) => Ok(()),
        None => Err(match answer.strip_prefix(LACKS) {
            Some(what) => WanError::Lacks(what.to_owned()),
            None => WanError::State(answer),
        }),
    }
}

// What the process in the background says to the one that waits for it.
const READY: &str = "ready";
const LACKS: &str = "lacks: ";

/// Holds the network until asked to take it down, by a request or by SIGTERM or SIGINT.
fn serve(name: &str, run: &Run, mut tell: File) -> Result<(), WanError> {
    let served = start(name, run);
    let message = match &served {
        Ok(_) => READY.to_owned(),
        Err(WanError::Lacks(what)) => format!("{LACKS}{what}"),
        Err(error) => error.to_string(),
    };
    // Nobody waits any more if this fails: then the network stays up without them.
    let _ = tell.write_all(message.as_bytes());
    drop(tell);
    let (wan, listener, signals) = served?;
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
    let _ = std::fs::remove_file(socket_path(name)?);
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

fn start(name: &str, run: &Run) -> Result<(Wan, UnixListener, UnixStream), WanError> {
    let wan = Wan::up(run)?;
    let failed = |e| WanError::system("listen on a socket in /run/longhaul", e);
    let socket = socket_path(name)?;
    std::fs::create_dir_all(FOLDER).map_err(failed)?;
    let _ = std::fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket).map_err(failed)?;
    let (signalled, on_signal) = UnixStream::pair().map_err(failed)?;
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        let end = on_signal.try_clone().map_err(failed)?;
        signal_hook::low_level::pipe::register(signal, end).map_err(failed)?;
    }
    Ok((wan, listener, signalled))
}

fn read_request(client: &mut UnixStream) -> Option<String> {
    // A client that says nothing must not keep the others waiting.
    client.set_read_timeout(Some(std::time::Duration::from_secs(1))).ok()?;
    let mut line = String::new();
    BufReader::new(client.take(100)).read_line(&mut line).ok()?;
    Some(line.trim().to_owned())
}

fn status(name: &str, run: &Run, wan: &Wan, snapshot: &Snapshot) -> Status {
    Status {
        name: name.to_owned(),
        title: run.title.clone(),
        pid: std::process::id(),
        up_s: snapshot.at.as_secs_f64(),
        hosts: wan.hosts().to_owned(),
        nodes: wan.nodes().iter().map(NodeAddress::of).collect(),
        links: Counted::all(wan, snapshot),
        emulator: snapshot.health.clone(),
        faults: snapshot.health.faults(),
    }
}

/// What the network of that name does.
///
/// # Errors
/// None is up, or it doesn't answer.
pub fn status_of(name: &str) -> Result<Status, WanError> {
    request(name, "status")
}

/// Takes the network of that name down; answers its last status.
///
/// # Errors
/// None is up, or it doesn't answer.
pub fn down(name: &str) -> Result<Status, WanError> {
    request(name, "down")
}

fn request(name: &str, word: &str) -> Result<Status, WanError> {
    let not_up = |_| {
        WanError::State(format!(
            "no network \"{name}\" is up; `longhaul wan up FILE` brings one up"
        ))
    };
    let mut socket = UnixStream::connect(socket_path(name)?).map_err(not_up)?;
    let failed = |e| WanError::system("talk to the network's process", e);
    writeln!(socket, "{word}").map_err(failed)?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).map_err(failed)?;
    serde_json::from_str(&answer).map_err(|_| WanError::State(answer))
}

/// Becomes a command on a node; comes back only if that fails.
pub fn exec(name: &str, node: &str, program: &OsString, arguments: &[OsString]) -> WanError {
    let prepare = || {
        let status = status_of(name)?;
        let known = || status.nodes.iter().map(|node| node.name.clone()).collect();
        let found = status.nodes.iter().find(|known| known.name == node);
        let found =
            found.ok_or_else(|| WanError::NoSuchNode { name: node.to_owned(), known: known() })?;
        let mut command = Command::new(program);
        command.args(arguments);
        Namespace::of_process(status.pid, found.descriptor)
            .and_then(|namespace| namespace.attach(&mut command, status.hosts))
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

fn socket_path(name: &str) -> Result<PathBuf, WanError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 40 || !name.chars().all(plain) {
        return Err(WanError::State(format!(
            "\"{name}\" is no name for a network: letters, digits, - and _, 40 at most"
        )));
    }
    Ok(PathBuf::from(FOLDER).join(format!("wan-{name}.sock")))
}
