// SPDX-License-Identifier: GPL-2.0-or-later
//! A ticket's route, as it travels in the path of a request to a depot.

use super::TicketError;
use crate::{
    origin::is_dot_segment,
    route::{MAX_DEPOTS, MAX_ROUTE_LEN},
};
use percent_encoding::percent_decode_str;
use std::{borrow::Cow, fmt, str::FromStr};

/// Prefix of every ticket's route.
pub const PREFIX: &str = "/lh2/";

/// The path of a request with a ticket. It says nothing about whether the ticket is any good.
#[derive(Clone, PartialEq, Eq)]
pub struct TicketRoute {
    hop: usize,
    token: String,
    tail: String,
}

impl TicketRoute {
    /// The route of a client that has this token.
    ///
    /// # Errors
    /// The token or the tail is malformed, or the route too long.
    pub fn new(token: &str, tail: &str) -> Result<Self, TicketError> {
        let route = Self { hop: 0, token: token.to_owned(), tail: tail.to_owned() };
        route.check()?;
        Ok(route)
    }

    /// Which of the ticket's depots is asked.
    pub fn hop(&self) -> usize {
        self.hop
    }

    /// The signed token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The part after the ticket, without the slash: path and query.
    pub fn tail(&self) -> &str {
        &self.tail
    }

    /// The route with which the depot that is asked asks the next.
    pub(super) fn next(&self) -> Result<Self, TicketError> {
        let route = Self { hop: self.hop + 1, ..self.clone() };
        route.check()?;
        Ok(route)
    }

    /// The same ticket for another tail.
    ///
    /// # Errors
    /// The tail is malformed, or the route too long.
    pub fn with_tail(&self, tail: String) -> Result<Self, TicketError> {
        let route = Self { tail, ..self.clone() };
        route.check()?;
        Ok(route)
    }

    /// A request's target without what makes a ticket good, to be logged: others read logs, and
    /// anyone who has a ticket can use it. That goes for any target, because a ticket in a malformed
    /// route, or behind another depot's, can be used once it is taken out of there.
    pub fn redacted(target: &str) -> Cow<'_, str> {
        let at_ticket = target.strip_prefix(PREFIX);
        // Most targets are too short to hold a signature, also once they are decoded.
        if at_ticket.is_none() && target.len() < SIGNATURE_LEN {
            return Cow::Borrowed(target);
        }
        let shown = match at_ticket.and_then(|rest| rest.split_once('/')) {
            None => Cow::Borrowed(target),
            Some((hop, rest)) => {
                let (token, tail) = rest.split_once('/').unwrap_or((rest, ""));
                let claims = token.rsplit_once('.').map_or("", |(claims, _)| claims);
                Cow::Owned(format!("{PREFIX}{hop}/{claims}.../{tail}"))
            }
        };
        let mut shown = without_signatures(&shown).map_or(shown, Cow::Owned);
        let mut decoded = shown.clone().into_owned();
        for _ in 0..ENCODED {
            let once = percent_decode_str(&decoded).decode_utf8_lossy().into_owned();
            if once == decoded {
                break;
            }
            decoded = once;
            if let Some(without) = without_signatures(&decoded) {
                decoded.clone_from(&without);
                shown = Cow::Owned(without);
            }
        }
        shown
    }

    fn check(&self) -> Result<(), TicketError> {
        if self.hop >= MAX_DEPOTS {
            return Err(TicketError::Route("the hop is not a number from 0 to 15"));
        }
        let part = |part: &str| !part.is_empty() && part.bytes().all(is_base64url);
        if self.token.split('.').count() != 3 || !self.token.split('.').all(part) {
            return Err(TicketError::Route("the ticket is not three parts of base64url"));
        }
        check_tail(&self.tail).map_err(TicketError::Route)?;
        let length = self.to_string().len();
        if length > MAX_ROUTE_LEN { Err(TicketError::TooLong(length)) } else { Ok(()) }
    }
}

/// Maximum number of percent-encodings under which a ticket in a target is searched for. Servers decode fewer.
const ENCODED: usize = 8;

/// The length of an Ed25519 signature in base64url: 64 bytes.
const SIGNATURE_LEN: usize = 86;

/// A text whose signed tokens have lost their signatures; nothing where there is none.
fn without_signatures(text: &str) -> Option<String> {
    let run = |part: &str| part.bytes().take_while(|b| is_base64url(*b)).count();
    // Every request's target is looked at, and few have one.
    if !text.split('.').any(|part| run(part) >= SIGNATURE_LEN) {
        return None;
    }
    let (mut shown, mut found, mut claims) = (String::new(), false, false);
    for (at, part) in text.split('.').enumerate() {
        // The claims are between the two dots, the signature follows the second.
        let signature = Some(run(part)).filter(|len| claims && *len >= SIGNATURE_LEN);
        match signature {
            Some(len) => shown += &format!("...{}", &part[len..]),
            None if at == 0 => shown += part,
            None => shown += &format!(".{part}"),
        }
        found |= signature.is_some();
        claims = at > 0 && !part.is_empty() && run(part) == part.len();
    }
    found.then_some(shown)
}

fn is_base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

/// How often a path may be decoded before a server uses it: by the server and by proxies in front of it.
const DECODED: usize = 4;

/// Holds a tail to what two servers read alike. It completes a signed path, so nothing
/// in it may lead out of that path: no segment that some server takes for `.` or `..`, no slash or backslash
/// except separators, no broken encoding, and none of these after decoding it again.
pub(super) fn check_tail(tail: &str) -> Result<(), &'static str> {
    let allowed = |b: u8| b.is_ascii_graphic() && !matches!(b, b'#' | b'\\');
    if !tail.bytes().all(allowed) {
        return Err("the path holds a space, a '#', a backslash, or what is not ASCII");
    }
    let path = tail.split('?').next().unwrap_or_default();
    for segment in path.split('/') {
        if !is_encoded_well(segment) {
            return Err("the path has a '%' that is not followed by two hexadecimal digits");
        }
        let mut segment = segment.to_owned();
        for _ in 0..DECODED {
            // A form of `.` with more bytes than it needs (`%c0%ae`) is not UTF-8, and some read it.
            let Ok(decoded) = percent_decode_str(&segment).decode_utf8() else {
                return Err("the path has an encoded name that is not UTF-8");
            };
            check_name(&decoded)?;
            segment = decoded.into_owned();
        }
    }
    Ok(())
}

/// Holds a decoded segment to what every server takes for a name.
fn check_name(name: &str) -> Result<(), &'static str> {
    let divides = |c: char| matches!(as_ascii(c), '/' | '\\') || c.is_control();
    if name.contains(divides) {
        return Err("the path has an encoded slash, backslash or control character");
    }
    // Some systems have a backslash where these are.
    if name.split(['\u{a5}', '\u{20a9}']).any(is_for_dots) {
        return Err("the path has a segment \".\" or \"..\"");
    }
    Ok(())
}

/// Whether some server takes a name for `.` or `..`: some cut off parameters first, or what follows a mark that
/// divides URLs or names of files, and some systems spaces and dots at a name's ends.
fn is_for_dots(name: &str) -> bool {
    let ascii: String = name.chars().map(as_ascii).collect();
    let ascii = ascii.split([';', '?', '#', ':', ',', '&', '*', '|', '<', '>', '"', '%']).next();
    // Where a form is read, a plus is a space.
    let ascii = ascii.unwrap_or_default().replace('+', " ");
    let (dots, several) = (ascii.replace([' ', SEVERAL_DOTS], ""), ascii.contains(SEVERAL_DOTS));
    dots.bytes().all(|b| b == b'.')
        && (several || is_dot_segment(&dots) || ascii.contains(' ') && !dots.is_empty())
}

/// Stands for a character that is more than one dot.
const SEVERAL_DOTS: char = '\u{2025}';

/// The character that some servers make of one: characters that look like dots and slashes become these, and
/// invisible characters become a space.
fn as_ascii(c: char) -> char {
    match c {
        '\u{2024}' | '\u{3002}' | '\u{fe52}' | '\u{ff61}' => '.',
        '\u{2044}' | '\u{2215}' | '\u{29f8}' => '/',
        '\u{2216}' | '\u{29f5}' | '\u{fe68}' => '\\',
        '\u{37e}' | '\u{fe54}' => ';',
        '\u{fe50}' => ',',
        '\u{fe55}' => ':',
        '\u{fe56}' => '?',
        '\u{fe5f}' => '#',
        '\u{fe60}' => '&',
        '\u{fe61}' => '*',
        '\u{fe6a}' => '%',
        // All of ASCII, as wide as other characters.
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xff01 + 0x21).unwrap_or(c),
        '\u{2025}' | '\u{2026}' | '\u{fe19}' | '\u{fe30}' => SEVERAL_DOTS,
        c if c.is_whitespace() || is_invisible(c) => ' ',
        c => c,
    }
}

/// Takes no room where it is shown, and is left out by some servers.
fn is_invisible(c: char) -> bool {
    // Default_Ignorable_Code_Point of Unicode, a blank of Braille, and marks for annotations.
    matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
    ) || matches!(c, '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}')
        || matches!(c, '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}')
        || matches!(c, '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Whether two hexadecimal digits follow each `%`.
fn is_encoded_well(text: &str) -> bool {
    text.split('%').skip(1).all(|behind| {
        let digits = behind.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

impl FromStr for TicketRoute {
    type Err = TicketError;
    /// Reads the target of a request line.
    fn from_str(target: &str) -> Result<Self, TicketError> {
        if target.len() > MAX_ROUTE_LEN {
            return Err(TicketError::TooLong(target.len()));
        }
        let rest = target.strip_prefix(PREFIX).ok_or(TicketError::Route("it begins otherwise"))?;
        let (hop, rest) = rest.split_once('/').ok_or(TicketError::Route("it ends early"))?;
        let (token, tail) = rest.split_once('/').ok_or(TicketError::Route("it ends early"))?;
        // One way to write a number, so that what is read prints the same.
        let hop = hop.parse::<usize>().ok().filter(|n| n.to_string() == hop);
        let hop = hop.ok_or(TicketError::Route("the hop is not a number from 0 to 15"))?;
        let route = Self { hop, token: token.to_owned(), tail: tail.to_owned() };
        route.check()?;
        Ok(route)
    }
}

impl fmt::Display for TicketRoute {
    /// The whole path, with which the ticket can be used: not for logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}/{}/{}", self.hop, self.token, self.tail)
    }
}

impl fmt::Debug for TicketRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Self::redacted(&self.to_string()))
    }
}
