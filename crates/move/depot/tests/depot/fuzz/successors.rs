// SPDX-License-Identifier: GPL-2.0-or-later
//! The handover's socket: predecessors that hand over whatever they have, and successors that come to
//! nothing.

use crate::common::{
    client::{get, status},
    idle::Idle,
    process::Daemon,
    scripted::Scripted,
};
use rand_core::{Rng, SeedableRng};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::{
    fs::File,
    io::{IoSlice, Read},
    mem::MaybeUninit,
    net::{Shutdown, TcpListener, UdpSocket},
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::{UnixDatagram, UnixListener, UnixStream},
    },
    path::Path,
    thread,
};
use testkit::fuzz::seed;

const OPEN: &str =
    "[allow]\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]\nlocal = true\n";
/// The most that the kernel passes in one message is 253.
const MOST_FILES: usize = 200;

fn serves(depot: &Daemon) {
    let origin = Scripted::answering("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nserved");
    let (head, body, _) = get(depot.address, &origin.route("-", "/"));
    assert!(status(&head) == 200 && body == b"served", "{head}");
}

fn settings(socket: &Path) -> String {
    format!("listen = [\"127.0.0.1:0\"]\nhandover = \"{}\"\n{OPEN}", socket.display())
}

/// Any file that one process can give to another.
fn a_file(kind: u32, dir: &Path) -> OwnedFd {
    match kind % 7 {
        0 => File::open("/dev/null").unwrap().into(),
        1 => std::io::pipe().unwrap().0.into(),
        2 => UdpSocket::bind("127.0.0.1:0").unwrap().into(),
        // A listener on an address that is not configured.
        3 => TcpListener::bind("127.0.0.2:0").unwrap().into(),
        4 => UnixDatagram::unbound().unwrap().into(),
        5 => File::open(dir).unwrap().into(),
        _ => UnixStream::pair().unwrap().0.into(),
    }
}

#[test]
fn predecessors() {
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed());
    let dir = tempfile::tempdir().unwrap();
    let (mut started, mut ended) = (0, 0);
    for round in 0..30 {
        let socket = dir.path().join(format!("handover{round}"));
        let listener = UnixListener::bind(&socket).unwrap();
        let draw = |below: u32, random: &mut rand_pcg::Pcg64Mcg| random.next_u32() % below;
        let number = draw([3, 10, MOST_FILES as u32][round % 3], &mut random) as usize;
        let files: Vec<_> = (0..number).map(|_| a_file(random.next_u32(), dir.path())).collect();
        // The first byte is the version: one of 0 is asked nothing more. Of later ones, what follows is too short for what they know.
        let version = draw(3, &mut random) as u8;
        let text = vec![version; draw(4, &mut random) as usize];
        let said = text.len();
        let expected = if version == 0 { vec![1] } else { vec![2] };
        let predecessor = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
            assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
            if !text.is_empty() {
                sendmsg(&stream, &[IoSlice::new(&text)], &mut control, SendFlags::empty()).unwrap();
            }
            // Nothing more will come.
            stream.shutdown(Shutdown::Write).unwrap();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            answer
        });
        match Daemon::launch("depot", &settings(&socket)) {
            Ok(depot) => {
                started += 1;
                assert_eq!(predecessor.join().unwrap(), expected, "it is told that it can go");
                serves(&depot);
            }
            Err(log) => {
                ended += 1;
                assert!(said == 0 && log.contains("cannot take over"), "{said} {number}: {log}");
                let heard = predecessor.join().unwrap();
                assert!(!heard.contains(&1), "it is to go on: {heard:?}");
            }
        }
    }
    assert!(started > 0 && ended > 0, "{started} {ended}");
}

#[test]
fn failing_successors_leave_the_depot_serving() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("handover");
    let depot = Daemon::launch("depot", &settings(&socket)).unwrap();
    let idle = Idle::now([&depot]);
    for round in 0..60 {
        let mut stream = UnixStream::connect(&socket).unwrap();
        match round % 3 {
            0 => drop(stream),
            1 => stream.shutdown(Shutdown::Both).unwrap(),
            _ => {
                // What comes is thrown away, files and all.
                let _ = stream.read(&mut [0]);
            }
        }
    }
    serves(&depot);
    idle.again();
    let log = depot.log_text();
    assert!(!log.contains("panicked") && !log.contains("has taken over"), "{log}");
}
