// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul run --stats`: what connections have carried, compared with what the programs themselves count.

use crate::{
    chain::{Chain, PRELUDE},
    common::text,
};
use serde_json::Value;
use std::{fs, process::Output};

impl Chain {
    /// Runs a Python program, with its statistics.
    fn counted(&self, options: &[&str], script: &str) -> (Output, Value) {
        let file = self.dir.path().join("stats.json");
        let options = [&["--stats", "--stats-json", file.to_str().unwrap()], options].concat();
        let output = self.run(&options, &["python3", "-c", &format!("{PRELUDE}\n{script}")]);
        let err = text(&output.stderr);
        assert!(output.status.success(), "{}: {}{err}", output.status, text(&output.stdout));
        let stats = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        (output, stats)
    }
}

/// Bytes sent and received by each connection, in their order.
fn bytes(stats: &Value) -> Vec<[Option<u64>; 2]> {
    let connections = stats["latest"].as_array().unwrap().iter();
    connections.map(|one| ["sent_bytes", "received_bytes"].map(|key| one[key].as_u64())).collect()
}

fn both(sent: u64, received: u64) -> [Option<u64>; 2] {
    [Some(sent), Some(received)]
}

#[test]
fn bytes_are_those_that_the_program_has_moved() {
    let (_, stats) = Chain::start().counted(
        &[],
        r#"
# Both ends in good order, this one first.
for size in 1, 12345, 20_000_000:
    with socket.create_connection((host, port)) as s: exchange(s, size)
# The server ends first.
server = socket.create_server(("127.0.0.1", 0))
for sent, received in (7, 1_000_003), (70_000, 0), (0, 5):
    s = socket.create_connection(server.getsockname())
    there = server.accept()[0]
    s.sendall(b"x" * sent)
    assert sent == len(there.recv(sent, socket.MSG_WAITALL)) if sent else True
    t = threading.Thread(target=lambda: (there.sendall(b"y" * received), there.close()))
    t.start()
    got = 0
    while part := s.recv(65536): got += len(part)
    assert got == received
    t.join()
    s.close()
# This one ends, and the server does not until later.
s = socket.create_connection(server.getsockname())
there = server.accept()[0]
s.sendall(b"x" * 100)
there.recv(100, socket.MSG_WAITALL)
there.sendall(b"y" * 1000)
s.recv(1000, socket.MSG_WAITALL)
s.close()
# The server resets it.
s = socket.create_connection(server.getsockname())
broken = server.accept()[0]
s.sendall(b"x" * 10)
broken.recv(10, socket.MSG_WAITALL)
broken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
broken.close()
try: assert False, s.recv(1)
except ConnectionResetError: pass
s.close()
# By IPv6.
s = socket.socket(socket.AF_INET6)
s.connect(("::ffff:" + host, port))
exchange(s, 777)
"#,
    );
    let expected = [
        both(1, 1),
        both(12_345, 12_345),
        both(20_000_000, 20_000_000),
        both(7, 1_000_003),
        both(70_000, 0),
        both(0, 5),
        both(100, 1000),
        both(10, 0),
        both(777, 777),
    ];
    assert_eq!(bytes(&stats), expected, "{stats:#}");
    let sum = |at: usize| expected.iter().map(|both| both[at].unwrap()).sum::<u64>();
    assert_eq!((&stats["sent_bytes"], &stats["received_bytes"]), (&sum(0).into(), &sum(1).into()));
    assert_eq!((&stats["unknown"], &stats["unknown_because"]), (&0.into(), &Value::Null));
    let one = &stats["latest"][2];
    let (seconds, rate) = (one["seconds"].as_f64().unwrap(), one["rate_bps"].as_f64().unwrap());
    assert!((rate * seconds / (8.0 * 40e6) - 1.0).abs() < 1e-3, "{one}");
    assert_eq!((&one["through"][1]["depot"], &one["open"]), (&"far".into(), &false.into()));
}

#[test]
fn direct_connections_are_counted_too() {
    // The last depot may not connect there.
    let (output, stats) = Chain::start().counted(
        &["--quiet"],
        r#"
server = socket.create_server(("::1", 0), family=socket.AF_INET6)
s = socket.create_connection(server.getsockname()[:2])
there = server.accept()[0]
there.sendall(b"y" * 300_000)
there.close()
got = b""
while part := s.recv(65536): got += part
assert len(got) == 300_000
"#,
    );
    assert_eq!(bytes(&stats), [both(0, 300_000)], "{stats:#}");
    let err = text(&output.stderr);
    assert!(err.contains("\n0 B sent, 293 KB received\n"), "{err}");
}

#[test]
fn what_is_not_known_is_reported_as_such() {
    let chain = Chain::start();
    let (output, stats) = chain.counted(
        &[],
        r#"
with socket.create_connection((host, port)) as s: exchange(s, 1000)
# A reset of its own clears what the kernel has counted.
s = socket.create_connection((host, port))
s.sendall(b"x" * 100)
s.recv(100, socket.MSG_WAITALL)
s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
s.close()
# One socket, two connections, and only the second one's bytes are there at the end.
s = socket.create_connection((host, port))
s.sendall(b"x" * 100)
s.recv(100, socket.MSG_WAITALL)
import ctypes
libc = ctypes.CDLL(None)
assert libc.connect(s.fileno(), bytes(16), 16) == 0
s.connect((host, port))
exchange(s, 50)
"#,
    );
    let expected = [both(1000, 1000), [None; 2], [None; 2], both(50, 50)];
    assert_eq!(bytes(&stats), expected, "{stats:#}");
    assert_eq!((&stats["unknown"], &stats["sent_bytes"]), (&2.into(), &1050.into()));
    let err = text(&output.stderr);
    assert!(err.contains("1.03 KB received, not known of 2 connections\n"), "{err}");
    // A file that cannot be written is reported before the program begins.
    let output = chain.run(&["--stats-json", "/no/such/directory/f"], &["touch", "begun"]);
    assert!(output.status.code() == Some(1) && !fs::exists("begun").unwrap());
}

#[test]
fn connection_that_a_child_keeps_is_reported_as_open() {
    let chain = Chain::start();
    let (output, stats) = chain.counted(
        &[],
        r#"
s = socket.create_connection((host, port))
s.sendall(b"x" * 100)
s.recv(100, socket.MSG_WAITALL)
if os.fork() == 0:
    for fd in range(3): os.dup2(os.open(os.devnull, os.O_RDWR), fd)
    s.recv(1)
"#,
    );
    assert_eq!(bytes(&stats), [both(100, 100)], "{stats:#} {}", text(&output.stderr));
    assert_eq!(stats["latest"][0]["open"], true);
}

/// All at once, when the program ends: either each is counted, or the number of those that are not is.
#[test]
fn many_connections_that_end_at_once_add_up() {
    let (output, stats) = Chain::start().counted(
        &[],
        r#"
all = []
for _ in range(400):
    s = socket.create_connection((host, port))
    s.sendall(b"x" * 1000)
    s.recv(1000, socket.MSG_WAITALL)
    all.append(s)
"#,
    );
    let unknown = stats["unknown"].as_u64().unwrap();
    assert_eq!(stats["sent_bytes"].as_u64().unwrap(), (400 - unknown) * 1000, "{stats:#}");
    assert!(unknown == 0 || stats["unknown_because"].is_string(), "{}", text(&output.stderr));
}
