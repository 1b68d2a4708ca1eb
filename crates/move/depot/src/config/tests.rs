// SPDX-License-Identifier: GPL-2.0-or-later
use super::{limits::LeastRate, *};
use units::Rate;
use units::{Bytes, Duration};

#[test]
fn default_config_serves_no_client_and_survives_toml() {
    let config = Config::default();
    assert_eq!(config.allow, Allow::default());
    assert!(config.allow.clients.is_empty() && config.allow.upstreams.is_empty());
    assert_eq!(Config::from_toml(&config.to_toml(), "x").unwrap(), config);
    assert_eq!(Config::from_toml("", "x").unwrap(), config);
}

/// `docs/depot/configuration.md` gives each key with its default.
#[test]
fn guide_lists_every_key_and_default() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/depot/configuration.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let table: toml::Table = Config::default().to_toml().parse().unwrap();
    for (key, value) in &table {
        let rows = match value {
            toml::Value::Table(inner) => {
                inner.iter().map(|(k, v)| format!("| `{key}.{k}` | `{v}` |")).collect()
            }
            value => vec![format!("| `{key}` | `{value}` |")],
        };
        for row in rows {
            assert!(guide.contains(&row), "docs/depot/configuration.md lacks {row}");
        }
    }
}

#[test]
fn full_config_file_is_read() {
    let text = r#"
            id = "depot-1"
            listen = ["127.0.0.1:0", "[::]:3880"]
            copy = "copy"
            [allow]
            clients = ["10.0.0.0/8", "2001:db8::/32"]
            upstreams = ["o.example:80", "10.0.0.0/8:*"]
            local = true
            [timeouts]
            idle = "5s"
            [limits]
            head = "16KB"
            client_rate = "100mbit"
            least_rate = "64kbit"
            [admin]
            listen = "127.0.0.1:3881"
            [log]
            access = "/var/log/longhaul/access.log"
            format = "json"
            [[hop]]
            peer = "10.0.0.0/8"
            congestion = "bbr"
            [[hop]]
            peer = "10.1.0.0/16"
            sndbuf = "16MB"
        "#;
    let config = Config::from_toml(text, "depot.toml").unwrap();
    assert_eq!(config.timeouts.idle, Duration::from_secs(5));
    assert_eq!(config.limits.client_rate, Some(Rate::bits_per_second(100_000_000)));
    let least = LeastRate::AtLeast(Rate::bits_per_second(64_000));
    assert_eq!(config.limits.least_rate, Some(least));
    assert_eq!(config.admin.listen, Some(([127, 0, 0, 1], 3881).into()));
    assert_eq!(config.log.access, AccessTo::File("/var/log/longhaul/access.log".into()));
    assert_eq!(config.hop("10.1.2.3".parse().unwrap()).unwrap().sndbuf, Some(Bytes::new(16 << 20)));
    assert_eq!(
        config.hop("::ffff:10.2.0.1".parse().unwrap()).unwrap().congestion,
        Some("bbr".into())
    );
    assert_eq!(config.hop("192.0.2.1".parse().unwrap()), None);
    let again = Config::from_toml(&config.to_toml(), "x").unwrap();
    assert_eq!(again, config);
}

#[test]
fn config_errors_name_their_position() {
    for (text, expected) in [
        ("colour = 1", "unknown field `colour`"),
        ("\n\nlisten = 5", "line 3"),
        ("[allow]\nclients = [\"10.0.0.0/33\"]", "line 2"),
        ("[allow]\nupstreams = [\"10.0.0.0/8\"]", "host:port"),
        ("[timeouts]\nidle = \"5\"", "a time with its unit"),
        ("[timeouts]\nidle = \"-5s\"", "a time with its unit"),
        ("[timeouts]\ndrain = \"0s\"", "`timeouts.drain` is 0s: expected 1ms to 24h"),
        ("[timeouts]\ntcp_user = \"25h\"", "`timeouts.tcp_user` is 90000s"),
        ("[timeouts]\nclient_idle = \"999us\"", "`timeouts.client_idle` is 999us"),
        ("[limits]\nhead = \"10 furlongs\"", "a size in bytes"),
        ("[limits]\nhead = \"1B\"", "1KB to 1MB"),
        ("[limits]\nconnections = 0", "limits.connections"),
        ("[[hop]]\npeer = \"::/0\"\nsndbuf = \"0\"", "4KB to 1GB"),
        ("[[hop]]\npeer = \"::1/0\"\n[[hop]]\npeer = \"::/0\"", "two [[hop]]"),
        ("[[hop]]\ncongestion = \"bbr\"", "missing field `peer`"),
        ("[[detour]]\naround = \"d2\"\nthrough = [\"d3\"]", "does not list it"),
        ("[[detour]]\naround = \"d2\"\n[[detour]]\naround = \"d2:3880\"", "two [[detour]]"),
        ("[stall]\ntime = \"0s\"", "`stall.time` is 0s"),
        ("[[hop]]\npeer = \"::/0\"\nmptcp = true\npacing = \"1gbit\"", "exclude each other"),
        ("[[hop]]\npeer = \"::/0\"\nmptcp = true\npacing = \"gap\"", "exclude each other"),
        ("[[hop]]\npeer = \"::/0\"\npacing = \"7kbit\"", "`hop.pacing` is 7kbit: expected 8kbit"),
        (
            "[[hop]]\npeer = \"::/0\"\npacing = \"tpc\"",
            "none, gap, edt, tcp or a rate with its unit",
        ),
        ("[[hop]]\npeer = \"::/0\"\npacing = \"tpc\"", "; did you mean \"tcp\"?"),
        ("[[hop]]\npeer = \"::/0\"\npacing = \"paced\"", "there is no pacing \"paced\""),
        ("[[hop]]\npeer = \"::/0\"\npacing = \"500\"", "line 3"),
        (
            "[[hop]]\npeer = \"10.0.0.0/8\"\npacing = \"gap\"\n[[hop]]\npeer = \"10.1.0.0/16\"",
            "\"10.1.0.0/16\" lies within \"10.0.0.0/8\", where all packets are paced by gap",
        ),
        ("[[hop]]\npeer = \"::/0\"\nstreams = 17", "1 to 16"),
        ("[limits]\nclient_rate = \"0mbit\"", "must be above 0"),
        ("limits.least_rate = \"0kbit\"", "must be above 0"),
        ("limits.least_time = \"0s\"", "`limits.least_time` is 0s: expected 1ms to 24h"),
        ("limits.client_rate = \"7kbit\"", "`limits.client_rate` is 7kbit: expected 8kbit or more"),
        (
            "limits.client_rate = \"1gbit\"\n[[hop]]\npeer = \"::/0\"\nmptcp = true",
            "peer = \"::/0\": `limits.client_rate` and `mptcp` exclude each other",
        ),
        (
            "trust.depots = [\"10.0.0.0/8\"]\n[[hop]]\npeer = \"10.1.0.0/16\"\nwarm = 4\n\
             [[hop]]\npeer = \"192.0.2.0/24\"\n\nwarm = 4",
            "depot.toml: line 8: [[hop]] peer = \"192.0.2.0/24\": `warm` is for depots: list",
        ),
        (
            "trust.depots = [\"10.1.0.0/16\"]\nhop = [{ peer = \"10.0.0.0/8\", warm = 1 }]",
            "depot.toml: line 2: [[hop]] peer = \"10.0.0.0/8\": `warm` is for depots",
        ),
        (
            "trust.depots = [\"::/0\"]\nidle_connections.per_hop = 3\n[[hop]]\npeer = \"::/0\"\nwarm = 4",
            "line 5: [[hop]] peer = \"::/0\": `warm` is 4, more than `idle_connections.per_hop`, which is 3",
        ),
        ("[[hop]]\npeer = \"::/0\"\nidle = \"999ms\"", "`hop.idle` is 999ms: expected 1s to 24h"),
        ("[[hop]]\npeer = \"::/0\"\nprime = \"65MB\"", "`hop.prime` is 65MB: expected 0B to 64MB"),
        ("limits.held = 1000001", "`limits.held` is 1000001: expected 0 to 1000000"),
        ("limits.per_depot = 0", "`limits.per_depot` is 0: expected 1 to 1000000"),
        (
            "idle_connections.per_hop = 2000\ntrust.depots = [\"::/0\"]\n[[hop]]\npeer = \"::/0\"\nwarm = 1001",
            "`hop.warm` is 1001: expected 0 to 1000",
        ),
        ("[siblings]\nabove = 1.1", "0 to 1"),
        ("threads = 1025", "`threads` is 1025: expected 0 to 1024"),
        ("id = \"1 2\"", "cannot name a depot"),
        ("listen = []", "`listen` is empty"),
        ("tls.listen = [\"[::]:443\"]", "`tls.certificate` and `tls.key`"),
        ("tls.key = \"k\"", "belong together"),
        ("[admin]\nlisten = \"3881\"", "line 2"),
        ("[log]\nformat = \"xml\"", "`text`"),
    ] {
        refused(text, expected);
    }
}

/// Compares the error of a configuration with the expected one.
fn refused(text: &str, expected: &str) {
    let error = Config::from_toml(text, "depot.toml").expect_err(text).to_string();
    assert!(error.contains(expected), "{text}: {error}");
}

#[test]
fn unusable_networks_and_addresses_are_named() {
    for (text, expected) in [
        (
            "[allow]\nclients = [\"10.0.0.0/33\"]",
            "\"10.0.0.0/33\" is not a network: expected one as in",
        ),
        ("[[hop]]\npeer = \"depot2.example.org\"", "\"depot2.example.org\" is not a network"),
        (
            "listen = [\"[::]:80\"]\nadmin.listen = \"[::]:80\"",
            "`admin.listen` and `listen` both have the address [::]:80",
        ),
        ("listen = [\"[::]:80\", \"[::]:80\"]", "`listen` and `listen` both have the address"),
        ("source = [\"192.0.2.1\", \"::1\", \"192.0.2.2\"]", "one family, 192.0.2.2: list one"),
        ("source = [\"0.0.0.0\"]", "`source` is 0.0.0.0: expected one address of this host"),
        ("source = [\"::ffff:192.0.2.1\"]", "`source` is ::ffff:192.0.2.1: expected"),
        ("source = \"192.0.2.1\"", "line 1"),
        (
            "[[hop]]\npeer = \"10.0.0.0/8\"\nsource = \"ff02::1\"",
            "depot.toml: line 3: `hop.source` is ff02::1: expected one address",
        ),
        (
            "[[hop]]\npeer = \"10.0.0.0/8\"\nsource = \"2001:db8::1\"",
            "line 3: [[hop]] peer = \"10.0.0.0/8\": connections cannot leave by 2001:db8::1",
        ),
    ] {
        refused(text, expected);
    }
}

#[test]
fn single_address_is_a_network() {
    let text = "allow.clients = [\"192.0.2.1\"]\ntrust.depots = [\"2001:db8::1\"]\n\
                [[hop]]\npeer = \"192.0.2.1\"\n\
                [[site]]\nname = \"d.example\"\norigin = \"http://o\"\nclients = [\"192.0.2.1\"]";
    let config = Config::from_toml(text, "x").unwrap();
    let nets = [config.allow.clients[0], config.hops[0].peer, config.sites[0].clients[0]];
    assert_eq!(nets.map(|net| net.to_string()), ["192.0.2.1/32"; 3]);
    assert_eq!(config.trust.depots[0].to_string(), "2001:db8::1/128");
    assert_eq!("192.0.2.1=reno".parse::<PeerOptions>().unwrap().peer.to_string(), "192.0.2.1/32");
}

#[test]
fn source_address_is_of_most_specific_hop() {
    let text = "source = [\"192.0.2.1\", \"2001:db8::1\"]\n\
                [[hop]]\npeer = \"10.0.0.0/8\"\nsource = \"192.0.2.2\"\n\
                [[hop]]\npeer = \"10.1.0.0/16\"\n";
    let config = Config::from_toml(text, "x").unwrap();
    assert_eq!(Config::from_toml(&config.to_toml(), "x").unwrap(), config);
    let source = |config: &Config, peer: &str| {
        config.hop_options(peer.parse().unwrap()).source.map(|source| source.to_string())
    };
    for (peer, expected) in [
        ("198.51.100.1", "192.0.2.1"),
        ("2001:db8::9", "2001:db8::1"),
        ("::ffff:10.2.0.1", "192.0.2.2"),
        ("10.1.0.1", "192.0.2.1"),
    ] {
        assert_eq!(source(&config, peer).as_deref(), Some(expected), "{peer}");
    }
    // The other family is not left to the kernel.
    let one = Config { source: vec!["192.0.2.1".parse().unwrap()], ..Config::default() };
    assert_eq!(source(&one, "2001:db8::9").as_deref(), Some("192.0.2.1"));
    assert_eq!(source(&Config::default(), "10.0.0.1"), None);
}

#[test]
fn bad_sites_are_named_with_their_position() {
    for (text, expected) in [
        (
            "[[site]]\nname = \"d.example:80\"\norigin = \"http://o\"",
            "\"d.example:80\" is not a DNS name",
        ),
        ("[[site]]\nname = \"192.0.2.1\"\norigin = \"http://o\"", "line 2"),
        ("[[site]]\nname = \"d.example\"\norigin = \"http://o/x\"", "\"http://o/x\" has a path"),
        ("[[site]]\nname = \"d.example\"\norigin = \"o:80\"", "line 3"),
        ("[[site]]\nname = \"d.example\"", "missing field `origin`"),
        (
            "[[site]]\nname = \"d.example\"\norigin = \"http://o\"\n\
             [[site]]\norigin = \"http://p\"\nname = \"D.example\"",
            "depot.toml: line 6: two [[site]] tables have the name \"d.example\"",
        ),
        (
            "names = [\"d.example\"]\n[[site]]\nname = \"d.example\"\norigin = \"http://o\"",
            "line 3: [[site]] name = \"d.example\": `names` lists it as the depot's own",
        ),
        (
            "[[site]]\nname = \"d.example\"\norigin = \"http://o\"\nvia = [\"d2\", \"d3\", \"d2\"]",
            "line 4: [[site]] name = \"d.example\": requests would come back to where they have been, at d2:3880",
        ),
        (
            "[[site]]\nname = \"d.example\"\norigin = \"http://o\"\nvia = [\"127.0.0.1\"]",
            "line 4: [[site]] name = \"d.example\": requests would come back",
        ),
        (
            "listen = [\"192.0.2.1:80\"]\n[[site]]\nname = \"d.example\"\norigin = \"http://192.0.2.1\"",
            "line 4: [[site]] name = \"d.example\": requests would come back",
        ),
        (
            "listen = [\"[::]:80\"]\n[[site]]\nname = \"d.example\"\norigin = \"http://o\"\n\
             [[site]]\nname = \"e.example\"\norigin = \"http://d.example\"",
            "line 7: [[site]] name = \"e.example\": requests would come back",
        ),
        (
            "tls.listen = [\"[::]:443\"]\ntls.certificate = \"c\"\ntls.key = \"k\"\n\
             [[site]]\nname = \"d.example\"\norigin = \"http://o\"",
            "line 5: [[site]] name = \"d.example\" has no certificate",
        ),
        (
            "[[site]]\nname = \"d.example\"\norigin = \"http://o\"\ncertificate = \"c\"",
            "line 4: [[site]] name = \"d.example\": `certificate` and `key` belong together",
        ),
        (
            "[[site]]\nname = \"d.example\"\norigin = \"http://o\"\ncertificate = \"c\"\nkey = \"k\"",
            "line 4: [[site]] name = \"d.example\" has a certificate, and nothing listens with TLS",
        ),
    ] {
        refused(text, expected);
    }
}

#[test]
fn short_hop_option_is_parsed() {
    let words = ["203.0.113.7/32=bbr", "2001:db8::/32=reno,rcvbuf=1MB,sndbuf=64KB"];
    let hops = words.map(|word| word.parse().unwrap()).into();
    let table = "[[hop]]\npeer = \"203.0.113.7/32\"\ncongestion = \"bbr\"\n[[hop]]\n\
                     peer = \"2001:db8::/32\"\ncongestion = \"reno\"\nsndbuf = \"64KB\"\nrcvbuf = \"1MB\"";
    let config = Config { hops, ..Config::default() };
    assert_eq!(config, Config::from_toml(table, "x").unwrap());
    for word in [
        "",
        "bbr",
        "10.0.0.0/8=",
        "10.0.0.0/33=bbr",
        "10.0.0.0/8=bbr,sndbuf",
        "10.0.0.0/8=bbr,sndbuf=1 furlong",
        "10.0.0.0/8=bbr,colour=1MB",
        "10.0.0.0/8=bbr,sndbuf=1MB,sndbuf=1MB",
    ] {
        let error = word.parse::<PeerOptions>().expect_err(word);
        assert!(error.contains("expected"), "{word}: {error}");
    }
}

#[test]
fn every_pacing_survives_toml() {
    let hop = |peer: &str, pacing: &str| format!("[[hop]]\npeer = \"{peer}\"\n{pacing}\n");
    for (text, pacing) in [
        ("", HopPacing::None),
        ("pacing = \"none\"", HopPacing::None),
        ("pacing = \"gap\"", HopPacing::Below(PacingMethod::Gap)),
        ("pacing = \"edt\"", HopPacing::Below(PacingMethod::Edt)),
        ("pacing = \"tcp\"", HopPacing::Tcp),
        ("pacing = \"1gbit\"", HopPacing::Rate(Rate::bits_per_second(1_000_000_000))),
    ] {
        let config = Config::from_toml(&hop("10.0.0.0/8", text), "x").expect(text);
        assert_eq!(config.hops[0].pacing, pacing, "{text}");
        let printed = config.to_toml();
        assert_eq!(Config::from_toml(&printed, "x").unwrap(), config, "{printed}");
        assert_eq!(printed.contains("pacing"), pacing != HopPacing::None, "{printed}");
    }
}

#[test]
fn packet_paced_peers_are_named_by_widest_network() {
    let text = ["10.1.2.3/8 gap", "10.1.0.0/16 gap", "192.0.2.0/24 tcp", "2001:db8::/32 edt"];
    let hops = text.map(|hop| {
        let (peer, pacing) = hop.split_once(' ').unwrap();
        format!("[[hop]]\npeer = \"{peer}\"\npacing = \"{pacing}\"\n")
    });
    let config = Config::from_toml(&hops.concat(), "x").unwrap();
    let below: Vec<_> =
        config.paced_below().iter().map(|(peer, method)| format!("{peer} {method}")).collect();
    assert_eq!(below, ["10.0.0.0/8 gap", "2001:db8::/32 edt"]);
}

#[test]
fn tcp_ports_are_read_and_permit_their_server() {
    let text = "[[tcp]]\nlisten = \"127.0.0.1:5432\"\nupstream = \"db.example.org:5432\"\n\
                via = [\"d2.example.net\"]\nproxy_protocol = true";
    let config = Config::from_toml(text, "x").unwrap();
    assert_eq!(Config::from_toml(&config.to_toml(), "x").unwrap(), config);
    for (next, verdict) in [
        ("db.example.org:5432", Verdict::OfSite),
        ("d2.example.net:3880", Verdict::OfSite),
        ("db.example.org:5433", Verdict::Refused),
    ] {
        assert_eq!(config.upstream(&next.parse().unwrap(), Grant::Site), verdict, "{next}");
        assert_eq!(config.upstream(&next.parse().unwrap(), Grant::Rules), Verdict::Refused);
    }
    let many = format!("{text}\n").replace("[\"d2.example.net\"]", &format!("{:?}", vec!["d"; 16]));
    let error = Config::from_toml(&many, "x").unwrap_err().to_string();
    assert!(error.contains("line 4") && error.contains("at most 15 depots"), "{error}");
}

#[test]
fn session_and_port_errors_are_named() {
    for (text, expected) in [
        ("session.idle = \"0s\"", "`session.idle` is 0s"),
        ("session.meeting_time = \"25h\"", "`session.meeting_time` is 90000s"),
        ("session.meetings = 1000001", "`session.meetings` is 1000001"),
        ("session.congestion = [\"BBR\"]", "`session.congestion` is BBR"),
        ("[[tcp]]\nlisten = \"127.0.0.1:22\"", "missing field `upstream`"),
        ("[[tcp]]\nlisten = \"127.0.0.1:22\"\nupstream = \"db\"", "line 3"),
        (
            "[[tcp]]\nlisten = \"0.0.0.0:3880\"\nupstream = \"db:1\"",
            "another table or listener has",
        ),
        (
            "[[tcp]]\nlisten = \"[::1]:22\"\nupstream = \"db:1\"\n[[tcp]]\nlisten = \"[::1]:22\"\nupstream = \"d:1\"",
            "line 5: [[tcp]] listen = \"[::1]:22\"",
        ),
    ] {
        let error = Config::from_toml(text, "depot.toml").unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}
