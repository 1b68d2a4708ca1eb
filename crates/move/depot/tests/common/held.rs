// SPDX-License-Identifier: GPL-2.0-or-later
//! What a daemon holds, as the kernel tells: memory, pipes, what lies in its sockets, open files.

use super::client;
use rustix::fs::{Mode, OFlags};

/// What a daemon holds, in bytes.
#[derive(Debug, Default, Clone, Copy)]
pub struct Held {
    pub resident: usize,
    /// What its pipes may hold.
    pub pipes: usize,
    /// What they do hold.
    pub piped: usize,
    /// What the kernel has allotted to its TCP sockets, received and to be sent.
    pub sockets: usize,
}

impl Held {
    pub fn by(pid: u32) -> Self {
        let (pipes, piped) = pipes(pid);
        Self { resident: resident(pid), pipes, piped, sockets: sockets(pid) }
    }

    /// With all that its pipes may hold.
    pub fn total(self) -> usize {
        self.resident + self.pipes + self.sockets
    }

    /// With what its pipes do hold.
    pub fn in_use(self) -> usize {
        self.resident + self.piped + self.sockets
    }
}

/// The process's own memory now.
pub fn resident(pid: u32) -> usize {
    from_status(pid, "VmRSS:")
}

/// The most that it ever was.
pub fn most_resident(pid: u32) -> usize {
    from_status(pid, "VmHWM:")
}

fn from_status(pid: u32, key: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

/// Capacity and contents of all pipes that the daemon has made, each counted once.
fn pipes(pid: u32) -> (usize, usize) {
    let mut seen = std::collections::HashMap::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten() {
        // Its standard error, which the test reads, is a pipe too.
        if entry.file_name() == "2" {
            continue;
        }
        let Ok(target) = std::fs::read_link(entry.path()) else { continue };
        if !target.to_string_lossy().starts_with("pipe:") || seen.contains_key(&target) {
            continue;
        }
        // Opening it through /proc gives another file of the same pipe.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let Ok(pipe) = rustix::fs::open(entry.path(), flags, Mode::empty()) else { continue };
        let size = rustix::pipe::fcntl_getpipe_size(&pipe).unwrap_or(0);
        let held = rustix::io::ioctl_fionread(&pipe).unwrap_or(0);
        seen.insert(target, (size, held as usize));
    }
    seen.values().fold((0, 0), |sum, pipe| (sum.0 + pipe.0, sum.1 + pipe.1))
}

fn sockets(pid: u32) -> usize {
    let text = client::run("ss", "iproute2", &["-tmnpHO"]).stdout;
    let text = String::from_utf8_lossy(&text).into_owned();
    // What is set aside may be below zero, which `ss` prints as a very large number.
    let number = |skmem: &str, key: &str| -> i64 {
        let value = skmem.split(',').find_map(|part| part.strip_prefix(key));
        value.and_then(|value| value.parse::<u32>().ok()).unwrap_or(0).cast_signed().into()
    };
    text.lines()
        .filter(|line| line.contains(&format!("pid={pid},")))
        .filter_map(|line| line.split("skmem:(").nth(1)?.split(')').next())
        .map(|skmem| number(skmem, "r") + number(skmem, "w") + number(skmem, "f"))
        .map(|bytes| usize::try_from(bytes).unwrap_or(0))
        .sum()
}
