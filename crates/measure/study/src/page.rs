// SPDX-License-Identifier: GPL-2.0-or-later
//! The ledger as `docs/study/README.md`.

use crate::{Ledger, Outcome, Row};

const HEAD: &str = "\
# The papers' figures, reproduced

Every figure and table of the five papers: reproduced, different, or open. [readings.md](../readings.md) says how unclear passages were read.
This page is made of [ledger.toml](ledger.toml).

`longhaul reproduce` lists the rows, and `longhaul reproduce 001 6` runs one quickly and shows the paper's numbers beside ours.
`scripts/study NAME` runs `scenarios/NAME.toml` in full and writes `docs/study/NAME.txt` and its picture; `make study` runs all and resumes
after an interruption. Tables are medians; ours were measured on two cores of a virtual machine, Linux 6.18. Method: `emu` is the
kernel's TCP over the emulator, `sim` the simulator, `model` [closed forms](../model.md). Times are processor time.
";

const TAIL: &str = "\
`004-3000mb`, `004-parallel-streams` and FAST in paper 002 have not been repeated since the simulated TCP last changed
([validation](../validation/README.md)). Two repeated runs of paper 004 differed by less than 0.2 %.

## Congestion controls in the kernel
[kernel-controls.md](kernel-controls.md): their windows compared with response functions, and the cost of an acknowledgement.
";

pub fn page(ledger: &Ledger) -> String {
    let mut text = HEAD.to_owned();
    for paper in &ledger.papers {
        text += &format!(
            "\n## Paper {}: {}\n{}\n\n| figure or table | result | remarks | `scripts/study` | method, time |\n|---|---|---|---|---|\n",
            paper.name, paper.title, paper.text
        );
        for row in ledger.rows.iter().filter(|row| row.paper == paper.name) {
            text += &line(row);
        }
    }
    text + "\n" + TAIL
}

fn line(row: &Row) -> String {
    let mut files = Vec::new();
    if let Some(scenario) = row.scenario.as_ref().filter(|_| row.table) {
        files.push(format!("[table]({scenario}.txt)"));
    }
    if let (Some(scenario), Some(picture)) = (&row.scenario, &row.picture) {
        let kind = if picture == "png" { "page" } else { "picture" };
        files.push(format!("[{kind}]({scenario}.{picture})"));
    }
    let files = if files.is_empty() { String::new() } else { format!(" ({})", files.join(", ")) };
    let range = row.item.split_once('-').filter(|(from, _)| from.parse::<u32>().is_ok());
    let item = range.map_or_else(|| row.item.clone(), |(from, to)| format!("{from} to {to}"));
    let name =
        if item.eq_ignore_ascii_case(&row.title) { item } else { format!("{item}: {}", row.title) };
    let result = if row.result == Outcome::Drawing { "" } else { row.result.name() };
    let study = match (&row.study, &row.scenario) {
        (Some(study), _) => study.clone(),
        (None, Some(scenario)) if row.table => {
            let arguments = row.arguments.as_ref().map_or_else(String::new, |it| format!(" {it}"));
            format!("`{scenario}{arguments}`")
        }
        _ => String::new(),
    };
    let method: Vec<&str> = row.method.iter().chain(&row.time).map(String::as_str).collect();
    format!("| {name}{files} | {result} | {} | {study} | {} |\n", row.note, method.join(", "))
        .replace("|  |", "| |")
        .replace("|  |", "| |")
}
