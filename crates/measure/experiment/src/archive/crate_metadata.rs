// SPDX-License-Identifier: GPL-2.0-or-later
//! `ro-crate-metadata.json`: what an archive holds, and how it was made.

use super::{Description, METADATA, RECORDS, SCENARIO};
use crate::error::ExperimentError;
use record::Manifest;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    time::SystemTime,
};
use units::text::hexadecimal;

const RO_CRATE: &str = "https://w3id.org/ro/crate/1.1";
const PROFILE: &str = "https://w3id.org/ro/wfrun/process/0.5";
const SITE: &str = "https://schema.org/";

/// The document for records in these folders.
pub fn of(
    records: &[(PathBuf, Manifest)],
    has_scenario: bool,
    description: &Description,
) -> Result<String, ExperimentError> {
    let title = records.first().map_or("", |(_, manifest)| &manifest.title);
    let programs = programs(records, description)?;
    let mut parts: Vec<Value> = Vec::new();
    let mut entities: Vec<Value> = Vec::new();
    if has_scenario {
        parts.push(reference(SCENARIO));
        entities.push(json!({
            "@id": SCENARIO, "@type": "File", "name": "The scenario as it was written", "encodingFormat": "application/toml",
        }));
    }
    let mut actions = Vec::new();
    for (folder, manifest) in records {
        let id = format!("{RECORDS}/{}/", encoded(folder));
        parts.push(reference(&id));
        entities.push(json!({
            "@id": id, "@type": "Dataset", "name": format!("Record of the run {}", manifest.id),
            "description": "manifest.json, summary.json, and series as Parquet",
        }));
        let action = format!("#run/{}", encoded(folder));
        actions.push(reference(&action));
        entities.push(action_of(&action, &id, manifest, has_scenario));
    }
    entities.extend(programs);
    let license = description.license.as_deref();
    let license = match license {
        Some(address) if address.starts_with("https://") => reference(address),
        Some(text) => json!(text),
        None => json!("No licence is given. Ask those who made the records."),
    };
    let mut graph = vec![
        json!({
            "@id": METADATA, "@type": "CreativeWork", "conformsTo": {"@id": RO_CRATE}, "about": {"@id": "./"},
        }),
        json!({
            "@id": "./", "@type": "Dataset", "conformsTo": {"@id": PROFILE}, "name": title,
            "description": format!("{} runs of the scenario \"{title}\" by longhaul: {}", records.len(), methods(records)),
            "datePublished": humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            "license": license, "hasPart": parts, "mentions": actions,
        }),
        json!({"@id": PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"}),
    ];
    graph.extend(entities);
    let document = json!({"@context": format!("{RO_CRATE}/context"), "@graph": graph});
    let text = serde_json::to_string_pretty(&document).expect("it is plain data");
    Ok(text + "\n")
}

fn reference(id: &str) -> Value {
    json!({ "@id": id })
}

/// A path as part of an address.
fn encoded(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/,=+@:".contains(&byte);
    let of =
        |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(of).collect()
}

fn methods(records: &[(PathBuf, Manifest)]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, manifest) in records {
        *counts.entry(&manifest.method).or_default() += 1;
    }
    let texts: Vec<String> =
        counts.iter().map(|(method, count)| format!("{count} by the method {method}")).collect();
    texts.join(", ")
}

/// The run as an action of the program.
fn action_of(id: &str, result: &str, manifest: &Manifest, has_scenario: bool) -> Value {
    let machine = manifest.machine.as_ref().map_or_else(String::new, |machine| {
        let gb = machine.memory_bytes as f64 / 1e9;
        format!(
            ", on Linux {}, {}, {} cores, {gb:.1} GB",
            machine.kernel, machine.cpu, machine.cores
        )
    });
    let status = if manifest.valid { "CompletedActionStatus" } else { "FailedActionStatus" };
    let mut action = json!({
        "@id": id, "@type": "CreateAction", "name": manifest.id,
        "description": format!("By the method {}{machine}", manifest.method),
        "startTime": manifest.started, "instrument": reference(&program_id(manifest)),
        "result": [reference(result)], "actionStatus": reference(&format!("{SITE}{status}")),
    });
    if has_scenario {
        action["object"] = json!([reference(SCENARIO)]);
    }
    if !manifest.valid {
        action["error"] = json!(manifest.invalid_reasons.join("; "));
    }
    action
}

fn program_id(manifest: &Manifest) -> String {
    format!("#longhaul-{}", manifest.sources.as_deref().unwrap_or("unknown"))
}

/// The programs that made the records: longhaul by each hash of its sources.
fn programs(
    records: &[(PathBuf, Manifest)],
    description: &Description,
) -> Result<Vec<Value>, ExperimentError> {
    let mut programs: BTreeMap<String, Value> = BTreeMap::new();
    for (_, manifest) in records {
        let id = program_id(manifest);
        if programs.contains_key(&id) {
            continue;
        }
        let versions: Vec<String> = manifest
            .versions
            .iter()
            .filter(|(name, _)| *name != "longhaul")
            .map(|(name, version)| format!("{name}: {version}"))
            .collect();
        let mut program = json!({
            "@id": id, "@type": "SoftwareApplication", "name": "longhaul",
            "softwareVersion": manifest.versions.get("longhaul"),
            "description": format!("Sources with the SHA-256 {}. {}", manifest.sources.as_deref().unwrap_or("unknown"), versions.join("; ")),
        });
        let is_own = |_: &&PathBuf| {
            manifest.sources.as_ref().is_some_and(|it| description.sources.contains(it))
        };
        if let Some(file) = description.program.as_ref().filter(is_own) {
            program["identifier"] = json!(format!("sha256:{}", sha256(file)?));
        }
        programs.insert(id, program);
    }
    Ok(programs.into_values().collect())
}

fn sha256(file: &Path) -> Result<String, ExperimentError> {
    let failed = |e| ExperimentError::file("read", file, e);
    let (mut hash, mut block) = (Sha256::new(), vec![0; 1 << 20]);
    let mut file = File::open(file).map_err(failed)?;
    loop {
        match file.read(&mut block).map_err(failed)? {
            0 => break,
            length => hash.update(&block[..length]),
        }
    }
    Ok(hexadecimal(&hash.finalize()))
}
