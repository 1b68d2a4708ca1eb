// SPDX-License-Identifier: GPL-2.0-or-later
//! What engine and guard say to each other: JSON, a line each. The engine asks, and the guard answers in the same order.

use scenario::Run;
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// Bring the congestion controls that a run names into the kernel.
    Load {
        /// The run.
        run: Box<Run>,
    },
    /// Answer the datagrams by which a path is measured.
    Serve {
        /// From this address.
        from: IpAddr,
        /// Which they have in common.
        token: u64,
    },
    /// Measure the path to another host.
    Measure {
        /// It serves.
        to: SocketAddr,
        /// Of the datagrams.
        token: u64,
        /// The rate that is expected, in bit/s.
        rate_bps: Option<u64>,
        /// In milliseconds.
        time_ms: u64,
    },
    /// Prepare a part of a run. How far it is, is asked for by [`Ask::Stand`].
    Prepare(Box<PartOrder>),
    /// How far is the part?
    Stand {
        /// Flows that have ended on other hosts.
        ended: Vec<String>,
        /// All flows have ended.
        is_over: bool,
    },
    /// Begin the part.
    Begin {
        /// By this host's monotonic clock, in nanoseconds.
        at_ns: i64,
        /// SHA-256 of what flows carry, in hexadecimal digits.
        hashes: BTreeMap<String, String>,
    },
    /// The part is over: put its record into a file of that name.
    Collect {
        /// 16 hexadecimal digits.
        token: String,
    },
    /// A piece of such a file.
    Fetch {
        /// Which.
        token: String,
        /// From there on.
        offset: u64,
    },
    /// Remove such a file.
    Discard {
        /// Which.
        token: String,
    },
    /// Put settings back.
    PutBack,
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
    /// It answers datagrams there.
    Serves {
        /// The port.
        port: u16,
    },
    /// What the path gives.
    Path(PathMeasured),
    /// How far a part is.
    Stand {
        /// In a word.
        stand: Stand,
        /// SHA-256 of what flows from this host carry, once it is ready.
        hashes: BTreeMap<String, String>,
        /// Flows that have ended here.
        ended: Vec<String>,
    },
    /// A file that can be fetched.
    File {
        /// Its length.
        bytes: u64,
        /// Its SHA-256, in hexadecimal digits.
        sha256: String,
    },
    /// A piece of it.
    Piece {
        /// In base64.
        data: String,
    },
    /// It is done.
    Done,
    /// It is not done, for this reason.
    Failed {
        /// Why, and what to do.
        why: String,
    },
}

/// A part of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartOrder {
    /// The run.
    pub run: Run,
    /// The node that this host is.
    pub node: String,
    /// The addresses of all nodes.
    pub addresses: BTreeMap<String, IpAddr>,
    /// The command line to put on record.
    pub command: Vec<String>,
}

/// How far a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stand {
    /// Servers come up.
    Preparing,
    /// It waits for the start.
    Ready,
    /// It takes place.
    Running,
    /// It is over, or could not take place.
    Over,
}

/// What a path gives to datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PathMeasured {
    /// The shortest round trip, in microseconds.
    pub min_rtt_us: u32,
    /// The rate at which datagrams arrive that are sent at one and a half of the rate that is expected, in bit/s of IP packets.
    /// None if no rate is expected, or the host cannot send as fast.
    pub rate_bps: Option<u64>,
    /// Datagrams sent at nine tenths of the rate that is expected.
    pub sent: u64,
    /// Of those, the ones that arrived.
    pub arrived: u64,
}

impl PathMeasured {
    /// The share of datagrams that was lost, if any were sent.
    pub fn loss(&self) -> Option<f64> {
        let lost = self.sent.saturating_sub(self.arrived);
        (self.sent > 0).then(|| lost as f64 / self.sent as f64)
    }
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
