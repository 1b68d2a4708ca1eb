// SPDX-License-Identifier: GPL-2.0-or-later
//! Real programs, unchanged, through two depots over an emulated path: by `longhaul run`, and by `longhaul agent` where they
//! can use a proxy. The programs are those of `tests/programs/table.toml`.

use crate::{
    common::{call, text},
    emulated::{B, D1, D2, On, depot, network},
    sshd::SshdDirectory,
    wan::Up,
};
use serde::Deserialize;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};
use testkit::until;

/// `tests/programs/table.toml`.
#[derive(Deserialize)]
struct Table {
    server: Vec<Server>,
    program: Vec<Program>,
}

#[derive(Deserialize)]
struct Server {
    command: String,
    port: u16,
}

/// A program, and shell commands that leave what it has transferred in `$OUT`: as it stands, and by the agent.
#[derive(Deserialize)]
struct Program {
    name: String,
    plain: String,
    agent: Option<String>,
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs")
}

fn table() -> Table {
    toml::from_str(&fs::read_to_string(directory().join("table.toml")).unwrap()).unwrap()
}

/// Programs, what servers serve, and their configuration, in this directory.
fn prepare(root: &Path) {
    fs::create_dir(root.join("web")).unwrap();
    let content: Vec<u8> =
        (0..200_000u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as u8).collect();
    fs::write(root.join("web/file"), content).unwrap();
    let script = directory().join("prepare.sh");
    shell(&format!("CLIENTS=10.110.0.0/16\n{}. {}", variables(root), script.display()));
}

/// The command of README.md that the tests' agent is started by.
const AGENT: &str = "longhaul agent run --via depot1,depot2";

/// What `environment.sh` needs.
fn variables(root: &Path) -> String {
    format!(
        "export ROOT={} B={B} AGENT=127.0.0.1:3885 LONGHAUL={} PROGRAMS={}\n",
        root.display(),
        env!("CARGO_BIN_EXE_longhaul"),
        directory().display()
    )
}

/// A script of commands of the table.
fn with_environment(root: &Path, command: &str) -> String {
    let environment = directory().join("environment.sh");
    format!("set -e\n{}. {}\n{command}\n", variables(root), environment.display())
}

/// Everything that the programs ask for, on the network.
struct Servers {
    root: tempfile::TempDir,
    network: Up,
    _running: Vec<On>,
    _sshds: SshdDirectory,
}

impl Drop for Servers {
    /// A killed one would leave shared memory behind.
    fn drop(&mut self) {
        let stop = "$POSTGRES/pg_ctl -s -D $ROOT/postgres -m fast stop";
        let script = with_environment(self.root.path(), stop);
        let _ = Command::new("sh").args(["-c", &script]).status();
    }
}

impl Servers {
    fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        prepare(root.path());
        let (sshds, network) = (SshdDirectory::make(), network(root.path()));
        let (mut running, mut ports) = (vec![], vec![]);
        for Server { command, port } in table().server {
            let script = with_environment(root.path(), &command);
            running.push(On::start(&network, "b", "sh", &["-c", &script]));
            ports.push(("b", port));
        }
        for node in ["depot1", "depot2"] {
            running.push(depot(&network, node));
        }
        let agent = AGENT.replace("longhaul", env!("CARGO_BIN_EXE_longhaul"));
        running.push(On::start(&network, "a", "sh", &["-c", &format!("exec {agent} --strict")]));
        ports.push(("a", 3885));
        for (node, port) in ports {
            await_port(&network, node, port);
        }
        Self { root, network, _running: running, _sshds: sshds }
    }

    /// A depot at the client, whose port is relayed to the server behind the other depots.
    fn relay_a_port(&self) {
        let config = self.root.path().join("tcp.toml");
        let text = format!(
            "listen = [\"127.0.0.1:3880\"]\nallow.clients = [\"127.0.0.0/8\"]\nallow.local = true\nallow.private = true\n\
             [[tcp]]\nlisten = \"127.0.0.1:7001\"\nupstream = \"{B}:7000\"\nvia = [\"{D1}:3880\", \"{D2}:3880\"]\n"
        );
        fs::write(&config, text).unwrap();
        let arguments = ["depot", "--config", config.to_str().unwrap()];
        let _depot = On::start(&self.network, "a", env!("CARGO_BIN_EXE_longhaul"), &arguments);
        await_port(&self.network, "a", 7001);
        self.transfer("ncat --recv-only 127.0.0.1 7001 > $OUT", "");
    }

    /// The client's node intercepts its own connections to the server's network.
    fn intercept(&self, command: &str) {
        let command = command.replace("NET", B);
        let arguments: Vec<&str> = command.split(' ').skip(1).collect();
        let longhaul = env!("CARGO_BIN_EXE_longhaul");
        let _interceptor = On::start(&self.network, "a", longhaul, &arguments);
        until("it is at work", || {
            self.network.exec("a", &["nft", "list", "tables"]).contains("longhaul")
        });
        self.transfer("ncat --recv-only $B 7000 > $OUT", "");
        let status = self.network.exec("a", &[longhaul, "intercept", "status", "--json"]);
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        assert_eq!(status["through"], 1, "{status}");
    }

    /// Runs commands on the client's node, which transfer the file; what they say. `before` is what runs them.
    fn transfer(&self, command: &str, before: &str) -> String {
        let (root, out) = (self.root.path(), self.root.path().join("out/out"));
        fs::write(root.join("script"), with_environment(root, command)).unwrap();
        let script = format!(
            "begin; export PATH={}:$PATH; {before} timeout 60 sh {}/script",
            Path::new(env!("CARGO_BIN_EXE_longhaul")).parent().unwrap().display(),
            root.display()
        );
        let script = with_environment(root, &script);
        let on_a = ["wan", "exec", "--name", &self.network.0, "a", "--", "sh", "-c", &script];
        let output = call(&on_a);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success(), "{before} {command}: {}\n{said}", output.status);
        let [got, sent] = [out, root.join("web/file")].map(fs::read);
        assert!(got.unwrap() == sent.unwrap(), "{before} {command}: another file arrived\n{said}");
        said
    }

    /// How many connections a program has made, all of them through both depots.
    fn by_run(&self, command: &str) -> u64 {
        let said = self.transfer(command, "longhaul run --via depot1,depot2 --strict --stats --");
        let counts = said.lines().find(|line| line.contains(" connections: ")).unwrap();
        assert!(counts.contains(" through depots, 0 directly, "), "{command}: {said}");
        let bytes = said.lines().find(|line| line.contains(" received")).unwrap();
        assert!(!bytes.contains("not known"), "{command}: {said}");
        counts.split(' ').next().unwrap().parse().unwrap()
    }

    /// The same by the agent, through which all goes that reaches it.
    fn by_agent(&self, command: &str) -> u64 {
        let before = self.agents_connections();
        self.transfer(command, "");
        self.agents_connections() - before
    }

    fn agents_connections(&self) -> u64 {
        let status =
            self.network.exec("a", &[env!("CARGO_BIN_EXE_longhaul"), "agent", "status", "--json"]);
        serde_json::from_str::<serde_json::Value>(&status).unwrap()["through"].as_u64().unwrap()
    }
}

fn await_port(network: &Up, node: &str, port: u16) {
    let begun = Instant::now();
    while !network.exec(node, &["ss", "-ltn"]).contains(&format!(":{port} ")) {
        assert!(begun.elapsed() < Duration::from_secs(30), "nothing listens at {node}:{port}");
        sleep(Duration::from_millis(50));
    }
}

fn shell(script: &str) {
    let output = Command::new("bash").args(["-c", script]).output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn programs_of_the_table_go_through_both_depots() {
    let servers = Servers::start();
    for Program { name, plain, agent } in table().program {
        assert!(servers.by_run(&plain) > 0, "{name}: no connection");
        if let Some(command) = agent {
            assert!(servers.by_agent(&command) > 0, "{name}: no connection");
        }
    }
}

fn document(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)).unwrap()
}

#[test]
fn guide_has_the_table_of_programs() {
    let guide = document("docs/run.md");
    let rows: Vec<&str> =
        guide.lines().skip_while(|line| !line.starts_with("| program |")).collect();
    let rows = rows[2..].iter().take_while(|line| line.starts_with('|'));
    let rows: Vec<Vec<&str>> =
        rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect();
    let works = |cell: &str| cell == "works" || cell.starts_with("works, ");
    let programs = table().program;
    assert_eq!(rows.len(), programs.len());
    for (row, program) in rows.iter().zip(programs) {
        assert_eq!(row[0], program.name);
        assert!(works(row[1]) && works(row[2]) == program.agent.is_some(), "{row:?}");
        assert!(works(row[2]) || row[2].is_empty(), "{row:?}");
    }
}

/// The programs and the command of each row of README's table of ways into depots.
fn ways() -> Vec<(String, String)> {
    let readme = document("README.md");
    let rows = readme.lines().skip_while(|line| *line != "| your program | command |").skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let (programs, command) = row.trim_matches(['|', ' ']).split_once(" | ").unwrap();
        (programs.to_owned(), command.to_owned())
    })
    .collect()
}

/// The code in a cell.
fn code(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Each row is followed as it stands, with a program and a host in it. A row that this test does not know fails it.
#[test]
fn ways_of_the_readme_work_as_written() {
    let servers = Servers::start();
    let programs = table().program;
    let named = |name: &str| {
        let found = programs.iter().find(|program| program.name.starts_with(name));
        found.unwrap_or_else(|| panic!("{name} is not in the table of programs"))
    };
    for (whose, command) in ways() {
        let code = code(&command);
        match code[..] {
            [run] if run.ends_with(" -- PROGRAM") => {
                for name in whose.split(", ").filter(|name| *name != "any other program") {
                    let said =
                        servers.transfer(&named(name).plain, run.trim_end_matches("PROGRAM"));
                    assert!(!said.contains("directly"), "{name}: {said}");
                }
                let peer = format!(
                    "test $(python3 -c 'import socket; print(socket.create_connection((\"'$B'\", 7000)).getpeername()[0])') = {D1}; cp $WEB/file $OUT"
                );
                servers.transfer(&peer, run.trim_end_matches("PROGRAM"));
            }
            [agent, proxy] if proxy.starts_with("http_proxy=") => {
                assert_eq!(agent, AGENT, "what the agent of this test was started with");
                for name in whose.split(", ") {
                    let name = if name == "a browser" { "Chromium" } else { name };
                    let command = format!("export {proxy}; {}", named(name).plain);
                    assert!(servers.by_agent(&command) > 0, "{name}: no connection");
                }
            }
            [ssh] if ssh.starts_with("ssh ") => {
                let host = "$SSH -p 2222 root@$B cat $WEB/file > $OUT";
                assert!(servers.by_agent(&ssh.replace("HOST", host)) > 0);
                for name in whose.split(", ") {
                    let by_agent = named(name).agent.as_ref().unwrap();
                    assert!(by_agent.contains("$LONGHAUL agent connect %h:%p"), "{name}");
                }
            }
            ["[[tcp]]"] => servers.relay_a_port(),
            [intercept] if intercept.starts_with("longhaul intercept ") => {
                servers.intercept(intercept);
            }
            // Followed by the quick start's own test.
            [_] if command.contains("docs/start/download.md") => {
                assert!(crate::quick_starts::DOWNLOAD.contains(&"start/download.md"));
            }
            _ => panic!("this test does not know {command:?}"),
        }
    }
}
