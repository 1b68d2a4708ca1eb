// SPDX-License-Identifier: GPL-2.0-or-later
//! Whatever is thrown at the parser, it answers: a scenario or problems, never a panic, and not
//! after a long time.

#![allow(clippy::format_collect, reason = "short texts, built once")]

use longhaul_scenario::Scenario;
use proptest::prelude::*;

const GOOD: &str = include_str!("refused/good.toml");

/// Pieces that mean something somewhere.
const PIECES: [&str; 35] = [
    "count = 3",
    "discipline = { kind = \"red\", min = \"9e99bdp\", max = \"18446744073709551615p\" }",
    "discipline = { kind = \"pie\", target = \"18446744073709551615ns\", alpha = 1e-308 }",
    "discipline = { kind = \"fq_codel\", flows = 65536, quantum = 65535 }",
    "\"red\"",
    "{ kind = \"codel\", interval = \"1ns\", target = \"0ns\" }",
    "name = \"n#\"",
    "\"#\"",
    "[[traffic]]",
    "[[background]]",
    "[tcp]",
    "jitter = \"18446744073709551615ns\"",
    "\"10%\"",
    "0",
    "-1",
    "1e400",
    "\"\"",
    "[]",
    "{}",
    "true",
    "1979-05-27",
    "\"${rtt}\"",
    "\"${\"",
    "\"1bdp\"",
    "\"0 / 0\"",
    "[[link]]",
    "[sweep]",
    "[vars]",
    "name = \"client\"",
    "\"9e999bdp\"",
    "=",
    "\"ü\"",
    "18446744073709551615",
    "[[[]]]",
    "\"18446744073709551615s\"",
];

fn check(text: &str, overrides: &[String]) {
    if let Err(e) = Scenario::parse(text, "x.toml", overrides) {
        assert!(!e.problems().is_empty());
        assert!(!e.to_string().is_empty());
    }
}

/// GOOD with some lines dropped, doubled, or given another value.
fn mutated() -> impl Strategy<Value = String> {
    let lines = GOOD.lines().count();
    let edit = (0..lines, 0..4_u8, prop::sample::select(&PIECES[..]));
    prop::collection::vec(edit, 1..6).prop_map(|edits| {
        let mut lines: Vec<String> = GOOD.lines().map(str::to_owned).collect();
        for (at, how, piece) in edits {
            let line = lines[at].clone();
            lines[at] = match how {
                0 => String::new(),
                1 => format!("{line}\n{line}"),
                2 => format!("{} = {piece}", line.split('=').next().unwrap_or_default()),
                _ => format!("{line}\n{piece}"),
            };
        }
        lines.join("\n")
    })
}

proptest! {
    #[test]
    fn any_text(text in any::<String>()) {
        check(&text, &[]);
    }

    #[test]
    fn any_change_of_a_good_scenario(text in mutated()) {
        check(&text, &[]);
    }

    #[test]
    fn any_override(
        key in prop::sample::select(&[
            "vars.rtt", "node.client.cc", "node.client", "node.depot.sysctl", "link.client-depot.rate",
            "link.client-depot.loss", "link.client-depot.loss.uniform", "link.client-depot.forward",
            "link.depot-server.between", "link.depot-server.name", "link.client-depot.forward.x.y.z",
            "flow.transfer.via", "flow.transfer.cc", "flow.transfer.name",
            "flow.transfer.count", "flow.transfer.jitter", "link.client-depot.mark", "link.client-depot.discipline",
            "link.client-depot.discipline.kind", "link.client-depot.backward.discipline", "traffic.traffic2.load",
            "traffic.traffic2.kind", "traffic.bursts#.on", "background.background1.mix.web", "tcp", "tcp.rcvbuf",
            "background.background1.from", "congestion.lh_htcp.parameters.x", "duration", "sweep", "sweep.", "sweep.vars.rtt",
            "sweep.seed", "repeat", "title", "family", "vars", "vars.", "node..", ".", "",
        ][..]),
        value in prop_oneof![
            prop::sample::select(&PIECES[..]).prop_map(str::to_owned),
            prop::sample::select(&PIECES[..]).prop_map(|p| format!("[{p}, {p}]")),
            any::<String>(),
        ],
    ) {
        check(GOOD, &[format!("{key}={value}")]);
    }
}

#[test]
fn variables_that_double_do_not_fill_the_memory() {
    let vars: String =
        (1..20).map(|n| format!("v{n} = \"${{v{}}}${{v{}}}\"\n", n - 1, n - 1)).collect();
    let text = format!(
        "title = \"t\"\n[vars]\nv0 = \"0123456789\"\n{vars}[[node]]\nname = \"n\"\ncc = \"${{v19}}\"\n"
    );
    let error = Scenario::parse(&text, "x.toml", &[""; 0]).unwrap_err().to_string();
    assert_eq!(error, "x.toml:12: this grows beyond 4096 characters");
}

#[test]
fn a_long_chain_of_variables_does_not_fill_the_stack() {
    let vars: String = (1..20_000).map(|n| format!("v{n} = \"${{v{}}}\"\n", n - 1)).collect();
    let text = format!(
        "title = \"t\"\n[vars]\nv0 = \"1\"\n{vars}[[node]]\nname = \"n\"\ncc = \"${{v19999}}\"\n"
    );
    let error = Scenario::parse(&text, "x.toml", &[""; 0]).unwrap_err().to_string();
    assert_eq!(error, "x.toml:19970: more than 32 variables use each other in turn");
}

#[test]
fn a_network_too_large_to_route_is_refused() {
    let nodes: String = (0..1025).map(|n| format!("[[node]]\nname = \"n{n}\"\n")).collect();
    let error =
        Scenario::parse(&format!("title = \"t\"\n{nodes}"), "x.toml", &[""; 0]).unwrap_err();
    let expected = "x.toml: more than 1024 of [[node]], every \"count\" included";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn multiplying_counts_are_refused_before_allocation() {
    let flow = "[[flow]]\nfrom = \"n\"\nto = \"m\"\nbytes = 1\ncount = 1000\n";
    let text = format!("title = \"t\"\n[[node]]\nname = \"n\"\n{}", flow.repeat(20_000));
    let error = Scenario::parse(&text, "x.toml", &[""; 0]).unwrap_err().to_string();
    assert_eq!(error, "x.toml: more than 4096 of [[flow]], every \"count\" included");
}

#[test]
fn a_sweep_too_large_to_expand_is_refused_at_once() {
    let values = (0..100).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let nodes: String = (0..20).map(|n| format!("[[node]]\nname = \"n{n}\"\n")).collect();
    let axes: String = (0..20).map(|n| format!("\"node.n{n}.cc\" = [{values}]\n")).collect();
    let text = format!("title = \"t\"\n{nodes}[sweep]\n{axes}");
    let error = Scenario::parse(&text, "x.toml", &[""; 0]).unwrap_err().to_string();
    assert_eq!(
        error,
        "x.toml: this makes more than 18446744073709551615 runs (variants x sweep x repeats); 10000 is the maximum"
    );
}

#[test]
fn problems_are_counted_out() {
    let values: String = (0..1000).map(|n| format!("\"bad{n}\",")).collect();
    let text = format!(
        "title = \"t\"\n[[node]]\nname = \"n\"\n[sweep]\n\"node.n.tcp_rmem_max\" = [{values}]\n"
    );
    let error = Scenario::parse(&text, "x.toml", &[""; 0]).unwrap_err();
    assert_eq!(error.problems().len(), 50);
}

#[test]
fn a_file_that_is_not_there_is_a_problem_too() {
    let path = std::path::Path::new("/nonexistent/scenario.toml");
    let error = longhaul_scenario::load(path, &[""; 0]).unwrap_err().to_string();
    assert!(error.starts_with("/nonexistent/scenario.toml: it can't be read: "), "{error}");
}
