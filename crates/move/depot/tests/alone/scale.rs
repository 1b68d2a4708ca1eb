// SPDX-License-Identifier: GPL-2.0-or-later
//! Very many connections at one depot, and very many transfers one after another: what they cost
//! while they are there, and that nothing of them stays.

pub mod crowd;
mod heap;

use crate::common::{
    held::{Held, most_resident, resident},
    process::Daemon,
};
use crowd::{Link, Origin, address, ask, come, connect, fetch, link, take};
use heap::Heap;
use longhaul_depot::status::Status;
use std::{
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};
use testkit::Turn;
use testkit::until;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    runtime::Runtime,
    task::JoinSet,
};
use tokio_rustls::{TlsConnector, rustls};

#[global_allocator]
static ALLOCATOR: heap::Counted = heap::Counted;

const IDLE: usize = 10_000;
const ACTIVE: usize = 1_000;
const CEILING: usize = 300 << 20;

const PLAIN: &str = "listen = [\"127.0.0.1:0\"]";

/// A depot with room for all, whose heap is counted.
fn depot(folder: &tempfile::TempDir, more: &str) -> (Daemon, Heap) {
    let file = folder.path().join("heap");
    let heap = Heap::at(&file);
    let settings = format!(
        "id = \"d1\"\n{more}\n[admin]\nlisten = \"127.0.0.1:0\"\n\
         [timeouts]\nkeep_alive = \"1h\"\n[limits]\nconnections = 12000\nper_client = 12000\n\
         [allow]\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]\nlocal = true\n"
    );
    let mut command = Daemon::command("exec \"$0\" \"$@\"", "depot", &settings);
    (Daemon::launched(command.env(heap::FILE, &file)).unwrap_or_else(|log| panic!("{log}")), heap)
}

/// Alone, with as many open files as it takes.
fn alone() -> Turn {
    let alone = crate::alone();
    // Two sockets and a pipe for each transfer, at the depot.
    let least = (IDLE + 5 * ACTIVE) as u64;
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let most = most.unwrap_or(u64::MAX);
    assert!(most >= least, "the hard limit on open files is {most}; this takes {least}");
    alone
}

/// Awaits a depot that has nothing to do and has closed what it kept for later, and tells what it
/// holds then.
fn at_rest(depot: &Daemon, clients: usize) -> usize {
    until("the depot has closed what it does not need", || {
        let Status { connections, memory, .. } = depot.status();
        connections.open == clients
            && connections.idle_upstream == 0
            && memory.pipes_reserved_bytes == 0
    });
    resident(depot.pid())
}

fn mb(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// What a depot holds when it rests, said in passing.
fn rested(depot: &Daemon, heap: &Heap, clients: usize, when: &str) -> usize {
    let resident = at_rest(depot, clients);
    println!(
        "{when}: {:.1} MB resident, {:.1} MB allocated",
        mb(resident),
        heap.live() as f64 / 1e6
    );
    resident
}

/// Lets all of a crowd fetch a target, some at a time.
fn all_fetch<S>(runtime: &Runtime, crowd: Vec<Link<S>>, target: &Arc<str>) -> Vec<Link<S>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let crowd = Mutex::new(crowd.into_iter());
    let count = crowd.lock().unwrap().len();
    come(runtime, count, |_| {
        let (mut client, target) = (crowd.lock().unwrap().next().unwrap(), Arc::clone(target));
        async move {
            fetch(&mut client, &target, "keep-alive").await;
            client
        }
    })
}

/// A body for each of the active, and how far it goes at a time.
const BODY: usize = 1 << 20;
const STEP: usize = 128 << 10;

/// Lets very many clients take bodies at the same time; the most that the depot held meanwhile.
fn all_active(runtime: &Runtime, depot: &Daemon, origin: &Origin) -> Held {
    let (to, route) = (depot.address, origin.route(&format!("/held/{BODY}")));
    let mut active = come(runtime, ACTIVE, |n| {
        let route = Arc::clone(&route);
        async move {
            let mut client = connect(address(IDLE + n), to).await;
            assert_eq!(ask(&mut client, &route, "keep-alive").await, BODY);
            client
        }
    });
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut most = Held::default();
            while !over.load(Relaxed) {
                let now = Held::by(depot.pid());
                if now.in_use() > most.in_use() {
                    most = now;
                }
            }
            most
        });
        for at in (STEP..=BODY).step_by(STEP) {
            // All have begun, and none is at its end.
            assert_eq!(depot.status().live_transfers, ACTIVE);
            origin.open_to(at);
            let takers = std::mem::take(&mut active).into_iter().map(async |mut client| {
                take(&mut client, STEP).await;
                client
            });
            active = runtime.block_on(async { takers.collect::<JoinSet<_>>().join_all().await });
        }
        over.store(true, Relaxed);
        watch.join().unwrap()
    })
}

#[test]
fn ten_thousand_idle_and_a_thousand_active_connections() {
    let _alone = alone();
    let (folder, runtime) = (tempfile::tempdir().unwrap(), Runtime::new().unwrap());
    let (depot, heap) = depot(&folder, PLAIN);
    let origin = Origin::new(&runtime);
    let to = depot.address;
    let empty = rested(&depot, &heap, 0, "at first");
    let idle = come(&runtime, IDLE, |n| connect(address(n), to));
    // Who has never asked is not waited for: so each has asked once.
    let idle = all_fetch(&runtime, idle, &origin.route("/5000"));
    let waiting = rested(&depot, &heap, IDLE, "10 000 idle");

    let most = all_active(&runtime, &depot, &origin);
    println!("and 1000 active: {most:?}, {:.1} MB in use", mb(most.in_use()));
    assert!(most.in_use() < CEILING, "{most:?}");

    let idle = all_fetch(&runtime, idle, &origin.route("/60000"));
    let peak = most_resident(depot.pid());
    println!("at most {:.1} MB resident", mb(peak));
    assert!(peak < CEILING, "{peak}");
    given_back(&depot, IDLE, waiting);
    rested(&depot, &heap, IDLE, "after a burst of work");
    drop(idle);
    given_back(&depot, 0, empty);
    rested(&depot, &heap, 0, "when all have gone");
}

/// Waits until a depot has freed at least half of its growth since it last had this many clients. It cannot
/// free all of it: one remaining object holds a page of 4 KB.
fn given_back(depot: &Daemon, clients: usize, before: usize) {
    at_rest(depot, clients);
    let allowed = before + most_resident(depot.pid()).saturating_sub(before) / 2;
    until("memory is given back", || resident(depot.pid()) <= allowed);
}

#[test]
fn idle_connections_with_tls() {
    const COUNT: usize = 2_000;
    let _alone = alone();
    let (folder, runtime) = (tempfile::tempdir().unwrap(), Runtime::new().unwrap());
    let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(file("own.pem"), own.cert.pem()).unwrap();
    std::fs::write(file("own.key"), own.signing_key.serialize_pem()).unwrap();
    let (depot, heap) = depot(
        &folder,
        &format!(
            "listen = []\n[tls]\nlisten = [\"127.0.0.1:0\"]\ncertificate = {:?}\nkey = {:?}",
            file("own.pem"),
            file("own.key")
        ),
    );
    let mut roots = rustls::RootCertStore::empty();
    roots.add(own.cert.der().clone()).unwrap();
    let settings = rustls::ClientConfig::builder().with_root_certificates(roots);
    let connector = TlsConnector::from(Arc::new(settings.with_no_client_auth()));
    let (origin, to) = (Origin::new(&runtime), depot.address);
    let empty = rested(&depot, &heap, 0, "at first");
    let idle = come(&runtime, COUNT, |n| {
        let connector = connector.clone();
        async move {
            let tcp = connect(address(n), to).await.into_inner();
            let name = to.ip().into();
            link(connector.connect(name, tcp).await.unwrap())
        }
    });
    let idle = all_fetch(&runtime, idle, &origin.route("/60000"));
    let waiting = rested(&depot, &heap, COUNT, "2000 idle with TLS");
    let each = (waiting - empty) / COUNT;
    println!("{each} bytes each");
    // As many as are promised without TLS would stay below the ceiling.
    assert!(each * IDLE < CEILING, "{each}");
    let idle = all_fetch(&runtime, idle, &origin.route("/60000"));
    given_back(&depot, COUNT, waiting);
    drop(idle);
    given_back(&depot, 0, empty);
}

/// Transfers one after another, by this many clients at a time.
const TRANSFERS: usize = 50_000;
const CLIENTS: usize = 16;
/// How many, before it is looked for the first time what has stayed.
const SETTLED: usize = 10_000;

#[test]
fn fifty_thousand_short_transfers_leak_no_memory() {
    let _alone = alone();
    let (folder, runtime) = (tempfile::tempdir().unwrap(), Runtime::new().unwrap());
    let (depot, heap) = depot(&folder, &format!("{PLAIN}\n[idle_connections]\nidle = \"1s\""));
    let origin = Origin::new(&runtime);
    let files = depot.open_files();
    let look = |numbers: Range<usize>| {
        let done = numbers.end;
        short_transfers(&runtime, &depot, &origin, numbers);
        let resident = at_rest(&depot, 0);
        // Who asked it for its status just now has a connection too.
        until("no file is left open", || depot.open_files() == files);
        let (resident_mb, heap_bytes) = (mb(resident), heap.live());
        println!(
            "after {done}: {resident_mb:.2} MB resident, {heap_bytes} bytes allocated, {files} files"
        );
        (resident, heap_bytes)
    };
    let (settled, last) = (look(0..SETTLED), look(SETTLED..TRANSFERS));
    // What answered the last question about its status may be on its way out. A byte of each transfer
    // would stay.
    let most = settled.1 + (TRANSFERS - SETTLED).cast_signed();
    until("nothing of them is left in its heap", || heap.live() < most);
    assert!(last.0 < settled.0 + (2 << 20), "{settled:?}, {last:?}");
}

/// Transfers of all kinds: on kept and on new connections, small and large, whole and broken off.
fn short_transfers(runtime: &Runtime, depot: &Daemon, origin: &Origin, numbers: Range<usize>) {
    let to = depot.address;
    let routes: Arc<[Arc<str>]> =
        ["/0", "/200", "/5000", "/70000"].map(|path| origin.route(path)).into();
    let next = Arc::new(AtomicUsize::new(numbers.start));
    let clients = (0..CLIENTS).map(|client| {
        let (routes, next, end) = (Arc::clone(&routes), Arc::clone(&next), numbers.end);
        async move {
            let mut kept = connect(address(client), to).await;
            loop {
                let number = next.fetch_add(1, Relaxed);
                if number >= end {
                    return;
                }
                let route = &routes[number % routes.len()];
                match number % 20 {
                    // Gone before it has all.
                    0 => {
                        let mut gone = connect(address(client), to).await;
                        ask(&mut gone, &routes[3], "keep-alive").await;
                    }
                    1..10 => fetch(&mut connect(address(client), to).await, route, "close").await,
                    _ => fetch(&mut kept, route, "keep-alive").await,
                }
            }
        }
    });
    runtime.block_on(async { clients.collect::<JoinSet<_>>().join_all().await });
}
