// SPDX-License-Identifier: GPL-2.0-or-later
//! What operators see of sessions.

use super::peers::{Acceptor, answer, asked, echoes, id, open, opened, refused};
use crate::common::{client::body, process::Daemon};
use http::StatusCode;
use longhaul_depot::status::{EndedSessions, Sessions};
use protocol::session::{Open, Role, Target};
use testkit::until;

const ADMIN: &str = "admin.listen = \"127.0.0.1:0\"";

/// How many sessions have ended, of those that any have.
fn ended(sessions: &Sessions) -> Vec<(String, String, u64)> {
    let some = sessions.ended.iter().filter(|ended| ended.sessions > 0).cloned();
    some.map(|EndedSessions { target, outcome, sessions }| (target, outcome, sessions)).collect()
}

fn counted(target: &str, outcome: &str, sessions: u64) -> (String, String, u64) {
    (target.to_owned(), outcome.to_owned(), sessions)
}

#[test]
fn status_and_metrics_count_sessions() {
    let depot = Daemon::depot(ADMIN);
    let acceptor = Acceptor::echo();
    let (client, _) = opened(&depot, &open(&[acceptor.address]));
    echoes(&client);
    let meet = |role| Open::new(id(1), Vec::new(), Target::Meeting(role));
    let mut waits = asked(&depot, &meet(Role::Initiator));
    assert_eq!(answer(&mut waits).status, StatusCode::CONTINUE);
    refused(&depot, &Open::new(id(2), Vec::new(), Target::End).to_bytes().unwrap());

    let status = depot.status();
    assert_eq!((status.sessions.open, status.sessions.meetings_waiting), (1, 1));
    let transfer = &status.transfers[0];
    assert_eq!(transfer.session.as_deref(), Some(id(7).to_string().as_str()));
    assert_eq!((transfer.up_bytes, transfer.down_bytes), (5, 5));
    let metrics = String::from_utf8(body(&format!("http://{}/metrics", depot.admin()))).unwrap();
    for line in [
        "longhaul_depot_sessions_open 1",
        "longhaul_depot_session_meetings_waiting 1",
        "longhaul_depot_sessions_total{target=\"end\",outcome=\"refused\"} 1",
        "longhaul_depot_sessions_total{target=\"meet\",outcome=\"ended\"} 0",
    ] {
        assert!(metrics.lines().any(|has| has == line), "{line} is missing in\n{metrics}");
    }

    // A meeting is one session, though two connections belong to it.
    let mut other = asked(&depot, &meet(Role::Acceptor));
    assert_eq!(answer(&mut other).status, StatusCode::OK);
    assert_eq!(answer(&mut waits).status, StatusCode::OK);
    let sessions = depot.status().sessions;
    assert_eq!((sessions.open, sessions.meetings_waiting), (2, 0));
    drop((client, waits, other));
    let over =
        [counted("end", "ended", 1), counted("end", "refused", 1), counted("meet", "ended", 1)];
    until("both sessions are over", || {
        let sessions = depot.status().sessions;
        sessions.open == 0 && ended(&sessions) == over
    });
}
