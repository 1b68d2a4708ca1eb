// SPDX-License-Identifier: GPL-2.0-or-later
//! The recipes under `deploy/`, run by the real nginx and Apache, with real clients through two
//! real depots.

mod failover;
mod logins;

use crate::common::{
    client::{connect, curl, read_answer, run, status, wget},
    noise,
    process::Daemon,
    sha256,
    web::{APACHE, NGINX, Program, Server, nginx_conf},
};
use std::{
    fs,
    io::Write,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// The repository's `deploy` directory.
fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../deploy").join(file)
}

/// A recipe for one kind of server.
struct Recipe {
    program: Program,
    /// Where it stands under `deploy/`.
    folder: &'static str,
    /// The main configuration for a directory, an address, and the name of the site there.
    configuration: fn(&Path, SocketAddr, &str) -> String,
    /// A line that sends clients of a network through depots.
    depots: fn(network: &str, way: &str) -> String,
}

const WITH_NGINX: Recipe = Recipe {
    program: NGINX,
    folder: "nginx",
    configuration: |dir, address, site| {
        let (d, logins) = (dir.display(), logins::NGINX_CONF);
        let server = format!(
            "include longhaul.conf;\n{log}\nserver {{ listen {address}; root {d}/site;\n\
             access_log {d}/seen.log seen;\nset $longhaul_origin \"{site}\";\n\
             if ($longhaul_location) {{ return 302 $longhaul_location; }}\n\
             dav_methods PUT; client_max_body_size 10m;\n{logins}\n}}",
            log = logins::NGINX_LOG,
        );
        nginx_conf(dir, &server)
    },
    depots: |network, way| format!("{network} \"{way}\";\n"),
};

const WITH_APACHE: Recipe = Recipe {
    program: APACHE,
    folder: "apache",
    configuration: |dir, address, site| {
        let (d, logins) = (dir.display(), logins::APACHE_CONF);
        let load = |module: &str| {
            format!("LoadModule {module}_module /usr/lib/apache2/modules/mod_{module}.so\n")
        };
        let modules = ["mpm_event", "authz_core", "rewrite", "setenvif", "dir", "dav", "dav_fs"];
        let modules = modules.map(load).concat() + &logins::APACHE_MODULES.map(load).concat();
        format!(
            "{modules}ServerRoot {d}\nServerName localhost\nPidFile {d}/pid\nDefaultRuntimeDir {d}\n\
             ErrorLog {d}/error.log\nListen {address}\nUser www-data\nGroup www-data\n\
             <VirtualHost {address}>\nDocumentRoot {d}/site\n\
             Define LONGHAUL_ORIGIN {site}\n\
             DavLockDB {d}/site/lock\n<Directory {d}/site>\nDav On\n</Directory>\n\
             Include longhaul-depots.conf\nInclude longhaul.conf\n{logins}\n</VirtualHost>\n"
        )
    },
    depots: |network, way| format!("SetEnvIfExpr \"-R '{network}'\" LONGHAUL_DEPOTS={way}\n"),
};

impl Recipe {
    /// Starts the server with the recipe's files and these lines for depots.
    fn start(&self, depots: impl Fn(SocketAddr) -> String) -> Server {
        self.start_as(|address| address.to_string(), depots)
    }

    /// The same for a site of another name than its address.
    fn start_as(
        &self,
        name: impl Fn(SocketAddr) -> String,
        depots: impl Fn(SocketAddr) -> String,
    ) -> Server {
        Server::start(&self.program, |dir, address| {
            let site = dir.join("site/a b");
            fs::create_dir_all(&site).unwrap();
            // Apache takes uploads as a user of its own.
            for folder in [&site, &dir.join("site")] {
                fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
            }
            fs::write(site.join("file.bin"), noise(21, 2_000_003)).unwrap();
            for page in ["index.html", "page.html", "PAGE.HTM", "x.html.gz"] {
                fs::write(site.join(page), page).unwrap();
            }
            let recipe = deploy(self.folder).join("longhaul.conf");
            fs::copy(recipe, dir.join("longhaul.conf")).unwrap();
            fs::write(dir.join("longhaul-depots.conf"), depots(address)).unwrap();
            logins::write_files(dir);
            let configuration = (self.configuration)(dir, address, &name(address));
            fs::write(dir.join("main.conf"), configuration).unwrap();
        })
    }
}

/// Both ways through two depots, with curl and wget.
fn a_site_is_served_through_depots(recipe: &Recipe) {
    let depots = ["near", "far"].map(|id| Daemon::depot(&format!("id = \"{id}\"")));
    let [near, far] = depots.each_ref().map(Daemon::authority);
    let body = noise(21, 2_000_003);
    for way in
        [format!("http://{near}/lh1/fetch/{far}"), format!("http://{far}/lh1/lead/{near}/{far}")]
    {
        let server = recipe.start(|_| (recipe.depots)("127.0.0.0/8", &way));
        let url = server.url("/a%20b/file.bin?x=%2F&y=1");

        let asked = curl(&["-w", "%{http_code} %{redirect_url}", "-o", "/dev/null", &url]);
        let expected = format!("302 {way}/http:{}/a%20b/file.bin?x=%2F&y=1", server.address);
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
        // Files are sent through depots, pages are not. A query changes neither.
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
        // The server itself handles everything except downloads.
        let post = curl(&["-o", "/dev/null", "-w", "%{http_code}", "-d", "x", &url]);
        assert_ne!(post.stdout, b"302");
    }
    for depot in &depots {
        depot.await_log(&["complete", "bytes=2000003"]);
    }
    // Networks that are not listed are served directly.
    let server = recipe.start(|_| (recipe.depots)("192.0.2.0/24", "http://depot:3880/lh1/fetch/-"));
    let got = curl(&["-f", &server.url("/a%20b/file.bin")]);
    assert_eq!(sha256(&got.stdout), sha256(&body));
}

#[test]
fn nginx() {
    a_site_is_served_through_depots(&WITH_NGINX);
}

#[test]
fn apache() {
    a_site_is_served_through_depots(&WITH_APACHE);
}

/// What depots would refuse, or clients would not send them, is answered by the site itself.
fn what_depots_cannot_do_is_answered_here(recipe: &Recipe) {
    let way = "http://depot:3880/lh1/fetch/-";
    let server = recipe.start(|_| (recipe.depots)("127.0.0.0/8", way));
    let answer = |request: &str| {
        let mut stream = connect(server.address);
        stream.write_all(request.as_bytes()).unwrap();
        let (head, body, _) = read_answer(stream);
        (status(&head), head, body)
    };
    let asked = |target: &str, fields: &str| {
        answer(&format!("GET {target} HTTP/1.1\r\nHost: o\r\nConnection: close\r\n{fields}\r\n"))
    };
    let file = "/a%20b/file.bin";
    let body = noise(21, 2_000_003);
    let log_in = [
        "Cookie: session=1\r\n",
        "Authorization: Basic YTpi\r\n",
        "cookie: a\r\nAUTHORIZATION: b\r\n",
    ];
    for fields in log_in {
        let (code, head, got) = asked(file, fields);
        assert!(code == 200 && got == body, "{fields}: {head}");
    }
    // The same in other fields, or an empty one, is not a login.
    for fields in ["", "X-Cookie: session=1\r\n", "Cookie:\r\n"] {
        let (code, head, _) = asked(file, fields);
        assert!(code == 302 && head.contains(way), "{fields}: {head}");
    }
    let dots = ["/./", "/x/../", "/%2e/", "/x/%2E%2e/", "/x/.%2E/"];
    for target in dots.map(|dots| format!("{dots}a%20b/file.bin")) {
        let (code, head, got) = asked(&target, "");
        assert!(code == 200 && got == body, "{target}: {head}");
    }
    for target in ["/a/.", "/a/..", "/a/%2e?x", "/caf\u{e9}.bin", "/a#b.bin"] {
        let (code, head, _) = asked(target, "");
        assert!(code != 302 && !head.contains(way), "{target}: {head}");
    }
    // Dots that are none of a path's, and what is long, but not too long.
    for target in
        ["/.hidden", "/...", "/a.b", "/a?/../", "/a?%2e%2e", &format!("/{}", "x".repeat(6900))]
    {
        let (code, head, _) = asked(target, "");
        let route = format!("{}:{}{target}", "http", server.address);
        assert_eq!(code, 302, "{target}: {head}");
        assert!(head.contains(&format!("{way}/{route}\r\n")), "{target}: {head}");
        let route: protocol::Route = format!("/lh1/fetch/-/{route}").parse().unwrap();
        assert_eq!(route.origin().target(), target);
    }
    assert_ne!(asked(&format!("/{}", "x".repeat(7100)), "").0, 302);
    // A target with a host may lack a path.
    let (code, head, _) = asked("http://any?x/y", "");
    assert!(code != 302 || head.contains(&format!(":{}/?x/y\r\n", server.address)), "{head}");
}

#[test]
fn nginx_answers_what_depots_cannot() {
    what_depots_cannot_do_is_answered_here(&WITH_NGINX);
}

#[test]
fn apache_answers_what_depots_cannot() {
    what_depots_cannot_do_is_answered_here(&WITH_APACHE);
}

/// An upload is stored at the site, also by a client that follows no redirect; only downloads are redirected.
fn only_downloads_are_redirected(recipe: &Recipe) {
    let depot = Daemon::depot("id = \"near\"\n[allow]\nclients = [\"127.0.0.0/8\"]\n");
    let way = format!("http://{}/lh1/fetch/far.example", depot.authority());
    let server = recipe.start(|_| (recipe.depots)("127.0.0.0/8", &way));
    let (body, site) = (noise(22, 5_000_017), server.dir.path().join("site/a b"));
    let sent = server.dir.path().join("sent");
    fs::write(&sent, &body).unwrap();
    let put = curl(&["-w", "%{http_code}", "-T", sent.to_str().unwrap(), &server.url("/a%20b/up")]);
    assert!(put.status.success(), "{put:?}");
    assert!(put.stdout.ends_with(b"201"), "{put:?}");
    assert_eq!(sha256(&fs::read(site.join("up")).unwrap()), sha256(&body));
    let status = |method: &str| {
        let to = ["-X", method, "-d", "x=1", "-o", "/dev/null", "-w", "%{http_code}"];
        let output = curl(&[&to[..], &[&server.url("/a%20b/file.bin")]].concat());
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(status("GET"), "302");
    for method in ["PUT", "POST", "PATCH", "DELETE", "OPTIONS", "MKCOL", "PROPFIND", "get", "GETS"]
    {
        assert!(!status(method).starts_with('3'), "{method}: {}", status(method));
    }
}

#[test]
fn nginx_redirects_only_downloads() {
    only_downloads_are_redirected(&WITH_NGINX);
}

#[test]
fn apache_redirects_only_downloads() {
    only_downloads_are_redirected(&WITH_APACHE);
}

#[test]
fn the_examples_are_valid() {
    for recipe in [WITH_NGINX, WITH_APACHE] {
        let example = deploy(recipe.folder).join("longhaul-depots.conf");
        let example = fs::read_to_string(example).unwrap();
        recipe.start(|_| example.clone());
        // The ways in it are routes.
        let ways = example.lines().filter(|line| !line.starts_with('#'));
        for line in ways {
            let start = line.find("/lh1/").expect(line);
            let way = line[start..].trim_end_matches([';', '"']);
            let route: protocol::Route = format!("{way}/http:o/").parse().expect(line);
            let _ = route.step();
        }
    }
    let text = fs::read_to_string(deploy("depot.toml")).unwrap();
    longhaul_depot::Config::from_toml(&text, "depot.toml").unwrap();
    let text = fs::read_to_string(deploy("failover/failover.toml")).unwrap();
    ::failover::Config::from_toml(&text, "failover.toml").unwrap();
    let mut units: Vec<_> =
        fs::read_dir(deploy("systemd")).unwrap().map(|f| f.unwrap().path()).collect();
    units.retain(|unit| unit.extension().is_some_and(|kind| kind == "service" || kind == "socket"));
    units.push(deploy("portal/longhaul-portal.service"));
    assert_eq!(units.len(), 7, "{units:?}");
    let units = units.iter().map(|unit| unit.to_str().unwrap());
    let arguments: Vec<_> = ["--man=no", "verify"].into_iter().chain(units).collect();
    let checked = run("systemd-analyze", "systemd", &arguments);
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    // The programs are not installed where the tests run; that is all it may find.
    let installed =
        |line: &str| line.contains("/usr/bin/longhaul") || line.contains("/mint-ticket.py");
    let wrong = said.lines().filter(|line| line.contains("longhaul") && !installed(line));
    assert_eq!(wrong.collect::<Vec<_>>(), Vec::<&str>::new(), "{said}");
}

#[test]
fn units_with_takeover_use_the_same_rules() {
    let rules = |unit: &str| {
        let text = fs::read_to_string(deploy("systemd").join(unit)).unwrap();
        let service = text.split("[Service]").nth(1).unwrap().split("[Install]").next().unwrap();
        let lines = service.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let alone = rules("longhaul-depot.service");
    assert!(alone.iter().any(|line| line == "NoNewPrivileges=yes"), "{alone:?}");
    assert_eq!(alone, rules("longhaul-depot@.service"));
}
