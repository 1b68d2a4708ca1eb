// SPDX-License-Identifier: GPL-2.0-or-later
//! What is installed, and what programs rely on.

use super::{CRATE, build, checks, compile, install, pkg_config, prefix, run, with_library};
use std::{fs, path::Path, process::Command};

#[test]
fn header_is_clean_in_c89_c99_and_cpp() {
    let source = prefix().join("header.c");
    fs::write(
        &source,
        "#include <longhaul/lsl.h>\nint main(void) { return lsl_version() == 0; }\n",
    )
    .unwrap();
    let flags = pkg_config(&["--cflags"]);
    let languages =
        [("cc", "c", "c89", "gcc"), ("cc", "c", "c99", "gcc"), ("c++", "c++", "c++98", "g++")];
    for (compiler, language, standard, package) in languages {
        let mut command = Command::new(compiler);
        command.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]);
        command.arg(format!("-std={standard}")).args(["-x", language]).arg(&source).args(&flags);
        run(&mut command, package);
    }
}

#[test]
fn install_goes_below_destdir_and_paths_do_not() {
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    install(Path::new("/usr"), Some(root.path()));
    let usr = root.path().join("usr");
    let pc = fs::read_to_string(usr.join("lib/pkgconfig/longhaul.pc")).unwrap();
    assert!(pc.contains("prefix=/usr\n") && !pc.contains('@'), "{pc}");
    let version = env!("CARGO_PKG_VERSION");
    assert!(pc.contains(&format!("Version: {version}\n")), "{pc}");
    let link = |name: &str| fs::read_link(usr.join("lib").join(name)).unwrap();
    assert_eq!(link("liblonghaul.so"), Path::new("liblonghaul.so.1"));
    assert_eq!(link("liblonghaul.so.1"), Path::new(&format!("liblonghaul.so.1.{version}")));
    for file in ["lib/liblonghaul.a", "include/longhaul/lsl.h", "share/man/man3/lsl.3"] {
        assert!(usr.join(file).is_file(), "{file}");
    }
}

/// Functions that a text names.
fn functions(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let mut found: Vec<String> = words
        .filter(|word| word.starts_with("lsl_") && *word != "lsl_info")
        .map(str::to_owned)
        .collect();
    found.sort();
    found.dedup();
    found
}

#[test]
fn library_exports_what_header_and_manual_describe() {
    let mut nm = Command::new("nm");
    nm.args(["-D", "--defined-only", "--format=just-symbols"]).arg(build().join("liblonghaul.so"));
    let symbols = String::from_utf8(run(&mut nm, "binutils").stdout).unwrap();
    let mut symbols: Vec<&str> = symbols.lines().collect();
    symbols.sort_unstable();
    let header = fs::read_to_string(Path::new(CRATE).join("include/longhaul/lsl.h")).unwrap();
    assert_eq!(symbols, functions(&header));
    let manual = fs::read_to_string(Path::new(CRATE).join("../../../docs/man/lsl.3")).unwrap();
    assert_eq!(symbols, functions(&manual));
    let options = header.lines().filter_map(|line| line.strip_prefix("#define LSL_"));
    for option in options.filter_map(|rest| rest.split(' ').next()) {
        let is_described = manual.contains(&format!("LSL_{option}"));
        assert!(
            is_described || option.starts_with("STATE_"),
            "lsl(3) says nothing of LSL_{option}"
        );
    }
}

#[test]
fn example_of_the_guide_compiles() {
    let guide = fs::read_to_string(Path::new(CRATE).join("../../../docs/lsl-library.md")).unwrap();
    let (_, rest) = guide.split_once("```c\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let source = prefix().join("guide.c");
    fs::write(&source, example).unwrap();
    compile(&source);
}

fn check(name: &str) {
    run(with_library(checks()).arg(name), "gcc");
}

#[test]
fn close_before_connect_leaves_nothing_open() {
    check("close_early");
}

#[test]
fn wrong_arguments_set_errno() {
    check("wrong_calls");
}

#[test]
fn refused_connection_sets_errno() {
    check("refused");
}

#[test]
fn wrong_secret_is_refused() {
    check("secrets");
}

#[test]
fn poll_reports_sessions_and_bytes_and_halves_close() {
    check("polling");
}

#[test]
fn unread_bytes_hold_the_writer() {
    check("pressure");
}

#[test]
fn unread_bytes_are_not_confirmed() {
    check("unread");
}

#[test]
fn digest_is_that_of_the_connecting_end_at_both_ends() {
    check("digests");
}

#[test]
fn other_end_hears_when_the_program_confirms() {
    check("by_hand");
}

#[test]
fn file_is_sent_in_place_of_what_is_written() {
    check("files");
    check("several");
}

#[test]
fn bytes_written_before_close_arrive() {
    check("closed");
}
