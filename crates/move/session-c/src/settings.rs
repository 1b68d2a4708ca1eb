// SPDX-License-Identifier: GPL-2.0-or-later
//! Options of a descriptor before its session begins.

use crate::{failure::Failure, ffi::duplicate};
use libc::c_int;
use protocol::{
    DepotAddress,
    session::{Role, SessionId},
};
use session::{
    Acceptor, Beginning, Incoming, ListenOptions, Options, Outgoing, Route, Session, State,
    StoredFile, WholeDigest, Window,
};
use std::{
    fs::File, io::ErrorKind, os::unix::fs::FileExt, path::PathBuf, sync::Arc, time::Duration,
};
use units::{Bytes, Rate};

/// Numbers of options, as in `lsl.h`.
pub(crate) mod option {
    use libc::c_int;

    pub(crate) const VIA: c_int = 1;
    pub(crate) const ROUTE: c_int = 2;
    pub(crate) const SECRET: c_int = 3;
    pub(crate) const NOTE: c_int = 4;
    pub(crate) const SEND_WINDOW: c_int = 5;
    pub(crate) const RECEIVE_WINDOW: c_int = 6;
    pub(crate) const PATIENCE: c_int = 7;
    pub(crate) const CONNECT_TIMEOUT: c_int = 8;
    pub(crate) const CA_FILE: c_int = 9;
    pub(crate) const RATE: c_int = 10;
    pub(crate) const WAIT: c_int = 11;
    pub(crate) const DIGEST: c_int = 12;
    pub(crate) const ENCRYPT: c_int = 13;
    pub(crate) const SEND_FILE: c_int = 14;
    pub(crate) const RECEIVED_FILE: c_int = 15;
    pub(crate) const CONFIRM: c_int = 16;
    pub(crate) const CONNECTIONS: c_int = 17;
    pub(crate) const ERROR: c_int = 32;
    pub(crate) const ERROR_TEXT: c_int = 33;
    pub(crate) const PEER_NOTE: c_int = 34;
    pub(crate) const LOCAL: c_int = 35;
    pub(crate) const SESSION: c_int = 36;
    pub(crate) const SENT_DIGEST: c_int = 37;
    pub(crate) const RECEIVED_DIGEST: c_int = 38;
    pub(crate) const ENCRYPTED: c_int = 39;
    pub(crate) const STATE: c_int = 40;
}

/// The most that a note may have.
const LONGEST_NOTE: usize = 4096;
/// The most of a secret, and of a text.
const LONGEST_TEXT: usize = 4096;
/// Windows between these make sense, in bytes.
const WINDOWS: std::ops::RangeInclusive<u64> = 1 << 16..=1 << 40;
/// So many connections a session may have at once.
const CONNECTIONS: std::ops::RangeInclusive<u8> = 1..=16;

/// What a meeting is called in place of an address.
pub(crate) const MEETING: &str = "meet:";
/// How much is read at a time of what is there from an earlier process.
const PIECE: usize = 256 << 10;

/// The settings so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    routes: Vec<Vec<DepotAddress>>,
    options: Options,
    pub(crate) waits: bool,
    /// The other end hears that all has arrived when the program says so.
    pub(crate) confirms: bool,
    /// The session's name, if both ends know it.
    name: Option<SessionId>,
    /// The session of an earlier process.
    state: Option<State>,
    /// This end's stream, in place of what the program writes.
    sent: Option<Arc<StoredFile>>,
    /// What that process had received.
    received: Option<Arc<File>>,
}

impl Settings {
    /// Sets an option.
    pub(crate) fn set(&mut self, name: c_int, value: &[u8]) -> Result<(), Failure> {
        let options = &mut self.options;
        match name {
            option::VIA => self.routes = vec![depots(value)?],
            option::ROUTE => self.routes.push(depots(value)?),
            option::SECRET => options.secret = at_most(value, LONGEST_TEXT, "LSL_SECRET")?,
            option::NOTE => options.note = at_most(value, LONGEST_NOTE, "LSL_NOTE")?,
            option::SEND_WINDOW => options.send_window = window(value)?,
            option::RECEIVE_WINDOW => options.receive_window = window(value)?,
            option::PATIENCE => options.patience = Duration::from_millis(number(value)?),
            option::CONNECT_TIMEOUT => match number(value)? {
                0 => return Err(Failure::invalid("LSL_CONNECT_TIMEOUT is at least 1 ms")),
                time => options.connect_timeout = Duration::from_millis(time),
            },
            option::CA_FILE => {
                let path = text(value)?;
                options.ca = (!path.is_empty()).then(|| PathBuf::from(path));
            }
            option::RATE => {
                let rate = number(value)?;
                options.limit_rate = (rate > 0).then(|| Rate::bits_per_second(rate));
            }
            option::WAIT => self.waits = flag(value, "LSL_WAIT")?,
            option::ENCRYPT => options.encrypt = flag(value, "LSL_ENCRYPT")?,
            option::DIGEST => options.digest = digest(number(value)?)?,
            option::CONFIRM => self.confirms = flag(value, "LSL_CONFIRM")?,
            option::CONNECTIONS => options.connections = connections(value)?,
            option::SEND_FILE => {
                let file = StoredFile::new(file(value, "LSL_SEND_FILE")?)?;
                self.sent = Some(Arc::new(file));
            }
            option::RECEIVED_FILE => {
                self.received = Some(Arc::new(file(value, "LSL_RECEIVED_FILE")?));
            }
            option::SESSION => {
                let name = value.try_into();
                let name = name.map_err(|_| Failure::invalid("LSL_SESSION has 16 bytes"))?;
                self.name = Some(SessionId(name));
            }
            option::STATE => {
                let state = State::from_bytes(value);
                self.state = Some(state.map_err(|error| Failure::invalid(error.to_string()))?);
            }
            _ => return Err(unknown(name)),
        }
        Ok(())
    }

    /// The value of an option that is a number.
    pub(crate) fn get(&self, name: c_int) -> Result<u64, Failure> {
        let options = &self.options;
        Ok(match name {
            option::SEND_WINDOW => options.send_window.get(),
            option::RECEIVE_WINDOW => options.receive_window.get(),
            option::PATIENCE => options.patience.as_millis() as u64,
            option::CONNECT_TIMEOUT => options.connect_timeout.as_millis() as u64,
            option::RATE => options.limit_rate.map_or(0, Rate::bps),
            option::WAIT => u64::from(self.waits),
            option::ENCRYPT => u64::from(options.encrypt),
            option::CONFIRM => u64::from(self.confirms),
            option::CONNECTIONS => u64::from(options.connections),
            option::DIGEST => options.digest.map_or(0, |digest| u64::from(digest.number())),
            _ => return Err(unknown(name)),
        })
    }

    /// The routes to a destination, for this role in a meeting.
    fn routes(&self, destination: &str, role: Role) -> Result<Vec<Route>, Failure> {
        let direct = [Vec::new()];
        let vias = if self.routes.is_empty() { &direct[..] } else { &self.routes };
        if destination == MEETING && vias.iter().any(Vec::is_empty) {
            return Err(Failure::invalid("both ends meet at a depot: set LSL_VIA"));
        }
        let route = |via: &Vec<DepotAddress>| match destination {
            MEETING => Route::meeting(via, role),
            _ => Route::to(via, destination),
        };
        let routes: Result<_, _> = vias.iter().map(route).collect();
        routes.map_err(|error| Failure::invalid(format!("{destination}: {error}")))
    }

    /// Opens a session with a destination, or continues the one of an earlier process. The runtime must have been entered.
    pub(crate) fn connect(&self, destination: &str) -> Result<Session, Failure> {
        let routes = self.routes(destination, Role::Initiator)?;
        let (outgoing, options) = (self.outgoing(), self.options());
        if let Some((state, received)) = self.earlier()? {
            return Ok(Session::resume(state, routes, outgoing, received, options)?);
        }
        Ok(match self.name {
            Some(name) => Session::begin(name, routes, outgoing, options),
            None if destination == MEETING => return Err(unnamed()),
            None => Session::send(routes, outgoing, options),
        })
    }

    /// The name of a meeting, and the routes on which this end waits there.
    pub(crate) fn meeting(&self) -> Result<(SessionId, Vec<Route>), Failure> {
        if self.state.is_some() || self.received.is_some() {
            let text = "a session continues at the end that waits in a meeting only while its process lives";
            return Err(Failure::new(libc::EOPNOTSUPP, text));
        }
        Ok((self.name.ok_or_else(unnamed)?, self.routes(MEETING, Role::Acceptor)?))
    }

    /// Waits at a meeting for the other end, and takes its session; with its note.
    pub(crate) async fn meet(
        &self,
        (name, routes): (SessionId, Vec<Route>),
    ) -> Result<(Session, Vec<u8>), Failure> {
        let incoming = Incoming::meet(name, routes, &self.options(), || ()).await?;
        let note = incoming.note().to_vec();
        Ok((self.accept(incoming).await?, note))
    }

    /// Takes a session that an initiator asks for.
    pub(crate) async fn accept(&self, incoming: Incoming) -> Result<Session, session::Error> {
        incoming.accept_from(Beginning::default(), self.outgoing(), self.options()).await
    }

    /// Takes back the session of an earlier process, if one is to be. The runtime must have been entered.
    pub(crate) fn restore(&self, acceptor: &Acceptor) -> Result<Option<Session>, Failure> {
        let Some((state, received)) = self.earlier()? else { return Ok(None) };
        let restored = acceptor.restore(state, received, self.outgoing(), self.options())?;
        let full = || Failure::new(libc::ENOBUFS, "the listener has no room for the session");
        restored.map(Some).ok_or_else(full)
    }

    /// The session of an earlier process, and what that has received.
    fn earlier(&self) -> Result<Option<(&State, Beginning)>, Failure> {
        let Some(state) = &self.state else {
            return match &self.received {
                Some(_) => Err(Failure::invalid("LSL_RECEIVED_FILE comes with LSL_STATE")),
                None => Ok(None),
            };
        };
        if self.name.is_some_and(|name| name != state.session) {
            return Err(Failure::invalid("LSL_STATE is that of another session than LSL_SESSION"));
        }
        let mut beginning = Beginning::new(state.digest);
        if let Some(file) = &self.received {
            read_all(file, &mut beginning)?;
        }
        Ok(Some((state, beginning)))
    }

    /// Whether this end's stream is a file: then the program writes nothing.
    pub(crate) fn sends_file(&self) -> bool {
        self.sent.is_some()
    }

    fn outgoing(&self) -> Outgoing {
        match &self.sent {
            Some(file) => Outgoing::Stored(Arc::<StoredFile>::clone(file)),
            None => Outgoing::Window(Window::default()),
        }
    }

    /// Options of a listener on which `backlog` sessions may wait.
    pub(crate) fn listen_options(&self, backlog: usize) -> ListenOptions {
        let secret = self.options.secret.clone();
        ListenOptions { secret, backlog, ..ListenOptions::default() }
    }

    /// How the session behaves. Its end is confirmed when the program has read everything.
    pub(crate) fn options(&self) -> Options {
        Options { confirm_by_hand: true, ..self.options.clone() }
    }
}

fn unnamed() -> Failure {
    Failure::invalid("the two ends find each other by LSL_SESSION: set the same 16 bytes at both")
}

/// A copy of a descriptor of the program.
fn file(value: &[u8], name: &str) -> Result<File, Failure> {
    let fd = c_int::try_from(number(value)?);
    let fd = fd.map_err(|_| Failure::invalid(format!("{name} is a descriptor")))?;
    Ok(duplicate(fd)?.into())
}

/// Hashes what is in a file, wherever the program reads or writes it.
fn read_all(file: &File, beginning: &mut Beginning) -> Result<(), Failure> {
    let mut piece = vec![0; PIECE];
    loop {
        match file.read_at(&mut piece, beginning.length()) {
            Ok(0) => return Ok(()),
            Ok(length) => beginning.extend(&piece[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

pub(crate) fn unknown(name: c_int) -> Failure {
    Failure::new(libc::ENOPROTOOPT, format!("there is no such option here: {name}"))
}

/// A list of depots, with commas between them.
fn depots(value: &[u8]) -> Result<Vec<DepotAddress>, Failure> {
    let list = text(value)?;
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    let depot = |name: &str| {
        name.parse().map_err(|error| Failure::invalid(format!("the depot {name}: {error}")))
    };
    names.map(depot).collect()
}

/// A text, which may end with a zero byte.
fn text(value: &[u8]) -> Result<&str, Failure> {
    let value = value.strip_suffix(&[0]).unwrap_or(value);
    if value.len() > LONGEST_TEXT || value.contains(&0) {
        return Err(Failure::invalid("the text is too long, or has a zero byte"));
    }
    std::str::from_utf8(value).map_err(|_| Failure::invalid("the text is not UTF-8"))
}

fn flag(value: &[u8], name: &str) -> Result<bool, Failure> {
    match number(value)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Failure::invalid(format!("{name} is 0 or 1"))),
    }
}

fn at_most(value: &[u8], most: usize, name: &str) -> Result<Vec<u8>, Failure> {
    if value.len() > most {
        return Err(Failure::invalid(format!("{name} has at most {most} bytes")));
    }
    Ok(value.to_vec())
}

fn number(value: &[u8]) -> Result<u64, Failure> {
    let bytes = value.try_into().map_err(|_| Failure::invalid("the value is a uint64_t"))?;
    Ok(u64::from_ne_bytes(bytes))
}

fn digest(number: u64) -> Result<Option<WholeDigest>, Failure> {
    if number == 0 {
        return Ok(None);
    }
    let known = u8::try_from(number).ok().and_then(WholeDigest::of_number);
    known.map(Some).ok_or_else(|| {
        Failure::invalid("LSL_DIGEST is LSL_DIGEST_NONE, LSL_DIGEST_SHA256 or LSL_DIGEST_MD5")
    })
}

fn connections(value: &[u8]) -> Result<u8, Failure> {
    let number = u8::try_from(number(value)?).ok().filter(|number| CONNECTIONS.contains(number));
    number.ok_or_else(|| Failure::invalid("LSL_CONNECTIONS is 1 to 16"))
}

fn window(value: &[u8]) -> Result<Bytes, Failure> {
    let bytes = number(value)?;
    if !WINDOWS.contains(&bytes) {
        return Err(Failure::invalid("a window has 64 KiB to 1 TiB"));
    }
    Ok(Bytes::new(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_taken_only_in_their_form_and_range() {
        let mut settings = Settings::default();
        let eight = |n: u64| n.to_ne_bytes();
        settings.set(option::VIA, b"d1.example, https:d2.example:443\0").unwrap();
        let routes = |settings: &Settings, to: &str| settings.routes(to, Role::Initiator);
        assert_eq!(routes(&settings, "b.example:4000").unwrap()[0].depots(), 2);
        assert_eq!(routes(&settings, MEETING).unwrap()[0].depots(), 2);
        assert_eq!(settings.meeting().unwrap_err().errno, libc::EINVAL, "it has no name");
        settings.set(option::SESSION, &[7; 16]).unwrap();
        assert_eq!(settings.meeting().unwrap().0, SessionId([7; 16]));
        settings.set(option::ROUTE, b"").unwrap();
        assert_eq!(routes(&settings, "b.example:4000").unwrap().len(), 2);
        assert!(routes(&settings, MEETING).is_err(), "there is no direct way to a depot");
        assert!(routes(&settings, "b.example").is_err());
        settings.set(option::RATE, &eight(5_000_000)).unwrap();
        assert_eq!(settings.get(option::RATE).unwrap(), 5_000_000);
        settings.set(option::CONNECTIONS, &eight(16)).unwrap();
        assert_eq!(settings.get(option::CONNECTIONS).unwrap(), 16);
        for number in [1, 2, 0] {
            settings.set(option::DIGEST, &eight(number)).unwrap();
            assert_eq!(settings.get(option::DIGEST).unwrap(), number);
        }
        for (name, value) in [
            (option::VIA, &b"d1:port"[..]),
            (option::VIA, b"d\xff"),
            (option::NOTE, &[0; 4097]),
            (option::SEND_WINDOW, b"1234"),
            (option::SEND_WINDOW, &eight(5)),
            (option::WAIT, &eight(2)),
            (option::CONNECT_TIMEOUT, &eight(0)),
            (option::DIGEST, &eight(3)),
            (option::DIGEST, &eight(257)),
            (option::SESSION, &[7; 15]),
            (option::STATE, b""),
            (option::STATE, b"lhs\x02 and something else"),
            (option::CONFIRM, &eight(2)),
            (option::CONNECTIONS, &eight(0)),
            (option::CONNECTIONS, &eight(17)),
            (option::SEND_FILE, &eight(1 << 40)),
        ] {
            assert_eq!(settings.set(name, value).unwrap_err().errno, libc::EINVAL, "{name}");
        }
        assert_eq!(settings.set(99, b"").unwrap_err().errno, libc::ENOPROTOOPT);
    }
}
