// SPDX-License-Identifier: GPL-2.0-or-later
//! A running program: buffers that it has set, and what it waits for.

use crate::{
    Target,
    facts::{Facts, Socket},
    finding::{Direction, Finding, Gain, Limit, Remedy, Scope},
    limits,
    rule::{Check, Rule, finding},
};
use model::buffers;
use units::Bytes;

pub const RULES: &[Rule] = &[
    Rule {
        id: "program-receive-buffer",
        about: "a receive buffer that the program has set (SO_RCVBUF)",
        source: "socket(7); crate model",
        check: Check::Facts(receive_buffer),
    },
    Rule {
        id: "program-send-buffer",
        about: "a send buffer that the program has set (SO_SNDBUF)",
        source: "socket(7); crate model",
        check: Check::Facts(send_buffer),
    },
    Rule {
        id: "program-processor",
        about: "a thread that uses a whole processor",
        source: "proc(5)",
        check: Check::Facts(processor),
    },
    Rule {
        id: "program-disk",
        about: "a thread that waits for a disk",
        source: "proc(5)",
        check: Check::Facts(disk),
    },
];

/// From this share on, a thread has no time left.
const BUSY: f64 = 0.95;
/// From this share on, a thread waits more than it moves.
const WAITS: f64 = 0.5;

fn name(socket: &Socket) -> String {
    format!("{} (process {})", socket.program, socket.pid)
}

fn set_buffer(
    facts: &Facts,
    target: &Target,
    is_set: fn(&Socket) -> bool,
    window_of: impl Fn(&Socket) -> Bytes,
    (direction, limit, option): (Direction, Limit, &str),
) -> Option<Finding> {
    let product = target.product(direction);
    let socket = facts
        .sockets
        .iter()
        .filter(|socket| is_set(socket))
        .min_by_key(|socket| window_of(socket))?;
    let window = window_of(socket);
    (window < product).then(|| finding! {
        cause: format!("{} sets {option}: {} are under way at most, and the kernel does not tune that buffer", name(socket), window.rounded()),
        evidence: format!("{} to {}: a buffer of {}", socket.local, socket.peer, Bytes::new(match direction {
            Direction::Receive => socket.receive_buffer_bytes,
            _ => socket.send_buffer_bytes,
        }).rounded()),
        scope: Scope::Always,
        direction: direction,
        remedy: Remedy::Advice(format!("have {} not set {option}", socket.program), Some(limit)),
        gain: Gain::Modelled,
    })
}

fn receive_buffer(facts: &Facts, target: &Target) -> Option<Finding> {
    let share = limits::receive_share(facts);
    let window = |socket: &Socket| Bytes::new(socket.receive_buffer_bytes).scale(share);
    let kind = (Direction::Receive, Limit::ProgramReceiveBuffer, "SO_RCVBUF");
    set_buffer(facts, target, |socket| socket.sets_receive_buffer, window, kind)
}

fn send_buffer(facts: &Facts, target: &Target) -> Option<Finding> {
    let window = |socket: &Socket| buffers::send_window(Bytes::new(socket.send_buffer_bytes));
    let kind = (Direction::Send, Limit::ProgramSendBuffer, "SO_SNDBUF");
    set_buffer(facts, target, |socket| socket.sets_send_buffer, window, kind)
}

fn processor(facts: &Facts, _: &Target) -> Option<Finding> {
    let socket = facts.sockets.iter().find(|socket| socket.busiest_thread >= BUSY)?;
    Some(finding! {
        cause: format!("one thread of {} uses a whole processor", name(socket)),
        evidence: format!("{:.0} % of a processor over a second", socket.busiest_thread * 100.0),
        scope: Scope::Always,
        direction: Direction::Both,
        remedy: Remedy::Advice("run several transfers at once, or choose a faster cipher or compression".to_owned(), None),
        gain: Gain::NoForm("how much of its work is the transfer is not known"),
    })
}

fn disk(facts: &Facts, _: &Target) -> Option<Finding> {
    let socket = facts.sockets.iter().find(|socket| socket.disk_wait >= WAITS)?;
    Some(finding! {
        cause: format!("{} waits for a disk more than half of the time", name(socket)),
        evidence: format!("waiting in {:.0} % of the looks within a second", socket.disk_wait * 100.0),
        scope: Scope::Always,
        direction: Direction::Both,
        remedy: Remedy::Advice("move the files to a faster disk, or read and write larger parts".to_owned(), None),
        gain: Gain::NoForm("the disk's rate is not known"),
    })
}
