// SPDX-License-Identifier: GPL-2.0-or-later
//! Logins at origins: the client is sent back to the site's own URL, which asks for the login itself.
//!
//! Challenges and cookies end at depots, because all origins share the depot's name there. So a response that asks for
//! a login becomes a redirect to the URL of the route, with the parameter of [`OriginUrl::direct`]. It tells the site not
//! to redirect the client to depots again, and the depot not to send it back again.
//! Limits: a login that comes in another way, such as a page with status 200, is passed on as any response.

use super::{Fault, Fields, Method, ProxyError, RequestHead, ResponseHead};
use crate::origin::OriginUrl;
use http::{HeaderName, HeaderValue, StatusCode, header};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// How often a parameter is decoded in search of the requested path: a URL in a URL is encoded twice.
const DECODED: usize = 3;

/// Fields that say of the login what does not hold for the redirect that replaces it.
static REPLACED: [HeaderName; 4] =
    [header::AGE, header::CACHE_CONTROL, header::EXPIRES, header::LOCATION];

/// The head of an origin's response to a request that came by a route. If the origin asks for a login, it is a redirect
/// to `origin`, the URL of the route, with the body that the response has.
///
/// # Errors
/// The origin answers 401 to a client that has been sent back before (401).
pub fn send_to_login(
    head: ResponseHead,
    request: &RequestHead,
    origin: &OriginUrl,
) -> Result<ResponseHead, Fault> {
    let is_download = matches!(request.method, Method::Get | Method::Head);
    match head.status {
        _ if !is_download => Ok(head),
        StatusCode::UNAUTHORIZED if origin.is_direct() => Err(Fault::new(
            StatusCode::UNAUTHORIZED,
            ProxyError::HttpRequestDenied,
            "the origin asks for a login (401), which does not pass depots, and the client has been sent to it for that \
             before: the site must answer URLs with lh-direct=1 itself, without a redirect to depots",
        )),
        StatusCode::UNAUTHORIZED => Ok(redirected(&head, &origin.direct())),
        StatusCode::FOUND | StatusCode::SEE_OTHER | StatusCode::TEMPORARY_REDIRECT
            if !origin.is_direct() && leads_to_login(&head.headers, origin) =>
        {
            Ok(redirected(&head, &origin.direct()))
        }
        _ => Ok(head),
    }
}

/// The same response as a redirect that no cache keeps. All other fields stay, for those who read them.
fn redirected(head: &ResponseHead, to: &OriginUrl) -> ResponseHead {
    let to = HeaderValue::try_from(to.to_string()).expect("a URL of visible ASCII");
    let own =
        [(header::LOCATION, to), (header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    let came = head.headers.iter().filter(|(name, _)| !REPLACED.contains(name));
    let headers = came.map(|(name, value)| (name.clone(), value.clone())).chain(own).collect();
    let reason = "Found".to_owned();
    ResponseHead { status: StatusCode::FOUND, reason, version: head.version, headers }
}

/// Whether a redirect needs what ends at depots (a cookie), means to lead back to the requested file, or leads from a
/// file to a page, as logins do and mirrors do not.
fn leads_to_login(headers: &Fields, origin: &OriginUrl) -> bool {
    let Some(location) = headers.get(&header::LOCATION) else { return false };
    let location = origin.absolute(&String::from_utf8_lossy(location.as_bytes()));
    let Some((path, query)) = path_and_query(&location) else { return false };
    headers.contains(&header::SET_COOKIE)
        || leads_back(query, origin.path())
        || leads_to_page(path, origin.path())
}

/// Path and query of an absolute URL.
fn path_and_query(url: &str) -> Option<(&str, &str)> {
    let (_, rest) = url.split_once("://")?;
    let rest = rest.split('#').next().unwrap_or_default();
    let target = &rest[rest.find(['/', '?']).unwrap_or(rest.len())..];
    Some(target.split_once('?').unwrap_or((target, "")))
}

/// Whether a parameter of a query is a URL or path of the requested file.
fn leads_back(query: &str, requested: &str) -> bool {
    let plain = percent_decode_str(requested).decode_utf8_lossy();
    let names_requested = |value: &str| {
        let place = value.split(['?', '#']).next().unwrap_or_default();
        place.ends_with(requested) || place.ends_with(&*plain)
    };
    let mut values = query.split('&').filter_map(|parameter| Some(parameter.split_once('=')?.1));
    requested.len() > 1
        && values.any(|value| {
            let mut value = Cow::Borrowed(value);
            (0..DECODED).any(|_| {
                value = percent_decode_str(&value).decode_utf8_lossy().into_owned().into();
                names_requested(&value)
            })
        })
}

/// Whether a path is a page's, and the requested one a file's. The same name at another place is the same file.
fn leads_to_page(path: &str, requested: &str) -> bool {
    let (to, from) = (last_segment(path), last_segment(requested));
    is_page(to) && !is_page(from) && last_segment(path.trim_end_matches('/')) != from
}

fn last_segment(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Names without an extension, and those of HTML.
fn is_page(name: &str) -> bool {
    match name.rsplit_once('.') {
        None | Some(("", _) | (_, "")) => true,
        Some((_, extension)) => {
            ["htm", "html"].iter().any(|page| extension.eq_ignore_ascii_case(page))
        }
    }
}
