// SPDX-License-Identifier: GPL-2.0-or-later
//! The bytes of a stored session, compared with those that `interop/parcel.py` makes by Python's `cryptography`.

use super::{below, bytes, headers::block};
use aws_lc_rs::digest::{SHA256, digest};
use longhaul_protocol::session::{
    Prefix,
    parcel::{
        CHUNK, Chunks, HEAD, MAX_NOTE, ParcelError, ParcelHead, ParcelKeys, ParcelReader,
        ParcelStep, ParcelWriter,
    },
    request::SigningKey,
};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

const CODE: &[u8] = b"k3v9x2mq7f4tpd8wz0y1";
const NOTE: &[u8] = br#"{"kind":"pipe"}"#;
/// Bytes of a body that are not content.
const OTHERS: usize = 4 + NOTE.len() + 32;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn salt() -> [u8; 32] {
    std::array::from_fn(|n| n as u8)
}

fn secret() -> [u8; 32] {
    ParcelKeys::of_code(CODE).secret
}

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 7 + n / 251) as u8).collect()
}

/// A parcel, written in pieces.
fn written(is_encrypted: bool, note: &[u8], content: &[u8], piece: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let chunks = Chunks::new(ParcelHead::new(is_encrypted, salt()), &secret());
    let mut writer = ParcelWriter::begin(chunks, note, &mut out).unwrap();
    content.chunks(piece).for_each(|piece| writer.push(piece, &mut out));
    assert_eq!(writer.finish(&mut out), *blake3::hash(content).as_bytes());
    out
}

/// All that a reader gives for these bytes, which come in pieces.
fn given(
    mut reader: ParcelReader,
    stored: &[u8],
    piece: usize,
) -> Result<(Option<Vec<u8>>, Vec<u8>), ParcelError> {
    let (mut note, mut content, mut is_whole) = (None, Vec::new(), false);
    let mut pieces = stored.chunks(piece);
    loop {
        while let Some(step) = reader.advance()? {
            match step {
                ParcelStep::Note(bytes) => assert!(note.replace(bytes).is_none()),
                ParcelStep::Content(bytes) => content.extend(bytes),
                ParcelStep::End => is_whole = true,
            }
        }
        match pieces.next() {
            Some(piece) => reader.push(piece),
            None if is_whole => return Ok((note, content)),
            None => reader.end(),
        }
    }
}

fn read(stored: &[u8], piece: usize) -> Result<(Option<Vec<u8>>, Vec<u8>), ParcelError> {
    given(ParcelReader::new(Some(secret())), stored, piece)
}

#[test]
fn keys_of_a_code_are_those_of_the_second_implementation() {
    let keys = ParcelKeys::of_code(CODE);
    assert_eq!(keys.session.to_string(), "e6d0a7e868d10b6da34b21520bdd3641");
    assert_eq!(
        hex(&keys.collector),
        "e4ca8070119e028a7898cdf507764285324fb4f5e454205ae7ebdc2c4bed25e1"
    );
    assert_eq!(
        hex(&keys.secret),
        "4f105c3daf5572d0452612cb9f5a85c4b5010d4be753b8dc9d692aae9320ec9f"
    );
    assert_eq!(
        SigningKey::from_seed(&keys.collector).public().to_string(),
        "23bd9cfec1160253f7d5137a86e60f1f926e4a41050eed47fa552dd49fc3982e"
    );
}

#[test]
fn short_parcels_are_those_of_the_second_implementation() {
    for (is_encrypted, expected) in [
        (
            true,
            "4c4870617263656c0101000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\
             33a073aecd3c3020ddbd4cbae566da2162026c8682158efd1ae8fdf8754b5d1dcc4bdb2003c4253cc1f714\
             9e656dd5f9e749d6e3e2920e47a475a7eca385b4c0493c5426886cf909c0",
        ),
        (
            false,
            "4c4870617263656c0100000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\
             0000000f7b226b696e64223a2270697065227d68656c6c6f0a8e4c7c1b99dbfd50e7a95185fead5ee1448f\
             a904a2fdd778eaf5f2dbfd629a99",
        ),
    ] {
        let stored = written(is_encrypted, NOTE, b"hello\n", 2);
        assert_eq!(hex(&stored), expected);
        assert_eq!(read(&stored, 7), Ok((Some(NOTE.to_vec()), b"hello\n".to_vec())));
        assert!(!is_encrypted || stored == block("hex parcel"), "docs/lsl.md has the same");
    }
}

#[test]
fn long_parcels_are_those_of_the_second_implementation() {
    for (length, stored_length, sha256) in [
        (0, 109, "d4704429f05eb7999b78b9382844c213d22046cf1f4f214e229cd7ffe855dd45"),
        (1, 110, "cc483850f947e545d90a2bcb843d6b8c843620b179441413022f10aba96a61aa"),
        (65_484, 65_593, "5c5c2bb5c6a7543c519c9d7285ff7040383b2ea62b520f2d2c0a8911450da8ed"),
        (65_485, 65_594, "e152eee05ad4d1ab02bd388cfc4def1f00bcb8bb962353cafac30d4fc7899042"),
        (65_486, 65_611, "d5ee74d857d66e7cf2acca9e604c6eae6c11051f677c3dbebec9eb310914a5f0"),
        (65_517, 65_642, "48140e32a41e740bb7e2e1de0fa823905f9da223e9618cf343e3cc349f7a8477"),
        (131_021, 131_146, "d60bd07bd10ef0d0b7448a75a7a4960405c31a8250735bdf2fbaf65a09e8419c"),
        (196_558, 196_715, "3240441e76e704e537b0f4d4c4da604a314fcc65ec385bedd55bc55485facd54"),
        (200_000, 200_157, "6ba35a8126b92a4d65c40e973cef59879c38664b2095bc88af1b9c5e38300a64"),
    ] {
        let content = content(length);
        let stored = written(true, NOTE, &content, 10_007);
        assert_eq!(stored.len(), stored_length, "{length}");
        assert_eq!(hex(digest(&SHA256, &stored).as_ref()), sha256, "{length}");
        let chunks = Chunks::new(ParcelHead::new(true, salt()), &secret());
        assert_eq!(chunks.stored_length((OTHERS + length) as u64), stored_length as u64);
        let more = chunks.body_within(stored_length as u64) - (OTHERS + length) as u64;
        assert!(more <= 16, "{length}: {more}");
        for piece in [1 << 20, 9973] {
            assert_eq!(read(&stored, piece), Ok((Some(NOTE.to_vec()), content.clone())));
        }
    }
}

#[test]
fn any_pieces_give_the_same_parcel() {
    let seed = testkit::fuzz::seed();
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    for _ in 0..40 {
        let (length, note) = (below(300_000, &mut random), below(4097, &mut random));
        let (content, note) =
            (bytes(length as usize, &mut random), bytes(note as usize, &mut random));
        let is_encrypted = random.next_u32() & 1 == 1;
        let mut piece = || 1 + below(150_000, &mut random) as usize;
        let stored = written(is_encrypted, &note, &content, piece());
        assert_eq!(stored, written(is_encrypted, &note, &content, piece()));
        let (found, all) = read(&stored, piece()).unwrap();
        assert_eq!(found, Some(note));
        assert!(all == content);
    }
}

#[test]
fn collector_continues_behind_any_byte() {
    let content = content(200_000);
    for is_encrypted in [true, false] {
        let stored = written(is_encrypted, NOTE, &content, 1 << 20);
        let edges = (0..4).flat_map(|n| [n * CHUNK, n * CHUNK + 1, (n * CHUNK).saturating_sub(1)]);
        let held =
            edges.map(|edge| edge.saturating_sub(4 + NOTE.len())).chain([100, 199_999, 200_000]);
        for held in held.filter(|held| *held <= content.len()) {
            let mut prefix = Prefix::default();
            prefix.extend(&content[..held]);
            let head = ParcelHead::new(is_encrypted, salt());
            let (reader, from) =
                ParcelReader::resume(Some(secret()), head, NOTE.len(), prefix).unwrap();
            let chunk = CHUNK + if is_encrypted { 16 } else { 0 };
            assert_eq!((from as usize - HEAD) % chunk, 0, "{held}: a chunk begins there");
            assert!((HEAD + held + OTHERS) as u64 + 100 > from && held < from as usize + chunk);
            let (note, rest) = given(reader, &stored[from as usize..], 33_333).unwrap();
            assert_eq!(note, None);
            assert!(rest == content[held..], "{held}");
            // With another beginning the hash is another one.
            if held > 0 {
                let mut other = Prefix::default();
                other.extend(&vec![0x55; held]);
                let (reader, from) =
                    ParcelReader::resume(Some(secret()), head, NOTE.len(), other).unwrap();
                let found = given(reader, &stored[from as usize..], 33_333);
                assert_eq!(found, Err(ParcelError::Hash));
            }
        }
    }
}

#[test]
fn every_changed_byte_is_noticed() {
    for is_encrypted in [true, false] {
        let stored = written(is_encrypted, NOTE, b"hello\n", 6);
        for at in 0..stored.len() {
            for bit in [1, 0x80] {
                let mut changed = stored.clone();
                changed[at] ^= bit;
                match read(&changed, 50) {
                    Err(_) => {}
                    // Without encryption neither note nor salt is protected.
                    Ok((note, content)) => {
                        assert!(!is_encrypted && content == b"hello\n", "byte {at}");
                        assert!((10..HEAD).contains(&at) || note != Some(NOTE.to_vec()), "{at}");
                    }
                }
            }
            assert!(read(&stored[..at], 50).is_err(), "{at} bytes");
        }
        assert!(read(&[&stored[..], b"x"].concat(), 50).is_err());
    }
}

#[test]
fn missing_swapped_repeated_and_added_chunks_are_noticed() {
    let all = content(4 * CHUNK - OTHERS);
    let stored = written(true, NOTE, &all, 1 << 20);
    let (head, rest) = stored.split_at(HEAD);
    let chunks: Vec<&[u8]> = rest.chunks(CHUNK + 16).collect();
    assert_eq!((chunks.len(), chunks[3].len()), (4, CHUNK + 16), "the last one is whole");
    assert!(read(&[&[head][..], &chunks].concat().concat(), 1 << 20).is_ok());
    let mut orders: Vec<Vec<usize>> = vec![vec![], vec![0], vec![0, 1, 2], vec![1, 2, 3]];
    orders.extend([vec![0, 1, 3], vec![0, 2, 1, 3], vec![3, 1, 2, 0], vec![0, 1, 2, 3, 3]]);
    orders.extend([vec![0, 1, 1, 2, 3], vec![0, 1, 2, 3, 0], vec![3]]);
    for order in orders {
        let changed: Vec<&[u8]> =
            [head].into_iter().chain(order.iter().map(|n| chunks[*n])).collect();
        assert!(read(&changed.concat(), 1 << 20).is_err(), "{order:?}");
    }
    // A chunk of another parcel of the same code, whose salt differs.
    let mut other = Vec::new();
    let keys = Chunks::new(ParcelHead::new(true, [9; 32]), &secret());
    let mut writer = ParcelWriter::begin(keys, NOTE, &mut other).unwrap();
    writer.push(&all, &mut other);
    writer.finish(&mut other);
    let mixed = [&stored[..HEAD + CHUNK + 16], &other[HEAD + CHUNK + 16..]].concat();
    assert_eq!(read(&mixed, 1 << 20), Err(ParcelError::Chunk(1)));
    let mixed = [&other[..HEAD], &stored[HEAD..]].concat();
    assert_eq!(read(&mixed, 1 << 20), Err(ParcelError::Chunk(0)));
}

#[test]
fn wrong_secret_or_none_opens_nothing() {
    let stored = written(true, NOTE, b"hello\n", 6);
    let with = |secret| given(ParcelReader::new(secret), &stored, 1000);
    assert_eq!(with(Some([1; 32])), Err(ParcelError::Chunk(0)));
    assert_eq!(with(None), Err(ParcelError::Encrypted));
    let plain = written(false, NOTE, b"hello\n", 6);
    assert!(given(ParcelReader::new(None), &plain, 1000).is_ok());
    let mut later = plain;
    later[8] = 2;
    assert_eq!(read(&later, 1000), Err(ParcelError::Head));
}

#[test]
fn too_long_notes_are_neither_written_nor_read() {
    let chunks = || Chunks::new(ParcelHead::new(false, salt()), &secret());
    for (length, is_taken) in [(MAX_NOTE, true), (MAX_NOTE + 1, false)] {
        let note = vec![b'x'; length];
        let begun = ParcelWriter::begin(chunks(), &note, &mut Vec::new());
        assert_eq!(begun.is_ok(), is_taken);
        let head = ParcelHead::new(false, salt());
        let hash = *blake3::hash(b"").as_bytes();
        let stored = [head.as_bytes(), &(length as u32).to_be_bytes()[..], &note, &hash].concat();
        assert_eq!(read(&stored, 1000).is_ok(), is_taken, "{length}");
    }
}
