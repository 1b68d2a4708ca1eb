// SPDX-License-Identifier: GPL-2.0-or-later
//! The operator's guides, followed to the letter: `docs/operator.md` and `docs/two-depots.md` on freshly
//! installed Debians that systemd has booted, `deploy/container/README.md` with a real image. Takes root, a Debian mirror, and
//! what `make deps-test` installs.

use crate::package;
use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
};

/// Runs a script of `scripts/` on a file, with root's rights and a directory for the archives that it
/// makes, which are kept for the next time. One at a time is enough for two processors, with what tests leave of them
/// that run in real time meanwhile (`SCHED_IDLE`).
pub fn follow(script: &str, file: &Path, needs: &[(&str, &str)]) -> String {
    static GUIDES: Mutex<()> = Mutex::new(());
    // A test that failed has not harmed what this guards.
    let _one = GUIDES.lock().unwrap_or_else(PoisonError::into_inner);
    for (program, package) in needs {
        let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
            .any(|folder| folder.join(program).exists());
        assert!(found, "{program} is missing: apt install {package}");
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").join(script);
    let output = Command::new("chrt")
        .args(["--idle", "0", "timeout", "--kill-after=10", "1200"])
        .arg(script)
        .arg(file)
        .arg(env!("CARGO_TARGET_TMPDIR"))
        .output()
        .expect("`chrt` (Debian: util-linux) runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub const INSTALLS: (&str, &str) = ("mmdebstrap", "mmdebstrap");

#[test]
fn the_guide_on_a_clean_machine() {
    let said = follow("operator-guide", package::built(), &[INSTALLS, ("curl", "curl")]);
    assert!(said.contains("and never refused"), "{said}");
    assert!(said.ends_with("followed docs/operator.md\n"), "{said}");
}

#[test]
fn two_depots_guide_on_clean_machines() {
    let needs = [INSTALLS, ("curl", "curl"), ("ip", "iproute2")];
    let said = follow("two-depots-guide", package::built(), &needs);
    assert!(said.ends_with("followed docs/two-depots.md\n"), "{said}");
}

#[test]
fn the_guide_to_the_container() {
    let needs = [INSTALLS, ("podman", "podman"), ("crun", "crun"), ("pip3", "python3-pip")];
    let binary = Path::new(env!("CARGO_BIN_EXE_longhaul"));
    let said = follow("container-guide", binary, &needs);
    assert!(said.ends_with("followed deploy/container/README.md\n"), "{said}");
}
