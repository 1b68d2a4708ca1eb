// SPDX-License-Identifier: GPL-2.0-or-later
//! What the small origin gives away: the files of its directory, and nothing else.

use crate::common::{
    client::{get, status},
    process::Daemon,
};
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

/// A directory of files, with links and places that lead out of it.
fn site_with_ways_out(folder: &Path) -> PathBuf {
    let (site, beside) = (folder.join("site"), folder.join("site-beside"));
    for dir in [&site.join("sub"), &beside] {
        fs::create_dir_all(dir).unwrap();
    }
    for file in [&site.join("file"), &site.join("sub/file")] {
        fs::write(file, "inside").unwrap();
    }
    for file in [&folder.join("secret"), &beside.join("secret")] {
        fs::write(file, "secret").unwrap();
    }
    let link = |name: &str, to: &Path| symlink(to, site.join(name)).unwrap();
    link("within", Path::new("sub/file"));
    link("sub/up", Path::new("../file"));
    link("out", Path::new("../secret"));
    link("far", &folder.join("secret"));
    link("folder", &beside);
    link("parent", Path::new(".."));
    link("own-by-its-whole-name", &site.join("file"));
    link("process", Path::new("/proc/self/root"));
    link("twice", Path::new("out"));
    link("round", Path::new("round"));
    rustix::fs::mknodat(
        rustix::fs::CWD,
        site.join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    site
}

#[test]
fn no_path_or_link_escapes_the_directory() {
    let folder = tempfile::tempdir().unwrap();
    let site = site_with_ways_out(folder.path());
    let origin = Daemon::origin(&site, "fetch", &[]);
    for path in ["/file", "/sub/file", "/within", "/sub/up", "/sub//file", "/%66ile"] {
        let (head, body, _) = get(origin.address, path);
        assert_eq!((status(&head), &body[..]), (200, &b"inside"[..]), "{path}: {head}");
    }
    for path in [
        "/out",
        "/far",
        "/folder/secret",
        "/folder/",
        "/parent/secret",
        "/parent/site-beside/secret",
        "/own-by-its-whole-name",
        "/process/etc/passwd",
        "/twice",
        "/round",
        "/fifo",
        "/../secret",
        "/sub/../../secret",
        "/%2e%2e/secret",
        "/..%2fsecret",
        "/%2e%2e%2fsecret",
        "/..\\secret",
        "/..%5csecret",
        "/.%2e/site-beside/secret",
        "//../secret",
        "/file/../../secret",
        "/%c0%ae%c0%ae/secret",
        "/..%00/secret",
        "/..;/secret",
        "/sub",
        "/none",
    ] {
        let (head, body, _) = get(origin.address, path);
        let text = String::from_utf8_lossy(&body).into_owned();
        assert!(status(&head) != 200 && !text.contains("secret\n"), "{path}: {head}{text}");
        assert_ne!(text, "secret", "{path}");
        assert!(status(&head) < 500, "{path}: {head}{text}");
    }
}

#[test]
fn listing_shows_nothing_beyond_the_directory() {
    let folder = tempfile::tempdir().unwrap();
    let site = site_with_ways_out(folder.path());
    let origin = Daemon::listing_origin(&site, &[]);
    let names = |path: &str| {
        let (head, body, _) = get(origin.address, path);
        assert_eq!(status(&head), 200, "{path}: {head}");
        let page = String::from_utf8(body).unwrap();
        let links = page.split("href=\"").skip(1);
        links.map(|link| link.split('"').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // What is listed can be asked for; links and places that lead out, and to the parent, are not there.
    assert_eq!(names("/"), ["file", "sub/", "within"]);
    assert_eq!(names("/sub/"), ["file", "up"]);
    assert_eq!(names("/sub//"), ["file", "up"]);
    for path in [
        "/folder/",
        "/parent/",
        "/process/",
        "/process/etc/",
        "/../",
        "/sub/../",
        "/sub/../../",
        "/%2e%2e/",
        "/sub/%2e%2e/",
        "/..%2f/",
        "//",
        "//etc/",
        "/%2fetc/",
        "/file/",
        "/fifo/",
        "/none/",
        "/%00/",
        "/%ff/",
    ] {
        let (head, body, _) = get(origin.address, path);
        let text = String::from_utf8_lossy(&body).into_owned();
        assert!((300..500).contains(&status(&head)) || text == "inside", "{path}: {head}{text}");
        assert!(!text.contains("href"), "{path}: {text}");
    }
    // Without being told to it lists nothing.
    let silent = Daemon::origin(&site, "fetch", &[]);
    for path in ["/", "/sub/"] {
        assert_eq!(status(&get(silent.address, path).0), 404, "{path}");
    }
}
