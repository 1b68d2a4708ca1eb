// SPDX-License-Identifier: GPL-2.0-or-later
//! Small mistakes in configuration files and arguments, and what the messages suggest instead.

use crate::common::{call, refused, text};
use std::fs;

const ROUTE: &str = "[[route]]\nto = [\"*\"]\nvia = [\"d1.example\"]\n";

#[test]
fn misspelled_key_of_any_file_names_the_nearest() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file.toml");
    let file = path.to_str().unwrap();
    let link = "[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1gbit\"\n";
    let scenario = format!(
        "title = \"t\"\nduration = \"1s\"\n[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n{link}"
    );
    let (depot, agent) = (&["depot", "check", file][..], &["agent", "run", "--config", file][..]);
    let intercept = &["intercept", "rules", "--config", file][..];
    let failover = &["failover", "check", file][..];
    let get = &["get", "--config", file, "http://o.example/f"][..];
    let lab = &["lab", "check", file][..];
    for (command, content, meant) in [
        (depot, "lisen = [\"127.0.0.1:0\"]".to_owned(), "`listen`"),
        (depot, "[limits]\nconections = 5".to_owned(), "`connections`"),
        (depot, "[[hop]]\npeer = \"10.0.0.0/8\"\nwarmth = 2".to_owned(), "`warm`"),
        (depot, "copy = \"spice\"".to_owned(), "`splice`"),
        (agent, format!("strct = true\n{ROUTE}"), "`strict`"),
        (agent, ROUTE.replace("via", "vai"), "`via`"),
        (intercept, format!("strct = true\n{ROUTE}"), "`strict`"),
        (failover, "[[clients]]\nnetwork = [\"10.0.0.0/8\"]".to_owned(), "`networks`"),
        (failover, "evry = \"1s\"".to_owned(), "`every`"),
        (get, "[[route]]\nto = [\"*\"]\nvias = [\"d\"]".to_owned(), "`via`"),
        (lab, scenario.replace("rate", "rat"), "\"rate\""),
        (lab, scenario.replace("duration", "duraton"), "\"duration\""),
    ] {
        fs::write(&path, &content).unwrap();
        let (code, said) = refused(command);
        let hint = format!("did you mean {meant}?");
        assert!(code == 2 && said.contains(&hint), "{command:?} with {content:?}: {said}");
        // Far from every key, nothing is suggested.
        fs::write(&path, "qqqqqqqq = 1\n").unwrap();
        let (code, said) = refused(command);
        assert!(code == 2 && !said.contains("did you mean"), "{command:?}: {said}");
    }
}

#[test]
fn url_in_place_of_host_and_port_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("depot.toml");
    let file = path.to_str().unwrap();
    for (command, meant) in [
        (&["get", "--via", "http://d2:3880/", "http://o.example/f"][..], "d2:3880"),
        (&["get", "--via", "d1,https://d2/", "http://o.example/f"], "https:d2:443"),
        (&["run", "--via", "http://d2:3880", "--", "true"], "d2:3880"),
        (&["send", "--via", "http://d2:3880/", "file"], "d2:3880"),
        (&["agent", "connect", "https://o.example:443/"], "o.example:443"),
        (&["depot", "--allow-upstream", "http://o.example:80/"], "o.example:80"),
    ] {
        let output = call(command);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(meant), "{command:?}: {said}");
        assert!(said.contains("is a URL") || said.contains("names no upstream"), "{said}");
    }
    for (line, meant) in [
        ("[allow]\nupstreams = [\"http://d2:3880/\"]", "as in d2:3880"),
        (
            "names = [\"http://d1:3880/\"]",
            "is a URL, and only its host and port are expected: d1:3880",
        ),
        ("[[tcp]]\nlisten = \"127.0.0.1:1\"\nupstream = \"tcp://o:22/\"", "expected: o:22"),
    ] {
        fs::write(&path, line).unwrap();
        let (code, said) = refused(&["depot", "check", file]);
        assert!(code == 2 && said.contains(meant), "{line}: {said}");
    }
}

#[test]
fn site_without_any_certificate_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("depot.toml");
    let site = |name: &str| format!("[[site]]\nname = \"{name}\"\norigin = \"http://o.example\"\n");
    let text =
        format!("tls.listen = [\"127.0.0.1:0\"]\n{}{}", site("data.example"), site("b.example"));
    fs::write(&path, text).unwrap();
    let (code, said) = refused(&["depot", "check", path.to_str().unwrap()]);
    assert!(code == 2 && said.contains("\"data.example\" has no certificate"), "{said}");
    assert!(said.contains("line 3"), "{said}");
}
