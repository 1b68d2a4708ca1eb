// SPDX-License-Identifier: GPL-2.0-or-later
//! `deploy/portal`: the real nginx, the script and two depots, for clients that have logged in and others.

use crate::{
    common::{done, text},
    depot::Depot,
};
use std::{
    fs::{self, File},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

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

/// The portal's configuration with the places of this test, and a server's around it.
fn configure(folder: &Path, deploy: &Path, portal: SocketAddr, origin: SocketAddr) {
    let path = |name: &str| folder.join(name);
    let mut conf = fs::read_to_string(deploy.join("portal.conf")).unwrap();
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
fn a_portal_gives_tickets_to_those_who_have_logged_in() {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/portal");
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
        path("keys.json")
    );
    fs::write(path("depot.toml"), depot).unwrap();
    let depots =
        ["near", "far"].map(|id| Depot::named(id, &["--config", &at(&path("depot.toml"))]));

    let [portal, origin] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [portal, origin] = [portal, origin].map(|free| free.local_addr().unwrap());
    configure(folder.path(), &deploy, portal, origin);

    let via = depots.each_ref().map(|depot| depot.listen.clone()).join(",");
    let mut script = Command::new(deploy.join("mint-ticket.py"));
    script
        .args(["--socket", &at(&path("socket")), "--origin", &format!("http://{origin}")])
        .args(["--key", &at(&path("key.pem")), "--via", &via])
        .args(["--longhaul", env!("CARGO_BIN_EXE_longhaul")]);
    // It says at once what it lacks.
    let mut wrong = Command::new(deploy.join("mint-ticket.py"));
    wrong.args(script.get_args()).args(["--key", "/no/such/key"]);
    let wrong = wrong.output().unwrap();
    let said = text(&wrong.stderr);
    assert!(wrong.status.code() == Some(2) && said.contains("no ticket can be made"), "{said}");
    let script = Running::start(&mut script, &path("script.log"), || path("socket").exists());
    let nginx_log = path("nginx.log");
    let mut nginx = Command::new("nginx");
    nginx.args(["-c", &at(&path("main.conf")), "-e", "stderr"]);
    let _nginx = Running::start(&mut nginx, &nginx_log, || TcpStream::connect(portal).is_ok());
    let mode = fs::metadata(path("socket")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o660, "{mode:o}");

    let url = format!("http://{portal}/files/a%20b.bin?x=%2F&y=1");
    let log_in = ["-u", "alice:secret"];
    let got = curl(&[&log_in[..], &["-f", "-L", &url]].concat());
    let said = || [&nginx_log, &path("script.log")].map(|log| fs::read_to_string(log).unwrap());
    assert!(got.stdout == body, "{}{:?}", text(&got.stderr), said());
    let to = told("%{http_code} %{redirect_url}", &[&log_in[..], &[&url]].concat());
    let ticket = to.strip_prefix("302 ").unwrap();
    assert!(ticket.starts_with(&format!("http://{}/lh2/0/", depots[0].listen)), "{to}");
    let shown = done(&["ticket", "show", ticket]);
    for part in [&format!("http://{origin}/files/a%20b.bin?x=%2F&y=1"), "portal", "GET, HEAD"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // It is for this file, whatever the client says of it to the script, and needs no log-in any more.
    let forged = ["-H", "X-Target: /files/other", "-H", "X-Client: 192.0.2.9"];
    let to = told("%{redirect_url}", &[&log_in[..], &forged, &[&url]].concat());
    assert!(done(&["ticket", "show", &to]).contains("/files/a%20b.bin"));
    assert!(curl(&["-f", &to]).stdout == body);

    // Who has not logged in, what is no file, and other methods.
    let status = |arguments: &[&str]| told("%{http_code}", arguments);
    assert_eq!(status(&[&url]), "401");
    assert_eq!(status(&["-u", "alice:wrong", &url]), "401");
    let below = |path: &str| format!("http://{portal}{path}");
    for path in
        ["/files/", "/files/sub/", "/files/sub/?x", "/files/./a%20b.bin", "/files/%2e/a%20b.bin"]
    {
        let answer = status(&[&log_in[..], &["--path-as-is", &below(path)]].concat());
        assert_eq!(answer, "403", "{path}: {:?}", said());
    }
    assert_eq!(status(&[&log_in[..], &["-d", "x", &url]].concat()), "403");
    assert_eq!(status(&[&log_in[..], &[&below("/mint")]].concat()), "404", "only nginx asks it");
    // What lies behind is for the depots.
    let behind = format!("http://{origin}/files/a%20b.bin");
    assert_eq!(status(&["--interface", "127.0.0.2", &behind]), "403");
    assert_eq!(status(&[&behind]), "200");

    // Many at once, and addresses as long as tickets go.
    let many = format!("{url}&n=[1-80]");
    let parallel = ["-Z", "--parallel-max", "80", "-o", "/dev/null", "-w", "%{http_code} "];
    let all = text(&curl(&[&log_in[..], &parallel, &[&many]].concat()).stdout);
    assert_eq!(all, "302 ".repeat(80), "{:?}", said());
    let long = format!("{url}&{}", "x".repeat(1900));
    assert_eq!(status(&[&log_in[..], &[&long]].concat()), "302", "{:?}", said());
    // Without the script nobody gets anything.
    drop(script);
    assert_eq!(status(&[&log_in[..], &[&url]].concat()), "500");
}
