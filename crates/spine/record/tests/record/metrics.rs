// SPDX-License-Identifier: GPL-2.0-or-later
//! A run's metrics from its flows, links and series, against values computed by hand.

use longhaul_record::{
    Direction, Entity, FlowSummary, HopSummary, LinkSummary, Metrics, Quantity, Series,
};
use std::slice::from_ref;

fn flow(name: &str, start_s: f64, seconds: f64, bytes: u64) -> FlowSummary {
    FlowSummary {
        name: name.to_owned(),
        bytes,
        bytes_expected: Some(bytes),
        start_s,
        end_s: start_s + seconds,
        seconds: Some(seconds),
        goodput_bps: Some(bytes as f64 * 8.0 / seconds),
        retransmits: Some(3),
        ..FlowSummary::default()
    }
}

/// Samples every second, starting at 0.
fn each_second(series: &mut Series, entity: &Entity, quantity: Quantity, values: &[f64]) {
    for (second, value) in values.iter().enumerate() {
        series.push(entity, quantity, second as f64, *value);
    }
}

fn received(series: &mut Series, name: &str, totals: &[f64]) {
    each_second(series, &Entity::Flow(name.into()), Quantity::ReceivedBytes, totals);
}

#[test]
fn a_run_of_two_flows_by_hand() {
    let flows = [flow("a", 0.0, 4.0, 400), flow("b", 1.0, 3.0, 100)];
    let link = LinkSummary {
        bytes: 550,
        segments: 98,
        queue_drops: 2,
        losses: 3,
        utilisation: Some(0.9),
        queue_mean_delay_us: Some(40.0),
        ..LinkSummary::default()
    };
    let idle = LinkSummary { utilisation: Some(0.1), ..LinkSummary::default() };
    let mut series = Series::default();
    received(&mut series, "a", &[0.0, 160.0, 280.0, 340.0, 400.0]);
    received(&mut series, "b", &[0.0, 0.0, 10.0, 64.0, 100.0]);
    let metrics = Metrics::compute(&flows, &[idle, link], &series);

    assert_eq!(metrics.goodput_bps, Some(1000.0));
    assert_eq!(metrics.throughput_bps, Some(1100.0));
    assert_eq!(metrics.efficiency, Some(1000.0 / 1100.0));
    assert_eq!(metrics.utilisation, Some(0.9));
    assert_eq!(metrics.loss_ratio, Some(0.05));
    assert_eq!(metrics.queueing_delay_us, Some(40.0));
    assert_eq!(metrics.completion_mean_s, Some(3.5));
    assert_eq!(metrics.completion_deviation_s, Some(0.5));
    assert_eq!((metrics.retransmits, metrics.timeouts), (Some(6), None));
    // Goodputs 800 and 800/3: (4/3)^2 / (2 * (1 + 1/9)) = 0.8.
    assert!((metrics.jain_index.unwrap() - 0.8).abs() < 1e-12);
    assert_eq!(metrics.jain_index_streams, metrics.jain_index);
    assert_eq!(metrics.max_min_fairness, Some(0.5));
    // b has 10 of 130 bytes in its first second and 54 of 114 in its second.
    assert_eq!(metrics.delta_fair_convergence_s, Some(1.0));
    assert_eq!(metrics.flows[0].delta_fair_convergence_s, None);
    assert_eq!(metrics.flows[1].delta_fair_convergence_s, Some(1.0));
    // a: 1280, 960, 480, 480 bit/s, mean 800, squared distances 480^2 160^2 320^2 320^2.
    let deviation = (460_800.0_f64 / 4.0).sqrt();
    assert_eq!(metrics.flows[0].goodput_deviation_bps, Some(deviation));
    assert_eq!(metrics.flows[0].goodput_cov, Some(deviation / 800.0));
    // Both: 1280, 1040, 912, 768 bit/s, mean 1000, squared distances 280^2 40^2 88^2 232^2.
    let both = (141_568.0_f64 / 4.0).sqrt() / 1000.0;
    assert!((metrics.goodput_cov.unwrap() - both).abs() < 1e-12);
    // Nothing is known of the senders.
    assert_eq!((metrics.performability, metrics.kolmogorov_smirnov), (None, None));
    assert!(metrics.path_states.is_empty());
}

#[test]
fn drops_after_start_begin_two_rtts_after_last_threshold() {
    let hop = |index| HopSummary { index, ..HopSummary::default() };
    let flow = FlowSummary { hops: vec![hop(0), hop(1)], ..flow("a", 0.0, 10.0, 100) };
    let mut series = Series::default();
    let link = |direction| Entity::Link { name: "haul".into(), direction };
    each_second(
        &mut series,
        &link(Direction::Forward),
        Quantity::Drops,
        &[0.0, 7.0, 5.0, 3.0, 2.0, 1.0],
    );
    each_second(
        &mut series,
        &link(Direction::Backward),
        Quantity::Drops,
        &[0.0, 0.0, 0.0, 0.0, 0.0, 10.0],
    );
    for index in [0, 1] {
        let entity = Entity::Hop { flow: "a".into(), index };
        each_second(&mut series, &entity, Quantity::CwndSegments, &[10.0; 6]);
        each_second(&mut series, &entity, Quantity::SrttUs, &[0.1e6, 0.2e6, 0.5e6, 1e6, 1e6, 1e6]);
    }
    let metrics = |series: &Series| Metrics::compute(std::slice::from_ref(&flow), &[], series);
    let without_threshold = metrics(&series);
    assert_eq!((without_threshold.drops, without_threshold.drops_after_start), (Some(28), None));
    series.push(&Entity::Hop { flow: "a".into(), index: 0 }, Quantity::SsthreshSegments, 1.0, 8.0);
    assert_eq!(metrics(&series).drops_after_start, None, "the other has no threshold, as with BBR");
    series.push(&Entity::Hop { flow: "a".into(), index: 1 }, Quantity::SsthreshSegments, 2.0, 8.0);
    // From 2 s + 2 x 0.5 s on.
    assert_eq!(metrics(&series).drops_after_start, Some(3 + 2 + 1 + 10));
    let unknown = metrics(&Series::default());
    assert_eq!((unknown.drops, unknown.drops_after_start), (None, None));
}

/// One flow over two hops, a short and a long one, and the link under the long one.
fn long_haul() -> (FlowSummary, LinkSummary, Series) {
    let hop = |index, min_rtt_us| HopSummary {
        index,
        min_rtt_us: Some(min_rtt_us),
        ..HopSummary::default()
    };
    let flow = FlowSummary {
        hops: vec![
            hop(0, 1e6),
            // A product of 100 segments.
            HopSummary {
                bottleneck_bps: Some(1_200_000),
                base_rtt_us: Some(1e6),
                segment_bytes: Some(1500),
                ..hop(1, 1.1e6)
            },
        ],
        ..flow("a", 0.0, 5.0, 440)
    };
    let link = LinkSummary {
        name: "haul".into(),
        direction: "backward".into(),
        rate_bps: Some(1000),
        bytes: 500,
        ..LinkSummary::default()
    };
    let mut series = Series::default();
    received(&mut series, "a", &[0.0, 60.0, 180.0, 290.0, 340.0, 440.0]);
    for (index, srtt) in [(0, [1e6; 6]), (1, [1e6, 2e6, 2e6, 4e6, 3e6, 3e6])] {
        let hop = Entity::Hop { flow: "a".into(), index };
        each_second(&mut series, &hop, Quantity::SrttUs, &srtt);
    }
    let first = Entity::Hop { flow: "a".into(), index: 0 };
    each_second(
        &mut series,
        &first,
        Quantity::AckedBytes,
        &[0.0, 90.0, 190.0, 280.0, 330.0, 430.0],
    );
    each_second(&mut series, &first, Quantity::Retransmits, &[0.0, 0.0, 0.0, 2.0, 2.0, 2.0]);
    let long = Entity::Hop { flow: "a".into(), index: 1 };
    each_second(&mut series, &long, Quantity::CwndSegments, &[10.0, 20.0, 40.0, 80.0, 60.0, 60.0]);
    each_second(&mut series, &long, Quantity::Retransmits, &[0.0; 6]);
    let haul = Entity::Link { name: "haul".into(), direction: Direction::Backward };
    each_second(
        &mut series,
        &haul,
        Quantity::QueueBytes,
        &[0.0, 0.0, 500.0, 1000.0, 0.0, 0.0, 9e9],
    );
    let carried = [500.0, 900.0, 1000.0, 600.0, 1000.0, 0.0];
    each_second(&mut series, &haul, Quantity::ThroughputBps, &carried);
    (flow, link, series)
}

#[test]
fn a_flow_over_two_hops_by_hand() {
    let (flow, link, series) = long_haul();
    let metrics = Metrics::compute(&[flow], &[link], &series);
    let of_flow = &metrics.flows[0];
    // The second hop is the longer one.
    assert_eq!(of_flow.rtt_min_us, Some(1.1e6));
    assert_eq!(of_flow.rtt_mean_us, Some(2.5e6));
    assert_eq!(of_flow.rtt_median_us, Some(2.5e6));
    assert_eq!(of_flow.rtt_p99_us, Some(4e6));
    // Squared distances from 45: 35^2 25^2 5^2 35^2 15^2 15^2.
    assert_eq!(of_flow.cwnd_mean_segments, Some(45.0));
    assert_eq!(of_flow.cwnd_deviation_segments, Some((3550.0_f64 / 6.0).sqrt()));
    // 80 of 100 segments after three round trips.
    assert_eq!((of_flow.convergence_rtts, metrics.convergence_rtts), (Some(3.0), Some(3.0)));
    // The first hop: 100 bytes in the round trip before the 2nd second; 50 two round trips later.
    assert_eq!((of_flow.responsiveness_rtts, metrics.responsiveness_rtts), (Some(2.0), Some(2.0)));
    // The first hop's 90, 100, 90, 50, 100 bytes a second, mean 86: above 94.6 in the last.
    assert_eq!(metrics.average_responsiveness_s, Some(5.0));
    // 1000 bytes at 1 kbit/s; what the queue held after the flow's end does not count.
    assert_eq!(metrics.queueing_delay_p99_us, Some(8e6));
    // Squared distances from 800: 300^2 100^2 200^2 200^2 200^2.
    let cov = (220_000.0_f64 / 5.0).sqrt() / 800.0;
    assert!((metrics.throughput_cov.unwrap() - cov).abs() < 1e-12);
}

#[test]
fn the_states_of_the_path_by_hand() {
    let (flow, link, series) = long_haul();
    let metrics = Metrics::compute(from_ref(&flow), from_ref(&link), &series);
    // 480, 960, 880, 400, 800 bit/s of 1000; what was sent again was seen at 3 s.
    let [calm, disturbed] = metrics.path_states.as_slice() else { panic!("two states") };
    assert_eq!((calm.bins, calm.share, calm.performance), (4, 0.8, Some(0.78)));
    assert_eq!(calm.performing, Some(0.75));
    assert_eq!((disturbed.bins, disturbed.performance), (1, Some(0.4)));
    assert_eq!(disturbed.performing, Some(0.0));
    assert!((metrics.performability.unwrap() - 0.6).abs() < 1e-12);
    assert_eq!(metrics.kolmogorov_smirnov, None, "four bins and one tell nothing");

    let unlimited = LinkSummary { rate_bps: None, ..link };
    let metrics = Metrics::compute(&[flow], &[unlimited], &series);
    assert_eq!(metrics.performability, None);
    assert_eq!(metrics.path_states[0].performance, None);
}

#[test]
fn goodput_with_and_without_disturbance_by_hand() {
    let flow = FlowSummary { hops: vec![HopSummary::default()], ..flow("a", 0.0, 8.0, 56) };
    let mut series = Series::default();
    // 9, 8, 9, 5 bytes a second while calm; 5, 8, 6, 6 while the sender repeats.
    received(&mut series, "a", &[0.0, 9.0, 17.0, 26.0, 31.0, 36.0, 44.0, 50.0, 56.0]);
    let hop = Entity::Hop { flow: "a".into(), index: 0 };
    let repeated = [0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 4.0];
    each_second(&mut series, &hop, Quantity::Retransmits, &repeated);
    let metrics = Metrics::compute(&[flow], &[], &series);
    // Up to 6: one of four, and three of four.
    assert_eq!(metrics.kolmogorov_smirnov, Some(0.5));
    assert_eq!(metrics.path_states[1].bins, 4);
}

#[test]
fn hop_with_unfilled_path_is_not_hidden_by_others() {
    let (mut flow, link, mut series) = long_haul();
    let long = flow.hops[1].clone();
    flow.hops[0] = HopSummary { index: 0, ..long };
    let first = Entity::Hop { flow: "a".into(), index: 0 };
    each_second(&mut series, &first, Quantity::CwndSegments, &[10.0, 20.0, 40.0]);
    let metrics = Metrics::compute(&[flow], &[link], &series);
    assert_eq!(metrics.flows[0].convergence_rtts, None);
}

#[test]
fn streams_and_transfers_have_an_index_each() {
    let stream = |stream, bytes| HopSummary {
        index: stream,
        stream,
        bytes: Some(bytes),
        ..HopSummary::default()
    };
    let pair = |name, bytes: [u64; 2]| FlowSummary {
        hops: vec![stream(0, bytes[0]), stream(1, bytes[1])],
        ..flow(name, 0.0, 1.0, bytes[0] + bytes[1])
    };
    let flows = [pair("a", [30, 10]), pair("b", [20, 20])];
    let metrics = Metrics::compute(&flows, &[], &Series::default());
    assert_eq!(metrics.jain_index, Some(1.0));
    // 80^2 / (4 * (900 + 100 + 400 + 400)).
    assert!((metrics.jain_index_streams.unwrap() - 6400.0 / 7200.0).abs() < 1e-12);
}

#[test]
fn flows_limited_by_time_have_goodput_and_no_completion() {
    let endless = FlowSummary { bytes_expected: None, ..flow("a", 0.0, 2.0, 100) };
    let metrics = Metrics::compute(&[endless], &[], &Series::default());
    assert_eq!((metrics.goodput_bps, metrics.completion_mean_s), (Some(400.0), None));
    assert_eq!(metrics.jain_index, Some(1.0));
}

#[test]
fn unknown_metrics_are_null() {
    let cut = FlowSummary { timed_out: true, retransmits: None, ..flow("a", 0.0, 5.0, 10) };
    let metrics = Metrics::compute(&[cut], &[], &Series::default());
    assert_eq!(metrics.completion_mean_s, None);
    assert_eq!(metrics.retransmits, None);
    assert_eq!(metrics.throughput_bps, None);
    assert_eq!(metrics.flows[0].goodput_cov, None);
    let nothing = Metrics::compute(&[], &[], &Series::default());
    assert_eq!(nothing, Metrics { timeouts: Some(0), retransmits: Some(0), ..Metrics::default() });
}

/// Of 1000 bytes that the link carried, 500 were of two flows with 400 bytes of content.
#[test]
fn background_does_not_lower_efficiency() {
    let link =
        |bytes, background_bytes| LinkSummary { bytes, background_bytes, ..LinkSummary::default() };
    // Nothing on the busiest link is of the flows.
    let links = [link(1000, Some(500)), link(9000, Some(9000))];
    let flows = [flow("a", 0.0, 4.0, 300), flow("b", 0.0, 4.0, 100)];
    let metrics = Metrics::compute(&flows, &links, &Series::default());
    assert_eq!(metrics.efficiency, Some(0.8));
    assert_eq!(metrics.throughput_bps, Some(18_000.0), "of all that the busiest carried");
    // What a method does not count apart is the flows'.
    let metrics = Metrics::compute(&flows, &[link(1000, None)], &Series::default());
    assert_eq!(metrics.efficiency, Some(0.4));
}

#[test]
fn reverse_flows_are_in_no_metric_of_the_run() {
    let forward = [flow("a", 0.0, 4.0, 300), flow("b", 0.0, 4.0, 100)];
    let reverse = FlowSummary { reverse: true, ..flow("r", 0.0, 8.0, 5000) };
    let all = [forward[0].clone(), reverse, forward[1].clone()];
    let link = LinkSummary { bytes: 600, background_bytes: Some(100), ..LinkSummary::default() };
    let mut series = Series::default();
    received(&mut series, "r", &[0.0, 625.0, 1250.0, 1875.0, 2500.0]);
    let of = |flows: &[FlowSummary]| Metrics::compute(flows, from_ref(&link), &series);
    let (with, without) = (of(&all), of(&forward));
    assert_eq!(with.goodput_bps, Some(800.0));
    assert_eq!(with.jain_index, Some(0.8));
    assert_eq!(with.completion_mean_s, Some(4.0));
    let names: Vec<&str> = with.flows.iter().map(|flow| flow.name.as_str()).collect();
    assert_eq!(names, ["a", "r", "b"], "each has metrics of its own");
    assert!(with.flows[1].goodput_deviation_bps.is_some());
    assert_eq!(Metrics { flows: Vec::new(), ..with }, Metrics { flows: Vec::new(), ..without });

    let link = LinkSummary { background_bytes: None, ..link.clone() };
    let emulated = Metrics::compute(&all, &[link], &series);
    assert_eq!(emulated.efficiency, None, "their acknowledgements are not counted apart");
}

#[test]
fn flows_beyond_the_busiest_link_have_no_efficiency() {
    let link = LinkSummary { bytes: 100, ..LinkSummary::default() };
    let flows = [flow("a", 0.0, 1.0, 90), flow("b", 0.0, 1.0, 90)];
    assert_eq!(Metrics::compute(&flows, &[link], &Series::default()).efficiency, None);
}

#[test]
fn processor_time_is_for_a_gigabit_of_content() {
    let busy = |busy_s, bytes| Metrics::default().with_processor_time(busy_s, bytes).cpu_per_gbit_s;
    assert_eq!(busy(Some(3.0), 250_000_000), Some(1.5));
    assert_eq!(busy(Some(3.0), 0), None, "nothing was carried");
    assert_eq!(busy(None, 250_000_000), None, "by another method");
}
