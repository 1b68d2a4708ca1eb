// SPDX-License-Identifier: GPL-2.0-or-later
//! `--direct-below`: destinations whose connections are short are reached directly, and through depots when they are not.

use crate::{
    agent::Agent,
    chain::{Chain, PRELUDE},
    common::{refused, text},
};
use std::{
    fs,
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
};
use testkit::until;

/// Functions of programs: a connection and its exchange; whether it was direct.
const CONNECTIONS: &str = r"
def connect(): return socket.create_connection((host, port))
def is_direct(s): return s.getpeername()[1] == port
def use(size):
    with connect() as s:
        direct = is_direct(s)
        exchange(s, size)
        return direct
def until(direct, size):
    # What the kernel tells of the last connection may come a moment later.
    for _ in range(1000):
        if use(size) == direct: return
        time.sleep(0.03)
    assert False, direct
";

fn run(options: &[&str], script: &str) -> String {
    let script = format!("{PRELUDE}\n{CONNECTIONS}\n{script}");
    let output = Chain::start().run(options, &["python3", "-c", &script]);
    let err = text(&output.stderr);
    assert!(output.status.success(), "{err}");
    err
}

#[test]
fn run_is_direct_after_short_connections_until_a_long_one() {
    let err = run(
        &["--direct-below", "64KB", "--stats", "--strict"],
        r#"
assert [use(1000) for _ in range(3)] == [False] * 3
until(True, 1000)
# A long one stays where it began, and the next ones go through depots, while it is open and afterwards.
s = connect()
assert is_direct(s)
s.sendall(b"x" * 20_000)
s.recv(20_000, socket.MSG_WAITALL)
assert use(1000)
s.sendall(b"x" * 30_000)
s.recv(30_000, socket.MSG_WAITALL)
until(False, 1000)
assert is_direct(s)
s.close()
assert [use(1000) for _ in range(2)] == [False] * 2
until(True, 1000)
# So do those after one that has ended.
use(40_000)
until(False, 1000)
"#,
    );
    assert!(err.contains("  directly: short connections\n"), "{err}");
}

#[test]
fn run_without_the_rule_always_goes_through() {
    run(
        &["--strict"],
        "assert [use(1000) for _ in range(8)] == [False] * 8; time.sleep(0.5); assert not use(1000)",
    );
}

#[test]
fn first_contact_may_be_direct() {
    run(
        &["--direct-below", "64KB", "--first-contact", "direct", "--strict"],
        r"
assert use(1000) and use(1000)
# Connections that move nothing say nothing.
for _ in range(4): connect().close()
assert use(1000)
use(1_000_000)
until(False, 1_000_000)
time.sleep(0.3)
assert not use(1000)
",
    );
}

/// A connection by SOCKS5 to the echo server.
fn connect(agent: &Agent, chain: &Chain) -> TcpStream {
    let mut stream = TcpStream::connect(&agent.listen).unwrap();
    let to: SocketAddr = chain.echo.parse().unwrap();
    let request = [&[5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1][..], &to.port().to_be_bytes()].concat();
    stream.write_all(&request).unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..4], [5, 0, 5, 0]);
    stream
}

/// Has `size` bytes sent back.
fn echo(stream: &mut TcpStream, size: usize) {
    let mut back = vec![0; size];
    let mut writer = stream.try_clone().unwrap();
    let sent = back.clone();
    let writer = std::thread::spawn(move || writer.write_all(&sent).unwrap());
    stream.read_exact(&mut back).unwrap();
    writer.join().unwrap();
}

/// Whether the latest connection that is open is direct.
fn is_direct(agent: &Agent) -> bool {
    let status = agent.status();
    let last = status["connections"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["through"].as_array().unwrap().is_empty(), !last["direct_because"].is_null());
    last["direct_because"] == "short connections"
}

/// Whether a whole connection was direct. It is accounted for when this returns.
fn used(agent: &Agent, chain: &Chain, size: usize) -> bool {
    let others = agent.status()["connections"].as_array().unwrap().len();
    let mut stream = connect(agent, chain);
    echo(&mut stream, size);
    let was_direct = is_direct(agent);
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    until("it ends", || agent.status()["connections"].as_array().unwrap().len() == others);
    was_direct
}

#[test]
fn agent_goes_directly_after_short_connections_and_back() {
    let chain = Chain::start();
    let agent = Agent::through(&chain, &["--strict", "--direct-below", "64KB"]);
    let used = |size| used(&agent, &chain, size);
    assert_eq!([used(1000), used(1000), used(1000), used(1000)], [false, false, false, true]);
    // A long one is taken into account while it is open.
    let mut long = connect(&agent, &chain);
    echo(&mut long, 40_000);
    assert!(!used(1000));
    drop(long);
    until("it ends", || agent.status()["connections"].as_array().unwrap().is_empty());
    assert_eq!([used(1000), used(1000), used(1000)], [false; 3]);
    assert_eq!([used(1000), used(1_000_000), used(1000)], [true, true, false]);
}

#[test]
fn agents_file_has_the_rule_by_route_and_for_all() {
    let chain = Chain::start();
    let via = format!("[\"{}\", \"{}\"]", chain.near.listen, chain.far.listen);
    let route = format!("[[route]]\nto = [\"127.0.0.0/8\"]\nvia = {via}\n");
    let write = |top: &str, of_route: &str| {
        let text = format!("listen = \"127.0.0.1:0\"\n{top}\n{route}{of_route}\n");
        let path = chain.write("agent.toml", &text);
        path.to_str().unwrap().to_owned()
    };
    for (top, of_route, is_direct) in [
        ("direct_below = \"64KB\"\nfirst_contact = \"direct\"", "", true),
        ("direct_below = \"64KB\"", "first_contact = \"direct\"", true),
        ("first_contact = \"direct\"", "direct_below = \"64KB\"", true),
        ("direct_below = \"64KB\"\nfirst_contact = \"direct\"", "direct_below = \"0B\"", false),
        ("direct_below = \"64KB\"", "", false),
    ] {
        let agent = Agent::start(&["--config", &write(top, of_route)]);
        assert_eq!(used(&agent, &chain, 1000), is_direct, "{top} {of_route}");
    }
    for (top, of_route, why) in [
        ("direct_below = \"much\"", "", "agent.toml:2: "),
        ("", "first_contact = \"maybe\"", "agent.toml:6: "),
        ("", "first_contact = \"direct\"", "\"first_contact\" needs \"direct_below\""),
        ("first_contact = \"direct\"", "", "\"first_contact\" needs \"direct_below\""),
    ] {
        let (code, said) = refused(&["agent", "run", "--config", &write(top, of_route)]);
        assert!(code == 2 && said.contains(why), "{top} {of_route}: {said}");
    }
    fs::remove_file(chain.dir.path().join("agent.toml")).unwrap();
}
