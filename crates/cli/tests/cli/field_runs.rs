// SPDX-License-Identifier: GPL-2.0-or-later
//! Scenarios on hosts by real ssh, over emulated paths of known truth: what is recorded, and what becomes of hosts that fail.

use crate::{
    common::{call, one_of_two, refused as refused_words, text},
    sshd::{Hosts, processes_of},
};
use host::Namespace;
use record::{Entity, Quantity, Record, RunResults, find_records};
use scenario::Run;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use testkit::{Measured, credible, draft::Draft, until};
use wan::Wan;

/// Hosts in the namespaces of an emulated network, and a scenario that is like it.
pub struct Bed {
    pub wan: Wan,
    pub hosts: Hosts,
    pub scenario: PathBuf,
    pub file: PathBuf,
    pub out: PathBuf,
}

/// The runs of a scenario.
pub fn runs(draft: &Draft) -> Vec<Run> {
    scenario::Scenario::parse(&draft.to_string(), "s", &[""; 0]).unwrap().runs
}

impl Bed {
    /// A network like one scenario, whose hosts are to run another. Of routers no host is made.
    pub fn of(network: &Draft, scenario: &Draft) -> Self {
        let wan = Wan::up(&runs(network)[0]).unwrap();
        let all = runs(scenario);
        let namespace = |name: &str| {
            let descriptor = wan.node(name).unwrap().namespace.descriptor();
            let own = Namespace::of_process(std::process::id(), descriptor).unwrap();
            (name.to_owned(), own)
        };
        let hosts = Hosts::within(all[0].active_nodes().into_iter().map(namespace).collect());
        for (name, _) in &hosts.namespaces {
            hosts.bring_program(&format!("files-{name}"));
        }
        let file = hosts.file(|name| format!("address = \"{}\"", wan.address(name).unwrap()));
        let path = hosts.path("s.toml");
        fs::write(&path, scenario.to_string()).unwrap();
        let out = hosts.path("out");
        Self { wan, hosts, scenario: path, file, out }
    }

    pub fn words(&self) -> Vec<String> {
        let words = ["lab", "run", "--method", "field", "--hosts"].map(str::to_owned);
        let files = [&self.file, &self.scenario].map(|file| file.to_str().unwrap().to_owned());
        let out = ["--out".to_owned(), self.out.to_str().unwrap().to_owned()];
        [&words[..], &files, &out].concat()
    }

    /// Runs it; what it printed, on both outputs.
    pub fn run(&self, more: &[&str]) -> (Option<i32>, String) {
        let words = self.words();
        let words: Vec<&str> =
            words.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let output = call(&words);
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    }

    /// What is on record, by the runs' names.
    pub fn records(&self) -> Vec<RunResults> {
        let folders = find_records(&self.out.join("field")).unwrap();
        folders.iter().map(|folder| Record::results(folder).unwrap()).collect()
    }

    /// What experiments set on the hosts.
    pub fn settings(&self) -> Vec<String> {
        let keys = ["net.ipv4.tcp_congestion_control", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"];
        let of = |(_, host): &(String, Namespace)| keys.map(|key| host.sysctl(key).unwrap());
        self.hosts.namespaces.iter().flat_map(of).collect()
    }

    /// Processes and files of experiments that are left on hosts, without the program.
    pub fn left(&self) -> Vec<String> {
        let mut left = processes_of(self.hosts.folder.path());
        for (name, _) in &self.hosts.namespaces {
            let folder = self.hosts.path(&format!("files-{name}"));
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let file = entry.file_name().to_string_lossy().into_owned();
                let is_empty = fs::read_dir(entry.path()).is_ok_and(|mut all| all.next().is_none());
                if !file.starts_with("longhaul-") && !is_empty {
                    left.push(format!("{name}: {file}"));
                }
            }
        }
        left
    }

    /// What the emulator has to say against the measurements.
    pub fn faults(&self) -> Vec<String> {
        self.wan.status().unwrap().health.faults()
    }
}

/// Three hosts and a router, on which flows of every kind run.
fn line(more: &str) -> Draft {
    Draft::new("three hosts", "timeout=30s repeat=1")
        .line(more)
        .node("server", "tcp_wmem_max=8MB cc=reno")
        .nodes(&["router"])
        .node("depot", "tcp_rmem_max=8MB tcp_wmem_max=8MB cc=bbr")
        .node("client", "tcp_rmem_max=8MB cc=reno")
        .link("server", "router", "rate=100mbit delay=4ms")
        .link("router", "depot", "rate=200mbit delay=1ms")
        .link("depot", "client", "rate=100mbit delay=5ms")
}

/// Flows of every kind on three hosts, and traffic in both directions.
fn of_every_kind() -> Draft {
    let traffic = |name: &str, from: &str, to: &str, keys: &str| {
        format!("[[traffic]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\n{keys}")
    };
    line("")
        .flow("server", "client", "name=direct bytes=3MB")
        .flow("server", "client", "name=led bytes=3MB via=[\"depot\"] client=wget")
        .flow("server", "client", "name=again bytes=1MB via=[\"depot\"] client=wget after=led")
        .flow("server", "client", "name=parts bytes=2MB streams=3")
        .flow("depot", "client", "name=small bytes=100KB cc=bbr client=aria2")
        .line(&traffic("cbr", "server", "client", "kind = \"cbr\"\nrate = \"2mbit\""))
        .line(&traffic(
            "web",
            "client",
            "server",
            "kind = \"web\"\nload = \"2mbit\"\nmost = \"100KB\"",
        ))
        .line(&traffic(
            "onoff",
            "depot",
            "server",
            "kind = \"on-off\"\non = \"20KB\"\noff = \"100ms\"",
        ))
}

#[test]
fn flows_depots_and_traffic_run_on_hosts() {
    let _turn = one_of_two();
    let draft = of_every_kind();
    credible(|| {
        let bed = Bed::of(&draft, &draft);
        let before = bed.settings();
        let (code, said) = bed.run(&[]);
        let faults = bed.faults();
        assert_eq!(bed.settings(), before, "settings are put back");
        assert_eq!(bed.left(), [""; 0], "nothing is left on hosts");
        if code != Some(0) {
            return Measured { wrong: vec![said], faults };
        }
        look_at_records(&bed);
        // What is on record is not run again.
        let (code, said) = bed.run(&[]);
        assert!(code == Some(0) && said.contains("on record"), "{said}");
        Measured { wrong: Vec::new(), faults }
    });
}

fn look_at_records(bed: &Bed) {
    let folder = find_records(&bed.out.join("field")).unwrap().remove(0);
    let Record { manifest, series, summary, files } = Record::open(&folder).unwrap();
    let names: Vec<&str> = summary.flows.iter().map(|flow| flow.name.as_str()).collect();
    assert_eq!(names, ["direct", "led", "again", "parts", "small"]);
    for flow in &summary.flows {
        assert_eq!((flow.outcome.as_str(), flow.sha256_ok), ("complete", Some(true)), "{flow:?}");
        for hop in &flow.hops {
            let asked = if hop.from == "server" { "reno" } else { "bbr" };
            assert_eq!(hop.congestion_control.as_deref(), Some(asked), "{flow:?}");
            assert!(hop.min_rtt_us.unwrap() > 9_000.0, "{flow:?}");
            let entity = Entity::Hop { flow: flow.name.clone(), index: hop.index };
            assert!(series.curve(&entity, Quantity::AckedBytes).is_some(), "{entity:?}");
        }
        let entity = Entity::Flow(flow.name.clone());
        assert!(series.curve(&entity, Quantity::ReceivedBytes).is_some(), "{entity:?}");
    }
    let [led, again] = [&summary.flows[1], &summary.flows[2]];
    assert!(again.start_s >= led.end_s && again.hops[0].bytes.unwrap() < 1_500_000, "{again:?}");
    let traffic: Vec<&str> = summary.traffic.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(traffic, ["cbr", "web", "onoff"]);
    assert!(summary.traffic.iter().all(|it| it.bytes > 10_000), "{:?}", summary.traffic);
    assert!(!files.of_source("web").is_empty());
    let hosts: Vec<&String> = manifest.hosts.keys().collect();
    assert_eq!(hosts, ["client", "depot", "server"]);
    assert!(hosts.iter().all(|host| manifest.nodes.contains_key(*host)));
    assert_eq!(manifest.paths.len(), 5);
    for program in ["curl", "wget", "aria2c", "nginx"] {
        assert!(manifest.versions.contains_key(program), "{program}");
    }
    // The depot's log, under its host's name.
    let all: Vec<_> = fs::read_dir(&folder).unwrap().flatten().map(|it| it.path()).collect();
    assert!(folder.join("logs/depot-depot-depot-led.log").exists(), "{all:?}");
}

#[test]
fn path_that_is_another_makes_runs_invalid() {
    let _turn = one_of_two();
    let network = |link: &str| {
        Draft::new("two", "timeout=20s")
            .node("a", "cc=bbr")
            .node("b", "cc=bbr")
            .link("a", "b", link)
    };
    let flow = |draft: Draft| draft.flow("a", "b", "bytes=200KB cc=bbr");
    let asked = flow(network("rate=20mbit delay=5ms"));
    let bed = Bed::of(&flow(network("rate=30mbit delay=9ms loss=2%")), &asked);
    let (code, said) = bed.run(&[]);
    assert_eq!(code, Some(1), "{said}");
    println!("{said}");
    let record = bed.records().remove(0);
    assert!(!record.manifest.valid && record.summary.flows[0].sha256_ok == Some(true));
    let reasons = record.manifest.invalid_reasons.join("\n");
    // A host that is held up cannot tell the rate.
    let rate = record.manifest.paths[0].rate_bps.map(|_| "Mb/s, and the scenario's 20.0 Mb/s");
    for part in ["has a round trip of 1", "loses "].into_iter().chain(rate) {
        assert!(reasons.contains(part), "{part}: {reasons}");
    }
    // What hosts cannot do, and files that do not fit, before anything is changed.
    let refused = |text: &str, more: &[&str]| {
        fs::write(&bed.scenario, text).unwrap();
        let (code, said) = bed.run(more);
        assert_ne!(code, Some(0), "{said}");
        said
    };
    let captured = asked.to_string().replacen("name = \"a\"", "name = \"a\"\ncapture = true", 1);
    assert!(refused(&captured, &[]).contains("method field can't do node a"));
    let paced = asked.to_string() + "pacing = \"gap\"\n";
    assert!(refused(&paced, &[]).contains("pacing other than tcp changes a host's device"));
    let events = "[[event]]\nname = \"x\"\nchange = \"a-b\"\ncut = true\n\
                  [[event]]\nname = \"y\"\nmove = \"b\"\nto = \"a-b\"\n";
    let said = refused(&(asked.to_string() + events), &[]);
    let refusal = "method field can't do event x and 1 more: a real link is as it is";
    assert!(said.contains(refusal), "{said}");
    let third = asked.clone().nodes(&["c"]).link("b", "c", "").flow("a", "c", "bytes=1MB");
    assert!(refused(&third.to_string(), &[]).contains("the node c has no host"));
    assert!(refused(&asked.to_string(), &["--jobs", "2"]).contains("--jobs 2"));
    let (_, said) =
        refused_words(&["lab", "run", "--method", "field", bed.scenario.to_str().unwrap()]);
    assert!(said.contains("name the hosts with --hosts"), "{said}");
    let (hosts, scenario) = (bed.file.to_str().unwrap(), bed.scenario.to_str().unwrap());
    let (_, said) = refused_words(&["lab", "check", scenario, "--method", "sim", "--hosts", hosts]);
    assert!(said.contains("--hosts is for --method field"), "{said}");
    assert_eq!(
        call(&["lab", "check", scenario, "--method", "field", "--hosts", hosts]).status.code(),
        Some(0)
    );
    until("guards to end", || bed.left().is_empty());
}

/// The machines of a testbed, as `EnOSlib`'s static provider has them.
#[test]
fn testbed_of_enoslib_becomes_hosts() {
    let _turn = one_of_two();
    let draft = Draft::new("two", "timeout=20s")
        .node("a", "cc=bbr")
        .node("b", "cc=bbr")
        .link("a", "b", "rate=50mbit delay=2ms")
        .flow("a", "b", "bytes=500KB cc=bbr");
    let helper =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/testbeds/enoslib_hosts.py");
    credible(|| {
        let bed = Bed::of(&draft, &draft);
        let packages = bed.hosts.path("packages");
        let mut install = Command::new("pip3");
        install.args([
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "enoslib==10.9.0",
            "--target",
        ]);
        let installed = install.arg(&packages).output().unwrap();
        assert!(installed.status.success(), "{}", text(&installed.stderr));
        let write = |config: &str| {
            let file = bed.hosts.path("testbed.yaml");
            fs::write(&file, config).unwrap();
            let mut command = Command::new("python3");
            command.arg(&helper).arg("static").arg(&file).arg(bed.hosts.path("testbed"));
            command.env("PYTHONPATH", &packages).output().unwrap()
        };
        let ssh = bed.hosts.path("ssh_config");
        let directory = bed.hosts.path("shared");
        let machine = |node: &str, role: &str| {
            let address = bed.wan.address(node).unwrap();
            format!(
                "    - {{address: host-{node}, alias: {node}, roles: [{role}], user: root, extra: {{longhaul_address: {address}, longhaul_directory: {}, \
                 ansible_ssh_common_args: \"-F {}\"}}}}\n",
                directory.display(),
                ssh.display()
            )
        };
        let config =
            |machines: &str| format!("resources:\n  machines:\n{machines}  networks: []\n");
        let twice = write(&config(&(machine("a", "a") + &machine("b", "a"))));
        assert!(
            text(&twice.stderr).contains("the role a has 2 machines"),
            "{}",
            text(&twice.stderr)
        );
        let written = write(&config(&(machine("a", "a") + &machine("b", "b"))));
        assert!(written.status.success(), "{}", text(&written.stderr));
        let hosts = bed.hosts.path("testbed/hosts.toml");
        let shown = call(&["lab", "hosts", hosts.to_str().unwrap()]);
        assert!(shown.status.success(), "{}{}", text(&shown.stdout), text(&shown.stderr));
        let mut words = bed.words();
        words[5] = hosts.to_str().unwrap().to_owned();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = call(&words);
        let wrong = (!output.status.success()).then(|| text(&output.stderr));
        Measured { wrong: wrong.into_iter().collect(), faults: bed.faults() }
    });
}
