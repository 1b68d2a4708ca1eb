// SPDX-License-Identifier: GPL-2.0-or-later
use super::*;
use crate::admission::denied::{self, Shunned};
use std::{
    os::unix::fs::{PermissionsExt, symlink},
    sync::LazyLock,
};

/// One time for all denials of a test, so that those made a second later are equal.
static UNTIL_UNIX_S: LazyLock<u64> = LazyLock::new(|| denied::now() + 600);

fn denial(n: usize) -> Denial {
    let who = Shunned::Ticket(format!("t{n}"));
    Denial { who, until_unix_s: *UNTIL_UNIX_S, why: "too \"much\"".to_owned() }
}

fn decisions(n: usize) -> Decisions {
    let limit =
        |n| Limit { whose: Limited::Client(std::net::Ipv4Addr::from(n).into()), rate_bps: 8_000 };
    Decisions { denied: (0..n).map(denial).collect(), limits: (0..n as u32).map(limit).collect() }
}

/// What the file says to a depot that starts, and whether it is good.
fn start(path: &Path) -> (Decisions, bool) {
    let (kept, decisions) = Kept::new(Some(path.to_owned()));
    let is_good = kept.last_read().unwrap().1;
    (decisions, is_good)
}

#[test]
fn decisions_survive_and_are_private() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state");
    assert_eq!(start(&path), (Decisions::default(), true), "there is none yet");
    let (kept, _) = Kept::new(Some(path.clone()));
    for n in [MOST, 3, 0] {
        kept.save(|| decisions(n)).unwrap();
        assert_eq!(start(&path), (decisions(n), true), "{n}");
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{mode:o}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
    }
    assert!(Kept::new(None).0.save(|| decisions(1)).is_ok());
}

#[test]
fn list_of_an_earlier_version_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("denied.json");
    fs::write(&path, serde_json::to_string_pretty(&decisions(2).denied).unwrap()).unwrap();
    let expected = Decisions { limits: Vec::new(), ..decisions(2) };
    assert_eq!(start(&path), (expected, true));
}

#[test]
fn damaged_file_keeps_readable_lines_and_is_put_aside() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state");
    let good = to_text(&decisions(3)).unwrap();
    let half = good.split_at(good.len() / 2).0;
    for (text, kept) in [
        (half.to_owned(), half.matches('\n').count()),
        (good.replacen("t1", "t\u{0}1", 1), 5),
        (good.replace("{\"end\":6}\n", ""), 6),
        (good.replace("{\"end\":6}", "{\"end\":7}"), 6),
        (format!("{good}{good}"), 6),
        (good.replace("8000", "7999"), 3),
        ("\u{0}".repeat(5000), 0),
        ("[".repeat(100_000), 0),
        ("{}".to_owned(), 0),
        (String::new(), 0),
        (good.replace("\"until_unix_s\":", "\"until_unix_s\":9"), 3),
        (good.replace("too ", "\\u202etoo "), 3),
    ] {
        fs::write(&path, &text).unwrap();
        let (decisions, is_good) = start(&path);
        let shown: String = text.chars().take(200).collect();
        assert!(!is_good, "{shown}");
        assert_eq!(decisions.denied.len() + decisions.limits.len(), kept, "{shown}");
        let aside = with_suffix(&path, ".damaged");
        assert!(!path.exists() && fs::read_to_string(&aside).unwrap() == text, "{shown}");
    }
}

#[test]
fn file_that_others_can_write_is_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state");
    let text = to_text(&decisions(1)).unwrap();
    let none = (Decisions::default(), false);
    fs::write(&path, &text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
    assert_eq!(start(&path), none, "a group can write it");
    fs::write(&path, &text).unwrap();
    std::os::unix::fs::chown(&path, Some(54_321), None).unwrap();
    assert_eq!(start(&path), none, "it is another user's");
    let elsewhere = dir.path().join("elsewhere");
    fs::write(&elsewhere, &text).unwrap();
    symlink(&elsewhere, &path).unwrap();
    assert_eq!(start(&path), none, "a link");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        Mode::RUSR | Mode::WUSR,
        0,
    )
    .unwrap();
    assert_eq!(start(&path), none, "a pipe, whose writer never comes");
    fs::write(&path, "x".repeat(LONGEST_FILE as usize + 1)).unwrap();
    assert_eq!(start(&path), none, "too long");
}

#[test]
fn links_of_others_are_not_written_through() {
    let dir = tempfile::tempdir().unwrap();
    let (path, elsewhere) = (dir.path().join("state"), dir.path().join("elsewhere"));
    fs::write(&elsewhere, "untouched").unwrap();
    let (kept, _) = Kept::new(Some(path.clone()));
    symlink(&elsewhere, &path).unwrap();
    symlink(&elsewhere, with_suffix(&path, ".new")).unwrap();
    kept.save(|| decisions(2)).unwrap();
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "untouched");
    assert_eq!(start(&path), (decisions(2), true));
}

#[test]
fn failed_save_is_owed_until_it_works() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("later").join("state");
    let (kept, _) = Kept::new(Some(path.clone()));
    let error = kept.save(|| decisions(1)).unwrap_err();
    assert!(error.contains("later/state") && kept.owes(), "{error}");
    assert!(!kept.last_read().unwrap().1);
    fs::create_dir(path.parent().unwrap()).unwrap();
    kept.save(|| decisions(1)).unwrap();
    assert!(!kept.owes() && kept.last_read().unwrap().1);
}
