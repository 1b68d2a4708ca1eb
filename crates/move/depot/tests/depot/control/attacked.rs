// SPDX-License-Identifier: GPL-2.0-or-later
//! Users without the right to give commands, and malformed commands.

use super::{Controlled, Download, of_client};
use longhaul_depot::control::{self, Answer};
use std::{
    fs::{self, Permissions},
    io::{Read, Write},
    os::unix::{fs::PermissionsExt, net::UnixStream, process::CommandExt},
    process::Command as Program,
};
use testkit::until;

/// What a depot answers to these bytes.
fn say(controlled: &Controlled, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(controlled.socket()).unwrap();
    // It may have heard enough before it has heard all.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn malformed_and_oversized_commands_do_nothing() {
    let controlled = Controlled::new();
    let running = Download::begin("127.0.0.9", &controlled.depot, "/f");
    for bytes in [
        &b""[..],
        b"\n",
        b"end\n",
        b"{\"end\":{}}\n",
        b"{\"end\":{\"client\":\"127.0.0.0/8\",\"other\":1}}\n",
        b"{\"end\":{\"client\":\"127.0.0.0/99\"}}\n",
        b"{\"deny\":{\"who\":{\"client\":\"127.0.0.0/8\"},\"seconds\":0}}\n",
        b"{\"deny\":{\"who\":{\"client\":\"127.0.0.0/8\"},\"seconds\":99999999999}}\n",
        b"{\"deny\":{\"who\":{\"ticket\":\"\"},\"seconds\":9}}\n",
        b"{\"deny\":{\"who\":{\"ticket\":\"a b\"},\"seconds\":9}}\n",
        b"{\"deny\":{\"who\":{\"ticket\":\"a\"},\"seconds\":9,\"why\":\"a\\nb\"}}\n",
        &[b'['; 15_000],
        &[0xff; 100],
        &vec![b'x'; 1 << 20],
    ] {
        let answer = say(&controlled, bytes);
        // Of more than 1 MB the rest is not read, and the answer may be lost.
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        assert!(answer.contains("\"error\"") || bytes.len() > 1 << 20, "{shown}: {answer}");
    }
    running.goes_on();
}

/// A command of as many bytes as are allowed is carried out; longer ones are refused in words, wherever they are cut.
#[test]
fn command_length_is_bounded_to_the_byte() {
    let controlled = Controlled::new();
    let padded = |length: usize| [&vec![b' '; length - 8][..], b"\"denied\""].concat();
    let command = |length: usize| [&padded(length)[..], b"\n"].concat();
    let limit = 16 << 10;
    for length in [limit - 1, limit] {
        let answer = say(&controlled, &command(length));
        assert!(!answer.contains("longer than"), "{length}: {answer}");
    }
    for length in [limit + 1, 17 << 10, 20_000, 200_000, 1 << 20] {
        let answer = say(&controlled, &command(length));
        assert!(answer.contains("longer than 16384 bytes"), "{length}: {answer}");
    }
    let who = control::Shunned::Ticket("a".to_owned());
    let long = control::Command::Deny { who, seconds: 9, why: "x".repeat(17 << 10) };
    let refused = control::ask(&controlled.socket(), &long).unwrap_err().to_string();
    assert!(refused.contains("longer than 16384 bytes"), "{refused}");
}

#[test]
fn other_users_cannot_give_commands() {
    let controlled = Controlled::new();
    let running = Download::begin("127.0.0.9", &controlled.depot, "/f");
    fs::set_permissions(controlled.dir.path(), Permissions::from_mode(0o755)).unwrap();
    let as_nobody = || {
        let socket = controlled.socket();
        let mut curl = Program::new("curl");
        curl.args(["-s", "--max-time", "5", "--unix-socket", socket.to_str().unwrap()]);
        curl.args(["-X", "{\"end\":{\"client\":\"0.0.0.0/0\"}}", "http://x/"]);
        // curl sends an HTTP request, which is not a command; the test is that no answer comes.
        curl.uid(65_534).gid(65_534).output().unwrap()
    };
    // 7: no connection.
    assert_eq!(as_nobody().status.code(), Some(7), "the file is for its owner alone");
    fs::set_permissions(controlled.socket(), Permissions::from_mode(0o666)).unwrap();
    let refused = as_nobody();
    assert!(refused.stdout.is_empty() && !refused.status.success(), "{refused:?}");
    running.goes_on();
}

#[test]
fn hundred_idle_connections_delay_no_command() {
    let controlled = Controlled::new();
    let running = Download::begin("127.0.0.9", &controlled.depot, "/f");
    let idle: Vec<_> =
        (0..100).map(|_| UnixStream::connect(controlled.socket()).unwrap()).collect();
    // One that asks and does not read.
    let mut deaf = UnixStream::connect(controlled.socket()).unwrap();
    deaf.write_all(b"{\"transfers\":{}}\n").unwrap();
    assert_eq!(controlled.end(of_client("127.0.0.9")), Answer::Ended(1));
    running.breaks_off();
    until("the depot lets the idle ones go", || {
        idle.iter().all(|stream| {
            stream.set_nonblocking(true).unwrap();
            matches!((&*stream).read(&mut [0]), Ok(0))
        })
    });
}

/// Root gives commands to a depot of another user, as the package's: but only where nobody else can have made the socket.
#[test]
fn root_asks_another_user_only_in_that_users_directory() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let own = dir.path().join("own");
    fs::create_dir(&own).unwrap();
    std::os::unix::fs::chown(&own, Some(65_534), Some(65_534)).unwrap();
    let socket = own.join("control.sock");
    // The first one to connect only looks whether it is there.
    let script = "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.bind(sys.argv[1])\ns.listen()\n\
                  while True:\n  c = s.accept()[0]\n  if c.makefile('rb').readline(): c.sendall(b'{\"ended\":7}\\n')\n  c.close()";
    let mut python = Program::new("python3");
    python.args(["-c", script]).arg(&socket).uid(65_534).gid(65_534);
    let _depot = Killed(python.spawn().unwrap());
    until("the socket is there", || UnixStream::connect(&socket).is_ok());
    let ask = || control::ask(&socket, &control::Command::End(of_client("127.0.0.9")));
    assert_eq!(ask().unwrap(), Answer::Ended(7));
    fs::set_permissions(&own, Permissions::from_mode(0o777)).unwrap();
    let refused = ask().unwrap_err().to_string();
    assert!(refused.contains("the user 65534 is at the other end"), "{refused}");
}

/// A process that ends with its test.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
