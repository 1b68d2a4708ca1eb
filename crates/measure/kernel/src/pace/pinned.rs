// SPDX-License-Identifier: GPL-2.0-or-later
//! Pacing that stays without a process: files in the BPF file system, a folder for each device.
//!
//! A device is paced when its folder has a link that is attached. The link is pinned last and detached
//! first, so pins without an attached link are the remains of an interrupted change. The next change
//! removes them and restores `gso_max_segs`.

use super::{
    Counts, Method, Options, Owner, Refusal, Sender, Setup,
    attach::{self, BEFORE, SEEN, SETUP, WORK},
    layout, notice,
    readings::{self, ONLY},
    requirements::{self, namespace},
};
use crate::{
    Error,
    bpffs::{
        clear, exists, file_system, pin_directories, remove_empty_directories,
        require_machines_mounts,
    },
    lock::Lock,
};
use host::{Device, DeviceHandle};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object, query::LinkTypeInfo};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

const LINK: &str = "link";
const MAPS: [&str; 4] = [SETUP, WORK, SEEN, BEFORE];
const FILES: [&str; 5] = [LINK, SETUP, WORK, SEEN, BEFORE];

/// A paced device.
#[derive(Debug, Clone)]
pub struct PacedDevice {
    /// Its name.
    pub device: String,
    /// The setup in force.
    pub setup: Setup,
    /// Why its packets are not kept apart so at present, if so: the device's queues are others now.
    pub lack: Option<String>,
    /// Counts of packets that have left.
    pub counts: Counts,
    /// The senders of paced packets.
    pub senders: Vec<Sender>,
}

/// Adds rules to a device, which is then paced until [`delete`] or a reboot. Answers their numbers.
///
/// A process that dies in here may leave a part, which the next call clears away.
///
/// # Errors
/// [`Error::Pacing`]; the machine lacks something ([`Error::is_lack`]); mounts of this process are not
/// the machine's. Then all is as it was.
pub fn add(options: &Options) -> Result<Vec<u32>, Error> {
    attach::require_kernel()?;
    require_machines_mounts()?;
    let _lock = Lock::take()?;
    sweep()?;
    let device = requirements::find(&options.device)?;
    let folder = Folder::of(device.index)?;
    let setup = match &folder {
        Some(folder) => {
            let setup = folder.setup()?;
            require_method(&device, options.method, setup.method)?;
            setup.with(&device, &options.frames, &options.rules)?
        }
        None => attach::first_setup(&device, options)?,
    };
    let change = Change { device, folder, setup };
    let made = change.make();
    remove_empty_directories();
    made?;
    let numbers = change.setup.rules.iter().map(|(number, _)| *number).collect::<Vec<_>>();
    Ok(numbers[numbers.len() - options.rules.len()..].to_vec())
}

/// Replaces the rules that an owner has on the devices of this network namespace, until
/// it replaces them again, [`delete`], or a reboot. A device that has no rules left is as before.
///
/// Rules of others stay. A process that dies in here leaves each device as it was or as it is
/// to be; the next call does the rest.
///
/// # Errors
/// As [`add`]; what can be known to be wrong before is, and then all is as it was.
pub fn replace(owner: Owner, wanted: &[Options]) -> Result<(), Error> {
    attach::require_kernel()?;
    require_machines_mounts()?;
    let _lock = Lock::take()?;
    sweep()?;
    let planned = wanted.iter().map(|options| Change::of(owner, options));
    let planned = planned.collect::<Result<Vec<_>, Error>>()?;
    let is_wanted = |folder: &Folder| planned.iter().any(|one| one.device.index == folder.index);
    let mut done = planned.iter().try_for_each(Change::make);
    for folder in Folder::here()?.into_iter().filter(|folder| !is_wanted(folder)) {
        done = done.and_then(|()| folder.remove_rules_of(owner));
    }
    remove_empty_directories();
    done
}

/// The new state of a device.
struct Change {
    device: Device,
    folder: Option<Folder>,
    setup: Setup,
}

impl Change {
    /// Replaces the rules that the owner has at that device.
    fn of(owner: Owner, options: &Options) -> Result<Self, Error> {
        let device = requirements::find(&options.device)?;
        let folder = Folder::of(device.index)?;
        let present = folder.as_ref().map(Folder::setup).transpose()?;
        let others = |setup: &Setup| setup.rules.len() > setup.count(owner);
        let setup = match present {
            // No other owner has rules there, so the method may change.
            Some(setup)
                if options.method.is_none_or(|method| method == setup.method) || others(&setup) =>
            {
                require_method(&device, options.method, setup.method)?;
                setup
            }
            _ => attach::first_setup(&device, &Options { rules: Vec::new(), ..options.clone() })?,
        };
        let setup = setup.with_rules_of(owner, &device, &options.frames, &options.rules)?;
        Ok(Self { device, folder, setup })
    }

    fn make(&self) -> Result<(), Error> {
        match &self.folder {
            Some(folder) if folder.setup()? == self.setup => Ok(()),
            Some(folder) if folder.setup()?.method != self.setup.method => {
                folder.end()?;
                begin(&self.device, &self.setup)
            }
            Some(folder) => folder.write(&self.device.name, &self.setup),
            None => begin(&self.device, &self.setup),
        }
    }
}

/// Refuses to have a device paced by two methods, or by one that its queue no longer goes with.
fn require_method(device: &Device, asked: Option<Method>, present: Method) -> Result<(), Error> {
    if asked.is_some_and(|method| method != present) {
        return Err(Refusal::OtherMethod { name: device.name.clone(), present }.into());
    }
    requirements::require(device, present)
}

/// Takes a rule from a device, or all of them; with the last of them, the device is as before.
///
/// # Errors
/// Nothing is paced there, or it has no such rule; as [`add`].
pub fn delete(name: &str, rule: Option<u32>) -> Result<(), Error> {
    attach::require_kernel()?;
    require_machines_mounts()?;
    let _lock = Lock::take()?;
    sweep()?;
    let not_paced = || Refusal::NotPaced { name: name.to_owned() };
    let absent = || Refusal::NoDevice { name: name.to_owned() };
    let device = DeviceHandle::find(name).map_err(|e| Error::system("look for a device", e))?;
    let folder = Folder::of(device.ok_or_else(absent)?.index)?.ok_or_else(not_paced)?;
    let mut setup = folder.setup()?;
    if let Some(number) = rule {
        let before = setup.rules.len();
        setup.rules.retain(|(other, _)| *other != number);
        if setup.rules.len() == before {
            return Err(Refusal::NoRule { name: name.to_owned(), number }.into());
        }
    }
    if rule.is_some() && !setup.rules.is_empty() {
        return folder.write(name, &setup);
    }
    folder.end()?;
    remove_empty_directories();
    Ok(())
}

/// The paced devices of the calling thread's network namespace.
///
/// # Errors
/// The machine lacks something ([`Error::is_lack`]); the kernel refused to tell.
pub fn list() -> Result<Vec<PacedDevice>, Error> {
    attach::require_kernel()?;
    let _lock = Lock::take()?;
    if require_machines_mounts().is_ok() {
        sweep()?;
    }
    let mut attached = Vec::new();
    for folder in Folder::here()? {
        if let Some(device) = Device::by_index(folder.index)? {
            let setup = folder.setup()?;
            let lack = requirements::require(&device, setup.method).err();
            let lack = lack.map(|error| error.to_string());
            let counts = readings::counts(&folder.map(WORK)?)?;
            let senders = readings::senders(&folder.map(SEEN)?)?;
            attached.push(PacedDevice { device: device.name, setup, lack, counts, senders });
        }
    }
    Ok(attached)
}

/// The directory with the pins of one device.
struct Folder {
    path: PathBuf,
    namespace: u64,
    index: u32,
}

impl Folder {
    fn all() -> Result<Vec<Self>, Error> {
        let mut all = Vec::new();
        for root in pin_directories() {
            let root = root.join("pace");
            let entries = match fs::read_dir(&root) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                entries => entries.map_err(|e| failed(&root, e))?,
            };
            for entry in entries {
                let path = entry.map_err(|e| failed(&root, e))?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let parts = name.split_once('-');
                let parts = parts.and_then(|(n, i)| Some((n.parse().ok()?, i.parse().ok()?)));
                if let Some((namespace, index)) = parts {
                    all.push(Self { path, namespace, index });
                }
            }
        }
        Ok(all)
    }

    /// Those of the paced devices of this network namespace.
    fn here() -> Result<Vec<Self>, Error> {
        let namespace = namespace()?;
        let mut here = Vec::new();
        for folder in Self::all()?.into_iter().filter(|one| one.namespace == namespace) {
            if folder.is_attached()? {
                here.push(folder);
            }
        }
        Ok(here)
    }

    /// That of a paced device.
    fn of(index: u32) -> Result<Option<Self>, Error> {
        Ok(Self::here()?.into_iter().find(|one| one.index == index))
    }

    fn name(&self) -> String {
        format!("{}-{}", self.namespace, self.index)
    }

    /// A link without a device has none any more, or was detached.
    fn is_attached(&self) -> Result<bool, Error> {
        if !exists(&self.path.join(LINK))? {
            return Ok(false);
        }
        let info = self.link()?.info().map_err(Error::bpf("look at a link"))?;
        Ok(matches!(info.info, LinkTypeInfo::Tcx(tcx) if tcx.ifindex != 0))
    }

    fn link(&self) -> Result<Link, Error> {
        let path = self.path.join(LINK);
        Link::open(&path).map_err(Error::bpf(format!("open {}", path.display())))
    }

    fn map(&self, file: &str) -> Result<MapHandle, Error> {
        let path = self.path.join(file);
        MapHandle::from_pinned_path(&path).map_err(Error::bpf(format!("open {}", path.display())))
    }

    fn value(&self, file: &str) -> Result<Vec<u8>, Error> {
        let value = self.map(file)?.lookup(&ONLY, MapFlags::ANY);
        let value = value.map_err(Error::bpf(format!("read {file}")))?;
        value.ok_or_else(|| failed(&self.path.join(file), io::ErrorKind::NotFound.into()))
    }

    fn setup(&self) -> Result<Setup, Error> {
        Ok(layout::read_setup(&self.value(SETUP)?))
    }

    /// The kernel replaces the whole setup at once. There is no notice meanwhile.
    fn write(&self, device: &str, setup: &Setup) -> Result<(), Error> {
        notice::withdraw(&self.name())?;
        attach::write(&self.map(SETUP)?, &layout::setup(setup))?;
        notice::publish(&self.name(), device, setup)
    }

    /// Takes away what an owner has there.
    fn remove_rules_of(&self, owner: Owner) -> Result<(), Error> {
        let mut setup = self.setup()?;
        if !setup.remove_rules_of(owner) {
            return Ok(());
        }
        match Device::by_index(self.index)? {
            Some(device) if !setup.rules.is_empty() => self.write(&device.name, &setup),
            _ => self.end(),
        }
    }

    /// Writes the notice of the setup in force, if an interrupted change has left it out.
    fn restore_notice(&self) -> Result<(), Error> {
        match Device::by_index(self.index)? {
            Some(device) if !notice::is_published(&self.name())? => {
                notice::publish(&self.name(), &device.name, &self.setup()?)
            }
            _ => Ok(()),
        }
    }

    fn end(&self) -> Result<(), Error> {
        notice::withdraw(&self.name())?;
        // Closing alone leaves it to the kernel when the program goes.
        self.link()?.detach().map_err(Error::bpf("detach the program"))?;
        self.put_back_and_clear()
    }

    /// When nothing is attached.
    fn put_back_and_clear(&self) -> Result<(), Error> {
        notice::withdraw(&self.name())?;
        if self.namespace == namespace()?
            && exists(&self.path.join(BEFORE))?
            && let Some(device) = Device::by_index(self.index)?
            && device.gso_max_segs == 1
        {
            let before = self.value(BEFORE)?;
            match before.first_chunk().map_or(0, |word| u32::from_ne_bytes(*word)) {
                0 => {}
                before => device.set_gso_max_segs(before)?,
            }
        }
        clear(&self.path, &FILES)
    }
}

fn failed(path: &Path, error: io::Error) -> Error {
    Error::system(format!("read {}", path.display()), error)
}

/// Removes the remains of devices that are gone and of interrupted changes: those in other
/// network namespaces only where a device had been paced.
fn sweep() -> Result<(), Error> {
    let here = namespace()?;
    let folders = Folder::all()?;
    for folder in &folders {
        let cut_short = folder.namespace == here || exists(&folder.path.join(LINK))?;
        if cut_short && !folder.is_attached()? {
            folder.put_back_and_clear()?;
        } else if folder.namespace == here {
            folder.restore_notice()?;
        }
    }
    notice::withdraw_others(&folders.iter().map(Folder::name).collect())?;
    remove_empty_directories();
    Ok(())
}

fn begin(device: &Device, setup: &Setup) -> Result<(), Error> {
    let object = attach::load(device, setup)?;
    let mut folder = Folder { path: PathBuf::new(), namespace: namespace()?, index: device.index };
    folder.path = file_system()?.join("pace").join(folder.name());
    let begun = begin_in(&folder, object, device, setup.method);
    if begun.is_err() {
        // What failed is what gets reported.
        let _ = folder.put_back_and_clear();
        return begun;
    }
    let said = notice::publish(&folder.name(), &device.name, setup);
    if said.is_err() {
        let _ = folder.end();
    }
    said
}

fn begin_in(
    folder: &Folder,
    mut object: Object,
    device: &Device,
    method: Method,
) -> Result<(), Error> {
    let path = &folder.path;
    let pinning = || format!("pin into {}", path.display());
    fs::create_dir_all(path).map_err(|e| Error::system(format!("make {}", path.display()), e))?;
    for mut map in object.maps_mut() {
        if let Some(file) = MAPS.iter().find(|file| map.name() == **file) {
            map.pin(path.join(file)).map_err(Error::bpf(pinning()))?;
        }
    }
    attach::set_segments(device, method)?;
    let mut link = attach::link(&object, device)?;
    link.pin(path.join(LINK)).map_err(Error::bpf(pinning()))
}
