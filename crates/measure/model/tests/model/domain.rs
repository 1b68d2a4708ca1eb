// SPDX-License-Identifier: GPL-2.0-or-later
//! What no form is for: a flow has no number and says why, and its record is whole.

use crate::{flow, run, summary};
use record::RunVerdict;
use testkit::draft::Draft;

fn path(link: &str, keys: &str) -> String {
    Draft::new("Domain", "duration=10s")
        .nodes(&["a", "b"])
        .link("a", "b", &format!("rate=50mbit delay=20ms {link}"))
        .flow("a", "b", keys)
        .to_string()
}

#[test]
fn flows_without_a_form_say_why() {
    for (link, keys, why) in [
        ("", "cc=lh_fast", "follows the queue's delay"),
        ("", "cc=lh_libra", "capacity"),
        ("loss=0.1%", "cc=lh_htcp", "depends on how its throughput moved"),
        ("loss=20%", "cc=bbr", "its estimate of the rate suffers"),
        ("loss=50%", "cc=cubic", "many losses end in timeouts"),
        ("loss=3%", "cc=reno", "many losses end in timeouts"),
        ("discipline=codel", "cc=reno", "use a taildrop queue"),
        ("loss={gilbert_elliott={p=\"1%\",r=\"10%\"}}", "cc=reno", "in bursts"),
    ] {
        let text = path(link, keys);
        let found = flow(&text);
        assert!(
            found.outcome.starts_with("no prediction: ") && found.outcome.contains(why),
            "{}",
            found.outcome
        );
        assert_eq!((found.goodput_bps, found.seconds, found.bytes), (None, None, 0), "{text}");
        assert_eq!(RunVerdict::of(true, [&found]), RunVerdict::Unpredicted);
    }
}

/// The others' share of the link is not known either; of a whole run there is then no metric.
#[test]
fn flows_beside_one_without_a_form_have_none() {
    let text = path("", "name=known cc=reno")
        + "[[flow]]\nname = \"other\"\nfrom = \"a\"\nto = \"b\"\ncc = \"lh_fast\"\n";
    let found = summary(&text);
    assert!(
        found.flows[0].outcome.contains("shares a link with flow other"),
        "{}",
        found.flows[0].outcome
    );
    assert_eq!(found.metrics.goodput_bps, None);
    let mixed = path("", "name=known cc=reno")
        + "[[flow]]\nname = \"other\"\nfrom = \"a\"\nto = \"b\"\ncc = \"bbr\"\n";
    let found = summary(&mixed);
    assert!(found.flows.iter().all(|flow| flow.outcome.contains("BBR")), "{:?}", found.flows);
}

#[test]
fn predictions_beside_measurements_are_of_one_flow() {
    let one = path("loss=0.1%", "cc=reno");
    let predicted = longhaul_model::predicted(&run(&one)).unwrap();
    assert_eq!(Some(predicted.source), flow(&one).prediction.map(|prediction| prediction.source));
    assert_eq!(longhaul_model::predicted(&run(&path("", "cc=lh_fast"))), None);
    let changing = path("", "cc=reno")
        + "[[traffic]]\nkind = \"cbr\"\nfrom = \"a\"\nto = \"b\"\nrate = \"1mbit\"\n";
    assert_eq!(longhaul_model::predicted(&run(&changing)), None);
}
