// SPDX-License-Identifier: GPL-2.0-or-later
//! What operators see of a depot: metrics, status, health, the page and the access log.

mod prometheus;
mod striped;

use crate::common::{
    client::{connect, curl, exchange, get, read_answer, status},
    pki::Pki,
    process::{Daemon, PACED},
    refusing_address,
    scripted::Scripted,
};
use longhaul_depot::{
    fetch_status,
    status::{HopStatistics, Side, State, Status, Transfer},
};
use protocol::ticket::Signer;
use rustix::process::Signal;
use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::Command,
    sync::{Arc, Condvar, Mutex},
};
use testkit::until;

const ADMIN: &str = "id = \"d1\"\n[admin]\nlisten = \"127.0.0.1:0\"\n";
const SIZE: u64 = 200_000;

/// How many bytes of its body an origin may have sent so far.
#[derive(Clone, Default)]
struct Valve(Arc<(Mutex<u64>, Condvar)>);

impl Valve {
    fn open_to(&self, bytes: u64) {
        *self.0.0.lock().unwrap() = bytes;
        self.0.1.notify_all();
    }

    fn more_than(&self, sent: u64) -> u64 {
        let open = self.0.0.lock().unwrap();
        *self.0.1.wait_timeout_while(open, crate::common::PATIENCE, |open| *open <= sent).unwrap().0
    }
}

/// An origin that sends a body of [`SIZE`] bytes as far as its valve is open.
fn dripping(valve: &Valve) -> Scripted {
    let valve = valve.clone();
    Scripted::new(move |mut stream, _| {
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n").unwrap();
        let mut sent = 0;
        while sent < SIZE {
            let until = valve.more_than(sent).min(SIZE);
            if until <= sent || stream.write_all(&vec![7; (until - sent) as usize]).is_err() {
                return;
            }
            sent = until;
        }
    })
}

fn ask(depot: &Daemon, route: &str) -> TcpStream {
    let mut stream = connect(depot.address);
    write!(stream, "GET {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n").unwrap();
    stream
}

/// The depot's status once its only transfer has moved this many bytes.
fn seen_at(depot: &Daemon, bytes: u64) -> Status {
    let mut last = None;
    until("the transfer is so far", || {
        let status = depot.status();
        let there = status.transfers.iter().any(|transfer| transfer.down_bytes == bytes);
        last = Some(status);
        there
    });
    last.unwrap()
}

fn hop<'s>(status: &'s Status, side: Side, name: &str) -> &'s HopStatistics {
    let found = status.hops.iter().find(|hop| hop.side == side && hop.hop == name);
    found.unwrap_or_else(|| panic!("no {side} {name} in {:?}", status.hops))
}

/// What an operator is answered.
fn look(at: SocketAddr, request_line: &str, host: &str) -> (String, Vec<u8>) {
    let request = format!("{request_line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let (head, body, _) = exchange(at, request.as_bytes());
    (head, body)
}

fn text(at: SocketAddr, path: &str) -> String {
    let (head, body) = look(at, &format!("GET {path}"), &at.to_string());
    assert_eq!(status(&head), 200, "{path}: {head}");
    String::from_utf8(body).unwrap()
}

#[test]
fn transfer_is_listed_while_running_then_counted() {
    let depot = Daemon::depot(ADMIN);
    let valve = Valve::default();
    let origin = dripping(&valve);
    let client = ask(&depot, &origin.route("-", "/slow?x=1"));
    valve.open_to(100_000);
    let during = seen_at(&depot, 100_000);
    assert_eq!((during.id.as_str(), during.state), ("d1", State::Serving));
    assert_eq!((during.live_transfers, during.connections.open), (1, 1));
    let transfer = &during.transfers[0];
    assert_eq!(transfer.client, client.local_addr().unwrap().to_string());
    assert_eq!(transfer.upstream, origin.address.to_string());
    assert_eq!((transfer.method.as_str(), transfer.status), ("GET", Some(200)));
    assert!(transfer.target.ends_with("/slow?x=1"), "{}", transfer.target);
    assert_eq!((transfer.expected_bytes, transfer.up_bytes), (Some(SIZE), 0));
    for tcp in [&transfer.client_tcp, &transfer.upstream_tcp] {
        let tcp = tcp.as_ref().expect("a socket that is open");
        assert!(!tcp.congestion.is_empty() && tcp.cwnd_bytes > 0 && tcp.rtt_us > 0, "{tcp:?}");
        assert!(tcp.min_rtt_us.is_some_and(|rtt| rtt > 0), "{tcp:?}");
    }
    assert!(transfer.client_tcp.as_ref().unwrap().delivery_rate_bps.is_some(), "bytes were taken");
    let name = origin.address.to_string();
    for (side, name) in [(Side::Upstream, name.as_str()), (Side::Client, "127.0.0.0/8")] {
        let hop = hop(&during, side, name);
        assert_eq!(hop.connections.values().sum::<usize>(), 1);
        assert!(hop.requests.values().all(|n| *n == 0) && hop.down_bytes == 100_000, "{hop:?}");
        assert!(hop.rtt_us.is_some() && hop.min_rtt_us <= hop.rtt_us, "{hop:?}");
    }

    valve.open_to(SIZE);
    assert_eq!(read_answer(client).1.len() as u64, SIZE);
    depot.await_log(&[
        "INFO",
        "complete",
        "bytes=200000",
        "upstream_min_rtt_us=",
        "client_cwnd_bytes=",
    ]);
    let after = depot.status();
    assert_eq!((after.live_transfers, after.transfers.len()), (0, 0));
    assert_eq!((after.totals.down_bytes, after.totals.requests["complete"]), (SIZE, 1));
    let hop = hop(&after, Side::Upstream, &name);
    assert_eq!((hop.down_bytes, hop.requests["complete"], hop.connections.len()), (SIZE, 1, 0));
}

/// The names and types of the families in a text of `OpenMetrics`.
fn families(metrics: &str) -> BTreeSet<(String, String)> {
    let types = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types.map(|line| line.split_once(' ').unwrap()).map(|(n, t)| (n.into(), t.into())).collect()
}

#[test]
fn metrics_match_the_guide() {
    // A file that is there: for the depot, all is paced.
    let start = format!("{PACED}=/ exec \"$0\" \"$@\"");
    let hop = "[[hop]]\npeer = \"192.0.2.0/24\"\npacing = \"gap\"\n";
    let pki = Pki::new();
    let file = |name: &str| pki.file(name).display().to_string();
    let tls = format!(
        "[tls]\nlisten = [\"127.0.0.1:0\"]\ncertificate = {:?}\nkey = {:?}\n",
        file("own.pem"),
        file("own.key")
    );
    let detour = "[[detour]]\naround = \"127.0.0.1:1\"\nstraight = true\norder = \"forecast\"\n";
    let signer = Signer::from_seed([1; 32]).unwrap().named("depot.example:3880");
    let (key, trust) = (file("register.pem"), file("register.jwks"));
    fs::write(&key, signer.to_pem()).unwrap();
    fs::write(&trust, signer.public_set()).unwrap();
    let register =
        format!("[register]\naddress = \"depot.example\"\nkey = {key:?}\ntrust = {trust:?}\n");
    let store = format!("[store]\npath = {:?}\nsize = \"1MB\"\n", file("store"));
    let depot = Daemon::depot_by(&start, &format!("{ADMIN}{hop}{tls}{detour}{store}{register}"));
    let answer = "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\nConnection: close\r\n\r\nnone";
    let missing = Scripted::answering(answer);
    // By the way without the depot, which is not there.
    assert_eq!(status(&get(depot.address, &missing.route("127.0.0.1:1", "/")).0), 404);
    depot.await_log(&["INFO", " complete "]);
    let valve = Valve::default();
    let origin = dripping(&valve);
    let client = ask(&depot, &origin.route("-", "/"));
    valve.open_to(100_000);
    seen_at(&depot, 100_000);
    assert_eq!(status(&get(depot.address, "/no-route").0), 400);
    depot.await_log(&["WARN", "refused"]);
    let metrics = text(depot.admin(), "/metrics");
    let address = origin.address;
    for line in [
        "longhaul_depot_live_transfers 1".to_owned(),
        "longhaul_depot_draining 0".to_owned(),
        "longhaul_depot_paced{peer=\"192.0.2.0/24\",pacing=\"gap\"} 1".to_owned(),
        "longhaul_depot_requests_total{outcome=\"refused\"} 1".to_owned(),
        "longhaul_depot_requests_total{outcome=\"complete\"} 1".to_owned(),
        "longhaul_depot_refusals_total{status=\"400\",error=\"http_request_error\"} 1".to_owned(),
        "longhaul_depot_relayed_bytes_total{direction=\"down\"} 100004".to_owned(),
        format!(
            "longhaul_depot_hop_relayed_bytes_total{{side=\"upstream\",hop=\"{address}\",direction=\"down\"}} 100000"
        ),
        "longhaul_depot_access_log_dropped_lines_total 0".to_owned(),
        format!(
            "longhaul_depot_hop_answers_total{{side=\"upstream\",hop=\"{}\",status=\"404\"}} 1",
            missing.address
        ),
        "longhaul_depot_first_byte_seconds_count 1".to_owned(),
        "longhaul_depot_transfer_duration_seconds_bucket{le=\"+Inf\"} 1".to_owned(),
        "longhaul_depot_connect_seconds_count 2".to_owned(),
        "longhaul_depot_last_reload_successful{of=\"configuration\"} 1".to_owned(),
        "longhaul_depot_last_reload_successful{of=\"certificates\"} 1".to_owned(),
        "# EOF".to_owned(),
    ] {
        assert!(metrics.lines().any(|l| l == line), "{line} is missing in\n{metrics}");
    }
    // Every metric is in the guide's table with its type, and every metric in the table exists.
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/depot/metrics.md");
    let guide = fs::read_to_string(guide).unwrap();
    let rows = guide.lines().filter_map(|line| line.strip_prefix("| `longhaul_depot_"));
    let told: BTreeSet<(String, String)> = rows
        .map(|row| {
            let (name, rest) = row.split_once('`').unwrap();
            let kind = rest.split(" | ").nth(1).unwrap();
            (format!("longhaul_depot_{name}"), kind.to_owned())
        })
        .collect();
    let suffixed = |(name, kind): (String, String)| match kind.as_str() {
        "counter" => (name + "_total", kind),
        "info" => (name + "_info", kind),
        _ => (name, kind),
    };
    let exposed: BTreeSet<_> = families(&metrics).into_iter().map(suffixed).collect();
    assert_eq!(told, exposed);
    drop(client);
}

#[test]
fn failures_before_a_transfer_are_counted() {
    let pki = Pki::new();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("depot.toml");
    let tls = pki.settings("own", "id = \"d1\"\nadmin.listen = \"127.0.0.1:0\"");
    let settings = format!(
        "{tls}[allow]\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]\nlocal = true\n"
    );
    let depot = Daemon::of_file(&file, &settings);
    // A client without TLS, and next hops that refuse, or speak no TLS.
    let _ = exchange(depot.address, b"GET / HTTP/1.1\r\nHost: d\r\n\r\n");
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let (closed, plain_address) = (refusing_address(), plain.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = plain.accept().unwrap();
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        let _ = stream.read(&mut [0; 1000]);
    });
    for to in [format!("http:{closed}"), format!("https:{plain_address}")] {
        let url = format!("https://{}/lh1/fetch/-/{to}/", depot.address);
        let got = pki.curl(&["-i", &url]);
        assert!(String::from_utf8_lossy(&got.stdout).starts_with("HTTP/1.1 502"), "{got:?}");
    }
    let now = depot.status();
    assert_eq!((now.tls_failures["client"], now.tls_failures["upstream"]), (1, 1));
    assert_eq!(now.connect_failures["connection_refused"], 1);
    assert_eq!(now.connect_failures.values().sum::<u64>(), 2);
    assert_eq!(now.times.connect.counts.iter().sum::<u64>(), 0);
    // Files that cannot be used, and then can.
    let good = |of: &str| depot.status().reloads.iter().find(|it| it.of == of).unwrap().good;
    fs::write(&file, "colour = 1").unwrap();
    depot.signal(Signal::HUP);
    depot.await_log(&["WARN", "the configuration stays as it was"]);
    assert!(!good("configuration") && good("certificates"));
    depot.read_again(&file, &settings);
    assert!(good("configuration"));
    fs::write(pki.file("own.pem"), "no certificate").unwrap();
    depot.await_log(&["WARN", "certificates stay as they were"]);
    until("that is seen", || !good("certificates"));
    pki.issue("own", "127.0.0.1");
    until("the new one counts", || good("certificates"));
}

#[test]
fn strangers_and_invented_hops_get_few_metrics_lines() {
    // One client that is not listed, another that is and asks for hops that do not exist.
    let stranger = Daemon::depot(&format!("{ADMIN}\n[allow]\nclients = [\"192.0.2.0/24\"]"));
    let listed = Daemon::depot(ADMIN);
    for depot in [&stranger, &listed] {
        let before = text(depot.admin(), "/metrics").lines().count();
        let refused = |n: u16| {
            let (head, ..) = get(depot.address, &format!("/lh1/fetch/-/http:127.0.0.2:{n}/{n}"));
            assert!([403, 502].contains(&status(&head)), "{head}");
        };
        let lines = || text(depot.admin(), "/metrics").lines().count();
        refused(1);
        let after_one = lines();
        (2..=30).for_each(refused);
        let after_some = lines();
        (31..=150).for_each(refused);
        let status = depot.status();
        assert_eq!(status.totals.requests["refused"], 150);
        assert!(before < after_one, "the first of a kind shows");
        assert_eq!(after_some, lines());
    }
    assert_eq!(hop(&stranger.status(), Side::Client, "unlisted").requests["refused"], 150);
    let status = listed.status();
    assert_eq!(hop(&status, Side::Upstream, "other").requests["refused"], 130);
    // A few that cannot be reached are named, so that an operator sees which one is down.
    assert_eq!(hop(&status, Side::Upstream, "127.0.0.2:1").requests["refused"], 1);
}

#[test]
fn health_check_reports_draining() {
    let mut depot = Daemon::depot(ADMIN);
    let admin = depot.admin();
    assert_eq!(text(admin, "/healthz"), "serving\n");
    let valve = Valve::default();
    let origin = dripping(&valve);
    let client = ask(&depot, &origin.route("-", "/"));
    valve.open_to(1000);
    seen_at(&depot, 1000);
    depot.signal(Signal::TERM);
    depot.await_log(&["stopping"]);
    let (head, body) = look(admin, "GET /healthz", &admin.to_string());
    assert_eq!((status(&head), body.as_slice()), (503, b"draining\n".as_slice()));
    assert_eq!(depot.status().state, State::Draining);
    assert!(text(admin, "/metrics").contains("longhaul_depot_draining 1\n"));
    valve.open_to(SIZE);
    assert_eq!(read_answer(client).1.len() as u64, SIZE);
    assert!(depot.wait().success());
}

#[test]
fn admin_listener_is_read_only() {
    let depot = Daemon::depot(ADMIN);
    let admin = depot.admin();
    let host = admin.to_string();
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let (head, _) = look(admin, &format!("{method} /metrics"), &host);
        assert_eq!(status(&head), 405, "{method}: {head}");
        assert!(head.to_lowercase().contains("allow: get, head"), "{head}");
    }
    for (path, code) in [("/status", 200), ("/metrics", 200), ("/", 302), ("/secret", 404)] {
        let (head, body) = look(admin, &format!("HEAD {path}"), &host);
        assert_eq!((status(&head), body.len()), (code, 0), "{path}: {head}");
    }
    // A stranger's name that leads to this address, and what leads here in good faith.
    for (name, code) in [("evil.example:3881", 421), ("localhost:8080", 200), ("[::1]:9", 200)] {
        assert_eq!(status(&look(admin, "GET /status.json", name).0), code, "{name}");
    }
    let (head, body) = look(admin, "GET /status", &host);
    assert!(head.contains("default-src 'none'") && !head.contains("unsafe"), "{head}");
    let page = String::from_utf8(body).unwrap();
    // The only address in it is the name of a language.
    assert_eq!(page.matches("://").count(), page.matches("http://www.w3.org/2000/svg").count());
    // Clients see nothing of it.
    for path in ["/metrics", "/status.json", "/healthz"] {
        let (head, ..) = get(depot.address, path);
        assert_eq!(status(&head), 400, "{path}");
    }
}

/// The page as rendered by headless Chromium after some seconds of virtual time, which advances only while it
/// waits for no response.
fn browse(url: &str, more: &[&str]) -> String {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new("timeout")
        .args(["--kill-after=5", "90", "chromium", "--headless", "--no-sandbox", "--disable-gpu"])
        .args(["--disable-quic", "--no-first-run", "--disable-background-networking"])
        .args(["--disable-component-update", "--disable-sync", "--window-size=1280,1600"])
        .args(["--hide-scrollbars", "--virtual-time-budget=4500"])
        .arg("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(more)
        .arg(url)
        .output()
        .expect("`timeout` (Debian: coreutils) runs");
    assert_ne!(output.status.code(), Some(127), "chromium is missing: apt install chromium");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn attribute(dom: &str, name: &str) -> Option<String> {
    let value = dom.split(&format!(" {name}=\"")).nth(1)?;
    value.split('"').next().map(str::to_owned)
}

#[test]
fn page_shows_a_transfer_and_its_rising_bytes() {
    let nobody = "127.0.0.1:1";
    let detour = format!("[[detour]]\naround = \"{nobody}\"\nstraight = true\n");
    let depot = Daemon::depot(&format!("{ADMIN}{detour}"));
    depot.await_detours(&[(nobody.parse().unwrap(), false)]);
    let admin = depot.admin();
    let valve = Valve::default();
    let origin = dripping(&valve);
    let evil = "/<b>\"';x=${1}&amp;<script>document.title='owned'</script>".replace(['<', '>'], "");
    let client = ask(&depot, &origin.route("-", &evil));
    valve.open_to(1000);
    seen_at(&depot, 1000);
    // Between browser and depot: before each answer but the first the transfer gets further, so that
    // what the page shows does not hang on how fast this machine is.
    let asked = Arc::new(Mutex::new(0));
    let between = Scripted::new(move |mut stream, head| {
        let path = head.split(' ').nth(1).unwrap();
        if path == "/status.json" {
            let mut asked = asked.lock().unwrap();
            *asked += 1;
            valve.open_to(1000 * *asked);
            until("the depot has moved that", || {
                let status = fetch_status(&admin.to_string()).unwrap().0;
                status.transfers[0].down_bytes == 1000 * *asked
            });
        }
        let (head, body) = look(admin, &format!("GET {path}"), &admin.to_string());
        let _ = stream.write_all(&[head.as_bytes(), &body].concat());
    });
    let dom = browse(&format!("http://{}/status", between.address), &["--dump-dom"]);
    assert_eq!(attribute(&dom, "data-errors"), None, "{dom}");
    let polls: u64 = attribute(&dom, "data-polls").expect("polls").parse().unwrap();
    assert!(polls >= 2, "{polls}");
    let number = |name| attribute(&dom, name).expect(name).parse::<u64>().unwrap();
    assert_eq!((number("data-first-bytes"), number("data-bytes")), (1000, 1000 * polls));
    let client_address = client.local_addr().unwrap().to_string();
    let origin_address = origin.address.to_string();
    for part in [&client_address, &origin_address, "d1", ">serving<", "127.0.0.0/8", nobody] {
        assert!(dom.contains(part), "{part} is missing: {dom}");
    }
    assert!(dom.contains("class=\"rtt\""), "a round trip is drawn: {dom}");
}

/// Added to the page's own script by a proxy between page and depot: it selects text in the first row once
/// there is one, and notes after each answer what has become of the selection.
const WATCH: &str = r#"
const cell = () => byId("transfers").tBodies[0].rows[0]?.cells[0];
let first = null;
new MutationObserver(() => {
  if (!first && cell()) {
    first = cell();
    getSelection().selectAllChildren(first);
  }
  root.dataset.selected = String(getSelection());
  root.dataset.stillThere = first?.isConnected ?? false;
}).observe(root, { attributes: true, attributeFilter: ["data-polls"] });
"#;

/// A status in which the first transfer gets further with each answer, and in every other one another
/// transfer stands above it.
fn with_a_visitor(status: &str, answer: u64) -> String {
    let mut status: Status = serde_json::from_str(status).unwrap();
    status.transfers[0].down_bytes += answer;
    if answer.is_multiple_of(2) {
        let visitor = Transfer { number: 1 << 20, ..status.transfers[0].clone() };
        status.transfers.insert(0, visitor);
    }
    serde_json::to_string(&status).unwrap()
}

#[test]
fn page_refresh_keeps_the_selection() {
    let depot = Daemon::depot(ADMIN);
    let admin = depot.admin();
    let valve = Valve::default();
    let origin = dripping(&valve);
    let client = ask(&depot, &origin.route("-", "/"));
    valve.open_to(1000);
    seen_at(&depot, 1000);
    let answers = Arc::new(Mutex::new(0));
    let between = Scripted::new(move |mut stream, head| {
        let path = head.split(' ').nth(1).unwrap();
        let (_, body) = look(admin, &format!("GET {path}"), &admin.to_string());
        let mut body = String::from_utf8(body).unwrap();
        if path == "/status.json" {
            body = with_a_visitor(&body, {
                let mut answers = answers.lock().unwrap();
                *answers += 1;
                *answers
            });
        }
        let body = body.replace("</script>", &format!("{WATCH}</script>"));
        // Without the policy, which knows the page's own script alone.
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n{body}");
        let _ = stream.write_all(answer.as_bytes());
    });
    let dom = browse(&format!("http://{}/status", between.address), &["--dump-dom"]);
    assert_eq!(attribute(&dom, "data-errors"), None, "{dom}");
    let polls: u64 = attribute(&dom, "data-polls").expect("polls").parse().unwrap();
    assert!(polls >= 3, "{polls}");
    let client = client.local_addr().unwrap().to_string();
    assert_eq!(attribute(&dom, "data-selected"), Some(client));
    assert_eq!(attribute(&dom, "data-still-there").as_deref(), Some("true"));
}

/// Kept in the build folder, to be looked at.
#[test]
fn page_screenshot_is_written() {
    let files = tempfile::tempdir().unwrap();
    fs::write(files.path().join("small"), vec![1; 3_000_000]).unwrap();
    let depot = Daemon::depot(&format!(
        "{ADMIN}\n[allow]\nclients = [\"127.0.0.0/8\"]\nlocal = true\n\
         upstreams = [\"127.0.0.0/8:*\", \"depot2.example.org:3880\"]"
    ));
    let origin = Daemon::origin(files.path(), "fetch", &[]);
    let valve = Valve::default();
    let slow = dripping(&valve);
    for _ in 0..5 {
        let route = format!("/lh1/fetch/-/http:{}/small", origin.address);
        assert!(curl(&["-f", "-o", "/dev/null", &depot.url(&route)]).status.success());
    }
    assert_eq!(status(&get(depot.address, "/no-route").0), 400);
    assert_eq!(status(&get(depot.address, "/lh1/fetch/-/http:127.0.0.1:1/").0), 502);
    let _clients: Vec<_> = (0..3)
        .map(|n| ask(&depot, &slow.route("-", &format!("/archive/2026/observation-{n}.tar.zst"))))
        .collect();
    valve.open_to(120_000);
    until("all have begun", || {
        let status = depot.status();
        status.transfers.iter().filter(|transfer| transfer.down_bytes == 120_000).count() == 3
    });
    photographed(&depot, "status");
}

/// Takes pictures of a depot's page, in light and in dark.
fn photographed(depot: &Daemon, name: &str) {
    for (kind, more) in [("light", &[][..]), ("dark", &["--blink-settings=preferredColorScheme=0"])]
    {
        let picture = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{kind}.png"));
        let shot = format!("--screenshot={}", picture.display());
        browse(&format!("http://{}/status", depot.admin()), &[&[shot.as_str()], more].concat());
        assert!(fs::metadata(&picture).unwrap().len() > 10_000);
    }
}
