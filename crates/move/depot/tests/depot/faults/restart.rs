// SPDX-License-Identifier: GPL-2.0-or-later
//! A depot that is killed in the middle of a transfer and restarted at the same address.

use super::own_loopback;
use crate::common::{
    client::curl,
    idle::Idle,
    noise,
    process::Daemon,
    scripted::{Gate, Scripted},
    sha256,
};
use rustix::process::Signal;
use std::{fs, io::Write};
use testkit::until;

const SIZE: usize = 3_000_001;

/// An origin that serves ranges. What is asked for as a whole stops half-way until the gate is open.
fn origin(body: &[u8], gate: &Gate) -> Scripted {
    let (body, gate) = (body.to_vec(), gate.clone());
    Scripted::new(move |mut stream, head| {
        let range = head.lines().find_map(|line| line.strip_prefix("Range: bytes="));
        let Some(range) = range else {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n").unwrap();
            stream.write_all(&body[..SIZE / 2]).unwrap();
            return gate.wait();
        };
        let from: usize = range.trim_end_matches('-').parse().unwrap();
        let (last, length) = (SIZE - 1, SIZE - from);
        write!(
            stream,
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {from}-{last}/{SIZE}\r\n\
             Content-Length: {length}\r\n\r\n"
        )
        .unwrap();
        stream.write_all(&body[from..]).unwrap();
    })
}

/// Kills one of two depots while a client has half of a file, and restarts it. `said` is the other depot's log
/// line about it.
fn killed_in_the_middle(kill: &str, said: &str) {
    let (body, gate) = (noise(91, SIZE), Gate::default());
    let origin = origin(&body, &gate);
    let depot = |id: &str, listen: &str| {
        let patient = "[timeouts]\nidle = \"1h\"";
        Daemon::depot_with(&format!("id = \"{id}\"\nlisten = [\"{listen}\"]\n{patient}"))
    };
    let host = own_loopback(u8::from(kill == "near"));
    let address = |id: &str| if id == kill { format!("{host}:0") } else { "127.0.0.1:0".into() };
    let [near, far] = ["near", "far"].map(|id| depot(id, &address(id)));
    let url = near.url(&origin.route(&far.authority(), "/f"));
    let (mut victim, other) = if kill == "near" { (near, far) } else { (far, near) };
    let idle = Idle::now([&other]);
    let dir = tempfile::tempdir().unwrap();
    let (file, half) = (dir.path().join("part"), &body[..SIZE / 2]);
    let fetch = |more: &[&str]| {
        let args = ["-f", "-N", "-o", file.to_str().unwrap(), &url];
        curl(&[&args[..], more].concat())
    };
    std::thread::scope(|scope| {
        let client = scope.spawn(|| fetch(&[]));
        until("the client has half", || {
            fs::metadata(&file).is_ok_and(|it| it.len() == half.len() as u64)
        });
        victim.signal(Signal::KILL);
        let broken = client.join().unwrap();
        // Cut off or reset, never a success.
        let (code, text) = (broken.status.code(), String::from_utf8_lossy(&broken.stderr));
        assert!([Some(18), Some(56)].contains(&code), "{code:?}: {text}");
    });
    assert_eq!(sha256(&fs::read(&file).unwrap()), sha256(half), "what came is right");
    other.await_log(&["WARN", said, &format!("at {} of {SIZE} bytes", half.len())]);
    idle.again();
    let address = victim.authority();
    let _ = victim.wait();
    let again = depot(kill, &address);
    let resumed = fetch(&["-C", "-"]);
    assert!(resumed.status.success(), "{}", String::from_utf8_lossy(&resumed.stderr));
    assert_eq!(sha256(&fs::read(&file).unwrap()), sha256(&body));
    for depot in [&again, &other] {
        let rest = format!("bytes={}", SIZE - half.len());
        depot.await_log(&["INFO", "complete", "status=206", &rest]);
    }
    gate.open();
}

#[test]
fn killed_near_depot_costs_one_resumption() {
    killed_in_the_middle("near", "client gone");
}

#[test]
fn killed_far_depot_costs_one_resumption() {
    killed_in_the_middle("far", "upstream");
}
