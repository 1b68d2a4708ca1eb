// SPDX-License-Identifier: GPL-2.0-or-later
//! Two depots between a client and a server, on an emulated wide-area network.

use crate::{
    common::{call, longhaul, text},
    wan::Up,
};
use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    thread::sleep,
    time::{Duration, Instant},
};

const NETWORK: &str = r#"
title = "Two depots between a client and a server"
[[node]]
name = "a"
[[node]]
name = "depot1"
[[node]]
name = "depot2"
[[node]]
name = "b"
[[link]]
between = ["a", "depot1"]
rate = "100mbit"
delay = "2ms"
[[link]]
between = ["depot1", "depot2"]
rate = "100mbit"
delay = "18ms"
[[link]]
between = ["depot2", "b"]
rate = "100mbit"
delay = "2ms"
"#;
pub const D1: &str = "10.110.0.2";
pub const D2: &str = "10.110.0.3";
pub const B: &str = "10.110.0.4";

/// A process on a node, killed when dropped.
pub struct On(Child);

impl On {
    pub fn start(network: &Up, node: &str, program: &str, arguments: &[&str]) -> Self {
        let mut command = longhaul();
        command.args(["wan", "exec", "--name", &network.0, node, "--", program]).args(arguments);
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(quiet.spawn().unwrap())
    }

    /// Waits for its end.
    pub fn take_output(&mut self) -> std::process::Output {
        let nothing = Command::new("true").spawn().unwrap();
        std::mem::replace(&mut self.0, nothing).wait_with_output().unwrap()
    }

    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for On {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A depot that is open to all of the network.
pub fn depot(network: &Up, node: &str) -> On {
    let address = if node == "depot1" { D1 } else { D2 };
    let listen = format!("{address}:3880");
    let own = ["depot", "--listen", &listen, "--id", node, "--allow-local"];
    let open = ["--allow-client", "0.0.0.0/0", "--allow-upstream", "10.110.0.0/16:*"];
    let arguments = [&own[..], &open, &["--allow-server", "10.110.0.0/16:*"]].concat();
    let depot = On::start(network, node, env!("CARGO_BIN_EXE_longhaul"), &arguments);
    let begun = Instant::now();
    while !network.exec(node, &["ss", "-ltn"]).contains(":3880") {
        assert!(begun.elapsed() < Duration::from_secs(20), "{node} does not listen");
        sleep(Duration::from_millis(50));
    }
    depot
}

/// The network, with its file in this directory. Each has a name of its own, as tests run side by side.
pub fn network(root: &Path) -> Up {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Relaxed);
    let name = format!("test-depots-{}-{count}", std::process::id());
    let file = root.join("network.toml");
    fs::write(&file, NETWORK).unwrap();
    let output = call(&["wan", "up", file.to_str().unwrap(), "--name", &name]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    Up(name)
}
