// SPDX-License-Identifier: GPL-2.0-or-later
//! A flow as a chain of connections: what its set-up takes, and what the chain carries.
//!
//! Augusto et al. 2008, section 3: a chain carries what the worst of its connections carries (equations 1 and 3),
//! each of which loses what its links lose (equation 4). Their model leaves out what a depot costs; here a file also
//! waits for redirects (two round trips each), for each hop's handshake and request (one and a half round trips, a
//! half where the hop is warm), and for the way of its last byte over all hops.

use crate::{
    forms::{self, Answer},
    hop::{self, Connection},
    rounds::{Delivered, Path, Until},
};
use scenario::{Flow, Routes, Run, Signalling};

/// A flow that forms are for.
#[derive(Debug, Clone)]
pub struct Chain {
    /// Its connections in the direction of the data.
    pub connections: Vec<Connection>,
    /// Parallel streams.
    pub streams: u32,
    /// From the client's start to the source's first segment, in seconds.
    pub setup_s: f64,
    /// The way of a byte over all hops, in seconds.
    pub way_s: f64,
    /// The rate of the program that sends, in bit/s.
    pub program_bps: f64,
}

/// What a flow is predicted to deliver.
#[derive(Debug, Clone, PartialEq)]
pub struct Transfer {
    /// Bytes and seconds from the client's start, once or for each sequence of random losses.
    pub runs: Vec<(f64, f64)>,
    /// Bounds of a form that has two; else the interval is that of the runs.
    pub bounds: Option<[(f64, f64); 2]>,
    /// The form of the connection that decides.
    pub source: String,
}

impl Chain {
    /// The chain of a flow.
    ///
    /// # Errors
    /// No form is for one of its connections; the text says why.
    pub fn new(run: &Run, routes: &Routes, flow: &Flow) -> Result<Self, String> {
        let hops: Vec<_> = flow.hops().collect();
        let connections =
            hops.iter().enumerate().map(|(n, hop)| hop::connection(run, routes, flow, n, hop));
        let connections: Vec<Connection> = connections.collect::<Result<_, _>>()?;
        let set_up = |connection: &Connection| {
            let round_trips = match (run.tcp.handshake, connection.is_warm) {
                (true, false) => 1.5,
                (true, true) => 0.5,
                (false, _) => 0.0,
            };
            round_trips * connection.path.rtt_s
        };
        let redirects_s = if run.tcp.handshake { redirects_s(run, routes, flow) } else { 0.0 };
        Ok(Self {
            setup_s: redirects_s + connections.iter().map(set_up).sum::<f64>(),
            way_s: connections.iter().map(|connection| connection.path.rtt_s / 2.0).sum(),
            program_bps: flow.app_rate.map_or(f64::INFINITY, |rate| rate.bps() as f64),
            streams: flow.streams.max(1),
            connections,
        })
    }

    /// What the chain delivers of a file of `bytes`, or of one without end, within `seconds` from the client's start,
    /// where no other flow is on its way. `number` is the flow's in the run.
    pub fn alone(&self, bytes: Option<f64>, seconds: f64, number: usize) -> Transfer {
        let before_s = self.setup_s + self.way_s;
        let sending_s = (seconds - before_s).max(0.0);
        let answers = self.connections.iter().enumerate().map(|(n, connection)| {
            let stream = ((number as u64) << 16) | n as u64;
            self.hop(connection, bytes, sending_s, stream)
        });
        let answers: Vec<Transfer> = answers.collect();
        let slowest = answers.iter().min_by(|a, b| a.mean_bps().total_cmp(&b.mean_bps()));
        let source = slowest.map_or_else(String::new, |hop| hop.source.clone());
        let samples = answers.iter().map(|answer| answer.runs.len()).max().unwrap_or(1);
        let runs = (0..samples).map(|sample| {
            let of_hops = answers.iter().map(|answer| answer.runs[sample % answer.runs.len()]);
            // A chain carries what the worst of its connections carries.
            let (bytes, seconds) = of_hops
                .fold((f64::INFINITY, 0.0_f64), |(least, longest), (bytes, seconds)| {
                    (least.min(bytes), longest.max(seconds))
                });
            (bytes, seconds + before_s)
        });
        Transfer { runs: runs.collect(), bounds: slowest.and_then(|hop| hop.bounds), source }
    }

    /// One hop with all streams, each of which has its part of link and queue.
    fn hop(
        &self,
        connection: &Connection,
        bytes: Option<f64>,
        sending_s: f64,
        stream: u64,
    ) -> Transfer {
        let n = f64::from(self.streams);
        let program = self.program_bps / connection.payload_bits;
        let path = &connection.path;
        let part = Connection {
            path: Path {
                segments_per_s: path.segments_per_s.min(program) / n,
                queue: if program < path.segments_per_s { f64::INFINITY } else { path.queue / n },
                ..*path
            },
            ..connection.clone()
        };
        let until = bytes.map_or(Until::Seconds(sending_s), |bytes| {
            Until::Segments((bytes * 8.0 / n / connection.payload_bits).max(1.0))
        });
        let of_stream = |number: u32| {
            let stream = (stream << 8) | u64::from(number);
            cut(forms::deliver(&part, until, stream), sending_s, |until| {
                forms::deliver(&part, until, stream)
            })
        };
        if let Some(transfer) = self.parallel(connection, bytes, sending_s) {
            return transfer;
        }
        let differs = matches!(connection.losses, crate::rounds::Losses::Random(_));
        let streams: Vec<Answer> =
            (0..if differs { self.streams } else { 1 }).map(of_stream).collect();
        let samples = streams.iter().map(|answer| answer.runs.len()).max().unwrap_or(1);
        let same = if differs { 1.0 } else { n };
        let runs = (0..samples).map(|sample| {
            let of_streams =
                || streams.iter().map(|answer| answer.runs[sample % answer.runs.len()]);
            let segments: f64 = of_streams().map(|run| run.segments).sum();
            (
                segments * same * connection.payload_bits / 8.0,
                of_streams().map(|run| run.seconds).fold(0.0, f64::max),
            )
        });
        Transfer { runs: runs.collect(), bounds: None, source: streams[0].source.clone() }
    }

    /// Streams that fill their link: what they carry with synchronised losses, and the interval to losses one at a time.
    fn parallel(
        &self,
        connection: &Connection,
        bytes: Option<f64>,
        sending_s: f64,
    ) -> Option<Transfer> {
        let segments = |bytes: f64| Until::Segments(bytes * 8.0 / connection.payload_bits);
        let until = bytes.map_or(Until::Seconds(sending_s), segments);
        let of = |until| forms::parallel(connection, self.streams, until);
        let [low, high] = of(until)?;
        let cut_off = |n: usize, answer: Answer| {
            cut(answer, sending_s, |until| of(until).expect("the same form")[n].clone())
        };
        let payload = connection.payload_bits / 8.0;
        let [low, high] = [cut_off(0, low), cut_off(1, high)].map(|answer| {
            (answer.runs[0].segments * payload, answer.runs[0].seconds, answer.source)
        });
        Some(Transfer {
            runs: vec![(low.0, low.1)],
            bounds: Some([(low.0, low.1), (high.0, high.1)]),
            source: low.2,
        })
    }
}

/// Files that take longer are cut off.
fn cut(answer: Answer, sending_s: f64, deliver: impl Fn(Until) -> Answer) -> Answer {
    if answer.runs.iter().all(|run| run.seconds <= sending_s) {
        return answer;
    }
    let cut = deliver(Until::Seconds(sending_s));
    let either = |(n, run): (usize, Delivered)| {
        if run.seconds <= sending_s { run } else { cut.runs[n % cut.runs.len()] }
    };
    Answer {
        runs: answer.runs.into_iter().enumerate().map(either).collect(),
        source: answer.source,
    }
}

/// The redirects before the data, each a connection of its own from the client.
fn redirects_s(run: &Run, routes: &Routes, flow: &Flow) -> f64 {
    if flow.via.is_empty() || flow.site {
        return 0.0;
    }
    let depots = match flow.signalling {
        Signalling::Fetch => 0,
        Signalling::Lead => flow.via.len() - 1,
    };
    let from = std::iter::once(&flow.from).chain(&flow.via[..depots]);
    from.map(|from| 2.0 * hop::round_trip_s(run, routes, from, &flow.to)).sum()
}

impl Transfer {
    /// Mean goodput in bit/s: what is delivered on average over the average time.
    pub fn mean_bps(&self) -> f64 {
        let (bytes, seconds) = self.mean();
        bytes * 8.0 / seconds
    }

    /// The share of the sequences of losses in which all of a file of `bytes` arrives.
    pub fn whole_share(&self, bytes: f64) -> f64 {
        let whole =
            self.runs.iter().filter(|(delivered, _)| *delivered >= bytes * (1.0 - 1e-9)).count();
        whole as f64 / self.runs.len() as f64
    }

    /// Mean bytes and seconds.
    pub fn mean(&self) -> (f64, f64) {
        let n = self.runs.len() as f64;
        let sum =
            self.runs.iter().fold((0.0, 0.0), |(b, s), (bytes, seconds)| (b + bytes, s + seconds));
        (sum.0 / n, sum.1 / n)
    }

    /// The goodputs between which 95 of 100 sequences of random losses lie, or the bounds of a form that has two; else
    /// none.
    pub fn interval_bps(&self) -> Option<(f64, f64)> {
        if let Some([low, high]) = self.bounds {
            return Some((low.0 * 8.0 / low.1, high.0 * 8.0 / high.1));
        }
        if self.runs.len() < 2 {
            return None;
        }
        let mut of_runs: Vec<f64> =
            self.runs.iter().map(|(bytes, seconds)| bytes * 8.0 / seconds).collect();
        of_runs.sort_by(f64::total_cmp);
        let at = |share: f64| of_runs[((of_runs.len() - 1) as f64 * share).round() as usize];
        Some((at(0.025), at(0.975)))
    }
}
