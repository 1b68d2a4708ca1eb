// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul run` and `longhaul agent` where depots, supervisors and programs break off at a bad moment.

use crate::{
    agent::Agent,
    chain::{Chain, ENDS, PRELUDE, kill},
    common::{refusing_address, text},
};
use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::Duration,
};
use testkit::until;

/// Listens where a depot should, and does this with each connection.
pub fn in_place_of_depot(act: impl Fn(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || listener.incoming().map_while(Result::ok).for_each(act));
    address
}

/// Passes a connection on to a depot, in both directions.
pub fn pass_on(stream: TcpStream, depot: &str) {
    let onward = TcpStream::connect(depot).unwrap();
    for (mut from, mut to) in
        [(stream.try_clone().unwrap(), onward.try_clone().unwrap()), (onward, stream)]
    {
        thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
    }
}

pub fn read_open(stream: &mut TcpStream) {
    let mut head = [0; 8];
    stream.read_exact(&mut head).unwrap();
    let mut fields = vec![0; u16::from_be_bytes([head[6], head[7]]).into()];
    stream.read_exact(&mut fields).unwrap();
}

/// Holds a session back until it is told to go on, and then passes it on to a depot.
struct Held {
    listen: String,
    arrived: Receiver<TcpStream>,
    go: Sender<()>,
}

impl Held {
    fn before(depot: &str) -> Self {
        let ((tell, arrived), (go, wait)) = (channel(), channel());
        let depot = depot.to_owned();
        let listen = in_place_of_depot(move |stream| {
            let _ = tell.send(stream.try_clone().unwrap());
            if wait.recv().is_err() {
                return;
            }
            pass_on(stream, &depot);
        });
        Self { listen, arrived, go }
    }

    /// Returns when a program waits in connect(2), with the connection that its supervisor has made.
    fn await_connect(&self) -> TcpStream {
        self.arrived.recv_timeout(Duration::from_secs(30)).expect("a program that connects")
    }
}

/// Prints what connect says, and whether the connection works.
const TRY: &str = r"
s = socket.socket()
e = s.connect_ex((host, port))
print(errno.errorcode.get(e, e), e == 0 and s.getpeername()[1] == port)
e or exchange(s)
";

fn python(script: &str) -> [String; 3] {
    ["python3".to_owned(), "-c".to_owned(), format!("{PRELUDE}\n{script}")]
}

/// What [`TRY`] prints through these depots, and standard error.
fn attempt(chain: &Chain, via: &str, options: &[&str]) -> (String, String) {
    let program = python(TRY);
    let mut command = chain.command_via(via, options, &program.each_ref().map(String::as_str));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn depot_that_fails_while_a_session_opens_is_left_out() {
    let chain = Chain::start();
    // Its kernel accepts, and nothing comes.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().map(|address| (silent, address.to_string())).unwrap();
    let ends = in_place_of_depot(|mut stream| read_open(&mut stream));
    let resets = in_place_of_depot(|mut stream| {
        read_open(&mut stream);
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    });
    let breaks_off = in_place_of_depot(|mut stream| {
        read_open(&mut stream);
        stream.write_all(b"\xb1LSL\x01\x02\x00").unwrap();
    });
    let talks = in_place_of_depot(|mut stream| {
        let _ = stream.write_all(&vec![b'x'; 100_000]);
    });
    for (depot, says, errno) in [
        (refusing_address().to_string(), "cannot reach depot", "ECONNREFUSED"),
        (silent.1.clone(), "took the connection, but did not answer in time", "ETIMEDOUT"),
        (ends, "did not answer: it closed the connection", "ECONNREFUSED"),
        (resets, "did not answer", "ECONNREFUSED"),
        (breaks_off, "did not answer: it closed the connection", "ECONNREFUSED"),
        (talks, "did not answer: it does not speak sessions", "ECONNREFUSED"),
    ] {
        let time = ["--connect-timeout", "1s"];
        let (out, err) = attempt(&chain, &depot, &time);
        assert!(out == "0 True\n" && err.contains(says), "{says}: {out}{err}");
        let (out, _) = attempt(&chain, &depot, &[&time[..], &["--strict"]].concat());
        assert_eq!(out, format!("{errno} False\n"), "{says}");
        // The next route is tried.
        let next = chain.via();
        let options = [&time[..], &["--strict", "--via", &next]].concat();
        assert_eq!(attempt(&chain, &depot, &options).0, "0 False\n", "{says}");
        // The agent does the same.
        let agent = |options: &[&str]| {
            let config = format!(
                "listen = \"127.0.0.1:0\"\nconnect_timeout = \"1s\"\n{}\n[[route]]\nto = [\"127.0.0.1\"]\nvia = [\"{depot}\"]\n",
                options.join("\n")
            );
            let file = chain.write("agent.toml", &config);
            let agent = Agent::start(&["--config", file.to_str().unwrap()]);
            let answer = ask(&agent, &chain.echo);
            (answer, agent.status()["fell_back"].as_u64().unwrap())
        };
        assert_eq!(agent(&[]), (Some("hello".to_owned()), 1), "{says}");
        assert_eq!(agent(&["strict = true"]), (None, 0), "{says}");
    }
}

/// What a server sends back by CONNECT, if the agent connects.
pub fn ask(agent: &Agent, server: &str) -> Option<String> {
    ask_at(&agent.listen, server)
}

pub fn ask_at(agent: &str, server: &str) -> Option<String> {
    let mut stream = TcpStream::connect(agent).unwrap();
    write!(stream, "CONNECT {server} HTTP/1.1\r\nHost: {server}\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && lines.read_line(&mut head).unwrap() > 0 {}
    if !head.starts_with("HTTP/1.1 200") {
        return None;
    }
    stream.write_all(b"hello").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut back = String::new();
    lines.read_to_string(&mut back).unwrap();
    Some(back)
}

/// A program that says what it does, and waits for a line before each further step.
struct Steps {
    child: Child,
    lines: Receiver<String>,
}

impl Steps {
    fn start(mut command: Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { child, lines }
    }

    fn of(chain: &Chain, via: &str, options: &[&str], script: &str) -> Self {
        let program = python(script);
        Self::start(chain.command_via(via, options, &program.each_ref().map(String::as_str)))
    }

    fn says(&mut self) -> String {
        let line = self.lines.recv_timeout(Duration::from_secs(60));
        line.unwrap_or_else(|_| {
            let mut err = String::new();
            if let Some(from) = self.child.stderr.as_mut() {
                let _ = from.read_to_string(&mut err);
            }
            panic!("the program does not go on: {err}")
        })
    }

    fn go_on(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    /// Its exit code, and standard error.
    fn end(self) -> (Option<i32>, String) {
        let output = self.child.wait_with_output().unwrap();
        (output.status.code(), text(&output.stderr))
    }
}

/// A connection is open, and one direction in use, when a depot dies.
const ACROSS: &str = r#"
s = socket.create_connection((host, port))
s.sendall(b"x" * 1000)
assert len(s.recv(1000, socket.MSG_WAITALL)) == 1000
print("open", flush=True)
sys.stdin.readline()
try: print("end" if s.recv(1) == b"" else "data", flush=True)
except OSError as e: print(errno.errorcode[e.errno], flush=True)
s = socket.create_connection((host, port))
direct = s.getpeername()[1] == port
exchange(s)
print("direct" if direct else "through", flush=True)
"#;

#[test]
fn dying_depot_resets_connections_and_later_ones_are_direct() {
    for is_first in [true, false] {
        let mut chain = Chain::start();
        let mut program = Steps::of(&chain, &chain.via(), &[], ACROSS);
        let agent = Agent::through(&chain, &[]);
        let script = format!(
            "{PRELUDE}\n{SOCKS}\n{}",
            ACROSS.replace("socket.create_connection(", "socks(")
        );
        let mut command = Command::new("python3");
        command.args(["-c", &script]).env("ECHO", &chain.echo).env("AGENT", &agent.listen);
        let mut by_agent = Steps::start(command);
        assert_eq!((program.says().as_str(), by_agent.says().as_str()), ("open", "open"));
        if is_first {
            chain.near.kill();
        } else {
            chain.far.kill();
        }
        program.go_on();
        by_agent.go_on();
        // A reset, and not an end that could be taken for the server's.
        assert_eq!(program.says(), "ECONNRESET", "{is_first}");
        assert_eq!(by_agent.says(), "ECONNRESET", "{is_first}");
        assert_eq!(program.says(), "direct");
        by_agent.says();
        let (code, err) = program.end();
        assert!(code == Some(0) && err.contains("connecting directly: "), "{err}");
        assert_eq!(by_agent.end().0, Some(0));
        assert_eq!(agent.status()["fell_back"], 1);
    }
}

/// A connection by the agent.
const SOCKS: &str = r#"
def socks(address):
    a = os.environ["AGENT"].rsplit(":", 1)
    s = socket.create_connection((a[0], int(a[1])))
    s.sendall(b"\5\1\0\5\1\0\1" + socket.inet_aton(address[0]) + struct.pack(">H", address[1]))
    assert s.recv(12, socket.MSG_WAITALL)[:4] == b"\5\0\5\0"
    return s
"#;

#[test]
fn supervisor_killed_while_a_program_connects_ends_the_call() {
    let (chain, held) = (Chain::start(), Held::before("127.0.0.1:1"));
    let script = r"
print(os.getppid(), flush=True)
e = socket.socket().connect_ex((host, port))
print(errno.errorcode.get(e, e), flush=True)
";
    let mut program = Steps::of(&chain, &held.listen, &[], script);
    let supervisor = program.says();
    let _connection = held.await_connect();
    kill("KILL", supervisor.parse().unwrap());
    assert_eq!(program.says(), "ENOSYS");
    let (code, err) = program.end();
    assert!(code == Some(1) && err.contains("the supervisor was killed"), "{err}");
}

#[test]
fn program_killed_while_it_connects_leaves_nothing_behind() {
    let (chain, held) = (Chain::start(), Held::before("127.0.0.1:1"));
    let script = r"
print(os.getpid(), flush=True)
print(os.getppid(), flush=True)
socket.socket().connect_ex((host, port))
";
    let mut program = Steps::of(&chain, &held.listen, &["--connect-timeout", "60s"], script);
    let [pid, supervisor] = [program.says(), program.says()];
    let mut connection = held.await_connect();
    kill("KILL", pid.parse().unwrap());
    assert_eq!(program.end().0, Some(137));
    until("the supervisor ends", || !fs::exists(format!("/proc/{supervisor}")).unwrap());
    connection.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut rest = Vec::new();
    let ended = connection.read_to_end(&mut rest);
    assert!(
        !matches!(&ended, Err(error) if error.kind() == io::ErrorKind::WouldBlock),
        "{ended:?}"
    );
}

#[test]
fn exec_while_a_thread_connects_goes_on() {
    let chain = Chain::start();
    let held = Held::before(&chain.near.listen);
    let script = r#"
t = threading.Thread(target=lambda: socket.socket().connect_ex((host, port)), daemon=True)
t.start()
sys.stdin.readline()
os.execvp("python3", ["python3", "-c", "import os, socket; h, p = os.environ['ECHO'].split(':'); s = socket.create_connection((h, p)); s.sendall(b'x'); print(s.recv(1).decode(), flush=True)"])
"#;
    let mut program =
        Steps::of(&chain, &format!("{},{}", held.listen, chain.far.listen), &["--stats"], script);
    let _first = held.await_connect();
    program.go_on();
    // The first session goes on as far as it gets; what the new program connects is another one.
    held.go.send(()).unwrap();
    let _second = held.await_connect();
    held.go.send(()).unwrap();
    assert_eq!(program.says(), "x");
    let (code, err) = program.end();
    assert!(code == Some(0) && err.contains(" 0 directly, 0 failed"), "{err}");
}

#[test]
fn socket_closed_during_a_held_connect_is_closed_at_the_server() {
    let chain = Chain::start();
    let held = Held::before(&chain.near.listen);
    let script = r#"
server = socket.create_server(("127.0.0.1", 0))
s = socket.socket()
fd = s.detach()
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
address = struct.pack("=H", socket.AF_INET) + struct.pack(">H", server.getsockname()[1]) + socket.inet_aton("127.0.0.1") + bytes(8)
result = []
t = threading.Thread(target=lambda: result.append(libc.connect(fd, address, 16)))
t.start()
sys.stdin.readline()
os.close(fd)
print("closed", flush=True)
t.join()
there = server.accept()[0]
there.settimeout(30)
print(result[0], there.recv(1), flush=True)
"#;
    let via = format!("{},{}", held.listen, chain.far.listen);
    let mut program = Steps::of(&chain, &via, &["--strict"], script);
    let _connection = held.await_connect();
    program.go_on();
    assert_eq!(program.says(), "closed");
    held.go.send(()).unwrap();
    assert_eq!(program.says(), "0 b''");
    assert_eq!(program.end().0, Some(0));
}

#[test]
fn shared_and_unshared_sockets_are_told_apart() {
    Chain::start().python(
        r"
import ctypes
near = None
# A child that closes its copy, or ends, leaves its parent's connection alone.
s = socket.create_connection((host, port))
near = s.getpeername()
for ends in (lambda: s.close(), lambda: None):
    child = os.fork()
    if child == 0:
        ends()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
exchange(s)
# A thread with descriptors of its own: the same number is another socket in the others.
libc = ctypes.CDLL(None, use_errno=True)
made, checked = threading.Event(), threading.Event()
numbers, errors = [], []
def own():
    try:
        assert libc.unshare(0x400) == 0, os.strerror(ctypes.get_errno())
        s = socket.socket()
        numbers.append(s.fileno())
        made.set()
        assert checked.wait(30)
        s.connect((host, port))
        assert s.getpeername() == near, s.getpeername()
        exchange(s)
    except BaseException as e: errors.append(e)
t = threading.Thread(target=own)
t.start()
assert made.wait(30)
others = socket.socket()
assert others.fileno() == numbers[0], (others.fileno(), numbers)
checked.set()
t.join()
assert not errors, errors
try: assert False, others.getpeername()
except OSError as e: assert e.errno == errno.ENOTCONN
others.connect((host, port))
exchange(others)
",
    );
}

#[test]
fn options_set_before_and_after_connect_have_effect() {
    Chain::start().python(
        r#"
options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77),
           (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 9000)]
s = socket.socket()
for level, name, value in options: s.setsockopt(level, name, value)
s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 20))
s.connect((host, port))
for level, name, value in options: assert s.getsockopt(level, name) == value, (name, s.getsockopt(level, name))
assert s.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8) == struct.pack("ii", 1, 20)
# Nothing of the session is left to read, and looking ahead takes nothing away.
try: assert False, s.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
except BlockingIOError: pass
s.sendall(b"abc")
assert s.recv(3, socket.MSG_PEEK | socket.MSG_WAITALL) == b"abc"
assert s.recv(1, socket.MSG_PEEK) == b"a" and s.recv(3, socket.MSG_WAITALL) == b"abc"
exchange(s)
# With a lingering close all is at the depot when close returns.
s.close()
"#,
    );
}

/// As `run::ends_resets_and_urgent_bytes_reach_the_far_end` has it for `longhaul run`.
#[test]
fn ends_resets_and_urgent_bytes_pass_the_agent() {
    let chain = Chain::start();
    let agent = Agent::through(&chain, &["--strict"]);
    let script = format!("{PRELUDE}\n{SOCKS}\nconnect = socks\n{ENDS}");
    let mut command = Command::new("python3");
    command.args(["-c", &script]).env("ECHO", &chain.echo).env("AGENT", &agent.listen);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(agent.status()["through"], 4);
}
