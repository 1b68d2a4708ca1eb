// SPDX-License-Identifier: GPL-2.0-or-later
//! Writer of header sections.

use super::Fields;
use http::{HeaderName, HeaderValue};

/// Room for most heads.
const CAPACITY: usize = 768;

/// A head that is being written.
pub(super) struct HeadWriter(Vec<u8>);

impl HeadWriter {
    /// One that begins with a line of these parts.
    pub(super) fn start(line: &[&str]) -> Self {
        let mut out = Vec::with_capacity(CAPACITY);
        for part in line {
            out.extend_from_slice(part.as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        Self(out)
    }

    /// A field.
    pub(super) fn field(&mut self, name: &HeaderName, value: impl AsRef<[u8]>) {
        field(&mut self.0, name, value.as_ref());
    }

    /// A field with text that is visible ASCII by construction: what else there is stays out.
    pub(super) fn text(&mut self, name: &HeaderName, text: &str) {
        let visible = text.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
        self.field(name, if visible { text } else { "" });
    }

    /// A field with a number.
    pub(super) fn number(&mut self, name: &HeaderName, number: u64) {
        self.field(name, itoa::Buffer::new().format(number));
    }

    /// The fields of another head that go on.
    pub(super) fn pass(
        &mut self,
        headers: &Fields,
        goes_on: impl Fn(&HeaderName, &HeaderValue) -> bool,
    ) {
        for (name, value) in headers.iter().filter(|(name, value)| goes_on(name, value)) {
            self.field(name, value);
        }
    }

    /// The whole head.
    pub(super) fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(b"\r\n");
        self.0
    }
}

/// Prints fields and the empty line.
pub(super) fn print_fields(headers: &Fields, out: &mut Vec<u8>) {
    for (name, value) in headers.iter() {
        field(out, name, value.as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

/// A name has capitals, as scripts around HTTP/1 tools expect it.
fn field(out: &mut Vec<u8>, name: &HeaderName, value: &[u8]) {
    let start = out.len();
    out.extend_from_slice(name.as_str().as_bytes());
    let mut at_start = true;
    for byte in &mut out[start..] {
        if at_start {
            byte.make_ascii_uppercase();
        }
        at_start = *byte == b'-';
    }
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}
