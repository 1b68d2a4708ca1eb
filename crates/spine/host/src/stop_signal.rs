// SPDX-License-Identifier: GPL-2.0-or-later
//! Signals that ask a command to end: Ctrl-C (SIGINT), SIGTERM and, for commands at a terminal, its hang-up
//! (SIGHUP).

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
    low_level::pipe,
};
use std::{
    ffi::c_int,
    io,
    os::unix::net::UnixStream,
    sync::{Arc, atomic::AtomicBool},
};

/// Those that ask a command to end which a person has started.
const AT_TERMINAL: [c_int; 3] = [SIGINT, SIGTERM, SIGHUP];
/// Those that ask a process in the background to end.
const IN_BACKGROUND: [c_int; 2] = [SIGINT, SIGTERM];

/// A flag that the first signal sets. A second one ends the program at once, as if nothing were registered.
///
/// # Errors
/// The system does not take the handlers.
pub fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in AT_TERMINAL {
        flag::register_conditional_default(signal, Arc::clone(&stopped))?;
        flag::register(signal, Arc::clone(&stopped))?;
    }
    Ok(stopped)
}

/// A socket that can be read after the first signal.
///
/// # Errors
/// The system does not take the handlers, or the process is out of descriptors.
pub fn stop_socket() -> io::Result<UnixStream> {
    socket_of(&AT_TERMINAL)
}

/// The same in a process that no terminal hangs up on.
///
/// # Errors
/// As [`stop_socket`].
pub fn background_stop_socket() -> io::Result<UnixStream> {
    socket_of(&IN_BACKGROUND)
}

fn socket_of(signals: &[c_int]) -> io::Result<UnixStream> {
    let (on_signal, stopped) = UnixStream::pair()?;
    for &signal in signals {
        pipe::register(signal, on_signal.try_clone()?)?;
    }
    Ok(stopped)
}
