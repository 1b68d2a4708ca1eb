// SPDX-License-Identifier: GPL-2.0-or-later
//! The file that a web server includes: which networks are sent which way.

use super::config::{Clients, Config, Server, Way};
use session::DepotAddress;
use std::{
    fmt::Write as _,
    fs::{self, OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

const HEADER: &str =
    "# Written by `longhaul lead`: changes are lost. Networks without a way are served directly.\n";

/// The file's text, where these depots are up.
pub(super) fn text(config: &Config, is_up: impl Fn(&DepotAddress) -> bool) -> String {
    let mut text = HEADER.to_owned();
    for clients in &config.clients {
        let way = way(clients, &is_up);
        for net in &clients.networks {
            // A network without a way is named, too: a wider one around it may have one.
            let written = match (config.server, way) {
                (Server::Nginx, Some(way)) => writeln!(text, "{net} \"{way}\";"),
                (Server::Nginx, None) => writeln!(text, "{net} \"\";"),
                (Server::Apache, Some(way)) => {
                    writeln!(text, "SetEnvIfExpr \"-R '{net}'\" LONGHAUL_DEPOTS={way}")
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

/// The best way whose depots are all up.
fn way<'c>(clients: &'c Clients, is_up: &impl Fn(&DepotAddress) -> bool) -> Option<&'c Way> {
    clients.ways.iter().find(|way| way.depots().iter().all(is_up))
}

/// Sees to it that a file has this text, whole or not at all; says whether it had another. A link is
/// replaced, and not followed.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<bool> {
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
             ways = [\"http://d1:1/lh1/fetch/d2:2\", \"http://d3:3/lh1/fetch/-\"]\n\
             [[clients]]\nnetworks = [\"192.0.2.7/32\"]\nways = [\"http://d4:4/lh1/fetch/-\"]"
        );
        Config::from_toml(&text, "x").unwrap()
    }

    #[test]
    fn clients_go_the_best_way_that_is_whole() {
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
            let set = |way: &str| match way {
                "" => "!LONGHAUL_DEPOTS".to_owned(),
                way => format!("LONGHAUL_DEPOTS={way}"),
            };
            let last = format!("SetEnvIfExpr \"-R '192.0.2.7/32'\" {}\n", set(second));
            assert!(apache.ends_with(&last), "{apache}");
            assert!(apache.contains(&format!("'192.0.2.0/24'\" {}\n", set(first))), "{apache}");
        }
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
    }
}
