// SPDX-License-Identifier: GPL-2.0-or-later
//! Who may use a store at all: by the rules, or by a ticket.

use super::*;
use protocol::{
    session::{Open, Target, TicketText},
    ticket::{Signer, Ticket, UnixTime},
};

fn to_store() -> Open {
    Open::new(id(1), Vec::new(), Target::Store)
}

fn status(depot: &Daemon, open: &Open) -> u16 {
    let mut stream = crate::sessions::peers::asked(depot, open);
    crate::sessions::peers::answer(&mut stream).status.as_u16()
}

#[test]
fn clients_that_are_not_listed_are_refused() {
    let place = Place::new();
    let depot = Daemon::depot(&format!("{}[allow]\nlocal = true\n", settings(&place.path(), "")));
    assert_eq!(status(&depot, &to_store()), 403);
    assert!(fs_is_empty(&place), "nothing is left");
}

fn fs_is_empty(place: &Place) -> bool {
    std::fs::read_dir(place.path().join("data")).unwrap().count() == 0
}

#[test]
fn ticket_opens_the_store_by_its_own_claim_alone() {
    let place = Place::new();
    let signer = Signer::from_seed([7; 32]).unwrap();
    let keys = place.0.path().join("keys.json");
    std::fs::write(&keys, signer.public_set()).unwrap();
    let depot = Daemon::depot(&format!(
        "{}[trust]\nkeys = \"{}\"\n[allow]\nlocal = true\n",
        settings(&place.path(), ""),
        keys.display()
    ));
    let ticket = |opens: &str| Ticket {
        id: "t1".to_owned(),
        issuer: Some("portal".to_owned()),
        issued: None,
        not_before: None,
        expires: UnixTime::from(SystemTime::now()).plus(600),
        opens: opens.parse().unwrap(),
        via: vec![Authority::from(depot.address).into()],
        methods: Vec::new(),
        bytes: None,
        rate: None,
        total_rate: None,
        clients: Vec::new(),
        uses: None,
    };
    let with = |opens: &str| {
        let text = TicketText::new(0, signer.sign(&ticket(opens)).unwrap()).unwrap();
        Open { ticket: Some(text), ..to_store() }
    };
    assert_eq!(status(&depot, &with("store")), 200);
    assert_eq!(status(&depot, &with("meet")), 403);
    assert_eq!(status(&depot, &to_store()), 403);
}
