// SPDX-License-Identifier: GPL-2.0-or-later
//! Fuzz tests of the readers of responses, sidecar files and lists: mutations of the inputs in
//! `tests/corpus/`, the same for the same seed. `LONGHAUL_SEED` and `LONGHAUL_FUZZ_INPUTS` as in `protocol`.

use crate::{
    answer::{Answer, Framing, RangeField},
    list::read_list,
    part::Sidecar,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use protocol::digest::Algorithm;
use std::{
    path::Component,
    time::{Duration, SystemTime},
};
use testkit::fuzz::run;

const INPUTS: u64 = 100_000;

/// A status, and a field a line.
fn head(input: &[u8]) -> Option<(StatusCode, HeaderMap)> {
    let mut lines = input.split(|byte| *byte == b'\n');
    let status = StatusCode::from_bytes(lines.next()?).ok()?;
    let mut headers = HeaderMap::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        headers.append(name, HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?);
    }
    Some((status, headers))
}

/// Nothing that could be read in two ways is taken.
fn answer_input(input: &[u8]) -> bool {
    let Some((status, headers)) = head(input) else { return false };
    let values = |name: &str| -> Vec<Vec<u8>> {
        headers.get_all(name).iter().map(|value| value.as_bytes().to_vec()).collect()
    };
    let (lengths, codings) = (values("content-length"), values("transfer-encoding"));
    let answer = match Answer::read(status, &headers, SystemTime::now()) {
        Ok(answer) => answer,
        Err(why) => {
            assert!(!why.is_empty() && lengths.len() + codings.len() > 0, "{why}");
            return false;
        }
    };
    match answer.framing {
        Framing::Length(length) => {
            let [text] = &lengths[..] else { panic!("{lengths:?}") };
            assert!(text.iter().all(u8::is_ascii_digit) && codings.is_empty());
            assert_eq!(String::from_utf8_lossy(text).parse(), Ok(length));
        }
        Framing::Chunked => {
            assert!(lengths.is_empty() && codings.len() == 1);
            assert!(codings[0].eq_ignore_ascii_case(b"chunked"));
        }
        Framing::UntilClose => assert!(lengths.is_empty() && codings.is_empty()),
    }
    if let RangeField::Bytes(range) = answer.range {
        assert!(range.start < range.end && range.total.is_none_or(|total| range.end <= total));
    }
    let validators = &answer.validators;
    assert_eq!(validators.same_version(validators), validators.strong().is_some());
    assert!(validators.strong().is_none_or(|strong| !strong.starts_with("W/")));
    assert!(answer.retry_after.is_none_or(|wait| wait <= Duration::from_secs(60)));
    assert!(answer.digest.is_none_or(|digest| digest.algorithm() != Algorithm::Md5));
    true
}

/// Ranges that are held are in order, apart, and within bounds.
fn sidecar_input(input: &[u8]) -> bool {
    let Ok(sidecar) = serde_json::from_slice::<Sidecar>(input) else { return false };
    let text = serde_json::to_string(&sidecar).unwrap();
    let again: Sidecar = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&again).unwrap(), text);
    let ranges: Vec<(u64, u64)> = sidecar.done.clone().into();
    assert!(ranges.iter().all(|(start, end)| start < end), "{text}");
    assert!(ranges.is_sorted_by(|one, next| one.1 < next.0), "{text}");
    assert!(sidecar.done.held() <= sidecar.done.end());
    if let Some(gap) = sidecar.done.first_gap(sidecar.identity.total) {
        assert!(ranges.iter().all(|(start, end)| gap.start < *start || gap.start >= *end));
    }
    true
}

/// No line leads out of the directory.
fn list_input(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let entries = read_list(text);
    assert!(entries.len() <= text.lines().count());
    for file in entries.iter().filter_map(|entry| entry.file.as_ref().ok()) {
        assert!(file.components().all(|part| matches!(part, Component::Normal(_))), "{file:?}");
        assert!(!file.to_str().unwrap().contains(char::is_control), "{file:?}");
        assert!(file.file_name().is_some());
    }
    entries.iter().any(|entry| entry.file.is_ok())
}

#[test]
fn answer() {
    run("answer", INPUTS, answer_input);
}

#[test]
fn sidecar() {
    run("sidecar", INPUTS, sidecar_input);
}

#[test]
fn list() {
    run("list", INPUTS, list_input);
}
