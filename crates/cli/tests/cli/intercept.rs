// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul intercept` on a router between a client and the rest of the world, in network namespaces.

use crate::common::{longhaul, text};
use host::{Namespace, iproute};
use serde_json::Value;
use std::{
    fs,
    io::{self, BufRead, BufReader, ErrorKind, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};
use testkit::until;

const CLIENT: &str = "10.1.0.2";
const ROUTER: &str = "203.0.113.1";
const NEAR: &str = "203.0.113.2";
const FAR: &str = "203.0.113.3";
const SERVER: &str = "198.51.100.7";
const SERVER6: &str = "2001:db8:7::7";
const PRIVATE_SERVER: &str = "192.168.7.7";
/// An address without a host.
const GONE: &str = "203.0.113.99";
const ECHO: u16 = 7;
const CLOSED: u16 = 81;

/// A client, a router, and behind it two depots and a server on one host.
struct World {
    client: Namespace,
    router: Namespace,
    outside: Namespace,
}

fn ip(namespace: &Namespace, commands: &str) {
    iproute::ip_batch(namespace, commands).unwrap();
}

impl World {
    fn new() -> Self {
        let world = Self {
            client: Namespace::new().unwrap(),
            router: Namespace::new().unwrap(),
            outside: Namespace::new().unwrap(),
        };
        let own = std::process::id();
        for (name, inner, namespace) in [("c0", "e0", &world.client), ("o0", "e0", &world.outside)]
        {
            let path = format!("/proc/{own}/fd/{}", namespace.descriptor());
            ip(
                &world.router,
                &format!("link add {name} type veth peer name {inner} netns {path}\n"),
            );
        }
        ip(
            &world.router,
            "link set lo up\nlink set c0 up\nlink set o0 up\n\
             addr add 10.1.0.1/24 dev c0\naddr add fd01::1/64 dev c0 nodad\n\
             addr add 203.0.113.1/24 dev o0\naddr add 2001:db8::1/64 dev o0 nodad\n\
             route add 198.51.100.0/24 via 203.0.113.2\nroute add 192.168.0.0/16 via 203.0.113.2\n\
             route add 2001:db8:7::/48 via 2001:db8::2\n",
        );
        ip(
            &world.client,
            "link set lo up\nlink set e0 up\naddr add 10.1.0.2/24 dev e0\naddr add fd01::2/64 dev e0 nodad\n\
             route add default via 10.1.0.1\nroute add default via fd01::1\n",
        );
        ip(
            &world.outside,
            "link set lo up\nlink set e0 up\naddr add 203.0.113.2/24 dev e0\naddr add 203.0.113.3/24 dev e0\n\
             addr add 198.51.100.7/32 dev lo\naddr add 192.168.7.7/32 dev lo\n\
             addr add 2001:db8::2/64 dev e0 nodad\naddr add 2001:db8:7::7/128 dev lo nodad\n\
             route add 10.1.0.0/24 via 203.0.113.1\nroute add fd01::/64 via 2001:db8::1\n",
        );
        for key in
            ["net.ipv4.ip_forward", "net.ipv4.conf.all.rp_filter", "net.ipv6.conf.all.forwarding"]
        {
            world.router.set_sysctl(key, "1").unwrap();
        }
        world
            .outside
            .run(|| {
                serve_echo("[::]:7");
                Ok(())
            })
            .unwrap();
        world
    }

    /// Two depots outside, open to this router and to each other.
    fn depots(&self) -> [Process; 2] {
        [("near", NEAR), ("far", FAR)].map(|(id, address)| {
            let listen = format!("{address}:3880");
            let own = ["depot", "--listen", &listen, "--id", id, "--allow-local"];
            let clients = ["--allow-client", "203.0.113.0/24", "--allow-upstream", "203.0.113.3:*"];
            let servers =
                ["203.0.113.0/24:*", "198.51.100.0/24:*", "192.168.0.0/16:*", "[2001:db8:7::7]:*"];
            let servers = servers.iter().flat_map(|to| ["--allow-server", to]);
            let arguments: Vec<_> = own.into_iter().chain(clients).chain(servers).collect();
            let mut depot = Process::start(&self.outside, &arguments);
            depot.await_log("ready");
            depot
        })
    }

    fn intercept(&self, arguments: &[&str]) -> Process {
        let via = format!("{NEAR},{FAR}");
        let own = ["intercept", "run", "--via", &via];
        let mut process = Process::start(&self.router, &[&own[..], arguments].concat());
        process.await_log("ready");
        process
    }

    fn on_router(&self, program: &str, arguments: &[&str]) -> Output {
        self.router.run(|| Command::new(program).args(arguments).output()).unwrap()
    }

    fn status(&self) -> Value {
        let output = self.on_router(
            longhaul().get_program().to_str().unwrap(),
            &["intercept", "status", "--json"],
        );
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Asserts that the router is as it was before.
    fn nothing_is_left(&self) {
        let shows =
            |program: &str, arguments: &[&str]| text(&self.on_router(program, arguments).stdout);
        until("the table goes", || shows("nft", &["list", "tables"]).is_empty());
        for version in ["-4", "-6"] {
            until("the rule goes", || !shows("ip", &[version, "rule"]).contains("0x4c48"));
            let route = || shows("ip", &[version, "route", "show", "table", "all"]);
            until("the route goes", || !route().contains("19528"));
        }
        let inode = self.router.inode().unwrap();
        until("all processes go", || !has_process_in(inode));
    }
}

/// Whether a process of this binary is in a network namespace.
fn has_process_in(inode: u64) -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let program = fs::read_link(entry.path().join("exe")).unwrap_or_default();
        let namespace = fs::metadata(entry.path().join("ns/net"));
        program.ends_with("longhaul") && namespace.is_ok_and(|found| found.ino() == inode)
    })
}

/// A process of longhaul in a namespace, killed when dropped.
struct Process {
    child: Child,
    log: mpsc::Receiver<String>,
}

impl Process {
    fn start(namespace: &Namespace, arguments: &[&str]) -> Self {
        let mut command = longhaul();
        command.args(arguments).stderr(Stdio::piped());
        let mut child = namespace.run(|| command.spawn()).unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (sender, log) = mpsc::channel();
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, log }
    }

    fn await_log(&mut self, part: &str) {
        let mut seen = String::new();
        while let Ok(line) = self.log.recv_timeout(Duration::from_secs(20)) {
            if line.contains(part) {
                return;
            }
            seen += &(line + "\n");
        }
        panic!("{part} is not in the log:\n{seen}");
    }

    fn signal(&mut self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends each client its address in a line, and then what it is sent.
fn serve_echo(address: &str) {
    let listener = TcpListener::bind(address).unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || -> io::Result<()> {
                writeln!(stream, "{}", stream.peer_addr()?.ip().to_canonical())?;
                let mut bytes = vec![0; 65536];
                while let Ok(count @ 1..) = stream.read(&mut bytes) {
                    stream.write_all(&bytes[..count])?;
                }
                Ok(())
            });
        }
    });
}

fn connect(from: &Namespace, host: &str, port: u16) -> io::Result<TcpStream> {
    let address = SocketAddr::new(host.parse().unwrap(), port);
    let stream = from.run(|| TcpStream::connect_timeout(&address, Duration::from_secs(20)))?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    Ok(stream)
}

/// As whom the server sees this connection, which passes on a megabyte in both directions.
fn seen_as(from: &Namespace, host: &str) -> String {
    let stream = connect(from, host, ECHO).unwrap();
    assert_eq!(stream.peer_addr().unwrap().ip().to_string(), host);
    let sent: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let mut received = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            writer.write_all(&sent).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        reader.read_to_end(&mut received).unwrap();
    });
    assert!(received == sent, "{} bytes came back", received.len());
    line.trim().to_owned()
}

#[test]
fn connections_of_clients_go_through_depots() {
    let world = World::new();
    let _depots = world.depots();
    let _intercept = world.intercept(&["--clients", "10.1.0.0/24", "--clients", "fd01::/64"]);
    assert_eq!(seen_as(&world.client, SERVER), SERVER, "the last depot is on the server's host");
    assert_eq!(seen_as(&world.client, SERVER6), SERVER6);
    assert_eq!(seen_as(&world.router, SERVER), ROUTER, "the router's own are not intercepted");
    let status = world.status();
    assert_eq!(status["through"], 2, "{status}");
    assert_eq!(status["up_bytes"], 2_000_000, "{status}");
    assert_eq!(status["held"], 0, "{status}");
    let open = connect(&world.client, SERVER, ECHO).unwrap();
    until("it is shown", || world.status()["connections"][0]["destination"] == "198.51.100.7:7");
    let shown = world.status()["connections"][0].to_string();
    assert!(shown.contains(NEAR) && shown.contains(FAR) && shown.contains(CLIENT), "{shown}");
    drop(open);
    until("it ends", || world.status()["connections"].as_array().is_some_and(Vec::is_empty));
}

#[test]
fn connections_of_the_host_itself_go_through_depots() {
    let world = World::new();
    let _depots = world.depots();
    let _intercept = world.intercept(&["--this-host"]);
    assert_eq!(seen_as(&world.router, SERVER), SERVER);
    assert_eq!(seen_as(&world.router, SERVER6), SERVER6);
    assert_eq!(seen_as(&world.client, SERVER), CLIENT, "forwarded ones are not intercepted");
    assert_eq!(world.status()["through"], 2);
}

#[test]
fn a_client_is_connected_only_once_its_server_is() {
    let world = World::new();
    let _depots = world.depots();
    let _intercept =
        world.intercept(&["--clients", "10.1.0.0/24", "--clients", "fd01::/64", "--this-host"]);
    for from in [&world.client, &world.router] {
        for (host, port, expected) in [
            (SERVER, CLOSED, ErrorKind::ConnectionRefused),
            (SERVER6, CLOSED, ErrorKind::ConnectionRefused),
            (GONE, ECHO, ErrorKind::HostUnreachable),
        ] {
            let error = connect(from, host, port).unwrap_err();
            assert_eq!(error.kind(), expected, "{host}:{port}: {error}");
        }
    }
    let status = world.status();
    // A client may have sent a SYN again right after its answer.
    assert!(status["through"] == 0 && status["failed"].as_u64() >= Some(6), "{status}");
}

#[test]
fn connections_pass_directly_when_depots_fail_unless_strict() {
    let world = World::new();
    {
        let _intercept = world.intercept(&["--clients", "10.1.0.0/24", "--this-host"]);
        for _ in 0..2 {
            assert_eq!(seen_as(&world.client, SERVER), CLIENT, "its own address");
            assert_eq!(seen_as(&world.router, SERVER), ROUTER);
        }
        assert_eq!(world.status()["fell_back"], 1, "the second ones were not held");
    }
    world.nothing_is_left();
    let _strict = world.intercept(&["--clients", "10.1.0.0/24", "--strict"]);
    let error = connect(&world.client, SERVER, ECHO).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn nothing_is_left_after_any_end() {
    let world = World::new();
    let _depots = world.depots();
    for signal in
        [rustix::process::Signal::KILL, rustix::process::Signal::TERM, rustix::process::Signal::INT]
    {
        let mut intercept = world.intercept(&["--clients", "10.1.0.0/24", "--this-host"]);
        let mut open = connect(&world.client, SERVER, ECHO).unwrap();
        intercept.signal(signal);
        intercept.child.wait().unwrap();
        world.nothing_is_left();
        let mut rest = Vec::new();
        let end = open.read_to_end(&mut rest);
        assert!(end.is_err(), "it is reset: {rest:?}");
        assert_eq!(seen_as(&world.client, SERVER), CLIENT);
    }
}

#[test]
fn leftovers_of_a_killed_guard_are_harmless_and_cleaned() {
    let world = World::new();
    let _depots = world.depots();
    let mut intercept = world.intercept(&["--this-host"]);
    let children = format!("/proc/{0}/task/{0}/children", intercept.child.id());
    let children = fs::read_to_string(children).unwrap();
    let is_guard = |pid: &&str| {
        fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("guard"))
    };
    let guard: i32 = children.split_whitespace().find(is_guard).unwrap().parse().unwrap();
    let guard = rustix::process::Pid::from_raw(guard).unwrap();
    rustix::process::kill_process(guard, rustix::process::Signal::KILL).unwrap();
    intercept.signal(rustix::process::Signal::KILL);
    intercept.child.wait().unwrap();
    let tables = text(&world.on_router("nft", &["list", "tables"]).stdout);
    assert_eq!(tables, "", "no child keeps the table");
    let rules = || text(&world.on_router("ip", &["rule"]).stdout);
    assert!(rules().contains("0x4c480000/0xffff0000"), "{}", rules());
    assert_eq!(seen_as(&world.router, SERVER), ROUTER);
    let program = longhaul().get_program().to_str().unwrap().to_owned();
    assert!(world.on_router(&program, &["intercept", "clean"]).status.success());
    world.nothing_is_left();
}

#[test]
fn servers_are_told_the_client_by_the_proxy_protocol() {
    let world = World::new();
    let _depots = world.depots();
    let listener = world.outside.run(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 8080))).unwrap();
    let more = ["--clients", "10.1.0.0/24", "--proxy-protocol", "198.51.100.0/24:8080"];
    let _intercept = world.intercept(&more);
    let mut client = connect(&world.client, SERVER, 8080).unwrap();
    client.write_all(b"hello").unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let mut bytes = [0; 28 + 5];
    server.read_exact(&mut bytes).unwrap();
    // haproxy.org, proxy-protocol.txt, 2.2: signature, version 2 and PROXY, TCP over IPv4, 12 bytes of addresses.
    let mut expected = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x0a\x01\0\x02\xc6\x33\x64\x07".to_vec();
    expected.extend(client.local_addr().unwrap().port().to_be_bytes());
    expected.extend(8080_u16.to_be_bytes());
    expected.extend(b"hello");
    assert_eq!(bytes[..], expected);
}

#[test]
fn private_networks_are_intercepted_only_if_they_are_listed() {
    let world = World::new();
    let _depots = world.depots();
    let through = |more: &[&str]| {
        let _intercept = world.intercept(&[&["--clients", "10.1.0.0/24"], more].concat());
        [seen_as(&world.client, PRIVATE_SERVER), seen_as(&world.client, SERVER)]
            .map(|seen| seen != CLIENT)
    };
    assert_eq!(through(&[]), [false, true]);
    assert_eq!(through(&["--match", "*:7"]), [false, true]);
    assert_eq!(through(&["--match", "0.0.0.0/0"]), [false, true]);
    assert_eq!(through(&["--match", "192.168.7.7:7"]), [true, false]);
    assert_eq!(through(&["--match", "192.168.0.0/16", "--match", "*:7"]), [true, true]);
    assert_eq!(through(&["--match", "*:8"]), [false, false]);
}

#[test]
fn depot_behind_the_router_is_never_intercepted() {
    let world = World::new();
    // The last depot is a machine whose connections to servers this router would take over.
    let mut depot = Process::start(
        &world.client,
        &[
            "depot",
            "--listen",
            "10.1.0.2:3880",
            "--allow-local",
            "--allow-client",
            "10.1.0.0/24",
            "--allow-server",
            "198.51.100.0/24:*",
        ],
    );
    depot.await_log("ready");
    let mut intercept = Process::start(
        &world.router,
        &["intercept", "run", "--via", "10.1.0.2", "--clients", "10.1.0.0/24", "--this-host"],
    );
    intercept.await_log("ready");
    assert_eq!(seen_as(&world.router, SERVER), CLIENT);
    assert_eq!(world.status()["through"], 1);
}

#[test]
fn settings_reload_and_bad_ones_change_nothing() {
    let world = World::new();
    let _depots = world.depots();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("intercept.toml");
    let settings = |to: &str| {
        format!(
            "clients = [\"10.1.0.0/24\"]\n[[route]]\nto = [\"{to}\"]\nvia = [\"{NEAR}\", \"{FAR}\"]\n"
        )
    };
    fs::write(&file, settings("*:9")).unwrap();
    let mut intercept =
        Process::start(&world.router, &["intercept", "run", "--config", file.to_str().unwrap()]);
    intercept.await_log("ready");
    assert_eq!(seen_as(&world.client, SERVER), CLIENT);
    fs::write(&file, settings("*:7")).unwrap();
    intercept.await_log("read");
    until("it is used", || seen_as(&world.client, SERVER) == SERVER);
    fs::write(&file, settings("host.example:7")).unwrap();
    intercept.await_log("host.example:7: packets carry addresses and no names");
    assert_eq!(seen_as(&world.client, SERVER), SERVER);
}

#[test]
fn removed_rules_are_added_again() {
    let world = World::new();
    let _depots = world.depots();
    let mut intercept = world.intercept(&["--this-host"]);
    let flushed = world.on_router("nft", &["flush", "ruleset"]);
    assert!(flushed.status.success(), "{}", text(&flushed.stderr));
    assert_eq!(
        seen_as(&world.router, SERVER),
        SERVER,
        "the kernel keeps a table that has an owner"
    );
    world.on_router("ip", &["rule", "del", "pref", "900"]);
    intercept.await_log("set up again");
    assert_eq!(seen_as(&world.router, SERVER), SERVER);
}

#[test]
fn second_interceptor_is_refused_and_the_first_continues() {
    let world = World::new();
    let _depots = world.depots();
    let _intercept = world.intercept(&["--this-host"]);
    let program = longhaul().get_program().to_str().unwrap().to_owned();
    let second = world.on_router(&program, &["intercept", "run", "--this-host", "--via", NEAR]);
    assert_eq!(second.status.code(), Some(1));
    assert!(
        text(&second.stderr).contains("another `longhaul intercept run`"),
        "{}",
        text(&second.stderr)
    );
    assert_eq!(seen_as(&world.router, SERVER), SERVER);
}

#[test]
fn a_flood_of_forged_syns_is_bounded() {
    let world = World::new();
    let _depots = world.depots();
    let _intercept = world.intercept(&["--clients", "10.1.0.0/24"]);
    // No host answers there: each session stays under way for as long as it may.
    let flood = "import socket, struct, os\n\
        def sum16(b):\n    t = sum(struct.unpack('!%dH' % (len(b) // 2), b))\n    t = (t & 0xffff) + (t >> 16)\n    return ~((t & 0xffff) + (t >> 16)) & 0xffff\n\
        s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)\n\
        for i in range(20000):\n    ip = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 40, 0, 0, 64, 6, 0, bytes([10, 1, 0, 3 + i % 200]), socket.inet_aton('203.0.113.99'))\n    tcp = struct.pack('!HHIIBBHHH', 1024 + i // 200, 80, i, 0, 0x50, 2, 1000, 0, 0)\n    tcp = tcp[:16] + struct.pack('!H', sum16(ip[12:20] + struct.pack('!BBH', 0, 6, 20) + tcp)) + tcp[18:]\n    s.sendto(ip + tcp, ('203.0.113.99', 0))\n";
    let sent = world.client.run(|| Command::new("python3").args(["-c", flood]).output()).unwrap();
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    let held = world.status()["held"].as_u64().unwrap();
    assert!((1..=4096).contains(&held), "{held} are held");
    until("clients are served again", || connect(&world.client, SERVER, ECHO).is_ok());
}

#[test]
fn mistakes_are_refused_before_anything_changes() {
    let refused = |arguments: &[&str], code: i32, part: &str| {
        let output = longhaul().args(["intercept", "rules"]).args(arguments).output().unwrap();
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(code) && said.contains(part), "{arguments:?}: {said}");
    };
    refused(&["--via", NEAR], 2, "nothing is intercepted");
    refused(&["--this-host"], 2, "no route has depots");
    refused(
        &["--this-host", "--via", NEAR, "--match", "a.example:80"],
        2,
        "packets carry addresses",
    );
    refused(&["--this-host", "--via", NEAR, "--match", "127.0.0.1"], 2, "cannot be intercepted");
    refused(&["--config", "/nonexistent"], 2, "/nonexistent: No such file");
    let output =
        longhaul().args(["intercept", "rules", "--this-host", "--via", NEAR]).output().unwrap();
    let rules = text(&output.stdout);
    assert!(rules.starts_with("table inet longhaul {") && rules.contains("flags owner"), "{rules}");
    // The text that people are shown is one that nft takes.
    let world = World::new();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rules");
    fs::write(&file, rules.replace(":0 accept", ":1 accept")).unwrap();
    let taken = world.on_router("nft", &["--check", "-f", file.to_str().unwrap()]);
    assert!(taken.status.success(), "{}", text(&taken.stderr));
}

/// A server on the router, which starts while connections to others' port of the same number are open.
#[test]
fn server_on_the_router_can_take_an_intercepted_port() {
    let world = World::new();
    let _depots = world.depots();
    let _intercept = world.intercept(&["--clients", "10.1.0.0/24", "--clients", "fd01::/64"]);
    let mut open = [SERVER, SERVER6].map(|host| connect(&world.client, host, ECHO).unwrap());
    for any in ["0.0.0.0", "::"] {
        let own = world.router.run(|| TcpListener::bind((any, ECHO)));
        assert!(own.is_ok(), "{any}: {own:?}");
    }
    for stream in &mut open {
        stream.write_all(b"hello\n").unwrap();
        let mut lines = BufReader::new(stream).lines();
        assert_eq!(lines.nth(1).unwrap().unwrap(), "hello");
    }
}
