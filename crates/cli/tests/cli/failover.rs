// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul failover`: its configuration, and `--once`. `depot/tests/depot/deploy` tests it with web servers.

use crate::{
    common::{done, refused},
    depot::Depot,
};
use std::{fs, net::TcpListener, path::Path};

#[test]
fn a_configuration_is_checked() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/failover/failover.toml");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("failover.toml");
    let path = file.to_str().unwrap();
    // Its web server need not be here.
    let (include, reload) = (folder.path().join("depots.conf"), "reload = [\"true\"]");
    let example = fs::read_to_string(example)
        .unwrap()
        .replace("\"/etc/nginx/longhaul-depots.conf\"", &format!("{include:?}"))
        .replace("reload = [\"systemctl\", \"reload\", \"nginx\"]", reload);
    fs::write(&file, &example).unwrap();
    assert_eq!(done(&["failover", "check", path]), "");
    let include = format!("{include:?}");
    let same = format!("routes_file = {include}\n[[clients]]");
    for (good, bad, why) in [
        ("server = \"nginx\"", "server = \"iis\"", "unknown variant `iis`"),
        ("include", "includes", "unknown field `includes`"),
        ("198.51.100.0/24", "198.51.100.0/33", "198.51.100.0/33"),
        ("/lh1/fetch/-\"", "/lh1/fetch/-/http:o/\"", "is not a route through depots"),
        ("http://depot1", "ftp://depot1", "is not a route through depots"),
        ("[[clients]]", "every = \"0s\"\n[[clients]]", "expected 100ms to 1h"),
        ("2001:db8:1::/48", "198.51.100.7/24", "listed twice"),
        (&include, "\"depots.conf\"", "expected a path that begins with /"),
        (&include, "\"/no/such/folder/x\"", "No such file"),
        (&include, "\"/dev/null\"", "the path exists and is not a file"),
        (reload, "reload = [\"no-such-program\"]", "no-such-program is not there"),
        ("[[clients]]", "roots = \"/no/such/file\"\n[[clients]]", "/no/such/file"),
        ("server = \"nginx\"", "", "`server` and `include` need each other"),
        ("[[clients]]", &same, "are the same file"),
        ("[[clients]]", "routes_file = \"/no/such/folder/x\"\n[[clients]]", "No such file"),
        ("[[clients]]", "fall = 0\n[[clients]]", "expected 1 to 1000"),
    ] {
        assert!(example.contains(good), "{good}");
        fs::write(&file, example.replacen(good, bad, 1)).unwrap();
        let (code, said) = refused(&["failover", "check", path]);
        assert!(code == 2 && said.contains(why), "{bad}: {code} {said}");
        assert_ne!(refused(&["failover", path, "--once"]).0, 0, "{bad}");
    }
    // Without a web server there has to be something else, and nothing to reload.
    let (_, clients) = example.split_once("[[clients]]").unwrap();
    for (outputs, why) in
        [("", "nothing to write"), ("routes_file = \"/x\"\nreload = [\"true\"]", "`reload`")]
    {
        fs::write(&file, format!("{outputs}\n[[clients]]{clients}")).unwrap();
        let (code, said) = refused(&["failover", "check", path]);
        assert!(code == 2 && said.contains(why), "{outputs}: {code} {said}");
    }
    fs::remove_file(&file).unwrap();
    let (code, said) = refused(&["failover", path]);
    assert!(code == 2 && said.contains("cannot read"), "{said}");
    assert_eq!(refused(&["failover"]).0, 2);
}

#[test]
fn looking_once_writes_the_include_and_ends() {
    let folder = tempfile::tempdir().unwrap();
    let [file, include] = ["failover.toml", "depots.conf"].map(|name| folder.path().join(name));
    let path = file.to_str().unwrap();
    let (up, silent) = (Depot::start(&[]), TcpListener::bind("127.0.0.1:0").unwrap());
    let down = silent.local_addr().unwrap();
    let write = |reload: &str| {
        let up = &up.listen;
        let text = format!(
            "server = \"nginx\"\ninclude = {include:?}\nreload = {reload}\nfall = 1\ntimeout = \"300ms\"\n\
             [[clients]]\nnetworks = [\"192.0.2.0/24\"]\n\
             routes = [\"http://{up}/lh1/fetch/{down}\", \"http://{up}/lh1/fetch/-\"]\n\
             [[clients]]\nnetworks = [\"198.51.100.0/24\"]\nroutes = [\"http://{down}/lh1/fetch/-\"]\n"
        );
        fs::write(&file, text).unwrap();
    };
    write("[]");
    done(&["failover", path, "--once"]);
    let written = fs::read_to_string(&include).unwrap();
    let expected =
        format!("192.0.2.0/24 \"http://{}/lh1/fetch/-\";\n198.51.100.0/24 \"\";\n", up.listen);
    assert!(written.ends_with(&expected), "{written}");
    // Without a change, the web server is not reloaded.
    write("[\"false\"]");
    done(&["failover", path, "--once"]);
    fs::remove_file(&include).unwrap();
    let (code, said) = refused(&["failover", path, "--once"]);
    assert!(code == 1 && said.contains("the web server does not reload: false"), "{code} {said}");
}
