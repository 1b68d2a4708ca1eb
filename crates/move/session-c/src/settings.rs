// SPDX-License-Identifier: GPL-2.0-or-later
//! Options of a descriptor before its session begins.

use crate::failure::Failure;
use libc::c_int;
use protocol::DepotAddress;
use session::{ListenOptions, Options, Route, WholeDigest};
use std::{path::PathBuf, time::Duration};
use units::{Bytes, Rate};

/// Numbers of options, as in `lsl.h`.
pub(crate) mod option {
    use libc::c_int;

    pub(crate) const VIA: c_int = 1;
    pub(crate) const ROUTE: c_int = 2;
    pub(crate) const SECRET: c_int = 3;
    pub(crate) const NOTE: c_int = 4;
    pub(crate) const SEND_WINDOW: c_int = 5;
    pub(crate) const RECEIVE_WINDOW: c_int = 6;
    pub(crate) const PATIENCE: c_int = 7;
    pub(crate) const CONNECT_TIMEOUT: c_int = 8;
    pub(crate) const CA_FILE: c_int = 9;
    pub(crate) const RATE: c_int = 10;
    pub(crate) const WAIT: c_int = 11;
    pub(crate) const DIGEST: c_int = 12;
    pub(crate) const ENCRYPT: c_int = 13;
    pub(crate) const ERROR: c_int = 32;
    pub(crate) const ERROR_TEXT: c_int = 33;
    pub(crate) const PEER_NOTE: c_int = 34;
    pub(crate) const LOCAL: c_int = 35;
    pub(crate) const SESSION: c_int = 36;
    pub(crate) const SENT_DIGEST: c_int = 37;
    pub(crate) const RECEIVED_DIGEST: c_int = 38;
    pub(crate) const ENCRYPTED: c_int = 39;
}

/// The most that a note may have.
const LONGEST_NOTE: usize = 4096;
/// The most of a secret, and of a text.
const LONGEST_TEXT: usize = 4096;
/// Windows between these make sense, in bytes.
const WINDOWS: std::ops::RangeInclusive<u64> = 1 << 16..=1 << 40;

/// The settings so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    routes: Vec<Vec<DepotAddress>>,
    options: Options,
    pub(crate) waits: bool,
}

impl Settings {
    /// Sets an option.
    pub(crate) fn set(&mut self, name: c_int, value: &[u8]) -> Result<(), Failure> {
        let options = &mut self.options;
        match name {
            option::VIA => self.routes = vec![depots(value)?],
            option::ROUTE => self.routes.push(depots(value)?),
            option::SECRET => options.secret = at_most(value, LONGEST_TEXT, "LSL_SECRET")?,
            option::NOTE => options.note = at_most(value, LONGEST_NOTE, "LSL_NOTE")?,
            option::SEND_WINDOW => options.send_window = window(value)?,
            option::RECEIVE_WINDOW => options.receive_window = window(value)?,
            option::PATIENCE => options.patience = Duration::from_millis(number(value)?),
            option::CONNECT_TIMEOUT => match number(value)? {
                0 => return Err(Failure::invalid("LSL_CONNECT_TIMEOUT is at least 1 ms")),
                time => options.connect_timeout = Duration::from_millis(time),
            },
            option::CA_FILE => {
                let path = text(value)?;
                options.ca = (!path.is_empty()).then(|| PathBuf::from(path));
            }
            option::RATE => {
                let rate = number(value)?;
                options.limit_rate = (rate > 0).then(|| Rate::bits_per_second(rate));
            }
            option::WAIT => self.waits = flag(value, "LSL_WAIT")?,
            option::ENCRYPT => options.encrypt = flag(value, "LSL_ENCRYPT")?,
            option::DIGEST => options.digest = digest(number(value)?)?,
            _ => return Err(unknown(name)),
        }
        Ok(())
    }

    /// The value of an option that is a number.
    pub(crate) fn get(&self, name: c_int) -> Result<u64, Failure> {
        let options = &self.options;
        Ok(match name {
            option::SEND_WINDOW => options.send_window.get(),
            option::RECEIVE_WINDOW => options.receive_window.get(),
            option::PATIENCE => options.patience.as_millis() as u64,
            option::CONNECT_TIMEOUT => options.connect_timeout.as_millis() as u64,
            option::RATE => options.limit_rate.map_or(0, Rate::bps),
            option::WAIT => u64::from(self.waits),
            option::ENCRYPT => u64::from(options.encrypt),
            option::DIGEST => options.digest.map_or(0, |digest| u64::from(digest.number())),
            _ => return Err(unknown(name)),
        })
    }

    /// The routes to a destination.
    pub(crate) fn routes(&self, destination: &str) -> Result<Vec<Route>, Failure> {
        let direct = [Vec::new()];
        let vias = if self.routes.is_empty() { &direct[..] } else { &self.routes };
        let route = |via: &Vec<DepotAddress>| Route::to(via, destination);
        let routes: Result<_, _> = vias.iter().map(route).collect();
        routes.map_err(|error| Failure::invalid(format!("{destination}: {error}")))
    }

    /// Options of a listener on which `backlog` sessions may wait.
    pub(crate) fn listen_options(&self, backlog: usize) -> ListenOptions {
        let secret = self.options.secret.clone();
        ListenOptions { secret, backlog, ..ListenOptions::default() }
    }

    /// How the session behaves. Its end is confirmed when the program has read everything.
    pub(crate) fn options(&self) -> Options {
        Options { confirm_by_hand: true, ..self.options.clone() }
    }
}

pub(crate) fn unknown(name: c_int) -> Failure {
    Failure::new(libc::ENOPROTOOPT, format!("there is no such option here: {name}"))
}

/// A list of depots, with commas between them.
fn depots(value: &[u8]) -> Result<Vec<DepotAddress>, Failure> {
    let list = text(value)?;
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    let depot = |name: &str| {
        name.parse().map_err(|error| Failure::invalid(format!("the depot {name}: {error}")))
    };
    names.map(depot).collect()
}

/// A text, which may end with a zero byte.
fn text(value: &[u8]) -> Result<&str, Failure> {
    let value = value.strip_suffix(&[0]).unwrap_or(value);
    if value.len() > LONGEST_TEXT || value.contains(&0) {
        return Err(Failure::invalid("the text is too long, or has a zero byte"));
    }
    std::str::from_utf8(value).map_err(|_| Failure::invalid("the text is not UTF-8"))
}

fn flag(value: &[u8], name: &str) -> Result<bool, Failure> {
    match number(value)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Failure::invalid(format!("{name} is 0 or 1"))),
    }
}

fn at_most(value: &[u8], most: usize, name: &str) -> Result<Vec<u8>, Failure> {
    if value.len() > most {
        return Err(Failure::invalid(format!("{name} has at most {most} bytes")));
    }
    Ok(value.to_vec())
}

fn number(value: &[u8]) -> Result<u64, Failure> {
    let bytes = value.try_into().map_err(|_| Failure::invalid("the value is a uint64_t"))?;
    Ok(u64::from_ne_bytes(bytes))
}

fn digest(number: u64) -> Result<Option<WholeDigest>, Failure> {
    if number == 0 {
        return Ok(None);
    }
    let known = u8::try_from(number).ok().and_then(WholeDigest::of_number);
    known.map(Some).ok_or_else(|| {
        Failure::invalid("LSL_DIGEST is LSL_DIGEST_NONE, LSL_DIGEST_SHA256 or LSL_DIGEST_MD5")
    })
}

fn window(value: &[u8]) -> Result<Bytes, Failure> {
    let bytes = number(value)?;
    if !WINDOWS.contains(&bytes) {
        return Err(Failure::invalid("a window has 64 KiB to 1 TiB"));
    }
    Ok(Bytes::new(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_taken_only_in_their_form_and_range() {
        let mut settings = Settings::default();
        let eight = |n: u64| n.to_ne_bytes();
        settings.set(option::VIA, b"d1.example, https:d2.example:443\0").unwrap();
        assert_eq!(settings.routes("b.example:4000").unwrap()[0].depots(), 2);
        settings.set(option::ROUTE, b"").unwrap();
        assert_eq!(settings.routes("b.example:4000").unwrap().len(), 2);
        assert!(settings.routes("b.example").is_err());
        settings.set(option::RATE, &eight(5_000_000)).unwrap();
        assert_eq!(settings.get(option::RATE).unwrap(), 5_000_000);
        for number in [1, 2, 0] {
            settings.set(option::DIGEST, &eight(number)).unwrap();
            assert_eq!(settings.get(option::DIGEST).unwrap(), number);
        }
        for (name, value) in [
            (option::VIA, &b"d1:port"[..]),
            (option::VIA, b"d\xff"),
            (option::NOTE, &[0; 4097]),
            (option::SEND_WINDOW, b"1234"),
            (option::SEND_WINDOW, &eight(5)),
            (option::WAIT, &eight(2)),
            (option::CONNECT_TIMEOUT, &eight(0)),
            (option::DIGEST, &eight(3)),
            (option::DIGEST, &eight(257)),
        ] {
            assert_eq!(settings.set(name, value).unwrap_err().errno, libc::EINVAL, "{name}");
        }
        assert_eq!(settings.set(99, b"").unwrap_err().errno, libc::ENOPROTOOPT);
    }
}
