// SPDX-License-Identifier: GPL-2.0-or-later
//! A link's `discipline`: its parameters, their defaults, and RED's thresholds.

use longhaul_scenario::{Discipline, Queue, Run, Scenario, Thresholds};
use testkit::draft::Draft;
use units::{Bytes, Duration};

/// 1 Gb/s and 20 ms there and back: a bandwidth-delay product of 2.5 MB.
fn runs(more: &str, overrides: &[&str]) -> Vec<Run> {
    let link = "rate=1gbit delay=10ms";
    let text = Draft::new("t", "").nodes(&["a", "b"]).link("a", "b", link).line(more).to_string();
    Scenario::parse(&text, "t.toml", overrides).unwrap_or_else(|e| panic!("{e}")).runs
}

fn forward(more: &str, overrides: &[&str]) -> (Discipline, Option<Queue>) {
    let forward = runs(more, overrides).remove(0).links.remove(0).forward;
    (forward.discipline, forward.queue)
}

#[test]
fn defaults_are_those_of_the_sources() {
    let bdp = Some(Queue::Bytes(Bytes::new(2_500_000)));
    assert_eq!(forward("", &[]), (Discipline::Taildrop, bdp));
    let (target, interval) = (Duration::from_millis(5), Duration::from_millis(100));
    let codel = Discipline::Codel { target, interval, ecn: false };
    assert_eq!(forward("discipline = \"codel\"", &[]), (codel, bdp));
    let (flows, quantum) = (1024, Bytes::new(1514));
    let fq_codel = Discipline::FqCodel { target, interval, flows, quantum, ecn: true };
    let found = forward("discipline = \"fq_codel\"", &[]);
    assert_eq!(found, (fq_codel, Some(Queue::Packets(10_240))));
    let pie = Discipline::Pie {
        target: Duration::from_millis(15),
        tupdate: Duration::from_millis(15),
        alpha: 0.125,
        beta: 1.25,
        burst: Duration::from_millis(150),
        ecn: false,
        ecn_limit: 0.1,
    };
    assert_eq!(forward("discipline = { kind = \"pie\" }", &[]), (pie, bdp));
}

#[test]
fn red_has_its_thresholds_from_the_limit_or_as_given() {
    let of = |more: &str, overrides: &[&str]| match forward(more, overrides).0 {
        Discipline::Red { thresholds, probability, weight, avpkt, gentle, ecn } => {
            assert_eq!((probability, weight), (0.1, 0.002));
            assert_eq!((avpkt, gentle, ecn), (Bytes::new(1000), true, false));
            thresholds
        }
        other => panic!("{other:?}"),
    };
    let packets = |min, max| Thresholds::Packets { min, max };
    let bytes = |min, max| Thresholds::Bytes { min: Bytes::new(min), max: Bytes::new(max) };
    let red = "discipline = \"red\"";
    // A quarter of the limit, and a third of that.
    assert_eq!(of(red, &[]), bytes(208_333, 625_000));
    assert_eq!(of(red, &["link.a-b.queue=600p"]), packets(50, 150));
    // At least 15 packets, as far as there is room.
    assert_eq!(of(red, &["link.a-b.queue=40p"]), packets(5, 15));
    assert_eq!(of(red, &["link.a-b.queue=8p"]), packets(2, 8));
    assert_eq!(of(red, &["link.a-b.queue=1p"]), packets(0, 1));
    assert_eq!(of(red, &["link.a-b.queue=30KB"]), bytes(7570, 22_710));
    let table = |keys: &str| format!("discipline = {{ kind = \"red\", {keys} }}");
    assert_eq!(of(&table("min = \"20p\""), &[]), packets(20, 60));
    assert_eq!(of(&table("max = \"60KB\""), &[]), bytes(20_480, 61_440));
    assert_eq!(of(&table("min = \"0.1bdp\", max = \"0.2bdp\""), &[]), bytes(250_000, 500_000));
}

#[test]
fn keys_are_set_and_swept_one_by_one_or_together() {
    let swept = "discipline = { kind = \"codel\" }\n[sweep]\n\
                 \"link.a-b.discipline.target\" = [\"1ms\", \"20ms\"]\n";
    let targets: Vec<_> = runs(swept, &["link.a-b.discipline.ecn=true"])
        .iter()
        .map(|run| match run.links[0].forward.discipline {
            Discipline::Codel { target, ecn: true, .. } => target.as_nanos() / 1_000_000,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(targets, [1, 20]);
    let kinds = "discipline = \"${kind}\"\n[vars]\nkind = \"red\"\n\
                 [sweep]\n\"vars.kind\" = [\"taildrop\", \"red\", \"pie\", \"codel\", \"fq_codel\"]\n";
    let names = runs(kinds, &[]);
    let names: Vec<_> = names.iter().map(|run| run.links[0].forward.discipline.name()).collect();
    assert_eq!(names, ["taildrop", "red", "pie", "codel", "fq_codel"]);
    // One direction may have another.
    let link =
        &runs("discipline = \"pie\"\nbackward = { discipline = \"taildrop\" }", &[])[0].links[0];
    let of = [&link.forward, &link.backward].map(|direction| direction.discipline.name());
    assert_eq!(of, ["pie", "taildrop"]);
    // A direction without a rate has no queue.
    let one = "discipline = \"pie\"\n[[link]]\nname = \"c\"\nbetween = [\"a\", \"b\"]\n\
               forward = { rate = \"1mbit\" }\ndiscipline = \"codel\"\n";
    let links = &runs(one, &[])[0].links;
    assert_eq!(links[1].forward.discipline.name(), "codel");
    assert_eq!(links[1].backward.discipline, Discipline::Taildrop);
}

/// What is on record of every discipline is read as what it was; what is on record of none is taildrop.
#[test]
fn a_run_is_its_json() {
    for discipline in [
        "\"taildrop\"",
        "{ kind = \"red\", weight = 0.003, ecn = true }",
        "{ kind = \"red\", min = \"7p\" }",
        "{ kind = \"pie\", alpha = 0.3, tupdate = \"16ms\" }",
        "{ kind = \"codel\", target = \"12500us\" }",
        "\"fq_codel\"",
    ] {
        let run = runs(&format!("discipline = {discipline}"), &[]).remove(0);
        let json = serde_json::to_value(&run).unwrap();
        let text = serde_json::to_string(&run).unwrap();
        assert_eq!(serde_json::from_str::<Run>(&text).unwrap(), run, "{text}");
        let forward = &json["links"][0]["forward"];
        let is_taildrop = discipline.contains("taildrop");
        assert_eq!(forward.get("discipline").is_none(), is_taildrop, "{forward}");
    }
    let json = serde_json::to_value(&runs("discipline = { kind = \"red\", min = \"7p\" }", &[])[0]);
    assert_eq!(
        json.unwrap()["links"][0]["forward"]["discipline"],
        serde_json::json!({
            "kind": "red", "min_packets": 7, "max_packets": 21, "probability": 0.1, "weight": 0.002,
            "avpkt_bytes": 1000, "gentle": true, "ecn": false,
        })
    );
}
