// SPDX-License-Identifier: GPL-2.0-or-later
//! `--via auto`: real depots of a register, what is learnt from transfers, and `longhaul route`.

use crate::{
    common::{longhaul, refusing_address, text},
    depot::Depot,
};
use serde_json::{Value, json};
use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{SystemTime, UNIX_EPOCH},
};
use tempfile::TempDir;
use testkit::http_server::Server;

const LENGTH: usize = 700_000;

fn data() -> Vec<u8> {
    (0..LENGTH as u64).map(|at| ((at * at) >> 9) as u8).collect()
}

/// A depot, one that is not there, and a user who has both in a register.
struct Overlay {
    home: TempDir,
    depot: Depot,
    server: Server,
}

impl Overlay {
    fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let config = home.path().join("depot.toml");
        let open = "[allow]\nclients = [\"127.0.0.0/8\"]\nlocal = true\nupstreams = [\"127.0.0.1:*\"]\nservers = [\"127.0.0.1:*\"]\n";
        fs::write(&config, open).unwrap();
        let depot = Depot::named("near", &["--config", config.to_str().unwrap()]);
        let server =
            Server::start(|_, _, conn| conn.answer("200 OK", &[("ETag", "\"a\"")], &data()));
        let overlay = Self { home, depot, server };
        overlay.register(&[overlay.depot.listen.clone(), refusing_address().to_string()]);
        overlay
    }

    fn register(&self, depots: &[String]) {
        let text: String = depots
            .iter()
            .fold(String::new(), |text, depot| text + "[[depot]]\naddress = \"" + depot + "\"\n");
        fs::write(self.file(), text).unwrap();
    }

    fn file(&self) -> PathBuf {
        self.home.path().join("depots.toml")
    }

    fn via(&self) -> String {
        format!("auto:{}", self.file().display())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = longhaul();
        command
            .args(arguments)
            .env("XDG_STATE_HOME", self.home.path())
            .env("XDG_CONFIG_HOME", "/no/such/directory");
        command
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.output(arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The file of a new key for tickets.
    fn key(&self) -> String {
        let key = self.home.path().join("site.pem").to_str().unwrap().to_owned();
        let output = self.output(&["ticket", "keygen", &key]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        key
    }

    /// Transfers that are remembered of each route to this machine.
    fn transfers(&self) -> u64 {
        let status = self.json(&["route", "status", "--json"]);
        let routes = status["destinations"][0]["routes"].as_array().unwrap().clone();
        assert_eq!(status["destinations"][0]["to"], "127.0.0.1");
        routes.iter().map(|route| route["transfers"].as_u64().unwrap()).sum()
    }
}

fn is_same(file: &Path) -> bool {
    fs::read(file).unwrap() == data()
}

#[test]
fn downloads_take_routes_of_the_register_and_are_remembered() {
    let overlay = Overlay::start();
    let (via, url) = (overlay.via(), overlay.server.url("/f"));
    for n in 0..8 {
        let file = overlay.home.path().join(format!("f{n}"));
        let output = overlay.output(&["get", "--via", &via, "-o", file.to_str().unwrap(), &url]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(is_same(&file), "download {n}");
    }
    // One that is slow for a moment is left for another route, which counts there, too.
    let remembered = overlay.transfers();
    assert!((8..=24).contains(&remembered), "{remembered}");
    let table = overlay.output(&["route", "status"]);
    assert!(
        text(&table.stdout).contains("direct"),
        "the direct way is known: {}",
        text(&table.stdout)
    );
    // Explaining teaches nothing.
    let known = overlay.home.path().join("longhaul/routes.json");
    let before = fs::read(&known).unwrap();
    let explained =
        overlay.json(&["route", "explain", &url, "--via", &via, "--size", "700kB", "--json"]);
    assert_eq!(fs::read(&known).unwrap(), before);
    let routes = explained["routes"].as_array().unwrap();
    assert_eq!((routes.len(), explained["bytes"].as_u64()), (5, Some(716_800)));
    assert!(routes.iter().all(|route| route["forecast_s"].as_f64().unwrap() > 0.0), "{explained}");
    assert_eq!(routes[0]["via"], explained["chosen"]);
    let shown = overlay.output(&["route", "explain", &url, "--via", &via]);
    assert!(text(&shown.stdout).contains("for 64 MB: "), "{}", text(&shown.stdout));
}

#[test]
fn depots_that_are_all_gone_leave_the_direct_way() {
    let overlay = Overlay::start();
    overlay.register(&[refusing_address().to_string(), refusing_address().to_string()]);
    let file = overlay.home.path().join("f");
    let (via, url) = (overlay.via(), overlay.server.url("/f"));
    let output = overlay.output(&["get", "--via", &via, "-o", file.to_str().unwrap(), &url]);
    assert!(output.status.success() && is_same(&file), "{}", text(&output.stderr));
    let probed = overlay.output(&["route", "probe", "--via", &via]);
    assert_eq!(probed.status.code(), Some(1));
    assert!(text(&probed.stderr).contains("no depot of the register is reached"));
    assert!(text(&probed.stdout).contains("not reached within 1 s"));
}

#[test]
fn probes_tell_round_trips_and_loads() {
    let overlay = Overlay::start();
    let probed = overlay.json(&["route", "probe", "--via", &overlay.via(), "--json"]);
    let depots = probed["depots"].as_array().unwrap();
    assert_eq!(depots[0]["depot"], overlay.depot.listen.clone());
    assert!(depots[0]["rtt_us"].as_u64().unwrap() > 0 && depots[1]["rtt_us"].is_null(), "{probed}");
}

#[test]
fn files_are_sent_by_routes_of_the_register() {
    let overlay = Overlay::start();
    let (from, to) = (overlay.home.path().join("from"), overlay.home.path().join("to"));
    fs::write(&from, data()).unwrap();
    fs::create_dir(&to).unwrap();
    for n in 1..=3 {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let mut receiver = overlay
            .command(&["recv", "-q", "--open", "--listen", &address, "-d", to.to_str().unwrap()])
            .spawn()
            .unwrap();
        // A route by which no receiver is reached yet would be remembered as failed.
        testkit::until("the receiver listens", || TcpStream::connect(&address).is_ok());
        let sent = overlay.output(&[
            "send",
            "-q",
            from.to_str().unwrap(),
            &address,
            "--via",
            &overlay.via(),
        ]);
        assert!(sent.status.success(), "{}", text(&sent.stderr));
        assert!(receiver.wait().unwrap().success());
        assert!(is_same(&to.join("from")));
        fs::remove_file(to.join("from")).unwrap();
        assert_eq!(overlay.transfers(), n);
    }
}

/// What earlier transfers took: 64 MiB directly, and through the depot.
fn know(overlay: &Overlay, direct_s: f64, depot_s: f64) {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    let path = |seconds: f64| {
        let seen = json!({"at_s": now_s, "bytes": 64 << 20, "seconds": seconds, "end": "done", "error": 0.0});
        let hop = json!({"rtt_s": 0.01, "loss": 1e-5, "rate_bps": 1e9, "is_warm": false});
        json!({"hops": [hop], "seen": vec![seen; 10]})
    };
    let paths = json!({"": path(direct_s), overlay.depot.listen.as_str(): path(depot_s)});
    let routes = json!({"places": {"127.0.0.1": {"paths": paths}}});
    let directory = overlay.home.path().join("longhaul");
    fs::create_dir_all(&directory).unwrap();
    let document = json!({"version": 1, "routes": routes});
    fs::write(directory.join("routes.json"), document.to_string()).unwrap();
}

#[test]
fn programs_go_through_depots_only_where_these_are_faster() {
    let overlay = Overlay::start();
    let (via, url) = (overlay.via(), overlay.server.url("/f"));
    for (direct_s, depot_s, expected) in
        [(60.0, 1.0, "1 through depots"), (1.0, 60.0, "1 directly")]
    {
        know(&overlay, direct_s, depot_s);
        let file = overlay.home.path().join("f");
        let run =
            ["run", "--via", &via, "--match", "127.0.0.0/8", "--stats", "--", "curl", "-sSf", "-o"];
        let output = overlay.output(&[&run[..], &[file.to_str().unwrap(), &url]].concat());
        assert!(output.status.success() && is_same(&file), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
}

#[test]
fn best_known_route_is_taken() {
    let overlay = Overlay::start();
    let (via, url) = (overlay.via(), overlay.server.url("/f"));
    for (direct_s, depot_s, hops) in [(60.0, 1.0, 1), (1.0, 60.0, 0)] {
        know(&overlay, direct_s, depot_s);
        let file = overlay.home.path().join("f");
        let got = overlay.json(&[
            "get",
            "--via",
            &via,
            "--overwrite",
            "-o",
            file.to_str().unwrap(),
            &url,
            "--json",
        ]);
        assert_eq!(got["hops"], hops, "{got}");
        assert_eq!(json!(got["via"].as_array().unwrap().len()), json!(hops), "{got}");
        let status = overlay.json(&["route", "status", "--json"]);
        let all = status["destinations"][0]["routes"].as_array().unwrap();
        assert_eq!(all.iter().map(|route| route["transfers"].as_u64().unwrap()).sum::<u64>(), 21);
    }
}

#[test]
fn mistakes_are_named() {
    let overlay = Overlay::start();
    let (via, key) = (overlay.via(), overlay.key());
    for (arguments, part) in [
        (&["get", "--via", "auto", "http://h/f"][..], "auto needs a register of depots"),
        (&["get", "--via", &via, "--via", "d1", "http://h/f"], "auto stands alone"),
        (&["get", "--via", "auto:/no/such.toml", "http://h/f"], "/no/such.toml"),
        (&["ticket", "make", "--session", "meet", "--key", &key, "--via", &via], "name the depot"),
        (&["send", "f", "--via", &via], "auto is not for meetings"),
        (
            &["send", "f", "h:1", "--via", &via, "--connections", "2"],
            "--connections uses all routes at once",
        ),
        (&["route", "explain", "h", "--via", &via], "h: "),
        (&["route", "probe", "--via", "d1"], "expected auto or auto:FILE"),
    ] {
        let output = overlay.output(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
    let none = overlay.output(&["route", "status"]);
    assert_eq!(text(&none.stdout), "no transfer with --via auto yet\n");
}

/// The depot that is there, not the one that is not; and a table of rules, for which nothing has to be probed.
#[test]
fn tickets_and_intercept_rules_use_the_register() {
    let overlay = Overlay::start();
    let (via, key, url) = (overlay.via(), overlay.key(), overlay.server.url("/f"));
    let made = overlay.output(&["ticket", "make", &url, "--key", &key, "--via", &via]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let begin = format!("http://{}/lh2/0/", overlay.depot.listen);
    assert!(text(&made.stdout).starts_with(&begin), "{}", text(&made.stdout));
    let rules = overlay.output(&[
        "intercept",
        "rules",
        "--this-host",
        "--match",
        "192.0.2.0/24",
        "--via",
        &via,
    ]);
    assert!(rules.status.success(), "{}", text(&rules.stderr));
}

/// Depots exchange announcements, a client queries one of them, and uses its cache once none responds.
#[test]
fn client_discovers_depots_and_caches_them() {
    let home = tempfile::tempdir().unwrap();
    let file = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let addresses: Vec<String> = (0..2).map(|_| free_address()).collect();
    for (n, address) in addresses.iter().enumerate() {
        let to = if n == 0 { "--public" } else { "--add-to" };
        let key = file(&format!("{n}.pem"));
        let output = longhaul()
            .args(["depot", "keygen", address, &key, to, &file("depots.jwks")])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let depots: Vec<Depot> = (0..2)
        .map(|n| {
            let config = file(&format!("{n}.toml"));
            let settings = format!(
                "[allow]\nclients = [\"127.0.0.0/8\"]\nlocal = true\nupstreams = [\"127.0.0.1:*\"]\n\
                 [register]\naddress = \"{}\"\nkey = \"{}\"\ntrust = \"{}\"\nevery = \"1s\"\n",
                addresses[n],
                file(&format!("{n}.pem")),
                file("depots.jwks")
            );
            fs::write(&config, settings).unwrap();
            Depot::named(&format!("d{n}"), &["--config", &config, "--listen", &addresses[n]])
        })
        .collect();
    let register = file("register.toml");
    fs::write(&register, format!("ask = [\"{}\"]\ntrust = \"depots.jwks\"\n", addresses[0]))
        .unwrap();
    let via = format!("auto:{register}");
    let probe = |state: &str| {
        let mut command = longhaul();
        command
            .args(["route", "probe", "--json", "--via", &via])
            .env("XDG_STATE_HOME", file(state));
        let output = command.output().unwrap();
        let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (told["all"].clone(), told["register"]["from"].clone(), text(&output.stderr))
    };
    // Each in a state of its own, so that it asks.
    let mut n = 0;
    testkit::until("both are heard of", || {
        n += 1;
        probe(&format!("state{n}")).0 == json!(2)
    });
    let last = format!("state{n}");
    drop(depots);
    let state = fs::read_dir(home.path().join(&last).join("longhaul")).unwrap();
    for file in state.map(|file| file.unwrap().path()) {
        // As if it were of an hour ago.
        let mut told: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        told["at"] = json!(told["at"].as_u64().unwrap() - 3600);
        fs::write(&file, told.to_string()).unwrap();
    }
    let (all, from, said) = probe(&last);
    assert_eq!((all, from), (json!(2), json!("cache")), "{said}");
    assert!(said.contains("announcements of depots are from "), "{said}");
}

/// An address of this machine at which nothing listens now.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}
