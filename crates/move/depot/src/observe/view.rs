// SPDX-License-Identifier: GPL-2.0-or-later
//! A depot as a whole, looked at from outside.

use super::{
    registry::Reading,
    status::{
        AccessLogState, Certificate, Connections, DetourDepot, LargestClient, Memory, PeerPacing,
        RegisteredDepot, Reload, SCHEMA, Sessions, State, Status, StoreState,
    },
};
use crate::{
    config::Config, control::sharing, lifecycle::Phase, packet_pacing::Peer,
    register_keys::RegisterKeys, spare_descriptors, state::Shared, stored::Counted,
    transfers::Transfers,
};
use host::TcpMemory;
use protocol::{Panicked, announcement::Announcement};
use relay::buffers;
use std::{
    collections::BTreeMap,
    fs,
    sync::Arc,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

/// What there is to be seen.
#[derive(Debug)]
pub(crate) struct View {
    shared: Arc<Shared>,
    started: Instant,
}

impl View {
    /// Of a depot that starts.
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, started: Instant::now() }
    }

    /// Whether requests are taken.
    pub(crate) fn state(&self) -> State {
        if self.shared.lifecycle.is_leaving() { State::Draining } else { State::Serving }
    }

    /// Whether requests are taken at the addresses of this depot: by it, or by the one that has its listeners.
    pub(crate) fn is_served(&self) -> bool {
        self.shared.lifecycle.phase() != Phase::Stopping
    }

    /// Resolves once another depot has this one's listeners.
    pub(crate) async fn succeeded(&self) {
        self.shared.lifecycle.succeeded().await;
    }

    /// An answer to an operator was not made because of a defect.
    pub(crate) fn panicked(&self, panicked: &Panicked) {
        self.shared.observer.counts.panicked("an answer to an operator", panicked);
    }

    /// A connection of an operator could not be accepted: gives descriptors back that are kept for
    /// operators, if there are any.
    pub(crate) fn make_room(&self) -> bool {
        self.shared.observer.counts.not_accepted();
        let spare = &self.shared.lifecycle.spare.operators;
        [spare.release(), spare.release()].contains(&true)
    }

    /// All of it. Asks the kernel about each socket with a transfer: a few microseconds each.
    pub(crate) fn status(&self) -> Status {
        let (shared, config) = (&self.shared, self.shared.config());
        let Reading { counters: mut all, transfers, live_transfers } = shared.observer.read();
        let elsewhere = sharing::elsewhere(shared);
        all.add(&elsewhere.counters);
        let sessions = Sessions {
            open: all.open_sessions,
            meetings_waiting: shared.transfers.meetings.waiting(),
            ended: all.ended_sessions,
        };
        let settings = shared.settings();
        let mut reloads = vec![shared.observer.counts.configuration()];
        reloads.extend(shared.lifecycle.kept.last_read().map(Reload::of));
        reloads.extend(settings.register.as_ref().map(RegisterKeys::last_read));
        reloads.extend(
            settings.trust.reloads().chain(settings.logins.reloads()).chain(settings.tls.reloads()),
        );
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Status {
            schema: SCHEMA,
            id: shared.id.as_str().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            state: self.state(),
            time_unix_s: since_1970.as_secs_f64(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            connections: Connections {
                open: shared.admission.gate.len(),
                limit: config.limits.connections,
                held: shared.admission.gate.held(),
                idle_upstream: shared.next_hops.pool.len(),
            },
            memory: memory(&shared.transfers, &config, all.memory_refusals),
            totals: all.totals,
            refusals: all.refusals,
            access_log: AccessLogState {
                to: shared.observer.log.to(),
                dropped_lines: all.dropped_lines,
            },
            paced: shared.next_hops.paced.peers().iter().map(PeerPacing::from).collect(),
            detours: shared.next_hops.detours.checks().into_iter().map(DetourDepot::from).collect(),
            register: registered(shared, &config),
            forecasts: shared.next_hops.detours.forecasts().into_iter().map(Into::into).collect(),
            times: all.times,
            connect_failures: all.connect_failures,
            tls_failures: all.tls_failures,
            accept_failures: all.accept_failures,
            panics: all.panics,
            tickets: all.tickets,
            ticket_refusals: all.ticket_refusals,
            reloads,
            certificate: settings
                .tls
                .validity()
                .map(|validity| Certificate { not_after_unix_s: validity.until_unix_s() }),
            certificates: settings.tls.certificates(),
            hops: all.hops,
            transfers,
            live_transfers,
            draining: elsewhere.draining,
            clients: all.clients,
            ticket_transfers: all.ticket_transfers,
            sessions,
            store: shared.stored.counted().map(StoreState::from),
        }
    }
}

/// Announced depots.
fn registered(shared: &Shared, config: &Config) -> Vec<RegisteredDepot> {
    let (now, own) = (SystemTime::now().into(), config.register.as_ref().map(|it| &it.address));
    let of = |announcement: Announcement| {
        let is_own = Some(&announcement.address) == own;
        RegisteredDepot::of(announcement, is_own, now)
    };
    shared.next_hops.announcements.all().into_iter().map(of).collect()
}

/// The memory that transfers hold, and the host has.
fn memory(transfers: &Transfers, config: &Config, refusals: BTreeMap<String, u64>) -> Memory {
    let (kernel_memory, pipes) = (&transfers.kernel_memory, &transfers.resources.pipes);
    let (limit, host) = (spare_descriptors::limit(), TcpMemory::read().ok());
    Memory {
        sockets_held_bytes: kernel_memory.sockets() as u64,
        pipes_held_bytes: pipes.held() as u64,
        pipes_reserved_bytes: pipes.reserved() as u64,
        raised_buffers_bytes: pipes.shared() as u64,
        limit_bytes: config.limits.memory.get(),
        reserved_bytes: kernel_memory.reserved() as u64,
        client_share_bytes: config.limits.memory_of_client() as u64,
        largest_client: kernel_memory.largest_client().map(LargestClient::from),
        refusals,
        host_tcp_bytes: host.map(|host| host.held.get()),
        host_tcp_pressure_bytes: host
            .and_then(|host| host.pressure)
            .map(|pressure| pressure.begins.get()),
        resident_bytes: resident_bytes(),
        // Without a descriptor to look with there are as many as there may be.
        open_files: fs::read_dir("/proc/self/fd")
            .map_or(usize::try_from(limit).unwrap_or(0), Iterator::count),
        open_files_limit: limit,
    }
}

impl From<Counted> for StoreState {
    fn from(counted: Counted) -> Self {
        let Counted { is_open, usage, size, refused, expired } = counted;
        Self {
            open: is_open,
            sessions: usage.sessions,
            used_bytes: usage.bytes,
            size_bytes: size,
            refused,
            expired,
        }
    }
}

impl From<&Peer> for PeerPacing {
    fn from(peer: &Peer) -> Self {
        Self {
            peer: peer.net.to_string(),
            pacing: peer.method.to_string(),
            in_force: peer.is_in_force(),
        }
    }
}

impl From<buffers::LargestClient> for LargestClient {
    fn from(largest: buffers::LargestClient) -> Self {
        let buffers::LargestClient { client, transfers, reserved } = largest;
        Self { client: client.to_string(), transfers, reserved_bytes: reserved as u64 }
    }
}

impl From<(String, bool)> for DetourDepot {
    fn from((depot, up): (String, bool)) -> Self {
        Self { depot, up }
    }
}

/// This process's own memory; 0 where /proc does not tell.
fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}
