// SPDX-License-Identifier: GPL-2.0-or-later
//! Keys that change while the depot runs, and depots that want tickets of everybody.

use super::{Keys, SERVED, opens, refused, route, signer, ticket};
use crate::common::{process::Daemon, scripted::Scripted};
use protocol::ticket::Ticket;

#[test]
fn keys_are_rotated_without_a_restart() {
    let (keys, origin) = (Keys::new(), Scripted::answering(SERVED));
    let depot = keys.open();
    let (old, new) = (&keys.signer, signer(2));
    let ticket = ticket(origin.address, "/f", &[&depot]);
    let (by_old, by_new) = (route(old, &ticket, "f"), route(&new, &ticket, "f"));
    opens(&depot, &by_old);
    refused(&depot, &by_new, 403, "does not trust");

    // Both for a while, until the last ticket of the old key has expired.
    keys.write(&new.public_set_with(&old.public_set()).unwrap());
    depot.await_log(&["keys read again", old.kid(), new.kid()]);
    opens(&depot, &by_old);
    opens(&depot, &by_new);

    keys.write(&new.public_set());
    depot.await_log(&["keys read again", &format!("now=\"{}\"", new.kid())]);
    refused(&depot, &by_old, 403, "does not trust");
    opens(&depot, &by_new);
}

#[test]
fn key_file_with_same_mtime_is_reread() {
    let keys = Keys::new();
    let depot = keys.open();
    let (file, new) = (keys.file(), keys.dir.path().join("same-time"));
    std::fs::write(&new, signer(2).public_set()).unwrap();
    // As a copy that preserves times, or a second change within a tick of the file system's clock.
    let time = file.metadata().unwrap().modified().unwrap();
    std::fs::File::options().write(true).open(&new).unwrap().set_modified(time).unwrap();
    std::fs::rename(new, file).unwrap();
    depot.await_log(&["keys read again", signer(2).kid()]);
}

#[test]
fn broken_key_file_leaves_old_keys() {
    let (keys, origin) = (Keys::new(), Scripted::answering(SERVED));
    let depot = keys.open();
    let ticket = ticket(origin.address, "/f", &[&depot]);
    let good = keys.route(&ticket, "f");
    for (text, reason) in [
        ("{\"keys\": [", "no public key"),
        ("{\"keys\": [{\"kty\": \"RSA\"}]}", "no key for tickets"),
        ("", "no public key"),
        (keys.signer.to_pem().as_str(), "a private key stands among"),
    ] {
        keys.write(text);
        depot.await_log(&["WARN", "the keys stay as they were", reason]);
        opens(&depot, &good);
    }
    // The depot looks once a second, and says it once. A slow machine looks less often, and says it
    // once all the same.
    let last = ["the keys stay as they were", "a private key stands among"];
    std::thread::sleep(std::time::Duration::from_millis(2500));
    let log = depot.log_text();
    let said = log.lines().filter(|line| last.iter().all(|part| line.contains(part))).count();
    assert_eq!(said, 1, "{log}");
}

#[test]
fn removing_the_last_key_closes_the_depot() {
    let (keys, origin) = (Keys::new(), Scripted::answering(SERVED));
    let depot = keys.open();
    let good = keys.route(&ticket(origin.address, "/f", &[&depot]), "f");
    opens(&depot, &good);
    // A set of none is one.
    keys.write("{\"keys\": []}");
    depot.await_log(&["INFO", "keys read again", "now=\"none: no ticket opens the depot\""]);
    refused(&depot, &good, 403, "does not trust");
    keys.write(&keys.signer.public_set());
    depot.await_log(&["keys read again", keys.signer.kid()]);
    opens(&depot, &good);
    // So is a file that is gone.
    std::fs::remove_file(keys.file()).unwrap();
    depot.await_log(&["WARN", "there are no keys until their file is back", "No such file"]);
    refused(&depot, &good, 403, "does not trust");

    // A file that comes back counts again.
    keys.write(&signer(2).public_set());
    depot.await_log(&["keys read again", signer(2).kid()]);
    refused(&depot, &good, 403, "does not trust");
}

#[test]
fn required_ticket_cannot_be_replaced_by_lists() {
    let (keys, origin) = (Keys::new(), Scripted::answering(SERVED));
    let lists = "local = true\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]";
    let (open, strict) = (keys.depot("", lists), keys.depot("required = true", lists));
    let plain = origin.route("-", "/f");
    opens(&open, &plain);
    refused(&strict, &plain, 403, "wants a ticket");
    let lead = format!("/lh1/lead/127.0.0.1:1/{}/http:o/", strict.authority());
    refused(&strict, &lead, 403, "wants a ticket");
    opens(&strict, &keys.route(&ticket(origin.address, "/f", &[&strict]), "f"));
}

#[test]
fn without_keys_no_ticket_opens() {
    let (keys, origin) = (Keys::new(), Scripted::answering(SERVED));
    let lists = "local = true\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]";
    let depot = Daemon::depot(&format!("id = \"d1\"\n[allow]\n{lists}"));
    let by_ticket = keys.route(&ticket(origin.address, "/f", &[&depot]), "f");
    refused(&depot, &by_ticket, 403, "takes no tickets");
    opens(&depot, &origin.route("-", "/f"));
}

#[test]
fn unreadable_keys_stop_the_start() {
    let keys = Keys::new();
    let start = || {
        let settings = format!("listen = [\"127.0.0.1:0\"]\ntrust.keys = {:?}", keys.file());
        Daemon::launch("depot", &settings).err().expect("no depot")
    };
    keys.write("{}");
    assert!(start().contains("no key for tickets among the 1 in the set"), "{}", start());
    keys.write(&keys.signer.to_pem());
    assert!(start().contains("a private key stands among the public keys"), "{}", start());
    std::fs::remove_file(keys.file()).unwrap();
    assert!(start().contains("keys.json: No such file"), "{}", start());
}

#[test]
fn single_ticket_is_revoked() {
    let (keys, origin) = (Keys::new(), Scripted::answering(SERVED));
    let list = keys.dir.path().join("revoked");
    let write = |text: &str| {
        let new = keys.dir.path().join("new-list");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, &list).unwrap();
    };
    write("# nobody yet\n");
    let depot = keys.depot(&format!("revoked = {list:?}"), "local = true");
    let of = |id: &str| {
        let ticket = ticket(origin.address, "/f", &[&depot]);
        keys.route(&Ticket { id: id.to_owned(), ..ticket }, "f")
    };
    opens(&depot, &of("a"));
    write("# cancelled\na # by its owner\nsomebody-elses\n");
    depot.await_log(&["revoked tickets read again", "now=\"2\""]);
    refused(&depot, &of("a"), 403, "the ticket a has been revoked");
    opens(&depot, &of("aa"));
    // What cannot be read, or is gone, takes nothing back and gives nothing back.
    write("aa\na\u{fc}\n");
    depot.await_log(&[
        "WARN",
        "the revoked tickets stay as they were",
        "line 2 begins with no ticket's jti",
    ]);
    refused(&depot, &of("a"), 403, "has been revoked");
    std::fs::remove_file(&list).unwrap();
    depot.await_log(&["WARN", "the revoked tickets stay as they were", "No such file"]);
    refused(&depot, &of("a"), 403, "has been revoked");
}
