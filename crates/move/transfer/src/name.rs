// SPDX-License-Identifier: GPL-2.0-or-later
//! Names of files: from URLs and from lists, neither of which are trusted.

use crate::{Error, text::printable};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use reqwest::Url;
use std::{
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

/// Characters of a path segment that need no encoding (RFC 3986, section 2.3).
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The longest name that leaves room for what is appended while the transfer goes on (`.part.json~`).
pub const MAX_NAME_LEN: usize = 255 - ".part.json~".len();

/// The name for what this URL leads to: its last segment, percent-decoded.
///
/// # Errors
/// The segment is empty or no usable name; the text says to use `-o`.
pub fn file_name(url: &str) -> Result<String, Error> {
    let refused = |why: &str| {
        let url = printable(&without_credentials(url), 200);
        Error::Usage(format!("{url}: {why}. Name the file: -o FILE"))
    };
    // Not from the parsed URL, which has resolved "." and "..".
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    let segment = path.split_once('/').map_or("", |(_, path)| path);
    let segment = segment.rsplit('/').next().unwrap_or_default();
    let name = percent_decode_str(segment)
        .decode_utf8()
        .map_err(|_| refused("the last part of the URL is not UTF-8"))?;
    check_name(&name).map_err(refused)?;
    Ok(name.into_owned())
}

/// Whether this can be the name of a file.
pub(crate) fn check_name(name: &str) -> Result<(), &'static str> {
    match name {
        "" => Err("it names no file"),
        "." | ".." => Err("\".\" and \"..\" are not file names"),
        _ if name.contains(['/', '\\']) => Err("a file name cannot contain slashes"),
        _ if name.chars().any(char::is_control) => {
            Err("a file name cannot contain control characters")
        }
        _ if name.len() > MAX_NAME_LEN => Err("the file name is longer than 244 bytes"),
        _ => Ok(()),
    }
}

/// Checks the name under which something is sent, as the receiver will; `-` is standard input.
///
/// # Errors
/// The receiver would refuse it; the text says to use `--name`.
pub fn check_sent_name(what: &Path, name: Option<&str>) -> Result<(), Error> {
    let refused = |shown: &str, why: &str| {
        Error::Usage(format!("{}: {why}. Name it: --name NAME", printable(shown, 200)))
    };
    if let Some(name) = name {
        return check_name(name).map_err(|why| refused(&format!("--name {name}"), why));
    }
    // A path that cannot be read has an error of its own.
    let Some(whole) = what.canonicalize().ok().filter(|_| what != Path::new("-")) else {
        return Ok(());
    };
    let own = whole.file_name().and_then(|own| own.to_str());
    own.map_or(Ok(()), check_name).map_err(|why| refused(&what.to_string_lossy(), why))
}

/// A name from a list, which may name directories but stays inside the one that it is put into.
///
/// # Errors
/// It is absolute, or has parts that are not names.
pub fn path_within(name: &str) -> Result<PathBuf, Error> {
    let refused =
        |why: &str| Error::Usage(format!("output name {:?}: {why}", printable(name, 200)));
    if name.ends_with('/') {
        return Err(refused("it names a directory"));
    }
    let mut path = PathBuf::new();
    for part in Path::new(name).components() {
        let Component::Normal(part) = part else {
            return Err(refused("it must stay inside the directory: no \"..\", no leading \"/\""));
        };
        let part = part.to_str().ok_or_else(|| refused("it is not UTF-8"))?;
        check_name(part).map_err(refused)?;
        path.push(part);
    }
    if path.as_os_str().is_empty() { Err(refused("it is empty")) } else { Ok(path) }
}

/// Where a file is uploaded to: a URL that ends in `/` gets its name, percent-encoded.
///
/// # Errors
/// The URL ends in `/`, and the file has no name: standard input, or a path like `..`.
pub fn upload_url(url: &str, file: Option<&Path>) -> Result<String, Error> {
    if !url.ends_with('/') {
        return Ok(url.to_owned());
    }
    let Some(name) = file.and_then(Path::file_name) else {
        let text =
            "the URL ends in /, and what is uploaded has no name to append. Name it in the URL";
        return Err(Error::Usage(text.to_owned()));
    };
    Ok(format!("{url}{}", percent_encode(name.as_bytes(), UNRESERVED)))
}

/// A URL as it may be shown and kept: without user, password and fragment.
pub(crate) fn without_credentials(url: &str) -> String {
    let Ok(mut url) = url.parse::<Url>() else {
        return "(a URL that cannot be read)".to_owned();
    };
    // Both fail only for URLs without a host, which have no credentials.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
    url.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_the_last_segment_of_the_url() {
        for (url, name) in [
            ("http://h/a/b.tar", "b.tar"),
            ("http://h/a/b%20c?x=/y#z/", "b c"),
            ("http://h/caf%C3%A9", "caf\u{e9}"),
            ("http://u:p@h/f", "f"),
        ] {
            assert_eq!(file_name(url).unwrap(), name, "{url}");
        }
        let long = format!("http://h/{}", "x".repeat(245));
        for url in [
            "http://h",
            "http://h/",
            "http://h/a/",
            "http://h/?x",
            "http://h/.",
            "http://h/%2e%2E",
            "http://h/a%2Fb",
            "http://h/a%5cb",
            "http://h/a%00",
            "http://h/a%0ab",
            "http://h/a%c2%9b2J",
            "http://h/%ff",
            &long,
        ] {
            let error = file_name(url).expect_err(url).to_string();
            assert!(error.contains("-o FILE"), "{error}");
        }
        assert!(file_name(&long[..long.len() - 1]).is_ok());
    }

    #[test]
    fn sent_names_are_checked_where_they_can_be_changed() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["a\nb", "a\u{9b}b", "a\\b"] {
            let file = directory.path().join(name);
            std::fs::write(&file, b"").unwrap();
            let error = check_sent_name(&file, None).expect_err(name).to_string();
            assert!(error.contains("--name NAME") && !error.contains(char::is_control), "{error}");
            assert!(check_sent_name(&file, Some("c")).is_ok());
            assert!(check_sent_name(&file, Some(name)).is_err());
        }
        assert!(check_sent_name(Path::new("-"), None).is_ok());
        assert!(check_sent_name(Path::new("/no/such/file"), None).is_ok());
        assert!(check_sent_name(Path::new("-"), Some("")).is_err());
    }

    #[test]
    fn listed_names_stay_inside() {
        assert_eq!(path_within("a/b c").unwrap(), PathBuf::from("a/b c"));
        for name in ["", "/etc/passwd", "../x", "a/../../x", "a/", "a/\x1b", ".", "..", "./x/.."] {
            assert!(path_within(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn uploads_get_the_name_of_the_file() {
        let to = |url: &str, file: &str| upload_url(url, Some(Path::new(file)));
        assert_eq!(to("http://h/d/", "x/a b?#%.t").unwrap(), "http://h/d/a%20b%3F%23%25.t");
        assert_eq!(to("http://h/d/n", "x/a").unwrap(), "http://h/d/n");
        assert!(to("http://h/", "..").is_err());
        assert!(upload_url("http://h/", None).is_err());
        assert_eq!(upload_url("http://h/n", None).unwrap(), "http://h/n");
    }

    #[test]
    fn shown_urls_have_no_password() {
        assert_eq!(without_credentials("http://u:p@h:81/a?b#c"), "http://h:81/a?b");
    }
}
