// SPDX-License-Identifier: GPL-2.0-or-later
//! Sessions while another process takes a depot's listeners over.

use super::peers::{Acceptor, answer, asked, id, open, opened, sending, to_end};
use crate::common::{noise, process::Daemon, sha256};
use http::StatusCode;
use protocol::session::{Open, Role, Target};
use std::io::{Read, Write};
use testkit::until;

#[test]
fn session_goes_on_across_a_takeover_and_the_old_depot_ends() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("handover").display().to_string();
    let settings = |id: &str, listen: &str| {
        format!(
            "id = \"{id}\"\nlisten = [\"{listen}\"]\nhandover = \"{socket}\"\n[allow]\n\
             clients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]\nlocal = true"
        )
    };
    let mut first = Daemon::depot_with(&settings("first", "127.0.0.1:0"));
    let acceptor = Acceptor::echo();
    let request = open(&[acceptor.address]);
    let (before, after) = (noise(1, 100_000), noise(2, 5 << 20));
    let (mut client, _) = opened(&first, &request);
    client.write_all(&before).unwrap();
    let mut back = vec![0; before.len()];
    client.read_exact(&mut back).unwrap();
    let meet = Open::new(id(1), Vec::new(), Target::Meeting(Role::Initiator));
    let mut waits = asked(&first, &meet);
    assert_eq!(answer(&mut waits).status, StatusCode::CONTINUE);

    let second = Daemon::depot_with(&settings("second", &first.authority()));
    first.await_log(&["another depot has taken over"]);
    // The other end would come to the second depot, so that one that waits has to come there too.
    assert_eq!(answer(&mut waits).status, StatusCode::SERVICE_UNAVAILABLE);
    until("new sessions are the second one's", || {
        opened(&second, &request).1.hops[0].depot.as_str() == "second"
    });
    let sends = sending(&client, after.clone());
    assert_eq!(sha256(&to_end(&client)), sha256(&after));
    assert_eq!(back, before);
    sends.join().unwrap();
    drop(client);
    assert!(first.wait().success());
}
