// SPDX-License-Identifier: GPL-2.0-or-later
//! Something on the path changes a byte of the first encrypted message.

use crate::{
    common::{longhaul, text},
    send::{CODE, Receiver, content, report, send},
};
use std::{
    fs,
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    thread,
};

/// Which byte of a connection changes: of those to the receiver (0) or from it (1). OPEN and ANSWER come first, in fewer than 40.
type Change = (usize, usize);

/// Passes connections on to a receiver, and changes a byte of the first, or of each.
fn relay(to: &str, (direction, at): Change, always: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let to = to.to_owned();
    thread::spawn(move || {
        for (number, client) in listener.incoming().map_while(Result::ok).enumerate() {
            let Ok(server) = TcpStream::connect(&to) else { continue };
            let is_changed = always || number == 0;
            for (of, from, to) in [(0, &client, &server), (1, &server, &client)] {
                let change = (is_changed && of == direction).then_some(at);
                let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                thread::spawn(move || copy(from, to, change));
            }
        }
    });
    address
}

fn copy(mut from: TcpStream, mut to: TcpStream, change: Option<usize>) {
    let (mut buffer, mut passed) = (vec![0; 64 << 10], 0);
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if let Some(at) = change.filter(|at| (passed..passed + read).contains(at)) {
            buffer[at - passed] ^= 0x10;
        }
        passed += read;
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[test]
fn changed_byte_in_the_first_message_is_tried_again() {
    for change in [(0, 80), (1, 80)] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, content(500_000)).unwrap();
        let there = directory.path().join("there");
        fs::create_dir(&there).unwrap();
        let receiver = Receiver::start(&there, &["--listen", "127.0.0.1:0", "--code", CODE]);
        let relay = relay(&receiver.address, change, false);
        report(&send(&[file.to_str().unwrap(), &relay, "--code", CODE]).output().unwrap());
        report(&receiver.end());
        assert!(fs::read(there.join("file")).unwrap() == content(500_000), "{change:?}");
    }
}

#[test]
fn byte_that_always_changes_ends_both_sides_with_the_cause() {
    for (change, told) in [((0, 80), "on the path"), ((1, 80), "on the way")] {
        let directory = tempfile::tempdir().unwrap();
        let receiver =
            Receiver::start(directory.path(), &["--listen", "127.0.0.1:0", "--code", CODE]);
        let relay = relay(&receiver.address, change, true);
        let arguments = ["send", "/etc/hostname", &relay, "--code", CODE, "--patience", "2s"];
        let output = longhaul().args(arguments).output().unwrap();
        let err = text(&output.stderr);
        assert!(output.status.code() == Some(1) && err.contains(told), "{change:?}: {err}");
        assert!(!directory.path().join("hostname").exists());
    }
}
