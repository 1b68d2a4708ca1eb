// SPDX-License-Identifier: GPL-2.0-or-later
//! Real sshd in network namespaces: hosts that ssh reaches without a network of this machine.
//!
//! ssh talks to `sshd -i` through a pipe (`ProxyCommand`), which enters the host's network namespace, and a mount namespace in which
//! `/run/longhaul` is the host's own. So each host has an address of its own, kernel settings of its own and a state of its own.

use crate::common::text;
use host::Namespace;
use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
};

/// Where sshd wants to be imprisoned; made if it is not there, and removed when the last test that wants it has ended.
pub struct SshdDirectory;

const RUN_SSHD: &str = "/run/sshd";

/// How many tests want the directory, and whether the first of them made it.
static RUN_SSHD_USERS: Mutex<(usize, bool)> = Mutex::new((0, false));

impl SshdDirectory {
    pub fn make() -> Self {
        let mut users = RUN_SSHD_USERS.lock().unwrap();
        if users.0 == 0 {
            users.1 = fs::create_dir(RUN_SSHD).is_ok();
        }
        users.0 += 1;
        Self
    }
}

impl Drop for SshdDirectory {
    fn drop(&mut self) {
        let mut users = RUN_SSHD_USERS.lock().unwrap();
        users.0 -= 1;
        if *users == (0, true) {
            let _ = fs::remove_dir(RUN_SSHD);
        }
    }
}

/// Hosts that ssh reaches as `host-NAME`.
pub struct Hosts {
    pub folder: tempfile::TempDir,
    pub namespaces: Vec<(String, Namespace)>,
    _directory: SshdDirectory,
}

impl Hosts {
    pub fn start(names: &[&str]) -> Self {
        let new = |name: &&str| ((*name).to_owned(), Namespace::new().unwrap());
        Self::within(names.iter().map(new).collect())
    }

    /// In network namespaces that are there.
    pub fn within(namespaces: Vec<(String, Namespace)>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let hosts = Self { folder, namespaces, _directory: SshdDirectory::make() };
        fs::create_dir_all(host::RUN_DIRECTORY).unwrap();
        hosts.key("user");
        let mut config = String::new();
        let mut known = String::new();
        for (name, namespace) in &hosts.namespaces {
            hosts.key(name);
            let public = fs::read_to_string(hosts.path(&format!("{name}.pub"))).unwrap();
            known += &format!("host-{name} {public}");
            let state = hosts.path(&format!("run-{name}"));
            fs::create_dir(&state).unwrap();
            fs::set_permissions(&state, Permissions::from_mode(0o755)).unwrap();
            let sshd = hosts.path(&format!("{name}.conf"));
            let keys = hosts.path("user.pub");
            let text = format!(
                "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\nLogLevel ERROR\n",
                hosts.path(name).display(),
                keys.display()
            );
            fs::write(&sshd, text).unwrap();
            let net = format!("/proc/{}/fd/{}", std::process::id(), namespace.descriptor());
            config += &format!(
                "Host host-{name}\n  HostKeyAlias host-{name}\n  ProxyCommand nsenter --net={net} -- unshare --mount \
                 --propagation private sh -c 'mount --bind {} {} && exec /usr/sbin/sshd -i -f {}'\n",
                state.display(),
                host::RUN_DIRECTORY,
                sshd.display()
            );
        }
        config += &format!(
            "Host *\n  User root\n  IdentityFile {}\n  IdentitiesOnly yes\n  UserKnownHostsFile {}\n  LogLevel ERROR\n",
            hosts.path("user").display(),
            hosts.path("known_hosts").display()
        );
        fs::write(hosts.path("ssh_config"), config).unwrap();
        fs::write(hosts.path("known_hosts"), known).unwrap();
        hosts
    }

    /// Puts the program into a folder for experiments, as an earlier one has.
    pub fn bring_program(&self, folder: &str) {
        let program = Path::new(env!("CARGO_BIN_EXE_longhaul"));
        let digest = text(&Command::new("sha256sum").arg(program).output().unwrap().stdout);
        fs::create_dir_all(self.path(folder)).unwrap();
        fs::copy(program, self.path(folder).join(format!("longhaul-{}", &digest[..16]))).unwrap();
    }

    fn key(&self, name: &str) {
        let file = self.path(name);
        let words = ["-q", "-t", "ed25519", "-N", "", "-C", name, "-f"];
        let made = Command::new("ssh-keygen").args(words).arg(&file).output().unwrap();
        assert!(made.status.success(), "{}", text(&made.stderr));
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes hosts.toml: each host is the node of its name, with more keys.
    pub fn file(&self, more: impl Fn(&str) -> String) -> PathBuf {
        let mut text = "ssh_config = \"ssh_config\"\n".to_owned();
        for (name, _) in &self.namespaces {
            let directory = self.path(&format!("files-{name}"));
            let more = more(name);
            text += &format!("[[host]]\nnode = \"{name}\"\n{more}\n");
            if !more.contains("ssh =") {
                text += &format!("ssh = \"host-{name}\"\n");
            }
            if !more.contains("directory =") {
                text += &format!("directory = \"{}\"\n", directory.display());
            }
        }
        let file = self.path("hosts.toml");
        fs::write(&file, text).unwrap();
        file
    }
}

/// Names of processes that have a path in their command lines.
pub fn processes_of(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    let of = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("cmdline")).ok();
    let all = fs::read_dir("/proc").unwrap().flatten().filter_map(of);
    all.filter(|line| line.contains(folder)).map(|line| line.replace('\0', " ")).collect()
}
