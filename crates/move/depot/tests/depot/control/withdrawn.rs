// SPDX-License-Identifier: GPL-2.0-or-later
//! Transfers whose ticket, key or client is taken back while they are under way, and sessions that are ended.

use super::{BODY, Controlled, Download, of_client, settings};
use crate::{
    common::{
        process::Daemon,
        scripted::{Gate, halting, read_head},
    },
    sessions::peers::{Acceptor, await_reset, echoes, open, opened},
    tickets::{Keys, ticket},
};
use longhaul_depot::control::{Answer, Shunned, Which};
use std::{fs, path::Path};

/// A depot that trusts these keys, has a list of revoked tickets, and takes commands.
fn depot(keys: &Keys, dir: &Path, more: &str) -> Daemon {
    fs::write(dir.join("revoked"), "").unwrap();
    Daemon::depot(&format!(
        "{}{more}\n[trust]\nkeys = {:?}\nrevoked = {:?}\n[allow]\nlocal = true\n",
        settings(dir),
        keys.file().display().to_string(),
        dir.join("revoked").display().to_string(),
    ))
}

/// A download by a ticket of this name.
fn by_ticket(keys: &Keys, depot: &Daemon, id: &str) -> Download {
    let gate = Gate::default();
    let origin = halting(&vec![7; BODY], &gate);
    let mut ticket = ticket(origin.address, "/set.tar", &[depot]);
    (ticket.id, ticket.issuer) = (id.to_owned(), Some("portal".to_owned()));
    let route = keys.route(&ticket, "set.tar");
    Download::by_route("127.0.0.9", depot, &route, gate, origin)
}

fn write(dir: &Path, text: &str) {
    fs::write(dir.join("new"), text).unwrap();
    fs::rename(dir.join("new"), dir.join("revoked")).unwrap();
}

#[test]
fn revoked_ticket_ends_its_transfers_and_no_others() {
    let (keys, dir) = (Keys::new(), tempfile::tempdir().unwrap());
    let depot = depot(&keys, dir.path(), "");
    let (one, two) = (by_ticket(&keys, &depot, "order-1"), by_ticket(&keys, &depot, "order-2"));
    write(dir.path(), "order-1 # cancelled\n");
    one.breaks_off();
    let line = depot.await_log(&["ended because its ticket"]);
    for part in ["ticket=\"order-1\"", "issuer=\"portal\"", "/set.tar\""] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    two.goes_on();
}

#[test]
fn removed_key_ends_transfers_of_its_tickets() {
    let (keys, dir) = (Keys::new(), tempfile::tempdir().unwrap());
    let depot = depot(&keys, dir.path(), "");
    let one = by_ticket(&keys, &depot, "order-1");
    keys.write("{\"keys\":[]}");
    one.breaks_off();
}

#[test]
fn revoked_transfers_finish_if_configured() {
    let (keys, dir) = (Keys::new(), tempfile::tempdir().unwrap());
    let depot = depot(&keys, dir.path(), "withdraw = false");
    let one = by_ticket(&keys, &depot, "order-1");
    write(dir.path(), "order-1\n");
    depot.await_log(&["revoked tickets", "read again"]);
    // Looked at each second.
    std::thread::sleep(std::time::Duration::from_millis(2500));
    one.goes_on();
}

#[test]
fn removed_client_loses_its_transfers() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("depot.toml");
    let text = |clients: &str| {
        let listen = "listen = [\"127.0.0.1:0\"]\n";
        let allow = "upstreams = [\"127.0.0.0/8:*\"]\nlocal = true\n";
        format!("{listen}{}[allow]\nclients = [{clients}]\n{allow}", settings(dir.path()))
    };
    let depot = Daemon::of_file(&file, &text("\"127.0.0.8/32\", \"127.0.0.9/32\""));
    let (his, other) =
        (Download::begin("127.0.0.9", &depot, "/f"), Download::begin("127.0.0.8", &depot, "/f"));
    depot.read_again(&file, &text("\"127.0.0.8/32\""));
    his.breaks_off();
    depot.await_log(&["ended because its client"]);
    other.goes_on();
}

#[test]
fn ticket_is_listed_and_denied_by_name() {
    let (keys, dir) = (Keys::new(), tempfile::tempdir().unwrap());
    let depot = depot(&keys, dir.path(), "");
    let (one, two) = (by_ticket(&keys, &depot, "order-1"), by_ticket(&keys, &depot, "order-2"));
    let status = depot.status();
    let named = status.transfers[0].ticket.as_ref().unwrap();
    assert_eq!((named.id.as_str(), named.issuer.as_deref()), ("order-1", Some("portal")));
    let url = status.transfers[0].url.as_deref().unwrap();
    assert!(url.starts_with("http://127.0.0.1:") && url.ends_with("/set.tar"), "{url}");
    // Each has a line soon after it has begun, and says what it is.
    let begun = depot.await_log(&[" begun ", "ticket=\"order-2\""]);
    assert!(begun.contains("/set.tar\"") && begun.contains("issuer=\"portal\""), "{begun}");

    let controlled = Controlled { depot, dir };
    let which = Which { ticket: Some("order-1".to_owned()), ..Which::default() };
    assert_eq!(controlled.numbers(which).len(), 1);
    let denied = controlled.deny(Shunned::Ticket("order-1".to_owned()), 60);
    assert_eq!(denied, Answer::Ended(1));
    one.breaks_off();
    let origin = halting(&[7; 10], &Gate::default());
    let mut again = ticket(origin.address, "/f", &[&controlled.depot]);
    again.id = "order-1".to_owned();
    let client = super::ask_for("127.0.0.1", &controlled.depot, &keys.route(&again, "f"));
    let head = read_head(&client).unwrap();
    assert!(head.starts_with("HTTP/1.1 403 "), "{head}");
    two.goes_on();
}

#[test]
fn ended_session_is_reset_at_both_sides() {
    let controlled = Controlled::new();
    let acceptor = Acceptor::echo();
    let (client, _) = opened(&controlled.depot, &open(&[acceptor.address]));
    echoes(&client);
    assert_eq!(controlled.end(of_client("127.0.0.1")), Answer::Ended(1));
    await_reset(&client);
    controlled.depot.await_log(&["ended by the operator", "method=\"SESSION\""]);
}
