// SPDX-License-Identifier: GPL-2.0-or-later
//! What engine and guard say to each other: JSON, a line each. The engine asks, and the guard answers in the same order.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    collections::BTreeMap,
    fmt,
    io::{self, BufRead, Read},
    net::{IpAddr, SocketAddr},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The version of these messages. Both ends are copies of the same program, so another one means that a file was exchanged.
pub const VERSION: u32 = 1;
/// How the first line of a guard begins. A shell's start-up files may have written something before.
pub const GREETING: &str = "{\"longhaul_guard\":";
/// The longest line.
pub const LONGEST: u64 = 1 << 20;

/// The first line of a guard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`].
    pub longhaul_guard: u32,
    /// Settings that it has put back after an earlier guard that could not.
    pub put_back: usize,
}

/// What the engine asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Ask {
    /// What kind of host it is.
    Facts,
    /// The time there.
    Clock,
    /// Take the host for an experiment. From then on the guard ends if nothing comes for the lease.
    Reserve {
        /// By whom, and until when at the latest.
        reservation: Reservation,
        /// In milliseconds.
        lease_ms: u64,
    },
    /// Make settings, and read them back.
    Set {
        /// Keys of sysctl(8), and values.
        settings: Vec<(String, String)>,
    },
    /// Take one connection, and all that comes on it.
    Serve {
        /// From this address.
        from: IpAddr,
    },
    /// Send as fast as it goes.
    Send {
        /// To a host that serves.
        to: SocketAddr,
        /// In milliseconds.
        time_ms: u64,
    },
    /// Nothing: the engine is there.
    Ping,
    /// Put everything back, and free the host.
    Release,
}

/// What the guard answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// What kind of host it is.
    Facts(Box<Facts>),
    /// The time there.
    Clock {
        /// Nanoseconds since 1970.
        realtime_ns: i64,
        /// Nanoseconds of its monotonic clock.
        monotonic_ns: i64,
    },
    /// Another experiment has it.
    Busy {
        /// Which.
        by: Reservation,
    },
    /// The settings as they were read back.
    Settings {
        /// In the order in which they were asked for.
        settings: Vec<Setting>,
    },
    /// It takes a connection there.
    Serves {
        /// The port.
        port: u16,
    },
    /// What came of sending.
    Sent(PathMeasured),
    /// It is done.
    Done,
    /// It is not done, for this reason.
    Failed {
        /// Why, and what to do.
        why: String,
    },
}

/// What a path gave to one TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PathMeasured {
    /// The shortest round trip, in microseconds.
    pub min_rtt_us: u32,
    /// The rate of acknowledged payload in the second half of the time, in bit/s.
    pub rate_bps: u64,
    /// The share of bytes that was sent again.
    pub resent: f64,
}

/// A setting that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The key of sysctl(8).
    pub key: String,
    /// Its value before.
    pub before: String,
    /// What it is now.
    pub now: String,
}

/// Who has a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// USER@HOST of the engine.
    pub owner: String,
    /// What for.
    pub title: String,
    /// When it ends at the latest, in seconds since 1970.
    pub until_s: u64,
}

impl fmt::Display for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let left = Duration::from_secs(self.until_s).saturating_sub(now).as_secs().div_ceil(60);
        write!(
            f,
            "{} has this host for the experiment \"{}\", for {left} more minutes at most",
            self.owner, self.title
        )
    }
}

/// What kind of host it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Its own name.
    pub name: String,
    /// The kernel's release.
    pub kernel: String,
    /// The processor's architecture, as `uname -m` has it.
    pub architecture: String,
    /// The processor.
    pub cpu: String,
    /// Its cores.
    pub cores: u32,
    /// Its memory.
    pub memory_bytes: u64,
    /// Which start of the kernel it is: another one after a restart.
    pub boot_id: String,
    /// Whether the guard is root.
    pub is_root: bool,
    /// Congestion controls that are there.
    pub congestion_controls: Vec<String>,
    /// Where programs are that experiments use, by name.
    pub programs: BTreeMap<String, String>,
    /// Room in its directory.
    pub free_bytes: u64,
}

/// Reads a line of at most [`LONGEST`]; none at the end.
pub fn read_line<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    from.take(LONGEST).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if !line.ends_with(b"\n") {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long, or cut short"));
    }
    serde_json::from_slice(&line).map(Some).map_err(io::Error::from)
}

/// A line.
pub fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("a message is plain data");
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether any line of these bytes is a message of either side.
    fn messages(data: &[u8]) -> bool {
        let is_ask = read_line::<Ask>(&mut &*data).is_ok_and(|ask| ask.is_some());
        let (mut from, mut answers) = (data, 0);
        while let Ok(Some(answer)) = read_line::<Answer>(&mut from) {
            if let Answer::Busy { by } = &answer {
                assert!(by.to_string().contains("has this host"));
            }
            assert_eq!(read_line::<Answer>(&mut &line(&answer)[..]).unwrap(), Some(answer));
            answers += 1;
        }
        is_ask || answers > 0
    }

    #[test]
    fn guard() {
        testkit::fuzz::run("guard", 2000, messages);
    }

    #[test]
    fn lines_are_bounded() {
        let ask = Ask::Set { settings: vec![("net.core.rmem_max".into(), "1".into())] };
        let text = [line(&Ask::Ping), line(&ask)].concat();
        let mut from = &text[..];
        assert_eq!(read_line::<Ask>(&mut from).unwrap(), Some(Ask::Ping));
        assert_eq!(read_line::<Ask>(&mut from).unwrap(), Some(ask));
        assert_eq!(read_line::<Ask>(&mut from).unwrap(), None);
        let long = vec![b' '; LONGEST as usize + 10];
        for wrong in
            [&long[..], b"{\"ask\":\"ping\"}", b"{}\n", b"\n", b"\xff\n", b"{\"ask\":\"rm\"}\n"]
        {
            assert!(read_line::<Ask>(&mut &wrong[..]).is_err());
        }
        let hello = line(&Hello { longhaul_guard: VERSION, put_back: 0 });
        assert!(hello.starts_with(GREETING.as_bytes()));
    }
}
