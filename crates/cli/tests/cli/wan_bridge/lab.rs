// SPDX-License-Identifier: GPL-2.0-or-later
//! Two hosts, and between them a box with two cards: veth pairs between network namespaces. The hosts know nothing of
//! the box.

use crate::common::{longhaul, text};
use host::Namespace;
use serde_json::Value;
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::UdpSocket,
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};
use testkit::draft::Draft;

pub const LEFT: &str = "10.7.0.1";
pub const RIGHT: &str = "10.7.0.2";
pub const RIGHT_V6: &str = "fd00:7::2";

/// The hosts and the box.
pub struct Lab {
    pub left: Namespace,
    pub right: Namespace,
    pub center: Namespace,
}

/// Runs commands of a shell in a namespace.
pub fn sh(namespace: &Namespace, script: &str) -> String {
    let output = namespace.run(|| Command::new("sh").args(["-ec", script]).output()).unwrap();
    assert!(output.status.success(), "{script}: {}", text(&output.stderr));
    text(&output.stdout)
}

impl Lab {
    /// With cards of these MTUs: `left` and `right` have the same at their ends.
    pub fn new(mtus: [u32; 2]) -> Self {
        let [left, right, center] = [(); 3].map(|()| Namespace::new().unwrap());
        let hosts = [(&left, "card-a", LEFT, 1), (&right, "card-b", RIGHT, 2)];
        for ((host, card, address, number), mtu) in hosts.into_iter().zip(mtus) {
            let path = format!("/proc/{}/fd/{}", std::process::id(), host.descriptor());
            sh(
                &center,
                &format!(
                    "ip link set lo up; ip link add {card} mtu {mtu} type veth peer name eth0 mtu {mtu} netns {path}; \
                     ip link set {card} up"
                ),
            );
            sh(
                host,
                &format!(
                    "ip link set lo up; ip link set eth0 up; ip addr add {address}/24 dev eth0; \
                     ip addr add fd00:7::{number}/64 dev eth0 nodad"
                ),
            );
        }
        let lab = Self { left, right, center };
        testkit::until("the cards to have found their addresses", || {
            !sh(&lab.center, "ip addr").contains("tentative")
        });
        lab
    }

    /// All of the box that a bridge could leave changed.
    pub fn settings(&self) -> String {
        // The kernel prefixes lifetimes and counters nowhere here.
        sh(
            &self.center,
            "ip -details addr show; ip route show table all; ip -6 route show table all; ip neigh show proxy",
        )
    }

    /// `longhaul wan bridge` in the box, as it ends.
    pub fn call(&self, arguments: &[&str]) -> Output {
        let mut command = longhaul();
        command.args(["wan", "bridge"]).args(arguments);
        self.center.run(|| command.output()).unwrap()
    }

    /// The message of a bridge that is refused, with the exit code. Nothing is changed.
    pub fn refused(&self, arguments: &[&str]) -> (i32, String) {
        let before = self.settings();
        let output = self.call(arguments);
        assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
        assert_eq!(self.settings(), before);
        (output.status.code().unwrap(), text(&output.stderr))
    }

    /// A bridge between the two cards that is up.
    pub fn bridge(&self, scenario: &Path, more: &[&str]) -> Bridge {
        let mut command = longhaul();
        command.args(["wan", "bridge", "card-a", "card-b", "--json", "--scenario"]);
        command.arg(scenario).args(more).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.center.run(|| command.spawn()).unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("the bridge is up") {
            assert!(stderr.read_line(&mut said).unwrap() > 0, "{said}");
        }
        Bridge { child, said }
    }

    /// Sends datagrams there and back, one after the other; answers the shortest round trip.
    pub fn round_trip(&self, of: [&str; 2], length: usize) -> io::Result<Duration> {
        const PROBES: usize = 10;
        let [from, to] = of;
        let echo = self.right.run(|| UdpSocket::bind((to, 0)))?;
        let probe = self.left.run(|| UdpSocket::bind((from, 0)))?;
        for socket in [&echo, &probe] {
            socket.set_read_timeout(Some(Duration::from_secs(2)))?;
        }
        probe.connect(echo.local_addr()?)?;
        let mut best = Duration::MAX;
        let mut buffer = vec![0; length];
        for _ in 0..PROBES {
            let sent = Instant::now();
            probe.send(&vec![7; length])?;
            let (received, back) = echo.recv_from(&mut buffer)?;
            echo.send_to(&buffer[..received], back)?;
            assert_eq!(probe.recv(&mut buffer)?, length);
            best = best.min(sent.elapsed());
        }
        Ok(best)
    }
}

/// A bridge at work, which does not outlive the test.
pub struct Bridge {
    child: Child,
    /// What it said until it was up.
    pub said: String,
}

impl Bridge {
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Ends it; answers its statistics, from a machine that may have been too busy to be on time.
    pub fn end(mut self, signal: &str) -> Value {
        self.signal(signal);
        let status = self.outcome();
        let health = &status["emulator"];
        for count in ["malformed", "write_errors", "devices_lost", "device_drops"] {
            assert_eq!(health[count], 0, "{status}");
        }
        status
    }

    /// Its statistics when it has ended by itself.
    pub fn outcome(&mut self) -> Value {
        let mut printed = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        let code = self.child.wait().unwrap().code();
        let status: Value = serde_json::from_str(&printed).expect(&printed);
        let is_valid = status["faults"].as_array().unwrap().is_empty();
        assert_eq!(code, Some(i32::from(!is_valid)), "{status}");
        status
    }

    /// Waits for the end of a killed one.
    pub fn reap(mut self) {
        assert_eq!(self.child.wait().unwrap().code(), None);
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes a scenario of one link.
pub fn one_link(folder: &Path, keys: &str) -> std::path::PathBuf {
    write(folder, &Draft::new("a path", "").nodes(&["west", "east"]).link("west", "east", keys))
}

pub fn write(folder: &Path, draft: &Draft) -> std::path::PathBuf {
    let path = folder.join("path.toml");
    std::fs::write(&path, draft.to_string()).unwrap();
    path
}

const SNIFF: &str = r#"
import socket, struct, sys
count = int(sys.argv[1])
ear = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
ear.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)
ear.setsockopt(263, 8, 1)
ear.bind(("eth0", 3))
ear.settimeout(20)
print("ready", flush=True)
while count:
    frame, control, _, address = ear.recvmsg(70000, 256)
    # 4: of others' sending
    if address[2] == 4 or frame[6:12] != bytes.fromhex("020000000001"):
        continue
    status, _, _, _, _, control_bits, kind = struct.unpack("IIIHHHH", control[0][2][:20])
    if status & 16:
        frame = frame[:12] + struct.pack("!HH", kind, control_bits) + frame[12:]
    print(frame.hex(), flush=True)
    count -= 1
"#;

const SEND: &str = r#"
import socket, sys
mouth = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
if sys.argv[1] == "vnet":
    mouth.setsockopt(263, 15, 1)
mouth.bind(("eth0", 0))
for line in sys.stdin:
    mouth.send(bytes.fromhex(line))
"#;

/// Sends frames from one host, and answers the `count` first that come to the other with the source address
/// 02:00:00:00:00:01, tags included.
pub fn pass(lab: &Lab, frames: &[Vec<u8>], kind: &str, count: usize) -> Vec<Vec<u8>> {
    let python = |script, argument: &str| {
        let mut command = Command::new("python3");
        command.args(["-c", script, argument]).stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    };
    let mut ear = lab.right.run(|| python(SNIFF, &count.to_string()).spawn()).unwrap();
    let mut lines = BufReader::new(ear.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("ready"));
    let mut mouth = lab.left.run(|| python(SEND, kind).spawn()).unwrap();
    let mut stdin = mouth.stdin.take().unwrap();
    for frame in frames {
        for byte in frame {
            write!(stdin, "{byte:02x}").unwrap();
        }
        writeln!(stdin).unwrap();
    }
    drop(stdin);
    assert!(mouth.wait().unwrap().success());
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let heard = lines.map(|line| line.as_bytes().chunks(2).map(byte).collect()).collect();
    assert!(ear.wait().unwrap().success(), "not all frames came");
    heard
}
