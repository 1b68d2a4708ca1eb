// SPDX-License-Identifier: GPL-2.0-or-later
//! `[[event]]`.

use longhaul_scenario::{Action, Event, Heading, LinkChange, Loss, Move, Run, Scenario};
use units::{Duration, Probability, Rate};

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
        ("name = \"x\"", "event \"x\": give it one of kill, restart, start, change, move"),
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

/// A server, and a client on two links; between them a depot that a second client uses.
const ROAMER: &str = "title = \"t\"\n\
    [[node]]\nname = \"server\"\n[[node]]\nname = \"hub\"\n[[node]]\nname = \"depot\"\n\
    [[node]]\nname = \"laptop\"\n[[node]]\nname = \"desk\"\n\
    [[link]]\nname = \"core\"\nbetween = [\"server\", \"hub\"]\nrate = \"1gbit\"\n\
    [[link]]\nname = \"wifi\"\nbetween = [\"hub\", \"laptop\"]\nrate = \"100mbit\"\n\
    [[link]]\nname = \"mobile\"\nbetween = [\"depot\", \"laptop\"]\nrate = \"20mbit\"\ndelay = \"20ms\"\n\
    [[link]]\nname = \"trunk\"\nbetween = [\"hub\", \"depot\"]\n\
    [[link]]\nname = \"red\"\nbetween = [\"hub\", \"desk\"]\nrate = \"1gbit\"\n\
    discipline = { kind = \"red\" }\n\
    [[flow]]\nname = \"down\"\nfrom = \"server\"\nto = \"laptop\"\nbytes = \"1MB\"\n\
    [[flow]]\nname = \"relayed\"\nfrom = \"server\"\nto = \"desk\"\nvia = [\"depot\"]\nbytes = \"1MB\"\n";

fn roam(all: &[&str]) -> Result<Run, String> {
    let parsed = Scenario::parse(&format!("{ROAMER}{}", events(all)), "t.toml", &[] as &[&str]);
    parsed.map(|mut scenario| scenario.runs.remove(0)).map_err(|error| error.to_string())
}

#[test]
fn links_change_and_nodes_move() {
    let run = roam(&[
        "name = \"worse\"; at = \"1s\"; change = \"core\"; rate = \"10mbit\"; loss = \"1%\"; direction = \"forward\"",
        "name = \"cut\"; after = \"worse\"; change = \"trunk\"; cut = true; delay = \"5ms\"",
        "name = \"leave\"; after = \"cut\"; at = \"2s\"; move = \"laptop\"; to = \"mobile\"",
    ])
    .unwrap();
    let worse = LinkChange {
        link: "core".into(),
        direction: Some(Heading::Forward),
        rate: Some(Rate::bits_per_second(10_000_000)),
        delay: None,
        loss: Some(Loss::Uniform { probability: Probability::new(0.01).unwrap() }),
        cut: None,
    };
    let cut = LinkChange {
        link: "trunk".into(),
        direction: None,
        rate: None,
        delay: Some(Duration::from_millis(5)),
        loss: None,
        cut: Some(true),
    };
    let moves = Move { node: "laptop".into(), link: "mobile".into() };
    let actions: Vec<_> = run.events.iter().map(|event| event.action.clone()).collect();
    assert_eq!(actions, [Action::Change(worse), Action::Change(cut), Action::Move(moves.clone())]);
    let json = serde_json::to_value(&run).unwrap();
    assert_eq!(json["events"][0]["change"]["direction"], "forward");
    assert_eq!(json["events"][2]["move"]["link"], "mobile");
    assert_eq!(serde_json::from_value::<Run>(json).unwrap(), run);
    // Only what waits for a rate that changes has to be decided late.
    let late = run
        .directed_links()
        .filter(|link| matches!(link.config.discipline, netmodel::Discipline::TailDropAtDeparture));
    assert_eq!(late.map(|link| link.name).collect::<Vec<_>>(), ["core/forward"]);
    // By the hub before, by the depot afterwards, and back the same way.
    let names = |path: Vec<usize>| -> Vec<_> {
        path.into_iter().map(|link| run.links[link].name.as_str()).collect()
    };
    let (before, after) = (run.routes(), run.routes_after(&moves));
    assert_eq!(names(before.path("server", "laptop").unwrap()), ["core", "wifi"]);
    assert_eq!(names(after.path("server", "laptop").unwrap()), ["core", "trunk", "mobile"]);
    assert_eq!(names(after.path("laptop", "server").unwrap()), ["mobile", "trunk", "core"]);
}

#[test]
fn changes_and_moves_that_make_no_sense_are_refused() {
    for (keys, part) in [
        ("change = \"wire\"; cut = true", "there is no link \"wire\""),
        ("change = \"core\"", "give at least one of rate, delay, loss, cut"),
        ("change = \"core\"; direction = \"forward\"", "give at least one of rate"),
        ("change = \"core\"; rate = \"0\"", "rate"),
        ("change = \"core\"; cut = \"yes\"", "cut"),
        ("change = \"trunk\"; rate = \"1gbit\"", "link \"trunk\" has no rate that could change"),
        ("change = \"red\"; rate = \"1mbit\"", "under the disciplines taildrop"),
        ("start = \"down\"; cut = true", "of a link that changes: give it \"change\""),
        ("start = \"down\"; to = \"wifi\"", "give it \"move\""),
        ("move = \"laptop\"", "\"to\" is not one of the links of node \"laptop\""),
        ("move = \"laptop\"; to = \"core\"", "\"to\" is not one of the links"),
        ("move = \"phone\"; to = \"core\"", "there is no node \"phone\""),
        ("move = \"server\"; to = \"core\"", "flow \"down\" starts at it or goes via it"),
        ("move = \"depot\"; to = \"trunk\"", "flow \"relayed\" starts at it or goes via it"),
        ("move = \"hub\"; to = \"wifi\"", "what \"server\" sends to \"laptop\" passes through it"),
        ("move = \"laptop\"; change = \"core\"; cut = true", "give it one of"),
    ] {
        let error = roam(&[&format!("name = \"x\"; {keys}")]).unwrap_err();
        assert!(error.contains(part) && error.contains("t.toml:"), "{keys}: {error}");
    }
    let many: Vec<String> =
        (0..101).map(|n| format!("name = \"x{n}\"; move = \"laptop\"; to = \"mobile\"")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(roam(&many).unwrap_err().contains("more than 100 events move a node"));
    assert!(roam(&many[..100]).is_ok());
}
