// SPDX-License-Identifier: GPL-2.0-or-later
//! Bytes that are written to a file so that blocks of zeros take no room on the disk.
//!
//! Beyond a file's end everything reads as zeros: there, blocks of zeros are left out, and the file becomes longer instead.
//! The stream has all bytes of a sparse file; that some of them are a hole shows only on the disk.

use std::{fs::File, io, ops::Range};

/// The usual size of a block of a file system.
const BLOCK: u64 = 4096;

/// Splits bytes at an offset of a file into pieces of zeros, which are true, and others.
pub(super) fn pieces(at: u64, bytes: &[u8]) -> Vec<(Range<usize>, bool)> {
    let mut pieces: Vec<(Range<usize>, bool)> = Vec::new();
    let mut from = 0;
    while from < bytes.len() {
        let to_boundary = BLOCK - at.wrapping_add(from as u64) % BLOCK;
        let to = bytes.len().min(from.saturating_add(to_boundary as usize));
        let is_zero = bytes[from..to].iter().all(|byte| *byte == 0);
        match pieces.last_mut() {
            Some((last, kind)) if *kind == is_zero => last.end = to,
            _ => pieces.push((from..to, is_zero)),
        }
        from = to;
    }
    pieces
}

/// Makes a file so long, if it is shorter; what is new reads as zeros.
pub(super) fn lengthen(file: &File, length: u64) -> io::Result<()> {
    if file.metadata()?.len() < length { file.set_len(length) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_split_at_blocks_of_zeros() {
        let mut bytes = vec![0; 20_000];
        (bytes[0], bytes[9000], bytes[19_999]) = (1, 1, 1);
        for (at, expected) in [
            (
                0,
                &[
                    (0..4096, false),
                    (4096..8192, true),
                    (8192..12_288, false),
                    (12_288..16_384, true),
                    (16_384..20_000, false),
                ][..],
            ),
            (
                4000,
                &[
                    (0..96, false),
                    (96..8288, true),
                    (8288..12_384, false),
                    (12_384..16_480, true),
                    (16_480..20_000, false),
                ],
            ),
            (
                u64::MAX - 4095,
                &[
                    (0..4096, false),
                    (4096..8192, true),
                    (8192..12_288, false),
                    (12_288..16_384, true),
                    (16_384..20_000, false),
                ],
            ),
        ] {
            assert_eq!(pieces(at, &bytes), expected, "{at}");
        }
        assert_eq!(pieces(5, &[]), []);
        assert_eq!(pieces(5, &[0; 9000]), [(0..9000, true)]);
    }
}
