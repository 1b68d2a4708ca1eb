// SPDX-License-Identifier: GPL-2.0-or-later
//! What a depot sees of a transfer with a code.

use crate::{
    common::{longhaul, text},
    depot::Depot,
};
use serde_json::Value;
use std::{
    fs,
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    path::Path,
    process::{Output, Stdio},
    sync::{Arc, Mutex},
    thread,
};

const CODE: &str = "k3v9-x2mq-7f4t-pd8w";

/// Passes connections on to a depot, and keeps what it sees of them.
fn tap(depot: &str) -> (String, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (seen, depot) = (Arc::new(Mutex::new(Vec::new())), depot.to_owned());
    let kept = Arc::clone(&seen);
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(&depot) else { continue };
            let ends = [(&client, &server), (&server, &client)];
            for (from, to) in ends.map(|(a, b)| (a.try_clone().unwrap(), b.try_clone().unwrap())) {
                let kept = Arc::clone(&kept);
                thread::spawn(move || copy(from, to, &kept));
            }
        }
    });
    (address, seen)
}

fn copy(mut from: TcpStream, mut to: TcpStream, kept: &Mutex<Vec<u8>>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        kept.lock().unwrap().extend_from_slice(&buffer[..read]);
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

fn report(output: &Output) -> Value {
    let out = text(&output.stdout);
    assert!(output.status.success(), "{}\n{out}\n{}", output.status, text(&output.stderr));
    serde_json::from_str(&out).unwrap()
}

/// Sends by a meeting at a depot; with what passed at the sender's side of it.
fn transfer(directory: &Path, options: &[&str]) -> (Value, Value, Vec<u8>) {
    let open =
        ["--allow-client", "127.0.0.0/8", "--allow-upstream", "127.0.0.1:*", "--allow-local"];
    let depot = Depot::start(&open);
    let (address, seen) = tap(&depot.listen);
    let there = tempfile::tempdir().unwrap();
    let receiver = longhaul()
        .args(["recv", CODE, "--json", "--via", &depot.listen])
        .current_dir(there.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let sent = longhaul()
        .args(["send", "hidden-name.txt", "--json", "--code", CODE, "--via", &address])
        .args(options)
        .current_dir(directory)
        .output()
        .unwrap();
    let received = receiver.wait_with_output().unwrap();
    let file = fs::read(there.path().join("hidden-name.txt")).unwrap();
    assert!(file == fs::read(directory.join("hidden-name.txt")).unwrap());
    let seen = seen.lock().unwrap().clone();
    (report(&sent), report(&received), seen)
}

#[test]
fn depot_sees_no_data_or_name_of_a_transfer_with_a_code() {
    let directory = tempfile::tempdir().unwrap();
    let content = "what a depot may not know\n".repeat(50_000);
    fs::write(directory.path().join("hidden-name.txt"), &content).unwrap();
    for (options, encrypted) in [(&[][..], true), (&["--no-encryption"][..], false)] {
        let (sent, received, seen) = transfer(directory.path(), options);
        assert!(seen.len() > content.len());
        for report in [&sent, &received] {
            assert_eq!(report["encrypted"], encrypted);
        }
        for hidden in [&b"may not know"[..], b"hidden-name"] {
            let is_seen = seen.windows(hidden.len()).any(|window| window == hidden);
            assert_eq!(is_seen, !encrypted, "{}", hidden.escape_ascii());
        }
    }
}
