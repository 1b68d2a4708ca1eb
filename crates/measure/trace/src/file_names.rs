// SPDX-License-Identifier: GPL-2.0-or-later
//! Short names of files that tell them apart.

use units::text::printable;

/// Characters of a name.
const LONGEST: usize = 60;

/// A name for each path: the shortest end of it that no other has, without its extension if that leaves it distinct. Equal paths
/// get a number.
pub fn short_names(paths: &[&str]) -> Vec<String> {
    let ends: Vec<Vec<String>> = paths.iter().map(|path| ends(path)).collect();
    let shortest = |n: usize| {
        let others = || ends.iter().enumerate().filter(|(other, _)| *other != n);
        let is_own = |(at, end): &(usize, &String)| {
            others().all(|(_, other)| other.get(*at).is_none_or(|other| other != *end))
        };
        let own = ends[n].iter().enumerate().find(is_own).map(|(_, end)| end);
        printable(own.or(ends[n].last()).map_or("", String::as_str), LONGEST)
    };
    let mut names: Vec<String> = Vec::new();
    for name in (0..paths.len()).map(shortest) {
        let numbered = (2..).map(|n| format!("{name} ({n})"));
        let free = [name.clone()].into_iter().chain(numbered).find(|one| !names.contains(one));
        names.extend(free);
    }
    names
}

/// The ends of a path from short to long, each first without its extension.
fn ends(path: &str) -> Vec<String> {
    let parts: Vec<&str> =
        path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let with_and_without = (0..parts.len()).rev().flat_map(|from| {
        let whole = parts[from..].join("/");
        [without_extension(&whole).to_owned(), whole]
    });
    with_and_without.collect()
}

/// Without what names the format: `.pcap`, `.pcapng.zst`.
fn without_extension(path: &str) -> &str {
    let without = |path: &str, ends: &[&str]| {
        ends.iter().find_map(|end| Some(path.strip_suffix(end)?.len())).unwrap_or(path.len())
    };
    let unpacked = &path[..without(path, &[".gz", ".zst"])];
    let stem = &unpacked[..without(unpacked, &[".pcapng", ".pcap", ".cap", ".dump"])];
    if stem.is_empty() || stem.ends_with('/') { path } else { stem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortest_ends_tell_paths_apart() {
        let cases: [(&[&str], &[&str]); 8] = [
            (&["a/b/client.pcapng", "a/c/server.pcap"], &["client", "server"]),
            (
                &["out/reno,r01/client.pcapng", "out/cubic,r01/client.pcapng"],
                &["reno,r01/client", "cubic,r01/client"],
            ),
            // Each as short as it can be.
            (
                &["x/a/1/client.pcap", "x/b/1/client.pcap", "x/server.pcap"],
                &["a/1/client", "b/1/client", "server"],
            ),
            (&["client.pcap", "client.pcapng.zst"], &["client.pcap", "client.pcapng.zst"]),
            (&["client.pcap", "old/client.pcap"], &["client.pcap", "old/client"]),
            (
                &["./one.pcap", "one.pcap", "/one.pcap"],
                &["one.pcap", "one.pcap (2)", "one.pcap (3)"],
            ),
            (&["-", "10.0.0.1-80"], &["-", "10.0.0.1-80"]),
            (&["evil\u{202e}\n.pcap", ""], &["evil??", ""]),
        ];
        for (paths, expected) in cases {
            assert_eq!(short_names(paths), expected, "{paths:?}");
        }
        let long = ["a".repeat(100), "a".repeat(99) + "b"];
        let names = short_names(&[&long[0], &long[1]]);
        assert_eq!(names[1], format!("{}... (2)", "a".repeat(60)));
    }
}
