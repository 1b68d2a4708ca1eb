// SPDX-License-Identifier: GPL-2.0-or-later
//! Content of which each byte tells whose it is, and where in it.

use super::dice::mix;

/// What a body is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Noise.
    Noise(u64),
    /// Bytes that look like whole answers: a head parsed from them is one that no origin has sent.
    Answers(u64),
}

const BLOCK: usize = 96;

impl Content {
    /// `length` bytes at offset `at`.
    pub fn bytes(self, at: usize, length: usize) -> Vec<u8> {
        let (size, of): (usize, &dyn Fn(usize) -> Vec<u8>) = match self {
            Self::Noise(key) => (8, &move |n| mix(&[key, n as u64]).to_le_bytes().into()),
            Self::Answers(key) => (BLOCK, &move |n| {
                let start = format!("HTTP/1.1 200 OK\r\nETag: \"{key:016x}-{n:08x}\"\r\n");
                let end = "Content-Length: 9\r\n\r\nimpostor\n";
                let mut block = start.into_bytes();
                block.resize(BLOCK - end.len() - 5, b'x');
                block.extend(b": y\r\n");
                block.extend(end.bytes());
                block
            }),
        };
        let first = at / size;
        let mut bytes: Vec<u8> = (first..=(at + length) / size).flat_map(of).collect();
        bytes.drain(..at - first * size);
        bytes.truncate(length);
        bytes
    }

    /// Whether these are the bytes at offset `at`.
    pub fn is(self, at: usize, bytes: &[u8]) -> bool {
        self.bytes(at, bytes.len()) == bytes
    }
}

/// The value of a `Link` that names its request and has `size` bytes more, each checked.
pub fn link(token: &str, size: usize) -> String {
    let noise: String =
        (0..size).map(|n| char::from(b'a' + (mix(&[n as u64]) % 26) as u8)).collect();
    format!("</{token}/{size}/{noise}>; rel=preload")
}

/// Whether this is such a value, of that request.
pub fn is_link(token: &str, value: &str) -> bool {
    let rest = value.strip_prefix(&format!("</{token}/"));
    let size = rest.and_then(|rest| rest.split('/').next()?.parse().ok());
    size.is_some_and(|size| value == link(token, size))
}
