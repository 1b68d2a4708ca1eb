// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul trace` of captures of a simulated run. Takes no rights.

use crate::common::{call, done, json, longhaul, refused, text};
use serde_json::Value;
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use testkit::draft::Draft;

/// A directory, and the captures of source and sink in it.
struct Captures {
    directory: tempfile::TempDir,
    source: String,
    sink: String,
    /// Segments sent again, on record.
    resent: u64,
}

fn captures() -> Captures {
    let directory = tempfile::tempdir().unwrap();
    let draft = Draft::new("Traced", "")
        .node("source", "capture=true")
        .node("sink", "capture=true")
        .link("source", "sink", "rate=50mbit queue=1bdp delay=20ms loss=0.5%")
        .flow("source", "sink", "bytes=2MB")
        .flow("source", "sink", "bytes=1MB start=500ms");
    let file = directory.path().join("traced.toml");
    fs::write(&file, draft.to_string()).unwrap();
    let out = directory.path().join("out");
    let results = json(&["sim", file.to_str().unwrap(), "--out", out.to_str().unwrap(), "--json"]);
    let record = find(&out, "summary.json");
    let summary: Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    let flows = summary["flows"].as_array().unwrap();
    let resent = flows.iter().map(|flow| flow["retransmits"].as_u64().unwrap()).sum();
    assert!(resent > 3, "{resent} in {results}");
    let capture =
        |node: &str| record.with_file_name(format!("{node}.pcapng")).to_str().unwrap().to_owned();
    Captures { source: capture("source"), sink: capture("sink"), resent, directory }
}

fn find(directory: &Path, name: &str) -> PathBuf {
    for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            return find(&entry, name);
        }
        if entry.file_name().unwrap() == name {
            return entry;
        }
    }
    panic!("no {name} in {}", directory.display());
}

fn resent(document: &Value) -> u64 {
    let connections = document["connections"].as_array().unwrap();
    let directions = connections.iter().flat_map(|one| one["directions"].as_array().unwrap());
    directions.map(|one| one["retransmitted_segments"].as_u64().unwrap()).sum()
}

#[test]
fn trace_prints_what_the_record_knows_in_all_forms() {
    let captures = captures();
    let path = |name: &str| captures.directory.path().join(name).to_str().unwrap().to_owned();
    let document = json(&["trace", &captures.source, "--json"]);
    assert_eq!(resent(&document), captures.resent);
    assert_eq!(document["connections"].as_array().unwrap().len(), 2);
    assert_eq!(document["files"][0]["connections"], 2);
    assert_eq!(document["files"][0]["error"], Value::Null);
    let table = done(&["trace", &captures.source, &captures.sink]);
    // Two senders of data at the source, and two of requests at the sink.
    assert_eq!(table.lines().filter(|line| line.contains("sender")).count(), 4, "{table}");
    assert!(table.contains("receiver"), "{table}");
    let (csv, parquet) = (path("all.csv"), path("all.parquet"));
    done(&["trace", &captures.source, &captures.sink, "--csv", &csv]);
    done(&["trace", &captures.source, &captures.sink, "--parquet", &parquet]);
    let script = "import csv, sys; rows = list(csv.DictReader(open(sys.argv[1], newline=''), strict=True)); \
        print(len(rows), sum(int(r['retransmitted_segments']) for r in rows if r['file'].endswith('source.pcapng')))";
    let output = Command::new("/usr/bin/python3").args(["-c", script, &csv]).output();
    let output = output.expect("python3 is needed: apt install python3");
    assert_eq!(text(&output.stdout), format!("8 {}\n", captures.resent));
    assert!(fs::read(&parquet).unwrap().ends_with(b"PAR1"));
    let standard = call(&["trace", &captures.source, &captures.sink, "--csv", "-"]).stdout;
    assert_eq!(text(&standard), fs::read_to_string(&csv).unwrap());
    // Existing files stay.
    let (code, said) = refused(&["trace", &captures.source, "--csv", &csv]);
    assert!(code == 2 && said.contains("exists already"), "{said}");
    done(&["trace", &captures.source, "--csv", &csv, "--force"]);
    assert_eq!(fs::read_to_string(&csv).unwrap().lines().count(), 5);
}

#[test]
fn trace_reads_pipes_and_compressed_files() {
    let captures = captures();
    let expected = json(&["trace", &captures.source, "--json"]);
    let zipped = captures.directory.path().join("source.gz");
    let to = File::create(&zipped).unwrap();
    let status = Command::new("gzip").args(["-c", &captures.source]).stdout(to).status().unwrap();
    assert!(status.success());
    for file in [captures.source.as_str(), zipped.to_str().unwrap()] {
        let mut command = longhaul();
        let piped = command.args(["trace", "-", "--json", "--threads", "2"]);
        let output = piped.stdin(File::open(file).unwrap()).output().unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(resent(&document), resent(&expected));
        assert_eq!(document["files"][0]["packets"], expected["files"][0]["packets"]);
    }
}

#[test]
fn trace_says_what_is_wrong_with_a_file() {
    let captures = captures();
    let path = |name: &str| captures.directory.path().join(name).to_str().unwrap().to_owned();
    let whole = fs::read(&captures.source).unwrap();
    // Cut within a packet, as by a full disk: a note, and results.
    let cut = path("cut.pcapng");
    fs::write(&cut, &whole[..whole.len() / 2 + 3]).unwrap();
    let output = call(&["trace", &cut]);
    assert!(output.status.success());
    let said = text(&output.stderr);
    assert!(said.contains("the file ends within a packet, at byte"), "{said}");
    assert!(text(&output.stdout).contains("sender"));
    // Damaged: results, and a failure.
    let damaged = path("damaged.pcapng");
    fs::write(&damaged, [&whole[..], b"\x06\0\0\0\x05\0\0\0and more"].concat()).unwrap();
    let output = call(&["trace", &damaged, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains(&format!("damaged at byte {}", whole.len())), "{said}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(resent(&document), captures.resent);
    assert!(document["files"][0]["error"].as_str().unwrap().contains("damaged"));
    // No capture, and none at all: the others are done.
    let other = path("other.txt");
    fs::write(&other, "this is no capture, and long enough to look like one").unwrap();
    let (code, said) = refused(&["trace", &other]);
    assert!(code == 2 && said.contains("not a pcap or pcapng file"), "{said}");
    let (code, said) = refused(&["trace", &path("missing.pcap")]);
    assert!(code == 1 && said.contains("cannot read"), "{said}");
    let output = call(&["trace", &other, &captures.source]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("sender"));
    let (code, said) = refused(&["trace", &captures.source, "--memory", "1MB"]);
    assert!(code == 2 && said.contains("16MB"), "{said}");
}

#[test]
fn trace_ends_quietly_when_its_reader_does() {
    let captures = captures();
    let mut command = longhaul();
    let command = command.args(["trace", &captures.source, "--json"]).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(!text(&output.stderr).contains("cannot write"), "{}", text(&output.stderr));
}

#[test]
fn trace_makes_one_page_that_names_files_apart() {
    let captures = captures();
    let at = |name: &str| captures.directory.path().join(name);
    // Equal stems, and a name that would be markup.
    let evil = "<img src=x onerror=alert(1)>";
    for directory in ["direct", evil] {
        fs::create_dir(at(directory)).unwrap();
        fs::copy(&captures.source, at(directory).join("client.pcapng")).unwrap();
    }
    let files = ["direct", evil].map(|directory| at(directory).join("client.pcapng"));
    let files = files.each_ref().map(|file| file.to_str().unwrap());
    let (page, svg) = (at("page.html"), at("growth.svg"));
    done(&["trace", files[0], files[1], "--html", page.to_str().unwrap(), "--chain"]);
    let html = fs::read_to_string(&page).unwrap();
    let escaped = "&lt;img src=x onerror=alert(1)&gt;/client";
    assert!(!html.contains("<img") && html.contains(escaped) && html.contains("direct/client"));
    for text in ["Sequence growth", "Windows and round trips", "Segments sent again", "2 captures"]
    {
        assert!(html.contains(text), "{text}");
    }
    let resent = format!("{} segments were sent again", 2 * captures.resent);
    assert!(html.contains(&resent), "{resent}");
    let drawn = ["trace", files[0], files[1], "--svg", svg.to_str().unwrap(), "--at-sender"];
    done(&drawn);
    let picture = fs::read_to_string(&svg).unwrap();
    assert!(picture.contains("direct/client, mean of 2") && picture.contains(escaped), "{picture}");
    done(&[&drawn[..], &["--by-loss", "--force"]].concat());
    assert!(fs::read_to_string(&svg).unwrap().contains("Fewest sent again"));
    // A page is made of what could be read, and says what could not.
    let (code, said) =
        refused(&["trace", files[0], "/nowhere.pcap", "--html", page.to_str().unwrap(), "--force"]);
    assert!(code == 1 && said.contains("cannot read /nowhere.pcap"), "{said}");
    assert!(fs::read_to_string(&page).unwrap().contains("cannot read /nowhere.pcap"));
    for (wrong, message) in [
        (vec!["--chain"], "--chain is for --html, --svg and --xplot"),
        (vec!["--by-loss", "--xplot", "x.xpl"], "--by-loss is for --html and --svg"),
        (vec!["--html", "-"], "Name a file"),
        (vec!["--html", page.to_str().unwrap()], "exists already"),
    ] {
        let (code, said) = refused(&[&["trace", files[0]], &wrong[..]].concat());
        assert!(code == 2 && said.contains(message), "{wrong:?}: {said}");
    }
}
