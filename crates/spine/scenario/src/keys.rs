// SPDX-License-Identifier: GPL-2.0-or-later
//! Keys of variants, sweeps and `--set`: `vars.rtt`, `node.client.cc`, `link.a-b.forward.rate`,
//! `flow.transfer.via`, `tcp.profile`, `pacing.max_rate`, `timeout`.

use crate::document::{Data, Table, Value};
use units::suggest::hint;

/// Top-level keys that a variant or a sweep may set.
pub(crate) const RUN_KEYS: [&str; 5] = ["duration", "family", "sample", "seed", "timeout"];
/// Top-level keys that are the same for all runs; only `--set` sets them.
pub(crate) const SCENARIO_KEYS: [&str; 5] = ["baseline", "repeat", "source", "title", "vary"];
/// Kinds of things that are addressed by name.
const KINDS: [&str; 8] =
    ["node", "link", "flow", "traffic", "background", "congestion", "bottleneck", "event"];
/// Tables of which there is one.
const SINGLE: [&str; 2] = ["tcp", "pacing"];

/// A key and the value to give it.
#[derive(Debug, Clone)]
pub(crate) struct Assignment {
    pub key: String,
    pub value: Value,
}

/// The assignments of a `set`, `at` or `[sweep]` table.
///
/// `"vars.rtt" = ...` and `vars.rtt = ...` are different TOML and the same assignment: tables are
/// opened until the key is complete. The rest is a value (`"link.a-b.loss" = { ... }`).
pub(crate) fn assignments(table: &Table) -> Vec<Assignment> {
    let mut found = Vec::new();
    collect(table, "", &mut found);
    found
}

fn collect(table: &Table, prefix: &str, found: &mut Vec<Assignment>) {
    for entry in table.entries() {
        let key = format!("{prefix}{}", entry.key);
        match entry.value.as_table() {
            Some(inner) if !is_complete(&key) => collect(inner, &format!("{key}."), found),
            _ => found.push(Assignment { key, value: entry.value.clone() }),
        }
    }
}

fn is_complete(key: &str) -> bool {
    let parts = key.split('.').count();
    match key.split('.').next() {
        Some("vars") => parts >= 2,
        Some(kind) if SINGLE.contains(&kind) => parts >= 2,
        Some(kind) if KINDS.contains(&kind) => parts >= 3,
        _ => true,
    }
}

/// Gives everything that may go without a name and does its default one, so that keys find it.
pub(crate) fn name_all(root: &mut Table) {
    let name_of = |kind: &str, at: usize, table: &Table| match kind {
        "flow" | "traffic" if table.get("count").is_some() => Some(format!("{kind}{}-#", at + 1)),
        "flow" | "traffic" | "background" => Some(format!("{kind}{}", at + 1)),
        "link" => match &table.get("between")?.data {
            Data::List(ends) if ends.len() == 2 => {
                Some(format!("{}-{}", ends[0].as_text()?, ends[1].as_text()?))
            }
            _ => None,
        },
        _ => None,
    };
    for kind in KINDS {
        let Some(Data::List(items)) = root.get_mut(kind).map(|v| &mut v.data) else { continue };
        for (at, item) in items.iter_mut().enumerate() {
            let Data::Table(table) = &mut item.data else { continue };
            if table.get("name").is_none()
                && let Some(name) = name_of(kind, at, table)
            {
                table.set("name", Value::new(item.location.clone(), Data::Text(name)));
            }
        }
    }
}

/// Gives a key a value. The error says what about the key is wrong.
///
/// The last part of the key may be new (a node need not have had a `cc`): whether it is a key at
/// all shows when the tree is read.
pub(crate) fn assign(root: &mut Table, key: &str, value: &Value) -> Result<(), String> {
    let (first, rest) = key.split_once('.').map_or((key, None), |(f, r)| (f, Some(r)));
    match rest {
        Some(name) if first == "vars" => assign_var(root, key, name, value),
        Some(_) if SINGLE.contains(&first) => descend(root, key, key, value),
        Some(rest) if KINDS.contains(&first) => {
            let (name, inner) = rest.split_once('.').ok_or_else(|| {
                format!("\"{key}\" names a {first} but none of its keys, as in {first}.NAME.KEY")
            })?;
            let table = find(root, first, name)
                .map_err(|hint| format!("\"{key}\": there is no {first} \"{name}\"{hint}"))?;
            descend(table, inner, key, value)
        }
        None if RUN_KEYS.contains(&first) || SCENARIO_KEYS.contains(&first) => {
            root.set(first, value.clone());
            Ok(())
        }
        _ => {
            let named: Vec<String> = KINDS.iter().map(|kind| format!("{kind}.NAME.KEY")).collect();
            let known = ["vars.NAME", "tcp.KEY", "pacing.KEY"].into_iter();
            let known = known.chain(named.iter().map(String::as_str));
            let hint = hint(key, known.chain(RUN_KEYS).chain(SCENARIO_KEYS));
            Err(format!("\"{key}\" is not a key that can be set{hint}"))
        }
    }
}

fn assign_var(root: &mut Table, key: &str, name: &str, value: &Value) -> Result<(), String> {
    let Some(Data::Table(vars)) = root.get_mut("vars").map(|v| &mut v.data) else {
        return Err(format!("\"{key}\": there is no [vars]"));
    };
    // Only a declared variable: a mistyped one would change nothing unnoticed.
    if vars.get(name).is_none() {
        let hint = hint(name, vars.entries().map(|e| e.key.as_str()));
        return Err(format!("\"{key}\": there is no \"{name}\" in [vars]{hint}"));
    }
    vars.set(name, value.clone());
    Ok(())
}

fn find<'t>(root: &'t mut Table, kind: &str, name: &str) -> Result<&'t mut Table, String> {
    let named = |t: &Table| t.get("name").and_then(Value::as_text) == Some(name);
    let names = root.sections(kind).filter_map(|(_, t)| t.get("name")?.as_text());
    let hint = hint(name, names);
    match root.get_mut(kind).map(|v| &mut v.data) {
        Some(Data::List(items)) => items
            .iter_mut()
            .filter_map(|v| if let Data::Table(t) = &mut v.data { Some(t) } else { None })
            .find(|t| named(t))
            .ok_or(hint),
        _ => Err(hint),
    }
}

fn descend(table: &mut Table, inner: &str, key: &str, value: &Value) -> Result<(), String> {
    let Some((part, rest)) = inner.split_once('.') else {
        table.set(inner, value.clone());
        return Ok(());
    };
    if table.get(part).is_none() {
        table.set(part, Value::new(value.location.clone(), Data::Table(Table::default())));
    }
    match table.get_mut(part).map(|v| &mut v.data) {
        Some(Data::Table(table)) => {
            // A sysctl's name has dots of its own.
            if part == "sysctl" {
                table.set(rest, value.clone());
                return Ok(());
            }
            descend(table, rest, key, value)
        }
        _ => Err(format!("\"{key}\": \"{part}\" is not a table there; set it as a whole")),
    }
}
