// SPDX-License-Identifier: GPL-2.0-or-later
//! Programs without tokio.

use super::{bytes, options, refusing_address, route};
use longhaul_session::{
    ListenOptions, Options,
    blocking::{Listener, Session},
};
use std::{
    io::{ErrorKind, Read, Write},
    thread,
    time::Duration,
};

fn listener() -> Listener {
    Listener::bind("127.0.0.1:0", ListenOptions::default()).unwrap()
}

#[test]
fn blocking_streams_pass_in_both_directions() {
    let (up, down) = (bytes(5_000_001, 1), bytes(3_000_003, 2));
    let listener = listener();
    let address = listener.local_addr();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut session = listener.accept(options()).unwrap();
            let mut received = Vec::new();
            session.read_to_end(&mut received).unwrap();
            assert!(received == up);
            session.write_all(&down).unwrap();
            session.end();
            session.sent().unwrap();
            assert_eq!(session.statistics().received_bytes, up.len() as u64);
        });
        let mut session = Session::connect(vec![route(address)], options()).unwrap();
        session.write_all(&up).unwrap();
        session.end();
        let mut received = Vec::new();
        session.read_to_end(&mut received).unwrap();
        assert!(received == down);
        session.sent().unwrap();
        session.greeted().unwrap();
        let statistics = session.statistics();
        assert_eq!(statistics.acknowledged_bytes, up.len() as u64);
        assert_eq!(statistics.connections, 1);
    });
}

#[test]
fn one_thread_reads_while_another_writes() {
    let all = bytes(3_000_000, 3);
    let listener = listener();
    let session = Session::connect(vec![route(listener.local_addr())], options()).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let session = listener.accept(options()).unwrap();
            let mut buffer = [0; 10_000];
            loop {
                let length = (&session).read(&mut buffer).unwrap();
                if length == 0 {
                    break;
                }
                (&session).write_all(&buffer[..length]).unwrap();
            }
            session.end();
            session.sent().unwrap();
        });
        scope.spawn(|| {
            let mut writer = &session;
            writer.write_all(&all).unwrap();
            session.end();
        });
        let mut back = Vec::new();
        let mut reader = &session;
        reader.read_to_end(&mut back).unwrap();
        assert!(back == all);
    });
}

#[test]
fn refused_connection_is_an_error_of_that_kind() {
    let impatient = Options { patience: Duration::ZERO, ..options() };
    let session = Session::connect(vec![route(refusing_address())], impatient).unwrap();
    let error = session.greeted().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
    let mut session = session;
    let error = session.read(&mut [0; 10]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
}

#[test]
fn every_route_is_tried_with_a_short_timeout() {
    let listener = listener();
    let impatient = Options { patience: Duration::ZERO, ..options() };
    let routes =
        vec![route(refusing_address()), route(refusing_address()), route(listener.local_addr())];
    let session = Session::connect(routes, impatient).unwrap();
    let accepted = listener.accept(options()).unwrap();
    session.greeted().unwrap();
    assert_eq!(accepted.id(), session.id());
}

#[test]
fn wrong_secret_is_an_error_of_permission() {
    let listener = listener();
    let with = |secret: &[u8]| Options { secret: secret.to_vec(), encrypt: false, ..options() };
    let session = Session::connect(vec![route(listener.local_addr())], with(b"one")).unwrap();
    let accepted = listener.accept(with(b"two"));
    let error = session.greeted().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    drop(accepted);
}
