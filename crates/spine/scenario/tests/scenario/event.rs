// SPDX-License-Identifier: GPL-2.0-or-later
//! `[[event]]`.

use longhaul_scenario::{Action, Event, Run, Scenario};
use units::Duration;

const CHAIN: &str = "title = \"t\"\n\
    [[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[node]]\nname = \"c\"\n\
    [[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1gbit\"\n\
    [[link]]\nbetween = [\"b\", \"c\"]\nrate = \"1gbit\"\n\
    [[flow]]\nname = \"first\"\nfrom = \"a\"\nto = \"c\"\nvia = [\"b\"]\nbytes = \"1MB\"\n\
    [[flow]]\nname = \"second\"\nfrom = \"a\"\nto = \"c\"\nbytes = \"1MB\"\n\
    [[flow]]\nname = \"third\"\nfrom = \"a\"\nto = \"c\"\nvia = [\"b\"]\nbytes = \"1MB\"\nafter = \"first\"\n";

fn parse(more: &str, overrides: &[&str]) -> Result<Run, String> {
    let parsed = Scenario::parse(&format!("{CHAIN}{more}"), "t.toml", overrides);
    parsed.map(|mut scenario| scenario.runs.remove(0)).map_err(|error| error.to_string())
}

/// Events of these lines.
fn events(all: &[&str]) -> String {
    let one = |keys: &&str| format!("[[event]]\n{}\n", keys.replace("; ", "\n"));
    all.iter().map(one).collect::<Vec<_>>().concat()
}

#[test]
fn events_come_at_times_and_after_each_other() {
    let text = events(&[
        "name = \"crash\"; at = \"2s\"; kill = \"b\"",
        "name = \"back\"; after = \"crash\"; at = \"500ms\"; restart = \"b\"",
        "name = \"go\"; after = \"first\"; start = \"second\"",
    ]);
    let run = parse(&text, &["event.crash.at=3s"]).unwrap();
    let event = |name: &str, after: Option<&str>, at_ms: u64, action: Action| Event {
        name: name.to_owned(),
        after: after.map(str::to_owned),
        at: Duration::from_millis(at_ms),
        action,
    };
    assert_eq!(
        run.events,
        [
            event("crash", None, 3000, Action::Kill("b".into())),
            event("back", Some("crash"), 500, Action::Restart("b".into())),
            event("go", Some("first"), 0, Action::Start("second".into())),
        ]
    );
    assert_eq!(run.starter("second").unwrap().name, "go");
    assert_eq!(run.starter("first"), None);
    let places: Vec<_> = run.events.iter().map(|event| run.place(event)).collect();
    assert_eq!(places, [Some("b"), Some("b"), Some("c")]);
    // On record, and back.
    let json = serde_json::to_value(&run).unwrap();
    assert_eq!(json["events"][0]["kill"], "b");
    assert_eq!(serde_json::from_value::<Run>(json).unwrap(), run);
    let without = serde_json::to_value(parse("", &[]).unwrap()).unwrap();
    assert!(without.get("events").is_none());
}

#[test]
fn events_that_cannot_happen_are_refused_with_the_line() {
    for (keys, part) in [
        ("name = \"x\"", "event \"x\": give it one of kill, restart, start"),
        ("name = \"x\"; kill = \"b\"; start = \"first\"", "give it one of kill, restart, start"),
        ("kill = \"b\"", "\"name\" is missing"),
        ("name = \"x\"; kill = \"a\"", "node \"a\" has no depot: no flow goes via it"),
        ("name = \"x\"; start = \"fourth\"", "there is no flow \"fourth\""),
        ("name = \"x\"; start = \"third\"", "flow \"third\" waits for another flow already"),
        ("name = \"x\"; start = \"first\"; after = \"first\"", "cannot wait for its own end"),
        ("name = \"x\"; kill = \"b\"; after = \"x\"", "there is no flow \"x\", and no such event"),
        ("name = \"first\"; kill = \"b\"", "a flow has that name"),
        ("name = \"x\"; kill = \"b\"; at = \"soon\"", "at"),
        ("name = \"x\"; kil = \"b\"", "unknown key \"kil\""),
    ] {
        let error = parse(&events(&[keys]), &[]).unwrap_err();
        assert!(error.contains(part) && error.contains("t.toml:"), "{keys}: {error}");
    }
    let twice = events(&["name = \"x\"; start = \"second\"", "name = \"y\"; start = \"second\""]);
    assert!(parse(&twice, &[]).unwrap_err().contains("another event starts flow \"second\""));
    let same = events(&["name = \"x\"; kill = \"b\"", "name = \"x\"; restart = \"b\""]);
    assert!(parse(&same, &[]).is_err());
    let many: Vec<String> = (0..300).map(|n| format!("name = \"x{n}\"; kill = \"b\"")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(parse(&events(&many), &[]).unwrap_err().contains("more than 256 of [[event]]"));
}
