// SPDX-License-Identifier: GPL-2.0-or-later
//! One line about one request, as text or as JSON: the same fields under the same names.

use super::{
    UsedTicket,
    status::{Tcp, TransferLimit},
};
use protocol::Authority;
use std::{
    borrow::Cow,
    fmt::Write,
    net::{IpAddr, SocketAddr},
    time::SystemTime,
};
use tracing::Level;
use units::text::Escaped;

/// Room for most lines.
const CAPACITY: usize = 768;

/// The log line of a request at its end, and of a long transfer soon after its start. Unknown fields are left
/// out.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    /// When that was.
    pub time: SystemTime,
    /// Its log level.
    pub level: Level,
    /// The word for how it ended.
    pub outcome: &'static str,
    /// The same in words of the depot's own.
    pub words: &'a str,
    /// Why, in words of which others have written a part: in a line of text they must not look like fields.
    pub reason: Option<&'a str>,
    /// The rest.
    pub fields: Fields<'a>,
}

/// A line's fields, in their order.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    pub client: SocketAddr,
    /// The client that asked the first depot of a chain.
    pub asked_for: Option<IpAddr>,
    /// The request's name, the same at all depots of a chain that trust each other.
    pub request: Option<&'a str>,
    /// The session's name.
    pub session: Option<&'a str>,
    /// The ticket.
    pub ticket: Option<&'a UsedTicket>,
    /// The user of the proxy.
    pub user: Option<&'a str>,
    /// What is at the end of the route.
    pub url: Option<&'a str>,
    /// The site's name.
    pub site: Option<&'a str>,
    pub upstream: Option<&'a str>,
    pub to: Option<&'a str>,
    pub method: Option<&'a str>,
    pub target: Option<&'a str>,
    pub status: Option<u16>,
    pub error: Option<&'a str>,
    pub bytes: u64,
    pub sent_bytes: u64,
    pub seconds: f64,
    pub rate_bps: u64,
    pub copy: &'static str,
    pub digest: Option<&'a str>,
    /// What has limited it most.
    pub limited_by: Option<TransferLimit>,
    /// What the kernel says of both sockets.
    pub client_tcp: Option<&'a Tcp>,
    pub upstream_tcp: Option<&'a Tcp>,
}

/// The value of a field.
enum Value<'v> {
    Text(&'v str),
    Whole(u64),
    Part(f64),
    Yes,
}

/// A line on its way to be written. Each request has one, so it is put together without anything in
/// between: that would take longer than all else that is done for a short answer.
trait Written {
    /// A field; the sockets' have their side's name before their own, so that a line is flat.
    fn field(&mut self, side: &str, name: &str, value: Value<'_>);

    /// What is not known is left out.
    fn known<'v>(&mut self, name: &str, value: Option<impl Into<Value<'v>>>) {
        if let Some(value) = value {
            self.field("", name, value.into());
        }
    }
}

impl Fields<'_> {
    fn write(&self, line: &mut impl Written) {
        line.field("", "client", Value::Text(&address(self.client)));
        line.known("for", self.asked_for.map(|ip| ip.to_string()).as_deref());
        line.known("request", self.request);
        line.known("session", self.session);
        line.known("ticket", self.ticket.map(|ticket| ticket.id.as_str()));
        line.known("issuer", self.ticket.and_then(|ticket| ticket.issuer.as_deref()));
        line.known("user", self.user);
        line.known("site", self.site);
        line.known("upstream", self.upstream);
        line.known("to", self.to);
        line.known("method", self.method);
        line.known("target", self.target);
        line.known("url", self.url);
        line.known("status", self.status.map(u64::from));
        line.known("error", self.error);
        line.field("", "bytes", self.bytes.into());
        line.field("", "sent_bytes", self.sent_bytes.into());
        line.field("", "seconds", Value::Part(self.seconds));
        line.field("", "rate_bps", self.rate_bps.into());
        line.field("", "copy", self.copy.into());
        line.known("digest", self.digest);
        if let Some(limit) = self.limited_by {
            line.field("", "limited_by", Value::Text(&limit.to_string()));
            line.field("", "limited_share", Value::Part((limit.share * 100.0).round() / 100.0));
        }
        for (side, tcp) in [("client_", self.client_tcp), ("upstream_", self.upstream_tcp)] {
            if let Some(tcp) = tcp {
                tcp.write(side, line);
            }
        }
    }
}

/// An address and a port.
fn address(address: SocketAddr) -> String {
    match address {
        // Which prints faster.
        SocketAddr::V4(_) => Authority::from(address).to_string(),
        // Which may have a scope.
        SocketAddr::V6(_) => address.to_string(),
    }
}

impl Tcp {
    fn write(&self, side: &str, line: &mut impl Written) {
        let several = self.streams > 1 || self.streams_asked.is_some();
        let figures: [(&str, Option<Value<'_>>); 14] = [
            ("cc", Some(self.congestion.as_str().into())),
            ("rtt_us", Some(u64::from(self.rtt_us).into())),
            ("min_rtt_us", self.min_rtt_us.map(|rtt| u64::from(rtt).into())),
            ("retransmits", Some(u64::from(self.retransmitted_segments).into())),
            ("crept_us", (self.crept_us > 0).then_some(self.crept_us.into())),
            ("cwnd_bytes", Some(self.cwnd_bytes.into())),
            ("sndbuf_bytes", Some(self.sndbuf_bytes.into())),
            ("rcvbuf_bytes", Some(self.rcvbuf_bytes.into())),
            ("pacing", self.pacing.as_deref().map(Value::Text)),
            ("pacing_bps", self.pacing_bps.map(Value::Whole)),
            ("notsent_lowat_bytes", self.notsent_lowat_bytes.map(Value::Whole)),
            ("mptcp", self.mptcp.then_some(Value::Yes)),
            ("streams", several.then_some(u64::from(self.streams).into())),
            ("streams_asked", self.streams_asked.map(|asked| u64::from(asked).into())),
        ];
        for (name, value) in figures {
            if let Some(value) = value {
                line.field(side, name, value);
            }
        }
    }
}

impl<'v> From<&'v str> for Value<'v> {
    fn from(text: &'v str) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

/// ` name=value`, strings as `tracing` has them: quoted, and no control character as itself.
struct Text(String);

impl Written for Text {
    fn field(&mut self, side: &str, name: &str, value: Value<'_>) {
        let Self(text) = self;
        text.extend([" ", side, name, "="]);
        let written = match value {
            // `Debug` looks at each character by itself.
            Value::Text(plain) if plain.bytes().all(is_plain) => {
                text.extend(["\"", plain, "\""]);
                Ok(())
            }
            // `Debug` quotes, and leaves few hidden characters.
            Value::Text(string) => write!(text, "{}", Escaped(&format!("{string:?}"))),
            Value::Whole(number) => {
                text.push_str(itoa::Buffer::new().format(number));
                Ok(())
            }
            Value::Part(number) => write!(text, "{number:?}"),
            Value::Yes => write!(text, "true"),
        };
        written.expect("a string takes everything");
    }
}

fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')
}

/// `,"name":value`
struct Json(Vec<u8>);

impl Json {
    fn value(&mut self, value: &impl serde::Serialize) {
        serde_json::to_writer(&mut self.0, value).expect("names and numbers are JSON");
    }
}

impl Written for Json {
    fn field(&mut self, side: &str, name: &str, value: Value<'_>) {
        self.0.push(if self.0.is_empty() { b'{' } else { b',' });
        for part in ["\"", side, name, "\":"] {
            self.0.extend_from_slice(part.as_bytes());
        }
        match value {
            // Most have nothing to escape, which is seen at once.
            Value::Text(plain) if plain.bytes().all(is_plain) => self.value(&plain),
            Value::Text(string) => {
                let mut json = serde_json::to_string(string).expect("a text is JSON");
                if let Cow::Owned(escaped) = units::text::json(&json) {
                    json = escaped;
                }
                self.0.extend_from_slice(json.as_bytes());
            }
            Value::Whole(number) => self.value(&number),
            Value::Part(number) => self.value(&number),
            Value::Yes => self.value(&true),
        }
    }
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

    /// A line of text, in the form of those on standard error.
    pub(crate) fn text(&self) -> String {
        let mut text = Text(String::with_capacity(CAPACITY));
        for part in [&self.time(), padded(self.level), self.words] {
            text.0.push_str(part);
        }
        text.known("reason", self.reason);
        self.fields.write(&mut text);
        text.0
    }

    /// A line of JSON. The part before the fields in the text form is a field here.
    pub(crate) fn json(&self) -> String {
        let mut json = Json(Vec::with_capacity(CAPACITY));
        json.field("", "time", Value::Text(&self.time()));
        json.field("", "level", Value::Text(&self.level.as_str().to_ascii_lowercase()));
        json.field("", "outcome", Value::Text(self.outcome));
        json.field("", "message", Value::Text(&self.message()));
        self.fields.write(&mut json);
        json.0.push(b'}');
        String::from_utf8(json.0).expect("JSON is UTF-8")
    }

    /// The words, and why.
    fn message(&self) -> Cow<'_, str> {
        match self.reason {
            Some(reason) => format!("{}: {reason}", self.words).into(),
            None => self.words.into(),
        }
    }

    fn time(&self) -> String {
        humantime::format_rfc3339_micros(self.time).to_string()
    }
}

/// A level in the midst of a line, as wide as every other.
fn padded(level: Level) -> &'static str {
    match level {
        Level::ERROR => " ERROR ",
        Level::WARN => "  WARN ",
        Level::INFO => "  INFO ",
        Level::DEBUG => " DEBUG ",
        Level::TRACE => " TRACE ",
    }
}

#[cfg(test)]
static EXAMPLE: std::sync::LazyLock<Tcp> = std::sync::LazyLock::new(|| Tcp {
    congestion: "bbr".into(),
    rtt_us: 7,
    min_rtt_us: None,
    cwnd_bytes: 14_480,
    delivery_rate_bps: None,
    retransmitted_segments: 0,
    crept_us: 0,
    sndbuf_bytes: 1,
    rcvbuf_bytes: 2,
    held_bytes: 0,
    pacing: None,
    pacing_bps: None,
    notsent_lowat_bytes: None,
    mptcp: false,
    streams: 1,
    streams_asked: None,
});

#[cfg(test)]
static TICKET: std::sync::LazyLock<UsedTicket> = std::sync::LazyLock::new(|| UsedTicket {
    id: "t1".to_owned(),
    issuer: Some("portal".to_owned()),
    key: "k1".to_owned(),
});

#[cfg(test)]
use super::status::{Cause, Side};

#[cfg(test)]
impl Line<'_> {
    /// A line to be tried out with.
    pub(crate) fn example() -> Self {
        Line {
            time: SystemTime::UNIX_EPOCH,
            level: Level::INFO,
            outcome: "complete",
            words: "complete",
            reason: Some("x\" status=1 client=\"y"),
            fields: Fields {
                client: "192.0.2.1:5".parse().unwrap(),
                asked_for: None,
                request: None,
                session: None,
                ticket: Some(&TICKET),
                user: None,
                url: None,
                site: None,
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
                copy: "splice",
                digest: None,
                limited_by: Some(TransferLimit {
                    side: Side::Client,
                    cause: Cause::StartUp,
                    share: 0.756,
                }),
                client_tcp: None,
                upstream_tcp: Some(&EXAMPLE),
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
            "1970-01-01T00:00:00.000000Z  INFO complete reason=\"x\\\" status=1 client=\\\"y\" client=\"192.0.2.1:5\" ticket=\"t1\" issuer=\"portal\" upstream=\"o:80\" \
             method=\"GET\" target=\"/a\\\"\\u{9b}\" status=200 bytes=10 sent_bytes=0 seconds=0.5 \
             rate_bps=160 copy=\"splice\" limited_by=\"client start-up\" limited_share=0.76 upstream_cc=\"bbr\" upstream_rtt_us=7 \
             upstream_retransmits=0 upstream_cwnd_bytes=14480 upstream_sndbuf_bytes=1 \
             upstream_rcvbuf_bytes=2"
        );
        let json: serde_json::Value = serde_json::from_str(&line.json()).unwrap();
        assert_eq!(json["time"], "1970-01-01T00:00:00.000000Z");
        assert_eq!((&json["level"], &json["outcome"]), (&"info".into(), &"complete".into()));
        assert_eq!(json["target"], "/a\"\u{9b}");
        assert_eq!(json["upstream_rtt_us"], 7);
        assert!(json.get("client_cc").is_none() && json.get("error").is_none());
        assert!(!line.json().contains(units::text::is_hidden), "{}", line.json());
    }

    #[test]
    fn hostile_text_is_escaped_in_every_field() {
        let hostile = "a\n\u{1b}[2J\u{85}\u{9b}\u{61c}\u{2028}\u{2029}\u{202e}\u{2066}\u{feff}\u{7f}\u{e0041}b";
        let mut line = Line::example();
        line.reason = Some(hostile);
        let fields = &mut line.fields;
        for field in [
            &mut fields.request,
            &mut fields.session,
            &mut fields.user,
            &mut fields.url,
            &mut fields.site,
            &mut fields.upstream,
            &mut fields.to,
            &mut fields.method,
            &mut fields.target,
            &mut fields.error,
            &mut fields.digest,
        ] {
            *field = Some(hostile);
        }
        for text in [line.text(), line.json()] {
            assert!(!text.contains(units::text::is_hidden), "{text}");
        }
        let json: serde_json::Value = serde_json::from_str(&line.json()).unwrap();
        for name in ["request", "session", "user", "url", "site", "upstream", "to", "target"] {
            assert_eq!(json[name], hostile, "{name}");
        }
    }
}
