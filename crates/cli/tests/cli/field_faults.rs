// SPDX-License-Identifier: GPL-2.0-or-later
//! Experiments whose hosts fail or are unusual, and hosts whose engine is killed.

use crate::{
    common::{call, done, json, longhaul, one_of_two, refused, text},
    field_runs::Bed,
};
use experiment::Step;
use record::Record;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};
use testkit::{draft::Draft, until};

/// Two hosts with a path between them; the download takes so long.
fn two(keys: &str, bytes: &str) -> Draft {
    Draft::new("two hosts", keys)
        .node("a", "cc=bbr tcp_wmem_max=6MB")
        .node("b", "cc=bbr tcp_rmem_max=6MB")
        .link("a", "b", "rate=40mbit delay=2ms")
        .flow("a", "b", &format!("bytes={bytes} cc=bbr"))
}

/// Hosts that have other buffers than a scenario asks for. Paths are not tested here, and an emulator that is late changes them.
fn bed(draft: &Draft) -> Bed {
    let network = Draft::new("network", "")
        .node("a", "cc=bbr")
        .node("b", "cc=bbr")
        .link("a", "b", "rate=40mbit delay=2ms")
        .flow("a", "b", "bytes=1MB");
    let bed = Bed::of(&network, draft);
    let lenient = "deviation = 1.0\nmeasure = \"100ms\"\n".to_owned();
    fs::write(&bed.file, lenient + &fs::read_to_string(&bed.file).unwrap()).unwrap();
    bed
}

fn start(bed: &Bed) -> Child {
    let mut command = longhaul();
    command.args(bed.words()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Lines of the journal.
fn journal(bed: &Bed) -> Vec<Value> {
    let text = fs::read_to_string(bed.out.join("field/.sweep.jsonl")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Whether a run is in a step.
fn is_in(bed: &Bed, run: &str, step: &str) -> bool {
    let is_it = |line: &Value| line["run"] == run && line["step"] == step;
    journal(bed).iter().any(is_it)
}

/// All processes of a host that belong to an experiment, and the sshd that they came by.
fn kill_host(bed: &Bed, name: &str) {
    let inode = bed.hosts.namespaces.iter().find(|host| host.0 == name).unwrap().1.inode().unwrap();
    let own = format!("net:[{inode}]");
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let pid = entry.file_name().to_string_lossy().into_owned();
        let is_there = fs::read_link(entry.path().join("ns/net"));
        if pid.parse::<u32>().is_ok() && is_there.is_ok_and(|net| net.to_string_lossy() == own) {
            // It may have ended with another.
            let _ = Command::new("kill").args(["-KILL", &pid]).status();
        }
    }
}

#[test]
fn host_that_disappears_or_restarts_ends_the_run_and_nothing_else() {
    let _turn = one_of_two();
    let bed = bed(&two("timeout=60s repeat=2", "12MB"));
    let before = bed.settings();
    let mut engine = start(&bed);
    until("the second run is under way", || is_in(&bed, "r02", "execution"));
    thread::sleep(Duration::from_millis(700));
    // As a restart does: all is gone at once, the notes of settings too.
    kill_host(&bed, "b");
    fs::remove_dir_all(bed.hosts.path("run-b/field")).unwrap();
    let namespace = &bed.hosts.namespaces[1].1;
    for (key, value) in
        ["net.ipv4.tcp_congestion_control", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"]
            .iter()
            .zip(&before[3..])
    {
        namespace.set_sysctl(key, value).unwrap();
    }
    let mut said = String::new();
    std::io::Read::read_to_string(&mut engine.stderr.take().unwrap(), &mut said).unwrap();
    assert!(!engine.wait().unwrap().success());
    assert!(said.contains("b: the guard is gone"), "{said}");
    until("the other host is as before", || bed.settings() == before && guards(&bed) == 0);
    let status = json(&["lab", "status", bed.out.to_str().unwrap(), "--json"]);
    assert!(status[0]["error"].as_str().unwrap().contains("b: the guard is gone"), "{status}");
    let (code, said) = bed.run(&[]);
    assert_eq!(code, Some(0), "{said}");
    let ends = |run: &str| {
        let shown = json(&["lab", "show", run, bed.out.to_str().unwrap(), "--json"]);
        let attempts = shown[0]["attempts"].as_array().unwrap().clone();
        attempts.iter().map(|attempt| attempt["end"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ends("r01"), ["\"valid\""], "it is not run again");
    assert_eq!(ends("r02").last().unwrap(), "\"valid\"");
    assert_eq!(bed.settings(), before);
}

/// Passes on what a host's sshd says, and ends in the middle of a record, once. Before it comes, the host has said less.
const CUT: &str = "import os, sys\n\
    left = 150_000\n\
    while data := os.read(0, 8192):\n    \
    left -= len(data)\n    \
    if left < 0 and not os.path.exists(sys.argv[1]):\n        \
    sys.exit(open(sys.argv[1], 'x').close())\n    \
    os.write(1, data)\n";

#[test]
fn record_comes_by_another_connection_if_the_first_ends_in_the_middle() {
    let _turn = one_of_two();
    // It has many samples, also on a machine that is too slow for most of them.
    let bed = bed(&two("timeout=60s repeat=1 sample=20ms", "45MB streams=100"));
    let (config, program) = (bed.hosts.path("ssh_config"), bed.hosts.path("cut.py"));
    let (cut, text) = (bed.hosts.path("cut"), fs::read_to_string(&config).unwrap());
    fs::write(&program, CUT).unwrap();
    let end = format!("/usr/sbin/sshd -i -f {}'\n", bed.hosts.path("a.conf").display());
    let pipe = format!("{} | python3 {} {}\n", end.trim_end(), program.display(), cut.display());
    assert!(text.contains(&end), "{text}");
    fs::write(&config, text.replace(&end, &pipe)).unwrap();
    let before = bed.settings();
    let (code, said) = bed.run(&[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(cut.exists(), "the host said too little to be cut: {said}");
    let record = bed.records().remove(0);
    assert!(record.manifest.valid && record.summary.flows[0].outcome == "complete", "{said}");
    let shown = json(&["lab", "show", "r01", bed.out.to_str().unwrap(), "--json"]);
    assert_eq!(shown[0]["attempts"].as_array().unwrap().len(), 1, "{shown}");
    until("hosts are as before", || bed.settings() == before && guards(&bed) == 0);
}

#[test]
fn setting_that_cannot_be_put_back_is_named_and_the_record_stays() {
    let _turn = one_of_two();
    let bed = bed(&two("timeout=60s repeat=1", "8MB"));
    let mut engine = start(&bed);
    until("the run is under way", || is_in(&bed, "r01", "execution"));
    // The guard can read it, and not write it.
    let key = "/proc/sys/net/ipv4/tcp_rmem";
    let files = bed.hosts.path("files-b");
    let guards = crate::common::processes_with(files.to_str().unwrap());
    let guard = guards.iter().find(|(_, line)| line.contains("--worker")).unwrap().0;
    let mount = format!("mount --bind {key} {key} && mount -o remount,bind,ro {key}");
    let mounted = Command::new("nsenter")
        .args(["-t", &guard.to_string(), "-m", "-n", "sh", "-c", &mount])
        .status();
    assert!(mounted.unwrap().success());
    let mut said = String::new();
    std::io::Read::read_to_string(&mut engine.stderr.take().unwrap(), &mut said).unwrap();
    assert!(!engine.wait().unwrap().success());
    for part in ["b: net.ipv4.tcp_rmem is", "it is not put back", "sysctl -w net.ipv4.tcp_rmem="] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(bed.records()[0].manifest.valid);
    // The next guard, which can, puts it back.
    let found = done(&["lab", "hosts", bed.file.to_str().unwrap()]);
    assert!(found.contains("b: 1 settings of a killed experiment are put back"), "{found}");
}

#[test]
fn clock_ten_minutes_off_and_a_foreign_processor() {
    let _turn = one_of_two();
    let bed = bed(&two("timeout=60s repeat=1", "2MB"));
    let path = bed.hosts.path("bin");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("uname"), "#!/bin/sh\necho riscv64\n").unwrap();
    fs::set_permissions(path.join("uname"), fs::Permissions::from_mode(0o755)).unwrap();
    let folders = fs::read_dir("/usr/lib").unwrap().flatten().map(|entry| entry.path());
    let library = folders.map(|it| it.join("faketime/libfaketime.so.1")).find(|it| it.exists());
    let library =
        library.expect("libfaketime.so.1 below /usr/lib: install the Debian package faketime");
    let off = format!("LD_PRELOAD={} FAKETIME=+600s DONT_FAKE_MONOTONIC=1", library.display());
    let foreign = format!("PATH={}:/usr/bin:/bin", path.display());
    let sshd = |name: &str, more: &str| {
        let file = bed.hosts.path(&format!("{name}.conf"));
        let text = fs::read_to_string(&file).unwrap();
        fs::write(file, format!("{text}SetEnv {more}\n")).unwrap();
    };
    sshd("a", &off);
    sshd("b", &foreign);
    let (code, said) = bed.run(&[]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("b: its processor is riscv64"), "{said}");
    assert!(said.contains("binaries.riscv64 = \"FILE\""), "{said}");
    let named = format!("binaries.riscv64 = \"{}\"\n", env!("CARGO_BIN_EXE_longhaul"));
    fs::write(&bed.file, named + &fs::read_to_string(&bed.file).unwrap()).unwrap();
    let shown = done(&["lab", "hosts", bed.file.to_str().unwrap()]);
    assert!(shown.contains("a: its clock is +600.0 s off, known within"), "{shown}");
    let (code, said) = bed.run(&[]);
    assert_eq!(code, Some(0), "{said}");
    let record = bed.records().remove(0);
    let hosts = &record.manifest.hosts;
    let ahead_s = hosts["a"].clock_ahead_ns as f64 / 1e9;
    assert!((599.0..601.0).contains(&ahead_s), "{ahead_s}");
    let flow = &record.summary.flows[0];
    assert!((0.0..2.0).contains(&flow.start_s) && flow.end_s < 60.0, "{flow:?}");
}

#[test]
fn host_without_room_and_one_that_is_taken() {
    let _turn = one_of_two();
    let bed = bed(&two("timeout=60s repeat=5", "2MB"));
    // A disk of that size, which only the host's own processes see.
    let config = fs::read_to_string(bed.hosts.path("ssh_config")).unwrap();
    let files = bed.hosts.path("files-b");
    // A directory of another user, who could exchange the program.
    let owned_by = |user: u32| std::os::unix::fs::chown(&files, Some(user), None).unwrap();
    owned_by(65534);
    let (code, said) = bed.run(&[]);
    assert_eq!(code, Some(3));
    assert!(said.contains("it is another user's"), "{said}");
    owned_by(0);
    let small = |size: &str| {
        let disk = format!("mount -t tmpfs -o size={size} none {} && ", files.display());
        let run = bed.hosts.path("run-b");
        let mount = format!("mount --bind {}", run.display());
        let own = config.replace(&mount, &(disk + &mount));
        assert_ne!(own, config);
        fs::write(bed.hosts.path("ssh_config"), own).unwrap();
    };
    let program = fs::metadata(env!("CARGO_BIN_EXE_longhaul")).unwrap().len();
    small(&format!("{},noexec", program + (200 << 20)));
    let (code, said) = bed.run(&[]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("b: programs do not run from"), "{said}");
    small("1M");
    let (code, said) = bed.run(&[]);
    assert_eq!(code, Some(3));
    assert!(said.contains("b: this program cannot be brought to"), "{said}");
    small(&(program + (20 << 20)).to_string());
    let (code, said) = bed.run(&[]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("b: ") && said.contains("MB needed: name another directory"), "{said}");
    fs::write(bed.hosts.path("ssh_config"), &config).unwrap();
    // Two experiments: the second says who has the hosts.
    let mut first = start(&bed);
    until("the first has the hosts", || is_in(&bed, "r01", "deployment"));
    let mut words = bed.words();
    words.push(bed.hosts.path("other").to_str().unwrap().to_owned());
    words.remove(words.len() - 2);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (code, said) = refused(&words);
    assert!(
        code == 1 && said.contains("has this host for the experiment \"two hosts\", for "),
        "{said}"
    );
    assert!(first.wait().unwrap().success());
}

/// Kills at any moment of engines, in any step; the one after them completes the sweep.
#[test]
fn killed_engine_is_continued_and_hosts_are_as_before() {
    let _turn = one_of_two();
    let kills =
        std::env::var("LONGHAUL_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(4);
    let bed = bed(&two("timeout=60s repeat=12", "100KB"));
    let before = bed.settings();
    let mut state: u64 = 43;
    println!("seed {state}, {kills} kills");
    let mut steps: BTreeMap<String, u32> = BTreeMap::new();
    for n in 0..kills {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut engine = start(&bed);
        if n % 2 == 0 {
            thread::sleep(Duration::from_millis(500 + (state >> 33) % 8000));
        } else {
            // As soon as a step begins, each in its turn.
            let (before, step) = (journal(&bed).len(), Step::ALL[n / 2 % Step::ALL.len()]);
            let step = serde_json::to_value(step).unwrap();
            let begins = || journal(&bed).iter().skip(before).any(|line| line["step"] == step);
            while !begins() && engine.try_wait().unwrap().is_none() {
                thread::sleep(Duration::from_millis(1));
            }
        }
        engine.kill().unwrap();
        engine.wait().unwrap();
        let last = journal(&bed).pop().map(|line| line["step"].to_string());
        *steps.entry(last.unwrap_or_default()).or_default() += 1;
        until("hosts to be as before", || bed.settings() == before && guards(&bed) == 0);
    }
    println!("killed in {steps:?}");
    let (code, said) = bed.run(&[]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(bed.settings(), before);
    let records = bed.records();
    assert_eq!(records.len(), 12);
    for record in &records {
        assert!(record.manifest.valid && record.summary.flows[0].sha256_ok == Some(true));
        let shown =
            json(&["lab", "show", &record.manifest.id, bed.out.to_str().unwrap(), "--json"]);
        let attempts = shown[0]["attempts"].as_array().unwrap();
        let valid = attempts.iter().position(|attempt| attempt["end"] == "valid");
        // Killed between record and journal: the record counts.
        assert!(valid.is_none_or(|at| at + 1 == attempts.len()), "{shown}");
    }
    let folder = bed.out.join("field").join(&records[0].manifest.id);
    assert!(Record::open(&folder).unwrap().series.len() > 10);
    until("nothing is left", || bed.left().is_empty());
    let archive = bed.hosts.path("all.zip");
    done(&["lab", "archive", bed.out.to_str().unwrap(), archive.to_str().unwrap()]);
    let shown = call(&[
        "lab",
        "run",
        archive.to_str().unwrap(),
        "--method",
        "sim",
        "--out",
        bed.hosts.path("sim").to_str().unwrap(),
    ]);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
}

/// How many guards there are on the hosts.
fn guards(bed: &Bed) -> usize {
    let folder = bed.hosts.folder.path().to_str().unwrap();
    let all = crate::common::processes_with(folder);
    all.values().filter(|line| line.contains("guard")).count()
}
