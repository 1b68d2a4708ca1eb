// SPDX-License-Identifier: GPL-2.0-or-later
//! The file that a web server includes: which networks are sent by which route.

use super::config::{Clients, Config, FailoverRoute, Server};
use ipnet::IpNet;
use session::DepotAddress;
use std::{
    fmt::Write as _,
    fs::{self, OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

const HEADER: &str = "# Written by `longhaul failover`: changes are lost. Networks without a route are served directly.\n";

/// The file's text, where these depots are up.
pub(super) fn text(config: &Config, is_up: impl Fn(&DepotAddress) -> bool) -> String {
    let mut text = HEADER.to_owned();
    for clients in &config.clients {
        let route = route(clients, &is_up);
        for net in clients.networks.iter().flat_map(in_parts) {
            // A network without a route is named, too: a wider one around it may have one.
            let written = match (config.server, route) {
                (Server::Nginx, Some(route)) => writeln!(text, "{net} \"{route}\";"),
                (Server::Nginx, None) => writeln!(text, "{net} \"\";"),
                (Server::Apache, Some(route)) => {
                    writeln!(text, "SetEnvIfExpr \"-R '{net}'\" LONGHAUL_DEPOTS={route}")
                }
                (Server::Apache, None) => {
                    writeln!(text, "SetEnvIfExpr \"-R '{net}'\" !LONGHAUL_DEPOTS")
                }
            };
            written.expect("a string takes everything");
        }
    }
    text
}

/// A network as both servers take it: all addresses of a family in two halves, since Apache knows no /0, and nginx
/// has one already, its default.
fn in_parts(net: &IpNet) -> Vec<IpNet> {
    match net.prefix_len() {
        0 => net.subnets(1).map_or_else(|_| vec![*net], Iterator::collect),
        _ => vec![*net],
    }
}

/// The best route whose depots are all up.
fn route<'c>(
    clients: &'c Clients,
    is_up: &impl Fn(&DepotAddress) -> bool,
) -> Option<&'c FailoverRoute> {
    clients.routes.iter().find(|route| route.depots().iter().all(is_up))
}

/// Whether a file can be there: by an absolute path, in a folder that is there, in the place of a file, a link or
/// nothing.
pub(super) fn check(path: &Path) -> io::Result<()> {
    if !path.is_absolute() {
        return Err(io::Error::other("expected a path that begins with /"));
    }
    let folder = path.parent().ok_or_else(|| io::Error::other("expected a file's path"))?;
    if !fs::metadata(folder)?.is_dir() {
        return Err(io::Error::other(format!("{} is no folder", folder.display())));
    }
    match fs::symlink_metadata(path) {
        Ok(there) if !there.is_file() && !there.is_symlink() => {
            Err(io::Error::other("something that is no file is in its place"))
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Sees to it that a file has this text, whole or not at all; says whether it had another. A link is
/// replaced, and not followed.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<bool> {
    check(path)?;
    let is_file = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
    if is_file && fs::read(path)? == text.as_bytes() {
        return Ok(false);
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    // What a run that was killed has left.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&beside)?;
    // Whatever the mask says: the web server reads it.
    file.set_permissions(Permissions::from_mode(0o644))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(server: &str) -> Config {
        let text = format!(
            "server = \"{server}\"\ninclude = \"/x\"\n[[clients]]\nnetworks = [\"192.0.2.0/24\", \"2001:db8::/32\"]\n\
             routes = [\"http://d1:1/lh1/fetch/d2:2\", \"http://d3:3/lh1/fetch/-\"]\n\
             [[clients]]\nnetworks = [\"192.0.2.7/32\"]\nroutes = [\"http://d4:4/lh1/fetch/-\"]"
        );
        Config::from_toml(&text, "x").unwrap()
    }

    #[test]
    fn clients_go_the_best_route_that_is_whole() {
        for (up, first, second) in [
            ("d1:1 d2:2 d3:3 d4:4", "http://d1:1/lh1/fetch/d2:2", "http://d4:4/lh1/fetch/-"),
            ("d1:1 d3:3 d4:4", "http://d3:3/lh1/fetch/-", "http://d4:4/lh1/fetch/-"),
            ("d1:1 d2:2", "http://d1:1/lh1/fetch/d2:2", ""),
            ("d2:2", "", ""),
        ] {
            let is_up = |depot: &DepotAddress| up.split(' ').any(|up| up == depot.to_string());
            let nginx = text(&config("nginx"), is_up);
            let lines = format!(
                "192.0.2.0/24 \"{first}\";\n2001:db8::/32 \"{first}\";\n192.0.2.7/32 \"{second}\";\n"
            );
            assert_eq!(nginx, format!("{HEADER}{lines}"), "{up}");
            let apache = text(&config("apache"), is_up);
            let set = |route: &str| match route {
                "" => "!LONGHAUL_DEPOTS".to_owned(),
                route => format!("LONGHAUL_DEPOTS={route}"),
            };
            let last = format!("SetEnvIfExpr \"-R '192.0.2.7/32'\" {}\n", set(second));
            assert!(apache.ends_with(&last), "{apache}");
            assert!(apache.contains(&format!("'192.0.2.0/24'\" {}\n", set(first))), "{apache}");
        }
    }

    /// Both servers' programs take every kind of network: see `tests/deploy/failover.rs`.
    #[test]
    fn all_addresses_are_written_in_halves() {
        let all = "server = \"apache\"\ninclude = \"/x\"\n[[clients]]\n\
                   networks = [\"0.0.0.0/0\", \"::/0\", \"::ffff:192.0.2.9/120\"]\nroutes = [\"http://d/lh1/fetch/-\"]";
        let text = text(&Config::from_toml(all, "x").unwrap(), |_| true);
        for net in ["0.0.0.0/1", "128.0.0.0/1", "::/1", "8000::/1", "192.0.2.0/24"] {
            let line = format!("SetEnvIfExpr \"-R '{net}'\" LONGHAUL_DEPOTS=http://d/lh1/fetch/-");
            assert!(text.lines().any(|l| l == line), "{net}: {text}");
        }
        assert_eq!(text.lines().count(), 1 + 5, "{text}");
        let twice = all.replace("::/0", "192.0.2.0/24");
        assert!(Config::from_toml(&twice, "x").unwrap_err().to_string().contains("twice"));
    }

    #[test]
    fn a_file_is_replaced_whole_and_only_where_it_differs() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("include"), dir.path().join("other"));
        fs::write(&other, "precious").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        std::os::unix::fs::symlink(&other, dir.path().join("include.new")).unwrap();
        assert!(replace(&path, "text").unwrap());
        assert!(!replace(&path, "text").unwrap(), "it is the same");
        assert!(replace(&path, "more").unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "more");
        assert_eq!(fs::read_to_string(&other).unwrap(), "precious");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing else is left");
        // Nothing but files is replaced.
        for bad in ["/dev/null", "relative", "", "/", "/no/such/folder/x", "/proc/self/status/x"] {
            assert!(check(Path::new(bad)).is_err(), "{bad}");
            assert!(replace(Path::new(bad), "text").is_err(), "{bad}");
        }
        assert!(replace(dir.path(), "text").is_err());
    }
}
