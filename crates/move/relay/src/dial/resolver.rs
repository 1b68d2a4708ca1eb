// SPDX-License-Identifier: GPL-2.0-or-later
//! Name resolution that bounds slow lookups, so that they delay only their own clients.
//!
//! The C library's resolver blocks a thread and cannot be cancelled: an abandoned lookup still has its thread.
//! So lookups are counted until their thread is done, in total and for each client. Concurrent lookups of one
//! name share one. Results are not cached: the system's resolver does that, by the name's own time to live.

use crate::{
    client_key::site_key,
    dial::{Class, PeerAddr, PeerHost, Refusal},
};
use rustix::io::Errno;
use socket2::{Domain, Socket, Type};
use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

/// Maximum number of concurrent lookups: far fewer than the runtime's blocking threads.
const MOST: usize = 64;
/// Maximum for one client. It may be a depot that asks for many, but names are few and lookups short.
const MOST_FOR_CLIENT: usize = 8;
/// Maximum for this host's own lookups. The operator chooses their names, and all may start at once.
const MOST_FOR_OWN: usize = MOST / 2;

/// The pseudo-client of this host's own lookups.
pub const OWN: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// The result of a lookup. `None` while it is under way.
type Found = Option<Arc<io::Result<Vec<IpAddr>>>>;

/// Resolves names.
#[derive(Debug, Clone)]
pub struct Names {
    under_way: Arc<Mutex<UnderWay>>,
    look_up: fn(&str) -> io::Result<Vec<IpAddr>>,
}

#[derive(Debug, Default)]
struct UnderWay {
    by_name: HashMap<String, watch::Receiver<Found>>,
    by_client: HashMap<IpAddr, usize>,
}

/// Resolves names for a client.
#[derive(Debug, Clone, Copy)]
pub struct Resolver<'a> {
    /// The shared lookups.
    pub names: &'a Names,
    /// The client that the lookups count for.
    pub client: IpAddr,
}

/// The slot of a lookup under way, returned when its thread is done.
struct LookupSlot {
    under_way: Arc<Mutex<UnderWay>>,
    name: String,
    client: IpAddr,
}

impl Default for Names {
    fn default() -> Self {
        Self { under_way: Arc::default(), look_up: by_system }
    }
}

/// All addresses of a name, from this system's resolver.
fn by_system(name: &str) -> io::Result<Vec<IpAddr>> {
    Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
}

impl Resolver<'_> {
    /// All addresses of a host, resolved before the deadline.
    ///
    /// The fault is 502 if the name has no address or none in time, and 503 if this host or this client has
    /// too many lookups under way.
    ///
    /// # Errors
    /// Why there are none.
    pub async fn addresses(
        self,
        of: &PeerAddr,
        deadline: Instant,
    ) -> Result<Vec<SocketAddr>, Refusal> {
        let name = match &of.host {
            PeerHost::Ip(ip) => return Ok(vec![SocketAddr::new(*ip, of.port)]),
            PeerHost::Name(name) => name,
        };
        let mut found = self.names.begin(name, self.client)?;
        let late = || {
            let text = format!("the name of {of} could not be resolved in time");
            Refusal::of_peer(Class::NameTimeout, text)
        };
        let found = timeout_at(deadline, found.wait_for(Option::is_some)).await;
        // A thread that ends without a word has panicked.
        let found = found.map_err(|_| late())?.map_err(|_| late())?.clone();
        match found.as_deref() {
            Some(Ok(all)) => Ok(all.iter().map(|ip| SocketAddr::new(*ip, of.port)).collect()),
            Some(Err(error)) => Err(unresolved(of, error)),
            None => Err(late()),
        }
    }
}

impl Names {
    /// Starts a lookup, or joins the one that is under way.
    fn begin(&self, name: &str, client: IpAddr) -> Result<watch::Receiver<Found>, Refusal> {
        let client = site_key(client);
        let mut under_way = lock(&self.under_way);
        if let Some(same) = under_way.by_name.get(name) {
            return Ok(same.clone());
        }
        let for_client = under_way.by_client.get(&client).copied().unwrap_or(0);
        let most_for_client = if client == OWN { MOST_FOR_OWN } else { MOST_FOR_CLIENT };
        if under_way.by_name.len() >= MOST || for_client >= most_for_client {
            let text = "too many look-ups of names are under way: try again";
            return Err(Refusal::of_host(text.to_owned(), true));
        }
        let (tell, told) = watch::channel(None);
        under_way.by_name.insert(name.to_owned(), told.clone());
        *under_way.by_client.entry(client).or_default() += 1;
        let under_way = Arc::clone(&self.under_way);
        let (slot, look_up) =
            (LookupSlot { under_way, name: name.to_owned(), client }, self.look_up);
        // The thread's own result is not needed.
        drop(tokio::task::spawn_blocking(move || {
            let found = look_up(&slot.name);
            // Before the result is sent, so that the next request starts a new lookup.
            drop(slot);
            tell.send_replace(Some(Arc::new(found)));
        }));
        Ok(told)
    }
}

impl Drop for LookupSlot {
    fn drop(&mut self) {
        let mut under_way = lock(&self.under_way);
        under_way.by_name.remove(&self.name);
        if let Some(count) = under_way.by_client.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                under_way.by_client.remove(&self.client);
            }
        }
    }
}

/// Why a name has no address. If this host cannot look it up, the name is not at fault.
fn unresolved(next: &PeerAddr, error: &io::Error) -> Refusal {
    // A resolver that cannot open its files may only say that there is no such name. Without a
    // descriptor there was nothing to be found, or to be connected with.
    let scarcity = || Socket::new(Domain::IPV4, Type::DGRAM, None).err().filter(is_scarcity);
    let scarce = if is_scarcity(error) { None } else { scarcity() };
    let why = scarce.as_ref().unwrap_or(error);
    if is_scarcity(why) {
        let text = format!("cannot look up the name of upstream {next}: {why}");
        return Refusal::of_host(text, true);
    }
    let text = format!("the name of upstream {next} does not resolve: {why}");
    Refusal::of_peer(Class::NameUnknown, text)
}

/// Whether this host has run out of a resource.
pub fn is_scarcity(error: &io::Error) -> bool {
    if error.kind() == io::ErrorKind::QuotaExceeded {
        return true;
    }
    let scarce = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    scarce.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Its data stays consistent after a panic elsewhere, so poisoning is ignored.
fn lock(under_way: &Mutex<UnderWay>) -> MutexGuard<'_, UnderWay> {
    under_way.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::{
            Condvar,
            atomic::{AtomicUsize, Ordering::SeqCst},
        },
        time::Duration,
    };

    /// A resolver that hangs until it is released, and counts its calls.
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    static LET_GO: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

    #[expect(clippy::unnecessary_wraps, reason = "as the system's resolver")]
    fn hangs(_: &str) -> io::Result<Vec<IpAddr>> {
        ASKED.fetch_add(1, SeqCst);
        drop(LET_GO.1.wait_while(LET_GO.0.lock().unwrap(), |go| !*go).unwrap());
        Ok(vec!["192.0.2.1".parse().unwrap()])
    }

    fn peer(name: &str) -> PeerAddr {
        PeerAddr { host: PeerHost::Name(name.to_owned()), port: 80, tls: false }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn hanging_lookups_are_bounded() {
        let names = Names { look_up: hangs, ..Names::default() };
        let ask = async |name: String, client: String| {
            let of = peer(&format!("{name}.example"));
            let soon = Instant::now() + Duration::from_millis(20);
            Resolver { names: &names, client: client.parse().unwrap() }.addresses(&of, soon).await
        };
        // One name is one look-up, however many ask; and those who ask wait no longer than they want to.
        for _ in 0..3 {
            let refusal = ask("same".into(), "192.0.2.9".into()).await.unwrap_err();
            assert_eq!(refusal.class, Class::NameTimeout);
        }
        assert_eq!(ASKED.load(SeqCst), 1);
        // A client has a limit across all the addresses of its site.
        for n in 0..20 {
            let client = format!("2001:db8:7:{n:x}::1");
            let refusal = ask(format!("n{n}"), client).await.unwrap_err();
            let expected = if n < MOST_FOR_CLIENT { Class::NameTimeout } else { Class::Scarce };
            assert_eq!(refusal.class, expected, "{n}: {refusal}");
        }
        // This host may ask for more at once, and leaves some to its clients.
        for n in 0..MOST {
            let refusal = ask(format!("own{n}"), OWN.to_string()).await.unwrap_err();
            let expected = if n < MOST_FOR_OWN { Class::NameTimeout } else { Class::Scarce };
            assert_eq!(refusal.class, expected, "{n}: {refusal}");
        }
        // All clients together have a limit. A request for a lookup under way still shares it.
        for n in 0..MOST {
            let _ = ask(format!("m{n}"), format!("198.51.100.{n}")).await;
        }
        assert_eq!(ASKED.load(SeqCst), MOST);
        assert_eq!(
            ask("late".into(), "203.0.113.1".into()).await.unwrap_err().class,
            Class::Scarce
        );
        let soon = Instant::now() + Duration::from_secs(20);
        let of = peer("same.example");
        let (found, ()) = tokio::join!(
            Resolver { names: &names, client: "192.0.2.9".parse().unwrap() }.addresses(&of, soon),
            async {
                *LET_GO.0.lock().unwrap() = true;
                LET_GO.1.notify_all();
            }
        );
        assert_eq!(found.unwrap(), ["192.0.2.1:80".parse().unwrap()]);
        // The slots are given back.
        while !lock(&names.under_way).by_name.is_empty() {
            tokio::task::yield_now().await;
        }
        assert!(lock(&names.under_way).by_client.is_empty());
        assert!(ask("late".into(), "203.0.113.1".into()).await.is_ok());
    }
}
