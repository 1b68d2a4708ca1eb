// SPDX-License-Identifier: GPL-2.0-or-later
//! What the rules find, in order of what its remedy gains.
//!
//! 1. A finding's gain is the predicted rate with it alone fixed, less the rate now.
//! 2. Those that gain something by themselves come first, by their gain.
//! 3. Then those that others hide, by their gain once the ones above are fixed. Where only several together gain
//!    something, the one that holds most comes first.
//! 4. A modelled finding that gains nothing then either is left out: it does not keep a transfer below the target.
//! 5. Findings without a prediction follow, those of every transfer before those of some.

use crate::{
    Target,
    change::Change,
    facts::Facts,
    finding::{Direction, Finding, Gain},
    limits::predict,
    rules,
    sharing::{Shared, both_at_once},
};
use serde::Serialize;
use units::Rate;

/// Gains below this share of the target are none; of what all remedies together reach, where that is less.
const LEAST_GAIN: f64 = 0.01;

/// On which other remedies a predicted gain depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Needs {
    /// On none.
    Nothing,
    /// On those above.
    ThoseAbove,
    /// On those below too: it holds the same as they do.
    ThoseBelow,
}

/// A prediction for a remedy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Predicted {
    /// Of a transfer in this direction.
    pub direction: Direction,
    /// The rate before.
    pub now: Rate,
    /// The rate after.
    pub after: Rate,
    /// What it depends on.
    pub needs: Needs,
}

impl Predicted {
    /// What the remedy gains, in bit/s.
    pub fn gain_bps(&self) -> u64 {
        self.after.bps().saturating_sub(self.now.bps())
    }
}

/// A finding in its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranked {
    /// The finding.
    pub finding: Finding,
    /// What its remedy gains, or why that is not known.
    pub predicted: Result<Predicted, String>,
    /// The changes that take its remedy's back; none where the value from before is not known.
    pub undo: Option<Vec<Change>>,
}

/// All that keeps transfers below the target.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnosis {
    /// The target.
    pub target: Target,
    /// The rate of a transfer that this host receives, or why no form is for it.
    pub receive: Result<Rate, String>,
    /// The rate of one that it sends.
    pub send: Result<Rate, String>,
    /// Transfers in both directions at once, where the target's rates differ.
    pub both: Option<Result<Shared, String>>,
    /// What was found, in order.
    pub findings: Vec<Ranked>,
}

/// Judges facts against a target.
pub fn diagnose(facts: &Facts, target: &Target) -> Diagnosis {
    let found = rules::find(facts, target);
    let (modelled, others): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|finding| finding.gain == Gain::Modelled);
    let reached = modelled.iter().fold(facts.clone(), |facts, finding| finding.fixed(&facts));
    let mut findings = Ranking { facts, target, reached }.of(modelled);
    let mut others: Vec<Ranked> =
        others.into_iter().map(|finding| ranked(facts, finding)).collect();
    others.sort_by_key(|ranked| ranked.finding.scope);
    findings.extend(others);
    Diagnosis {
        target: *target,
        receive: predict(facts, target, Direction::Receive),
        send: predict(facts, target, Direction::Send),
        both: (target.rate != target.send_rate).then(|| both_at_once(facts, target)),
        findings,
    }
}

fn ranked(facts: &Facts, finding: Finding) -> Ranked {
    let reason = match finding.gain {
        Gain::NoForm(reason) => reason,
        Gain::Modelled => "no closed form is for this host's congestion control",
    };
    let undo = finding.changes().iter().rev().map(|change| change.inverse(facts)).collect();
    Ranked { predicted: Err(reason.to_owned()), undo, finding }
}

struct Ranking<'f> {
    facts: &'f Facts,
    target: &'f Target,
    /// With all remedies.
    reached: Facts,
}

impl Ranking<'_> {
    fn of(&self, findings: Vec<Finding>) -> Vec<Ranked> {
        let (mut ranked_ones, mut state) = (Vec::new(), self.facts.clone());
        let alone = |finding: &Finding| self.gain(self.facts, finding, Needs::Nothing);
        let (mut alone_ones, mut hidden): (Vec<_>, Vec<_>) = findings
            .into_iter()
            .map(|finding| (alone(&finding), finding))
            .partition(|(gain, _)| gain.is_some());
        alone_ones.sort_by_key(|(gain, _)| std::cmp::Reverse(gain.map_or(0, |it| it.gain_bps())));
        for (predicted, finding) in alone_ones {
            state = finding.fixed(&state);
            ranked_ones.push(self.placed(finding, predicted));
        }
        while let Some((at, predicted)) = self.next(&state, &hidden) {
            let (_, finding) = hidden.remove(at);
            state = finding.fixed(&state);
            ranked_ones.push(self.placed(finding, Some(predicted)));
        }
        ranked_ones
    }

    fn placed(&self, finding: Finding, predicted: Option<Predicted>) -> Ranked {
        let without = ranked(self.facts, finding);
        Ranked { predicted: predicted.ok_or(()).or(without.predicted), ..without }
    }

    /// The next of the hidden ones, and its prediction.
    fn next(
        &self,
        state: &Facts,
        hidden: &[(Option<Predicted>, Finding)],
    ) -> Option<(usize, Predicted)> {
        let gains = hidden.iter().enumerate().filter_map(|(at, (_, finding))| {
            Some((at, self.gain(state, finding, Needs::ThoseAbove)?))
        });
        if let Some(best) = gains.max_by_key(|(_, gain)| gain.gain_bps()) {
            return Some(best);
        }
        // Several hold the same: all of them together.
        let without = |left_out: Option<usize>| {
            let kept = hidden.iter().enumerate().filter(|(at, _)| Some(*at) != left_out);
            kept.fold(state.clone(), |facts, (_, (_, finding))| finding.fixed(&facts))
        };
        let all = self.better(state, &without(None), Direction::Both, Needs::ThoseBelow)?;
        let left = |at: &usize| {
            let rate = predict(&without(Some(*at)), self.target, all.direction);
            rate.map_or(u64::MAX, Rate::bps)
        };
        let at = (0..hidden.len()).min_by_key(left)?;
        Some((at, all))
    }

    /// What a remedy gains from there.
    fn gain(&self, from: &Facts, finding: &Finding, needs: Needs) -> Option<Predicted> {
        self.better(from, &finding.fixed(from), finding.direction, needs)
    }

    /// The larger gain of both directions, if it is one.
    fn better(
        &self,
        from: &Facts,
        to: &Facts,
        direction: Direction,
        needs: Needs,
    ) -> Option<Predicted> {
        let of = |direction: &Direction| {
            let now = predict(from, self.target, *direction).ok()?;
            let after = predict(to, self.target, *direction).ok()?;
            Some(Predicted { direction: *direction, now, after, needs })
        };
        let least = |direction: Direction| {
            let target = self.target.rate_of(direction);
            let reached = predict(&self.reached, self.target, direction).unwrap_or(target);
            LEAST_GAIN * reached.min(target).bps() as f64
        };
        let counts = |it: &Predicted| it.gain_bps() as f64 >= least(it.direction);
        let gains = direction.each().iter().filter_map(of);
        gains.max_by_key(Predicted::gain_bps).filter(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::tests::{set, tuned};

    fn target() -> Target {
        "1gbit@90ms".parse().unwrap()
    }

    fn ids(facts: &Facts) -> Vec<&'static str> {
        diagnose(facts, &target()).findings.iter().map(|ranked| ranked.finding.id).collect()
    }

    #[test]
    fn tuned_host_has_no_finding() {
        let diagnosis = diagnose(&tuned(), &target());
        assert_eq!(diagnosis.findings, Vec::new());
        assert!(diagnosis.receive.unwrap().bps() > 600_000_000);
    }

    #[test]
    fn findings_are_in_order_of_their_gain() {
        let mut facts = tuned();
        set(&mut facts, "net.ipv4.tcp_rmem", "4096 131072 4194304");
        set(&mut facts, "net.ipv4.tcp_wmem", "4096 16384 1048576");
        set(&mut facts, "net.ipv4.tcp_sack", "0");
        set(&mut facts, "net.ipv4.tcp_ecn", "0");
        assert_eq!(ids(&facts), ["send-buffer", "receive-buffer", "sack", "ecn"]);
    }

    #[test]
    fn hidden_limit_comes_after_the_one_that_hides_it() {
        let mut facts = tuned();
        set(&mut facts, "net.ipv4.tcp_window_scaling", "0");
        set(&mut facts, "net.ipv4.tcp_rmem", "4096 131072 2097152");
        set(&mut facts, "net.ipv4.tcp_wmem", "4096 16384 2097152");
        let found = diagnose(&facts, &target()).findings;
        let needs: Vec<_> = found
            .iter()
            .map(|ranked| (ranked.finding.id, ranked.predicted.as_ref().unwrap().needs))
            .collect();
        assert_eq!(needs[0], ("window-scaling", Needs::Nothing));
        assert!(needs[1..].iter().all(|(_, needs)| *needs == Needs::ThoseAbove), "{needs:?}");
        assert_eq!(needs.len(), 3);
    }

    #[test]
    fn limits_that_hold_the_same_are_both_found() {
        let mut facts = tuned();
        set(&mut facts, "net.ipv4.tcp_rmem", "4096 131072 98304");
        facts.host.route = Some(crate::facts::Route {
            text: "default via 10.0.0.1 dev v0 window 65536".to_owned(),
        });
        let found = diagnose(&facts, &target()).findings;
        let needs: Vec<_> =
            found.iter().map(|ranked| ranked.predicted.as_ref().unwrap().needs).collect();
        assert_eq!(needs, [Needs::ThoseBelow, Needs::ThoseAbove]);
    }

    #[test]
    fn limit_above_the_target_is_silent() {
        let mut facts = tuned();
        set(&mut facts, "net.ipv4.tcp_window_scaling", "0");
        let near = Target { round_trip: units::Duration::from_micros(100), ..target() };
        assert_eq!(diagnose(&facts, &near).findings, Vec::new());
    }

    #[test]
    fn control_without_a_form_is_still_found() {
        let mut facts = tuned();
        set(&mut facts, "net.ipv4.tcp_congestion_control", "vegas");
        let found = diagnose(&facts, &target());
        assert_eq!(found.findings[0].finding.id, "congestion-control");
        assert!(found.findings[0].predicted.is_err() && found.send.is_err());
    }
}
