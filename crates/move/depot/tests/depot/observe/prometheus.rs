// SPDX-License-Identifier: GPL-2.0-or-later
//! What Prometheus makes of depots: it takes their metrics, and every query of the shipped dashboard
//! (`deploy/grafana`) and alerts (`deploy/prometheus`) finds data in them.

use super::{ADMIN, Valve, ask, dripping, seen_at};
use crate::common::{
    client::{body, connect, curl, exchange, get, read_answer, run, status},
    noise,
    pki::Pki,
    process::{Daemon, PACED},
    refusing_address,
    scripted::Scripted,
    sha256,
    web::{Program, Server},
};
use protocol::{
    Authority,
    http::Method,
    ticket::{Signer, Ticket, TicketRoute, UnixTime},
};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::SystemTime,
};
use tempfile::TempDir;
use testkit::until;

/// A file of `deploy/`.
fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../deploy").join(name)
}

#[test]
fn metrics_pass_promtool_in_both_formats() {
    let depot = Daemon::depot(ADMIN);
    let admin = depot.admin();
    assert_eq!(status(&get(depot.address, "/no-route").0), 400);
    let ask = |accept: &str| {
        let request =
            format!("GET /metrics HTTP/1.1\r\nHost: {admin}\r\n{accept}Connection: close\r\n\r\n");
        let (head, body, _) = exchange(admin, request.as_bytes());
        assert_eq!(status(&head), 200, "{head}");
        (head.to_lowercase(), String::from_utf8(body).unwrap())
    };
    let newer = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5";
    for (accept, open) in [
        (String::new(), true),
        (format!("Accept: {newer}\r\n"), true),
        ("Accept: text/plain\r\n".to_owned(), false),
        ("Accept: */*\r\n".to_owned(), false),
    ] {
        let (head, text) = ask(&accept);
        assert_eq!(head.contains("content-type: application/openmetrics-text"), open, "{head}");
        assert_eq!(head.contains("content-type: text/plain; version=0.0.4"), !open, "{head}");
        assert_eq!(text.ends_with("# EOF\n"), open, "{text}");
        assert!(text.contains("longhaul_depot_requests_total{outcome=\"refused\"} 1\n"), "{text}");
    }
    // By curl, as an operator would.
    let line = format!("curl -q -sS --noproxy '*' http://{admin}/metrics | promtool check metrics");
    let checked = run("sh", "prometheus", &["-c", &line]);
    let said = String::from_utf8_lossy(&checked.stderr).into_owned()
        + &String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success() && said.is_empty(), "{said}");
}

#[test]
fn alerts_pass_promtool_check_and_test() {
    for (what, file) in [("check", "longhaul.rules.yml"), ("test", "longhaul.test.yml")] {
        let file = deploy("prometheus").join(file).display().to_string();
        let done = run("promtool", "prometheus", &[what, "rules", &file]);
        let said = String::from_utf8_lossy(&done.stdout).into_owned()
            + &String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && said.contains("SUCCESS"), "{said}");
    }
}

const PROMETHEUS: Program = Program {
    name: "prometheus",
    package: "prometheus",
    args: |dir| {
        // Its address is an argument, and no setting of its file.
        let address = fs::read_to_string(dir.join("address")).unwrap();
        vec![
            format!("--config.file={}", dir.join("prometheus.yml").display()),
            format!("--storage.tsdb.path={}", dir.join("data").display()),
            format!("--web.listen-address={address}"),
        ]
    },
};

/// A Prometheus that watches these depots, with the shipped alerts.
fn prometheus(depots: &[&Daemon]) -> Server {
    let targets: Vec<_> = depots.iter().map(|depot| format!("\"{}\"", depot.admin())).collect();
    let settings = format!(
        "global: {{scrape_interval: 250ms, scrape_timeout: 250ms, evaluation_interval: 250ms}}\n\
         rule_files: [\"{}\"]\n\
         scrape_configs:\n  - job_name: longhaul\n    static_configs: [{{targets: [{}]}}]\n",
        deploy("prometheus/longhaul.rules.yml").display(),
        targets.join(", ")
    );
    Server::start(&PROMETHEUS, |dir, address| {
        fs::write(dir.join("prometheus.yml"), &settings).unwrap();
        fs::write(dir.join("address"), address.to_string()).unwrap();
    })
}

/// What Prometheus' interface for programs answers; it must not be an error.
fn asked(prometheus: &Server, path: &str, query: &[(&str, &str)]) -> Value {
    let url = prometheus.url(path);
    let query: Vec<_> = query.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let mut arguments = vec!["-G", url.as_str()];
    arguments.extend(query.iter().flat_map(|pair| ["--data-urlencode", pair.as_str()]));
    let answer = curl(&arguments).stdout;
    let answer: Value = serde_json::from_slice(&answer)
        .unwrap_or_else(|e| panic!("{query:?}: {e}: {}", String::from_utf8_lossy(&answer)));
    assert_eq!(answer["status"], "success", "{query:?}: {answer}");
    answer["data"].clone()
}

/// Whether an expression has a value now that is a number.
fn has_data(prometheus: &Server, expression: &str) -> bool {
    let data = asked(prometheus, "/api/v1/query", &[("query", expression)]);
    let values = data["result"].as_array().unwrap().iter();
    values.map(|sample| sample["value"][1].as_str().unwrap()).any(|value| value != "NaN")
}

/// The names of metrics in an expression.
fn metrics(expression: &str) -> BTreeSet<&str> {
    let not_in_a_name = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    let words = expression.split(not_in_a_name);
    words.filter(|word| word.starts_with("longhaul_depot_")).collect()
}

/// The panels of the dashboard, without the rows between them.
fn panels(dashboard: &Value) -> impl Iterator<Item = &Value> {
    dashboard["panels"].as_array().unwrap().iter().filter(|panel| panel["type"] != "row")
}

/// The dashboard's queries, as Grafana sends them when all depots are chosen.
fn queries(dashboard: &Value) -> Vec<String> {
    let targets = panels(dashboard).flat_map(|panel| panel["targets"].as_array().unwrap());
    let written = targets.map(|target| target["expr"].as_str().unwrap());
    written
        .map(|query| query.replace("$__rate_interval", "1m").replace("$instance", ".*"))
        .collect()
}

fn dashboard() -> Value {
    serde_json::from_str(&fs::read_to_string(deploy("grafana/longhaul.json")).unwrap()).unwrap()
}

/// Two depots in a row with all that a depot can count, and what goes through them.
struct Pair {
    near: Daemon,
    far: Daemon,
    origin: Daemon,
    file: Vec<u8>,
    /// A plain TCP server behind a port of the near depot.
    server: Scripted,
    signer: Signer,
    /// What the daemons read and serve.
    _files: (Pki, TempDir),
}

impl Pair {
    fn start() -> Self {
        let pki = Pki::new();
        let server = Scripted::answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        let signer = Signer::from_seed([1; 32]).unwrap();
        fs::write(pki.file("keys.json"), signer.public_set()).unwrap();
        let [keys, certificate, key] =
            ["keys.json", "own.pem", "own.key"].map(|name| pki.file(name).display().to_string());
        let settings = format!(
            "id = \"far\"\nadmin.listen = \"127.0.0.1:0\"\ntrust.keys = {keys:?}\n\
             [tls]\nlisten = [\"127.0.0.1:0\"]\ncertificate = {certificate:?}\nkey = {key:?}\n\
             [[hop]]\npeer = \"192.0.2.0/24\"\npacing = \"gap\"\n"
        );
        // A file that is there: for the depot, all is paced.
        let far = Daemon::depot_by(&format!("{PACED}=/ exec \"$0\" \"$@\""), &settings);
        let near = Daemon::depot(&format!(
            "id = \"near\"\nadmin.listen = \"127.0.0.1:0\"\n\
             [[tcp]]\nlisten = \"127.0.0.1:0\"\nupstream = \"{}\"\nvia = [\"{}\"]\n\
             [[detour]]\naround = \"{}\"\nstraight = true\n",
            server.address,
            far.authority(),
            far.authority()
        ));
        let dir = tempfile::tempdir().unwrap();
        let file = noise(7, 300_000);
        fs::write(dir.path().join("file"), &file).unwrap();
        let origin = Daemon::origin(dir.path(), "fetch", &[&near, &far]);
        Self { near, far, origin, file, server, signer, _files: (pki, dir) }
    }

    /// The near depot's port for plain clients, and the far one's for TLS.
    fn ports(&self) -> [SocketAddr; 2] {
        let listed = |depot: &Daemon, key: &str, at: usize| {
            let ready = depot.await_log(&[" ready "]);
            let listed = ready.split(key).nth(1).and_then(|rest| rest.split('"').next());
            let address = listed.and_then(|listed| listed.split(',').nth(at));
            address.and_then(|it| it.parse().ok()).unwrap_or_else(|| panic!("{key}: {ready}"))
        };
        [listed(&self.near, " ports=\"", 0), listed(&self.far, " listen=\"", 1)]
    }

    fn ticket(&self) -> String {
        let now = UnixTime::from(SystemTime::now()).seconds();
        let ticket = Ticket {
            id: "t1".to_owned(),
            issuer: Some("portal".to_owned()),
            issued: None,
            not_before: None,
            expires: (now + 3600).try_into().unwrap(),
            opens: format!("http://{}/", self.server.address).parse().unwrap(),
            via: vec![Authority::from(self.far.address).into()],
            methods: vec![Method::Get],
            bytes: None,
            rate: None,
            total_rate: None,
            clients: Vec::new(),
            uses: None,
        };
        TicketRoute::new(&self.signer.sign(&ticket).unwrap(), "").unwrap().to_string()
    }

    /// One of each: a download by both depots, a session, a ticket that is good and one that is not, a
    /// next hop that is not there, a client without TLS where the depot wants it.
    fn carry(&self) {
        assert_eq!(sha256(&body(&self.origin.url("/file"))), sha256(&self.file));
        let [plain, tls] = self.ports();
        let mut client = connect(plain);
        client.write_all(b"GET / HTTP/1.1\r\nHost: s\r\n\r\n").unwrap();
        assert_eq!(read_answer(client).1, b"ok");
        let ticket = self.ticket();
        assert_eq!(status(&get(self.far.address, &ticket).0), 200);
        let forged = ticket.replacen("/lh2/", "/lh2/x", 1);
        assert!([400, 403].contains(&status(&get(self.far.address, &forged).0)));
        let closed = refusing_address();
        for depot in [&self.near, &self.far] {
            let route = format!("/lh1/fetch/-/http:{closed}/");
            assert_eq!(status(&get(depot.address, &route).0), 502);
        }
        let _ = exchange(tls, b"GET / HTTP/1.1\r\nHost: d\r\n\r\n");
    }
}

#[test]
fn dashboard_and_alert_queries_find_data_in_prometheus() {
    let pair = Pair::start();
    // A transfer under way through both: what sockets say is there only as long as it is.
    let valve = Valve::default();
    let slow = dripping(&valve);
    let client = ask(&pair.near, &slow.route(&pair.far.authority(), "/"));
    valve.open_to(100_000);
    seen_at(&pair.near, 100_000);
    pair.carry();
    let prometheus = prometheus(&[&pair.near, &pair.far]);

    let mut left = queries(&dashboard());
    assert!(left.len() > 30, "{left:#?}");
    // Between two looks of Prometheus something has to be counted, or there is no median of it.
    until("every panel has data", || {
        pair.carry();
        left.retain(|query| !has_data(&prometheus, query));
        if !left.is_empty() {
            eprintln!("without data yet: {left:#?}");
        }
        left.is_empty()
    });

    let mut rules = Vec::new();
    until("every alert has been evaluated", || {
        let data = asked(&prometheus, "/api/v1/rules", &[]);
        rules = data["groups"][0]["rules"].as_array().cloned().unwrap_or_default();
        !rules.is_empty() && rules.iter().all(|rule| rule["health"] != "unknown")
    });
    let shipped = fs::read_to_string(deploy("prometheus/longhaul.rules.yml")).unwrap();
    assert_eq!(rules.len(), shipped.matches("- alert:").count());
    for rule in &rules {
        assert_eq!(rule["health"], "ok", "{rule}");
        let query = rule["query"].as_str().unwrap();
        // It may find nothing wrong, but it looks at what is there.
        asked(&prometheus, "/api/v1/query", &[("query", query)]);
        for name in metrics(query) {
            assert!(has_data(&prometheus, &format!("count({name})")), "{name}, of {query}");
        }
    }
    drop(client);
}

#[test]
fn dashboard_is_what_grafana_can_import() {
    let dashboard = dashboard();
    let all = dashboard["panels"].as_array().unwrap();
    let numbers: BTreeSet<_> = all.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(numbers.len(), all.len(), "two panels have the same id");
    let mut cells = BTreeSet::new();
    for panel in all {
        let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(at("x") + at("w") <= 24, "{panel}");
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(cells.insert((x, y)), "{} lies on another panel", panel["title"]);
            }
        }
    }
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let named: BTreeSet<_> = variables.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(named, BTreeSet::from(["datasource", "instance"]));
    for panel in panels(&dashboard) {
        assert!(panel["description"].as_str().is_some_and(|text| !text.is_empty()), "{panel}");
        let targets = panel["targets"].as_array().unwrap();
        let references: BTreeSet<_> =
            targets.iter().map(|it| it["refId"].as_str().unwrap()).collect();
        assert_eq!(references.len(), targets.len(), "{panel}");
        for target in targets {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{target}");
            let query = target["expr"].as_str().unwrap();
            assert!(query.contains("job=\"longhaul\", instance=~\"$instance\""), "{query}");
        }
    }
}

/// Panels need not show everything, but nothing that an alert is about is missing from them.
#[test]
fn dashboard_shows_what_alerts_are_about() {
    let shown = queries(&dashboard()).join("\n");
    let shown = metrics(&shown);
    let rules = fs::read_to_string(deploy("prometheus/longhaul.rules.yml")).unwrap();
    let missing: Vec<_> =
        metrics(&rules).into_iter().filter(|name| !shown.contains(name)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}
