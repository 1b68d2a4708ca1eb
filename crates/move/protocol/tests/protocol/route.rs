// SPDX-License-Identifier: GPL-2.0-or-later
//! Routes: printing and reading are inverse, the steps lead where they should, and what is no
//! route is refused with a reason.

use longhaul_protocol::{
    Authority, DepotAddress, Form, Host, MAX_DEPOTS, OriginUrl, Redirect, Route, Scheme, Step,
};
use proptest::prelude::*;
use std::net::IpAddr;

fn depots(names: &[&str]) -> Vec<DepotAddress> {
    names.iter().map(|n| n.parse().unwrap()).collect()
}

/// Follows a redirect as a client and then the chain as depots do; gives the depots that lead,
/// those that fetch, and what the origin is asked.
fn follow(mut redirect: Redirect) -> (Vec<String>, Vec<String>, String) {
    let (mut led, mut fetching) = (Vec::new(), Vec::new());
    loop {
        let depot = redirect.depot.to_string();
        // Over the wire and back.
        let route: Route = redirect.route.to_string().parse().unwrap();
        match route.step() {
            Step::Lead(next) => {
                led.push(depot);
                redirect = next;
            }
            Step::Fetch(mut fetch) => {
                fetching.push(depot);
                while fetch.origin.is_none() {
                    fetching.push(fetch.next.to_string());
                    let Step::Fetch(next) = fetch.target.parse::<Route>().unwrap().step() else {
                        panic!("a fetch never turns into a lead");
                    };
                    assert_eq!(next.depots + 1, fetch.depots);
                    fetch = next;
                }
                assert_eq!(fetch.depots, 0);
                return (led, fetching, format!("{} {} {}", fetch.next, fetch.host, fetch.target));
            }
        }
    }
}

#[test]
fn both_redirect_forms_pass_through_all_depots() {
    let origin: OriginUrl = "http://o.example/dir/file.bin?x=/y".parse().unwrap();
    // As in figure 6, where the client is led from D3 by D2 to D1.
    let order = depots(&["d1", "[2001:db8::2]:2", "d3:1"]);
    let asked = "o.example:80 o.example /dir/file.bin?x=/y".to_owned();
    let chain: Vec<String> = ["d1:3880", "[2001:db8::2]:2", "d3:1"].map(String::from).into();

    let lead = Redirect::new(&order, Form::Lead, origin.clone()).unwrap();
    assert_eq!(
        lead.to_string(),
        "http://d3:1/lh1/lead/%5B2001:db8::2%5D:2,d1:3880/d3:1/http:o.example/dir/file.bin?x=/y"
    );
    let led = vec!["d3:1".to_owned(), "[2001:db8::2]:2".to_owned()];
    assert_eq!(follow(lead), (led, chain.clone(), asked.clone()));

    let fetch = Redirect::new(&order, Form::Fetch, origin).unwrap();
    assert_eq!(
        fetch.to_string(),
        "http://d1:3880/lh1/fetch/%5B2001:db8::2%5D:2,d3:1/http:o.example/dir/file.bin?x=/y"
    );
    assert_eq!(follow(fetch), (vec![], chain, asked));
}

#[test]
fn route_may_have_a_single_depot() {
    for form in [Form::Lead, Form::Fetch] {
        let origin: OriginUrl = "http://[::1]:8080/".parse().unwrap();
        let redirect = Redirect::new(&depots(&["d"]), form, origin).unwrap();
        let (led, fetching, asked) = follow(redirect);
        assert_eq!(
            (led.len(), fetching, asked.as_str()),
            (0, vec!["d:3880".to_owned()], "[::1]:8080 [::1]:8080 /")
        );
    }
}

#[test]
fn urls_changed_by_clients_are_understood() {
    let plain: Route = "/lh1/fetch/d2:3880/http:[::1]:8080/a".parse().unwrap();
    for same in [
        "/lh1/fetch/d2/http:%5B::1%5D:8080/a",
        "/lh1/fetch/D2%3A3880/http%3a%5b::1%5d:8080/a",
        "/lh1/fetch/d2:3880/HTTP:[0:0:0:0:0:0:0:1]:8080/a",
    ] {
        assert_eq!(same.parse::<Route>().unwrap(), plain, "{same}");
    }
}

#[test]
fn malformed_routes_are_refused_with_a_reason() {
    let many: Vec<String> = (0..=MAX_DEPOTS).map(|n| format!("d{n}:1")).collect();
    let many = format!("/lh1/fetch/{}/http:o/", many.join(","));
    let long = format!("/lh1/fetch/-/http:o/{}", "a".repeat(8000));
    for (text, reason) in [
        ("/", "not a route"),
        ("/file", "not a route"),
        ("/lh2/fetch/-/http:o/", "not a route"),
        ("/lh1/push/-/http:o/", "not a route"),
        ("lh1/fetch/-/http:o/", "not a route"),
        ("/lh1/fetch", "not a route"),
        ("/lh1/fetch/", "chain of depots is missing"),
        ("/lh1/fetch/-", "chain of depots is missing"),
        ("/lh1/fetch/-/http:o", "origin's path is missing"),
        ("/lh1/fetch/-/http:o?q", "origin's path is missing"),
        ("/lh1/fetch//http:o/", "a depot of the route"),
        ("/lh1/fetch/d1,,d2/http:o/", "a depot of the route"),
        ("/lh1/fetch/-,d1/http:o/", "a depot of the route"),
        ("/lh1/fetch/d1:0/http:o/", "port between 1 and 65535"),
        ("/lh1/fetch/d1:70000/http:o/", "port between 1 and 65535"),
        ("/lh1/fetch/::1:80/http:o/", "a depot of the route"),
        ("/lh1/fetch/u@d1/http:o/", "a depot of the route"),
        ("/lh1/fetch/%ff/http:o/", "that are not text"),
        ("/lh1/fetch/d%0a1/http:o/", "a depot of the route"),
        ("/lh1/fetch/d1,d2,D1:3880/http:o/", "passes d1:3880 twice"),
        ("/lh1/fetch/-/o/", "http: or https:"),
        ("/lh1/fetch/-/ftp:o/", "http: or https:"),
        ("/lh1/fetch/-/http:/", "origin's address"),
        ("/lh1/fetch/-/http://o/", "http:HOST/..., not http://HOST/..."),
        ("/lh1/fetch/d1/https://o/f", "https:HOST/..., not https://HOST/..."),
        ("/lh1/fetch/-/http:o:x/", "origin's address"),
        ("/lh1/fetch/-/http:o/a/../../b", "\"..\""),
        ("/lh1/fetch/-/http:o/%2e./b", "\"..\""),
        ("/lh1/fetch/-/http:o/a#b", "'#'"),
        ("/lh1/lead/-/-/http:o/", "begins with the depot"),
        ("/lh1/lead/d2/http:o/", "a depot of the route"),
        ("/lh1/lead/d2/d1", "chain of depots is missing"),
        ("/lh1/lead/d2/d1,d2/http:o/", "passes d2:3880 twice"),
        (&many, "names 17 depots"),
        (&long, "8000 are allowed"),
    ] {
        let error = text.parse::<Route>().expect_err(text).to_string();
        assert!(error.contains(reason), "{text}: {error}");
    }
    let origin: OriginUrl = "http://o/".parse().unwrap();
    assert!(Redirect::new(&[], Form::Lead, origin.clone()).is_err());
    assert!(Redirect::new(&depots(&["a", "a"]), Form::Fetch, origin).is_err());
}

#[test]
fn no_reason_holds_a_control_character() {
    for text in [
        "/lh1/fetch/d%0a1/http:o/",
        "/lh1/fetch/d%0d%0a:x/http:o/",
        "/lh1/fetch/d:%0a/http:o/",
        "/lh1/fetch/%5b%0a%5d:1/http:o/",
        "/lh1/fetch/-/%0aftp:o/",
        "/lh1/fetch/-/%1b%0a/",
        "/lh1/fetch/-/http:o%0a/",
        "/lh1/fetch/-/http:o:%0a/",
        "/lh1/lead/d%0a/d/http:o/",
        "/lh1/lead/d/d%0a/http:o/",
    ] {
        let error = text.parse::<Route>().expect_err(text).to_string();
        assert!(!error.contains(char::is_control), "{text}: {error:?}");
    }
}

fn host() -> impl Strategy<Value = Host> {
    prop_oneof![
        "[a-z][a-z0-9-]{0,10}[a-z0-9](\\.[a-z]{2,5}){0,2}".prop_map(Host::Name),
        any::<IpAddr>().prop_map(Host::Ip),
    ]
}

fn authority() -> impl Strategy<Value = Authority> {
    (host(), 1..=u16::MAX).prop_map(|(host, port)| Authority { host, port })
}

fn depot() -> impl Strategy<Value = DepotAddress> {
    (scheme(), authority()).prop_map(|(scheme, authority)| DepotAddress { scheme, authority })
}

fn scheme() -> impl Strategy<Value = Scheme> {
    prop_oneof![Just(Scheme::Http), Just(Scheme::Https)]
}

fn origin() -> impl Strategy<Value = OriginUrl> {
    let target = "/[!-\"$-~\u{e4}]{0,40}(\\?[!-\"$-~]{0,20})?";
    (scheme(), authority(), target)
        .prop_filter_map("dot segment", |(s, a, t)| OriginUrl::new(s, a, &t).ok())
}

fn route() -> impl Strategy<Value = Route> {
    let list = proptest::collection::hash_set(depot(), 0..=MAX_DEPOTS);
    (list, any::<prop::sample::Index>(), any::<bool>(), origin()).prop_map(
        |(depots, at, lead, origin)| {
            let mut ahead: Vec<_> = depots.into_iter().collect();
            if ahead.is_empty() || !lead {
                return Route::Fetch { chain: ahead, origin };
            }
            let chain = ahead.split_off(at.index(ahead.len()));
            Route::Lead { ahead, chain, origin }
        },
    )
}

proptest! {
    #[test]
    fn reading_is_the_inverse_of_printing(route in route()) {
        let text = route.to_string();
        prop_assert_eq!(text.parse::<Route>(), Ok(route), "{}", text);
    }

    #[test]
    fn any_route_text_parses_or_fails_without_panic(text in "(/lh1/(lead|fetch)/)?[ -~]{0,60}") {
        if let Ok(route) = text.parse::<Route>() {
            // What was read prints to something that reads the same.
            prop_assert_eq!(route.to_string().parse::<Route>(), Ok(route.clone()));
            let _ = route.step();
        }
    }

    #[test]
    fn route_errors_have_no_control_characters(
        text in "/lh1/(lead|fetch)/(%0a|%0d|%1b|[a-z:,/%\\[\\]-]){0,30}"
    ) {
        if let Err(error) = text.parse::<Route>() {
            prop_assert!(!error.to_string().contains(char::is_control), "{:?}", error);
        }
    }
}
