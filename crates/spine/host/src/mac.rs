// SPDX-License-Identifier: GPL-2.0-or-later
//! Addresses of Ethernet.

use std::{fmt, str::FromStr};

/// An address of Ethernet, as in `02:00:00:00:00:01`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mac(pub [u8; 6]);

impl FromStr for Mac {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut mac = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut mac {
            let part = parts.next().filter(|part| part.len() == 2);
            let digits = part.filter(|part| part.bytes().all(|digit| digit.is_ascii_hexdigit()));
            *byte = digits
                .and_then(|digits| u8::from_str_radix(digits, 16).ok())
                .ok_or("expected an address of Ethernet, as in 02:00:00:00:00:01")?;
        }
        match parts.next() {
            None if mac[0] & 1 == 0 => Ok(Self(mac)),
            None => Err("this is the address of a group, and not of one host".to_owned()),
            Some(_) => Err("an address of Ethernet has six parts".to_owned()),
        }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.0.map(|byte| format!("{byte:02x}"));
        f.write_str(&parts.join(":"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_written_again_and_the_rest_is_refused() {
        assert_eq!("0A:fe:00:00:00:01".parse::<Mac>().unwrap().to_string(), "0a:fe:00:00:00:01");
        for wrong in ["", "02", "02:00:00:00:00", "02:00:00:00:00:01:02", "2:0:0:0:0:1"] {
            wrong.parse::<Mac>().expect_err(wrong);
        }
        for wrong in ["02:00:00:00:00:+1", "02-00-00-00-00-01", "ff:ff:ff:ff:ff:ff"] {
            wrong.parse::<Mac>().expect_err(wrong);
        }
    }
}
