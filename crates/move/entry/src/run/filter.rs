// SPDX-License-Identifier: GPL-2.0-or-later
//! The seccomp filter: which system calls are asked about, which are refused, and which go on.
//!
//! connect(2) is asked about. What else can connect a socket is refused: TCP Fast Open (flags of the calls that send, an
//! option of the socket) and `io_uring`. `strict` permits only what is listed here: of kinds of sockets those that cannot
//! connect by TCP or are asked about, of the calls within socketcall(2) those whose arguments, which are in memory where a
//! filter cannot read them, cannot matter. Processes of an architecture that is not listed can call nothing.

use libc::{
    AF_ALG, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_UNIX, BPF_ABS, BPF_ALU, BPF_AND, BPF_JEQ,
    BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W, IPPROTO_IP, IPPROTO_MPTCP, IPPROTO_TCP,
    MSG_FASTOPEN, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_USER_NOTIF, SOCK_DGRAM,
    SOCK_RAW, SOCK_STREAM, TCP_FASTOPEN_CONNECT, sock_filter,
};
use std::mem::offset_of;

/// The system calls of a kind of program, by their numbers.
pub(super) struct Abi {
    /// As the kernel calls it (`AUDIT_ARCH_X86_64` and others).
    pub arch: u32,
    pub connect: u32,
    /// The calls that can connect with data, each with the argument that has the flags.
    with_data: &'static [(u32, u8)],
    setsockopt: &'static [u32],
    socket: u32,
    /// One call for all that concern sockets; the first argument says which.
    pub socketcall: Option<u32>,
}

/// Calls of socketcall(2).
pub(super) const SOCKETCALL_SOCKET: u32 = 1;
const SOCKETCALL_CONNECT: u32 = 3;
/// Of the others, all but sendto, sendmsg and sendmmsg. send(2) names no address, so it cannot connect.
const SOCKETCALL_OTHERS: [u32; 15] = [2, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 17, 18, 19];
/// Calls of `io_uring`, which have the same numbers everywhere: setup, enter, register.
const IO_URING: [u32; 3] = [425, 426, 427];
/// The flag of system calls whose programs have 32-bit pointers in 64-bit registers.
pub(super) const X32: u32 = 0x4000_0000;

/// Those that this machine's kernel may run.
pub(super) const ABIS: &[Abi] = &[NATIVE, COMPATIBLE];

/// With those of x32, some of which have other numbers.
#[cfg(target_arch = "x86_64")]
const NATIVE: Abi = Abi {
    arch: 0xc000_003e,
    connect: 42,
    with_data: &[(44, 3), (46, 2), (307, 3), (518, 2), (538, 3)],
    setsockopt: &[54, 541],
    socket: 41,
    socketcall: None,
};
#[cfg(target_arch = "aarch64")]
const NATIVE: Abi = Abi {
    arch: 0xc000_00b7,
    connect: 203,
    with_data: &[(206, 3), (211, 2), (269, 3)],
    setsockopt: &[208],
    socket: 198,
    socketcall: None,
};

/// Programs of 32 bits.
#[cfg(target_arch = "x86_64")]
const COMPATIBLE: Abi = Abi {
    arch: 0x4000_0003,
    connect: 362,
    with_data: &[(369, 3), (370, 2), (345, 3)],
    setsockopt: &[366],
    socket: 359,
    socketcall: Some(102),
};
#[cfg(target_arch = "aarch64")]
const COMPATIBLE: Abi = Abi {
    arch: 0x4000_0028,
    connect: 283,
    with_data: &[(290, 3), (296, 2), (374, 3)],
    setsockopt: &[294],
    socket: 281,
    socketcall: None,
};

/// Families of sockets without TCP that programs commonly use.
const FAMILIES: [i32; 4] = [AF_UNIX, AF_NETLINK, AF_PACKET, AF_ALG];
const IP: [i32; 2] = [AF_INET, AF_INET6];
/// Types of sockets of IP without connections.
const CONNECTIONLESS: [i32; 2] = [SOCK_DGRAM, SOCK_RAW];
/// Protocols of streams. 0 is TCP.
const STREAMS: [i32; 3] = [IPPROTO_IP, IPPROTO_TCP, IPPROTO_MPTCP];
/// What of a type of sockets is not a flag (`SOCK_TYPE_MASK` of linux/net.h).
const TYPE: u32 = 0xf;

/// Whether a strict filter permits a socket, as the filter itself decides it.
///
/// # Errors
/// With which error number it refuses it.
pub(super) fn permit(domain: i32, kind: i32, protocol: i32) -> Result<(), i32> {
    if FAMILIES.contains(&domain) {
        return Ok(());
    }
    if !IP.contains(&domain) {
        return Err(libc::EAFNOSUPPORT);
    }
    match kind & TYPE.cast_signed() {
        kind if CONNECTIONLESS.contains(&kind) => Ok(()),
        SOCK_STREAM if STREAMS.contains(&protocol) => Ok(()),
        SOCK_STREAM => Err(libc::EPROTONOSUPPORT),
        _ => Err(libc::ESOCKTNOSUPPORT),
    }
}

/// The filter's instructions.
pub(super) fn program(strict: bool) -> Vec<sock_filter> {
    let mut program = vec![load(offset_of!(libc::seccomp_data, arch))];
    for abi in ABIS {
        let of_abi = of_abi(abi, strict);
        program.push(jump(BPF_JEQ, abi.arch, 0, of_abi.len()));
        program.extend(of_abi);
    }
    program.push(if strict { refuse(libc::ENOSYS) } else { allow() });
    program
}

/// Ends in an answer on every path.
fn of_abi(abi: &Abi, strict: bool) -> Vec<sock_filter> {
    let mut program =
        vec![load(offset_of!(libc::seccomp_data, nr)), statement(BPF_ALU | BPF_AND | BPF_K, !X32)];
    let mut when = |number: u32, then: Vec<sock_filter>| {
        program.push(jump(BPF_JEQ, number, 0, then.len()));
        program.extend(then);
    };
    when(abi.connect, vec![ask()]);
    for number in IO_URING {
        // As on a kernel without: programs then use ordinary calls.
        when(number, vec![refuse(libc::ENOSYS)]);
    }
    for &(number, flags) in abi.with_data {
        let is_fast_open = jump(BPF_JSET, MSG_FASTOPEN as u32, 0, 1);
        // As where the system does not do it: programs then connect first.
        when(number, vec![load(argument(flags)), is_fast_open, refuse(libc::EOPNOTSUPP), allow()]);
    }
    for &number in abi.setsockopt {
        when(
            number,
            vec![
                load(argument(1)),
                jump(BPF_JEQ, IPPROTO_TCP as u32, 0, 3),
                load(argument(2)),
                jump(BPF_JEQ, TCP_FASTOPEN_CONNECT as u32, 0, 1),
                refuse(libc::ENOPROTOOPT),
                allow(),
            ],
        );
    }
    if strict {
        when(abi.socket, socket());
    }
    if let Some(number) = abi.socketcall {
        when(number, socketcall(strict));
    }
    program.push(allow());
    program
}

/// As [`permit`].
fn socket() -> Vec<sock_filter> {
    let mut program = vec![load(argument(0))];
    for domain in FAMILIES {
        program.extend([jump(BPF_JEQ, domain as u32, 0, 1), allow()]);
    }
    for (left, domain) in (0..IP.len()).rev().zip(IP) {
        program.push(jump(BPF_JEQ, domain as u32, left + 1, 0));
    }
    program.push(refuse(libc::EAFNOSUPPORT));
    program.extend([load(argument(1)), statement(BPF_ALU | BPF_AND | BPF_K, TYPE)]);
    for kind in CONNECTIONLESS {
        program.extend([jump(BPF_JEQ, kind as u32, 0, 1), allow()]);
    }
    program.extend([jump(BPF_JEQ, SOCK_STREAM as u32, 1, 0), refuse(libc::ESOCKTNOSUPPORT)]);
    program.push(load(argument(2)));
    for protocol in STREAMS {
        program.extend([jump(BPF_JEQ, protocol as u32, 0, 1), allow()]);
    }
    program.push(refuse(libc::EPROTONOSUPPORT));
    program
}

fn socketcall(strict: bool) -> Vec<sock_filter> {
    let mut program = vec![load(argument(0)), jump(BPF_JEQ, SOCKETCALL_CONNECT, 0, 1), ask()];
    if !strict {
        program.push(allow());
        return program;
    }
    program.extend([jump(BPF_JEQ, SOCKETCALL_SOCKET, 0, 1), ask()]);
    for number in SOCKETCALL_OTHERS {
        program.extend([jump(BPF_JEQ, number, 0, 1), allow()]);
    }
    program.push(refuse(libc::EOPNOTSUPP));
    program
}

fn ask() -> sock_filter {
    answer(SECCOMP_RET_USER_NOTIF)
}

fn allow() -> sock_filter {
    answer(SECCOMP_RET_ALLOW)
}

fn refuse(errno: i32) -> sock_filter {
    answer(SECCOMP_RET_ERRNO | errno as u32)
}

/// Where the lower half of an argument is.
const fn argument(number: u8) -> usize {
    let low = if cfg!(target_endian = "little") { 0 } else { 4 };
    offset_of!(libc::seccomp_data, args) + number as usize * size_of::<u64>() + low
}

fn load(offset: usize) -> sock_filter {
    statement(BPF_LD | BPF_W | BPF_ABS, offset as u32)
}

fn answer(value: u32) -> sock_filter {
    statement(BPF_RET | BPF_K, value)
}

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

fn jump(condition: u32, k: u32, then: usize, otherwise: usize) -> sock_filter {
    let near = |distance: usize| u8::try_from(distance).expect("the filter is short");
    let code = (BPF_JMP | condition | BPF_K) as u16;
    sock_filter { code, jt: near(then), jf: near(otherwise), k }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A filter machine of its own: what the program says of a system call.
    fn run(program: &[sock_filter], arch: u32, nr: u32, args: [u64; 6]) -> u32 {
        let mut data = [nr, arch, 0, 0].map(u32::to_ne_bytes).concat();
        data.extend(args.iter().flat_map(|argument| argument.to_ne_bytes()));
        let (mut at, mut a) = (0, 0u32);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let to = |is: bool| usize::from(if is { jt } else { jf });
            match u32::from(code) {
                0x20 => a = u32::from_ne_bytes(data[k as usize..][..4].try_into().unwrap()),
                0x54 => a &= k,
                0x15 => at += to(a == k),
                0x45 => at += to(a & k != 0),
                0x06 => return k,
                code => panic!("unknown instruction {code:#x}"),
            }
        }
    }

    const ALLOW: u32 = 0x7fff_0000;
    const ASK: u32 = 0x7fc0_0000;
    const FASTOPEN: u64 = 0x2000_0000;
    const X86_64: u32 = 0xc000_003e;
    const I386: u32 = 0x4000_0003;

    fn errno(errno: u32) -> u32 {
        0x0005_0000 | errno
    }

    /// An argument, and what a filter that is not strict, and a strict one, say of the call.
    type Case = (u32, u32, [u64; 4], u32, u32);

    fn check(cases: &[Case]) {
        let [lenient, strict] = [false, true].map(program);
        for &(arch, nr, [a, b, c, d], expected, expected_strict) in cases {
            // The upper half of an argument that is an int is not looked at, here as in the kernel.
            for upper in [0, 0xdead_beef << 32] {
                let args = [a | upper, b | upper, c | upper, d | upper, 0, 0];
                let case = format!("{nr} of {arch:#x} with {args:x?}");
                assert_eq!(run(&lenient, arch, nr, args), expected, "{case}");
                assert_eq!(run(&strict, arch, nr, args), expected_strict, "strict: {case}");
            }
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn filter_refuses_all_other_ways_to_connect() {
        let x32 = |nr: u32| nr | 0x4000_0000;
        let both = |arch, nr, args, expected| (arch, nr, args, expected, expected);
        let mut cases = vec![
            both(X86_64, 42, [7, 0, 0, 0], ASK),
            both(X86_64, x32(42), [7, 0, 0, 0], ASK),
            both(I386, 362, [7, 0, 0, 0], ASK),
            both(X86_64, 43, [7, 0, 0, 0], ALLOW),
            both(X86_64, 362, [0; 4], ALLOW),
            both(X86_64, 102, [3, 0, 0, 0], ALLOW),
            both(I386, 42, [7, 0, 0, 0], ALLOW),
            both(X86_64, 46, [7, 0, 0, FASTOPEN], ALLOW),
            (0x1234, 42, [7, 0, 0, 0], ALLOW, errno(38)),
        ];
        for (arch, nr, at) in [
            (X86_64, 44, 3),
            (X86_64, 46, 2),
            (X86_64, 307, 3),
            (X86_64, x32(44), 3),
            (X86_64, x32(46), 2),
            (X86_64, x32(307), 3),
            (X86_64, x32(518), 2),
            (X86_64, x32(538), 3),
            (I386, 369, 3),
            (I386, 370, 2),
            (I386, 345, 3),
        ] {
            for (flags, expected) in
                [(0, ALLOW), (0x4000, ALLOW), (FASTOPEN, errno(95)), (FASTOPEN | 0x4000, errno(95))]
            {
                let mut args = [7, 0, 0, 0];
                args[at] = flags;
                cases.push(both(arch, nr, args, expected));
            }
        }
        for (arch, nr) in [(X86_64, 54), (X86_64, x32(54)), (X86_64, x32(541)), (I386, 366)] {
            cases.push(both(arch, nr, [7, 6, 30, 0], errno(92)));
            cases.push(both(arch, nr, [7, 6, 1, 0], ALLOW));
            cases.push(both(arch, nr, [7, 1, 30, 0], ALLOW));
        }
        for nr in 425..=427 {
            for (arch, nr) in [(X86_64, nr), (X86_64, x32(nr)), (I386, nr)] {
                cases.push(both(arch, nr, [7, 0, 0, 0], errno(38)));
            }
        }
        check(&cases);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn strict_filter_permits_listed_sockets_and_calls_alone() {
        let mut cases = Vec::new();
        // Of socketcall(2): only sendto, sendmsg, sendmmsg, and what Linux may add.
        for call in 0..30 {
            let strict = match call {
                1 | 3 => ASK,
                2 | 4..=10 | 12..=15 | 17..=19 => ALLOW,
                _ => errno(95),
            };
            cases.push((I386, 102, [call, 0, 0, 0], if call == 3 { ASK } else { ALLOW }, strict));
        }
        // All families, types and protocols, as `permit` has them.
        for domain in 0..64_u32 {
            for kind in 0..16_u32 {
                for protocol in [0, 1, 6, 17, 33, 58, 132, 136, 255, 256, 262] {
                    let permitted = permit(domain.cast_signed(), kind.cast_signed(), protocol);
                    let strict = permitted.map_or_else(|no| errno(no as u32), |()| ALLOW);
                    let kinds = [kind, kind | 0x80800];
                    for (arch, nr) in [(X86_64, 41), (X86_64, 0x4000_0029), (I386, 359)] {
                        cases.extend(kinds.map(|kind| {
                            let args = [domain.into(), kind.into(), protocol as u64, 0];
                            (arch, nr, args, ALLOW, strict)
                        }));
                    }
                }
            }
        }
        check(&cases);
        let (smc, rds, sctp, tcp, udp) = (43, 21, 132, 6, 17);
        for (socket, permitted) in [
            ((AF_INET, 1, 0), true),
            ((AF_INET6, 1, tcp), true),
            ((AF_INET, 1, 262), true),
            ((AF_INET, 2, udp), true),
            ((AF_UNIX, 5, 0), true),
            ((smc, 1, 0), false),
            ((rds, 5, 0), false),
            ((AF_INET, 1, sctp), false),
            ((AF_INET, 5, sctp), false),
            ((AF_INET, 1, 256), false),
            ((AF_INET6, 6, 33), false),
        ] {
            let (domain, kind, protocol) = socket;
            assert_eq!(permit(domain, kind, protocol).is_ok(), permitted, "{socket:?}");
        }
    }
}
