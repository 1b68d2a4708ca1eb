// SPDX-License-Identifier: GPL-2.0-or-later
//! The Debian package, made by cargo-deb around the binary that these tests run: `make deb-check` does the
//! same with the release build, and looks at its size. Takes root, a Debian mirror, and what `make
//! deps-test` installs.

#[path = "../../examples/manuals/write.rs"]
mod manuals;

use crate::{
    common::text,
    operator::{INSTALLS, follow},
};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// The package. It is made once for all tests.
pub fn built() -> &'static Path {
    static PACKAGE: OnceLock<PathBuf> = OnceLock::new();
    PACKAGE.get_or_init(|| {
        let directory = tempfile::tempdir().expect("a directory for manual pages");
        manuals::write(directory.path()).expect("manual pages and completions");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/deb");
        let output = Command::new(script)
            .arg(env!("CARGO_BIN_EXE_longhaul"))
            .args([directory.path(), Path::new(env!("CARGO_TARGET_TMPDIR"))])
            .output()
            .expect("scripts/deb runs");
        assert!(
            output.status.success(),
            "no package (cargo-deb: make deps-deb): {}",
            text(&output.stderr)
        );
        text(&output.stdout).trim_end().into()
    })
}

/// The files of the package.
fn files() -> BTreeSet<String> {
    let output = Command::new("dpkg-deb").arg("--contents").arg(built()).output().unwrap();
    let listed = text(&output.stdout);
    let path = |line: &str| line.split_whitespace().nth(5).map(|path| path.replace("./", "/"));
    listed.lines().filter_map(path).collect()
}

/// The names of the manual pages of a command and of all below it. Hidden ones are started by longhaul itself.
fn pages(command: &clap::Command, name: &str, into: &mut BTreeSet<String>) {
    into.insert(format!("/usr/share/man/man1/{name}.1.gz"));
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        pages(below, &format!("{name}-{}", below.get_name()), into);
    }
}

/// Libraries that are opened by name, and programs that are started, are no dependencies that the binary shows.
#[test]
fn package_recommends_what_commands_need_at_run_time() {
    let output =
        Command::new("dpkg-deb").arg("--field").arg(built()).arg("Recommends").output().unwrap();
    let recommended = text(&output.stdout);
    let recommended: BTreeSet<&str> = recommended.trim().split(", ").collect();
    for package in ["ca-certificates", "iproute2", "libnftables1"] {
        assert!(recommended.contains(package), "{package}: {recommended:?}");
    }
}

#[test]
fn package_has_a_manual_page_for_each_command() {
    let mut expected = BTreeSet::new();
    pages(&longhaul_cli::command(), "longhaul", &mut expected);
    assert!(expected.len() > 20, "{expected:?}");
    let found = files().into_iter().filter(|file| file.contains("/man1/") && !file.ends_with('/'));
    assert_eq!(found.collect::<BTreeSet<_>>(), expected);
    assert!(files().contains("/usr/share/man/man3/lsl.3.gz"));
}

#[test]
fn package_has_the_examples_of_deploy() {
    let files = files();
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    for recipe in ["apache", "failover", "grafana", "nginx", "portal", "prometheus"] {
        for file in fs::read_dir(deploy.join(recipe)).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            let path = format!("/usr/share/doc/longhaul/examples/{recipe}/{name}");
            assert!(files.contains(&path), "{path} is not in {files:#?}");
        }
    }
}

#[test]
fn package_version_is_that_of_the_binary() {
    let field = Command::new("dpkg-deb").arg("--field").arg(built()).arg("Version").output();
    let version = text(&field.unwrap().stdout);
    assert_eq!(version.trim_end(), concat!(env!("CARGO_PKG_VERSION"), "-1"));
    let changelog = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/debian/changelog");
    let changelog = fs::read_to_string(changelog).unwrap();
    assert!(changelog.starts_with(&format!("longhaul ({})", version.trim_end())), "{changelog}");
}

/// lintian, files, owners, units, completions, a closed configuration, upgrade, removal, purge.
#[test]
fn package_installs_upgrades_and_uninstalls_completely() {
    let needs = [INSTALLS, ("lintian", "lintian")];
    let said = follow("deb-check", built(), &needs);
    assert!(said.starts_with("checked longhaul_"), "{said}");
}
