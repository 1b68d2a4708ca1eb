// SPDX-License-Identifier: GPL-2.0-or-later
//! Guessing passwords: a client has ten tries, and one more every six seconds.

use super::{Proxy, ann, answered, connect_head, shown, tunnel};
use crate::{
    common::client::{connect, connect_from},
    sessions::peers::{Acceptor, echo, echoes},
};
use std::net::TcpListener;

#[test]
fn guesses_run_out_for_their_client_alone() {
    let (proxy, server) = (Proxy::new(), Acceptor::raw(echo));
    let target = server.address.to_string();
    let ask = |from: &str, fields: &str| {
        let stream = connect_from(from, proxy.address());
        answered(stream, &connect_head(&target, fields))
    };
    // So many that those which come back meanwhile make no difference.
    let statuses: Vec<_> =
        (0..200).map(|n| ask("127.0.0.2", &shown("ann", &format!("guess{n}"))).0).collect();
    assert_eq!(statuses[..10], [407; 10]);
    let taken = statuses.iter().filter(|status| **status == 407).count();
    assert!(statuses.contains(&429) && taken < 100, "{taken} of 200 were tried");
    // Another client has its own tries, and its right password costs none.
    echoes(&tunnel(proxy.address(), &target));
    for _ in 0..30 {
        drop(tunnel(proxy.address(), &target));
    }
}

#[test]
fn client_without_tries_gets_retry_after() {
    let (proxy, server) = (Proxy::new(), TcpListener::bind("127.0.0.1:0").unwrap());
    server.set_nonblocking(true).unwrap();
    let target = server.local_addr().unwrap().to_string();
    let ask = |password: &str| {
        let head = connect_head(&target, &shown("ann", password));
        answered(connect(proxy.address()), &head)
    };
    let last = (0..200).map(|_| ask("wrong")).find(|(status, ..)| *status == 429);
    let (_, head, body) = last.expect("an end of tries");
    assert!(head.contains("Retry-After: "), "{head}");
    assert!(body.contains("too many wrong passwords"), "{body}");
    assert!(server.accept().is_err());
}

/// Otherwise it could go on guessing a password that is in use: 429 for wrong ones, 200 for the right one.
#[test]
fn right_password_of_others_is_no_use_without_tries() {
    let (proxy, server) = (Proxy::new(), Acceptor::raw(echo));
    let target = server.address.to_string();
    drop(tunnel(proxy.address(), &target));
    let ask = |fields: &str| {
        answered(connect_from("127.0.0.2", proxy.address()), &connect_head(&target, fields)).0
    };
    let ran_out = (0..200).any(|_| ask(&shown("ann", "wrong")) == 429);
    assert!(ran_out);
    assert_eq!(ask(&ann()), 429);
}

/// A connection that a client keeps shows its password with each request; hashing it each time would take a processor.
#[test]
fn known_password_works_without_tries() {
    let (proxy, server) = (Proxy::new(), Acceptor::raw(echo));
    let target = server.address.to_string();
    drop(tunnel(proxy.address(), &target));
    let wrong = connect_head(&target, &shown("ann", "wrong"));
    let ran_out = (0..200).any(|_| answered(connect(proxy.address()), &wrong).0 == 429);
    assert!(ran_out);
    assert!(ann().starts_with("Proxy-Authorization: Basic "));
    echoes(&tunnel(proxy.address(), &target));
}
