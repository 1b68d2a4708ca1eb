// SPDX-License-Identifier: GPL-2.0-or-later
//! The bytes of a stored session, which a depot could have changed.

use longhaul_protocol::session::parcel::{
    Chunks, ParcelHead, ParcelReader, ParcelStep, ParcelWriter,
};

const SECRET: [u8; 32] = [7; 32];

/// Reads it as a collector does, in pieces of a length that the first byte says.
pub fn lsl_parcel(input: &[u8]) -> bool {
    let Some((piece, stored)) = input.split_first() else { return false };
    let mut pieces = stored.chunks(usize::from(*piece).max(1));
    let mut reader = ParcelReader::new(Some(SECRET));
    let (mut note, mut content) = (None, Vec::new());
    loop {
        match reader.advance() {
            Ok(Some(ParcelStep::Note(bytes))) => note = Some(bytes),
            Ok(Some(ParcelStep::Content(bytes))) => content.extend(bytes),
            Ok(Some(ParcelStep::End)) => break,
            Ok(None) => match pieces.next() {
                Some(piece) => reader.push(piece),
                None => reader.end(),
            },
            // The note of one that is not encrypted is read before its hash is compared.
            Err(_) => return note.is_some(),
        }
        assert!(content.len() < input.len());
        assert!(reader.content().length() == content.len() as u64);
    }
    // What is read has one form.
    let head: ParcelHead = *reader.head().expect("it was read");
    assert!(!head.is_encrypted(), "nothing was encrypted with this secret");
    let mut out = Vec::new();
    let chunks = Chunks::new(head, &SECRET);
    let note = note.expect("it precedes the content");
    let mut writer = ParcelWriter::begin(chunks, &note, &mut out).expect("it was short enough");
    writer.push(&content, &mut out);
    writer.finish(&mut out);
    assert_eq!(out, stored);
    true
}
