// SPDX-License-Identifier: GPL-2.0-or-later
//! Rates that operators set while transfers run.

use super::{BODY, Controlled, Download, settings};
use crate::{
    common::{
        client::connect_from,
        process::Daemon,
        scripted::{Gate, halting},
    },
    sessions::peers::{Acceptor, answer, echoes, open},
    tickets::{Keys, ticket},
};
use http::StatusCode;
use longhaul_depot::control::{Answer, Command, Limit, Limited, Policy};
use std::io::Write;
use units::Rate;

const MBIT: u64 = 1_000_000;

impl Controlled {
    fn limit(&self, whose: Limited, mbit: Option<u64>) -> Answer {
        self.tell(&Command::Limit { whose, rate_bps: mbit.map(|rate| rate * MBIT) })
    }
}

/// To how many Mbit/s each transfer is held towards its client, in the order of their beginnings.
fn held(depot: &Daemon) -> Vec<Option<u64>> {
    let transfers = depot.status().transfers;
    let pacing = transfers.iter().map(|transfer| transfer.client_tcp.as_ref()?.pacing_bps);
    pacing.map(|bps| bps.map(|bps| bps / MBIT)).collect()
}

fn client(address: &str) -> Limited {
    Limited::Client(address.parse().unwrap())
}

const THERE: Answer = Answer::Limited { is_there: true };

#[test]
fn running_client_and_transfer_can_be_limited() {
    let controlled = Controlled::new();
    let depot = &controlled.depot;
    let begin = |from| Download::begin(from, depot, "/f");
    let (a, b, c) = (begin("127.0.0.9"), begin("127.0.0.9"), begin("127.0.0.8"));
    assert_eq!(held(depot), [None, None, None]);
    assert_eq!(controlled.limit(client("127.0.0.9"), Some(80)), THERE);
    assert_eq!(held(depot), [Some(40), Some(40), None]);
    let number = depot.status().transfers[1].number;
    assert_eq!(controlled.limit(Limited::Transfer(number), Some(8)), THERE);
    assert_eq!(held(depot), [Some(40), Some(8), None]);
    // One that begins afterwards has its part.
    let d = begin("127.0.0.9");
    assert_eq!(held(depot), [Some(26), Some(8), None, Some(26)]);
    let set = Limit { whose: client("127.0.0.9"), rate_bps: 80 * MBIT };
    assert_eq!(controlled.tell(&Command::Limits), Answer::Limits(vec![set]));
    assert_eq!(controlled.limit(client("127.0.0.9"), None), THERE);
    assert_eq!(controlled.limit(Limited::Transfer(number), None), THERE);
    assert_eq!(held(depot), [None; 4]);
    assert_eq!(controlled.limit(Limited::Transfer(99), None), Answer::Limited { is_there: false });
    let low = Command::Limit { whose: client("127.0.0.9"), rate_bps: Some(7999) };
    let refused = longhaul_depot::control::ask(&controlled.socket(), &low);
    assert!(refused.unwrap_err().to_string().contains("8000 bit/s"));
    for download in [a, b, c, d] {
        download.goes_on();
    }
}

#[test]
fn new_client_rate_applies_to_running_transfers() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("depot.toml");
    let text = |rate: &str| {
        let listen = "listen = [\"127.0.0.1:0\"]\n";
        let open = "clients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]\nlocal = true\n";
        format!("{listen}{}[allow]\n{open}[limits]\n{rate}\n", settings(dir.path()))
    };
    let depot = Daemon::of_file(&file, &text(""));
    let (a, b) =
        (Download::begin("127.0.0.9", &depot, "/f"), Download::begin("127.0.0.9", &depot, "/f"));
    assert_eq!(held(&depot), [None, None]);
    depot.read_again(&file, &text("client_rate = \"60mbit\""));
    assert_eq!(held(&depot), [Some(30), Some(30)]);
    depot.read_again(&file, &text(""));
    assert_eq!(held(&depot), [None, None]);
    a.goes_on();
    b.goes_on();
}

#[test]
fn ticket_rate_is_shared_by_its_transfers() {
    let (keys, dir) = (Keys::new(), tempfile::tempdir().unwrap());
    let file = keys.file();
    let trust =
        format!("[trust]\nkeys = {:?}\n[allow]\nlocal = true\n", file.display().to_string());
    let depot = Daemon::depot(&format!("{}{trust}", settings(dir.path())));
    let controlled = Controlled { depot, dir };
    let begin = |from: &str, total: u64| {
        let gate = Gate::default();
        let origin = halting(&vec![7; BODY], &gate);
        let mut ticket = ticket(origin.address, "/f", &[&controlled.depot]);
        ticket.total_rate = Some(Rate::bits_per_second(total * MBIT));
        let route = keys.route(&ticket, "f");
        Download::by_route(from, &controlled.depot, &route, gate, origin)
    };
    let (a, b) = (begin("127.0.0.9", 60), begin("127.0.0.8", 60));
    assert_eq!(held(&controlled.depot), [Some(30), Some(30)]);
    assert_eq!(controlled.limit(Limited::Ticket("t1".to_owned()), Some(20)), THERE);
    assert_eq!(held(&controlled.depot), [Some(10), Some(10)]);
    a.goes_on();
    b.goes_on();
}

impl Controlled {
    fn policy(&self, number: u64, policy: Policy, mbit: Option<u64>) -> Answer {
        let (whose, rate_bps) = (Limited::Transfer(number), mbit.map(|rate| rate * MBIT));
        self.tell(&Command::Policy { whose, policy, rate_bps })
    }

    fn refused(&self, command: &Command) -> String {
        longhaul_depot::control::ask(&self.socket(), command).unwrap_err().to_string()
    }
}

#[test]
fn depot_rate_is_shared_by_all_clients() {
    let controlled = Controlled::new();
    let depot = &controlled.depot;
    let begin = |from| Download::begin(from, depot, "/f");
    let (a, b) = (begin("127.0.0.9"), begin("127.0.0.8"));
    assert_eq!(controlled.limit(Limited::Depot, Some(80)), THERE);
    assert_eq!(held(depot), [Some(40), Some(40)]);
    let c = begin("127.0.0.7");
    assert_eq!(held(depot), [Some(26); 3]);
    let set = Limit { whose: Limited::Depot, rate_bps: 80 * MBIT };
    assert_eq!(controlled.tell(&Command::Limits), Answer::Limits(vec![set]));
    assert_eq!(controlled.limit(Limited::Depot, None), THERE);
    assert_eq!(held(depot), [None; 3]);
    for download in [a, b, c] {
        download.goes_on();
    }
}

#[test]
fn key_rate_is_shared_by_tickets_of_one_signer() {
    let (keys, dir) = (Keys::new(), tempfile::tempdir().unwrap());
    let file = keys.file();
    let trust =
        format!("[trust]\nkeys = {:?}\n[allow]\nlocal = true\n", file.display().to_string());
    let depot = Daemon::depot(&format!("{}{trust}", settings(dir.path())));
    let controlled = Controlled { depot, dir };
    let begin = |from: &str, id: &str| {
        let gate = Gate::default();
        let origin = halting(&vec![7; BODY], &gate);
        let mut ticket = ticket(origin.address, "/f", &[&controlled.depot]);
        ticket.id = id.to_owned();
        let route = keys.route(&ticket, "f");
        Download::by_route(from, &controlled.depot, &route, gate, origin)
    };
    let (a, b) = (begin("127.0.0.9", "t1"), begin("127.0.0.8", "t2"));
    assert_eq!(controlled.limit(Limited::Key(keys.kid()), Some(80)), THERE);
    assert_eq!(held(&controlled.depot), [Some(40), Some(40)]);
    assert_eq!(controlled.limit(Limited::Key("another".to_owned()), Some(8)), THERE);
    assert_eq!(held(&controlled.depot), [Some(40), Some(40)]);
    let nameless = Command::Limit { whose: Limited::Key(String::new()), rate_bps: Some(MBIT) };
    assert!(controlled.refused(&nameless).contains("kid"));
    a.goes_on();
    b.goes_on();
}

#[test]
fn policy_of_a_running_transfer_can_be_changed() {
    let controlled = Controlled::new();
    let depot = &controlled.depot;
    let begin = |from| Download::begin(from, depot, "/f");
    let (a, b) = (begin("127.0.0.9"), begin("127.0.0.8"));
    let number = depot.status().transfers[0].number;
    let set = |sharing| Answer::Policy { transfers: 1, sharing };
    assert_eq!(controlled.policy(number, Policy::High, None), set(0), "there is no rate to share");
    assert_eq!(controlled.limit(Limited::Depot, Some(90)), THERE);
    assert_eq!(held(depot), [Some(60), Some(30)]);
    let low = Policy::Low { minimum_bps: 10 * MBIT };
    assert_eq!(controlled.policy(number, low, None), set(1));
    assert_eq!(held(depot), [Some(10), Some(80)]);
    assert_eq!(controlled.policy(number, Policy::Fair, Some(20)), set(1));
    assert_eq!(held(depot), [Some(20), Some(45)], "a target applies in addition");
    assert_eq!(controlled.policy(99, low, None), Answer::Policy { transfers: 0, sharing: 0 });
    let policy = |whose, policy, rate_bps| Command::Policy { whose, policy, rate_bps };
    for (command, why) in [
        (policy(Limited::Transfer(number), Policy::Fixed, Some(MBIT)), "TCP"),
        (policy(Limited::Transfer(number), low, Some(MBIT)), "minimum"),
        (policy(Limited::Transfer(number), Policy::Low { minimum_bps: 7999 }, None), "8000 bit/s"),
        (policy(Limited::Transfer(number), Policy::High, Some(7999)), "8000 bit/s"),
        (policy(Limited::Depot, Policy::High, None), "transfer or session"),
        (policy(Limited::Session("x".to_owned()), Policy::High, None), "session"),
    ] {
        let refused = controlled.refused(&command);
        assert!(refused.contains(why), "{command:?}: {refused}");
    }
    assert_eq!(held(depot), [Some(20), Some(45)]);
    let none = Limited::Session("00".repeat(16));
    assert_eq!(controlled.limit(none, Some(8)), Answer::Limited { is_there: false });
    a.goes_on();
    b.goes_on();
}

#[test]
fn running_session_is_found_by_its_name() {
    let controlled = Controlled::new();
    let depot = &controlled.depot;
    let acceptor = Acceptor::echo();
    let asked = open(&[acceptor.address]);
    let mut stream = connect_from("127.0.0.9", depot.address);
    stream.write_all(&asked.to_bytes().unwrap()).unwrap();
    assert_eq!(answer(&mut stream).status, StatusCode::OK);
    let whose = Limited::Session(asked.session.to_string());
    assert_eq!(controlled.limit(whose.clone(), Some(8)), THERE);
    assert_eq!(held(depot), [Some(8)]);
    let policy = Command::Policy { whose, policy: Policy::High, rate_bps: Some(16 * MBIT) };
    assert_eq!(controlled.tell(&policy), Answer::Policy { transfers: 1, sharing: 0 });
    assert_eq!(held(depot), [Some(16)]);
    echoes(&stream);
}
