// SPDX-License-Identifier: GPL-2.0-or-later
//! A diagnosis as text and as a JSON document.

use crate::{
    Target,
    diagnosis::{Diagnosis, Needs, Ranked},
    facts::Facts,
    finding::{Direction, Remedy, Scope},
    sharing::Shared,
    via::Comparison,
};
use serde::Serialize;
use units::Rate;

/// The document of `--json`.
#[derive(Debug, Serialize)]
pub struct Document<'f> {
    target: Target,
    /// Mean rates of transfers of ten seconds; none where no form is for them.
    predicted_receive_bps: Option<u64>,
    predicted_send_bps: Option<u64>,
    /// Both at once, for a target with two rates.
    predicted_both: Option<Shared>,
    /// Directly and through depots, if some were named.
    via: Option<Comparison>,
    findings: Vec<FindingDocument>,
    facts: &'f Facts,
}

#[derive(Debug, Serialize)]
struct FindingDocument {
    rank: usize,
    id: &'static str,
    cause: String,
    evidence: String,
    scope: Scope,
    direction: Direction,
    /// The direction of the prediction.
    predicted_for: Option<Direction>,
    now_bps: Option<u64>,
    after_bps: Option<u64>,
    gain_bps: Option<u64>,
    needs: Option<Needs>,
    not_predicted_because: Option<String>,
    fix: Vec<String>,
    undo: Vec<String>,
    advice: Option<String>,
}

impl<'f> Document<'f> {
    /// Of a diagnosis and the facts that it is from.
    pub fn of(diagnosis: &Diagnosis, facts: &'f Facts) -> Self {
        let bps = |rate: &Result<Rate, String>| rate.as_ref().ok().map(|rate| rate.bps());
        let findings = diagnosis.findings.iter().enumerate();
        Self {
            target: diagnosis.target,
            predicted_receive_bps: bps(&diagnosis.receive),
            predicted_send_bps: bps(&diagnosis.send),
            predicted_both: diagnosis.both.as_ref().and_then(|both| both.as_ref().ok().copied()),
            via: None,
            findings: findings.map(|(n, ranked)| FindingDocument::of(n + 1, ranked)).collect(),
            facts,
        }
    }
}

impl Document<'_> {
    /// With a comparison of a file's time directly and through depots.
    #[must_use]
    pub fn with_via(self, via: Option<Comparison>) -> Self {
        Self { via, ..self }
    }
}

impl FindingDocument {
    fn of(rank: usize, ranked: &Ranked) -> Self {
        let finding = &ranked.finding;
        let predicted = ranked.predicted.as_ref().ok();
        Self {
            rank,
            id: finding.id,
            cause: finding.cause.clone(),
            evidence: finding.evidence.clone(),
            scope: finding.scope,
            direction: finding.direction,
            predicted_for: predicted.map(|it| it.direction),
            now_bps: predicted.map(|it| it.now.bps()),
            after_bps: predicted.map(|it| it.after.bps()),
            gain_bps: predicted.map(crate::diagnosis::Predicted::gain_bps),
            needs: predicted.map(|it| it.needs),
            not_predicted_because: ranked.predicted.as_ref().err().cloned(),
            fix: fix(ranked),
            undo: undo(ranked),
            advice: match &finding.remedy {
                Remedy::Advice(advice, _) => Some(advice.clone()),
                Remedy::Changes(_) => None,
            },
        }
    }
}

/// The commands of a remedy.
pub fn fix(ranked: &Ranked) -> Vec<String> {
    ranked.finding.changes().iter().map(crate::change::Change::command).collect()
}

/// The commands that take it back.
pub fn undo(ranked: &Ranked) -> Vec<String> {
    let undo = ranked.undo.iter().flatten();
    undo.map(crate::change::Change::command).collect()
}

/// The text for people.
pub fn text(diagnosis: &Diagnosis) -> String {
    let Target { rate, send_rate, round_trip, loss } = diagnosis.target;
    let rates = if rate == send_rate {
        rate.to_string()
    } else {
        format!("{rate} received, {send_rate} sent")
    };
    let mut text = format!("target: {rates} over {round_trip}, loss {loss}\n");
    for (what, predicted) in [("receives", &diagnosis.receive), ("sends", &diagnosis.send)] {
        text += &match predicted {
            Ok(rate) => format!("predicted for 10 s that this host {what}: {}\n", megabits(*rate)),
            Err(reason) => format!("no prediction for what this host {what}: {reason}\n"),
        };
    }
    text += &match &diagnosis.both {
        Some(Ok(both)) => in_both_directions(both),
        Some(Err(reason)) => format!("no prediction for both at once: {reason}\n"),
        None => String::new(),
    };
    if diagnosis.findings.is_empty() {
        return text + "\nnothing found that keeps a transfer below the target\n";
    }
    for (n, ranked) in diagnosis.findings.iter().enumerate() {
        text += &finding(n + 1, ranked);
    }
    text
}

fn in_both_directions(both: &Shared) -> String {
    let megabits = |bps| megabits(Rate::bits_per_second(bps));
    format!(
        "predicted for both at once: {} received, {} sent\n\
         acknowledgements take up to {} of what it sends, {} of what it receives\n",
        megabits(both.receive_bps),
        megabits(both.send_bps),
        megabits(both.acknowledgements_sent_bps),
        megabits(both.acknowledgements_received_bps)
    )
}

fn finding(rank: usize, ranked: &Ranked) -> String {
    let finding = &ranked.finding;
    let direction = match finding.direction {
        Direction::Send => "sending",
        Direction::Receive => "receiving",
        Direction::Both => "both directions",
    };
    let scope = if finding.scope == Scope::Sometimes { ", some transfers" } else { "" };
    let mut text = format!("\n{rank}. {} ({direction}{scope})\n   {}\n", finding.id, finding.cause);
    text += &format!("   evidence: {}\n", finding.evidence);
    text += &match &ranked.predicted {
        Ok(predicted) => format!(
            "   gain:     {} -> {} predicted{}\n",
            megabits(predicted.now),
            megabits(predicted.after),
            match predicted.needs {
                Needs::Nothing => "",
                Needs::ThoseAbove => ", after the ones above",
                Needs::ThoseBelow => ", together with those below",
            }
        ),
        Err(reason) => format!("   gain:     not predicted: {reason}\n"),
    };
    for command in fix(ranked) {
        text += &format!("   fix:      {command}\n");
    }
    for command in undo(ranked) {
        text += &format!("   undo:     {command}\n");
    }
    if let Remedy::Advice(advice, _) = &finding.remedy {
        text += &format!("   advice:   {advice}\n");
    }
    text
}

/// A rate in Mb/s.
pub fn megabits(rate: Rate) -> String {
    format!("{:.1} Mb/s", rate.bps() as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        diagnosis::diagnose,
        rules::tests::{set, tuned},
    };

    #[test]
    fn text_has_cause_evidence_gain_fix_and_undo() {
        let mut facts = tuned();
        set(&mut facts, "net.ipv4.tcp_rmem", "4096 131072 50331648");
        set(&mut facts, "net.ipv4.tcp_sack", "0");
        let diagnosis = diagnose(&facts, &"10gbit@90ms".parse().unwrap());
        let text = text(&diagnosis);
        for part in [
            "target: 10gbit over 90ms",
            "1. receive-buffer (receiving)",
            "was raised and is still too small: 32 MB of it are window",
            "the bandwidth-delay product is 107.3 MB",
            "fix:      sysctl -w net.ipv4.tcp_rmem=\"4096 131072 536870912\"",
            "undo:     sysctl -w net.ipv4.tcp_rmem=\"4096 131072 50331648\"",
            "sack (both directions)",
            "gain:     not predicted: no closed form",
        ] {
            assert!(text.contains(part), "{part} is missing:\n{text}");
        }
        let document = serde_json::to_value(Document::of(&diagnosis, &facts)).unwrap();
        let first = &document["findings"][0];
        assert_eq!((&first["rank"], &first["id"]), (&1.into(), &"receive-buffer".into()));
        let bps = |key: &str| first[key].as_u64().unwrap();
        assert_eq!(bps("gain_bps"), bps("after_bps") - bps("now_bps"));
        assert_eq!(document["target"]["rate_bps"], 10_000_000_000_u64);
        assert_eq!(document["facts"]["host"]["settings"]["net.ipv4.tcp_sack"], "0");
    }

    #[test]
    fn both_directions_are_told_where_rates_differ() {
        let diagnosis = diagnose(&tuned(), &"1gbit/100mbit@90ms".parse().unwrap());
        let text = text(&diagnosis);
        assert!(text.contains("target: 1gbit received, 100mbit sent over 90ms"), "{text}");
        assert!(text.contains("acknowledgements take up to 17.3 Mb/s of what it sends"), "{text}");
    }

    #[test]
    fn silence_is_said() {
        let diagnosis = diagnose(&tuned(), &"1gbit@90ms".parse().unwrap());
        assert!(
            text(&diagnosis).ends_with("nothing found that keeps a transfer below the target\n")
        );
    }
}
