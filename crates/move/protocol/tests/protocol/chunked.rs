// SPDX-License-Identifier: GPL-2.0-or-later
//! Chunks: decoding is the inverse of encoding, and no matter where the bytes are cut.

use http::{HeaderName, HeaderValue};
use longhaul_protocol::http::{
    Fields,
    chunked::{DATA_END, Decoder, Next, put_head, put_last},
};
use proptest::prelude::*;
use units::Bytes;

const MAX_TRAILERS: Bytes = Bytes::new(4096);

/// The trailers of a body that has ended, and the unread bytes.
type End = Option<(Fields, Vec<u8>)>;

/// What a decoder makes of bytes that come in parts: the data and, when the body has ended, the
/// trailers and the unread bytes. Data is moved in parts of its own (at most `step` bytes).
fn decode<'a>(
    parts: impl Iterator<Item = &'a [u8]>,
    step: usize,
) -> Result<(Vec<u8>, End), String> {
    let mut decoder = Decoder::new(MAX_TRAILERS);
    let (mut data, mut end) = (Vec::new(), End::None);
    for mut part in parts {
        if let Some((_, rest)) = &mut end {
            rest.extend_from_slice(part);
            continue;
        }
        while !part.is_empty() {
            let found = decoder.next(part).map_err(|error| error.to_string())?;
            part = &part[found.framing..];
            match found.next {
                Next::More => assert!(part.is_empty(), "framing that is here is eaten"),
                Next::Data(left) => {
                    let length = part.len().min(left as usize).min(step);
                    data.extend_from_slice(&part[..length]);
                    part = &part[length..];
                    decoder.moved(length as u64);
                }
                Next::End(trailers) => {
                    assert!(decoder.is_over());
                    end = Some((trailers, part.to_vec()));
                    break;
                }
            }
        }
    }
    Ok((data, end))
}

fn trailers() -> impl Strategy<Value = Fields> {
    let field = ("[a-z][a-z0-9-]{0,8}", "[!-~]([ -~]{0,8}[!-~])?");
    proptest::collection::vec(field, 0..4).prop_map(|fields| {
        let mut map = Fields::new();
        for (name, value) in fields {
            map.append(name.parse::<HeaderName>().unwrap(), HeaderValue::try_from(value).unwrap());
        }
        map
    })
}

fn chunks() -> impl Strategy<Value = Vec<Vec<u8>>> {
    proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..6)
}

fn encode(chunks: &[Vec<u8>], trailers: &Fields) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in chunks {
        put_head(chunk.len() as u64, &mut out);
        out.extend_from_slice(chunk);
        out.extend_from_slice(DATA_END);
    }
    put_last(trailers, &mut out);
    out
}

/// Cuts bytes into parts at any places.
fn cut<'a>(bytes: &'a [u8], at: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut at: Vec<usize> = at.iter().map(|index| index.index(bytes.len() + 1)).collect();
    at.extend([0, bytes.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

proptest! {
    #[test]
    fn decoding_is_the_inverse_of_encoding(
        chunks in chunks(),
        trailers in trailers(),
        rest in proptest::collection::vec(any::<u8>(), 0..20),
        at in proptest::collection::vec(any::<prop::sample::Index>(), 0..30),
        step in 1_usize..50,
    ) {
        let bytes = [encode(&chunks, &trailers), rest.clone()].concat();
        let (data, end) = decode(cut(&bytes, &at).into_iter(), step).unwrap();
        prop_assert_eq!(data, chunks.concat());
        prop_assert_eq!(end, Some((trailers, rest)));
    }

    #[test]
    fn chunked_decoding_is_independent_of_splits(
        bytes in "([0-9a-f]{1,2}(;[a-z=]{1,4})?|[a-z0\r\n;: ]{0,4}|\r\n){0,12}",
        at in proptest::collection::vec(any::<prop::sample::Index>(), 0..30),
    ) {
        let whole = decode(std::iter::once(bytes.as_bytes()), usize::MAX);
        let parts = decode(cut(bytes.as_bytes(), &at).into_iter(), usize::MAX);
        prop_assert_eq!(parts, whole);
    }
}

#[test]
#[should_panic(expected = "fewer were left")]
fn more_than_a_chunk_is_never_moved() {
    let mut decoder = Decoder::new(MAX_TRAILERS);
    assert_eq!(decoder.next(b"5\r\nhello\r\n").unwrap().next, Next::Data(5));
    decoder.moved(6);
}

#[test]
#[should_panic(expected = "ends the body")]
fn an_empty_chunk_is_not_printed_by_mistake() {
    put_head(0, &mut Vec::new());
}
