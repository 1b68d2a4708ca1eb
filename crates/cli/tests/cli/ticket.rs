// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul ticket`: what an operator does with keys and tickets, also wrongly.

use crate::common::{done, json, longhaul, refused, text};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc,
};
use tempfile::TempDir;

/// A folder with a key and its public part.
struct Folder(TempDir);

impl Folder {
    fn empty() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn with_key() -> Self {
        let folder = Self::empty();
        done(&["ticket", "keygen", &folder.path("key.pem"), "--public", &folder.path("keys.json")]);
        folder
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("a plain path").to_owned()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// The URL that `make` prints.
    fn make(&self, arguments: &[&str]) -> String {
        let key = self.path("key.pem");
        let made = done(&[&["ticket", "make", "--key", &key], arguments].concat());
        made.strip_suffix('\n').expect("one line").to_owned()
    }

    fn verify(&self, ticket: &str, arguments: &[&str]) -> Value {
        let keys = self.path("keys.json");
        let words = ["ticket", "verify", ticket, "--keys", &keys, "--json"];
        json(&[&words[..], arguments].concat())
    }

    /// What `verify` says of a ticket that is not good.
    fn not_good(&self, ticket: &str, arguments: &[&str]) -> String {
        let keys = self.path("keys.json");
        let words = ["ticket", "verify", ticket, "--keys", &keys];
        let (code, said) = refused(&[&words[..], arguments].concat());
        assert_eq!(code, 4, "{said}");
        said
    }
}

const FILE: [&str; 3] = ["--via", "d1.example.com:3880", "http://o.example.org/data/f"];

fn token(url: &str) -> String {
    url.split('/').nth(5).expect("http://depot/lh2/hop/token/tail").to_owned()
}

#[test]
fn a_private_key_is_its_owners_and_never_overwritten() {
    let folder = Folder::empty();
    let key = folder.path("key.pem");
    let set: Value = serde_json::from_str(&done(&["ticket", "keygen", &key])).unwrap();
    assert_eq!(set["keys"].as_array().map(Vec::len), Some(1), "{set}");
    let jwk = set["keys"][0].as_object().unwrap();
    let names: Vec<&str> = jwk.keys().map(String::as_str).collect();
    assert_eq!(names, ["kty", "crv", "alg", "use", "kid", "x"], "nothing private");
    let mode = fs::metadata(&key).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let before = folder.read("key.pem");
    assert!(before.starts_with("-----BEGIN PRIVATE KEY-----\n"));
    let (code, said) = refused(&["ticket", "keygen", &key]);
    assert!(code == 2 && said.contains("a key is never overwritten"), "{said}");
    assert_eq!(folder.read("key.pem"), before);

    // Public keys are not overwritten either, and the new private key is removed then.
    fs::write(folder.path("keys.json"), "{}").unwrap();
    let (other, keys) = (folder.path("other.pem"), folder.path("keys.json"));
    let (code, said) = refused(&["ticket", "keygen", &other, "--public", &keys]);
    assert!(code == 2 && said.contains("a key is never overwritten"), "{said}");
    assert_eq!(folder.read("keys.json"), "{}");
    assert!(!PathBuf::from(&other).exists());
    let (code, said) = refused(&["ticket", "keygen", "/nowhere/key.pem"]);
    assert!(code == 1 && said.contains("/nowhere/key.pem"), "{said}");
}

#[test]
fn a_second_key_joins_the_first() {
    let folder = Folder::with_key();
    let (second, keys) = (folder.path("second.pem"), folder.path("keys.json"));
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(done(&["ticket", "keygen", &second, "--add-to", &keys]), "");
    let mode = fs::metadata(&keys).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640, "its readers may still read it");
    let by_first = folder.make(&FILE);
    let words = ["ticket", "make", "--key", &second];
    let by_second = done(&[&words[..], &FILE].concat());
    let [first, second] = [&by_first, &by_second].map(|url| folder.verify(url, &[])["key"].clone());
    assert_ne!(first, second);
    assert_eq!(fs::read_dir(folder.0.path()).unwrap().count(), 3, "nothing else is left");

    let third = folder.path("third.pem");
    let before = folder.read("keys.json");
    for (name, content, expected) in [
        ("missing.json", None, "cannot read"),
        ("bad.json", Some("{"), "no public key"),
        ("secret.json", Some(r#"{"keys":[{"kty":"OKP","d":"AAAA"}]}"#), "a private key stands"),
    ] {
        if let Some(content) = content {
            fs::write(folder.path(name), content).unwrap();
        }
        let (code, said) = refused(&["ticket", "keygen", &third, "--add-to", &folder.path(name)]);
        assert!(code == 2 && said.contains(expected) && said.contains(name), "{said}");
        assert!(!PathBuf::from(&third).exists(), "{name}");
    }
    assert_eq!(folder.read("keys.json"), before);
}

#[test]
fn whole_server_needs_the_option_whole_origin() {
    let folder = Folder::with_key();
    let key = folder.path("key.pem");
    for url in ["http://server", "http://server/", "https://server:8443", "http://server//"] {
        let words = ["ticket", "make", "--key", &key, "--via", "d1", url];
        let (code, said) = refused(&words);
        assert!(code == 2 && said.contains("opens the whole server"), "{code}: {said}");
        let url = done(&[&words[..], &["--whole-origin", "--tail", "a/b"]].concat());
        assert!(url.trim().ends_with("/a/b"), "{url}");
    }
}

#[test]
fn ticket_contains_every_option() {
    let folder = Folder::with_key();
    let url = folder.make(&[
        "http://o.example.org/data/",
        "--via",
        "d1.example.com,d2.example.org:99",
        "--expires",
        "2100-01-01T00:00:00Z",
        "--not-before",
        "2020-01-01T00:00:00Z",
        "--method",
        "GET,PUT",
        "--bytes",
        "1MB",
        "--rate",
        "10mbit",
        "--client",
        "192.0.2.77/24",
        "--client",
        "2001:db8::1",
        "--uses",
        "3",
        "--issuer",
        "portal",
        "--tail",
        "a/b?v=2",
    ]);
    assert!(url.starts_with("http://d1.example.com:3880/lh2/0/"), "{url}");
    assert!(url.ends_with("/a/b?v=2"), "{url}");
    let shown = folder.verify(&url, &[]);
    for (key, value) in [
        ("verified", Value::from(true)),
        ("issuer", "portal".into()),
        ("not_before_unix_s", 1_577_836_800.into()),
        ("expires_unix_s", 4_102_444_800_u64.into()),
        ("url", "http://o.example.org/data/".into()),
        ("prefix", true.into()),
        ("via", vec!["d1.example.com:3880", "d2.example.org:99"].into()),
        ("methods", vec!["GET", "PUT"].into()),
        ("bytes", (1 << 20).into()),
        ("rate_bps", 10_000_000.into()),
        ("clients", vec!["192.0.2.0/24", "2001:db8::1/128"].into()),
        ("uses", 3.into()),
    ] {
        assert_eq!(shown[key], value, "{key}: {shown}");
    }
    // The same in words.
    let page = done(&["ticket", "show", &url]);
    for part in [
        "not checked",
        "it claims with key",
        "by portal",
        "from 2020-01-01T00:00:00Z until 2100-01-01T00:00:00Z (valid",
        "http://o.example.org/data/ and all below",
        "d1.example.com:3880, d2.example.org:99 (the one nearest the client first)",
        "GET, PUT",
        "192.0.2.0/24, 2001:db8::1/128",
        "at most 1MB a transfer",
        "at most 10mbit a transfer",
        "3 requests at each depot",
    ] {
        assert!(page.contains(part), "{part} is missing:\n{page}");
    }
}

#[test]
fn default_ticket_is_short_lived_and_narrow() {
    let folder = Folder::with_key();
    let url = folder.make(&FILE);
    assert!(url.ends_with("/f"), "named as the file: {url}");
    let shown = folder.verify(&url, &[]);
    let issued = shown["issued_unix_s"].as_u64().unwrap();
    assert_eq!(shown["expires_unix_s"].as_u64(), Some(issued + 3600));
    assert_eq!(shown["methods"], Value::from(vec!["GET", "HEAD"]));
    assert_eq!(shown["prefix"], false);
    for absent in ["issuer", "not_before_unix_s", "bytes", "rate_bps", "uses"] {
        assert_eq!(shown[absent], Value::Null, "{absent}");
    }
    // No two are alike: their uses are counted by name.
    assert_ne!(folder.verify(&folder.make(&FILE), &[])["id"], shown["id"]);
    // The query is not a part of the name.
    assert!(folder.make(&["--via", "d1", "http://o/dir/set.tar?v=2"]).ends_with("/set.tar"));
}

#[test]
fn ticket_is_read_as_url_route_token_or_standard_input() {
    let folder = Folder::with_key();
    let url = folder.make(&FILE);
    let (token, route) = (token(&url), url.strip_prefix("http://d1.example.com:3880").unwrap());
    let whole = folder.verify(&url, &[]);
    for form in [route, &token] {
        assert_eq!(folder.verify(form, &[]), whole, "{form}");
        assert_eq!(json(&["ticket", "show", form, "--json"])["id"], whole["id"], "{form}");
    }
    let mut show = longhaul();
    show.args(["ticket", "show", "-", "--json"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = show.spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{url}").unwrap();
    let shown: Value = serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!((&shown["id"], &shown["verified"]), (&whole["id"], &Value::from(false)));
}

#[test]
fn invalid_ticket_exits_with_4() {
    let folder = Folder::with_key();
    let url = folder.make(&[&FILE[..], &["--not-before", "10min", "--expires", "20min"]].concat());
    assert!(folder.not_good(&url, &[]).contains("is valid from"));
    assert_eq!(folder.verify(&url, &["--at", "15min"])["verified"], true);
    assert!(folder.not_good(&url, &["--at", "1h"]).contains("has expired at"));
    // Within the leeway it is good, and the text says by what.
    let keys = folder.path("keys.json");
    let at = |minutes: &str| done(&["ticket", "verify", &url, "--keys", &keys, "--at", minutes]);
    assert!(at("15min").contains("(valid at ") && at("15min").contains("leeway of 30 s"));
    assert!(at("1210s").contains("(valid only by the leeway at "), "{}", at("1210s"));
    assert!(at("590s").contains("(valid only by the leeway at "), "{}", at("590s"));
    assert_eq!(folder.verify(&url, &["--at", "15min"])["leeway_s"], 30);
    assert!(folder.not_good(&url, &["--at", "1h"]).contains("the leeway is 30 s"));
    assert!(folder.not_good(&url, &["--at", "2020-01-01T00:00:00Z"]).contains("is valid from"));

    let url = folder.make(&FILE);
    let token = token(&url);
    let (claims, signature) = token.rsplit_once('.').unwrap();
    let first = if signature.starts_with('A') { "B" } else { "A" };
    let altered = format!("{claims}.{first}{}", &signature[1..]);
    assert!(folder.not_good(&altered, &[]).contains("altered, or forged"));
    let stranger = Folder::with_key();
    assert!(folder.not_good(&stranger.make(&FILE), &[]).contains("does not trust"));
    assert!(folder.not_good("a.b.c", &[]).contains("malformed"));
    // The signature is good, but not for that path, nor for that many depots.
    assert!(folder.not_good(&format!("{url}/g"), &[]).contains("for one URL"));
    assert!(folder.not_good(&url.replace("/lh2/0/", "/lh2/1/"), &[]).contains("no hop 1"));
}

#[test]
fn wrong_use_is_refused_with_what_was_expected() {
    let folder = Folder::with_key();
    let key = folder.path("key.pem");
    fs::write(folder.path("bad.pem"), "-----BEGIN PRIVATE KEY-----\nAAAA\n").unwrap();
    let (bad, keys) = (folder.path("bad.pem"), folder.path("keys.json"));
    let make = |more: &[&'static str]| {
        let words = ["ticket".to_owned(), "make".to_owned(), "--key".to_owned(), key.clone()];
        words.into_iter().chain(FILE.iter().chain(more).map(ToString::to_string)).collect()
    };
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    for (arguments, expected) in [
        (make(&["--expires", "2020-01-01T00:00:00Z"]), "has passed"),
        (make(&["--expires", "0s"]), "has passed"),
        (make(&["--expires", "soon"]), "as in 10min or 12h"),
        (make(&["--expires", "60"]), "with its unit"),
        (make(&["--not-before", "2h"]), "is not before"),
        (make(&["--method", "BREW"]), "\"BREW\" is not relayed"),
        (make(&["--method", "get"]), "\"get\" is not relayed"),
        (make(&["--client", "here"]), "a network or an address"),
        (make(&["--uses", "0"]), "--uses"),
        (make(&["--bytes", "0"]), "must be more than 0"),
        (make(&["--bytes", "1 furlong"]), "a size in bytes"),
        (make(&["--rate", "7"]), "a rate with its unit"),
        (make(&["--via", "d2.example.com"]), "cannot be used multiple times"),
        (
            words(&["ticket", "make", "--key", &key, "--via", "d1,d1:3880", "http://o/f"]),
            "passes d1:3880 twice",
        ),
        (make(&["--tail", "../x"]), "\"..\""),
        (make(&["--tail", "dir/x"]), "for one URL"),
        (words(&["ticket", "make", "--key", &key, "http://o/f"]), "--via"),
        (words(&["ticket", "make", "--key", &key, "--via", "d1", "o/f"]), "http: or https:"),
        (words(&["ticket", "make", "--key", "/nowhere", "--via", "d1", "http://o/"]), "/nowhere"),
        (words(&["ticket", "make", "--key", &bad, "--via", "d1", "http://o/"]), "bad.pem"),
        (words(&["ticket", "make", "--key", &keys, "--via", "d1", "http://o/"]), "keys.json"),
        (words(&["ticket", "verify", "a.b.c", "--keys", "/nowhere"]), "/nowhere"),
        (words(&["ticket", "verify", "a.b.c", "--keys", &key]), "a private key stands"),
        (words(&["ticket", "verify", "a.b.c"]), "--keys"),
        (words(&["ticket", "show", "http://d1/lh1/fetch/-/http:o/"]), "not a ticket's route"),
    ] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (code, said) = refused(&arguments);
        assert_eq!(code, 2, "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {expected} is missing: {said}");
    }
    let (code, said) = refused(&["ticket", "show", "a.b.c"]);
    assert!(code == 1 && said.contains("malformed"), "{said}");
}

/// A server of the command line; ended when dropped.
pub struct Server {
    child: Child,
    pub address: String,
}

impl Server {
    /// Starts it on a port that the system chooses, and awaits that it is ready.
    pub fn start(arguments: &[&str]) -> Self {
        let mut command = longhaul();
        command.args(arguments).args(["--listen", "127.0.0.1:0"]).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let (ready, address) = mpsc::channel();
        // Read to its end, so that the server never waits for a reader.
        std::thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                let listen = line.split("listen=").nth(1).filter(|_| line.contains("ready"));
                let found = listen.and_then(|l| l.split(['"', ' ']).find(|w| !w.is_empty()));
                if let Some(found) = found {
                    let _ = ready.send(found.to_owned());
                }
            }
        });
        let address = address.recv().expect("a server that starts");
        Self { child, address }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn curl_fetches_what_a_ticket_opens_and_no_more() {
    let folder = Folder::with_key();
    fs::create_dir(folder.path("site")).unwrap();
    fs::write(folder.path("site/f"), "of the origin").unwrap();
    let settings = format!("[trust]\nkeys = {:?}\n", folder.path("keys.json"));
    fs::write(folder.path("depot.toml"), settings).unwrap();
    let origin = Server::start(&["origin", &folder.path("site")]);
    let config = folder.path("depot.toml");
    let depot = Server::start(&["depot", "--config", &config, "--id", "d1", "--allow-local"]);
    let url = folder.make(&[
        &format!("http://{}/f", origin.address),
        "--via",
        &depot.address,
        "--uses",
        "1",
    ]);
    let curl = || {
        let common = ["-q", "-sS", "--noproxy", "*", "--max-time", "20", "-w", " %{http_code}"];
        let output = Command::new("curl").args(common).arg(&url).output().expect("curl");
        text(&output.stdout)
    };
    assert_eq!(curl(), "of the origin 200");
    let again = curl();
    assert!(again.contains("has been used 1 times") && again.ends_with(" 403"), "{again}");
}

#[test]
fn ticket_for_sessions_is_made_shown_and_verified() {
    let folder = Folder::with_key();
    let via = ["--via", "d1.example.com,https:d2.example.org"];
    for target in ["end:a.example.net:9", "tcp:[2001:db8::1]:5432", "meet"] {
        let ticket = folder.make(&[&via[..], &["--session", target, "--rate", "1gbit"]].concat());
        assert_eq!(ticket.matches('.').count(), 2, "a token alone: {ticket}");
        let said = folder.verify(&ticket, &[]);
        assert_eq!((&said["session"], &said["url"]), (&target.into(), &Value::Null), "{said}");
        assert_eq!(said["methods"], Value::Array(Vec::new()));
        let said = done(&["ticket", "show", &ticket]);
        assert!(said.contains(&format!("opens      session {target}\n")), "{said}");
        assert!(!said.contains("methods"), "{said}");
    }
    for (wrong, expected) in [
        (&["--session", "udp:h:1"][..], "not a target of sessions"),
        (&["--session", "meet", "http://o.example.org/f"], "cannot be used with"),
        (&["--session", "meet", "--method", "GET"], "cannot be used with"),
        (&[], "required"),
    ] {
        let key = folder.path("key.pem");
        let (code, said) = refused(&[&["ticket", "make", "--key", &key][..], &via, wrong].concat());
        assert!(code == 2 && said.contains(expected), "{wrong:?}: {said}");
    }
}

#[test]
fn ticket_is_shown_as_a_depot_logs_it() {
    let folder = Folder::with_key();
    let made = ["--via", "d1.example.com", "http://o.example.org/set.tar", "--total-rate", "2gbit"];
    let url = folder.make(&made);
    let target = &url[url.find("/lh2/").unwrap()..];
    let logged = protocol::ticket::TicketRoute::redacted(target).into_owned();
    assert!(logged.contains("...") && logged.len() < target.len());
    let said = done(&["ticket", "show", &logged]);
    for line in ["opens      http://o.example.org/set.tar\n", "at most 2gbit for all transfers"] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert_ne!(refused(&["ticket", "verify", "--keys", &folder.path("key.pem"), &logged]).0, 0);
}
