// SPDX-License-Identifier: GPL-2.0-or-later
//! Pictures of an algorithm as SVG: its window over time and the queue that it keeps, and how its
//! window settles under periodic loss.
//!
//! The scenario is the same for all, so that the pictures can be laid side by side: one flow over
//! 100 Mb/s with a round trip of 50 ms and a taildrop queue of one bandwidth-delay product, which is
//! what a link of a scenario has by default. Numbers are written with one decimal, so a picture changes
//! only when an algorithm does.

use crate::{
    Params,
    path::{Bottleneck, Flow, PeriodicLoss, Sample},
};
use std::fmt::Write as _;
use units::{Bytes, Duration, Rate, Timestamp};

const PROPAGATION: Duration = Duration::from_millis(50);
const SECONDS: u64 = 100;
const INTERVAL: Duration = Duration::from_millis(10);
/// Samples to a point of a curve.
const POINT: usize = 10;

/// Colours that differ in lightness too, and for every kind of colour vision (Okabe and Ito).
const WINDOW_COLOUR: &str = "#0072b2";
const QUEUE_COLOUR: &str = "#b34700";

/// The path of every picture.
pub fn path() -> Bottleneck {
    let (rate, packet) = (Rate::bits_per_second(100_000_000), Bytes::new(1500));
    Bottleneck {
        rate,
        packet,
        payload: Bytes::new(1448),
        buffer_packets: (rate.times(PROPAGATION).get() / packet.get()) as usize,
    }
}

/// What happens on a path to one flow in 100 s, every 10 ms.
pub fn samples(path: &Bottleneck, params: &Params) -> Vec<Sample> {
    let end = Timestamp::ZERO + Duration::from_secs(SECONDS);
    let flow = Flow {
        params: params.clone(),
        start: Timestamp::ZERO,
        end,
        propagation: PROPAGATION,
        known_rtt: None,
    };
    path.run(&[flow], end, INTERVAL)
}

/// The window over time of an algorithm by its parameters, and the queue, as an SVG document.
pub fn window_svg(params: &Params) -> String {
    let path = path();
    draw(params, &path, &samples(&path, params))
}

/// How the window at each loss settles, from several starts, where one segment in 10 000 is lost and
/// the round trip is 100 ms: for an algorithm whose fixed point is only neutrally stable, as CUBIC's is.
/// As an SVG document; `expected` is the closed form's window at a loss.
pub fn convergence_svg(params: &Params, expected: u32) -> String {
    const EPOCHS: usize = 300;
    let panel = Panel { top: 62.0, height: 320.0, highest: 4.0 * f64::from(expected) };
    let heading = format!("{}: the window at each loss", escaped(params.algorithm().title));
    let scene = "one flow, 100 ms round trip, one loss in 10 000 segments, no other limit; from five starts";
    let mut svg = page(&heading, &heading, scene);
    panel.axis(&mut svg, 200, "cwnd, segments");
    panel.level(&mut svg, f64::from(expected), ["closed form", ""]);
    for start in [expected / 4, expected / 2, expected, 2 * expected, 4 * expected] {
        let path = PeriodicLoss {
            every: 10_000,
            rtt: Duration::from_millis(100),
            start,
            delivery_rate: None,
        };
        let epochs = path.run(params, EPOCHS);
        let windows = std::iter::once(start).chain(epochs.iter().map(|epoch| epoch.to));
        let points = windows.enumerate();
        let share = |n: usize| n as f64 / EPOCHS as f64;
        panel.curve(&mut svg, WINDOW_COLOUR, points.map(|(n, cwnd)| (share(n), cwnd.into())));
    }
    panel.scale(&mut svg, EPOCHS as u64, 50, "losses");
    svg.push_str("</svg>\n");
    svg
}

/// A panel: where it stands on the page, and the values of its lower and upper edge.
struct Panel {
    top: f64,
    height: f64,
    highest: f64,
}

const LEFT: f64 = 64.0;
const RIGHT: f64 = 690.0;
const WIDTH: u32 = 800;
const HEIGHT: u32 = 440;

/// Where a share of the width is.
fn x(share: f64) -> f64 {
    LEFT + (RIGHT - LEFT) * share
}

impl Panel {
    fn y(&self, value: f64) -> f64 {
        self.top + self.height * (1.0 - value / self.highest)
    }

    fn axis(&self, svg: &mut String, step: u32, what: &str) {
        let (bottom, middle) = (self.top + self.height, self.top + self.height / 2.0);
        let mut value = 0;
        while f64::from(value) <= self.highest {
            let y = self.y(f64::from(value));
            put(
                svg,
                format_args!(r##"<path d="M{LEFT:.1} {y:.1}H{RIGHT:.1}" stroke="#e2e2e2"/>"##),
            );
            let (x, y) = (LEFT - 8.0, y + 4.0);
            put(
                svg,
                format_args!(r#"<text x="{x:.1}" y="{y:.1}" text-anchor="end">{value}</text>"#),
            );
            value += step;
        }
        put(svg, format_args!(r##"<path d="M{LEFT:.1} {bottom:.1}H{RIGHT:.1}" stroke="#555"/>"##));
        let turned = format!("rotate(-90 18 {middle:.1})");
        put(
            svg,
            format_args!(
                r#"<text x="18" y="{middle:.1}" text-anchor="middle" transform="{turned}">{what}</text>"#
            ),
        );
    }

    /// A level that explains the curve, named at its right end.
    fn level(&self, svg: &mut String, value: f64, names: [&str; 2]) {
        let (y, x) = (self.y(value), RIGHT + 8.0);
        put(
            svg,
            format_args!(
                r##"<path d="M{LEFT:.1} {y:.1}H{RIGHT:.1}" stroke="#555" stroke-dasharray="2 4"/>"##
            ),
        );
        for (name, y) in names.iter().zip([y - 1.0, y + 13.0]) {
            put(svg, format_args!(r#"<text x="{x:.1}" y="{y:.1}">{name}</text>"#));
        }
    }

    /// The scale below the panel, from 0 to `end`.
    fn scale(&self, svg: &mut String, end: u64, step: usize, what: &str) {
        let bottom = self.top + self.height;
        for value in (0..=end).step_by(step) {
            let (x, y) = (x(value as f64 / end as f64), bottom + 18.0);
            put(
                svg,
                format_args!(r#"<text x="{x:.1}" y="{y:.1}" text-anchor="middle">{value}</text>"#),
            );
        }
        let (x, y) = (f64::midpoint(LEFT, RIGHT), bottom + 38.0);
        put(svg, format_args!(r#"<text x="{x:.1}" y="{y:.1}" text-anchor="middle">{what}</text>"#));
    }

    /// Points by their share of the width, and value.
    fn curve(&self, svg: &mut String, colour: &str, points: impl Iterator<Item = (f64, f64)>) {
        let mut d = String::new();
        for (share, value) in points {
            let command = if d.is_empty() { 'M' } else { 'L' };
            let y = self.y(value.min(self.highest));
            write!(d, "{command}{:.1} {y:.1}", x(share)).expect("a string takes all");
        }
        put(
            svg,
            format_args!(
                r#"<path d="{d}" fill="none" stroke="{colour}" stroke-width="1.5" stroke-linejoin="round"/>"#
            ),
        );
    }
}

fn put(svg: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(svg, "{line}").expect("a string takes all");
}

fn draw(params: &Params, path: &Bottleneck, samples: &[Sample]) -> String {
    let algorithm = params.algorithm();
    let window = |sample: &Sample| f64::from(sample.flows[0].decision.cwnd);
    let at = |sample: &Sample| sample.at.as_secs_f64() / SECONDS as f64;
    let full = path.rate.times(PROPAGATION).get() as f64 / path.packet.get() as f64;
    let buffer = path.buffer_packets as f64;
    let windows = Panel { top: 62.0, height: 220.0, highest: 1000.0 };
    let queue = Panel { top: 312.0, height: 70.0, highest: 500.0 };

    let title = escaped(algorithm.title);
    let mut svg = page(
        &format!("{title}: window and queue over time"),
        &title,
        &format!(
            "one flow, 100 Mb/s, 50 ms round trip, taildrop queue of {} packets (one \
             bandwidth-delay product)",
            path.buffer_packets
        ),
    );
    windows.axis(&mut svg, 200, "cwnd, segments");
    windows.level(&mut svg, full, ["below: link", "not filled"]);
    windows.level(&mut svg, full + buffer, ["above: queue", "overflows"]);
    windows.curve(
        &mut svg,
        WINDOW_COLOUR,
        samples.iter().step_by(POINT).map(|sample| (at(sample), window(sample))),
    );
    queue.axis(&mut svg, 200, "queue, packets");
    queue.level(&mut svg, buffer, ["queue full", ""]);
    queue.curve(
        &mut svg,
        QUEUE_COLOUR,
        samples.chunks(POINT).map(|point| {
            // The longest, or a queue that comes and goes with the round trip would beat.
            let longest = point.iter().map(|sample| sample.queue_packets).max();
            (at(&point[0]), longest.unwrap_or(0) as f64)
        }),
    );
    queue.scale(&mut svg, SECONDS, 20, "time, s");
    svg.push_str("</svg>\n");
    svg
}

/// The head of a picture: its description, its heading, and what it shows.
fn page(description: &str, heading: &str, scene: &str) -> String {
    let mut svg = String::new();
    put(
        &mut svg,
        format_args!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" font-family="system-ui, sans-serif" font-size="12" fill="#222">"##
        ),
    );
    put(&mut svg, format_args!("<title>{description}</title>"));
    put(&mut svg, format_args!(r##"<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>"##));
    put(
        &mut svg,
        format_args!(
            r#"<text x="{LEFT:.1}" y="24" font-size="16" font-weight="600">{heading}</text>"#
        ),
    );
    put(&mut svg, format_args!(r##"<text x="{LEFT:.1}" y="44" fill="#555">{scene}</text>"##));
    svg
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
