// SPDX-License-Identifier: GPL-2.0-or-later
//! Listings of `longhaul origin`, read by the real rclone and curl, directly and through depots.

use crate::common::{
    client::{curl, run},
    noise,
    process::Daemon,
};
use std::{fs, path::Path};

/// Names that links and pages have to escape.
const NAMES: [&str; 9] = [
    "a b",
    "x:y",
    "50%",
    "q?r#s",
    "caf\u{e9}",
    ".hidden",
    "<i>&amp;",
    "it's \"so\"",
    "back\\slash",
];

/// Files of these names, at the top and in directories, one of them in one with an `index.html`.
fn tree(root: &Path) -> Vec<String> {
    let mut files: Vec<String> = NAMES.map(str::to_owned).into();
    files.extend(["sub dir/a", "sub dir/b c/d", "100%/x:y"].map(str::to_owned));
    for (n, file) in files.iter().enumerate() {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, noise(n as u64, 1000 + n)).unwrap();
    }
    files.sort_unstable();
    files
}

/// Runs rclone on the URL of a directory.
fn rclone(url: &str, arguments: &[&str]) -> String {
    let own = ["--config", "/dev/null", "--retries", "1", "--low-level-retries", "1"];
    let output = run("rclone", "rclone", &[&own[..], &["--http-url", url], arguments].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("ERROR"), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn rclone_lists_and_copies_a_tree_directly_and_through_depots() {
    let root = tempfile::tempdir().unwrap();
    let files = tree(root.path());
    let depots = ["near", "far"].map(|id| Daemon::depot(&format!("id = \"{id}\"")));
    let [near, far] = &depots;
    let (alone, led) = (
        Daemon::listing_origin(root.path(), &[]),
        Daemon::listing_origin(root.path(), &[near, far]),
    );
    let route = format!("/lh1/fetch/{}/http:{}/", far.authority(), alone.authority());
    // rclone asks for "./x:y" at the top, and a route has no such segments.
    let in_route: Vec<_> = files.iter().filter(|file| *file != "x:y").cloned().collect();
    for (url, files) in
        [(alone.url("/"), &files), (led.url("/"), &files), (near.url(&route), &in_route)]
    {
        let listed = rclone(&url, &["lsf", "-R", "--files-only", ":http:"]);
        let mut listed: Vec<_> = listed.lines().collect();
        listed.sort_unstable();
        assert_eq!(listed, *files, "{url}");
        let copy = tempfile::tempdir().unwrap();
        rclone(&url, &["copy", ":http:", copy.path().to_str().unwrap()]);
        for file in files {
            let [copied, own] = [copy.path(), root.path()].map(|dir| fs::read(dir.join(file)));
            assert_eq!(copied.unwrap(), own.unwrap(), "{url}: {file}");
        }
    }
    // Files go through depots, and their listings do not.
    far.await_log(&["complete", "GET", "sub%20dir/a"]);
    let got = curl(&["-o", "/dev/null", "-w", "%{http_code}", &led.url("/sub%20dir/")]);
    assert_eq!(got.stdout, b"200");
    let got = curl(&["-o", "/dev/null", "-w", "%{http_code}", &led.url("/sub%20dir/a")]);
    assert_eq!(got.stdout, b"302");
}

#[test]
fn listing_is_served_only_without_index() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("with")).unwrap();
    fs::create_dir_all(root.path().join("without")).unwrap();
    fs::write(root.path().join("with/index.html"), "own page").unwrap();
    fs::write(root.path().join("without/file"), "").unwrap();
    let origin = Daemon::listing_origin(root.path(), &[]);
    assert_eq!(curl(&["-f", &origin.url("/with/")]).stdout, b"own page");
    // Without the slash, relative links would resolve outside the directory.
    let got = curl(&["-f", "-L", "-w", "%{url_effective}", &origin.url("/without")]);
    let page = String::from_utf8(got.stdout).unwrap();
    assert!(page.contains("<a href=\"file\">file</a>\n"), "{page}");
    assert!(page.ends_with(&origin.url("/without/")), "{page}");
    let head = String::from_utf8(curl(&["-f", "-I", &origin.url("/without/")]).stdout).unwrap();
    assert!(
        head.to_lowercase().contains("\r\ncontent-type: text/html; charset=utf-8\r\n"),
        "{head}"
    );
}

#[test]
fn origin_serves_a_redirected_back_client() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("file"), "here").unwrap();
    let depot = Daemon::depot("id = \"d\"");
    let origin = Daemon::origin(root.path(), "fetch", &[&depot]);
    assert_eq!(curl(&["-f", &origin.url("/file?lh-direct=1")]).stdout, b"here");
    let got = curl(&["-o", "/dev/null", "-w", "%{http_code}", &origin.url("/file?lh-direct=0")]);
    assert_eq!(got.stdout, b"302");
}
