// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul send` through depots over an emulated wide-area network, and what may happen to it there.

use crate::{
    common::{json, text},
    emulated::{B, D1, D2, On, depot, network},
    wan::Up,
};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

const CODE: &str = "k3v9-x2mq-7f4t-pd8w";
/// Of both ends. One that waits in vain fails the test before long.
const OPTIONS: [&str; 5] = ["--json", "--code", CODE, "--patience", "150s"];
const LENGTH: u64 = 16 << 20;

/// A relay that replaces a depot and changes one bit of the data.
const FLIPPING_RELAY: &str = r"
import socket, sys, threading
here, there = (sys.argv[1], 3999), (sys.argv[2], 3880)
def pump(source, sink, flip):
    passed = 0
    while data := source.recv(65536):
        if passed <= flip < passed + len(data):
            data = bytearray(data)
            data[flip - passed] ^= 4
        passed += len(data)
        sink.sendall(data)
    sink.shutdown(socket.SHUT_WR)
server = socket.create_server(here)
for flip in [3_000_000] + [-1] * 20:
    client, _ = server.accept()
    upstream = socket.create_connection(there)
    threading.Thread(target=pump, args=(client, upstream, flip), daemon=True).start()
    threading.Thread(target=pump, args=(upstream, client, -1), daemon=True).start()
";

/// A transfer: its directory, and the port at which its receiver listens.
struct Transfer<'n> {
    network: &'n Up,
    directory: PathBuf,
    port: u16,
}

impl<'n> Transfer<'n> {
    fn new(network: &'n Up, root: &Path, port: u16) -> Self {
        let directory = root.join(port.to_string());
        fs::create_dir(&directory).unwrap();
        let content: Vec<u8> = (0..LENGTH)
            .map(|n| ((n + u64::from(port)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as u8)
            .collect();
        fs::write(directory.join("file"), content).unwrap();
        Self { network, directory, port }
    }

    fn receiver(&self) -> On {
        let (listen, there) = (format!("{B}:{}", self.port), self.directory.join("there"));
        fs::create_dir_all(&there).unwrap();
        let there = there.to_str().unwrap();
        let arguments = [&["recv", "--listen", &listen, "-d", there], &OPTIONS[..]].concat();
        On::start(self.network, "b", env!("CARGO_BIN_EXE_longhaul"), &arguments)
    }

    fn sender(&self, routes: &[&str]) -> On {
        self.sender_with(routes, &[])
    }

    fn sender_with(&self, routes: &[&str], options: &[&str]) -> On {
        let (file, to) = (self.directory.join("file"), format!("{B}:{}", self.port));
        let mut arguments =
            [&["send", file.to_str().unwrap(), &to], &OPTIONS[..], options].concat();
        for route in routes {
            arguments.extend(["--via", route]);
        }
        On::start(self.network, "a", env!("CARGO_BIN_EXE_longhaul"), &arguments)
    }

    /// Waits until the receiver has this many megabytes.
    fn await_megabytes(&self, megabytes: u64) {
        let (part, begun) = (self.directory.join("there/file.part"), Instant::now());
        while fs::metadata(&part).map_or(0, |data| data.len()) < megabytes << 20 {
            assert!(begun.elapsed() < Duration::from_secs(60), "{}: nothing comes", self.port);
            sleep(Duration::from_millis(10));
        }
    }

    /// Both ends are done, and the file is the same. With what the sender reports.
    fn end(self, sender: On, receiver: On) -> Value {
        let reports = [sender, receiver].map(|mut end| {
            let output = end.take_output();
            let (out, err) = (text(&output.stdout), text(&output.stderr));
            assert!(output.status.success(), "{}: {out}\n{err}", self.port);
            serde_json::from_str::<Value>(&out).unwrap()
        });
        assert_eq!(reports[0]["blake3"], reports[1]["blake3"]);
        let [here, there] = ["file", "there/file"].map(|name| fs::read(self.directory.join(name)));
        assert!(here.unwrap() == there.unwrap(), "{}: another file arrived", self.port);
        reports.into_iter().next().unwrap()
    }
}

#[test]
fn transfers_survive_depots_bits_ends_and_an_outage() {
    let root = tempfile::tempdir().unwrap();
    let network = network(root.path());
    let chain = format!("{D1},{D2}");
    let mut first = depot(&network, "depot1");
    let _second = depot(&network, "depot2");

    // A depot is killed and started again.
    let transfer = Transfer::new(&network, root.path(), 5001);
    let (receiver, sender) = (transfer.receiver(), transfer.sender(&[&chain]));
    transfer.await_megabytes(4);
    first.kill();
    sleep(Duration::from_millis(500));
    first = depot(&network, "depot1");
    let report = transfer.end(sender, receiver);
    assert!(report["connections"].as_u64().unwrap() > 1, "{report}");

    // Both ends are killed and started again.
    let transfer = Transfer::new(&network, root.path(), 5002);
    let (receiver, sender) = (transfer.receiver(), transfer.sender(&[&chain]));
    transfer.await_megabytes(6);
    sender.kill();
    receiver.kill();
    let report = {
        let (receiver, sender) = (transfer.receiver(), transfer.sender(&[&chain]));
        transfer.end(sender, receiver)
    };
    assert!(report["resumed_bytes"].as_u64().unwrap() >= 6 << 20, "{report}");

    // A relay instead of the depot changes a bit. Its group is sent again, on another connection if it was encrypted.
    for (port, options, connections) in [(5003, &["--no-encryption"][..], 1), (5006, &[], 2)] {
        let transfer = Transfer::new(&network, root.path(), port);
        let relay = On::start(&network, "depot1", "python3", &["-c", FLIPPING_RELAY, D1, D2]);
        let through_relay = format!("{D1}:3999");
        let receiver = transfer.receiver();
        let sender = transfer.sender_with(&[&through_relay], options);
        let report = transfer.end(sender, receiver);
        assert_eq!(report["connections"], connections, "{report}");
        drop(relay);
    }

    // A depot is gone for good, and there is another route.
    let transfer = Transfer::new(&network, root.path(), 5004);
    let (receiver, sender) = (transfer.receiver(), transfer.sender(&[&chain, D2]));
    transfer.await_megabytes(4);
    first.kill();
    let report = transfer.end(sender, receiver);
    assert_eq!(report["hops"].as_array().unwrap().len(), 1, "{report}");

    // The sender gets another address, and a minute without network follows.
    let transfer = Transfer::new(&network, root.path(), 5005);
    let (receiver, sender) = (transfer.receiver(), transfer.sender(&[D2]));
    transfer.await_megabytes(4);
    let emulator = json(&["wan", "status", "--name", &network.0, "--json"])["pid"].to_string();
    let signal = |name: &str| {
        let kill = Command::new("kill").args(["-s", name, &emulator]).status().unwrap();
        assert!(kill.success());
    };
    move_to_another_address(&network);
    signal("STOP");
    sleep(Duration::from_secs(60));
    signal("CONT");
    let report = transfer.end(sender, receiver);
    assert!(report["connections"].as_u64().unwrap() > 1, "{report}");
}

/// Gives the node `a` another address, and the depots a route to it.
fn move_to_another_address(network: &Up) {
    const MOVED: &str = "10.110.7.7";
    network.exec("a", &["ip", "address", "add", &format!("{MOVED}/32"), "dev", "lo"]);
    for (node, via) in [("depot1", "10.110.0.1"), ("depot2", D1)] {
        let known = network.exec(node, &["ip", "-o", "route", "get", "10.110.0.1"]);
        let device = known.split_once("dev ").and_then(|(_, rest)| rest.split(' ').next());
        let device = device.expect("a route has a device");
        network.exec(node, &["ip", "route", "add", MOVED, "via", via, "dev", device, "onlink"]);
    }
    for there in [D1, D2, B] {
        let route = ["ip", "route", "replace", there, "via", D1, "dev", "wan0", "onlink"];
        network.exec("a", &[&route[..], &["src", MOVED]].concat());
    }
    network.exec("a", &["ip", "address", "delete", "10.110.0.1/32", "dev", "lo"]);
}
