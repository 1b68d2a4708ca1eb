// SPDX-License-Identifier: GPL-2.0-or-later
//! What the small origin gives away: the files of its directory, and nothing else.

use crate::common::{
    client::{exchange, get, status},
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

#[test]
fn files_of_any_date_are_served() {
    // The file system of /tmp may not have all dates.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let origin = Daemon::origin(folder.path(), "fetch", &[]);
    for (seconds, date) in [
        (i64::MIN / 4, None),
        (-1, None),
        (0, Some("Thu, 01 Jan 1970 00:00:00 GMT")),
        (253_402_300_799, Some("Fri, 31 Dec 9999 23:59:59 GMT")),
        (253_402_300_800, None),
        (i64::MAX / 4, None),
    ] {
        let file = folder.path().join("file");
        fs::write(&file, "served").unwrap();
        let time = rustix::fs::Timespec { tv_sec: seconds, tv_nsec: 5 };
        let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
        let flags = rustix::fs::AtFlags::empty();
        rustix::fs::utimensat(rustix::fs::CWD, &file, &times, flags).unwrap();
        if std::os::unix::fs::MetadataExt::mtime(&fs::metadata(&file).unwrap()) != seconds {
            println!("{seconds}: not a date of this file system");
            continue;
        }
        let condition = "If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT\r\n";
        for (method, fields) in [("GET", ""), ("HEAD", ""), ("GET", condition)] {
            let request =
                format!("{method} /file HTTP/1.1\r\nHost: o\r\n{fields}Connection: close\r\n\r\n");
            let (head, body, _) = exchange(origin.address, request.as_bytes());
            let is_old = !fields.is_empty() && seconds == 0;
            assert_eq!(status(&head), if is_old { 304 } else { 200 }, "{seconds}: {head}");
            assert!(method == "HEAD" || is_old || body == b"served", "{seconds}");
            let told = head.lines().find_map(|l| l.strip_prefix("last-modified: "));
            assert!(told == date || is_old, "{seconds}: {head}");
        }
    }
}

#[test]
fn files_without_a_length_are_served_to_their_end() {
    // Their length by stat is 0.
    let directory = Path::new("/proc/sys/fs/inotify");
    let origin = Daemon::origin(directory, "fetch", &[]);
    for name in ["max_user_watches", "max_user_instances"] {
        let content = fs::read(directory.join(name)).unwrap();
        assert!(!content.is_empty());
        let (head, body, _) = get(origin.address, &format!("/{name}"));
        assert!(status(&head) == 200 && body == content, "{head}");
        let request = format!("HEAD /{name} HTTP/1.1\r\nHost: o\r\nConnection: close\r\n\r\n");
        let (head, ..) = exchange(origin.address, request.as_bytes());
        assert!(head.contains(&format!("content-length: {}\r\n", content.len())), "{head}");
    }
}
