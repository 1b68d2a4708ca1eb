// SPDX-License-Identifier: GPL-2.0-or-later
use super::*;
use crate::svg_reader::Drawing;
use trace::DirectionSummary;

/// A transfer that begins at a time and rises evenly to its size; what it sent again.
pub fn transfer(start_ns: u64, seconds: u64, bytes: u64, resent: u64) -> Transfer {
    let points = (0..=10).map(|n| (start_ns + seconds * n * 100_000_000, bytes * n / 10));
    let direction = DirectionSummary {
        unique_bytes: bytes,
        retransmitted_segments: resent,
        ..DirectionSummary::default()
    };
    Transfer { direction, growth: points.collect() }
}

fn transfers(files: Vec<(&str, Vec<Transfer>)>) -> Transfers {
    let file = |(file, transfers): (&str, Vec<Transfer>)| FileTransfers {
        file: file.to_owned(),
        transfers,
        left_out: 0,
    };
    Transfers { files: files.into_iter().map(file).collect(), files_left_out: 0 }
}

const S: u64 = 1_000_000_000;

fn chain() -> Transfers {
    transfers(vec![
        (
            "out/direct/client.pcap",
            vec![transfer(S, 10, 5_000_000, 3), transfer(50 * S, 20, 5_000_000, 9)],
        ),
        (
            "out/first/client.pcap",
            vec![transfer(100 * S, 4, 5_000_000, 5), transfer(120 * S, 4, 5_000_000, 1)],
        ),
        (
            "out/second/client.pcap",
            vec![transfer(101 * S, 4, 5_000_000, 0), transfer(121 * S, 4, 5_000_000, 2)],
        ),
    ])
}

#[test]
fn each_transfer_is_a_curve_and_each_file_has_a_mean() {
    let svg = growth_svg(&chain(), GrowthForm::default());
    let drawing = Drawing::parse(&svg);
    drawing.assert_texts_inside();
    drawing.assert_titles_clear_of_labels();
    let named = ["direct/client, mean of 2", "first/client, mean of 2", "second/client, mean of 2"];
    assert_eq!(drawing.texts("legend"), named);
    assert_eq!(drawing.paths(0, "line").len(), 6 + 3);
    // Straight lines need no more than their ends: 4 s of 20 s, 880 pixels; 5 MB is the top.
    drawing.assert_points(0, 2, &[(0.0, 420.0), (176.0, 0.0)]);
    let empty = Transfers { files: Vec::new(), files_left_out: 2 };
    let svg = growth_svg(&empty, GrowthForm::default());
    assert!(!svg.contains("NaN") && svg.contains("2 files are left out"));
}

#[test]
fn sublinks_of_a_session_have_one_clock() {
    let svg = growth_svg(&chain(), GrowthForm { is_chain: true, by_loss: false });
    let drawing = Drawing::parse(&svg);
    // The second sublink begins one second after the first.
    drawing.assert_points(0, 4, &[(44.0, 420.0), (220.0, 0.0)]);
    assert!(svg.contains("session’s earliest sublink"));
}

#[test]
fn sessions_are_compared_that_lost_alike() {
    let svg = growth_svg(&chain(), GrowthForm { is_chain: true, by_loss: true });
    let drawing = Drawing::parse(&svg);
    assert_eq!(drawing.texts("legend"), ["direct/client", "first/client", "second/client"]);
    let texts = drawing.texts("panel");
    // The first session sent 5 segments again in all, the second 3.
    for heading in [
        "Fewest sent again: direct/client 3, first/client 1, second/client 2",
        "Median: direct/client 3, first/client 1, second/client 2",
        "Most: direct/client 9, first/client 5, second/client 0",
        "Means of all",
    ] {
        assert!(texts.iter().any(|text| text == heading), "{heading}: {texts:?}");
    }
    assert_eq!([0, 1, 2, 3].map(|panel| drawing.paths(panel, "line").len()), [3; 4]);
    drawing.assert_texts_inside();
}

#[test]
fn time_of_the_capture_is_that_of_files_that_overlap() {
    let svg = growth_over_time_svg(&chain());
    let drawing = Drawing::parse(&svg);
    assert_eq!(drawing.texts("legend"), ["direct/client", "first/client", "second/client"]);
    assert_eq!(drawing.paths(0, "line").len(), 6);
    // 69 s from the first direct transfer to the end of the second; the axis has ticks of 10 s and ends with them.
    let along = |seconds: f64| seconds / 69.0 * 880.0;
    drawing.assert_points(0, 1, &[(along(49.0), 420.0), (880.0, 0.0)]);
    drawing.assert_points(0, 4, &[(along(1.0), 420.0), (along(5.0), 0.0)]);
}

#[test]
fn curves_are_bounded_and_what_is_left_out_is_said() {
    let many = (0..120).map(|n| transfer(n * S, 10, 1_000_000, n)).collect();
    let mut transfers = transfers(vec![("many.pcap", many)]);
    transfers.files[0].left_out = 7;
    let svg = growth_svg(&transfers, GrowthForm::default());
    assert_eq!(Drawing::parse(&svg).paths(0, "line").len(), MOST_CURVES + 1);
    for text in ["80 curves are not drawn.", "7 smaller", "many, mean of 120"] {
        assert!(svg.contains(text), "{text}");
    }
}

#[test]
fn names_of_files_are_no_markup() {
    let evil = "<img src=x onerror=alert(1)>&\u{202e}.pcap";
    let one = transfers(vec![(evil, vec![transfer(0, 1, 10, 0)])]);
    let svg = growth_svg(&one, GrowthForm::default());
    assert!(
        !svg.contains("<img") && svg.contains("&lt;img src=x onerror=alert(1)&gt;&amp;?"),
        "{svg}"
    );
}
