// SPDX-License-Identifier: GPL-2.0-or-later
//! Logins behind the recipes: by Basic authentication and by a cookie, with the real curl and wget. The site is
//! `localhost` and the depots are `127.0.0.1`, so that clients take them for different hosts.

use super::{Recipe, WITH_APACHE, WITH_NGINX};
use crate::common::{
    client::{curl, wget},
    noise,
    process::Daemon,
    sha256,
    web::Server,
};
use std::{fs, path::Path, process::Output};
use testkit::until;

pub(super) const NGINX_LOG: &str = "log_format seen '$request_uri $status via=$http_via \
    auth=$http_authorization cookie=$http_cookie';";

/// Files below `/private/` by a password, and below `/members/` by a cookie of the login page, which the recipe knows by
/// the mark in its return address.
pub(super) const NGINX_CONF: &str = "\
    error_page 401 /401.txt;
    location /private/ { auth_basic files; auth_basic_user_file users; }
    location /members/ { if ($cookie_session != yes) { return 302 /sign-in.php?next=$request_uri; } }
    location = /sign-in.php {
        if ($request_method = POST) {
            add_header Set-Cookie \"session=yes; Path=/\";
            return 303 /members/file.bin;
        }
        return 200 \"the login page\";
    }";

pub(super) const APACHE_MODULES: [&str; 5] =
    ["authn_core", "authn_file", "authz_user", "auth_basic", "headers"];

/// The same, with a login page that the recipe knows by its name.
pub(super) const APACHE_CONF: &str = "\
LogFormat \"%U%q %>s via=%{Via}i auth=%{Authorization}i cookie=%{Cookie}i\" seen
CustomLog seen.log seen
ErrorDocument 401 /401.txt
<Location /private/>
    AuthType Basic
    AuthName files
    AuthUserFile users
    Require valid-user
</Location>
RewriteCond %{HTTP:Cookie} !session=yes
RewriteRule ^/members/ /login [R=302,L]
RewriteCond %{REQUEST_METHOD} =POST
RewriteRule ^/login$ /members/file.bin [R=303,L]
Header always set Set-Cookie \"session=yes; Path=/\" \\
    \"expr=%{REQUEST_URI} == '/login' && %{REQUEST_METHOD} == 'POST'\"";

pub(super) fn write_files(dir: &Path) {
    for folder in ["private", "members"] {
        let folder = dir.join("site").join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("file.bin"), secret()).unwrap();
    }
    fs::write(dir.join("site/login"), "the login page").unwrap();
    fs::write(dir.join("site/401.txt"), "your password, please").unwrap();
    // "secret", in the form that both servers read.
    fs::write(dir.join("users"), "alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n").unwrap();
}

fn secret() -> Vec<u8> {
    noise(23, 300_007)
}

/// A site of a recipe, and the depots that its clients are sent to.
struct Site {
    server: Server,
    depots: [Daemon; 2],
    /// Redirects until a client is back at the site.
    to_depots_and_back: usize,
}

impl Site {
    /// One for each form of routes.
    fn each(recipe: &Recipe) -> [Self; 2] {
        ["fetch", "lead"].map(|form| {
            let depots = ["near", "far"].map(|id| Daemon::depot(&format!("id = \"{id}\"")));
            let [near, far] = depots.each_ref().map(Daemon::authority);
            let way = match form {
                "fetch" => format!("http://{near}/lh1/fetch/{far}"),
                _ => format!("http://{far}/lh1/lead/{near}/{far}"),
            };
            let server = recipe.start_as(
                |address| format!("localhost:{}", address.port()),
                |_| (recipe.depots)("127.0.0.0/8", &way),
            );
            Self { server, depots, to_depots_and_back: if form == "fetch" { 2 } else { 3 } }
        })
    }

    fn url(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.server.address.port())
    }

    fn file(&self, name: &str) -> String {
        self.server.dir.path().join(name).to_str().unwrap().to_owned()
    }

    /// The site has received this many requests through depots, all without credentials.
    fn was_asked_through_depots(&self, times: usize) {
        let mut seen = Vec::new();
        // Servers write a line of their log when its response has gone.
        until("the site's log has what it was asked", || {
            let log = fs::read_to_string(self.file("seen.log")).unwrap();
            let through = log.lines().filter(|line| line.contains("(longhaul)"));
            seen = through.map(str::to_owned).collect();
            seen.len() >= times
        });
        assert_eq!(seen.len(), times, "{seen:?}");
        for line in seen {
            assert!(line.ends_with("auth=- cookie=-"), "{line}");
        }
    }
}

/// The content that curl got, and how.
fn told(arguments: &[&str]) -> (Vec<u8>, String) {
    let how = ["-w", "%{stderr}%{http_code} %{num_redirects} %{url_effective}"];
    let Output { stdout, stderr, .. } = curl(&[&how[..], arguments].concat());
    (stdout, String::from_utf8(stderr).unwrap())
}

fn basic_authentication_is_the_sites_own(recipe: &Recipe) {
    for site in Site::each(recipe) {
        let url = site.url("/private/file.bin?a=b");
        let direct = format!("{url}&lh-direct=1");
        // Without credentials: to the depots and back, where the site itself asks for them.
        let (body, how) = told(&["-L", "-D", "-", &url]);
        assert_eq!(how, format!("401 {} {direct}", site.to_depots_and_back));
        let text = String::from_utf8_lossy(&body).to_lowercase();
        assert_eq!(text.matches("www-authenticate: basic realm=\"files\"").count(), 1, "{text}");
        assert!(text.ends_with("your password, please"), "{text}");
        site.was_asked_through_depots(1);
        // curl forgets a password for a later challenge at the first redirect to another host. With the mark there is none.
        let later = ["-L", "--anyauth", "-u", "alice:secret"];
        let (_, how) = told(&[&later[..], &[&url]].concat());
        assert_eq!(how, format!("401 {} {direct}", site.to_depots_and_back));
        let (body, how) = told(&[&later[..], &[&direct]].concat());
        assert_eq!(how, format!("200 1 {direct}"), "the challenge counts as a redirect");
        assert_eq!(sha256(&body), sha256(&secret()));
        // Credentials at once: the site answers at once.
        let (body, how) = told(&["-L", "-u", "alice:secret", &url]);
        assert_eq!(how, format!("200 0 {url}"));
        assert_eq!(sha256(&body), sha256(&secret()));
        assert_eq!(told(&["-L", "-u", "alice:wrong", &url]).1, format!("401 0 {url}"));
        // Without -L curl gets no file, and takes that for a success.
        let saved = site.file("saved");
        let (_, how) = told(&["-f", "-o", &saved, &url]);
        assert_eq!(how, format!("302 0 {url}"));
        assert_ne!(fs::read(&saved).unwrap_or_default(), secret());
        // wget keeps it, as browsers do.
        let got = wget(&["-O", &saved, "--user=alice", "--password=secret", &url]);
        assert!(got.status.success(), "{got:?}");
        assert_eq!(sha256(&fs::read(&saved).unwrap()), sha256(&secret()));
        let got = wget(&["-O", &saved, &url]);
        assert_eq!(got.status.code(), Some(6), "wget was not asked for a password");
        // curl and wget were sent there, each with and without a password to give, and gave none.
        site.was_asked_through_depots(4);
    }
}

fn login_page_is_the_sites_own(recipe: &Recipe, login: &str) {
    for site in Site::each(recipe) {
        let (url, login) = (site.url("/members/file.bin"), site.url(login));
        let (body, how) = told(&["-L", &url]);
        let to_login = format!("200 {} {login}", site.to_depots_and_back + 1);
        assert!(how.starts_with(&to_login), "{how}");
        assert_eq!(String::from_utf8_lossy(&body), "the login page");
        let got = wget(&["-O", "-", &url]);
        assert_eq!(String::from_utf8_lossy(&got.stdout), "the login page");
        // The one request that came through depots is that for the file, and for no page of the login.
        site.was_asked_through_depots(2);
        // With the cookie the site answers itself.
        let jar = site.file("jar");
        let (body, how) = told(&["-L", "-c", &jar, "-d", "user=alice", &login]);
        assert_eq!(how, format!("200 1 {url}"));
        assert_eq!(sha256(&body), sha256(&secret()));
        let (body, how) = told(&["-L", "-b", &jar, &url]);
        assert_eq!(how, format!("200 0 {url}"));
        assert_eq!(sha256(&body), sha256(&secret()));
        let got = wget(&["-O", "-", "--load-cookies", &jar, &url]);
        assert_eq!(sha256(&got.stdout), sha256(&secret()), "{got:?}");
        site.was_asked_through_depots(2);
    }
}

fn open_file_still_goes_through_depots(recipe: &Recipe) {
    for site in Site::each(recipe) {
        let url = site.url("/a%20b/file.bin");
        let (body, how) = told(&["-f", "-L", &url]);
        let redirects = site.to_depots_and_back - 1;
        assert!(how.starts_with(&format!("200 {redirects} http://127.0.0.1:")), "{how}");
        assert_eq!(sha256(&body), sha256(&noise(21, 2_000_003)));
        for depot in &site.depots {
            depot.await_log(&["complete", "bytes=2000003"]);
        }
        // A client that has been sent back, and anybody who says so, is answered here.
        let (body, how) = told(&["-f", &format!("{url}?lh-direct=1&a=b")]);
        assert!(how.starts_with("200 0 "), "{how}");
        assert_eq!(sha256(&body), sha256(&noise(21, 2_000_003)));
        // So does a return address that has the mark, and what is called after a login.
        let answered =
            |path: &str| told(&[&site.url(path)]).1.split(' ').next().unwrap().to_owned();
        for query in ["?to=/f?lh-direct=1", "?to=%2Ff%3Fa%26lh-direct%3D1", "?%253Flh-direct%253D1"]
        {
            assert_eq!(answered(&format!("/a%20b/file.bin{query}")), "200", "{query}");
        }
        assert_ne!(answered("/LOGIN.php"), "302");
        for path in ["?lh-direct=2", "?a=lh-direct=1", "?lh-direct=10", "?xlh-direct=1", ""] {
            assert_eq!(answered(&format!("/a%20b/file.bin{path}")), "302", "{path}");
        }
        for path in ["/a%20b/login", "/logins.bin", "/x?/login"] {
            assert_eq!(answered(path), "302", "{path}");
        }
        // The form of a page may hold a password, which depots must not see.
        let form = ["-d", "password=secret", &site.url("/a%20b/form.php")];
        assert!(!told(&form).1.starts_with("307"), "{:?}", told(&form));
    }
}

#[test]
fn basic_authentication_behind_nginx() {
    basic_authentication_is_the_sites_own(&WITH_NGINX);
}

#[test]
fn basic_authentication_behind_apache() {
    basic_authentication_is_the_sites_own(&WITH_APACHE);
}

#[test]
fn login_page_behind_nginx() {
    login_page_is_the_sites_own(&WITH_NGINX, "/sign-in.php");
}

#[test]
fn login_page_behind_apache() {
    login_page_is_the_sites_own(&WITH_APACHE, "/login");
}

#[test]
fn open_file_behind_nginx() {
    open_file_still_goes_through_depots(&WITH_NGINX);
}

#[test]
fn open_file_behind_apache() {
    open_file_still_goes_through_depots(&WITH_APACHE);
}
