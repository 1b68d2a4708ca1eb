// SPDX-License-Identifier: GPL-2.0-or-later
use super::*;
use trace::{
    DirectionSummary, Ending, FileTransfers, LargestDirection, MAX_LARGEST, Transfer, WindowCurves,
};

/// A name that would be a script if a page took it for markup, in an attribute too.
const EVIL: &str = "\"><img src=x onerror=\"document.title='owned'\"><!--'\u{202e}\u{1b}[31m.pcap";

fn direction(bytes: u64, resent: u64) -> DirectionSummary {
    let course = |value: u64| (0..50).map(|n| (n * 20_000_000, value + n)).collect();
    DirectionSummary {
        from: "10.0.0.1:80".to_owned(),
        to: "10.0.0.2:40000".to_owned(),
        payload_bytes: bytes,
        unique_bytes: bytes,
        goodput_bps: Some(8e6),
        retransmitted_segments: resent,
        fast_segments: resent,
        window_max_bytes: Some(1_000_000),
        windows: Some(WindowCurves {
            outstanding_bytes: course(10_000),
            window_bytes: course(900_000),
            rtt_ns: course(20_000_000),
        }),
        ..DirectionSummary::default()
    }
}

fn page(file: &str, rows: usize, others: u64) -> String {
    let row = |n: usize| LargestDirection {
        file: file.to_owned(),
        start_unix_ns: n as u64,
        ending: Ending::Open,
        direction: direction(1_000_000 - n as u64, n as u64 % 2),
    };
    let largest = LargestDirections {
        rows: (0..rows).map(row).collect(),
        others,
        other_bytes: 1000 * others,
        other_retransmitted_segments: 3,
    };
    let growth = (0..20).map(|n| (n * 50_000_000, 1000 * n)).collect();
    let transfers = (rows > 0).then(|| Transfer { direction: direction(1_000_000, 0), growth });
    let transfers = FileTransfers {
        file: file.to_owned(),
        transfers: transfers.into_iter().collect(),
        left_out: 0,
    };
    let files = [CapturedFile {
        name: file.to_owned(),
        totals: Some(Totals { packets: 1234, connections: 77, ..Totals::default() }),
        remarks: vec![format!("{file}: damaged")],
    }];
    CapturePage {
        files: &files,
        largest: &largest,
        transfers: &Transfers { files: vec![transfers], files_left_out: 0 },
        growth: GrowthForm::default(),
    }
    .html()
}

#[test]
fn outside_text_is_no_markup() {
    let html = page(EVIL, 2, 0);
    assert!(!html.contains("<img") && !html.contains("<!--"));
    assert!(!html.contains('\u{202e}') && !html.contains('\u{1b}'), "hidden characters");
    // In the title, the heading, the file's row, attribute and remark, and three times in each growth picture.
    assert_eq!(html.matches("&lt;img src=x onerror=").count(), 5 + 2 * 3);
    assert!(!html.contains("<script") && html.contains("default-src 'none'"));
}

#[test]
fn figures_are_bounded_and_what_is_left_out_is_said() {
    let html = page("many.pcap", MAX_LARGEST, 7);
    assert_eq!(html.matches("<div class=\"drawing\"").count(), 2 + MOST_WINDOWS + 1);
    for text in [
        "<summary>24 more directions</summary>",
        "7 more directions with 7 kB and 3 segments sent again are not listed",
        "The 4 directions with most data. 43 are not drawn.",
        "40 MB of data; 23 segments were sent again. The largest transfer is 1 MB at 8 Mb/s.",
        "1234 packets, 0 of TCP, 77 connections",
        "receiver’s window, up to 1 MB",
        "told by acknowledgements",
    ] {
        assert!(html.contains(text), "{text}");
    }
    assert!(html.len() < 600_000, "{}", html.len());
}

#[test]
fn page_without_data_says_so() {
    let html = page("none.pcap", 0, 0);
    assert!(html.contains("No connection has data.") && !html.contains("NaN"));
    assert!(!html.contains("<svg") && !html.contains("Windows and round trips"));
}
