// SPDX-License-Identifier: GPL-2.0-or-later
//! `examples/relay.rs` as a process between real connections.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

/// The example, ended when dropped.
struct Example(Child);

impl Example {
    /// Starts it before a peer on this port; also says where it listens.
    fn start(port: u16, more: &[&str]) -> (Self, String) {
        let tests = std::env::current_exe().unwrap();
        let program = tests.ancestors().nth(2).unwrap().join("examples/relay");
        assert!(
            program.exists(),
            "{} is missing: cargo test without --test builds it",
            program.display()
        );
        let mut command = Command::new(program);
        command.args(["127.0.0.1:0", "127.0.0.1", &port.to_string()]).args(more);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").expect("its address").to_owned();
        (Self(child), address)
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether a socket of this network namespace listens on an IPv4 address, as the kernel lists it.
fn is_listening(address: &str) -> bool {
    let address: std::net::SocketAddrV4 = address.parse().unwrap();
    let ip = u32::from_ne_bytes(address.ip().octets());
    let socket = format!(" {ip:08X}:{:04X} 00000000:0000 0A ", address.port());
    std::fs::read_to_string("/proc/net/tcp").unwrap().contains(&socket)
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

#[test]
fn example_relays_both_ways_and_drains_at_sigint() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (mut example, address) = Example::start(listener.local_addr().unwrap().port(), &["reno"]);
    let sent: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let mut client = connect(&address);
    let (mut peer, _) = listener.accept().unwrap();
    // It returns what it got, once that has ended.
    let echo = thread::spawn(move || {
        let mut got = Vec::new();
        peer.read_to_end(&mut got).unwrap();
        peer.write_all(&got).unwrap();
    });
    client.write_all(&sent[..1_000_000]).unwrap();
    let process = rustix::process::Pid::from_child(&example.0);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    // Its listener is closed, and the client that is there is served.
    while is_listening(&address) {
        thread::sleep(Duration::from_millis(10));
    }
    TcpStream::connect(&address).unwrap_err();
    client.write_all(&sent[1_000_000..]).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut got = Vec::new();
    client.read_to_end(&mut got).unwrap();
    assert!(got == sent, "{} bytes came back of {}", got.len(), sent.len());
    echo.join().unwrap();
    assert!(example.0.wait().unwrap().success());
}

#[test]
fn example_reports_a_congestion_control_that_the_kernel_lacks() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (mut example, address) = Example::start(listener.local_addr().unwrap().port(), &["warp"]);
    let mut client = connect(&address);
    assert_eq!(client.read(&mut [0]).unwrap_or(0), 0, "there is no connection to relay to");
    let mut line = String::new();
    BufReader::new(example.0.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("cannot set up a connection to 127.0.0.1:"), "{line}");
}
