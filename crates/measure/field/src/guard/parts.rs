// SPDX-License-Identifier: GPL-2.0-or-later
//! The part of a run that this host has, its files, and its record on the way to the engine.
//!
//! ```text
//! DIRECTORY/work-KEEPER/   while a guard has the host: what is sent, what arrives, logs
//! DIRECTORY/parts/TOKEN    records that the engine has not fetched yet, the newest few
//! ```
//! Records stay when the connection ends, so that the engine can go on fetching by another one.

use crate::{
    message::{Answer, PartOrder, Stand},
    pack,
};
use lab::{
    Digest256, LoadedControls, Payloads,
    part::{self, Order, Part},
};
use scenario::Run;
use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use units::text::hexadecimal;

/// The most records that wait to be fetched.
const MOST_WAITING: usize = 8;
/// A piece of a record, in bytes.
const PIECE: u64 = 256 << 10;
const PARTS: &str = "parts";
/// How the folder of a guard begins; then comes its keeper's process.
const WORK: &str = "work-";

/// The parts of runs on this host.
#[derive(Debug)]
pub struct Parts {
    directory: PathBuf,
    work: PathBuf,
    payloads: Arc<Mutex<Payloads>>,
    controls: Option<LoadedControls>,
    current: Option<Current>,
    /// How many there were.
    number: u64,
}

#[derive(Debug)]
struct Current {
    part: Part,
    run: Run,
    folder: PathBuf,
}

/// The folder of a guard, by its keeper.
pub fn work_folder(directory: &Path, keeper: i32) -> PathBuf {
    directory.join(format!("{WORK}{keeper}"))
}

impl Parts {
    pub fn new(directory: &Path, keeper: i32) -> Self {
        Self {
            directory: directory.to_owned(),
            work: work_folder(directory, keeper),
            payloads: Arc::default(),
            controls: None,
            current: None,
            number: 0,
        }
    }

    /// Removes files of guards that were killed together with their keepers. Only the guard that has the host may do that.
    pub fn clean(&self) {
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let is_work = entry.file_name().to_string_lossy().starts_with(WORK);
            if is_work && entry.path() != self.work {
                // Another user's stays.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Brings a run's own congestion controls into the kernel, until they are put back.
    pub fn load(&mut self, run: &Run) -> Result<(), String> {
        self.controls = None;
        let controls = LoadedControls::provide(run).map_err(|error| error.to_string())?;
        self.controls = Some(controls);
        Ok(())
    }

    /// Ends a part that is at work.
    pub fn end(&mut self) {
        self.current = None;
    }

    /// Takes congestion controls out of the kernel again.
    pub fn unload(&mut self) {
        self.controls = None;
    }

    pub fn prepare(&mut self, order: PartOrder) -> Result<(), String> {
        self.current = None;
        let PartOrder { run, node, addresses, command } = order;
        if run.node(&node).is_none() {
            return Err(format!("the run has no node {node}"));
        }
        let said = |error: &dyn std::fmt::Display| error.to_string();
        self.number += 1;
        let (shared, folder) = (self.work.join("shared"), self.work.join(self.number.to_string()));
        for folder in [&shared, &folder] {
            let made = fs::create_dir_all(folder);
            made.map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let controls = self.controls.as_ref().map(LoadedControls::on_record);
        let order = Order {
            run: run.clone(),
            node,
            addresses,
            folder: folder.clone(),
            shared,
            payloads: Arc::clone(&self.payloads),
            longhaul: env::current_exe().map_err(|error| said(&error))?,
            method: crate::METHOD.to_owned(),
            congestion_controls: controls.cloned().unwrap_or_default(),
            command,
        };
        let part = Part::start(order).map_err(|error| said(&error))?;
        self.current = Some(Current { part, run, folder });
        Ok(())
    }

    fn current(&self) -> Result<&Current, String> {
        self.current.as_ref().ok_or_else(|| "there is no part of a run".to_owned())
    }

    /// Takes what happened elsewhere, and answers what happened here.
    pub fn stand(&self, ended: &[String], is_over: bool) -> Result<Answer, String> {
        let Current { part, run, .. } = self.current()?;
        let known = |name: &&String| {
            run.flows.iter().any(|flow| flow.name == **name)
                || run.events.iter().any(|event| event.name == **name)
        };
        ended.iter().filter(known).for_each(|name| part.has_happened(name));
        if is_over {
            part.others_are_over();
        }
        let (stand, hashes) = match part.stand() {
            part::Stand::Preparing => (Stand::Preparing, BTreeMap::new()),
            part::Stand::Ready(hashes) => (Stand::Ready, hashes),
            part::Stand::Running => (Stand::Running, BTreeMap::new()),
            part::Stand::Over => (Stand::Over, BTreeMap::new()),
        };
        let hashes = hashes.into_iter().map(|(flow, hash)| (flow, hexadecimal(&hash))).collect();
        Ok(Answer::Stand { stand, hashes, ended: part.ended() })
    }

    pub fn begin(&self, at_ns: i64, hashes: &BTreeMap<String, String>) -> Result<(), String> {
        let hash = |(flow, text): (&String, &String)| {
            let hash = digest(text).ok_or_else(|| format!("{text} is no SHA-256"))?;
            Ok((flow.clone(), hash))
        };
        let hashes: BTreeMap<String, Digest256> =
            hashes.iter().map(hash).collect::<Result<_, String>>()?;
        let now_ns = crate::clock::monotonic_ns();
        let until = Duration::from_nanos(u64::try_from(at_ns - now_ns).unwrap_or(0));
        self.current()?.part.begin(Instant::now() + until, hashes);
        Ok(())
    }

    /// The record of the part that is over, as a file.
    pub fn collect(&mut self, token: &str) -> Result<Answer, String> {
        let file = self.file(token)?;
        self.current()?;
        let Some(Current { part, folder, .. }) = self.current.take() else {
            return Err("there is no part of a run".to_owned());
        };
        let record = part.record().map_err(|error| error.to_string())?;
        let failed = |error: io::Error| format!("the record cannot be put down: {error}");
        let out = folder.with_extension("record");
        let packed = fs::create_dir_all(self.directory.join(PARTS)).and_then(|()| {
            self.make_room()?;
            part::write(&record, &folder, &out)?;
            pack::pack(&out, &file)
        });
        let _ = (fs::remove_dir_all(&out), fs::remove_dir_all(&folder));
        let (bytes, sha256) = packed.map_err(failed)?;
        Ok(Answer::File { bytes, sha256 })
    }

    pub fn fetch(&self, token: &str, offset: u64) -> Result<Answer, String> {
        let failed = |error: io::Error| format!("the record cannot be read: {error}");
        let mut file = fs::File::open(self.file(token)?).map_err(failed)?;
        file.seek(SeekFrom::Start(offset)).map_err(failed)?;
        let mut piece = Vec::new();
        file.take(PIECE).read_to_end(&mut piece).map_err(failed)?;
        Ok(Answer::Piece { data: pack::base64(&piece) })
    }

    pub fn discard(&self, token: &str) -> Result<(), String> {
        fs::remove_file(self.file(token)?).map_err(|error| error.to_string())
    }

    fn file(&self, token: &str) -> Result<PathBuf, String> {
        let is_one = token.len() == 16 && token.bytes().all(|b| b.is_ascii_hexdigit());
        if is_one {
            Ok(self.directory.join(PARTS).join(token))
        } else {
            Err("expected 16 hexadecimal digits".to_owned())
        }
    }

    /// Removes the oldest that wait.
    fn make_room(&self) -> io::Result<()> {
        let mut waiting = Vec::new();
        for entry in fs::read_dir(self.directory.join(PARTS))?.flatten() {
            waiting.push((entry.metadata()?.modified()?, entry.path()));
        }
        waiting.sort();
        let many = (waiting.len() + 1).saturating_sub(MOST_WAITING);
        waiting.iter().take(many).try_for_each(|(_, file)| fs::remove_file(file))
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.end();
        // Its keeper does the same, unless that was killed.
        let _ = fs::remove_dir_all(&self.work);
    }
}

fn digest(text: &str) -> Option<Digest256> {
    let byte = |n: usize| u8::from_str_radix(text.get(2 * n..2 * n + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..32).map(byte).collect();
    bytes.filter(|_| text.len() == 64)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_plain_names_and_are_few() {
        let folder = tempfile::tempdir().unwrap();
        let parts = Parts::new(folder.path(), 1);
        for wrong in ["", "../../../etc/pass", "0123456789abcde/", "0123456789abcdef0"] {
            assert!(parts.fetch(wrong, 0).is_err(), "{wrong}");
        }
        fs::create_dir(folder.path().join(PARTS)).unwrap();
        for n in 0..20 {
            fs::write(parts.file(&format!("{n:016x}")).unwrap(), vec![n; 300_000]).unwrap();
            parts.make_room().unwrap();
        }
        assert_eq!(fs::read_dir(folder.path().join(PARTS)).unwrap().count(), MOST_WAITING - 1);
        let Answer::Piece { data } = parts.fetch(&format!("{:016x}", 19), 262_144).unwrap() else {
            panic!("a piece");
        };
        assert_eq!(pack::from_base64(&data, 1 << 20).unwrap(), vec![19; 300_000 - 262_144]);
        parts.discard(&format!("{:016x}", 19)).unwrap();
        assert!(parts.fetch(&format!("{:016x}", 19), 0).is_err());
        assert!(parts.stand(&[], false).is_err() && parts.begin(0, &BTreeMap::new()).is_err());
    }

    #[test]
    fn leftovers_of_other_guards_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let [own, other] = [7, 8].map(|keeper| work_folder(folder.path(), keeper));
        for work in [&own, &other] {
            fs::create_dir_all(work.join("shared")).unwrap();
        }
        let parts = Parts::new(folder.path(), 7);
        parts.clean();
        assert!(own.exists() && !other.exists());
        drop(parts);
        assert!(!own.exists());
        let hash = [0xab; 32];
        assert_eq!(digest(&hexadecimal(&hash)), Some(hash));
        assert_eq!(
            (digest("ab"), digest(&"zz".repeat(32)), digest(&"é".repeat(32))),
            (None, None, None)
        );
    }
}
