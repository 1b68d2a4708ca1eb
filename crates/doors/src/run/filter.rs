// SPDX-License-Identifier: GPL-2.0-or-later
//! The seccomp filter: which system calls are asked about, which are refused, and which go on.

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JEQ, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W,
    MSG_FASTOPEN, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_USER_NOTIF, sock_filter,
};
use std::mem::offset_of;

/// The system calls of a kind of program, by their numbers.
pub(super) struct Abi {
    /// As the kernel calls it (`AUDIT_ARCH_X86_64` and others).
    pub arch: u32,
    pub connect: u32,
    /// The calls that can connect with data, each with the argument that has the flags.
    with_data: [(u32, u8); 3],
    io_uring_setup: u32,
    /// One call for all that concern sockets; the first argument says which.
    socketcall: Option<u32>,
}

/// connect(2) among the calls of socketcall(2).
pub(super) const SOCKETCALL_CONNECT: u32 = 3;
/// The flag of system calls whose programs have 32-bit pointers in 64-bit registers.
pub(super) const X32: u32 = 0x4000_0000;

/// Those that this machine's kernel may run.
pub(super) const ABIS: &[Abi] = &[NATIVE, COMPATIBLE];

const NATIVE: Abi = Abi {
    #[cfg(target_arch = "x86_64")]
    arch: 0xc000_003e,
    #[cfg(target_arch = "aarch64")]
    arch: 0xc000_00b7,
    connect: libc::SYS_connect as u32,
    with_data: [
        (libc::SYS_sendto as u32, 3),
        (libc::SYS_sendmsg as u32, 2),
        (libc::SYS_sendmmsg as u32, 3),
    ],
    io_uring_setup: libc::SYS_io_uring_setup as u32,
    socketcall: None,
};

/// Programs of 32 bits.
#[cfg(target_arch = "x86_64")]
const COMPATIBLE: Abi = Abi {
    arch: 0x4000_0003,
    connect: 362,
    with_data: [(369, 3), (370, 2), (345, 3)],
    io_uring_setup: 425,
    socketcall: Some(102),
};
#[cfg(target_arch = "aarch64")]
const COMPATIBLE: Abi = Abi {
    arch: 0x4000_0028,
    connect: 283,
    with_data: [(290, 3), (296, 2), (374, 3)],
    io_uring_setup: 425,
    socketcall: None,
};

/// The filter's instructions.
pub(super) fn program() -> Vec<sock_filter> {
    let mut program = vec![load(offset_of!(libc::seccomp_data, arch))];
    for abi in ABIS {
        let of_abi = of_abi(abi);
        program.push(jump(BPF_JEQ, abi.arch, 0, of_abi.len()));
        program.extend(of_abi);
    }
    program.push(answer(SECCOMP_RET_ALLOW));
    program
}

/// Ends in an answer on every path.
fn of_abi(abi: &Abi) -> Vec<sock_filter> {
    let ask = answer(SECCOMP_RET_USER_NOTIF);
    let refuse = |errno: i32| answer(SECCOMP_RET_ERRNO | errno as u32);
    let mut program = vec![
        load(offset_of!(libc::seccomp_data, nr)),
        statement(BPF_ALU | BPF_AND | BPF_K, !X32),
        jump(BPF_JEQ, abi.connect, 0, 1),
        ask,
        jump(BPF_JEQ, abi.io_uring_setup, 0, 1),
        // As on a kernel without: programs then use ordinary calls.
        refuse(libc::ENOSYS),
    ];
    let mut when = |number: u32, then: [sock_filter; 4]| {
        program.push(jump(BPF_JEQ, number, 0, then.len()));
        program.extend(then);
    };
    for (number, flags) in abi.with_data {
        when(
            number,
            [
                load(argument(flags)),
                jump(BPF_JSET, MSG_FASTOPEN as u32, 0, 1),
                // As where the system does not do it: programs then connect first.
                refuse(libc::EOPNOTSUPP),
                answer(SECCOMP_RET_ALLOW),
            ],
        );
    }
    if let Some(number) = abi.socketcall {
        let is_connect = jump(BPF_JEQ, SOCKETCALL_CONNECT, 0, 1);
        when(number, [load(argument(0)), is_connect, ask, answer(SECCOMP_RET_ALLOW)]);
    }
    program.push(answer(SECCOMP_RET_ALLOW));
    program
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
    fn run(arch: u32, nr: u32, args: [u64; 6]) -> u32 {
        let mut data = [nr, arch, 0, 0].map(u32::to_ne_bytes).concat();
        data.extend(args.iter().flat_map(|argument| argument.to_ne_bytes()));
        let program = program();
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

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn filter_asks_about_connections_alone() {
        const FASTOPEN: u64 = 0x2000_0000;
        let [native, compatible] = [0xc000_003e, 0x4000_0003];
        let errno = |errno: u32| 0x0005_0000 | errno;
        let (allow, ask) = (0x7fff_0000, 0x7fc0_0000);
        for (arch, nr, argument, value, expected) in [
            (native, 42, 0, 7, ask),
            (native, 0x4000_002a, 0, 7, ask),
            (native, 43, 0, 7, allow),
            (native, 425, 0, 1, errno(38)),
            (native, 44, 3, 0, allow),
            (native, 44, 3, FASTOPEN, errno(95)),
            (native, 46, 2, 0x4000, allow),
            (native, 46, 2, FASTOPEN | 0x4000, errno(95)),
            (native, 46, 3, FASTOPEN, allow),
            (native, 307, 3, FASTOPEN, errno(95)),
            (native, 362, 0, 0, allow),
            (native, 102, 0, 3, allow),
            (compatible, 362, 0, 7, ask),
            (compatible, 102, 0, 3, ask),
            (compatible, 102, 0, 2, allow),
            (compatible, 42, 0, 7, allow),
            (compatible, 369, 3, FASTOPEN, errno(95)),
            (compatible, 370, 2, FASTOPEN, errno(95)),
            (compatible, 345, 3, FASTOPEN, errno(95)),
            (compatible, 425, 0, 1, errno(38)),
            (0x1234, 42, 0, 7, allow),
        ] {
            let mut args = [0; 6];
            args[argument] = value;
            assert_eq!(run(arch, nr, args), expected, "{nr} of {arch:#x} with {args:?}");
        }
    }
}
