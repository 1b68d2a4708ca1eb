// SPDX-License-Identifier: GPL-2.0-or-later
//! Inputs that are almost right.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

/// No input is longer.
const LONGEST: usize = 4096;

/// What parsers stumble over.
const PIECES: [&[u8]; 40] = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b" ",
    b"\t",
    b"\0",
    b":",
    b",",
    b";",
    b"=",
    b"/",
    b"?",
    b"#",
    b"%",
    b"%2e",
    b"%2f",
    b"%5c",
    b"%00",
    b"..",
    b"-",
    b"+",
    b"0",
    b"1",
    b"0x",
    b"fffffffffffffff",
    b"7fffffffffffffff",
    b"18446744073709551615",
    b"\xff",
    b"\xc2\xa0",
    b"\"",
    b"chunked",
    b"Content-Length: 0\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n",
    b"\r\n ",
    b"HTTP/1.0",
    b"HTTP/1.1",
    b"[::1]",
    b"0\r\n\r\n",
];

/// Makes inputs out of others.
pub struct Mutator<'a> {
    random: Pcg64,
    corpus: &'a [Vec<u8>],
}

impl<'a> Mutator<'a> {
    /// Of these inputs, the same for the same seed.
    pub fn new(seed: u64, corpus: &'a [Vec<u8>]) -> Self {
        assert!(!corpus.is_empty(), "there is nothing to mutate");
        Self { random: Pcg64::seed_from_u64(seed), corpus }
    }

    /// One of the kept inputs with one to four changes.
    pub fn input(&mut self) -> Vec<u8> {
        let mut input = self.pick().to_vec();
        for _ in 0..=self.below(4) {
            self.change(&mut input);
        }
        input.truncate(LONGEST);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let (start, end) = self.range(input.len());
        match self.below(8) {
            0 => input.insert(start, self.random.next_u32() as u8),
            1 if start < input.len() => input[start] ^= 1 << self.below(8),
            2 => drop(input.drain(start..end)),
            3 => {
                let again = input[start..end].to_vec();
                input.splice(start..start, again);
            }
            4 => {
                let piece = PIECES[self.below(PIECES.len())];
                input.splice(start..end.min(start + 2), piece.iter().copied());
            }
            5 => {
                let other = self.pick();
                let (from, to) = self.range(other.len());
                input.splice(start..end, other[from..to].iter().copied());
            }
            6 => input.truncate(end),
            _ => {
                let piece = PIECES[self.below(PIECES.len())];
                input.splice(start..start, piece.iter().copied());
            }
        }
    }

    fn pick(&mut self) -> &'a [u8] {
        &self.corpus[self.below(self.corpus.len())]
    }

    /// A random range within `length` bytes, mostly a short one.
    fn range(&mut self, length: usize) -> (usize, usize) {
        let start = self.below(length + 1);
        let longest = if self.below(4) == 0 { length } else { 8 };
        (start, (start + self.below(longest + 1)).min(length))
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.random.next_u64() % bound as u64) as usize
    }
}
