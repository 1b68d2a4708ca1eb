// SPDX-License-Identifier: GPL-2.0-or-later
//! What limited a transfer, as a line, a table and a document.

use limits::{Blame, Flow};
use serde_json::{Value, json};
use std::fmt::Write;
use transfer::TransferLimits;

/// Smaller parts of the time are left out of lines.
const LEAST: f64 = 0.05;
/// The most parts in a line.
const MOST: usize = 3;

/// The machines of the chain, this one first.
fn machines(limits: &TransferLimits) -> Vec<&str> {
    let depots = limits.depots.iter().map(|depot| depot.depot.as_str());
    let far = match limits.depots.last() {
        Some(last) if last.next_is_depot => "next depot",
        Some(last) if last.flow == Flow::Up => "receiver",
        Some(_) => "origin",
        None => "server",
    };
    std::iter::once("this machine").chain(depots).chain([far]).collect()
}

/// A hop's name.
fn hop(machines: &[&str], hop: usize) -> String {
    match (hop.checked_sub(1).and_then(|near| machines.get(near)), machines.get(hop)) {
        (Some(near), Some(far)) => format!("hop {hop} ({near} - {far})"),
        (None, _) => "this machine".to_owned(),
        _ => format!("hop {hop}"),
    }
}

/// The largest parts of a time in words.
fn words(machines: &[&str], blames: &[Blame]) -> String {
    let large = blames.iter().filter(|blame| blame.share >= LEAST).take(MOST);
    let words = large.map(|Blame { hop: at, cause, share }| {
        format!("{}: {} {:.0} %", hop(machines, *at), cause.words(), share * 100.0)
    });
    words.collect::<Vec<_>>().join(", ")
}

/// One line. `None` if nothing is large enough.
pub fn line(limits: &TransferLimits) -> Option<String> {
    let text = words(&machines(limits), &limits.chain.total);
    (!text.is_empty()).then(|| format!("limited by: {text}"))
}

/// A table, one row for each second or more.
pub fn table(limits: &TransferLimits) -> String {
    let (machines, chain) = (machines(limits), &limits.chain);
    let mut text = format!("{:>7} {:>10}  limited by\n", "second", "Mbit/s");
    let rate = |bytes: u64, seconds: f64| bytes as f64 * 8.0 / 1e6 / seconds;
    let own = limits.own.rows();
    for (at, (row, blames)) in own.iter().zip(&chain.rows).enumerate() {
        let seconds = if at + 1 == own.len() { row.total_s() } else { chain.row_s };
        let _ = writeln!(
            text,
            "{:>7.0} {:>10.1}  {}",
            at as f64 * chain.row_s,
            rate(row.bytes, seconds.max(1e-3)),
            words(&machines, blames)
        );
    }
    let total = limits.own.total();
    let all = rate(total.bytes, total.total_s().max(1e-3));
    let _ = writeln!(text, "{:>7} {all:>10.1}  {}", "all", words(&machines, &chain.total));
    if let Some(first) = chain.total.first() {
        let _ = writeln!(
            text,
            "{} was to blame in {:.0} % of the time",
            hop(&machines, first.hop),
            chain.confidence * 100.0
        );
    }
    if let Some(remedy) = chain.remedy() {
        let _ = writeln!(
            text,
            "what helps: {}. At most {:.1} times as fast, until another cause shows",
            remedy.text, remedy.speedup_at_most
        );
    }
    text
}

/// A document.
pub fn document(limits: &TransferLimits) -> Value {
    let chain = &limits.chain;
    let rows = limits.own.rows().iter().zip(&chain.rows);
    json!({
        "machines": machines(limits),
        "total": chain.total,
        "confidence": chain.confidence,
        "remedy": chain.remedy(),
        "row_s": chain.row_s,
        "rows": rows.map(|(row, blames)| json!({ "bytes": row.bytes, "blame": blames })).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use limits::{Cause, Chain, DepotReceipt, Receipt, Row};
    use std::time::Duration;

    fn receipt(client: Option<Cause>, upstream: Option<Cause>) -> Receipt {
        let mut receipt = Receipt::default();
        let mut row = Row { bytes: 250_000, ..Row::default() };
        let time = Duration::from_secs(2);
        if let Some(cause) = client {
            row.client.add(cause, time);
        }
        if let Some(cause) = upstream {
            row.upstream.add(cause, time);
        }
        receipt.add(Duration::ZERO, time, &row);
        receipt
    }

    #[test]
    fn hop_to_blame_is_named_by_both_its_ends() {
        let own = receipt(None, Some(Cause::OtherHop));
        let depot = |name: &str, next_is_depot, receipt| DepotReceipt {
            depot: name.to_owned(),
            flow: Flow::Down,
            began_s_ago: 2.0,
            next_is_depot,
            client_rtt_us: None,
            upstream_rtt_us: None,
            receipt,
        };
        let depots = vec![
            depot("d1", true, receipt(None, Some(Cause::OtherHop))),
            depot("d2", false, receipt(Some(Cause::Congestion), None)),
        ];
        let chain = Chain::new(&own, 2.0, &depots, Flow::Down);
        let limits = TransferLimits { own, depots, chain };
        let expected = "limited by: hop 2 (d1 - d2): congestion 100 %";
        assert_eq!(line(&limits).as_deref(), Some(expected));
        let table = table(&limits);
        assert!(
            table.contains("\n      0        1.0  hop 2 (d1 - d2): congestion 100 %\n"),
            "{table}"
        );
        assert!(table.contains("hop 2 (d1 - d2) was to blame in 100 % of the time\n"), "{table}");
        let document = document(&limits);
        assert_eq!(document["machines"], json!(["this machine", "d1", "d2", "origin"]));
        assert_eq!(document["total"][0]["cause"], "congestion");
        assert_eq!(document["rows"][1]["bytes"], 125_000);
    }
}
