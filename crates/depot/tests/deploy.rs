// SPDX-License-Identifier: GPL-2.0-or-later
//! The recipes under `deploy/`, run by the real nginx and Apache, with real clients through two
//! real depots.

mod common;

use common::{
    client::{curl, run, wget},
    noise,
    process::{Daemon, eventually},
    sha256,
};
use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

/// The repository's `deploy` directory.
fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file)
}

/// A web server with its configuration and files in a directory of its own.
struct Server {
    child: Child,
    address: SocketAddr,
    dir: TempDir,
}

/// How to run one kind of server.
struct Kind {
    program: &'static str,
    package: &'static str,
    /// The main configuration for a directory, an address and the depots' lines.
    configuration: fn(&Path, SocketAddr) -> String,
    /// A line that sends clients of a network through depots.
    depots: fn(network: &str, way: &str) -> String,
    args: fn(&Path) -> Vec<String>,
}

const NGINX: Kind = Kind {
    program: "nginx",
    package: "nginx-light",
    configuration: |dir, address| {
        let d = dir.display();
        format!(
            "daemon off;\nmaster_process off;\npid {d}/pid;\nerror_log {d}/error.log;\n\
             events {{}}\nhttp {{\n\
             client_body_temp_path {d}/body; proxy_temp_path {d}/proxy; fastcgi_temp_path {d}/fcgi;\n\
             uwsgi_temp_path {d}/uwsgi; scgi_temp_path {d}/scgi; access_log {d}/access.log;\n\
             include longhaul.conf;\n\
             server {{ listen {address}; root {d}/site;\n\
             set $longhaul_origin \"{address}\";\n\
             if ($longhaul_location) {{ return 302 $longhaul_location; }}\n}}\n}}\n"
        )
    },
    depots: |network, way| format!("{network} \"{way}\";\n"),
    args: |dir| {
        let conf = dir.join("main.conf");
        ["-c", conf.to_str().unwrap(), "-p", dir.to_str().unwrap(), "-e", "stderr"]
            .map(str::to_owned)
            .into()
    },
};

const APACHE: Kind = Kind {
    program: "apache2",
    package: "apache2-bin",
    configuration: |dir, address| {
        let d = dir.display();
        let modules = ["mpm_event", "authz_core", "rewrite", "setenvif", "dir"]
            .map(|m| format!("LoadModule {m}_module /usr/lib/apache2/modules/mod_{m}.so\n"))
            .concat();
        format!(
            "{modules}ServerRoot {d}\nServerName localhost\nPidFile {d}/pid\nDefaultRuntimeDir {d}\n\
             ErrorLog {d}/error.log\nListen {address}\nUser www-data\nGroup www-data\n\
             <VirtualHost {address}>\nDocumentRoot {d}/site\n\
             Define LONGHAUL_ORIGIN {address}\n\
             Include longhaul-depots.conf\nInclude longhaul.conf\n</VirtualHost>\n"
        )
    },
    depots: |network, way| format!("SetEnvIfExpr \"-R '{network}'\" LONGHAUL_DEPOTS={way}\n"),
    args: |dir| ["-X", "-f", dir.join("main.conf").to_str().unwrap()].map(str::to_owned).into(),
};

impl Server {
    /// Starts a server on a free port with a recipe's files and these lines for depots.
    fn start(kind: &Kind, depots: impl Fn(SocketAddr) -> String) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let site = dir.path().join("site/a b");
        fs::create_dir_all(&site).unwrap();
        fs::write(site.join("file.bin"), noise(21, 2_000_003)).unwrap();
        for page in ["index.html", "page.html", "PAGE.HTM", "x.html.gz"] {
            fs::write(site.join(page), page).unwrap();
        }
        let recipe = if kind.program == "nginx" { "nginx" } else { "apache" };
        fs::copy(deploy(recipe).join("longhaul.conf"), dir.path().join("longhaul.conf")).unwrap();
        // These servers cannot choose a port themselves; one that was free just now may be taken.
        for _ in 0..5 {
            let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            fs::write(dir.path().join("longhaul-depots.conf"), depots(free)).unwrap();
            fs::write(dir.path().join("main.conf"), (kind.configuration)(dir.path(), free))
                .unwrap();
            let mut child = Command::new(kind.program)
                .args((kind.args)(dir.path()))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(fs::File::create(dir.path().join("stderr")).unwrap())
                .spawn()
                .unwrap_or_else(|error| {
                    panic!(
                        "cannot run {}: {error}; install the Debian package {}",
                        kind.program, kind.package
                    )
                });
            let mut ended = None;
            eventually("the server answers or ends", || {
                ended = child.try_wait().unwrap();
                ended.is_some() || TcpStream::connect(free).is_ok()
            });
            if ended.is_none() {
                return Self { child, address: free, dir };
            }
        }
        let log = |name| fs::read_to_string(dir.path().join(name)).unwrap_or_default();
        panic!("{} does not start: {}{}", kind.program, log("stderr"), log("error.log"));
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Both ways through two depots, with curl and wget.
fn a_site_is_served_through_depots(kind: &Kind) {
    let depots = ["near", "far"].map(|id| Daemon::depot(&format!("id = \"{id}\"")));
    let [near, far] = depots.each_ref().map(Daemon::authority);
    let body = noise(21, 2_000_003);
    for way in [format!("{near}/lh1/fetch/{far}"), format!("{far}/lh1/lead/{near}/{far}")] {
        let server = Server::start(kind, |_| (kind.depots)("127.0.0.0/8", &way));
        let url = server.url("/a%20b/file.bin?x=%2F&y=1");

        let asked = curl(&["-w", "%{http_code} %{redirect_url}", "-o", "/dev/null", &url]);
        let expected = format!("302 http://{way}/http:{}/a%20b/file.bin?x=%2F&y=1", server.address);
        assert_eq!(String::from_utf8_lossy(&asked.stdout), expected);

        let out = server.dir.path().join("out");
        let out = out.to_str().unwrap();
        let got = curl(&["-f", "-L", "-o", out, &url]);
        assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
        assert_eq!(sha256(&fs::read(out).unwrap()), sha256(&body));
        let got = wget(&["-O", out, &url]);
        assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
        assert_eq!(sha256(&fs::read(out).unwrap()), sha256(&body));
        let part = curl(&["-f", "-L", "-r", "100-199", &url]);
        assert_eq!(part.stdout, &body[100..200]);
        let head = String::from_utf8(curl(&["-f", "-L", "-I", &url]).stdout).unwrap();
        assert!(head.contains("Content-Length: 2000003\r\n"), "{head}");
        assert!(head.contains("Via: 1.1 far (longhaul), 1.1 near (longhaul)"), "{head}");
        let none = curl(&["-L", "-o", "/dev/null", "-w", "%{http_code}", &server.url("/none")]);
        assert_eq!(none.stdout, b"404");
        // Files are sent through depots, pages are not; what stands in a query is neither.
        for (path, code) in [
            ("/a%20b/", "200"),
            ("/a%20b/?x", "200"),
            ("/a%20b/page.html", "200"),
            ("/a%20b/page.html?x=.bin", "200"),
            ("/a%20b/PAGE.HTM", "200"),
            ("/a%20b/x.html.gz", "302"),
            ("/a%20b/file.bin?/", "302"),
            ("/a%20b/file.bin?page.html", "302"),
        ] {
            let got = curl(&["-o", "/dev/null", "-w", "%{http_code}", &server.url(path)]);
            assert_eq!(String::from_utf8_lossy(&got.stdout), code, "{path}");
        }
        // What is no download is the server's own affair.
        let post = curl(&["-o", "/dev/null", "-w", "%{http_code}", "-d", "x", &url]);
        assert_ne!(post.stdout, b"302");
    }
    for depot in &depots {
        depot.await_log(&["complete", "bytes=2000003"]);
    }
    // Networks that are not listed are served directly.
    let server = Server::start(kind, |_| (kind.depots)("192.0.2.0/24", "depot:3880/lh1/fetch/-"));
    let got = curl(&["-f", &server.url("/a%20b/file.bin")]);
    assert_eq!(sha256(&got.stdout), sha256(&body));
}

#[test]
fn nginx() {
    a_site_is_served_through_depots(&NGINX);
}

#[test]
fn apache() {
    a_site_is_served_through_depots(&APACHE);
}

#[test]
fn the_examples_are_valid() {
    for kind in [NGINX, APACHE] {
        let recipe = if kind.program == "nginx" { "nginx" } else { "apache" };
        let example = fs::read_to_string(deploy(recipe).join("longhaul-depots.conf")).unwrap();
        Server::start(&kind, |_| example.clone());
        // The ways in it are routes.
        let ways = example.lines().filter(|line| !line.starts_with('#'));
        for line in ways {
            let start = line.find("/lh1/").expect(line);
            let way = line[start..].trim_end_matches([';', '"']);
            let route: session::Route = format!("{way}/http:o/").parse().expect(line);
            let _ = route.step();
        }
    }
    let text = fs::read_to_string(deploy("depot.toml")).unwrap();
    longhaul_depot::Config::from_toml(&text, "depot.toml").unwrap();
    let unit = deploy("systemd/longhaul-depot.service");
    let checked =
        run("systemd-analyze", "systemd", &["--man=no", "verify", unit.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    // The binary is not installed where the tests run; that is all it may find.
    let wrong = said
        .lines()
        .filter(|l| l.contains("longhaul-depot.service") && !l.contains("/usr/bin/longhaul"));
    assert_eq!(wrong.collect::<Vec<_>>(), Vec::<&str>::new(), "{said}");
}
