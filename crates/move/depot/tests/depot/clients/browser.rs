// SPDX-License-Identifier: GPL-2.0-or-later
//! A download in a real browser, which trusts the authority as a person's would: by its certificate
//! store.
//!
//! Headless Chromium is told what to do, and tells how the download goes, by the `DevTools` protocol over
//! a pair of pipes: JSON texts, each ended by a zero byte. It ends when the pipes are closed.

use super::{Chain, text};
use crate::common::client::run;
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

struct Browser {
    child: Child,
    tell: ChildStdin,
    told: BufReader<ChildStdout>,
}

impl Browser {
    /// One with a home of its own.
    fn start(home: &Path) -> Self {
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null"])
            .args(["timeout", "--kill-after=5", "90", "chromium", "--headless=new", "--no-sandbox"])
            .args(["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"])
            .args(["--disable-background-networking", "--disable-component-update"])
            .args(["--no-proxy-server", "--remote-debugging-pipe"])
            .arg("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
            .arg(format!("--user-data-dir={}", home.join("profile").display()))
            .env("HOME", home)
            .env("XDG_DATA_HOME", home.join(".local/share"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(home.join("stderr")).unwrap())
            .spawn()
            .unwrap();
        let (tell, told) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, tell, told: BufReader::new(told) }
    }

    fn tell(&mut self, id: u32, method: &str, params: &Value) {
        let text = json!({ "id": id, "method": method, "params": params });
        write!(self.tell, "{text}\0").expect("chromium (Debian: chromium) runs");
    }

    /// The next that it says.
    fn next(&mut self) -> Value {
        let mut text = Vec::new();
        self.told.read_until(0, &mut text).unwrap();
        assert_eq!(text.pop(), Some(0), "chromium has ended");
        serde_json::from_slice(&text).unwrap()
    }

    /// Opens a URL that is to be saved, and says where it was.
    fn download(&mut self, url: &str, to: &Path) -> String {
        let behaviour = json!({ "behavior": "allow", "downloadPath": to, "eventsEnabled": true });
        self.tell(1, "Browser.setDownloadBehavior", &behaviour);
        self.tell(2, "Target.createTarget", &json!({ "url": url }));
        loop {
            let said = self.next();
            assert!(said["error"].is_null(), "{said}");
            if said["method"] != "Browser.downloadProgress" {
                continue;
            }
            match said["params"]["state"].as_str().unwrap() {
                "completed" => return said["params"]["filePath"].as_str().unwrap().to_owned(),
                "canceled" => panic!("the download failed: {said}"),
                _ => {}
            }
        }
    }

    fn close(mut self) {
        self.tell(9, "Browser.close", &json!({}));
        while self.told.read_until(0, &mut Vec::new()).is_ok_and(|length| length > 0) {}
        self.child.wait().unwrap();
    }
}

/// Makes the certificate store of a home directory, and adds an authority to it.
fn trust(home: &Path, roots: &Path) {
    // Where it is looked for depends on the version.
    for store in [".pki/nssdb", ".local/share/pki/nssdb"] {
        let store = home.join(store);
        fs::create_dir_all(&store).unwrap();
        let database = format!("sql:{}", store.display());
        for args in
            [&["-N", "--empty-password"][..], &["-A", "-t", "C,,", "-n", "test", "-i", text(roots)]]
        {
            let output = run("certutil", "libnss3-tools", &[&["-d", &database][..], args].concat());
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

#[test]
fn by_chromium() {
    let chain = Chain::new();
    let home = tempfile::tempdir().unwrap();
    trust(home.path(), &chain.ca);
    let mut browser = Browser::start(home.path());
    let file = browser.download(&chain.url("/file"), chain.out.parent().unwrap());
    chain.is_whole(Path::new(&file));
    browser.close();
}
