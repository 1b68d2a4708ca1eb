// SPDX-License-Identifier: GPL-2.0-or-later
//! Requests: headers, redirects, credentials, and what a status means.
//!
//! Each request starts at the URL that the user gave, since redirects into chains of depots carry tickets that expire.
//! Credentials go only to the origin that they were given for.

use crate::{
    Error, Options,
    addresses::Addresses,
    answer::Answer,
    error::Trouble,
    name::without_credentials,
    text::printable,
    way::{Ways, strip_credentials},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt;
use hyper_util::client::legacy::connect::HttpInfo;
use limits::DepotReceipt;
use percent_encoding::{CONTROLS, percent_decode_str, percent_encode};
use protocol::{
    MAX_DEPOTS,
    http::{
        receipt::{self, MAX_RECEIPT_BODY, RECEIPTS},
        stripes::Token,
    },
};
use reqwest::{Body, Client, RequestBuilder, Response, Url, redirect::Policy};
use route::Chooser;
use rustix::rand::{GetRandomFlags, getrandom};
use std::{
    env,
    pin::pin,
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::time::timeout;

const MAX_REDIRECTS: usize = 10;
const MAX_FIELDS: usize = 128;
/// How much of an error's text is read and shown.
const MAX_DETAIL: usize = 200;
/// After this time without an answer, another address of the same name is asked, too.
const SILENCE: Duration = Duration::from_secs(5);
/// How long the depots may take to tell what limited a transfer that is over.
const RECEIPT_TIME: Duration = Duration::from_secs(5);
/// How long an error's text is waited for.
const DETAIL_TIME: Duration = Duration::from_secs(2);

/// Where a file is asked for.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// As asked for, without credentials.
    pub shown: String,
    /// The file's own URL, without credentials.
    url: Url,
    credentials: Option<(String, String)>,
    /// By which it is asked for.
    pub ways: Ways,
}

impl Target {
    pub(crate) async fn new(
        url: &str,
        options: &Options,
        chooser: &dyn Chooser,
        bytes: Option<units::Bytes>,
    ) -> Result<Self, Error> {
        let refused = |why: &str| {
            Error::Usage(format!("{}: {why}", printable(&without_credentials(url), 200)))
        };
        let mut parsed: Url = url
            .parse()
            .map_err(|error| Error::Usage(format!("{}: {error}", printable(url, 200))))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(refused("only http and https URLs can be transferred"));
        }
        parsed.set_fragment(None);
        let (table, downgrade) = (&options.routes, options.allow_downgrade);
        let mut ways = Ways::to(&parsed, table, chooser, bytes, downgrade).await?;
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let credentials = (!parsed.username().is_empty() || parsed.password().is_some())
            .then(|| (decoded(parsed.username()), decoded(parsed.password().unwrap_or_default())));
        strip_credentials(&mut parsed);
        ways.strip_credentials();
        Ok(Self { shown: parsed.to_string(), url: parsed, credentials, ways })
    }

    /// The credentials, if this is the origin that they were given for.
    fn credentials_for(&self, url: &Url) -> Option<&(String, String)> {
        self.credentials.as_ref().filter(|_| url.origin() == self.url.origin())
    }
}

/// The requested part of a file.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted<'a> {
    pub head_only: bool,
    /// The first byte, and the one after the last.
    pub range: Option<(u64, Option<u64>)>,
    /// The validator for `If-Range`.
    pub validator: Option<&'a str>,
}

/// Sends requests.
#[derive(Debug)]
pub(crate) struct Http {
    client: Client,
    addresses: Addresses,
    allow_downgrade: bool,
    receipts: bool,
    silence: Duration,
    patience: Duration,
}

impl Http {
    pub(crate) fn new(options: &Options) -> Result<Self, Error> {
        let addresses = Addresses::default();
        let builder = Client::builder()
            .dns_resolver(Arc::new(addresses.clone()))
            .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .referer(false)
            .retry(reqwest::retry::never())
            .http1_only()
            .http1_max_headers(MAX_FIELDS)
            .tcp_nodelay(true)
            .connect_timeout(options.connect_timeout);
        let direct = !options.proxy_from_environment || excludes_all();
        let builder = if direct { builder.no_proxy() } else { builder };
        let builder = match &options.ca {
            Some(file) => {
                let pem = std::fs::read(file).map_err(|e| Error::file("read", file, e))?;
                let unusable = |why: &str| {
                    Error::Usage(format!("{}: no usable certificates: {why}", file.display()))
                };
                let certificates = reqwest::Certificate::from_pem_bundle(&pem)
                    .map_err(|error| unusable(&error.to_string()))?;
                if certificates.is_empty() {
                    return Err(unusable("it holds none in PEM"));
                }
                builder.tls_certs_merge(certificates)
            }
            None => builder,
        };
        let client =
            builder.build().map_err(|error| Error::connection("cannot set up HTTP", &error))?;
        Ok(Self {
            client,
            addresses,
            allow_downgrade: options.allow_downgrade,
            receipts: options.receipts,
            silence: options.connect_timeout.min(SILENCE),
            patience: options.connect_timeout + options.stall_time,
        })
    }

    /// Asks for a file, and follows redirects.
    pub(crate) async fn get(
        &self,
        target: &Target,
        wanted: Wanted<'_>,
    ) -> Result<(Answer, Body), Trouble> {
        let method = if wanted.head_only { Method::HEAD } else { Method::GET };
        let mut url = target.ways.start().clone();
        for _ in 0..=MAX_REDIRECTS {
            let request = self.client.request(method.clone(), url.clone());
            let mut request = with_credentials(request, target, &url).headers(get_headers(wanted));
            let token = self.receipt_token(&url);
            if let Some(token) = token {
                let (name, value) = receipt::want(token);
                request = request.header(name, value);
            }
            let response = self.send(request, &url).await?;
            if let Some(next) = redirection(&response, &url)? {
                url = self.follow(&url, next)?;
                continue;
            }
            let promised = token.filter(|_| is_promised(&response));
            let (mut answer, body) = read(response)?;
            answer.receipts =
                promised.and_then(|token| url.join(&format!("{RECEIPTS}{token}")).ok());
            return Ok((answer, body));
        }
        Err(Error::Redirect(format!("more than {MAX_REDIRECTS} redirects")).into())
    }

    /// A token for a receipt, if depots are to be asked for one and this is a request to a depot. Without random bytes
    /// there is none.
    fn receipt_token(&self, url: &Url) -> Option<Token> {
        let is_route = ["/lh1/fetch/", "/lh1/lead/", "/lh2/"]
            .iter()
            .any(|prefix| url.path().starts_with(prefix));
        if !self.receipts || !is_route {
            return None;
        }
        let mut token = [0; 16];
        let filled = getrandom(&mut token, GetRandomFlags::NONBLOCK);
        filled.is_ok_and(|length| length == token.len()).then_some(Token(token))
    }

    /// The receipts of the depots of a transfer, the nearest first; none where they do not tell in time.
    pub(crate) async fn receipts(&self, url: &Url) -> Vec<DepotReceipt> {
        let read = async {
            let response = self.client.get(url.clone()).send().await.ok()?;
            if response.status() != StatusCode::OK {
                return None;
            }
            let mut body: Body = http::Response::from(response).into_body();
            let mut text = Vec::new();
            while let Some(frame) = body.frame().await {
                text.extend_from_slice(&frame.ok()?.into_data().unwrap_or_default());
                if text.len() > MAX_RECEIPT_BODY {
                    return None;
                }
            }
            let receipts: Vec<DepotReceipt> = serde_json::from_slice(&text).ok()?;
            let sound = receipts.len() <= MAX_DEPOTS && receipts.iter().all(DepotReceipt::is_sound);
            sound.then_some(receipts)
        };
        timeout(RECEIPT_TIME, read).await.ok().flatten().unwrap_or_default()
    }

    /// Sends a request of an upload, once.
    pub(crate) fn put(&self, target: &Target, url: &Url) -> RequestBuilder {
        with_credentials(self.client.request(Method::PUT, url.clone()), target, url)
    }

    pub(crate) fn start(target: &Target) -> Url {
        target.ways.start().clone()
    }

    /// Sends a request without a body. If nothing answers for a while, another address of the name is asked at the same
    /// time: one may accept connections and stay silent.
    async fn send(&self, request: RequestBuilder, url: &Url) -> Result<Response, Trouble> {
        let name = url.host_str().unwrap_or_default();
        let second = request.try_clone();
        let ended = timeout(self.patience, async {
            let mut first = pin!(request.send());
            if let Ok(answer) = timeout(self.silence, &mut first).await {
                return answer;
            }
            let Some(second) = second.filter(|_| self.addresses.blame(name)) else {
                return first.await;
            };
            let mut second = pin!(second.send());
            tokio::select! {
                answer = &mut first => if answer.is_ok() { answer } else { second.await },
                answer = &mut second => if answer.is_ok() { answer } else { first.await },
            }
        });
        let asked = host(url);
        match ended.await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => {
                self.addresses.blame(name);
                Err(failed(&asked, &error))
            }
            Err(_) => {
                self.addresses.blame(name);
                Err(Trouble::retry(Error::Stalled(format!("{asked} does not answer"))))
            }
        }
    }

    /// The server of this URL failed after it had accepted a connection: other addresses of its name are tried first.
    pub(crate) fn blame(&self, url: &Url) {
        self.addresses.blame(url.host_str().unwrap_or_default());
    }

    /// Where a redirect leads, if it may be followed.
    pub(crate) fn follow(&self, from: &Url, mut to: Url) -> Result<Url, Trouble> {
        let shown = printable(to.as_str(), 200);
        if !matches!(to.scheme(), "http" | "https") {
            return Err(
                Error::Redirect(format!("a redirect leads to {shown}, which is not HTTP")).into()
            );
        }
        if from.scheme() == "https" && to.scheme() == "http" && !self.allow_downgrade {
            return Err(Error::Redirect(format!(
                "a redirect leads from https to {shown}. To follow it: --allow-downgrade"
            ))
            .into());
        }
        strip_credentials(&mut to);
        to.set_fragment(None);
        Ok(to)
    }
}

fn with_credentials(request: RequestBuilder, target: &Target, url: &Url) -> RequestBuilder {
    match target.credentials_for(url) {
        Some((user, password)) => request.basic_auth(user, Some(password)),
        None => request,
    }
}

fn get_headers(wanted: Wanted<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let fixed = |text| HeaderValue::from_static(text);
    headers.insert(header::ACCEPT_ENCODING, fixed("identity"));
    headers.insert("want-repr-digest", fixed("sha-256=10"));
    // A depot or server that makes the digest as bytes pass sends it behind them.
    headers.insert(header::TE, fixed("trailers"));
    headers.insert(header::CONNECTION, fixed("TE"));
    if let Some((start, end)) = wanted.range {
        let last = end.map_or(String::new(), |end| end.saturating_sub(1).to_string());
        let range = HeaderValue::try_from(format!("bytes={start}-{last}"));
        headers.insert(header::RANGE, range.expect("digits"));
        if let Some(validator) = wanted.validator.and_then(|v| HeaderValue::try_from(v).ok()) {
            headers.insert(header::IF_RANGE, validator);
        }
    }
    headers
}

/// Host and port, for messages.
pub(crate) fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map_or(String::new(), |port| format!(":{port}"));
    printable(&format!("{host}{port}"), 100)
}

/// A request that got no answer. A certificate that is not accepted will not be later either.
pub(crate) fn failed(asked: &str, error: &reqwest::Error) -> Trouble {
    let text = Error::connection(asked, error);
    if text.to_string().contains("certificate") || error.is_builder() {
        return Trouble::OtherWay(text);
    }
    Trouble::retry(text)
}

/// Where a response redirects to.
pub(crate) fn redirection(response: &Response, url: &Url) -> Result<Option<Url>, Trouble> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let location = response.headers().get(header::LOCATION).map(reference);
    let location = location.and_then(|location| url.join(&location).ok());
    let missing = || Error::Redirect(format!("{} redirects to no usable address", host(url)));
    location.map(Some).ok_or_else(|| missing().into())
}

/// The text of a reference. Bytes that are no UTF-8 are percent-encoded, as browsers do.
fn reference(value: &HeaderValue) -> String {
    let bytes = value.as_bytes();
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => percent_encode(bytes, CONTROLS).to_string(),
    }
}

/// Whether `NO_PROXY` is or lists `*`, which excludes every host, also one that is an address.
fn excludes_all() -> bool {
    let list = env::var("NO_PROXY").or_else(|_| env::var("no_proxy")).unwrap_or_default();
    list.split(',').any(|entry| entry.trim() == "*")
}

/// Whether a depot promises a receipt.
fn is_promised(response: &Response) -> bool {
    let fields = response.headers().iter().map(|(name, value)| (name.clone(), value.clone()));
    receipt::is_promised(&fields.collect())
}

fn read(response: Response) -> Result<(Answer, Body), Trouble> {
    let mut answer = Answer::read(response.status(), response.headers(), SystemTime::now())
        .map_err(|why| Trouble::Final(Error::Answer(why)))?;
    answer.sender = Some(response.url().clone());
    let connection = response.extensions().get::<HttpInfo>();
    answer.sockets = connection.map(|it| (it.local_addr(), it.remote_addr()));
    Ok((answer, http::Response::from(response).into_body()))
}

/// How to react to an unexpected status.
pub(crate) async fn refusal(answer: &Answer, body: Body) -> Trouble {
    let status = answer.status;
    let detail = detail(body).await;
    let error = Error::Status { status, detail };
    let passing = matches!(
        status,
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS
    );
    if passing || status.is_server_error() {
        Trouble::Retry(error, answer.retry_after)
    } else if answer.is_of_proxy {
        Trouble::OtherWay(error)
    } else {
        Trouble::Final(error)
    }
}

/// The start of an error's text: its first line with letters, without markup, printable.
pub(crate) async fn detail(mut body: Body) -> String {
    let mut text = Vec::new();
    let read = async {
        while let Some(Ok(frame)) = body.frame().await {
            text.extend(frame.into_data().unwrap_or_default().iter().take(MAX_DETAIL * 4));
            if text.len() >= MAX_DETAIL * 4 {
                break;
            }
        }
    };
    // What has come until then will do.
    let _ = timeout(DETAIL_TIME, read).await;
    detail_text(&Bytes::from(text))
}

fn detail_text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.trim_start().starts_with('<') {
        return String::new();
    }
    let words: Vec<_> = text.split_whitespace().collect();
    let mut text = printable(&words.join(" "), MAX_DETAIL);
    while text.len() > MAX_DETAIL {
        text.pop();
    }
    if text.is_empty() { text } else { format!(": {text}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use route::AsWritten;
    use std::sync::Arc;

    #[test]
    fn error_text_is_short_and_printable() {
        assert_eq!(detail_text(b"no\x1b[2J\r\n such  file\n"), ": no?[2J such file");
        assert_eq!(detail_text(b" <html>x"), "");
        assert_eq!(detail_text(b""), "");
        assert!(detail_text("\u{e9}".repeat(400).as_bytes()).len() <= MAX_DETAIL + 2);
    }

    #[test]
    fn locations_of_any_encoding_are_read() {
        let base: Url = "http://h/d/".parse().unwrap();
        for (bytes, led) in [
            (&b"caf\xc3\xa9?q=\xc3\xa9"[..], "http://h/d/caf%C3%A9?q=%C3%A9"),
            (b"/caf\xe9?q=\xe9", "http://h/caf%E9?q=%E9"),
            (b"//b\xc3\xbc.example/x", "http://xn--b-eha.example/x"),
            (b"/a%20b", "http://h/a%20b"),
        ] {
            let value = HeaderValue::from_bytes(bytes).unwrap();
            assert_eq!(base.join(&reference(&value)).unwrap().as_str(), led);
        }
    }

    #[tokio::test]
    async fn credentials_stay_with_their_origin() {
        let options = Options::default();
        let chooser = AsWritten::new(Arc::default(), Duration::ZERO);
        let target = Target::new("http://u%40x:p@h:81/f#x", &options, &chooser, None);
        let target = target.await.unwrap();
        assert_eq!(target.shown, "http://h:81/f");
        let given = |url: &str| target.credentials_for(&url.parse().unwrap()).is_some();
        assert_eq!(target.credentials, Some(("u@x".to_owned(), "p".to_owned())));
        assert!(given("http://h:81/else"));
        for url in ["https://h:81/f", "http://h/f", "http://h.x:81/f"] {
            assert!(!given(url), "{url}");
        }
    }

    #[test]
    fn redirects_keep_to_http_and_tls() {
        let http = Http::new(&Options::default()).unwrap();
        let from: Url = "https://a/".parse().unwrap();
        let follow = |to: &str| http.follow(&from, to.parse().unwrap());
        assert!(follow("http://a/").is_err());
        assert!(follow("file:///etc/passwd").is_err());
        assert_eq!(follow("https://u:p@b/#x").unwrap().as_str(), "https://b/");
    }
}
