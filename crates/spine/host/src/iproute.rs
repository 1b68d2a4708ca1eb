// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs iproute2's `ip` and `tc`, which see the calling thread's network namespace.

use crate::{Lack, Namespace};
use serde::de::DeserializeOwned;
use std::{
    io::{self, Write},
    process::{Command, Output, Stdio},
};

/// Why iproute2 did not do as it was told.
#[derive(Debug, thiserror::Error)]
pub enum IprouteError {
    /// It is not installed.
    #[error(transparent)]
    Missing(Lack),
    /// It could not be started or spoken to.
    #[error("could not run {command}: {error}")]
    Start {
        /// The command line.
        command: String,
        /// The system's answer.
        error: io::Error,
    },
    /// It said no.
    #[error("{command}: {message}")]
    Refused {
        /// The command line.
        command: String,
        /// What it said, or how it ended.
        message: String,
    },
    /// Its JSON is not what this expects.
    #[error("{command}: {error}")]
    Unreadable {
        /// The command line.
        command: String,
        /// What is wrong.
        error: serde_json::Error,
    },
}

/// Runs `ip`. Answers what it prints.
///
/// # Errors
/// It is missing or refused.
pub fn ip(arguments: &[&str]) -> Result<Vec<u8>, IprouteError> {
    run("ip", arguments)
}

/// Runs `tc`. Answers what it prints.
///
/// # Errors
/// It is missing or refused.
pub fn tc(arguments: &[&str]) -> Result<Vec<u8>, IprouteError> {
    run("tc", arguments)
}

/// Runs `ip -json` with more arguments. Some versions print nothing where there is nothing to show.
///
/// # Errors
/// It is missing or refused, or shows something else.
pub fn ip_json<T: DeserializeOwned>(arguments: &[&str]) -> Result<Vec<T>, IprouteError> {
    json("ip", arguments)
}

/// Runs `tc -json` with more arguments.
///
/// # Errors
/// It is missing or refused, or shows something else.
pub fn tc_json<T: DeserializeOwned>(arguments: &[&str]) -> Result<Vec<T>, IprouteError> {
    json("tc", arguments)
}

/// Has `ip` carry out commands in a network namespace, each on a line of its own, until one fails.
///
/// # Errors
/// It is missing, or refused a command.
pub fn ip_batch(namespace: &Namespace, commands: &str) -> Result<(), IprouteError> {
    const ARGUMENTS: [&str; 2] = ["-batch", "-"];
    let failed = |error| IprouteError::start("ip", &ARGUMENTS, error);
    let mut command = Command::new("ip");
    command.args(ARGUMENTS);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = namespace.run(|| command.spawn()).map_err(failed)?;
    // Where ip stops at a command, the rest finds no reader; what ip says is the reason then.
    let written = child.stdin.take().expect("piped").write_all(commands.as_bytes());
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return written.map_err(failed);
    }
    Err(IprouteError::refused("ip", &ARGUMENTS, &output))
}

/// Reads what iproute2 printed as JSON; nothing at all is an empty list.
pub(crate) fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<Vec<T>, serde_json::Error> {
    if text.trim_ascii().is_empty() { Ok(Vec::new()) } else { serde_json::from_slice(text) }
}

fn json<T: DeserializeOwned>(program: &str, arguments: &[&str]) -> Result<Vec<T>, IprouteError> {
    let arguments = [&["-json"], arguments].concat();
    let text = run(program, &arguments)?;
    parse(&text).map_err(|error| IprouteError::Unreadable {
        command: command_line(program, &arguments),
        error,
    })
}

fn run(program: &str, arguments: &[&str]) -> Result<Vec<u8>, IprouteError> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| IprouteError::start(program, arguments, error))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(IprouteError::refused(program, arguments, &output))
}

impl IprouteError {
    fn start(program: &str, arguments: &[&str], error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing(Lack::program(program, "iproute2")),
            _ => Self::Start { command: command_line(program, arguments), error },
        }
    }

    fn refused(program: &str, arguments: &[&str], output: &Output) -> Self {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let message = if said.is_empty() { output.status.to_string() } else { said };
        Self::Refused { command: command_line(program, arguments), message }
    }
}

fn command_line(program: &str, arguments: &[&str]) -> String {
    [&[program], arguments].concat().join(" ")
}
