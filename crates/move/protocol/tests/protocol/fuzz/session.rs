// SPDX-License-Identifier: GPL-2.0-or-later
//! Headers of sessions.

use longhaul_protocol::session::{
    Header, MAX_HEADER, SessionId,
    request::{Kept, MAX_REQUEST, Request, Signed, StoredSession},
};

/// What is read is printed and read the same, and no part of it is taken for the whole.
pub fn lsl_header(input: &[u8]) -> bool {
    let Ok(Some((header, length))) = Header::parse(input) else { return false };
    assert!(length <= MAX_HEADER.min(input.len()));
    for cut in [0, 1, 4, 7, length / 2, length - 1] {
        assert_eq!(Header::parse(&input[..cut]), Ok(None), "{cut} of {length} bytes are taken");
    }
    let printed = header.to_bytes().expect("what was read fits into a header");
    let again = Header::parse(&printed).expect("what is printed can be read");
    assert_eq!(again, Some((header.clone(), printed.len())));
    match &header {
        Header::Open(open) => {
            let _ = open.clone().step(&"d1".parse().unwrap());
        }
        Header::Answer(answer) => {
            let fault = answer.fault();
            assert!(fault.is_none_or(|fault| !fault.reason.contains(char::is_control)));
        }
        Header::Join(_) => {}
    }
    true
}

/// Requests to a store, and its answers. A note that nobody has signed is never one.
pub fn lsl_request(input: &[u8]) -> bool {
    assert!(Signed::verify(input, SessionId([1; 16]), &[2; 32]).is_err());
    if let Some(kept) = Kept::parse(input) {
        assert_eq!(Kept::parse(&kept.to_json()), Some(kept));
    }
    if let Ok(line) = StoredSession::parse(input) {
        assert_eq!(StoredSession::parse(&line.to_line()), Ok(line));
        return true;
    }
    match Request::parse(input) {
        Ok(request) => {
            let printed = request.to_json();
            assert!(printed.len() <= MAX_REQUEST);
            assert_eq!(Request::parse(&printed), Ok(request));
            true
        }
        Err(error) => {
            assert!(!error.to_string().contains(char::is_control), "{error:?}");
            false
        }
    }
}
