// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs all runs of a scenario and prints what came out.
use std::time::Instant;
fn main() {
    let mut args = std::env::args().skip(1);
    let file = args.next().unwrap();
    let set: Vec<String> = args.collect();
    let scenario = scenario::load(std::path::Path::new(&file), &set).unwrap_or_else(|e| panic!("{e}"));
    for run in &scenario.runs {
        let begin = Instant::now();
        let mut sim = longhaul_sim::Simulation::new(run).unwrap_or_else(|e| panic!("{e}"));
        while sim.advance(1_000_000) {}
        let wall = begin.elapsed().as_secs_f64();
        let out = sim.outcome();
        println!("{}: {} events, {:.2} Mev/s, {:.2} s simulated in {:.2} s", run.id, sim.events(), sim.events() as f64 / wall / 1e6, sim.now().as_secs_f64(), wall);
        for f in &out.summary.flows {
            println!("  {} {:.2} Mb/s {:.3} s {} retr {:?} to {:?} {:?}", f.name, f.goodput_bps / 1e6, f.seconds, f.outcome, f.retransmits, f.timeouts, f.hops.iter().map(|h| (h.min_rtt_us, h.srtt_us)).collect::<Vec<_>>());
        }
        for l in out.summary.links.iter().filter(|l| l.queue_drops + l.losses > 0 || l.utilisation.unwrap_or(0.0) > 0.3) {
            println!("  {}/{} util {:?} drops {} losses {} qmax {:?} qdelay {:?}", l.name, l.direction, l.utilisation, l.queue_drops, l.losses, l.queue_max_bytes, l.queue_mean_delay_us);
        }
    }
}
