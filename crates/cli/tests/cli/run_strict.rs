// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul run --strict`: every way to a connection but connect(2) is refused, and that one is the supervisor's.

use crate::{
    chain::{Chain, PRELUDE},
    common::{refusing_address, text},
};
use rustix::io::Errno;
use std::{
    net::{Ipv4Addr, TcpListener},
    path::Path,
    process::Command,
};

/// Tries each way to connect to a port, by 64-bit calls, by those of x32, and by those of 32-bit programs, which any program
/// can make by `int $0x80`; prints a line for each: its name and what the call returns. Its data has addresses of 32 bits.
const WAYS: &str = r#"
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#define X32 0x40000000
enum { FASTOPEN = 0x20000000, LENGTH = sizeof(struct sockaddr_in) };
static struct sockaddr_in to;
static char data[] = "x";
static struct iovec iov = { data, 1 };
static struct mmsghdr message;
static unsigned iov32[2], message32[8], args[6];
static int ring[64], one = 1;
static long by_int80(long nr, long a, long b, long c, long d, long e, long f)
{
	long result;
	__asm__ volatile("push %%rbp\n\tmov %[f], %%rbp\n\tint $0x80\n\tpop %%rbp"
		: "=a"(result) : "a"(nr), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e), [f] "r"(f)
		: "memory", "r8", "r9", "r10", "r11");
	return (int)result;
}
static long by_socketcall(int call, long a, long b, long c, long d, long e, long f)
{
	long all[] = { a, b, c, d, e, f };
	for (int at = 0; at < 6; at++)
		args[at] = all[at];
	return by_int80(102, call, (long)args, 0, 0, 0, 0);
}
static long native(long nr, long a, long b, long c, long d, long e, long f)
{
	long result = syscall(nr, a, b, c, d, e, f);
	return result < 0 ? -errno : result;
}
static int fresh(void) { return socket(AF_INET, SOCK_STREAM, 0); }
#define TRY(name, call) printf("%s %ld\n", name, (long)(call))
int main(int argc, char **argv)
{
	long a = (long)&to, d = (long)data, m = (long)&message, m32 = (long)message32, r = (long)ring;
	to = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	message.msg_hdr = (struct msghdr){ .msg_name = &to, .msg_namelen = LENGTH, .msg_iov = &iov, .msg_iovlen = 1 };
	iov32[0] = d, iov32[1] = 1;
	message32[0] = a, message32[1] = LENGTH, message32[2] = (long)iov32, message32[3] = 1;
	TRY("sendto", native(44, fresh(), d, 1, FASTOPEN, a, LENGTH));
	TRY("sendmsg", native(46, fresh(), m, FASTOPEN, 0, 0, 0));
	TRY("sendmmsg", native(307, fresh(), m, 1, FASTOPEN, 0, 0));
	TRY("x32-sendto", native(X32 | 44, fresh(), d, 1, FASTOPEN, a, LENGTH));
	TRY("x32-sendmsg", native(X32 | 518, fresh(), m32, FASTOPEN, 0, 0, 0));
	TRY("x32-sendmmsg", native(X32 | 538, fresh(), m32, 1, FASTOPEN, 0, 0));
	TRY("int80-sendto", by_int80(369, fresh(), d, 1, FASTOPEN, a, LENGTH));
	TRY("int80-sendmsg", by_int80(370, fresh(), m32, FASTOPEN, 0, 0, 0));
	TRY("int80-sendmmsg", by_int80(345, fresh(), m32, 1, FASTOPEN, 0, 0));
	TRY("socketcall-sendto", by_socketcall(11, fresh(), d, 1, FASTOPEN, a, LENGTH));
	TRY("socketcall-sendmsg", by_socketcall(16, fresh(), m32, FASTOPEN, 0, 0, 0));
	TRY("socketcall-sendmmsg", by_socketcall(20, fresh(), m32, 1, FASTOPEN, 0, 0));
	TRY("option", native(54, fresh(), IPPROTO_TCP, 30, (long)&one, 4, 0));
	TRY("int80-option", by_int80(366, fresh(), IPPROTO_TCP, 30, (long)&one, 4, 0));
	TRY("io_uring", native(425, 4, r, 0, 0, 0, 0));
	TRY("int80-io_uring", by_int80(425, 4, r, 0, 0, 0, 0));
	TRY("smc", native(41, 43, SOCK_STREAM, 0, 0, 0, 0));
	TRY("ip-smc", native(41, AF_INET, SOCK_STREAM, 256, 0, 0, 0));
	TRY("sctp", native(41, AF_INET, SOCK_STREAM, 132, 0, 0, 0));
	TRY("rds", native(41, 21, SOCK_SEQPACKET, 0, 0, 0, 0));
	TRY("socketcall-smc", by_socketcall(1, 43, SOCK_STREAM, 0, 0, 0, 0));
	TRY("int80-rds", by_int80(359, 21, SOCK_SEQPACKET, 0, 0, 0, 0));
	TRY("connect", native(42, fresh(), a, LENGTH, 0, 0, 0));
	TRY("int80-connect", by_int80(362, fresh(), a, LENGTH, 0, 0, 0));
	int fd = by_socketcall(1, AF_INET, SOCK_STREAM, 0, 0, 0, 0);
	TRY("socketcall-connect", by_socketcall(3, fd, a, LENGTH, 0, 0, 0));
	TRY("socketcall-send", by_socketcall(9, fd, d, 1, 0, 0, 0));
	return argc != 2;
}
"#;

fn compile(source: &Path, binary: &Path) {
    let mut cc = Command::new("cc");
    let output = cc.args(["-static", "-no-pie", "-O1", "-o"]).arg(binary).arg(source).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
#[cfg(target_arch = "x86_64")]
fn strict_refuses_every_way_around_connect() {
    let chain = Chain::start();
    let binary = chain.dir.path().join("ways");
    compile(&chain.write("ways.c", WAYS), &binary);
    // The server's connections that do not come through depots.
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = server.local_addr().unwrap().port().to_string();
    let program = [binary.to_str().unwrap(), &port];
    let output = chain.run(&["--strict", "--stats"], &program);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    for line in out.lines() {
        let (way, returned) = line.split_once(' ').unwrap();
        let returned: i32 = returned.parse().unwrap();
        let kind = way.rsplit('-').next().unwrap();
        let expected = match kind {
            "sendto" | "sendmsg" | "sendmmsg" => -Errno::OPNOTSUPP.raw_os_error(),
            "option" => -Errno::NOPROTOOPT.raw_os_error(),
            "io_uring" => -Errno::NOSYS.raw_os_error(),
            "smc" if way == "ip-smc" => -Errno::PROTONOSUPPORT.raw_os_error(),
            "sctp" => -Errno::PROTONOSUPPORT.raw_os_error(),
            "smc" | "rds" => -Errno::AFNOSUPPORT.raw_os_error(),
            "connect" => 0,
            "send" => 1,
            _ => panic!("{line}"),
        };
        assert_eq!(returned, expected, "{line}\n{out}{err}");
    }
    assert_eq!(out.lines().count(), 26, "{out}");
    assert!(err.contains("3 connections: 3 through depots, 0 directly, 0 failed"), "{err}");
    server.set_nonblocking(true).unwrap();
    let came = server.incoming().map_while(Result::ok).count();
    assert_eq!(came, 3, "{out}{err}");
}

/// What goes without depots is connected by the supervisor, with the address that it has read.
#[test]
fn strict_connects_other_destinations_as_the_kernel_would() {
    let chain = Chain::start();
    let script = format!(
        r#"{PRELUDE}
closed = int({closed:?}.rsplit(":", 1)[1])
s = socket.socket()
s.connect((host, port))
assert s.getpeername() == (host, port)
exchange(s)
s = socket.socket()
s.setblocking(False)
e = s.connect_ex((host, port))
assert e in (0, errno.EINPROGRESS), e
select.select([], [s], [], 20)
assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
assert s.connect_ex((host, port)) in (0, errno.EISCONN)
assert s.connect_ex((host, port)) == errno.EISCONN
s.setblocking(True)
exchange(s)
assert socket.socket().connect_ex((host, closed)) == errno.ECONNREFUSED
s = socket.socket(socket.AF_INET6)
s.connect(("::ffff:127.0.0.1", port))
exchange(s)
# Datagrams, local sockets, and a socket that is disconnected.
there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
there.bind(("127.0.0.1", 0))
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.connect(there.getsockname())
u.send(b"hello")
assert there.recv(10) == b"hello"
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
assert libc.connect(u.fileno(), bytes(16), 16) == 0
try: assert False, u.getpeername()
except OSError as e: assert e.errno == errno.ENOTCONN
path = b"\0longhaul-strict-" + str(os.getpid()).encode()
l = socket.socket(socket.AF_UNIX); l.bind(path); l.listen()
c = socket.socket(socket.AF_UNIX); c.connect(path)
c.sendall(b"hi")
assert l.accept()[0].recv(2) == b"hi"
# What connect says of wrong arguments.
def fails(fd, address, length):
    assert libc.connect(fd, address, length) == -1
    return errno.errorcode[ctypes.get_errno()]
t = socket.socket()
assert fails(t.fileno(), bytes([2, 0]) + bytes(5), 7) == "EINVAL"
assert fails(t.fileno(), bytes([1, 0]) + bytes(14), 16) == "EAFNOSUPPORT"
assert fails(0, bytes([2, 0]) + bytes(14), 16) == "ENOTSOCK"
assert fails(99, bytes([2, 0]) + bytes(14), 16) == "EBADF"
"#,
        closed = refusing_address().to_string()
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.args(["run", "--via", &chain.via(), "--match", "192.0.2.0/24", "--strict", "--"]);
    let output = command.args(["python3", "-c", &script]).env("ECHO", &chain.echo).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}
