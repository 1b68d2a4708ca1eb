// SPDX-License-Identifier: GPL-2.0-or-later
//! Units of rows, and warm-ups beyond the end.

use super::*;
use crate::MetricsTable;

#[test]
fn rows_far_below_the_others_have_a_unit_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    for (loss, bps) in [("0.1%", 1e9), ("1%", 2e8), ("10%", 12e6)] {
        for (repeat, times) in [(1, 0.9), (2, 1.1)] {
            write(dir.path(), "a", &[("vars.loss", loss)], repeat, bps * times, true);
            write(dir.path(), "b", &[("vars.loss", loss)], repeat, bps * times / 1e4, true);
        }
    }
    let table = read(dir.path(), "goodput_bps", None).unwrap().table();
    let rows: Vec<Vec<&str>> =
        table.lines().map(|line| line.split_whitespace().collect()).collect();
    let row = |name: &str| rows.iter().find(|row| row.first() == Some(&name)).unwrap();
    assert_eq!(row("loss"), &["loss", "unit", "a", "b"]);
    // By hand: 12.7062 of the t table times a tenth of the mean is 1.27062 times the mean.
    assert_eq!(row("1%")[..4], ["1%", "Gb/s", "0.200", "(±0.254)"]);
    assert_eq!(row("10%"), &["10%", "Mb/s", "12.0", "(±15.2)", "0.00120", "(±0.00152)"]);
}

#[test]
fn warm_up_beyond_the_end_is_refused_or_said() {
    let dir = tempfile::tempdir().unwrap();
    write_two_flows(dir.path(), "a", "1ms", 1000);
    let read = |warm_up_s| {
        let asked = FigureQuery { by_flow: true, warm_up_s, ..FigureQuery::default() };
        Figure::read(dir.path(), &asked)
    };
    let refusal =
        "--warm-up 20s leaves nothing: the longest run ended after 20 s. Choose a shorter one";
    assert_eq!(read(20.0).unwrap_err().to_string(), refusal);
    let dirs = [dir.path().to_owned()];
    assert_eq!(MetricsTable::read(&dirs, 20.0).unwrap_err().to_string(), refusal);
    assert!(MetricsTable::read(&dirs, 10.0).is_ok());

    // Together with a run whose flow ended before, as small files do.
    let short = dir.path().join("short");
    let RunResults { mut manifest, mut summary } =
        Record::results(&dir.path().join("a-1ms")).unwrap();
    manifest.id = "short".into();
    summary.flows.truncate(1);
    summary.flows[0].end_s = 5.0;
    Record { manifest, series: Series::default(), files: OfferedFiles::default(), summary }
        .write(&short)
        .unwrap();
    let table = read(10.0).unwrap().table();
    assert!(table.contains("; without the first 10 s, in which 1 flows ended"), "{table}");
}

#[test]
fn metric_is_time_if_the_sizes_of_transfers_differ() {
    let dir = tempfile::tempdir().unwrap();
    let write_sized = |bytes: u64| {
        write_two_flows(dir.path(), "a", &format!("{bytes}ms"), bytes);
        let folder = dir.path().join(format!("a-{bytes}ms"));
        let RunResults { manifest, mut summary } = Record::results(&folder).unwrap();
        for flow in &mut summary.flows {
            flow.bytes_expected = Some(bytes);
        }
        std::fs::remove_dir_all(&folder).unwrap();
        Record { manifest, series: Series::default(), files: OfferedFiles::default(), summary }
            .write(&folder)
            .unwrap();
    };
    write_sized(1000);
    assert_eq!(suited_metric(dir.path(), false).unwrap(), ("goodput_bps", false));
    write_sized(100_000);
    assert_eq!(suited_metric(dir.path(), false).unwrap(), ("completion_mean_s", true));
    assert_eq!(suited_metric(dir.path(), true).unwrap(), ("seconds", true));
}
