// SPDX-License-Identifier: GPL-2.0-or-later
//! `deploy/portal`: the real nginx, the script and two depots, for clients that have logged in and others.

use crate::{
    common::{done, longhaul, text},
    depot::Depot,
};
use std::{
    fs::{self, File},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// A program that runs; killed when dropped.
struct Running(Child);

impl Running {
    fn start(command: &mut Command, log: &Path, is_ready: impl Fn() -> bool) -> Self {
        let child = command.stdin(Stdio::null()).stderr(File::create(log).unwrap()).spawn();
        let running = Self(child.unwrap_or_else(|error| panic!("{command:?}: {error}")));
        let begun = Instant::now();
        while !is_ready() {
            let said = fs::read_to_string(log).unwrap();
            assert!(begun.elapsed() < Duration::from_secs(10), "{command:?} is not ready: {said}");
            std::thread::sleep(Duration::from_millis(20));
        }
        running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn curl(arguments: &[&str]) -> Output {
    let curl = Command::new("curl").args(["-sS", "--max-time", "30"]).args(arguments).output();
    curl.expect("Debian's package curl")
}

/// What curl says of an answer, as by `-w`.
fn told(what: &str, arguments: &[&str]) -> String {
    text(&curl(&[&["-o", "/dev/null", "-w", what], arguments].concat()).stdout)
}

fn at(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// A portal's files, with its nginx; the script and the depots are each test's own.
struct Portal {
    folder: TempDir,
    address: SocketAddr,
    /// Where depots fetch.
    origin: SocketAddr,
    body: Vec<u8>,
    _nginx: Running,
}

const LOGIN: [&str; 2] = ["-u", "alice:secret"];

impl Portal {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // nginx's workers are another user's.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = |name: &str| folder.path().join(name);
        done(&["ticket", "keygen", &at(&path("key.pem")), "--public", &at(&path("keys.json"))]);
        let body: Vec<u8> =
            (0..3_000_001_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        fs::create_dir_all(path("www/files/sub")).unwrap();
        fs::write(path("www/files/a b.bin"), &body).unwrap();
        let depot = format!(
            "[trust]\nkeys = {:?}\nrequired = true\n[allow]\nlocal = true\n",
            at(&path("keys.json"))
        );
        fs::write(path("depot.toml"), depot).unwrap();
        let free = || TcpListener::bind("127.0.0.1:0").unwrap();
        let [address, origin] = [free(), free()].map(|free| free.local_addr().unwrap());
        configure(folder.path(), address, origin);
        let mut nginx = Command::new("nginx");
        nginx.args(["-c", &at(&path("main.conf")), "-e", "stderr"]);
        let is_ready = || TcpStream::connect(address).is_ok();
        let nginx = Running::start(&mut nginx, &path("nginx.log"), is_ready);
        Self { address, origin, body, _nginx: nginx, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A depot for tickets alone.
    fn depot(&self, id: &str, more: &[&str]) -> Depot {
        Depot::named(id, &[&["--config", &at(&self.path("depot.toml"))], more].concat())
    }

    /// What starts the script.
    fn script(&self, more: &[&str]) -> Command {
        let mut script = Command::new(deploy().join("mint-ticket.py"));
        script
            .args(["--socket", &at(&self.path("socket"))])
            .args(["--origin", &format!("http://{}", self.origin)])
            .args(["--key", &at(&self.path("key.pem"))])
            .args(["--longhaul", env!("CARGO_BIN_EXE_longhaul")])
            .args(more);
        script
    }

    fn start_script(&self, more: &[&str]) -> Running {
        let log = self.path("script.log");
        let is_ready = || fs::read_to_string(&log).unwrap().contains("ready\n");
        Running::start(&mut self.script(more), &log, is_ready)
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What nginx and the script have logged.
    fn said(&self) -> [String; 2] {
        ["nginx.log", "script.log"].map(|log| fs::read_to_string(self.path(log)).unwrap())
    }

    /// Awaits that a client with a login is sent to this depot, or given the file by the site itself.
    fn await_way(&self, depot: Option<&str>) {
        let to = depot.map_or("200 ".to_owned(), |depot| format!("302 http://{depot}/lh2/0/"));
        let (begun, url) = (Instant::now(), self.url("/files/a%20b.bin"));
        loop {
            let told = told("%{http_code} %{redirect_url}", &[&LOGIN[..], &[&url]].concat());
            if told.starts_with(&to) {
                return;
            }
            let said = self.said();
            assert!(begun.elapsed() < Duration::from_secs(20), "{to}: {told} {said:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// A client that follows redirects gets the file.
    fn gives_file(&self) {
        let got = curl(&[&LOGIN[..], &["-f", "-L", &self.url("/files/a%20b.bin")]].concat());
        assert!(got.stdout == self.body, "{}{:?}", text(&got.stderr), self.said());
    }
}

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/portal")
}

/// The portal's configuration with the places of this test, and a server's around it.
fn configure(folder: &Path, portal: SocketAddr, origin: SocketAddr) {
    let path = |name: &str| folder.join(name);
    let mut conf = fs::read_to_string(deploy().join("portal.conf")).unwrap();
    for (example, here) in [
        ("listen 80;", format!("listen {portal};")),
        ("listen 8080;", format!("listen {origin};")),
        ("/srv/www", at(&path("www"))),
        ("/etc/nginx/portal.users", at(&path("users"))),
        ("/run/longhaul-portal/socket", at(&path("socket"))),
        ("allow 192.0.2.7;", "allow 127.0.0.1;".to_owned()),
    ] {
        assert!(conf.contains(example), "{example}");
        conf = conf.replace(example, &here);
    }
    fs::write(path("users"), "alice:{PLAIN}secret\n").unwrap();
    let d = folder.display();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {d}/{kind};\n"))
        .concat();
    let main = format!(
        "daemon off;\nmaster_process off;\npid {d}/pid;\nevents {{}}\n\
         http {{\naccess_log {d}/access.log;\n{temporary}{conf}}}\n"
    );
    fs::write(path("main.conf"), main).unwrap();
}

#[test]
fn portal_gives_tickets_to_logged_in_clients() {
    let portal = Portal::start();
    let depots = ["near", "far"].map(|id| portal.depot(id, &[]));
    let via = depots.each_ref().map(|depot| depot.listen.clone()).join(",");
    // It says at once what it lacks.
    for (arguments, why) in [
        (&["--via", &via, "--key", "/no/such/key"][..], "no ticket can be made"),
        (&[], "one of --via and --routes is needed"),
    ] {
        let wrong = portal.script(arguments).output().unwrap();
        let said = text(&wrong.stderr);
        assert!(wrong.status.code() == Some(2) && said.contains(why), "{said}");
    }
    let script = portal.start_script(&["--via", &via]);
    let mode = fs::metadata(portal.path("socket")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o660, "{mode:o}");

    portal.gives_file();
    let (url, origin) = (portal.url("/files/a%20b.bin?x=%2F&y=1"), portal.origin);
    let to = told("%{http_code} %{redirect_url}", &[&LOGIN[..], &[&url]].concat());
    let ticket = to.strip_prefix("302 ").unwrap();
    assert!(ticket.starts_with(&format!("http://{}/lh2/0/", depots[0].listen)), "{to}");
    let shown = done(&["ticket", "show", ticket]);
    for part in [&format!("http://{origin}/files/a%20b.bin?x=%2F&y=1"), "portal", "GET, HEAD"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // It is for this file, whatever the client says of it to the script, and needs no log-in any more.
    let forged = ["-H", "X-Target: /files/other", "-H", "X-Client: 192.0.2.9"];
    let to = told("%{redirect_url}", &[&LOGIN[..], &forged, &[&url]].concat());
    assert!(done(&["ticket", "show", &to]).contains("/files/a%20b.bin"));
    assert!(curl(&["-f", &to]).stdout == portal.body);

    // Refused: clients without a login, directories, and other methods.
    let status = |arguments: &[&str]| told("%{http_code}", arguments);
    assert_eq!(status(&[&url]), "401");
    assert_eq!(status(&["-u", "alice:wrong", &url]), "401");
    for path in
        ["/files/", "/files/sub/", "/files/sub/?x", "/files/./a%20b.bin", "/files/%2e/a%20b.bin"]
    {
        let answer = status(&[&LOGIN[..], &["--path-as-is", &portal.url(path)]].concat());
        assert_eq!(answer, "403", "{path}: {:?}", portal.said());
    }
    assert_eq!(status(&[&LOGIN[..], &["-d", "x", &url]].concat()), "403");
    assert_eq!(
        status(&[&LOGIN[..], &[&portal.url("/mint")]].concat()),
        "404",
        "only nginx asks it"
    );
    // What lies behind is for the depots.
    let behind = format!("http://{origin}/files/a%20b.bin");
    assert_eq!(status(&["--interface", "127.0.0.2", &behind]), "403");
    assert_eq!(status(&[&behind]), "200");

    // Many at once, and addresses as long as tickets go.
    let many = format!("{url}&n=[1-80]");
    let parallel = ["-Z", "--parallel-max", "80", "-o", "/dev/null", "-w", "%{http_code} "];
    let all = text(&curl(&[&LOGIN[..], &parallel, &[&many]].concat()).stdout);
    assert_eq!(all, "302 ".repeat(80), "{:?}", portal.said());
    let long = format!("{url}&{}", "x".repeat(1900));
    assert_eq!(status(&[&LOGIN[..], &[&long]].concat()), "302", "{:?}", portal.said());
    // Without the script no client gets a file.
    drop(script);
    assert_eq!(status(&[&LOGIN[..], &[&url]].concat()), "500");
}

/// The settings of `longhaul failover` for clients of the tests, whose routes are of one depot each.
fn failover(routes_file: &Path, depots: [&str; 2]) -> String {
    let routes = depots.map(|depot| format!("http://{depot}/lh1/fetch/-"));
    let routes_file = at(routes_file);
    format!(
        "routes_file = {routes_file:?}\nevery = \"200ms\"\n\
         [[clients]]\nnetworks = [\"127.0.0.0/8\"]\nroutes = {routes:?}\n"
    )
}

#[test]
fn portal_survives_its_depots_by_failover() {
    let portal = Portal::start();
    let [first, other] = ["first", "other"].map(|id| portal.depot(id, &[]));
    let [at_first, at_other] = [&first, &other].map(|depot| depot.listen.clone());
    let (settings, routes) = (portal.path("failover.toml"), portal.path("routes.json"));
    fs::write(&settings, failover(&routes, [&at_first, &at_other])).unwrap();
    let _script = portal.start_script(&["--routes", &at(&routes)]);
    // Until there is a file, the site serves by itself.
    portal.await_way(None);
    let mut command = longhaul();
    command.args(["failover", &at(&settings)]);
    let _failover = Running::start(&mut command, &portal.path("failover.log"), || routes.exists());
    portal.await_way(Some(&at_first));
    portal.gives_file();
    let mode = fs::metadata(&routes).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o644, "{mode:o}");

    drop(first);
    portal.await_way(Some(&at_other));
    portal.gives_file();
    drop(other);
    portal.await_way(None);
    portal.gives_file();
    // Nor does the site give folders then, or anything to others.
    let status = |arguments: &[&str]| told("%{http_code}", arguments);
    assert_eq!(status(&[&LOGIN[..], &[&portal.url("/files/sub/")]].concat()), "403");
    assert_eq!(status(&[&portal.url("/files/a%20b.bin")]), "401");
    let _first = portal.depot("first", &["--listen", &at_first]);
    portal.await_way(Some(&at_first));
    portal.gives_file();
}

#[test]
fn portal_takes_what_a_routes_file_says_and_no_more() {
    let portal = Portal::start();
    let routes = portal.path("routes.json");
    let _script = portal.start_script(&["--routes", &at(&routes), "--via", "fixed:3880"]);
    let groups = |groups: &[(&str, &str)]| {
        let group = |(network, via): &(&str, &str)| {
            format!("{{\"networks\": [\"{network}\"], \"route\": null, \"via\": {via}}}")
        };
        let groups: Vec<_> = groups.iter().map(group).collect();
        format!("{{\"schema\": 1, \"clients\": [{}]}}", groups.join(", "))
    };
    let own = ("127.0.0.0/8", "[\"d1:3880\", \"https:d2:443\"]");
    let too_large = " ".repeat(1 << 20) + &groups(&[own]);
    for (content, way, logged) in [
        // The most specific network applies, wherever it stands.
        (groups(&[own, ("::/0", "[\"d6:1\"]")]), Some("d1:3880"), "stand for 2 of 2 networks"),
        (groups(&[("127.0.0.1/32", "[\"own:1\"]"), own]), Some("own:1"), "is read"),
        (groups(&[own, ("127.0.0.1/32", "[]")]), None, "stand for 1 of 2 networks"),
        (groups(&[("192.0.2.0/24", "[\"d1:3880\"]")]), None, "stand for 1 of 1 networks"),
        // What cannot be used says why, and changes nothing else.
        ("{".to_owned(), Some("fixed:3880"), "cannot be used: Expecting"),
        ("[".repeat(100_000), Some("fixed:3880"), "--via is used instead"),
        ("[1]".to_owned(), Some("fixed:3880"), "it has no routes"),
        (groups(&[("127.0.0.0/33", "[]")]), Some("fixed:3880"), "127.0.0.0/33"),
        (groups(&[("127.0.0.0/8", "[\"--key=/x\"]")]), Some("fixed:3880"), "is no depot"),
        (groups(&[("127.0.0.0/8", "\"d1\"")]), Some("fixed:3880"), "it has no routes"),
        (too_large, Some("fixed:3880"), "it is larger than 1048576 bytes"),
        (groups(&[own]), Some("d1:3880"), "stand for 1 of 1 networks"),
    ] {
        let before = portal.said()[1].len();
        fs::write(portal.path("next.json"), &content).unwrap();
        fs::rename(portal.path("next.json"), &routes).unwrap();
        portal.await_way(way);
        let said = portal.said()[1][before..].to_owned();
        assert_eq!(said.matches(logged).count(), 1, "{logged}: {said}");
    }
    // A folder in its place, and nothing.
    fs::remove_file(&routes).unwrap();
    portal.await_way(Some("fixed:3880"));
    fs::create_dir(&routes).unwrap();
    portal.await_way(Some("fixed:3880"));
    assert!(portal.said()[1].contains("routes.json cannot be used: "), "{:?}", portal.said());
}
