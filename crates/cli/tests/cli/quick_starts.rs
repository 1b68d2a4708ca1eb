// SPDX-License-Identifier: GPL-2.0-or-later
//! The quick starts under docs/start and two guides, followed word by word, with their outputs. Takes root, for
//! emulated networks and a paced device.

use crate::{
    common::{Kernel, alone, call, one_of_two, text},
    field_runs::Bed,
    pace::Cleared,
};
use host::Namespace;
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
};
use testkit::draft::Draft;

/// How to download through depots: the README leads there.
pub const DOWNLOAD: [&str; 1] = ["start/download.md"];

/// The longest that a quick start may be.
const MOST_LINES: usize = 60;

/// Shell code before each page's commands. `sudo` is not needed here, and a run that a busy machine makes invalid is
/// not the page's fault. Background jobs end with the page; `exec` makes each the program itself, which gets the signal.
const BEFORE: &str = "set -euo pipefail
export XDG_STATE_HOME=$PWD/state
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT
sudo() { [ $BASHPID = $$ ] || exec \"$@\"; \"$@\" || grep -q 'is valid on this machine at present' progress; }
";

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    let page = fs::read_to_string(path).unwrap();
    let is_short = page.lines().count() < MOST_LINES || !name.starts_with("start/");
    assert!(is_short, "{name} is longer than {MOST_LINES} lines");
    page
}

/// The blocks between fences: their kind, and their content.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    page.split("```").skip(1).step_by(2).map(|block| block.split_once('\n').unwrap()).collect()
}

/// Blocks of numbered steps are indented.
fn without_indentation(page: &str) -> String {
    page.lines().map(|line| line.strip_prefix("   ").unwrap_or(line).to_owned() + "\n").collect()
}

/// A line with single blanks and without numbers that may differ, which are all except single digits other than
/// seconds.
fn shape(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut shape = String::new();
    for (at, word) in words.iter().enumerate() {
        let is_seconds = words.get(at + 1).is_some_and(|next| next.trim_matches(',') == "s");
        let mut rest = *word;
        while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
            let (before, from) = rest.split_at(start);
            let end = from.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(from.len());
            let (number, after) = from.split_at(end);
            shape += before;
            shape += if number.len() == 1 && !is_seconds { number } else { "#" };
            rest = after;
        }
        shape += rest;
        shape.push(' ');
    }
    shape
}

/// Follows these pages in one session, one after the other.
fn follow(names: &[&str]) {
    follow_with(names, None, &|page| page);
}

/// The same with programs of a folder before all others, and with pages whose example addresses are those that are there.
fn follow_with(names: &[&str], programs: Option<&Path>, adapt: &dyn Fn(String) -> String) {
    let folder = tempfile::tempdir().unwrap();
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    symlink(scenarios.canonicalize().unwrap(), folder.path().join("scenarios")).unwrap();
    let (mut script, mut outputs) = (BEFORE.to_owned(), Vec::new());
    for name in names {
        let page = without_indentation(&adapt(page(name)));
        for (kind, content) in blocks(&page) {
            match kind {
                "sh" => {
                    // Printed only at the end, so that each block's output is known for its own.
                    let at = script.len();
                    script += &format!("exec > block-{at}\n{content}\n");
                    outputs.push((format!("block-{at}"), *name, String::new()));
                }
                // A file, whose name is the comment in its first line.
                "toml" => {
                    let file = content.lines().next().and_then(|line| line.strip_prefix("# "));
                    let file = file.unwrap_or_else(|| panic!("{name}: a file without a name"));
                    script += &format!("cat > {file} <<'END'\n{content}END\n");
                }
                // Measured once, on one machine.
                "output" => {}
                "text" => content.clone_into(&mut outputs.last_mut().unwrap().2),
                other => panic!("{name}: this test cannot follow a block of {other:?}"),
            }
        }
    }
    let installed = Path::new(env!("CARGO_BIN_EXE_longhaul")).parent().unwrap();
    let own = programs.map_or(String::new(), |folder| format!("{}:", folder.display()));
    let path = format!("{own}{}:{}", installed.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("timeout");
    command.args(["300", "bash", "-c", &script]).current_dir(&folder).env("PATH", path);
    if let Some(programs) = programs {
        // With a key of ssh's.
        command.env("HOME", programs);
    }
    let output = command.output().unwrap();
    let progress = fs::read_to_string(folder.path().join("progress")).unwrap_or_default();
    let said = text(&output.stderr) + &progress;
    assert!(output.status.success(), "{names:?}: {}\n{said}", output.status);
    for (file, name, expected) in outputs {
        let printed = fs::read_to_string(folder.path().join(file)).unwrap();
        let mut lines = printed.lines();
        for line in expected.lines().filter(|line| *line != "...") {
            let is_there = lines.any(|printed| shape(printed) == shape(line));
            assert!(is_there, "{name} has {line:?}, and longhaul prints:\n{printed}");
        }
    }
}

#[test]
fn depot_works_as_printed() {
    follow(&["start/depot.md"]);
}

#[test]
fn stored_session_works_as_printed() {
    follow(&["start/later.md"]);
}

#[test]
fn download_over_an_emulated_path_works_as_printed() {
    let _named = default_network();
    let _turn = one_of_two();
    let _down = Down;
    follow(&DOWNLOAD);
}

#[test]
fn slow_transfer_is_explained_as_printed() {
    let _named = default_network();
    let _turn = one_of_two();
    let _down = Down;
    follow(&["start/slow.md"]);
}

#[test]
fn routes_by_forecast_work_as_printed() {
    let _named = default_network();
    let _turn = one_of_two();
    let _down = Down;
    follow(&["start/routes.md"]);
}

#[test]
fn comparison_works_as_printed() {
    let _turn = one_of_two();
    follow(&["start/compare.md"]);
}

#[test]
fn three_methods_work_as_printed() {
    // Next to a busy test, most of the emulated runs are invalid and no interval is left.
    let _alone = alone();
    follow(&["start/methods.md"]);
}

#[test]
fn tutorial_of_scenarios_works_as_printed() {
    let _turn = one_of_two();
    follow(&["scenario.md"]);
}

#[test]
fn network_of_the_guide_works() {
    let _named = default_network();
    let _turn = one_of_two();
    let _down = Down;
    follow(&["wan.md"]);
}

/// The network whose name is the default: one at a time.
fn default_network() -> MutexGuard<'static, ()> {
    static NETWORK: Mutex<()> = Mutex::new(());
    // A test that failed has not harmed what this guards.
    let network = NETWORK.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(!call(&["wan", "status"]).status.success(), "a network is up; take it down first");
    network
}

/// Takes the network down that a guide which failed has left.
struct Down;

impl Drop for Down {
    fn drop(&mut self) {
        call(&["wan", "down"]);
    }
}

/// In a network namespace, so that no device of the machine is touched.
#[test]
fn pacing_works_as_printed() {
    let _kernel = Kernel::without_ours();
    let _cleared = Cleared;
    let namespace = Namespace::new().expect("root");
    let followed = namespace.run(|| {
        follow(&["start/pace.md"]);
        Ok(())
    });
    followed.expect("a thread");
}

/// On hosts that ssh reaches by these names, over paths such as the page has.
#[test]
fn three_machines_are_compared_as_printed() {
    let _turn = one_of_two();
    let network = Draft::new("three machines", "")
        .node("server", "cc=bbr")
        .node("depot", "cc=bbr")
        .nodes(&["client"])
        .link("server", "depot", "rate=100mbit delay=20ms")
        .link("depot", "client", "rate=100mbit delay=5ms")
        .flow("server", "client", "bytes=1MB cc=bbr via=[\"depot\"]");
    let bed = Bed::of(&network, &network);
    let before = bed.settings();
    bed.hosts.bring_program("files");
    let programs = bed.hosts.path("programs");
    fs::create_dir(&programs).unwrap();
    let config = fs::read_to_string(bed.hosts.path("ssh_config")).unwrap();
    let named = config.replace("Host host-", "Host ");
    fs::write(bed.hosts.path("named_config"), named).unwrap();
    let keys = programs.join(".ssh");
    fs::create_dir(&keys).unwrap();
    for (from, to) in [("user", "id_ed25519"), ("user.pub", "id_ed25519.pub")] {
        fs::copy(bed.hosts.path(from), keys.join(to)).unwrap();
    }
    let ssh = format!(
        "#!/bin/sh\nexec /usr/bin/ssh -F {} \"$@\"\n",
        bed.hosts.path("named_config").display()
    );
    fs::write(programs.join("ssh"), ssh).unwrap();
    fs::set_permissions(programs.join("ssh"), fs::Permissions::from_mode(0o755)).unwrap();
    let adapt = |page: String| {
        let addresses =
            [("192.0.2.10", "server"), ("198.51.100.3", "depot"), ("203.0.113.7", "client")];
        // The hosts share this machine's files.
        let own = bed.hosts.path("files");
        let own = format!("sudo = true, directory = \"{}\" }}", own.display());
        addresses.iter().fold(page.replace("sudo = true }", &own), |page, (example, node)| {
            page.replace(example, &bed.wan.address(node).unwrap().to_string())
        })
    };
    follow_with(&["start/hosts.md"], Some(&programs), &adapt);
    assert_eq!(bed.settings(), before);
}

#[test]
fn shapes_leave_out_numbers_that_may_differ() {
    assert_eq!(shape("cubic   3  934.8 Mb/s (934.6–934.8)"), "cubic 3 # Mb/s (#–#) ");
    assert_eq!(shape("d1: 5 s, 1 request, 12"), "d1: # s, 1 request, # ");
}
