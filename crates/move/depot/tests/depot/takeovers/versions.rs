// SPDX-License-Identifier: GPL-2.0-or-later
//! Takeovers that fail half way, and depots of earlier versions.

use super::{Downloads, request, start, tell};
use crate::common::client::status;
use longhaul_depot::control::{Answer, Command, Shunned, ask};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::{
    io::{IoSlice, IoSliceMut, Read, Write},
    mem::MaybeUninit,
    net::TcpListener,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::Path,
};
use testkit::until;

/// A successor that has been given the listeners.
fn successor(dir: &Path) -> (UnixStream, u8, Vec<OwnedFd>) {
    let stream = UnixStream::connect(dir.join("handover")).unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut version = [9];
    let mut into = [IoSliceMut::new(&mut version)];
    recvmsg(&stream, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
    let files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    (stream, version[0], files.flatten().collect())
}

fn deny(client: &str) -> Command {
    let who = Shunned::Client(client.parse().unwrap());
    Command::Deny { who, seconds: 600, why: String::new() }
}

#[test]
fn successor_that_fails_half_way_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let first = start(dir, "first", "127.0.0.1:0", "[limits]\nper_client = 3\n");
    let mut downloads = Downloads::new();
    assert_eq!(downloads.begin("127.0.0.8", &first), 200);
    for round in 0..3 {
        let (mut stream, version, listeners) = successor(dir);
        assert_eq!((version, listeners.len()), (1, 2));
        stream.write_all(&[2]).unwrap();
        let mut length = [0; 4];
        if round > 0 {
            stream.read_exact(&mut length).unwrap();
            let mut text = vec![0; u32::from_be_bytes(length) as usize];
            stream.read_exact(&mut text).unwrap();
            let told: serde_json::Value = serde_json::from_slice(&text).unwrap();
            assert!(told["decisions"]["denied"].is_array(), "{told}");
            // Commands in between are not lost in silence.
            let said = ask(&dir.join("control.sock"), &deny("127.0.0.77/32")).unwrap_err();
            assert!(said.to_string().contains("Repeat the command"), "{said}");
        }
        if round > 1 {
            stream.write_all(b"?").unwrap();
        }
        // Clients that come meanwhile wait, and are served.
        drop((stream, listeners));
        assert_eq!(downloads.begin("127.0.0.9", &first), 200, "{round}");
        until("the operator decides here again", || {
            ask(&dir.join("control.sock"), &deny("127.0.0.66/32")).is_ok()
        });
    }
    assert_eq!(downloads.begin_all("127.0.0.8", &first), 2, "no other process has its places");
    assert!(!first.log_text().contains("has taken over:"), "{}", first.log_text());
    let left = std::fs::read_dir(dir).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name().into_string().unwrap()).collect();
    assert!(left.contains(&"handover".to_owned()) && left.contains(&"control.sock".to_owned()));
    assert!(!left.iter().any(|name| name.contains("draining")), "{left:?}");
    // And one that does not fail.
    let second = start(dir, "second", &first.authority(), "[limits]\nper_client = 3\n");
    assert_eq!(downloads.begin("127.0.0.8", &second), 503);
    assert_eq!(downloads.begin("127.0.0.66", &second), 403);
    downloads.finish();
}

#[test]
fn successor_of_an_earlier_version_takes_over() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = start(dir.path(), "first", "127.0.0.1:0", "");
    let mut downloads = Downloads::new();
    assert_eq!(downloads.begin("127.0.0.8", &first), 200);
    // It reads one byte, whatever it is, and answers that it serves.
    let (mut stream, _, listeners) = successor(dir.path());
    stream.write_all(&[1]).unwrap();
    first.await_log(&["another depot has taken over"]);
    // It knows `draining` alone.
    let sockets = || {
        let entries = std::fs::read_dir(dir.path()).unwrap().flatten();
        entries.map(|it| it.path()).find(|it| it.to_string_lossy().contains(".draining."))
    };
    until("it can be asked", || sockets().is_some());
    let Answer::Draining(draining) = ask(&sockets().unwrap(), &Command::Draining).unwrap() else {
        panic!("something else");
    };
    assert_eq!((draining.live_transfers, draining.transfers.len()), (1, 1));
    downloads.finish();
    assert_eq!(first.wait().code(), Some(0));
    drop(listeners);
}

#[test]
fn depot_of_an_earlier_version_is_taken_over_from() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let offer = UnixListener::bind(dir.join("handover")).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = listener.local_addr().unwrap().to_string();
    // One that drains, with a transfer of 127.0.0.8.
    let draining = UnixListener::bind(dir.join("control.sock.draining.4711")).unwrap();
    std::thread::spawn(move || {
        for mut stream in draining.incoming().map_while(Result::ok) {
            let mut line = String::new();
            let _ = std::io::BufRead::read_line(&mut std::io::BufReader::new(&stream), &mut line);
            let answer = if line == "\"draining\"\n" {
                "{\"draining\":{\"process\":4711,\"seconds_left\":9.0,\"live_transfers\":1,\"transfers\":[\
                 {\"number\":5,\"client\":\"127.0.0.8:4\",\"upstream\":\"o:80\",\"method\":\"GET\",\"target\":\"/\",\
                 \"status\":200,\"expected_bytes\":null,\"up_bytes\":0,\"down_bytes\":7,\"up_bps\":0,\"down_bps\":0,\
                 \"age_s\":1.0,\"client_tcp\":null,\"upstream_tcp\":null}]}}"
            } else {
                "{\"error\":\"no command: unknown variant\"}"
            };
            let _ = writeln!(stream, "{answer}");
        }
    });
    let predecessor = std::thread::spawn(move || {
        let (mut stream, _) = offer.accept().unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files = [listener.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
        sendmsg(&stream, &[IoSlice::new(&[0])], &mut control, SendFlags::empty()).unwrap();
        let mut said = [0];
        stream.read_exact(&mut said).unwrap();
        said[0]
    });
    let depot = start(dir, "new", &listen, "[limits]\nper_client = 2\n");
    assert_eq!(predecessor.join().unwrap(), 1, "it is told that it can go");
    let status_now = depot.status();
    assert_eq!((status_now.draining.len(), status_now.draining[0].process), (1, 4711));
    let mut downloads = Downloads::new();
    assert_eq!(downloads.begin_all("127.0.0.8", &depot), 1, "one of its two is elsewhere");
    assert!(depot.status().transfers[0].number > 1000, "it has no number of the other's");
    tell(dir, &deny("127.0.0.66/32"));
    let route = downloads.origin.route("-", "/f");
    assert_eq!(status(&request("127.0.0.66", &depot, &route).1), 403);
    downloads.finish();
}
