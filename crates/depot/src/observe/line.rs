// SPDX-License-Identifier: GPL-2.0-or-later
//! One line about one request, as text or as JSON: the same fields under the same names.

use super::{
    Outcome,
    status::{Side, Tcp},
};
use serde::Serialize;
use serde_json::{Map, Value};
use std::{fmt::Write, net::SocketAddr, time::SystemTime};
use tracing::Level;

/// What is said of a request at its end. What is not known is left out.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    /// When it ended.
    pub time: SystemTime,
    /// How loudly it is said.
    pub level: Level,
    /// How it ended.
    pub outcome: Outcome,
    /// The same in words.
    pub words: String,
    /// The rest.
    pub fields: Fields<'a>,
}

/// A line's fields, in their order.
#[derive(Debug, Serialize)]
pub(crate) struct Fields<'a> {
    pub client: SocketAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a str>,
    pub bytes: u64,
    pub sent_bytes: u64,
    pub seconds: f64,
    pub rate_bps: u64,
    pub relay: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<&'a str>,
    /// [`figures`] of both sides.
    #[serde(flatten)]
    pub figures: Map<String, Value>,
}

/// What the kernel says of both sockets, each under names of its own, so that a line is flat.
pub(crate) fn figures(client: Option<&Tcp>, upstream: Option<&Tcp>) -> Map<String, Value> {
    let sides = [(Side::Client, client), (Side::Upstream, upstream)];
    let known = sides.into_iter().filter_map(|(side, tcp)| Some((side, tcp?)));
    let all = known.flat_map(|(side, tcp)| {
        let figures: [(&str, Value); 10] = [
            ("cc", tcp.congestion.as_str().into()),
            ("rtt_us", tcp.rtt_us.into()),
            ("min_rtt_us", tcp.min_rtt_us.into()),
            ("retransmits", tcp.retransmitted_segments.into()),
            ("cwnd_bytes", tcp.cwnd_bytes.into()),
            ("sndbuf_bytes", tcp.sndbuf_bytes.into()),
            ("rcvbuf_bytes", tcp.rcvbuf_bytes.into()),
            ("pacing_bps", tcp.pacing_bps.into()),
            ("notsent_lowat_bytes", tcp.notsent_lowat_bytes.into()),
            ("mptcp", tcp.mptcp.then_some(true).into()),
        ];
        figures.map(|(name, value)| (format!("{side}_{name}"), value))
    });
    all.filter(|(_, value)| !value.is_null()).collect()
}

/// A line of JSON has what stands before the fields of one of text among them.
#[derive(Serialize)]
struct Json<'a> {
    time: String,
    level: &'a str,
    outcome: &'a str,
    message: &'a str,
    #[serde(flatten)]
    fields: &'a Fields<'a>,
}

impl Line<'_> {
    /// Whether standard error takes lines as loud as this one.
    pub(crate) fn is_wanted(&self) -> bool {
        match self.level {
            Level::DEBUG => tracing::enabled!(Level::DEBUG),
            Level::INFO => tracing::enabled!(Level::INFO),
            _ => tracing::enabled!(Level::WARN),
        }
    }

    /// Writes it to standard error by way of `tracing`, which adds time and level.
    pub(crate) fn trace(&self) {
        if !self.is_wanted() {
            return;
        }
        let text = self.said();
        match self.level {
            Level::DEBUG => tracing::debug!("{text}"),
            Level::INFO => tracing::info!("{text}"),
            _ => tracing::warn!("{text}"),
        }
    }

    /// A line of text, in the form of those on standard error.
    pub(crate) fn text(&self) -> String {
        format!("{} {:>5} {}", self.time(), self.level.as_str(), self.said())
    }

    /// A line of JSON.
    pub(crate) fn json(&self) -> String {
        let level = self.level.as_str().to_ascii_lowercase();
        let json = Json {
            time: self.time(),
            level: &level,
            outcome: self.outcome.token(),
            message: &self.words,
            fields: &self.fields,
        };
        serde_json::to_string(&json).expect("names and numbers are JSON")
    }

    fn time(&self) -> String {
        humantime::format_rfc3339_micros(self.time).to_string()
    }

    /// How it ended, and the fields.
    fn said(&self) -> String {
        let mut text = self.words.clone();
        let fields = serde_json::to_value(&self.fields).expect("names and numbers are JSON");
        for (key, value) in fields.as_object().into_iter().flatten() {
            // Strings as tracing has them: quoted, and no control character as itself.
            let written = match value {
                Value::String(string) => write!(text, " {key}={string:?}"),
                other => write!(text, " {key}={other}"),
            };
            written.expect("a string takes everything");
        }
        text
    }
}

#[cfg(test)]
impl Line<'_> {
    /// A line to be tried out with.
    pub(crate) fn example() -> Self {
        Line {
            time: SystemTime::UNIX_EPOCH,
            level: Level::INFO,
            outcome: Outcome::Complete,
            words: "complete".into(),
            fields: Fields {
                client: "192.0.2.1:5".parse().unwrap(),
                upstream: Some("o:80"),
                to: None,
                method: Some("GET"),
                target: Some("/a\"\u{9b}"),
                status: Some(200),
                error: None,
                bytes: 10,
                sent_bytes: 0,
                seconds: 0.5,
                rate_bps: 160,
                relay: "splice",
                digest: None,
                figures: figures(
                    None,
                    Some(&Tcp {
                        congestion: "bbr".into(),
                        rtt_us: 7,
                        min_rtt_us: None,
                        cwnd_bytes: 14_480,
                        delivery_rate_bps: None,
                        retransmitted_segments: 0,
                        sndbuf_bytes: 1,
                        rcvbuf_bytes: 2,
                        pacing_bps: None,
                        notsent_lowat_bytes: None,
                        mptcp: false,
                    }),
                ),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_json_have_the_same_fields() {
        let line = Line::example();
        assert_eq!(
            line.text(),
            "1970-01-01T00:00:00.000000Z  INFO complete client=\"192.0.2.1:5\" upstream=\"o:80\" \
             method=\"GET\" target=\"/a\\\"\\u{9b}\" status=200 bytes=10 sent_bytes=0 seconds=0.5 \
             rate_bps=160 relay=\"splice\" upstream_cc=\"bbr\" upstream_rtt_us=7 \
             upstream_retransmits=0 upstream_cwnd_bytes=14480 upstream_sndbuf_bytes=1 \
             upstream_rcvbuf_bytes=2"
        );
        let json: Value = serde_json::from_str(&line.json()).unwrap();
        assert_eq!(json["time"], "1970-01-01T00:00:00.000000Z");
        assert_eq!((&json["level"], &json["outcome"]), (&"info".into(), &"complete".into()));
        assert_eq!(json["target"], "/a\"\u{9b}");
        assert_eq!(json["upstream_rtt_us"], 7);
        assert!(json.get("client_cc").is_none() && json.get("error").is_none());
        assert!(!line.json().contains('\n'));
    }
}
