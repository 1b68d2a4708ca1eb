// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul run`: programs that nobody changes, through two depots.

use crate::{
    chain::{Chain, ENDS, PRELUDE, kill},
    common::{refusing_address, text},
    depot::Depot,
};
use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use testkit::until;

#[test]
fn run_passes_streams_and_exit_codes_on() {
    let chain = Chain::start();
    for (program, code) in [
        (&["true"][..], 0),
        (&["sh", "-c", "exit 41"], 41),
        (&["sh", "-c", "kill -9 $$"], 137),
        (&["no-such-program"], 127),
        (&["/tmp"], 126),
    ] {
        let output = chain.run(&[], program);
        assert_eq!(output.status.code(), Some(code), "{program:?}: {}", text(&output.stderr));
    }
    let mut child = chain.command(&[], &["sh", "-c", "cat; echo err >&2"]);
    let child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"from here\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (text(&output.stdout).as_str(), text(&output.stderr).as_str()),
        ("from here\n", "err\n")
    );
}

#[test]
fn run_refuses_wrong_options_before_anything_starts() {
    let longhaul = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_longhaul")).arg("run").args(arguments).output().unwrap()
    };
    for (arguments, says) in [
        (&["--via", "d:0", "--", "true"][..], "--via"),
        (&["--via", "d", "--match", "x y", "--", "true"], "neither a network"),
        (&["--via", "d"], "PROGRAM"),
        (&["--", "true"], "--via"),
    ] {
        let output = longhaul(arguments);
        let err = text(&output.stderr);
        assert!(output.status.code() == Some(2) && err.contains(says), "{arguments:?}: {err}");
    }
}

#[test]
fn connections_of_threads_and_children_go_through_both_depots() {
    let chain = Chain::start();
    chain.python(
        r"
def one():
    for _ in range(5):
        with socket.create_connection((host, port)) as s: exchange(s, 20000)
threads = [threading.Thread(target=one) for _ in range(20)]
for t in threads: t.start()
for t in threads: t.join()
child = os.fork()
with socket.create_connection((host, port)) as s: exchange(s)
if child == 0: os._exit(0)
assert os.waitpid(child, 0)[1] == 0
",
    );
    let output = chain.run(&["--stats"], &["python3", "-c", "import os, socket; h, p = os.environ['ECHO'].split(':'); socket.create_connection((h, p))"]);
    let err = text(&output.stderr);
    assert!(
        err.contains("1 connections: 1 through depots")
            && err.contains("through near (")
            && err.contains(", far ("),
        "{err}"
    );
}

/// What programs see of their socket is what they would see without depots, but for the peer's address.
#[test]
fn socket_stays_the_programs_own() {
    let chain = Chain::start();
    let near = chain.near.listen.rsplit(':').next().unwrap();
    chain.python(&format!(
        r#"
near = {near}
# A blocking socket goes on blocking, and its options and its address are its own.
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
s.bind(("127.0.0.9", 0))
before = s.getsockname(), s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF), s.fileno()
s.connect((host, port))
assert before == (s.getsockname(), s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF), s.fileno())
assert s.getpeername() == ("127.0.0.1", near), s.getpeername()
assert not fcntl.fcntl(s, fcntl.F_GETFL) & os.O_NONBLOCK
exchange(s)

# One that does not block has its answer at once, is watched as before, and so is its copy.
s = socket.socket()
s.setblocking(False)
copy = s.dup()
poll = select.epoll()
poll.register(s, select.EPOLLIN | select.EPOLLOUT)
assert s.connect_ex((host, port)) == 0
assert fcntl.fcntl(s, fcntl.F_GETFL) & os.O_NONBLOCK
assert poll.poll(10) == [(s.fileno(), select.EPOLLOUT)]
copy.setblocking(True)
copy.sendall(b"ping")
assert copy.recv(4, socket.MSG_PEEK | socket.MSG_WAITALL) == b"ping" == copy.recv(4)
assert s.connect_ex((host, port)) == errno.EISCONN
s.close()
exchange(copy)

# IPv6 sockets reach IPv4 depots.
s = socket.socket(socket.AF_INET6)
s.connect(("::ffff:127.0.0.1", port))
assert s.getpeername()[:2] == ("::ffff:127.0.0.1", near), s.getpeername()
exchange(s)
"#
    ));
}

#[test]
fn ends_resets_and_urgent_bytes_reach_the_far_end() {
    let script = format!("import struct\nconnect = socket.create_connection\n{ENDS}");
    Chain::start().python(&script);
}

#[test]
fn errors_are_those_of_the_far_end() {
    let chain = Chain::start();
    let closed = refusing_address().to_string();
    let port = closed.rsplit(':').next().unwrap();
    chain.python(&format!(
        r#"
for blocking in True, False:
    s = socket.socket()
    s.setblocking(blocking)
    assert s.connect_ex(("127.0.0.1", {port})) == errno.ECONNREFUSED
    # It can be used again.
    assert s.connect_ex((host, port)) == 0
    s.setblocking(True)
    exchange(s)
# What is no connection by TCP is the kernel's, and so are wrong calls.
u = socket.socket(type=socket.SOCK_DGRAM)
u.connect((host, port))
assert u.getpeername() == (host, port)
a, b = socket.socketpair()
assert socket.socket(socket.AF_UNIX).connect_ex("/no/such/socket") == errno.ENOENT
listening = socket.socket()
listening.listen()
assert listening.connect_ex((host, port)) == errno.EISCONN
# Programs fall back to what the supervisor sees.
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
assert libc.syscall(425, 1, 0) == -1 and ctypes.get_errno() == errno.ENOSYS
try: socket.socket().sendto(b"x", 0x20000000, (host, port)); assert False
except OSError as e: assert e.errno == errno.EOPNOTSUPP, e
assert libc.connect(99, None, 16) == -1 and ctypes.get_errno() in (errno.EBADF, errno.EFAULT)
assert libc.connect(a.fileno(), None, 16) == -1 and ctypes.get_errno() == errno.EFAULT
"#
    ));
}

#[test]
fn chain_that_fails_is_left_out_unless_strict() {
    let chain = Chain::start();
    let closed = refusing_address().to_string();
    let program = [
        "python3",
        "-c",
        &format!(
            "{PRELUDE}\ns = socket.socket(); e = s.connect_ex((host, port)); print(errno.errorcode.get(e, e)); e or exchange(s)"
        ),
    ];
    let run = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.arg("run").args(options).args(["--match", "127.0.0.0/8", "--"]).args(program);
        let output = command.env("ECHO", &chain.echo).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    };
    let (out, err) = run(&["--via", &closed]);
    assert!(out == "0\n" && err.contains("connecting directly: cannot reach depot"), "{out}{err}");
    let (out, err) = run(&["--via", &closed, "--quiet"]);
    assert_eq!((out.as_str(), err.as_str()), ("0\n", ""));
    let (out, _) = run(&["--via", &closed, "--strict"]);
    assert_eq!(out, "ECONNREFUSED\n");
    // Of two routes, the one that works.
    let (out, err) = run(&["--via", &closed, "--via", &chain.via(), "--strict", "--stats"]);
    assert!(out == "0\n" && err.contains("1 through depots"), "{out}{err}");
    // A server that is no depot.
    let (out, err) = run(&["--via", &chain.near.admin, "--connect-timeout", "1s"]);
    assert!(out == "0\n" && err.contains("did not answer"), "{out}{err}");
    // A depot that may not.
    let other = Depot::named("closed", &["--allow-client", "127.0.0.0/8"]);
    let (out, err) = run(&["--via", &other.listen]);
    assert!(out == "0\n" && err.contains("closed says: "), "{out}{err}");
    let (out, _) = run(&["--via", &other.listen, "--strict"]);
    assert_eq!(out, "EACCES\n");
}

/// What a program leaves behind goes through the depots when the command has ended, and nothing is left when that has.
#[test]
fn supervisor_outlives_the_program_as_long_as_it_must() {
    let chain = Chain::start();
    let [pid, go, done] = ["pid", "go", "done"].map(|name| chain.dir.path().join(name));
    let script = format!(
        r#"{PRELUDE}
if os.fork(): os._exit(7)
os.setsid()
for fd in range(3): os.dup2(os.open(os.devnull, os.O_RDWR), fd)
open({pid:?}, "w").close()
while not os.path.exists({go:?}): time.sleep(0.01)
s = socket.create_connection((host, port))
peer = s.getpeername()[1]
exchange(s)
with open({done:?}, "w") as f: f.write(f"{{peer}}\n")
"#
    );
    let script = chain.write("daemon.py", &script);
    let output = chain.run(&[], &["python3", script.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    until("its child has begun", || pid.exists());
    fs::write(&go, "").unwrap();
    let peer = || fs::read_to_string(&done).ok().filter(|peer| peer.ends_with('\n'));
    until("what was left behind connects", || peer().is_some());
    let peer = format!(":{}", peer().unwrap().trim());
    assert!(chain.near.listen.ends_with(&peer), "{peer}");
    until("the supervisor ends", || processes(&chain.via()).is_empty());
}

/// The processes whose command line has this in it.
fn processes(part: &str) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains(part))
    };
    all.filter(has).collect()
}

#[test]
fn signals_are_passed_on_and_a_killed_supervisor_is_reported() {
    let chain = Chain::start();
    let ready = chain.dir.path().join("ready");
    let script = format!(
        r#"{PRELUDE}
import signal
signal.signal(signal.SIGTERM, lambda *_: os._exit(5))
open({ready:?}, "w").write(str(os.getppid()))
time.sleep(60)
"#
    );
    let mut child = chain.command(&[], &["python3", "-c", &script]).spawn().unwrap();
    let begun = || fs::read_to_string(&ready).is_ok_and(|text| !text.is_empty());
    until("the program has begun", begun);
    kill("TERM", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(5));

    fs::remove_file(&ready).unwrap();
    let said = chain.dir.path().join("said");
    let script = format!(
        r#"{PRELUDE}
parent = os.getppid()
open({ready:?}, "w").write(str(parent))
while os.getppid() == parent: time.sleep(0.01)
open({said:?}, "w").write(errno.errorcode[socket.socket().connect_ex((host, port))])
"#
    );
    let mut command = chain.command(&[], &["python3", "-c", &script]);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    until("the program has begun", begun);
    kill("KILL", fs::read_to_string(&ready).unwrap().parse().unwrap());
    let output = child.wait_with_output().unwrap();
    let err = text(&output.stderr);
    assert!(output.status.code() == Some(1) && err.contains("the supervisor was killed"), "{err}");
    until("the program goes on", || fs::read_to_string(&said).is_ok_and(|said| said == "ENOSYS"));
}

/// As a user without rights, and without the memory of its programs to look into.
#[test]
fn no_rights_are_needed() {
    let chain = Chain::start();
    fs::set_permissions(chain.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let binary = chain.dir.path().join("longhaul");
    fs::copy(env!("CARGO_BIN_EXE_longhaul"), &binary).unwrap();
    let as_nobody = |options: &[&str], script: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&binary);
        command.args(["run", "--via", &chain.via(), "--match", "127.0.0.0/8", "--stats"]);
        command.args(options).args([
            "--",
            "/usr/bin/python3",
            "-c",
            &format!("{PRELUDE}\n{script}"),
        ]);
        let output = command.env("ECHO", &chain.echo).output().unwrap();
        let err = text(&output.stderr);
        assert!(output.status.success(), "{err}");
        err
    };
    let err = as_nobody(&[], "s = socket.create_connection((host, port)); exchange(s)");
    assert!(err.contains("1 connections: 1 through depots"), "{err}");
    // PR_SET_DUMPABLE: nobody may look into the process.
    let hidden = "import ctypes; ctypes.CDLL(None).prctl(4, 0); s = socket.create_connection((host, port)); assert s.getpeername()[1] == port; exchange(s)";
    let err = as_nobody(&[], hidden);
    assert!(err.contains("0 connections"), "{err}");
    let refused = "import ctypes; ctypes.CDLL(None).prctl(4, 0); assert socket.socket().connect_ex((host, port)) == errno.EACCES";
    let err = as_nobody(&["--strict"], refused);
    assert!(err.contains("0 connections"), "{err}");
}

/// Key and certificate of a server on this machine that answers for itself.
fn self_signed(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    let [key, certificate] = ["key", "cert"].map(|kind| folder.join(format!("{name}-{kind}.pem")));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-nodes", "-days", "30", "-subj", &format!("/CN={name}")])
        .args(["-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args([Path::new("-keyout"), &key, Path::new("-out"), &certificate])
        .output();
    assert!(made.expect("openssl, of the Debian package openssl").status.success());
    (key, certificate)
}

/// A program's socket cannot speak TLS, nor reach a depot of the other family: the supervisor passes its bytes on.
#[test]
fn first_depot_may_have_tls_or_the_other_family() {
    let chain = Chain::start();
    let (key, certificate) = self_signed(chain.dir.path(), "depot");
    let (_, other) = self_signed(chain.dir.path(), "other");
    let config = chain.write(
        "tls.toml",
        &format!(
            "allow.clients = [\"127.0.0.0/8\"]\nallow.local = true\nallow.upstreams = [\"127.0.0.1:*\"]\n\
             [tls]\nlisten = [\"127.0.0.1:0\"]\ncertificate = {certificate:?}\nkey = {key:?}\n"
        ),
    );
    let front = Depot::named("front", &["--config", config.to_str().unwrap()]);
    let six = Depot::named(
        "six",
        &["--config", chain.dir.path().join("depot.toml").to_str().unwrap(), "--listen", "[::1]:0"],
    );
    let last = |depot: &Depot| depot.listen.rsplit(',').next().unwrap().to_owned();
    let over_tls = format!("https:{},{}", last(&front), chain.via());
    // What this system trusts stays trusted beside what the user does.
    for (via, depots, ca, of_system) in [
        (&over_tls, "front (", &certificate, &other),
        (&over_tls, "front (", &other, &certificate),
        (&last(&six), "six (", &certificate, &other),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.env("SSL_CERT_FILE", of_system).args([
            "run",
            "--via",
            via,
            "--match",
            "127.0.0.0/8",
        ]);
        command.args(["--stats", "--ca", ca.to_str().unwrap(), "--"]);
        let script = format!(
            r#"{PRELUDE}
for family, address in (socket.AF_INET, (host, port)), (socket.AF_INET6, ("::ffff:127.0.0.1", port)):
    s = socket.socket(family)
    s.setblocking(False)
    poll = select.epoll()
    poll.register(s, select.EPOLLOUT)
    assert s.connect_ex(address) == 0
    assert poll.poll(10) == [(s.fileno(), select.EPOLLOUT)]
    s.setblocking(True)
    exchange(s)
"#
        );
        let output = command.args(["python3", "-c", &script]).env("ECHO", &chain.echo).output();
        let output = output.unwrap();
        let err = text(&output.stderr);
        assert!(output.status.success(), "{err}");
        assert!(err.contains("2 connections: 2 through depots") && err.contains(depots), "{err}");
    }
}

/// A socket that was connected by IPv4 once cannot be connected by IPv6 any more, so it is not connected to the depot.
#[test]
fn ipv6_servers_are_reached_by_ipv4_depots_and_without_them() {
    let chain = Chain::start();
    let config = "[allow]\nclients = [\"127.0.0.0/8\"]\nlocal = true\nservers = [\"[::1]:*\"]\n";
    let config = chain.write("six.toml", config);
    let open = Depot::named("open", &["--config", config.to_str().unwrap()]);
    let closed = Depot::named("closed", &["--allow-client", "127.0.0.0/8", "--allow-local"]);
    let script = format!(
        r#"{PRELUDE}
server = socket.create_server(("::1", 0), family=socket.AF_INET6)
s = socket.create_connection(server.getsockname()[:2])
there = server.accept()[0]
threading.Thread(target=lambda: (there.sendall(there.recv(1000, socket.MSG_WAITALL)), there.close())).start()
s.sendall(b"x" * 1000)
assert s.recv(2000, socket.MSG_WAITALL) == b"x" * 1000
"#
    );
    for (via, says) in [
        (&open, "1 through depots, 0 directly, 0 failed"),
        (&closed, " 0 through depots, 1 directly, 0 failed"),
    ] {
        let mut command = chain.command_via(&via.listen, &["--stats"], &["python3", "-c", &script]);
        let output = command.output().unwrap();
        let err = text(&output.stderr);
        assert!(output.status.success() && err.contains(says), "{err}");
        assert!(err.contains("1000 B sent, 1000 B received\n"), "{err}");
    }
}

/// Descriptors, memory and threads of a supervisor do not grow with connections.
#[test]
fn many_connections_leave_nothing_behind() {
    let chain = Chain::start();
    let out = chain.python(
        r#"
supervisor = f"/proc/{os.getppid()}"
def holds():
    lines = dict(line.split(":", 1) for line in open(supervisor + "/status"))
    return len(os.listdir(supervisor + "/fd")), int(lines["Threads"]), int(lines["VmRSS"].split()[0])
def connect(count):
    for _ in range(count):
        with socket.create_connection((host, port)): pass
connect(1500)
before = holds()
connect(1500)
print(*before, *holds())
"#,
    );
    let holds: Vec<i64> = out.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let (before, after) = holds.split_at(3);
    assert_eq!(before[..2], after[..2], "descriptors and threads");
    assert!(after[2] - before[2] < 300, "kB of memory: {before:?}, {after:?}");
}

/// A program that is linked with nothing, so that nothing but the kernel sees its calls.
#[test]
fn static_programs_go_through_too() {
    let chain = Chain::start();
    let source = chain.write("static.c", STATIC);
    let binary = chain.dir.path().join("static");
    compile(&["-static", "-O1"], &source, &binary);
    let port = chain.echo.rsplit(':').next().unwrap();
    let output = chain.run(&["--stats"], &[binary.to_str().unwrap(), port]);
    let err = text(&output.stderr);
    assert!(output.status.success() && err.contains("1 connections: 1 through depots"), "{err}");
}

fn compile(options: &[&str], source: &Path, binary: &Path) {
    let status = Command::new("cc").args(options).arg("-o").arg(binary).arg(source).status();
    assert!(status.unwrap().success());
}

const STATIC: &str = r#"
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	char got[5];
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	to.sin_port = htons(atoi(argv[1]));
	return argc != 2 || connect(fd, (struct sockaddr *)&to, sizeof to) || write(fd, "hello", 5) != 5
		|| recv(fd, got, 5, MSG_WAITALL) != 5 || memcmp(got, "hello", 5);
}
"#;
