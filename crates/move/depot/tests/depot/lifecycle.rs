// SPDX-License-Identifier: GPL-2.0-or-later
//! Reloading the configuration, and restarting without refusing a connection.

#![expect(unsafe_code, reason = "rights of one thread, given up")]

use crate::common::{
    client::{connect, exchange, get, read_answer, status},
    noise,
    process::Daemon,
    scripted::Scripted,
    sha256,
};
use rustix::process::Signal;
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    os::unix::{
        fs::PermissionsExt,
        net::{UnixDatagram, UnixListener, UnixStream},
    },
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};
use testkit::until;

const SERVED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nserved";
const OPEN: &str =
    "[allow]\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]\nlocal = true\n";

#[test]
fn sighup_reloads_the_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let (file, log) = (dir.path().join("depot.toml"), dir.path().join("access.log"));
    let before = format!("listen = [\"127.0.0.1:0\"]\nlog.access = {log:?}\n");
    let origin = Scripted::answering(SERVED);
    let depot = Daemon::of_file(&file, &format!("{before}[allow]\n"));
    let ask = || status(&get(depot.address, &origin.route("-", "/")).0);
    assert_eq!(ask(), 403);

    // Open now; and with the log under another name, as logrotate does it.
    fs::write(&file, format!("{before}threads = 2\n{OPEN}")).unwrap();
    fs::rename(&log, dir.path().join("access.log.1")).unwrap();
    depot.signal(Signal::HUP);
    depot.await_log(&["configuration read again", "waiting=\"threads\""]);
    assert_eq!(ask(), 200);
    until("the new log has the request", || {
        fs::read_to_string(&log).is_ok_and(|log| log.contains("complete"))
    });

    // What makes no sense changes nothing.
    for (wrong, reason) in [("colour = 1", "unknown field"), ("trust.keys = \"/none\"", "/none")] {
        fs::write(&file, format!("{before}{wrong}\n[allow]\n")).unwrap();
        depot.signal(Signal::HUP);
        depot.await_log(&["WARN", "the configuration stays as it was", reason]);
        assert_eq!(ask(), 200);
    }
    fs::write(&file, format!("{before}[allow]\n")).unwrap();
    depot.signal(Signal::HUP);
    until("it is closed again", || ask() == 403);
}

/// Asks for one thing after another, each on a connection of its own, until told to stop; how many
/// were answered.
fn keep_asking(
    depot: SocketAddr,
    origin: &Scripted,
    stop: &Arc<AtomicBool>,
) -> std::thread::JoinHandle<usize> {
    let (route, stop) = (origin.route("-", "/"), Arc::clone(stop));
    std::thread::spawn(move || {
        let mut answered = 0;
        while !stop.load(Relaxed) {
            let (head, body, end) = get(depot, &route);
            assert!(status(&head) == 200 && body == b"served" && end.is_ok(), "{head} {end:?}");
            answered += 1;
        }
        answered
    })
}

/// Asks again and again how the depot is; it is well each time.
fn keep_looking(admin: SocketAddr, stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<usize> {
    let stop = Arc::clone(stop);
    std::thread::spawn(move || {
        let mut looks = 0;
        while !stop.load(Relaxed) {
            let (head, body, _) = get_from(admin, "/healthz");
            assert_eq!((status(&head), body.as_slice()), (200, &b"serving\n"[..]), "{head}");
            looks += 1;
        }
        looks
    })
}

/// What the listener for operators answers.
fn get_from(admin: SocketAddr, path: &str) -> (String, Vec<u8>, std::io::Result<()>) {
    exchange(admin, format!("GET {path} HTTP/1.1\r\nHost: {admin}\r\n\r\n").as_bytes())
}

/// An origin whose body comes in two halves, the second once the gate is open.
fn halting(body: &[u8], open: &Arc<AtomicBool>) -> Scripted {
    let (body, open) = (body.to_vec(), Arc::clone(open));
    Scripted::new(move |mut stream, _| {
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).unwrap();
        let (first, second) = body.split_at(body.len() / 2);
        stream.write_all(first).unwrap();
        until("the gate is opened", || open.load(Relaxed));
        stream.write_all(second).unwrap();
    })
}

#[test]
fn takeover_refuses_no_client() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("handover");
    let settings = |id: &str, port: u16, more: &str| {
        format!(
            "id = \"{id}\"\nlisten = [\"127.0.0.1:{port}\"]\nhandover = {socket:?}\n{more}\n{OPEN}"
        )
    };
    let mut first = Daemon::depot_with(&settings("first", 0, "admin.listen = \"127.0.0.1:0\""));
    let port = first.address.port();
    let admin = format!("admin.listen = {:?}", first.admin().to_string());
    let (origin, body) = (Scripted::answering(SERVED), noise(71, 2_000_003));
    let gate = Arc::new(AtomicBool::new(false));
    let slow = halting(&body, &gate);
    let mut under_way = connect(first.address);
    write!(under_way, "GET {} HTTP/1.1\r\nHost: d\r\n\r\n", slow.route("-", "/")).unwrap();
    under_way.read_exact(&mut [0; 12]).unwrap();
    // Connected, but has not asked yet.
    let mut early = connect(first.address);

    let stop = Arc::default();
    let askers: Vec<_> = (0..4).map(|_| keep_asking(first.address, &origin, &stop)).collect();
    // One that fails after it has been given the listeners: its other address is in use.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let other = TcpListener::bind(taken).unwrap();
    let listen = format!("[\"127.0.0.1:{port}\", \"{taken}\"]");
    let broken =
        settings("broken", port, &admin).replace(&format!("[\"127.0.0.1:{port}\"]"), &listen);
    let said = Daemon::launch("depot", &broken).err().expect("it must not start");
    assert!(said.contains("cannot listen on"), "{said}");
    first.await_log(&["WARN", "has taken the listeners and does not serve"]);
    drop(other);

    let health = keep_looking(first.admin(), &stop);
    let second = Daemon::depot_with(&settings("second", port, &admin));
    assert_eq!((second.address, second.admin()), (first.address, first.admin()));
    first.await_log(&["another depot has taken over"]);
    // The first one drains, and the second serves requests at their common address.
    for _ in 0..50 {
        assert_eq!(second.status().id, "second");
    }
    // A client that connected before is served.
    write!(early, "GET {} HTTP/1.1\r\nHost: d\r\n\r\n", origin.route("-", "/")).unwrap();
    let (head, ..) = read_answer(early);
    assert!(status(&head) == 200 && head.contains("1.1 first (longhaul)"), "{head}");
    let (head, ..) = get(second.address, &origin.route("-", "/"));
    assert!(status(&head) == 200 && head.contains("1.1 second (longhaul)"), "{head}");
    gate.store(true, Relaxed);
    let (_, got, end) = read_answer(under_way);
    assert!(end.is_ok());
    assert_eq!(sha256(&got), sha256(&body));
    assert_eq!(first.wait().code(), Some(0));
    assert!(first.log_text().contains("all transfers are finished"), "{}", first.log_text());
    stop.store(true, Relaxed);
    for asker in askers {
        assert!(asker.join().expect("each request is answered") > 0);
    }
    assert!(health.join().expect("each look says that there is a depot that serves") > 0);
    assert!(socket.exists(), "the socket is the successor's");
    drop(second);
}

/// Runs a task in a thread with a user ID that no other process has.
fn as_stranger<T: Send>(task: impl FnOnce() -> T + Send) -> T {
    let in_thread = || {
        // SAFETY: changes this thread's own rights. The C library would change those of all.
        let changed = unsafe { libc::syscall(libc::SYS_setresuid, 54_321, 54_321, 54_321) };
        assert_eq!(changed, 0, "only root can change its user");
        task()
    };
    std::thread::scope(|scope| scope.spawn(in_thread).join().unwrap())
}

#[test]
fn other_users_cannot_hand_over_listeners() {
    let dir = tempfile::tempdir().unwrap();
    let open = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    open(dir.path(), 0o777);
    let socket = dir.path().join("handover");
    let settings = |id: &str| {
        format!("id = \"{id}\"\nlisten = [\"127.0.0.1:0\"]\nhandover = {socket:?}\n{OPEN}")
    };
    let depot = Daemon::depot_with(&settings("first"));
    let mode = fs::metadata(&socket).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode & 0o022, 0, "others may connect: {mode:o}");
    // Even where they may.
    open(&socket, 0o777);
    let mut asked = as_stranger(|| UnixStream::connect(&socket).unwrap());
    assert_eq!(asked.read(&mut [0; 64]).unwrap(), 0, "a stranger is answered");
    depot.await_log(&["WARN", "cannot hand the listeners over", "the user 54321"]);
    let origin = Scripted::answering(SERVED);
    assert_eq!(status(&get(depot.address, &origin.route("-", "/")).0), 200);
    drop(depot);

    // One that waits there for a depot to come.
    fs::remove_file(&socket).unwrap();
    let _trap = as_stranger(|| UnixListener::bind(&socket).unwrap());
    let said = Daemon::launch("depot", &settings("second")).err().expect("it must not start");
    assert!(said.contains("the user 54321 is at the other end"), "{said}");
}

#[test]
fn socket_activated_depot_restarts_without_refusals() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let settings = format!("listen = [\"{address}\"]\n{OPEN}");
    let origin = Scripted::answering(SERVED);
    let ask = |mut stream: std::net::TcpStream| {
        write!(
            stream,
            "GET {} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n",
            origin.route("-", "/")
        )
        .unwrap();
        stream
    };
    // No depot accepts yet; the connection waits.
    let early = ask(connect(address));
    let mut depot = Daemon::activated(&listener, &settings);
    assert_eq!(depot.address, address);
    assert_eq!(status(&read_answer(early).0), 200);
    depot.signal(Signal::KILL);
    let _ = depot.wait();
    let meanwhile = ask(connect(address));
    let again = Daemon::activated(&listener, &settings);
    assert_eq!(status(&read_answer(meanwhile).0), 200);
    drop(again);
}

#[test]
fn systemd_gets_readiness_and_reloads() {
    let dir = tempfile::tempdir().unwrap();
    let (file, path) = (dir.path().join("depot.toml"), dir.path().join("notify"));
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(crate::common::PATIENCE)).unwrap();
    fs::write(&file, format!("listen = [\"127.0.0.1:0\"]\n{OPEN}")).unwrap();
    let settings = format!("file:{}", file.display());
    let mut command = Daemon::command("exec \"$0\" \"$@\"", "depot", &settings);
    let mut depot = Daemon::launched(command.env("NOTIFY_SOCKET", &path)).unwrap();
    let next = || {
        let mut text = [0; 512];
        let length = socket.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..length]).into_owned()
    };
    assert_eq!(next(), "READY=1\n");
    depot.signal(Signal::HUP);
    let reloading = next();
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    assert_eq!(next(), "READY=1\n");
    depot.signal(Signal::TERM);
    assert_eq!(next(), "STOPPING=1\n");
    assert_eq!(depot.wait().code(), Some(0));
}
