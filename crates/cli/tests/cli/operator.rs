// SPDX-License-Identifier: GPL-2.0-or-later
//! The operator's guides, followed to the letter: `docs/operator.md` on a freshly installed Debian that
//! systemd has booted, `deploy/container/README.md` with a real image. Takes root, a Debian mirror, and
//! what `make deps-test` installs.

use crate::common::alone;
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Runs a script that follows a guide; the archives that it makes are kept for the next time. Both
/// guides make the same ones, and one of them at a time is enough for two processors.
fn follow(script: &str, missing: &[(&str, &str)]) -> String {
    let _alone = alone();
    for (program, package) in missing {
        let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
            .any(|folder| folder.join(program).exists());
        assert!(found, "{program} is missing: apt install {package}");
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").join(script);
    let output = Command::new("timeout")
        .args(["--kill-after=10", "600"])
        .arg(script)
        .args([env!("CARGO_BIN_EXE_longhaul"), env!("CARGO_TARGET_TMPDIR")])
        .output()
        .expect("`timeout` (Debian: coreutils) runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const INSTALLS: (&str, &str) = ("mmdebstrap", "mmdebstrap");

#[test]
fn the_guide_on_a_clean_machine() {
    let said = follow("operator-guide", &[INSTALLS, ("curl", "curl")]);
    assert!(said.contains("and never refused"), "{said}");
    assert!(said.ends_with("followed docs/operator.md\n"), "{said}");
}

#[test]
fn the_guide_to_the_container() {
    let needs = [INSTALLS, ("podman", "podman"), ("crun", "crun")];
    let said = follow("container-guide", &needs);
    assert!(said.ends_with("followed deploy/container/README.md\n"), "{said}");
}
