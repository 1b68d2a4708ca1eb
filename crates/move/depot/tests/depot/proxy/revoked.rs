// SPDX-License-Identifier: GPL-2.0-or-later
//! Users, tickets and clients that are taken back while their transfers are under way.

use super::{Proxy, SECRET, ann, answered, connect_head, get, passwords, tunnel};
use crate::{
    common::{
        client::connect,
        scripted::{Gate, halting},
    },
    sessions::peers::{Acceptor, await_reset, echo, echoes},
};
use longhaul_depot::control::{Answer, Command, Shunned, Which, ask};
use std::io::{Read, Write};

/// Another hash of the same password.
fn hashed_again() -> String {
    let output = std::process::Command::new("openssl")
        .args(["passwd", "-6", "-salt", "other", "secret"])
        .output()
        .expect("openssl, of the Debian package of that name");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn user_who_is_taken_out_loses_all_transfers() {
    let (proxy, server) = (Proxy::new(), Acceptor::raw(echo));
    let target = server.address.to_string();
    let file = proxy.dir.path();
    passwords(file, &format!("ann:{SECRET}\nbob:{SECRET}\n"));
    proxy.depot.await_log(&["passwords read again"]);
    let (first, gate) = (tunnel(proxy.address(), &target), Gate::default());
    let origin = halting(&vec![7; 100_000], &gate);
    let mut download = connect(proxy.address());
    download.write_all(get(&format!("http://{}/", origin.address), "").as_bytes()).unwrap();
    download.read_exact(&mut [0; 1000]).unwrap();
    let bob = {
        let mut stream = connect(proxy.address());
        let head = connect_head(&target, &super::shown("bob", "secret"));
        stream.write_all(head.as_bytes()).unwrap();
        stream.read_exact(&mut [0; 39]).unwrap();
        stream
    };
    echoes(&first);
    passwords(file, &format!("bob:{SECRET}\n"));
    await_reset(&first);
    await_reset(&download);
    echoes(&bob);
    proxy.depot.await_log(&["ended because its user", "user=\"ann\"", "CONNECT"]);
    proxy.depot.await_log(&["ended because its user", "user=\"ann\"", "GET"]);
    assert_eq!(answered(connect(proxy.address()), &connect_head(&target, &ann())).0, 407);
    gate.open();
}

#[test]
fn changed_password_ends_what_the_old_one_opened() {
    let (proxy, server) = (Proxy::new(), Acceptor::raw(echo));
    let stream = tunnel(proxy.address(), &server.address.to_string());
    passwords(proxy.dir.path(), &format!("ann:{}\n", hashed_again()));
    await_reset(&stream);
    echoes(&tunnel(proxy.address(), &server.address.to_string()));
    std::fs::remove_file(proxy.dir.path().join("passwords")).unwrap();
    proxy.depot.await_log(&["there are no passwords until their file is back"]);
    let head = connect_head(&server.address.to_string(), &ann());
    assert_eq!(answered(connect(proxy.address()), &head).0, 407, "the file with the users is gone");
}

#[test]
fn operators_see_and_end_what_users_do() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("control");
    let top = format!("control.socket = {:?}", socket.display().to_string());
    let (proxy, server) = (Proxy::with(&top, "", ""), Acceptor::raw(echo));
    let target = server.address.to_string();
    let stream = tunnel(proxy.address(), &target);
    let Answer::Transfers { transfers, .. } =
        ask(&socket, &Command::Transfers(Which::default())).unwrap()
    else {
        panic!("no transfers")
    };
    let [transfer] = &transfers[..] else { panic!("{transfers:?}") };
    assert_eq!((transfer.method.as_str(), transfer.target.as_str()), ("CONNECT", target.as_str()));
    assert_eq!(transfer.user.as_deref(), Some("ann"));
    assert!(transfer.session.is_some(), "{transfer:?}");
    let this = Which { transfer: Some(transfer.number), ..Which::default() };
    ask(&socket, &Command::End(this)).unwrap();
    await_reset(&stream);

    let stream = tunnel(proxy.address(), &target);
    let who = Shunned::Client("127.0.0.1/32".parse().unwrap());
    let deny = Command::Deny { who, seconds: 60, why: String::new() };
    ask(&socket, &deny).unwrap();
    await_reset(&stream);
    let (status, _, body) = answered(connect(proxy.address()), &connect_head(&target, &ann()));
    assert_eq!(status, 403, "{body}");
}
