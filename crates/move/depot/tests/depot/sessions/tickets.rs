// SPDX-License-Identifier: GPL-2.0-or-later
//! Tickets that open sessions.

use super::peers::{Acceptor, await_reset, echo, echoes, hop, open, opened, refused};
use crate::common::{
    PATIENCE,
    client::{connect_from, get, status},
    process::Daemon,
};
use protocol::{
    Authority,
    session::{Answer, Open, Target, TicketText},
    ticket::{Signer, Ticket, TicketRoute, UnixTime},
};
use std::{io::Write, net::SocketAddr, sync::mpsc, time::SystemTime};

/// Depots that open by tickets alone.
struct Opening {
    signer: Signer,
    depots: [Daemon; 2],
    _dir: tempfile::TempDir,
}

impl Opening {
    fn new() -> Self {
        let (dir, signer) = (tempfile::tempdir().unwrap(), Signer::from_seed([7; 32]).unwrap());
        let keys = dir.path().join("keys.json");
        std::fs::write(&keys, signer.public_set()).unwrap();
        let depots = ["d1", "d2"].map(|id| {
            Daemon::depot(&format!(
                "id = \"{id}\"\n[trust]\nkeys = \"{}\"\n[allow]\nlocal = true",
                keys.display()
            ))
        });
        Self { signer, depots, _dir: dir }
    }

    fn ticket(&self, opens: &str) -> Ticket {
        Ticket {
            id: "t1".to_owned(),
            issuer: None,
            issued: None,
            not_before: None,
            expires: UnixTime::from(SystemTime::now()).plus(600),
            opens: opens.parse().unwrap(),
            via: self.depots.each_ref().map(|depot| Authority::from(depot.address).into()).into(),
            methods: Vec::new(),
            bytes: None,
            rate: None,
            total_rate: None,
            clients: Vec::new(),
            uses: None,
        }
    }

    /// OPEN through both depots, to an acceptor, with a ticket.
    fn open(&self, end: SocketAddr, ticket: &Ticket, hop: u8) -> Open {
        let all = [self.depots[1].address, end];
        let text = TicketText::new(hop, self.signer.sign(ticket).unwrap()).unwrap();
        Open { ticket: Some(text), ..open(&all[usize::from(hop)..]) }
    }
}

fn refusal(depot: &Daemon, open: &Open) -> Answer {
    let answer = refused(depot, &open.to_bytes().unwrap());
    assert_eq!(answer.status, 403, "{answer:?}");
    answer
}

#[test]
fn ticket_opens_its_session_through_depots() {
    let opening = Opening::new();
    let (sender, got) = mpsc::channel();
    let acceptor = Acceptor::new(move |stream, open| {
        sender.send(open).unwrap();
        echo(stream);
    });
    let ticket = opening.ticket(&format!("end:{}", acceptor.address));
    let (client, _) = opened(&opening.depots[0], &opening.open(acceptor.address, &ticket, 0));
    echoes(&client);
    let came = got.recv_timeout(PATIENCE).unwrap();
    assert_eq!((came.ticket, came.client), (None, None), "the acceptor has no use for it");
    drop(client);
    for depot in &opening.depots {
        depot.await_log(&["ended", "ticket=\"t1\"", "method=\"SESSION\""]);
    }
    // To a server, without any list.
    let server = Acceptor::raw(echo);
    let ticket = opening.ticket(&format!("tcp:{}", server.address));
    let target = Target::Tcp { server: server.address.into(), proxy_protocol: false };
    let hops = vec![hop(opening.depots[1].address)];
    let open = Open { hops, target, ..opening.open(server.address, &ticket, 0) };
    echoes(&opened(&opening.depots[0], &open).0);
}

#[test]
fn ticket_opens_nothing_else() {
    let opening = Opening::new();
    let [d1, d2] = &opening.depots;
    let acceptor = Acceptor::echo();
    let good = opening.ticket(&format!("end:{}", acceptor.address));
    let open = opening.open(acceptor.address, &good, 0);
    opened(d1, &open);
    // Without it, to another end, through other depots, at another depot, and to a server.
    refusal(d1, &Open { ticket: None, ..open.clone() });
    let other = Acceptor::echo();
    refusal(d1, &Open { hops: vec![hop(d2.address), hop(other.address)], ..open.clone() });
    refusal(d1, &Open { hops: vec![hop(acceptor.address)], ..open.clone() });
    refusal(d2, &open);
    let tcp = Target::Tcp { server: acceptor.address.into(), proxy_protocol: false };
    refusal(d1, &Open { hops: vec![hop(d2.address)], target: tcp, ..open.clone() });
    refusal(d1, &opening.open(acceptor.address, &good, 1));
    // One for requests opens no session, and one for sessions no request.
    let url = Ticket {
        methods: vec![protocol::http::Method::Get],
        ..opening.ticket(&format!("http://{}/", acceptor.address))
    };
    refusal(d1, &opening.open(acceptor.address, &url, 0));
    let token = opening.signer.sign(&good).unwrap();
    let route = TicketRoute::new(&token, "f").unwrap().to_string();
    assert_eq!(status(&get(d1.address, &route).0), 403);
    // As often as it may.
    let once = Ticket { id: "once".to_owned(), uses: 1.try_into().ok(), ..good };
    let open = opening.open(acceptor.address, &once, 0);
    opened(d1, &open);
    refusal(d1, &open);
}

#[test]
fn client_bound_ticket_opens_no_other_session() {
    let opening = Opening::new();
    let [d1, d2] = &opening.depots;
    let acceptor = Acceptor::echo();
    let clients = vec!["127.0.0.9/32".parse().unwrap()];
    let ticket = Ticket { clients, ..opening.ticket(&format!("end:{}", acceptor.address)) };
    let open = opening.open(acceptor.address, &ticket, 0);
    let from = |ip: &str, depot: &Daemon, open: &Open| {
        let mut stream = connect_from(ip, depot.address);
        stream.write_all(&open.to_bytes().unwrap()).unwrap();
        super::peers::answer(&mut stream).status.as_u16()
    };
    assert_eq!(from("127.0.0.9", d1, &open), 200);
    assert_eq!(from("127.0.0.10", d1, &open), 403);
    // What a client says of itself counts nowhere, also where the ticket has a depot ask.
    let forged = Open { client: "127.0.0.9".parse().ok(), ..open };
    assert_eq!(from("127.0.0.10", d1, &forged), 403);
    let later = opening.open(acceptor.address, &ticket, 1);
    let forged = Open { client: forged.client, passed: vec!["d1".parse().unwrap()], ..later };
    assert_eq!(from("127.0.0.10", d2, &forged), 403);
}

#[test]
fn session_over_its_tickets_byte_limit_is_reset() {
    let opening = Opening::new();
    let acceptor = Acceptor::echo();
    for (limit, length) in [(5, 6), (200_000, 200_001)] {
        let bytes = Some(units::Bytes::new(limit));
        let ticket = Ticket { bytes, ..opening.ticket(&format!("end:{}", acceptor.address)) };
        let (client, _) = opened(&opening.depots[0], &opening.open(acceptor.address, &ticket, 0));
        echoes(&client);
        let mut writer = client.try_clone().unwrap();
        let _ = writer.write_all(&vec![b'x'; length - 5]);
        await_reset(&client);
    }
}
