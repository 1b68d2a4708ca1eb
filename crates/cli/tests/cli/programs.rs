// SPDX-License-Identifier: GPL-2.0-or-later
//! Real programs, unchanged, through two depots over an emulated path: by `longhaul run`, and by `longhaul agent` where they
//! can use a proxy.

use crate::{
    common::{alone, text},
    emulated::{B, D1, D2, On, depot, network},
    wan::Up,
};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

/// A program, and shell commands that leave what it has transferred in `$OUT`: as it stands, and by the agent.
struct Program {
    name: &'static str,
    plain: &'static str,
    by_agent: Option<&'static str>,
}

const fn program(name: &'static str, plain: &'static str) -> Program {
    Program { name, plain, by_agent: None }
}

const fn with_agent(name: &'static str, plain: &'static str, by_agent: &'static str) -> Program {
    Program { name, plain, by_agent: Some(by_agent) }
}

/// In the order of the table in docs/run.md. `$B` is the server, `$SSH` ssh's options, `$AGENT` the agent's address.
const PROGRAMS: &[Program] = &[
    with_agent(
        "curl",
        "curl -sf -o $OUT http://$B:8000/file",
        "http_proxy=http://$AGENT curl -sf -o $OUT http://$B:8000/file",
    ),
    with_agent(
        "wget",
        "wget -q -O $OUT http://$B:8000/file",
        "http_proxy=http://$AGENT wget -q -O $OUT http://$B:8000/file",
    ),
    with_agent(
        "git over http",
        "git clone -q http://$B:8000/sets.git $DIR/clone && cp $DIR/clone/file $OUT",
        "git -c http.proxy=http://$AGENT clone -q http://$B:8000/sets.git $DIR/clone && cp $DIR/clone/file $OUT",
    ),
    with_agent(
        "git over ssh",
        "GIT_SSH_COMMAND=\"ssh $SSH\" git clone -q ssh://root@$B:2222$WEB/sets.git $DIR/clone && cp $DIR/clone/file $OUT",
        "GIT_SSH_COMMAND=\"ssh $SSH -o ProxyCommand='$LONGHAUL agent connect %h:%p --agent $AGENT'\" \
         git clone -q ssh://root@$B:2222$WEB/sets.git $DIR/clone && cp $DIR/clone/file $OUT",
    ),
    program("rsync daemon", "rsync rsync://$B:8730/data/file $OUT"),
    with_agent(
        "rsync over ssh",
        "rsync -e \"ssh $SSH -p 2222\" root@$B:$WEB/file $OUT",
        "rsync -e \"ssh $SSH -p 2222 -o ProxyCommand='$LONGHAUL agent connect %h:%p --agent $AGENT'\" root@$B:$WEB/file $OUT",
    ),
    program(
        "psql COPY",
        "psql -qAt -h $B -U postgres -c \"copy (select pg_read_binary_file('$WEB/file')) to stdout\" | cut -c4- | xxd -r -p > $OUT",
    ),
    with_agent(
        "ssh",
        "ssh $SSH -p 2222 root@$B cat $WEB/file > $OUT",
        "ssh $SSH -p 2222 -o ProxyCommand=\"$LONGHAUL agent connect %h:%p --agent $AGENT\" root@$B cat $WEB/file > $OUT",
    ),
    with_agent(
        "scp",
        "scp -q $SSH -P 2222 root@$B:$WEB/file $OUT",
        "scp -q $SSH -P 2222 -o ProxyCommand=\"$LONGHAUL agent connect %h:%p --agent $AGENT\" root@$B:$WEB/file $OUT",
    ),
    with_agent(
        "sftp",
        "sftp -q $SSH -P 2222 root@$B:$WEB/file $OUT",
        "sftp -q $SSH -P 2222 -o ProxyCommand=\"$LONGHAUL agent connect %h:%p --agent $AGENT\" root@$B:$WEB/file $OUT",
    ),
    with_agent(
        "apt",
        "cd $DIR && apt-get $APT update -qq && apt-get $APT download -qq sets && dpkg-deb --fsys-tarfile sets_1_all.deb | tar xO ./file > $OUT",
        "cd $DIR && apt-get $APT -o Acquire::http::Proxy=http://$AGENT update -qq && \
         apt-get $APT -o Acquire::http::Proxy=http://$AGENT download -qq sets && \
         dpkg-deb --fsys-tarfile sets_1_all.deb | tar xO ./file > $OUT",
    ),
    with_agent(
        "pip",
        "pip3 -q --isolated --disable-pip-version-check download --no-deps --index-url http://$B:8000/simple --trusted-host $B -d $DIR sets \
         && unzip -p $DIR/sets-1-py3-none-any.whl file > $OUT",
        "pip3 -q --isolated --disable-pip-version-check --proxy http://$AGENT download --no-deps --index-url http://$B:8000/simple \
         --trusted-host $B -d $DIR sets && unzip -p $DIR/sets-1-py3-none-any.whl file > $OUT",
    ),
    program(
        "rclone sftp",
        "rclone copyto :sftp,host=$B,port=2222,user=root,key_file=$KEY,shell_type=unix:$WEB/file $OUT",
    ),
    with_agent(
        "rclone webdav",
        "rclone copyto \":webdav,url='http://$B:8001':file\" $OUT",
        "http_proxy=http://$AGENT rclone copyto \":webdav,url='http://$B:8001':file\" $OUT",
    ),
    with_agent(
        "ncat",
        "ncat --recv-only $B 7000 > $OUT",
        "ncat --recv-only --proxy-type socks5 --proxy $AGENT $B 7000 > $OUT",
    ),
    program(
        "iperf3",
        "iperf3 -c $B -p 5201 -R -n 2M -J | python3 -c \"import json, sys; sys.exit(json.load(sys.stdin)['end']['sum_received']['bytes'] < 2 << 20)\" \
         && cp $WEB/file $OUT",
    ),
    with_agent(
        "Chromium",
        "chromium $CHROMIUM --dump-dom http://$B:8000/page.html | python3 $DIR/../page.py > $OUT",
        "chromium $CHROMIUM --proxy-server=socks5://$AGENT --dump-dom http://$B:8000/page.html | python3 $DIR/../page.py > $OUT",
    ),
    with_agent(
        "Java HttpClient",
        "java $DIR/../Get.java http://$B:8000/file $OUT",
        "java -Djdk.httpclient.HttpClient.log=errors -Dhttp.proxyHost=${AGENT%:*} -Dhttp.proxyPort=${AGENT#*:} \
         $DIR/../Get.java http://$B:8000/file $OUT",
    ),
    program("Node", "node $DIR/../get.js http://$B:8000/file $OUT"),
    with_agent(
        "static Go binary",
        "$DIR/../get-go http://$B:8000/file $OUT",
        "http_proxy=http://$AGENT $DIR/../get-go http://$B:8000/file $OUT",
    ),
    program("static C binary", "$DIR/../get-c $B 7000 > $OUT"),
    program("Python asyncio", "python3 $DIR/../get.py $B 7000 > $OUT"),
];

const JAVA: &str = r"
import java.net.*;
import java.net.http.*;
import java.nio.file.*;
class Get {
    public static void main(String[] args) throws Exception {
        var client = HttpClient.newBuilder().proxy(ProxySelector.getDefault()).build();
        client.send(HttpRequest.newBuilder(URI.create(args[0])).build(), HttpResponse.BodyHandlers.ofFile(Path.of(args[1])));
    }
}
";
const NODE: &str = r#"
require("http").get(process.argv[2], (answer) => answer.pipe(require("fs").createWriteStream(process.argv[3])));
"#;
const GO: &str = r#"
package main

import (
	"io"
	"net/http"
	"os"
)

func main() {
	answer, err := http.Get(os.Args[1])
	if err != nil {
		panic(err)
	}
	file, _ := os.Create(os.Args[2])
	if _, err := io.Copy(file, answer.Body); err != nil {
		panic(err)
	}
}
"#;
const C: &str = r"
#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	static char part[65536];
	struct sockaddr_in to = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	ssize_t got;
	if (argc != 3)
		return 2;
	to.sin_port = htons(atoi(argv[2]));
	inet_pton(AF_INET, argv[1], &to.sin_addr);
	if (connect(fd, (struct sockaddr *)&to, sizeof to))
		return 1;
	while ((got = read(fd, part, sizeof part)) > 0)
		if (write(1, part, got) != got)
			return 1;
	return got < 0;
}
";
const ASYNCIO: &str = r"
import asyncio, sys
async def main():
    reader, writer = await asyncio.open_connection(sys.argv[1], int(sys.argv[2]))
    while part := await reader.read(65536):
        sys.stdout.buffer.write(part)
asyncio.run(main())
";
/// The file stands in a page as hexadecimal digits.
const PAGE: &str = r#"
import re, sys
sys.stdout.buffer.write(bytes.fromhex(re.search("<pre>([0-9a-f]+)</pre>", sys.stdin.read())[1]))
"#;
/// A program of `PostgreSQL`, as its user; in place, so that a signal reaches it.
const POSTGRES: &str = "setpriv --reuid postgres --regid postgres --clear-groups $(ls -d /usr/lib/postgresql/*/bin | tail -1)";
/// Sends the file to whoever connects.
const SERVE: &str = r"
import socket, sys
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
while True:
    with server.accept()[0] as client, open(sys.argv[3], 'rb') as file:
        client.sendfile(file)
";
/// What the servers serve, made of `file`.
const CONTENT: &str = r#"
set -e
cd "$WEB"
git init -q --bare sets.git
git init -q work
cp file work/
git -C work add file
git -C work -c user.name=n -c user.email=e commit -qm set
git -C work push -q ../sets.git HEAD:refs/heads/main
git -C sets.git symbolic-ref HEAD refs/heads/main
git -C sets.git update-server-info
mkdir -p package/DEBIAN apt simple/sets
printf 'Package: sets\nVersion: 1\nArchitecture: all\nMaintainer: n <e@example.org>\nDescription: a set\n' > package/DEBIAN/control
cp file package/
dpkg-deb -b package apt/sets_1_all.deb > /dev/null
(cat package/DEBIAN/control
 printf 'Filename: ./sets_1_all.deb\nSize: %s\nSHA256: %s\n' "$(stat -c %s apt/sets_1_all.deb)" "$(sha256sum < apt/sets_1_all.deb | cut -d' ' -f1)") > apt/Packages
python3 - <<'END'
import zipfile
with zipfile.ZipFile("simple/sets/sets-1-py3-none-any.whl", "w") as wheel:
    wheel.write("file")
    wheel.writestr("sets-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: sets\nVersion: 1\n")
    wheel.writestr("sets-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr("sets-1.dist-info/RECORD", "")
open("simple/sets/index.html", "w").write('<a href="sets-1-py3-none-any.whl">sets</a>')
open("page.html", "w").write("<pre>" + open("file", "rb").read().hex() + "</pre>")
END
"#;

/// Programs, what servers serve, and their configuration, in this directory.
fn prepare(root: &Path) {
    // PostgreSQL runs as a user of its own.
    fs::set_permissions(root, fs::Permissions::from_mode(0o755)).unwrap();
    let write = |name: &str, content: &str| fs::write(root.join(name), content).unwrap();
    fs::create_dir(root.join("web")).unwrap();
    let content: Vec<u8> =
        (0..200_000u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as u8).collect();
    fs::write(root.join("web/file"), content).unwrap();
    for (name, content) in [
        ("Get.java", JAVA),
        ("get.js", NODE),
        ("get.go", GO),
        ("get.c", C),
        ("get.py", ASYNCIO),
        ("page.py", PAGE),
        ("serve.py", SERVE),
    ] {
        write(name, content);
    }
    let web = root.join("web");
    shell(&format!("export WEB={}\n{CONTENT}", web.display()));
    shell(&format!(
        "set -e; cd {}; cc -static -O1 -o get-c get.c; CGO_ENABLED=0 GOCACHE=$PWD/cache go build -o get-go get.go; rm -rf cache\n\
         ssh-keygen -q -t ed25519 -N '' -f host-key; ssh-keygen -q -t ed25519 -N '' -f key; chmod 600 key.pub\n\
         install -d -o postgres postgres\n\
         {POSTGRES}/initdb -D postgres -A trust --locale C > initdb.log\n\
         printf 'host all all 10.110.0.0/16 trust\\n' >> postgres/pg_hba.conf",
        root.display()
    ));
    let at = |name: &str| root.join(name).display().to_string();
    write(
        "sshd.conf",
        &format!(
            "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\nSubsystem sftp internal-sftp\n",
            at("host-key"),
            at("key.pub")
        ),
    );
    write("rsyncd.conf", &format!("use chroot = no\n[data]\npath = {}\n", at("web")));
}

/// Everything that the programs ask for, on the network.
struct Servers {
    root: tempfile::TempDir,
    network: Up,
    _running: Vec<On>,
    _sshds: RunDirectory,
}

/// Where sshd wants to be imprisoned; made if it is not there.
struct RunDirectory(bool);

const RUN_SSHD: &str = "/run/sshd";

impl RunDirectory {
    fn make() -> Self {
        Self(fs::create_dir(RUN_SSHD).is_ok())
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        if self.0 {
            let _ = fs::remove_dir(RUN_SSHD);
        }
    }
}

impl Drop for Servers {
    /// A killed one would leave shared memory behind.
    fn drop(&mut self) {
        let stop =
            format!("{POSTGRES}/pg_ctl -s -D {}/postgres -m fast stop", self.root.path().display());
        let _ = Command::new("bash").args(["-c", &stop]).status();
    }
}

impl Servers {
    fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        prepare(root.path());
        let at = |name: &str| root.path().join(name).display().to_string();
        let (sshds, network) = (RunDirectory::make(), network(root.path()));
        let mut running = vec![];
        for command in [
            format!("cd {} && exec python3 -m http.server --bind {B} 8000", at("web")),
            format!("exec rclone serve webdav --addr {B}:8001 {}", at("web")),
            format!(
                "exec /usr/sbin/sshd -D -e -p 2222 -o ListenAddress={B} -f {}",
                at("sshd.conf")
            ),
            format!(
                "exec rsync --daemon --no-detach --address {B} --port 8730 --config {}",
                at("rsyncd.conf")
            ),
            format!(
                "exec {POSTGRES}/postgres -D {} -h {B} -c unix_socket_directories=",
                at("postgres")
            ),
            format!("exec python3 {} {B} 7000 {}", at("serve.py"), at("web/file")),
            format!("exec iperf3 -s -B {B}"),
        ] {
            running.push(On::start(&network, "b", "sh", &["-c", &command]));
        }
        running.push(depot(&network, "d1", D1));
        running.push(depot(&network, "d2", D2));
        let via = format!("{D1},{D2}");
        let agent = ["agent", "run", "--via", &via, "--strict"];
        running.push(On::start(&network, "a", env!("CARGO_BIN_EXE_longhaul"), &agent));
        for (node, port) in [
            ("b", "8000"),
            ("b", "8001"),
            ("b", "2222"),
            ("b", "8730"),
            ("b", "5432"),
            ("b", "7000"),
            ("b", "5201"),
            ("a", "3885"),
        ] {
            let begun = Instant::now();
            while !network.exec(node, &["ss", "-ltn"]).contains(&format!(":{port} ")) {
                assert!(
                    begun.elapsed() < Duration::from_secs(30),
                    "nobody listens at {node}:{port}"
                );
                sleep(Duration::from_millis(50));
            }
        }
        Self { root, network, _running: running, _sshds: sshds }
    }

    /// Runs one program; how many connections it has made through both depots.
    fn try_one(&self, program: &Program, command: &str, is_by_agent: bool) -> u64 {
        let dir = self.root.path().join("out");
        fs::create_dir(&dir).unwrap();
        let at = |name: &str| self.root.path().join(name).display().to_string();
        let before = self.agents_connections();
        let environment = format!(
            "set -e; export HOME={home} OUT={home}/out DIR={home} B={B} WEB={web} KEY={key} AGENT=127.0.0.1:3885 LONGHAUL={longhaul} \
             SSH='-q -i {key} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o BatchMode=yes' \
             APT='-o Dir={home}/apt -o Dir::State::status={home}/status -o Debug::NoLocking=1 -o APT::Sandbox::User=root' \
             CHROMIUM='--headless --no-sandbox --disable-gpu --disable-background-networking --user-data-dir={home}/profile'\n\
             mkdir -p $HOME/apt/etc/apt $HOME/apt/var/lib/apt/lists/partial $HOME/apt/var/cache/apt/archives/partial\n\
             touch $HOME/status\n\
             mkdir -p $HOME/apt/etc/apt/apt.conf.d $HOME/apt/etc/apt/preferences.d $HOME/apt/etc/apt/trusted.gpg.d\n\
             echo \"deb [trusted=yes] http://$B:8000/apt ./\" > $HOME/apt/etc/apt/sources.list\n",
            home = dir.display(),
            web = at("web"),
            key = at("key"),
            longhaul = env!("CARGO_BIN_EXE_longhaul"),
        );
        fs::write(dir.join("script"), environment + command + "\n").unwrap();
        let script = dir.join("script").display().to_string();
        let via = format!("{D1},{D2}");
        let mut arguments = vec!["wan", "exec", "--name", &self.network.0, "a", "--"];
        if !is_by_agent {
            arguments.extend([
                env!("CARGO_BIN_EXE_longhaul"),
                "run",
                "--via",
                &via,
                "--strict",
                "--stats",
                "--",
            ]);
        }
        arguments.extend(["timeout", "60", "sh", &script]);
        let output =
            Command::new(env!("CARGO_BIN_EXE_longhaul")).args(&arguments).output().unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(
            output.status.success(),
            "{} ({is_by_agent}): {}\n{said}",
            program.name,
            output.status
        );
        let [got, sent] = [dir.join("out"), self.root.path().join("web/file")].map(fs::read);
        assert!(got.unwrap() == sent.unwrap(), "{}: another file arrived\n{said}", program.name);
        fs::remove_dir_all(&dir).unwrap();
        if is_by_agent {
            return self.agents_connections() - before;
        }
        let counts = said.lines().find(|line| line.contains(" connections: ")).unwrap();
        assert!(counts.contains(" through depots, 0 directly, "), "{}: {said}", program.name);
        counts.split(' ').nth(2).unwrap().parse().unwrap()
    }

    fn agents_connections(&self) -> u64 {
        let status =
            self.network.exec("a", &[env!("CARGO_BIN_EXE_longhaul"), "agent", "status", "--json"]);
        serde_json::from_str::<serde_json::Value>(&status).unwrap()["through"].as_u64().unwrap()
    }
}

fn shell(script: &str) {
    let output = Command::new("bash").args(["-c", script]).output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn programs_of_the_table_go_through_both_depots() {
    let _alone = alone();
    let servers = Servers::start();
    for program in PROGRAMS {
        let by_run = servers.try_one(program, program.plain, false);
        assert!(by_run > 0, "{}: no connection", program.name);
        if let Some(command) = program.by_agent {
            assert!(servers.try_one(program, command, true) > 0, "{}: no connection", program.name);
        }
    }
}

#[test]
fn guide_has_the_table_of_programs() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/run.md");
    let guide = fs::read_to_string(guide).unwrap();
    let rows = PROGRAMS.iter().map(|program| {
        let by_agent = if program.by_agent.is_some() { "works" } else { "" };
        ["| ", program.name, " | works | ", by_agent, " |\n"].concat()
    });
    let table: String = rows.collect();
    assert!(guide.contains(&table), "docs/run.md should have:\n{table}");
}
