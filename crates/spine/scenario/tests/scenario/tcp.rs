// SPDX-License-Identifier: GPL-2.0-or-later
//! `[tcp]`, `[[congestion]]`, and the ends of a run.

use longhaul_scenario::{Family, LossDetection, Profile, Queue, Recovery, Run, Scenario, Tcp};
use units::{Bytes, Duration};

fn runs(text: &str, overrides: &[&str]) -> Vec<Run> {
    let text = format!("title = \"t\"\n{text}");
    Scenario::parse(&text, "t.toml", overrides).unwrap_or_else(|e| panic!("{e}")).runs
}

const PAIR: &str = "[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n\
                    [[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1gbit\"\ndelay = \"10ms\"\n";

#[test]
fn a_profile_is_what_its_page_says() {
    let run = &runs(PAIR, &[])[0];
    assert_eq!(run.tcp, Tcp::of(Profile::Linux, Family::Ipv4));
    let linux = Tcp {
        profile: Profile::Linux,
        handshake: true,
        initial_window: 10,
        initial_ssthresh: None,
        hystart: true,
        loss_detection: LossDetection::Rack,
        tail_probe: true,
        recovery: Recovery::Prr,
        ack_every: 2,
        ack_delay: Duration::from_millis(40),
        ack_stretch: Duration::ZERO,
        min_rto: Duration::from_millis(200),
        autotuning: true,
        rcvbuf: "6MB".parse().unwrap(),
        sndbuf: "4MB".parse().unwrap(),
        pacing: false,
        ecn: false,
        header: 52,
    };
    assert_eq!(run.tcp, linux);
    let ns2 = Tcp {
        profile: Profile::Ns2,
        handshake: false,
        initial_window: 2,
        initial_ssthresh: None,
        hystart: false,
        loss_detection: LossDetection::Dupack,
        tail_probe: false,
        recovery: Recovery::Halving,
        ack_every: 1,
        ack_delay: Duration::ZERO,
        autotuning: false,
        rcvbuf: "1TB".parse().unwrap(),
        sndbuf: "1TB".parse().unwrap(),
        header: 40,
        ..linux
    };
    assert_eq!(runs(PAIR, &["tcp.profile=ns2"])[0].tcp, ns2);
    assert_eq!(runs(PAIR, &["family=ipv6"])[0].tcp.header, 72);
}

#[test]
fn keys_stay_where_a_way_changes_the_profile() {
    let text = format!(
        "{PAIR}[vars]\npaced = \"false\"\n[tcp]\ninitial_window = 3\npacing = \"${{paced}}\"\n\
         [[variant]]\nname = \"linux\"\n[[variant]]\nname = \"ns2\"\nset = {{ tcp.profile = \"ns2\" }}\n\
         [sweep]\n\"tcp.ecn\" = [true, false]\n"
    );
    let runs = runs(&text, &["vars.paced=true", "tcp.ack_every=7"]);
    let found: Vec<_> = runs.iter().map(|r| (r.tcp.profile, r.tcp.ecn)).collect();
    let (linux, ns2) = (Profile::Linux, Profile::Ns2);
    assert_eq!(found, [(linux, true), (ns2, true), (linux, false), (ns2, false)]);
    for run in &runs {
        assert_eq!((run.tcp.initial_window, run.tcp.ack_every, run.tcp.pacing), (3, 7, true));
    }
    assert_eq!(runs[0].id, "linux,ecn=true,r01");
}

#[test]
fn congestion_controls_have_sets_and_parameters() {
    let text =
        format!("{PAIR}[[congestion]]\nname = \"lh_htcp\"\n[[congestion]]\nname = \"lh_bic\"\n");
    let overrides = ["congestion.lh_htcp.set=paper", "congestion.lh_bic.parameters.smax=16"];
    let [htcp, bic] = &runs(&text, &overrides)[0].congestion[..] else { panic!() };
    assert_eq!((htcp.name.as_str(), htcp.set.as_deref()), ("lh_htcp", Some("paper")));
    assert!(htcp.parameters.is_empty());
    assert_eq!((bic.name.as_str(), bic.set.as_deref()), ("lh_bic", None));
    assert_eq!(bic.parameters.iter().collect::<Vec<_>>(), [(&"smax".to_owned(), &16)]);
}

#[test]
fn a_run_ends_by_its_flows_or_its_duration() {
    let flow = "[[flow]]\nfrom = \"a\"\nto = \"b\"\n";
    let text = format!("{PAIR}{flow}");
    let run = &runs(&text, &["duration=2.5s", "sample=10ms", "flow.flow1.streams=8"])[0];
    assert_eq!(run.duration, Some(Duration::from_millis(2500)));
    assert_eq!(run.sample, Duration::from_millis(10));
    assert_eq!((run.flows[0].bytes, run.flows[0].streams), (None, 8));
    let json = serde_json::to_value(run).unwrap();
    assert_eq!(json["duration_s"], 2.5);
    assert_eq!(json["sample_us"], 10_000);
    assert_eq!(serde_json::from_value::<Run>(json).unwrap(), *run);
    let run = &runs(&text, &["flow.flow1.bytes=1MB"])[0];
    assert_eq!((run.duration, run.sample), (None, Duration::from_millis(100)));
    assert_eq!(run.flows[0].client, None);
}

#[test]
fn marks_are_sized_as_queues_but_may_be_as_short_as_a_packet() {
    let marks = |overrides: &[&str]| {
        let link = runs(PAIR, overrides).remove(0).links.remove(0);
        (link.forward.mark, link.backward.mark)
    };
    let bytes = |n| Some(Queue::Bytes(Bytes::new(n)));
    assert_eq!(marks(&[]), (None, None));
    // 1 Gb/s x 20 ms = 2.5 MB.
    assert_eq!(marks(&["link.a-b.mark=0.5bdp"]), (bytes(1_250_000), bytes(1_250_000)));
    assert_eq!(marks(&["link.a-b.mark=0.0001bdp"]).0, bytes(1514));
    assert_eq!(
        marks(&["link.a-b.mark=65p", "link.a-b.backward.mark=30KB"]),
        (Some(Queue::Packets(65)), bytes(30 << 10))
    );
    let run = runs(PAIR, &["link.a-b.mark=65p"]).remove(0);
    let json = serde_json::to_value(&run).unwrap();
    let forward = &json["links"][0]["forward"];
    assert_eq!(
        (&forward["mark_packets"], &forward["queue_bytes"]),
        (&65.into(), &2_500_000.into())
    );
    assert_eq!(serde_json::from_value::<Run>(json).unwrap(), run);
}
