// SPDX-License-Identifier: GPL-2.0-or-later
//! What one destination does, or one client, is no reason to leave a depot alone.

use crate::{
    agent::Agent,
    chain::{Chain, PRELUDE},
    common::text,
    depot::Depot,
    run_faults::{ask, ask_at, in_place_of_depot, pass_on, read_open},
};
use socket2::{Domain, Socket, Type};
use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

/// A port of this machine whose system takes no connection and refuses none.
struct Silent {
    address: SocketAddr,
    _listener: Socket,
    _waiting: Vec<TcpStream>,
}

impl Silent {
    fn new() -> Self {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(300));
        let waiting = std::iter::from_fn(|| connect().ok()).take(100).collect();
        Self { address, _listener: listener, _waiting: waiting }
    }
}

/// A connection to the silent port while others go on, and then one more.
const WITH_OTHERS: &str = r#"
silent = int(os.environ["SILENT"].rsplit(":", 1)[1])
said = []
def wait(): said.append(socket.socket().connect_ex(("127.0.0.1", silent)))
t = threading.Thread(target=wait)
t.start()
while t.is_alive():
    s = socket.create_connection((host, port))
    assert s.getpeername()[1] != port, "directly"
    exchange(s, 1000)
    time.sleep(0.05)
s = socket.create_connection((host, port))
assert s.getpeername()[1] != port, "directly"
exchange(s, 1000)
print(errno.errorcode[said[0]])
"#;

/// The depots' answer comes before the program's time is over.
#[test]
fn silent_destination_leaves_its_depots_to_others() {
    let (chain, silent) = (Chain::start(), Silent::new());
    let script = format!("{PRELUDE}\n{WITH_OTHERS}");
    for strict in [&["--strict"][..], &[]] {
        let options = [&["--stats", "--connect-timeout", "2s"][..], strict].concat();
        let mut command = chain.command(&options, &["python3", "-c", &script]);
        let output = command.env("SILENT", silent.address.to_string()).output().unwrap();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success() && out == "ETIMEDOUT\n", "{out}{err}");
        assert!(err.contains("far says: ") && err.contains("did not take the connection"), "{err}");
        assert!(err.contains(" 0 directly, 1 failed"), "{err}");
    }
    let agent = Agent::through(&chain, &[]);
    let listen = agent.listen.as_str();
    let asks = |to: &str| ask_at(listen, to);
    thread::scope(|scope| {
        let waits = scope.spawn(|| asks(&silent.address.to_string()));
        while !waits.is_finished() {
            assert_eq!(asks(&chain.echo), Some("hello".to_owned()));
            thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(waits.join().unwrap(), None);
    });
    assert_eq!(asks(&chain.echo), Some("hello".to_owned()));
    let status = agent.status();
    assert_eq!((&status["fell_back"], &status["failed"]), (&0.into(), &1.into()), "{status}");
}

/// A depot in front of another one that does this with its first session, and passes the others on.
fn first_session(depot: &str, act: fn(TcpStream)) -> String {
    let (depot, was_first) = (depot.to_owned(), AtomicBool::new(false));
    in_place_of_depot(move |mut stream| {
        if !was_first.swap(true, Relaxed) {
            thread::spawn(move || {
                read_open(&mut stream);
                act(stream);
            });
            return;
        }
        pass_on(stream, &depot);
    })
}

fn hold(stream: TcpStream) {
    thread::sleep(Duration::from_secs(60));
    drop(stream);
}

/// Of depots that say nothing, break off, or say what is no answer: as it happens with what an older one cannot reach, or
/// what a filter on the path takes exception to.
#[test]
fn failed_session_leaves_a_living_depot_to_others() {
    type Act = fn(TcpStream);
    let chain = Chain::start();
    let acts: [(Act, &str); 3] = [
        (hold, "ETIMEDOUT"),
        (drop, "ECONNREFUSED"),
        (
            |stream| drop(io::Write::write_all(&mut &stream, b"HTTP/1.1 503 Busy\r\n\r\n")),
            "ECONNREFUSED",
        ),
    ];
    let script = format!(
        r#"{PRELUDE}
e = socket.socket().connect_ex((host, port))
print(errno.errorcode.get(e, e))
for _ in range(3):
    s = socket.create_connection((host, port))
    assert s.getpeername()[1] != port, "directly"
    exchange(s, 1000)
"#
    );
    for (act, says) in acts {
        let via = || format!("{},{}", first_session(&chain.near.listen, act), chain.far.listen);
        let options = ["--strict", "--connect-timeout", "1s"];
        let output = chain.command_via(&via(), &options, &["python3", "-c", &script]).output();
        let output = output.unwrap();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success() && out == format!("{says}\n"), "{says}: {out}{err}");
        let config = format!(
            "listen = \"127.0.0.1:0\"\nconnect_timeout = \"1s\"\nstrict = true\n[[route]]\nto = [\"127.0.0.1\"]\nvia = [{:?}, {:?}]\n",
            first_session(&chain.near.listen, act),
            chain.far.listen
        );
        let agent = Agent::start(&["--config", chain.write("a.toml", &config).to_str().unwrap()]);
        let asked = [(); 4].map(|()| ask(&agent, &chain.echo).is_some());
        assert_eq!(asked, [false, true, true, true], "{says}");
    }
}

/// A program's own socket cannot reach the depot, as it is bound to an address that leads nowhere else.
#[test]
fn odd_socket_of_a_program_leaves_the_depot_to_others() {
    let chain = Chain::start();
    let script = format!(
        r#"{PRELUDE}
t = socket.socket()
t.setsockopt(socket.IPPROTO_IP, 15, 1)  # IP_FREEBIND
t.bind(("192.0.2.9", 0))
e = t.connect_ex((host, port))
print(e != 0)
s = socket.create_connection((host, port))
assert s.getpeername()[1] != port, "directly"
exchange(s, 1000)
"#
    );
    let output = chain.run(&["--strict", "--connect-timeout", "2s"], &["python3", "-c", &script]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && out == "True\n", "{out}{err}");
}

/// One client takes all that a depot has for this machine: others are refused, and served once it has ended.
#[test]
fn full_depot_is_asked_again_at_once() {
    let chain = Chain::start();
    let config = chain.write(
        "small.toml",
        "[allow]\nclients = [\"127.0.0.0/8\"]\nlocal = true\nservers = [\"127.0.0.1:*\"]\n[limits]\nper_client = 4\n",
    );
    let small = Depot::named("small", &["--config", config.to_str().unwrap()]);
    let script = format!(
        r"{PRELUDE}
open = [socket.create_connection((host, port)) for _ in range(4)]
print(socket.socket().connect_ex((host, port)) != 0)
for s in open: exchange(s, 1000); s.close()
for _ in range(200):
    s = socket.socket()
    if s.connect_ex((host, port)) == 0: break
    time.sleep(0.02)
exchange(s, 1000)
"
    );
    let mut command = chain.command_via(&small.listen, &["--strict"], &["python3", "-c", &script]);
    let output = command.output().unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && out == "True\n", "{out}{err}");
}

/// One client's tunnels to a silent server take a share of what the depot has for this machine.
#[test]
fn silent_server_takes_a_share_of_the_depot_alone() {
    let (chain, silent) = (Chain::start(), Silent::new());
    let config = chain.write(
        "small.toml",
        "[allow]\nclients = [\"127.0.0.0/8\"]\nlocal = true\nservers = [\"127.0.0.1:*\"]\n[limits]\nper_client = 80\n",
    );
    let small = Depot::named("small", &["--config", config.to_str().unwrap()]);
    let config = format!(
        "listen = \"127.0.0.1:0\"\nstrict = true\n[[route]]\nto = [\"127.0.0.1\"]\nvia = [{:?}]\n",
        small.listen
    );
    let agent = Agent::start(&["--config", chain.write("a.toml", &config).to_str().unwrap()]);
    let waiting = [(); 150].map(|()| {
        let mut stream = TcpStream::connect(&agent.listen).unwrap();
        let head = format!("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n\r\n", silent.address);
        io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
        stream
    });
    thread::sleep(Duration::from_secs(1));
    for _ in 0..10 {
        assert_eq!(ask(&agent, &chain.echo), Some("hello".to_owned()));
    }
    drop(waiting);
}

/// As a user writes it who follows docs/run.md: the last depot lists a name, and the program has looked it up.
#[test]
fn depot_that_lists_a_name_takes_its_address() {
    let chain = Chain::start();
    let config = chain.write(
        "named.toml",
        "[allow]\nclients = [\"127.0.0.0/8\"]\nlocal = true\nservers = [\"localhost:*\"]\n",
    );
    let named = Depot::named("named", &["--config", config.to_str().unwrap()]);
    let script = format!(
        r#"{PRELUDE}
s = socket.create_connection((host, port))
assert s.getpeername()[1] != port, "directly"
exchange(s)
print(errno.errorcode[socket.socket().connect_ex(("127.0.0.2", port))])
"#
    );
    let options = ["--strict", "--stats"];
    let mut command = chain.command_via(&named.listen, &options, &["python3", "-c", &script]);
    let output = command.output().unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && out == "EACCES\n", "{out}{err}");
    assert!(err.contains("`allow.servers` does not list it, and this depot's own"), "{err}");
}
