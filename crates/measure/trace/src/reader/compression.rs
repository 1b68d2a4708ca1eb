// SPDX-License-Identifier: GPL-2.0-or-later
//! Compression of capture files, recognised by their first bytes and not by their names.

use std::io::{self, Cursor, Read};

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Largest window of zstd, as a power of two, in bytes. All levels without `--ultra` need 8 MiB at most; the largest would
/// take 128 MiB of memory.
const ZSTD_WINDOW_LOG: u32 = 25;

/// The content of a file that may be compressed by gzip or zstd, also in several members.
///
/// # Errors
/// It can't be read.
pub fn decompressed<'a>(
    mut file: Box<dyn Read + Send + 'a>,
) -> io::Result<Box<dyn Read + Send + 'a>> {
    let mut first = Vec::with_capacity(ZSTD.len());
    file.by_ref().take(ZSTD.len() as u64).read_to_end(&mut first)?;
    let (is_gzip, is_zstd) = (first.starts_with(&GZIP), first == ZSTD);
    let whole = Cursor::new(first).chain(file);
    Ok(if is_gzip {
        Box::new(flate2::read::MultiGzDecoder::new(whole))
    } else if is_zstd {
        let mut decoder = zstd::stream::read::Decoder::new(whole)?;
        decoder.window_log_max(ZSTD_WINDOW_LOG)?;
        Box::new(decoder)
    } else {
        Box::new(whole)
    })
}
