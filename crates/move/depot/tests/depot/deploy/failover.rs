// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul failover` with real nginx and Apache, and real depots that die, hang and come back.

use super::{Recipe, WITH_APACHE, WITH_NGINX};
use crate::common::{
    client::curl,
    noise,
    pki::Pki,
    process::Daemon,
    refusing_address, sha256,
    web::{Program, Server},
};
use rustix::process::Signal;
use std::{
    fs,
    path::Path,
    process::{Child, Stdio},
    time::{Duration, Instant},
};
use testkit::until;

/// From a depot's death to the first client that is led past it.
const BOUND: Duration = Duration::from_secs(5);

/// Networks of each kind, none of which holds the tests' clients.
const OTHERS: [&str; 8] = [
    "::/0",
    "2001:db8::/32",
    "2001:db8::1/128",
    "fe80::1:2/10",
    "::ffff:192.0.2.9/120",
    "128.0.0.0/1",
    "192.0.2.77/25",
    "198.51.100.1/32",
];

/// The servers as they run outside of tests, with processes of their own. Those end with them.
const NGINX: Recipe = Recipe {
    program: Program { name: "unshare", package: "nginx-light and util-linux", args: nginx },
    configuration: |dir, address, site| {
        (WITH_NGINX.configuration)(dir, address, site)
            .replace("master_process off", "master_process on")
    },
    ..WITH_NGINX
};

const APACHE: Recipe = Recipe {
    program: Program { name: "unshare", package: "apache2-bin and util-linux", args: apache },
    ..WITH_APACHE
};

fn nginx(dir: &Path) -> Vec<String> {
    contained("nginx", (WITH_NGINX.program.args)(dir))
}

fn apache(dir: &Path) -> Vec<String> {
    let conf = dir.join("main.conf").display().to_string();
    contained("apache2", vec!["-DFOREGROUND".to_owned(), "-f".to_owned(), conf])
}

fn contained(program: &str, arguments: Vec<String>) -> Vec<String> {
    let words = ["--pid", "--fork", "--kill-child", program].map(str::to_owned);
    words.into_iter().chain(arguments).collect()
}

/// A site whose depots `longhaul failover` looks after, with the defaults; ended when dropped.
struct Site {
    server: Server,
    lead: Child,
}

impl Site {
    fn start(recipe: &Recipe, routes: &[String]) -> Self {
        let server = recipe.start(|_| String::new());
        let (pid, dir) = (server.pid(), server.dir.path());
        // As `nginx -s reload` and `apachectl graceful` do.
        let signal = if recipe.folder == "nginx" { "HUP" } else { "USR1" };
        let reload =
            format!("[\"sh\", \"-c\", \"kill -{signal} $(cat /proc/{pid}/task/{pid}/children)\"]");
        let settings = format!(
            "server = \"{}\"\ninclude = \"{}/longhaul-depots.conf\"\nreload = {reload}\n\
             [[clients]]\nnetworks = [\"127.0.0.0/8\"]\nroutes = {routes:?}\n\
             [[clients]]\nnetworks = {OTHERS:?}\nroutes = [\"http://depot:3880/lh1/fetch/-\"]\n",
            recipe.folder,
            dir.display(),
        );
        let log = fs::File::create(dir.join("lead.log")).unwrap();
        let mut command = Daemon::command("exec \"$0\" \"$@\"", "lead", &settings);
        let lead = command.stderr(log).stdout(Stdio::null()).spawn().unwrap();
        Self { server, lead }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.server.dir.path().join("lead.log")).unwrap()
    }

    /// Awaits that clients are led this way, or served directly where it is empty; they get the file.
    fn await_way(&self, way: &str) {
        let url = self.server.url("/a%20b/file.bin");
        let is_led = || {
            let asked = curl(&["-w", "%{redirect_url}", "-o", "/dev/null", &url]);
            let to = String::from_utf8(asked.stdout).unwrap();
            if way.is_empty() { to.is_empty() } else { to.starts_with(way) }
        };
        let file = sha256(&noise(21, 2_000_003));
        let gets_it = || sha256(&curl(&["-f", "-L", "-m", "3", &url]).stdout) == file;
        // During a reload a server answers alternately with the old and the new configuration.
        let settled = || (0..5).all(|_| is_led()) && gets_it();
        until(&format!("clients are led to \"{way}\", and get the file"), settled);
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.lead.kill();
        let _ = self.lead.wait();
    }
}

fn depot(id: &str, port: u16) -> Daemon {
    Daemon::depot_with(&format!("id = \"{id}\"\nlisten = [\"127.0.0.1:{port}\"]\n"))
}

fn a_site_survives_its_depots(recipe: &Recipe) {
    let (near, far) = (depot("near", 0), depot("far", 0));
    let (n, f) = (near.authority(), far.authority());
    let (both, one) = (format!("http://{n}/lh1/fetch/{f}"), format!("http://{f}/lh1/fetch/-"));
    let site = Site::start(recipe, &[both.clone(), one.clone()]);
    site.await_way(&both);

    let (died, port) = (Instant::now(), near.address.port());
    drop(near);
    site.await_way(&one);
    let took = died.elapsed();
    println!("{}: led past a dead depot after {took:?}", recipe.folder);
    assert!(took < BOUND, "{took:?}");
    let near = depot("near", port);
    site.await_way(&both);

    // As a host that hangs: its kernel still takes connections.
    let fell_silent = Instant::now();
    near.signal(Signal::STOP);
    site.await_way(&one);
    println!("{}: led past a silent depot after {:?}", recipe.folder, fell_silent.elapsed());
    near.signal(Signal::CONT);
    site.await_way(&both);

    // Without this one there is no way.
    drop(far);
    site.await_way("");
}

#[test]
fn a_site_on_nginx_survives_its_depots() {
    a_site_survives_its_depots(&NGINX);
}

#[test]
fn a_site_on_apache_survives_its_depots() {
    a_site_survives_its_depots(&APACHE);
}

#[test]
fn non_depots_are_skipped_and_include_is_retried() {
    let near = depot("near", 0);
    let silent = refusing_address();
    let other = WITH_NGINX.start(|_| String::new());
    let way = |depot: String| format!("http://{depot}/lh1/fetch/-");
    let pki = Pki::new();
    let secured = pki.depot("id = \"secured\"");
    let without_tls = secured.authority();
    let routes =
        [silent.to_string(), other.address.to_string(), without_tls, near.authority()].map(way);
    let site = Site::start(&NGINX, &routes);
    site.await_way(&routes[3]);
    assert!(site.log().contains("does it speak TLS there"), "{}", site.log());
    // A directory in place of the include makes it unwritable.
    let include = site.server.dir.path().join("longhaul-depots.conf");
    fs::remove_file(&include).unwrap();
    fs::create_dir(&include).unwrap();
    until("it says what is wrong", || site.log().contains("longhaul-depots.conf"));
    assert!(site.log().contains("WARN"), "{}", site.log());
    fs::remove_dir(&include).unwrap();
    until("it is written again", || include.is_file());
    site.await_way(&routes[3]);
}
