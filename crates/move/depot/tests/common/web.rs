// SPDX-License-Identifier: GPL-2.0-or-later
//! Real web servers, each with its configuration and files in a directory of its own.

use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;
use testkit::until;

/// A web server; ended when dropped.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
    pub dir: TempDir,
}

/// How to run one kind of server.
pub struct Program {
    pub name: &'static str,
    /// Where it comes from.
    pub package: &'static str,
    pub args: fn(&Path) -> Vec<String>,
}

pub const NGINX: Program = Program {
    name: "nginx",
    package: "nginx-light",
    args: |dir| {
        let conf = dir.join("main.conf");
        ["-c", conf.to_str().unwrap(), "-p", dir.to_str().unwrap(), "-e", "stderr"]
            .map(str::to_owned)
            .into()
    },
};

pub const APACHE: Program = Program {
    name: "apache2",
    package: "apache2-bin",
    args: |dir| ["-X", "-f", dir.join("main.conf").to_str().unwrap()].map(str::to_owned).into(),
};

/// A configuration of nginx with these lines in its `http` block.
pub fn nginx_conf(dir: &Path, http: &str) -> String {
    let d = dir.display();
    format!(
        "daemon off;\nmaster_process off;\npid {d}/pid;\nerror_log {d}/error.log;\n\
         events {{}}\nhttp {{\n\
         client_body_temp_path {d}/body; proxy_temp_path {d}/proxy; fastcgi_temp_path {d}/fcgi;\n\
         uwsgi_temp_path {d}/uwsgi; scgi_temp_path {d}/scgi; access_log {d}/access.log;\n\
         {http}\n}}\n"
    )
}

impl Server {
    /// Starts a server on a free port. `configure` writes its files, with `main.conf` among them.
    pub fn start(program: &Program, configure: impl Fn(&Path, SocketAddr)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        // Servers that give up their rights must still read it.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        // These servers cannot choose a port themselves; one that was free just now may be taken.
        for _ in 0..5 {
            let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            configure(dir.path(), free);
            let mut child = Command::new(program.name)
                .args((program.args)(dir.path()))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(fs::File::create(dir.path().join("stderr")).unwrap())
                .spawn()
                .unwrap_or_else(|error| {
                    panic!(
                        "cannot run {}: {error}; install the Debian package {}",
                        program.name, program.package
                    )
                });
            let mut ended = None;
            until("the server answers or ends", || {
                ended = child.try_wait().unwrap();
                ended.is_some() || TcpStream::connect(free).is_ok()
            });
            if ended.is_none() {
                return Self { child, address: free, dir };
            }
        }
        let log = |name| fs::read_to_string(dir.path().join(name)).unwrap_or_default();
        panic!("{} does not start: {}{}", program.name, log("stderr"), log("error.log"));
    }

    /// The process that was started: the server, or what runs it.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
