// SPDX-License-Identifier: GPL-2.0-or-later
//! `[[traffic]]` and `[[background]]`.

use super::{
    count::{Copies, Numbered},
    values::{
        CcName, Fraction, Headings, Names, ParetoShape, PerSecond, PositiveBytes, PositiveDuration,
        SourceKind,
    },
};
use crate::{
    diagnostics::Location,
    fields::{Fields, Located, Name, Pattern, Whole},
    run::{FileSize, Heading, Source},
};
use units::{Bytes, Duration, Rate};

#[derive(Debug, Clone)]
pub(crate) struct TrafficSpec {
    pub location: Location,
    pub name: Pattern,
    pub from: Located<Pattern>,
    pub to: Located<Pattern>,
    pub cc: Option<String>,
    pub start: Duration,
    pub jitter: Duration,
    pub source: SourceSpec,
}

/// A source whose packets may still have to be fitted to its path.
#[derive(Debug, Clone)]
pub(crate) enum SourceSpec {
    Cbr { rate: Rate, packet: Option<Located<u32>> },
    OverTcp(Source),
}

/// Traffic in proportion to the rate of a link.
#[derive(Debug)]
pub(crate) struct BackgroundSpec {
    pub location: Location,
    pub name: String,
    pub link: Located<Name>,
    pub from: Vec<Located<Name>>,
    pub to: Vec<Located<Name>>,
    pub headings: &'static [Heading],
    pub share: f64,
    pub mix: Mix,
    pub cc: Option<String>,
    /// Of each kind in each direction.
    pub sources: u32,
    pub start: Duration,
    pub jitter: Duration,
    pub packet: Option<Located<u32>>,
    pub ftp: FileSize,
    pub web: FileSize,
}

/// Parts of background traffic, which are 1 together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mix {
    pub cbr: f64,
    pub ftp: f64,
    pub web: f64,
}

impl Mix {
    /// Paper 002, section 5.
    const DEFAULT: Self = Self { cbr: 0.20, ftp: 0.24, web: 0.56 };
}

impl Numbered for TrafficSpec {
    fn number(&mut self, number: &str) {
        self.name.number(number);
        self.from.number(number);
        self.to.number(number);
    }
}

/// From IPv4's and UDP's headers alone to the largest packet of a link.
type Packet = Whole<28, 65_521>;

pub(super) fn traffic(mut fields: Fields<'_>) -> Option<Vec<TrafficSpec>> {
    let name: Option<Pattern> = fields.required("name");
    let copies = Copies::read(&mut fields, name.as_ref());
    let from = fields.required("from");
    let to = fields.required("to");
    let cc = fields.optional("cc").map(|CcName(name)| name);
    let start = fields.or("start", Duration::ZERO);
    let jitter = fields.or("jitter", Duration::ZERO);
    let kind: Option<SourceKind> = fields.required("kind");
    let source = match kind {
        None => {
            // Which of these belong is known only with the kind.
            fields.allow(&[
                "rate",
                "packet",
                "on",
                "off",
                "load",
                "per_second",
                "mean",
                "shape",
                "most",
                "size",
            ]);
            None
        }
        Some(SourceKind::Cbr) => {
            let packet = packet(&mut fields);
            fields.required("rate").map(|rate| SourceSpec::Cbr { rate, packet })
        }
        Some(SourceKind::OnOff) => on_off(&mut fields).map(SourceSpec::OverTcp),
        Some(SourceKind::Web) => {
            let size = web(&mut fields);
            files(&mut fields, size).map(SourceSpec::OverTcp)
        }
        Some(SourceKind::Ftp) => {
            let size = Some(ftp(&mut fields));
            files(&mut fields, size).map(SourceSpec::OverTcp)
        }
    };
    let location = fields.location().clone();
    fields.finish();
    let (name, from, to, source) = (name?, from?, to?, source?);
    Some(copies?.of(TrafficSpec { location, name, from, to, cc, start, jitter, source }))
}

fn packet(fields: &mut Fields<'_>) -> Option<Located<u32>> {
    let packet: Located<Packet> = fields.optional("packet")?;
    Some(Located { location: packet.location, value: packet.value.0 as u32 })
}

fn on_off(fields: &mut Fields<'_>) -> Option<Source> {
    let on = fields.required("on");
    let off = fields.required("off").map(|PositiveDuration(off)| off);
    Some(Source::OnOff { on: on?, off: off? })
}

fn ftp(fields: &mut Fields<'_>) -> FileSize {
    FileSize::Fixed(fields.or("size", PositiveBytes(Bytes::new(10 << 20))).0)
}

fn web(fields: &mut Fields<'_>) -> Option<FileSize> {
    let mean = fields.or("mean", PositiveBytes(Bytes::new(12 << 10))).0;
    let shape = fields.or("shape", ParetoShape(1.2)).0;
    let most = fields.or("most", PositiveBytes(Bytes::new(100 << 20))).0;
    if mean >= most {
        let location = ["mean", "most"].into_iter().find_map(|key| fields.table().get(key));
        let location = location.map_or_else(|| fields.location().clone(), |v| v.location.clone());
        fields.report(&location, &format!("the mean size, {mean}, is not below the most, {most}"));
        return None;
    }
    Some(FileSize::Pareto { mean, shape, most })
}

fn files(fields: &mut Fields<'_>, size: Option<FileSize>) -> Option<Source> {
    let load: Option<Rate> = fields.optional("load");
    let per_second = fields.optional("per_second").map(|PerSecond(n)| n);
    let given = ["load", "per_second"].map(|key| fields.table().get(key).is_some());
    if given[0] == given[1] {
        fields.report(fields.location(), "exactly one of \"load\" and \"per_second\" is expected");
        return None;
    }
    let size = size?;
    let per_second = per_second.or_else(|| Some(arrivals(load?.bps() as f64, size)))?;
    Some(Source::Files { per_second, size })
}

/// Files per second that make a load of `load_bps` bit/s together.
pub(crate) fn arrivals(load_bps: f64, size: FileSize) -> f64 {
    load_bps / (size.mean().get() as f64 * 8.0)
}

pub(super) fn background(mut fields: Fields<'_>) -> Option<BackgroundSpec> {
    let name: Option<Name> = fields.required("name");
    let link = fields.required("link");
    let from = fields.required("from").map(|Names(names)| names);
    let to = fields.required("to").map(|Names(names)| names);
    let share: Option<Fraction> = fields.required("share");
    let headings = fields.or("directions", Headings::BOTH).0;
    let mix = mix(&mut fields);
    let cc = fields.optional("cc").map(|CcName(name)| name);
    let sides = [&from, &to].map(|side: &Option<Vec<_>>| side.as_ref().map_or(1, Vec::len));
    let sources = fields.or("sources", Whole::<1, 1000>(sides[0].max(sides[1]) as u64)).0 as u32;
    let start = fields.or("start", Duration::ZERO);
    let jitter = fields.or("jitter", Duration::ZERO);
    let packet = packet(&mut fields);
    let ftp = ftp(&mut fields);
    let web = web(&mut fields);
    let location = fields.location().clone();
    fields.finish();
    let share = share?.0;
    Some(BackgroundSpec {
        location,
        name: name?.0,
        link: link?,
        from: from?,
        to: to?,
        headings,
        share,
        mix,
        cc,
        sources,
        start,
        jitter,
        packet,
        ftp,
        web: web?,
    })
}

fn mix(fields: &mut Fields<'_>) -> Mix {
    let Some(mut parts) = fields.section("mix") else { return Mix::DEFAULT };
    let mut part = |key| parts.or(key, Fraction(0.0)).0;
    let mix = Mix { cbr: part("cbr"), ftp: part("ftp"), web: part("web") };
    let sum = mix.cbr + mix.ftp + mix.web;
    let is_whole = parts.table().entries().any(|e| e.value.is_broken()) || (sum - 1.0).abs() < 1e-9;
    if !is_whole {
        let percent = (sum * 1e6).round() / 1e4;
        parts.report(
            parts.location(),
            &format!("cbr, ftp and web are {percent} % together, not 100 %"),
        );
    }
    parts.finish();
    mix
}
