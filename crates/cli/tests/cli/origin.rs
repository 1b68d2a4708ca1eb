// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul origin`: the ports that it and its depots are known by.

use crate::{
    common::{refused, text},
    ticket::Server,
};
use std::process::Command;

/// Where a client is sent that asks for `/f`.
fn redirect(origin: &Server) -> String {
    let url = format!("http://{}/f", origin.address);
    let curl = Command::new("curl")
        .args(["-sS", "-o", "/dev/null", "-w", "%{redirect_url}", &url])
        .output()
        .expect("Debian's package curl");
    text(&curl.stdout)
}

#[test]
fn addresses_without_a_port_get_the_default_port() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    for (via, public, route) in [
        (
            "near.example,far.example",
            &[][..],
            "http://near.example:3880/lh1/fetch/far.example:3880/http:ADDRESS/f",
        ),
        ("https:near.example", &[], "https://near.example/lh1/fetch/-/http:ADDRESS/f"),
        (
            "near.example",
            &["--public", "o.example"],
            "http://near.example:3880/lh1/fetch/-/http:o.example:PORT/f",
        ),
        (
            "near.example",
            &["--public", "o.example:80"],
            "http://near.example:3880/lh1/fetch/-/http:o.example/f",
        ),
    ] {
        let origin = Server::start(&[&["origin", dir, "--via", via], public].concat());
        let port = origin.address.rsplit(':').next().unwrap();
        let route = route.replace("ADDRESS", &origin.address).replace("PORT", port);
        let sent = redirect(&origin).replace("near.example:443/", "near.example/");
        assert_eq!(sent, route, "{public:?}");
    }
    let (code, said) = refused(&["origin", dir, "--via", "near.example", "--via", "other.example"]);
    assert!(code == 2 && said.contains("cannot be used multiple times"), "{said}");
    let (code, said) = refused(&["origin", dir, "--listen", "127.0.0.1:0", "--public", "o:x"]);
    assert!(code == 2 && said.contains("public address"), "{said}");
}
